//! Statements that are nearly what the index answers: left to the planner, and answered alike.

#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::index_answers::{compared, explained};
use crate::nested;
use crate::statements::{CREATE, GROUPS, GeneratedStatement, condition, rows, wheres};
use crate::support::Random;
use alluvia_snapshot::Admin;
use alluvia_types::Stage;

/// Conditions that no set of codes tells, or that mean something else to SQL than to a hasty reader.
const ODD_CONDITIONS: [&str; 42] = [
    "shelf + 1 < 5",
    "country = city",
    "upper(country) = city",
    "upper(shelf) = '3'",
    "lower(country) = NULL",
    "lower(country) IN ('chile', NULL)",
    "country ILIKE city",
    "initcap(country) = 'Chile'",
    "city <> item",
    "price > 100",
    "cents >= 0",
    "weight < 50.5",
    "share = 3.5",
    "shelf = 3.5",
    "shelf < 2.5",
    "shelf IN (1, 2.0)",
    "shelf = 99999999999",
    "country = NULL",
    "country IN (NULL, 'Chile')",
    "country NOT IN ('Chile', NULL)",
    "shelf NOT IN (1, NULL)",
    "shelf BETWEEN NULL AND 5",
    "NOT (shelf BETWEEN 3 AND NULL)",
    "open IS UNKNOWN",
    "(shelf > 3) IS TRUE",
    "country IS DISTINCT FROM city",
    "shelf IS NOT DISTINCT FROM 3.5",
    "price IS DISTINCT FROM 5",
    "shelf IN (SELECT 3)",
    "EXISTS (SELECT 1)",
    "coalesce(country, 'Chile') = 'Chile'",
    "CASE WHEN open THEN shelf ELSE 0 END = 0",
    "country || city = 'ChileLima'",
    "extract(month FROM sold_at) = 3",
    "extract(year FROM sold_at) = 2025.5",
    "extract(year FROM sold_at) IN (2025, NULL)",
    "date_trunc('week', sold_at) = TIMESTAMP '2025-03-03 00:00:00'",
    "sold_at >= now() - 300 * INTERVAL '1 day'",
    "day - 7 > '2025-03-01'",
    "1 = 1",
    "true",
    "(country = 'Chile') = open",
];

/// Values that are no aggregate of a measure.
const ODD_ITEMS: [&str; 18] = [
    "count(DISTINCT city)",
    "sum(DISTINCT quantity)",
    "count(*) FILTER (WHERE open)",
    "sum(cents) FILTER (WHERE shelf > 3)",
    "sum(cents + 1)",
    "sum(-quantity)",
    "sum(quantity) + 1",
    "sum(cents) / 2",
    "min(country)",
    "max(day)",
    "max(sold_at)",
    "sum(shelf)",
    "count(city)",
    "count(CASE WHEN open THEN 1 END)",
    "sum(CASE WHEN shelf > 3 THEN quantity ELSE 0 END)",
    "coalesce(sum(quantity), 0)",
    "count(NULL)",
    "max(cents) - min(cents)",
];

/// Keys that are no level.
const ODD_GROUPS: [&str; 11] = [
    "price",
    "quantity",
    "upper(country)",
    "shelf / 10",
    "shelf > 5",
    "date_trunc('week', sold_at)",
    "date_trunc('week', day)",
    "extract(month FROM sold_at)",
    "country IS NULL",
    "coalesce(city, 'none')",
    "ROLLUP (country, open)",
];

