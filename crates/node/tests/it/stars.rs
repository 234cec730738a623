//! Aggregates of joins with small tables are answered as the general plan answers them: generated star joins, with keys that are
//! NULL, there twice, or missing on either side, against `SET index_rule = off`.

#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::nested::{both, compared, open, plan, seed, set};
use crate::statements::{CREATE, condition, rows};
use crate::support::Random;
use alluvia_query::Session;
use alluvia_snapshot::Store;
use alluvia_types::Stage;

/// The tables that star joins are with.
pub(crate) async fn small_tables(session: &Session, random: &mut Random) {
    for sql in [
        "CREATE TABLE shops (town TEXT, region TEXT, kind INT, opened TIMESTAMP)",
        "CREATE TABLE shelves (id BIGINT, hall TEXT, width INT NOT NULL)",
        "CREATE TABLE halls (hall TEXT, floor INT) WITH (dimensions = 'hall')",
    ] {
        session.sql(sql).await.expect("creates");
    }
    let cities = ["'Lima'", "'Paris'", "'Old Town'", "'Lakeside'", "'Lima'", "NULL", "'Atlantis'"];
    for city in cities {
        let region = random.pick(&["'north'", "'south'", "NULL"]);
        let insert = format!(
            "INSERT INTO shops VALUES ({city}, {region}, {}, TIMESTAMP '2020-0{}-01 00:00:00')",
            random.below(4),
            1 + random.below(3)
        );
        session.sql(&insert).await.expect("inserts");
    }
    let shelves: Vec<String> = (0..34u64)
        .map(|id| {
            let id = if random.below(8) == 0 {
                "NULL".to_owned()
            } else {
                (if id == 33 { 1 << 40 } else { id }).to_string()
            };
            format!("({id}, 'hall {}', {})", random.below(5), random.below(9))
        })
        .collect();
    session.sql(&format!("INSERT INTO shelves VALUES {}", shelves.join(", "))).await.expect("inserts");
    session
        .sql("INSERT INTO halls VALUES ('hall 0', 1), ('hall 1', 1), ('hall 3', 2), ('hall 9', 2)")
        .await
        .expect("inserts");
}

fn small_condition(random: &mut Random) -> String {
    match random.below(7) {
        0 => format!("d.kind {} {}", random.pick(&["<", "=", "<>"]), random.below(4)),
        1 => format!("d.region = {}", random.pick(&["'north'", "'south'", "'east'"])),
        2 => "d.region IS NULL".to_owned(),
        3 => "upper(d.town) LIKE 'L%'".to_owned(),
        4 => format!("d.town IN ('Paris', {})", random.pick(&["'Lima'", "'Atlantis'", "'Lamu'"])),
        5 => "d.opened >= TIMESTAMP '2020-02-01 00:00:00'".to_owned(),
        _ => "d.kind + 1 > 0".to_owned(),
    }
}