/// Statements around an aggregate that are more than it. `<where>` stands for conditions.
const ODD_FORMS: [&str; 14] = [
    "SELECT DISTINCT count(*) FROM sales s <where> GROUP BY country",
    "WITH x AS (SELECT 1) SELECT count(*) FROM sales s <where>",
    "SELECT count(*) FROM sales s, (SELECT 1) x <where>",
    "SELECT count(*) FROM (SELECT * FROM sales) s <where>",
    "SELECT sum(n) FROM (SELECT count(*) AS n FROM sales s <where> GROUP BY city) x",
    "SELECT count(*), (SELECT 1) FROM sales s <where>",
    "SELECT country, count(*), count(*) OVER () FROM sales s <where> GROUP BY country",
    "SELECT count(*) FROM sales s <where> HAVING count(*) > 10",
    "SELECT count(*) FROM sales s <where> UNION SELECT 5",
    "SELECT count(*) FROM sales s <where> EXCEPT SELECT 0",
    "SELECT country, 1 AS one, count(*) FROM sales s <where> GROUP BY country",
    "SELECT upper(city) AS city, count(*) FROM sales s <where> GROUP BY upper(city)",
    "SELECT country, count(*) FROM sales s <where> GROUP BY GROUPING SETS ((country), ())",
    "SELECT count(*) FROM sales s <where> GROUP BY country, open HAVING open",
];

/// What the planner refuses must be refused by whoever is faster, too.
const WRONG: [&str; 16] = [
    "SELECT country, count(*) FROM sales s",
    "SELECT country, city, count(*) FROM sales s GROUP BY country",
    "SELECT count(*) FROM sales s WHERE sales.country = 'Peru'",
    "SELECT count(*) FROM sales s WHERE nothing = 1",
    "SELECT sum(nothing) FROM sales s",
    "SELECT nothing, count(*) FROM sales s GROUP BY nothing",
    "SELECT count(*) FROM sales s GROUP BY 9",
    "SELECT count(*) FROM sales s ORDER BY 9",
    "SELECT count(*) FROM sales s LIMIT -1",
    "SELECT sum(country) FROM sales s",
    "SELECT count(*) FROM sales s WHERE shelf = 'abc'",
    "SELECT count(*) FROM sales s WHERE day > '2025-13-45'",
    "SELECT count(*) FROM sales s WHERE sum(cents) > 1",
    "SELECT sum(sum(cents)) FROM sales s",
    "SELECT country AS c, count(*) FROM sales s WHERE c = 'Peru' GROUP BY country",
    "SELECT \"Country\", count(*) FROM sales s GROUP BY \"Country\"",
];

/// Statements that read like what the index answers, and mean another thing.
const ALIKE: [&str; 14] = [
    "SELECT city AS country, count(*) FROM sales s GROUP BY city",
    "SELECT country AS c, country AS d, count(*) FROM sales s GROUP BY country, country",
    "SELECT count(1), count(2), count(*) FROM sales s",
    "SELECT count(*) FROM sales s GROUP BY country",
    "SELECT \"country\", s.\"open\", count(*) FROM public.sales s GROUP BY \"country\", s.\"open\"",
    "SELECT sales.country, count(*) FROM sales GROUP BY sales.country",
    "SELECT country FROM sales s GROUP BY country",
    "SELECT count(*) AS country, country AS count FROM sales s GROUP BY s.country",
    "SELECT date_trunc('MONTH', sold_at) AS m, count(*) FROM sales s GROUP BY 1",
    "SELECT mean(price), sum(price) AS sum FROM sales s WHERE ((country) = ('Peru'))",
    "SELECT count(*) FROM sales s WHERE NOT NOT (shelf < 5)",
    "SELECT count(*) FROM sales s WHERE shelf BETWEEN 9 AND 3",
    "SELECT count(*) FROM sales s WHERE 'Lima' <= city AND city <= 'Lima'",
    "SELECT /*+ freshness('0s') */ count(*) FROM sales s WHERE shelf = 3 AND shelf = 4",
];