pub(crate) fn statement(random: &mut Random) -> String {
    let mut groups: Vec<&str> = Vec::new();
    let mut from = "sales s".to_owned();
    let mut conditions: Vec<String> = (0..random.below(2)).map(|_| condition(random)).collect();
    let mut choices = vec!["s.country", "s.city", "s.open", "date_trunc('month', s.sold_at)", "upper(s.country)"];
    let joined = random.below(6);
    if joined < 4 {
        from += &format!(" {} JOIN shops d ON s.city = d.town", random.pick(&["INNER", "INNER", "INNER", "LEFT"]));
        choices.extend(["d.region", "d.kind", "date_trunc('month', d.opened)", "d.region || s.country"]);
        if random.below(2) == 0 {
            conditions.push(small_condition(random));
        }
    }
    if joined.is_multiple_of(2) {
        from += " JOIN shelves h ON s.shelf = h.id";
        choices.extend(["h.hall", "h.width"]);
        if random.below(2) == 0 {
            conditions.push(format!("h.hall < 'hall {}'", random.below(6)));
        }
        if random.below(3) == 0 {
            from += " JOIN halls l ON h.hall = l.hall";
            choices.push("l.floor");
        }
    }
    match random.below(8) {
        0 => conditions.push(format!("s.city IN (SELECT town FROM shops WHERE kind < {})", random.below(4))),
        1 => conditions.push(format!("s.shelf NOT IN (SELECT id FROM shelves WHERE width > {})", random.below(9))),
        2 => conditions.push("EXISTS (SELECT 1 FROM shops e WHERE e.town = s.city AND e.region = 'north')".to_owned()),
        3 => conditions.push("NOT EXISTS (SELECT 1 FROM shops e WHERE e.town = s.city)".to_owned()),
        _ if joined == 5 => conditions.push("s.shelf IN (SELECT id FROM shelves WHERE hall = 'hall 2')".to_owned()),
        _ => {}
    }
    for _ in 0..random.below(3) {
        let choice = random.pick(&choices);
        if !groups.contains(&choice) {
            groups.push(choice);
        }
    }
    let values = [
        "count(*)",
        "count(s.quantity)",
        "sum(s.cents)",
        "sum(s.quantity)",
        "sum(s.price)",
        "sum(s.amount)",
        "sum(s.share)",
        "min(s.cents)",
        "max(s.price)",
        "avg(s.price)",
        "avg(s.quantity)",
        "avg(s.cents)",
        "avg(s.share)",
    ];
    let mut items: Vec<String> = groups.iter().enumerate().map(|(at, group)| format!("{group} AS g{at}")).collect();
    for at in 0..1 + random.below(3) {
        items.push(format!("{} AS v{at}", random.pick(&values)));
    }
    let mut sql = format!("SELECT {} FROM {from}", items.join(", "));
    if !conditions.is_empty() {
        sql += &format!(" WHERE {}", conditions.join(" AND "));
    }
    if !groups.is_empty() {
        sql += &format!(" GROUP BY {}", groups.join(", "));
    }
    match random.below(5) {
        0 => format!("SELECT count(*) AS n, max(v0) AS m FROM ({sql}) x"),
        1 if !groups.is_empty() => format!("{sql} HAVING count(*) > {}", random.below(100)),
        _ => sql,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn star_joins_are_the_general_plan() {
    let mut random = Random(seed());
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir);
    let (fast, tree, general) = (db.session(), db.session(), db.session());
    set(&tree, &["cuboids"]).await;
    set(&general, &["short_path", "index_rule"]).await;
    general.sql(CREATE).await.expect("creates");
    small_tables(&general, &mut random).await;
    general.sql(&rows(&mut random, 3_000)).await.expect("inserts");
    db.core().organise(Stage::Merged).expect("organises");
    compared(&db, [&fast, &tree], &general, &mut random, statement).await;
}

/// Star joins, and what is read ahead to narrow them.
const FIRES: [(&str, &str); 9] = [
    ("SELECT d.region, sum(s.price) FROM sales s JOIN shops d ON s.city = d.town GROUP BY d.region", ""),
    (
        "SELECT d.region, avg(s.price) FROM sales s JOIN shops d ON s.city = d.town WHERE d.kind < 2 GROUP BY d.region",
        "keys=[city]",
    ),
    (
        "SELECT h.hall, d.region, count(*) FROM sales s JOIN shops d ON s.city = d.town JOIN shelves h ON s.shelf = h.id \
         WHERE d.kind = 1 AND h.width > 3 GROUP BY h.hall, d.region",
        "keys=[shelf, city]",
    ),
    ("SELECT count(*) FROM sales WHERE city IN (SELECT town FROM shops WHERE kind = 2)", "keys=[city]"),
    (
        "SELECT country, sum(cents) FROM sales s WHERE EXISTS (SELECT 1 FROM shops d WHERE d.town = s.city) GROUP BY country",
        "keys=[city]",
    ),
    ("SELECT count(*) FROM sales WHERE city NOT IN (SELECT town FROM shops WHERE kind = 2)", ""),
    ("SELECT d.region, count(*) FROM sales s LEFT JOIN shops d ON s.city = d.town GROUP BY d.region", ""),
    (
        "SELECT date_trunc('month', s.sold_at), d.region, sum(quantity) FROM sales s, shops d WHERE s.city = d.town GROUP BY 1, 2",
        "",
    ),
    (
        "SELECT s.city, upper(s.city), count(*) FROM sales s JOIN shops d ON s.city = d.town GROUP BY s.city, upper(s.city)",
        "",
    ),
];

/// Joins whose other side is another each time it is read: its keys must not be read apart from it.
const UNSTEADY: [&str; 2] = [
    "SELECT count(*) FROM sales s JOIN (VALUES (CAST(floor(random() * 30) AS INT))) v(x) ON s.shelf = v.x",
    "SELECT count(*) FROM sales s JOIN shelves h ON s.shelf = h.id + CAST(floor(random() * 3) AS BIGINT) WHERE h.width > 3",
];

/// Joins below which nothing is aggregated: functions of both sides, rows that are filled up, columns that are no levels.
const RESTS: [&str; 6] = [
    "SELECT sum(s.cents * d.kind) FROM sales s JOIN shops d ON s.city = d.town",
    "SELECT count(s.cents) FROM shops d LEFT JOIN sales s ON s.city = d.town",
    "SELECT d.region, count(*) FROM sales s JOIN shops d ON s.city = d.town AND s.price > d.kind GROUP BY d.region",
    "SELECT stddev(s.quantity) FROM sales s JOIN shops d ON s.city = d.town",
    "SELECT count(DISTINCT s.quantity), sum(s.cents) FROM sales s JOIN shops d ON s.city = d.town",
    "SELECT count(*) FROM sales s JOIN shops d ON s.price = d.kind",
];

#[tokio::test(flavor = "multi_thread")]
async fn star_joins_are_cut_where_they_can_be() {
    let mut random = Random(3);
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir);
    let (session, general) = (db.session(), db.session());
    set(&general, &["short_path", "index_rule"]).await;
    session.sql(CREATE).await.expect("creates");
    small_tables(&session, &mut random).await;
    session.sql(&rows(&mut random, 400)).await.expect("inserts");
    db.core().organise(Stage::Sorted).expect("organises");
    session.sql(&rows(&mut random, 40)).await.expect("inserts");
    for (sql, keys) in FIRES {
        assert!(both(&session, &general, sql).await, "{sql}\n{}", plan(&session, "EXPLAIN", sql).await);
        let plan = plan(&session, "EXPLAIN ANALYZE", sql).await;
        assert!(plan.contains(keys) && !plan.contains("refused="), "{sql}\n{plan}");
        assert_eq!(plan.contains("keys=["), !keys.is_empty(), "{sql}\n{plan}");
    }
    for sql in UNSTEADY {
        let plan = plan(&session, "EXPLAIN", sql).await;
        assert!(!plan.contains("keys=["), "{sql}\n{plan}");
    }
    for sql in RESTS {
        assert!(!both(&session, &general, sql).await, "{sql}\n{}", plan(&session, "EXPLAIN", sql).await);
    }
}