/// A statement about which one thing is odd.
pub(crate) fn near_miss(random: &mut Random) -> String {
    let plain: Vec<String> = (0..random.below(2)).map(|_| condition(random)).collect();
    let (group, exact) = (random.pick(&GROUPS), random.pick(&nested::EXACT));
    match random.below(8) {
        0 | 1 => {
            let mut conditions = vec![random.pick(&ODD_CONDITIONS).to_owned()];
            conditions.extend(plain);
            match random.below(3) {
                0 => format!("SELECT {exact} FROM sales s WHERE {}", conditions.join(" OR ")),
                1 => format!("SELECT {exact} FROM sales s WHERE NOT ({})", conditions.join(" AND ")),
                _ => format!("SELECT {group}, {exact} FROM sales s{} GROUP BY {group}", wheres(&conditions)),
            }
        }
        2 => format!("SELECT {exact}, {} FROM sales s{}", random.pick(&ODD_ITEMS), wheres(&plain)),
        3 => format!(
            "SELECT {group}, {} AS odd, {exact} FROM sales s{} GROUP BY {group}",
            random.pick(&ODD_ITEMS),
            wheres(&plain)
        ),
        4 | 5 => {
            let group = random.pick(&ODD_GROUPS);
            // A ROLLUP is no value.
            let key = if group.starts_with("ROLLUP") { "country, open" } else { group };
            format!("SELECT {key}, {exact} FROM sales s{} GROUP BY {group}", wheres(&plain))
        }
        6 => random.pick(&ODD_FORMS).replace("<where>", wheres(&plain).trim_start()),
        _ if random.below(2) == 0 => random.pick(&WRONG).to_owned(),
        _ => random.pick(&ALIKE).to_owned(),
    }
}

/// Every odd thing by itself, in a statement that the index would answer without it.
fn each() -> Vec<String> {
    let mut each = Vec::new();
    for condition in ODD_CONDITIONS {
        each.push(format!("SELECT count(*), sum(cents) FROM sales s WHERE country = 'Peru' AND {condition}"));
        each.push(format!("SELECT open, count(*) FROM sales s WHERE NOT ({condition}) GROUP BY open"));
    }
    for item in ODD_ITEMS {
        each.push(format!("SELECT country, count(*), {item} AS odd FROM sales s WHERE shelf < 9 GROUP BY country"));
    }
    for group in ODD_GROUPS {
        each.push(format!("SELECT count(*), sum(cents) FROM sales s WHERE shelf < 9 GROUP BY {group}"));
    }
    for form in ODD_FORMS {
        each.push(form.replace("<where>", "WHERE shelf < 9"));
    }
    each.extend(WRONG.map(str::to_owned));
    each
}

#[tokio::test(flavor = "multi_thread")]
async fn near_misses_are_left_to_the_planner() {
    let mut random = Random(19);
    let dir = tempfile::tempdir().expect("a directory");
    let db = nested::open(&dir);
    let (short, all, general) = (db.session(), db.session(), db.session());
    nested::set(&short, &["index_rule", "cuboids"]).await;
    nested::set(&general, &["short_path", "index_rule", "predicate_cache"]).await;
    general.sql(CREATE).await.expect("creates");
    general.sql(&rows(&mut random, 600)).await.expect("inserts");
    db.core().organise(Stage::Merged).expect("organises");
    general.sql(&rows(&mut random, 40)).await.expect("inserts");
    let (mut answered, mut refused) = (0, 0);
    for sql in each() {
        let asked = GeneratedStatement::of(sql);
        for session in [&short, &all] {
            match compared(&asked, session, &general).await {
                true => answered += 1,
                false => refused += 1,
            }
        }
        if let Some(plan) = explained(&short, "EXPLAIN", &asked.sql).await {
            assert!(!plan.contains("IndexAnswer"), "{}\n{plan}", asked.sql);
        }
    }
    // What the planner refuses, too, is a small part of it.
    assert!(refused >= WRONG.len() && refused * 3 < answered, "{answered} answered, {refused} refused");
    // And without the odd thing the index does answer.
    for plain in ["SELECT count(*), sum(cents) FROM sales s WHERE country = 'Peru'", ALIKE[3], ALIKE[4]] {
        assert!(compared(&GeneratedStatement::of(plain.to_owned()), &short, &general).await);
        let plan = explained(&short, "EXPLAIN", plain).await.expect("explains");
        assert!(plan.contains("IndexAnswer"), "{plain}\n{plan}");
    }
}
