//! Aggregates of joins with small tables are answered as the general plan answers them: generated star joins, with keys that are
//! NULL, there twice, or missing on either side, against `SET index_rule = off`; and those that the index answers as a whole.

#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::nested::{both, compared, open, plan, seed, set};
use crate::statements::{CREATE, condition, rows};
use crate::support::Random;
use alluvia_query::Session;
use alluvia_snapshot::Admin;
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
        let shops =
            ["shops", "(SELECT city AS town, region, size AS kind, CAST(opened AS TIMESTAMP) AS opened FROM stores)"];
        let (kind, shops) = (random.pick(&["INNER", "INNER", "INNER", "LEFT"]), random.pick(&shops));
        from += &format!(" {kind} JOIN {shops} d ON s.city = d.town");
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
    if random.below(3) == 0 {
        from += " JOIN goods g ON s.item = g.article";
        choices.extend(["g.brand", "g.kind"]);
        if random.below(2) == 0 {
            conditions.push(format!("g.kind <> {}", random.below(4)));
        }
    }
    if random.below(4) == 0 {
        from += " JOIN nations n ON n.land = s.country";
        choices.extend(["n.continent", "n.people"]);
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
        "stddev(s.quantity)",
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
    unique_tables(&general).await;
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
const RESTS: [&str; 5] = [
    "SELECT sum(s.cents * d.kind) FROM sales s JOIN shops d ON s.city = d.town",
    "SELECT count(s.cents) FROM shops d LEFT JOIN sales s ON s.city = d.town",
    "SELECT d.region, count(*) FROM sales s JOIN shops d ON s.city = d.town AND s.price > d.kind GROUP BY d.region",
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
        let plan = plan(&session, "EXPLAIN (ANALYZE, FORMAT indent)", sql).await;
        // Where a join's keys turn out to repeat, what is cut answers.
        let tried = usize::from(plan.contains("joined=["));
        assert!(plan.contains(keys) && plan.matches("refused=").count() <= tried, "{sql}\n{plan}");
        assert_eq!(plan.contains("keys=["), !keys.is_empty(), "{sql}\n{plan}");
    }
    for sql in UNSTEADY {
        let plan = plan(&session, "EXPLAIN", sql).await;
        assert!(!plan.contains("keys=[") && !plan.contains("joined=["), "{sql}\n{plan}");
    }
    for sql in RESTS {
        assert!(!both(&session, &general, sql).await, "{sql}\n{}", plan(&session, "EXPLAIN", sql).await);
    }
}

/// Aggregates by dates, in joins and as units, and what is read ahead to narrow them.
const DATES: [(&str, &str); 9] = [
    (
        "SELECT d.week, sum(f.q), count(*) FROM facts f JOIN dates d ON f.day = d.day WHERE d.holiday GROUP BY 1",
        "keys=[day]",
    ),
    ("SELECT sum(q) FROM facts WHERE day IN (SELECT day FROM dates WHERE holiday)", "keys=[day]"),
    ("SELECT count(*) FROM facts f WHERE NOT EXISTS (SELECT 1 FROM dates d WHERE d.day = f.day AND d.holiday)", ""),
    ("SELECT d.week, count(*) FROM facts f LEFT JOIN dates d ON f.day = d.day GROUP BY 1", ""),
    (
        "SELECT s.region, date_trunc('month', f.day), sum(f.q) FROM facts f JOIN outlets s ON s.store = f.store GROUP BY 1, 2",
        "",
    ),
    // No calendar has weeks: days have them.
    (
        "SELECT s.region, date_trunc('week', f.day), sum(f.q) FROM facts f JOIN outlets s ON s.store = f.store GROUP BY 1, 2",
        "",
    ),
    ("SELECT date_trunc('month', day), sum(q) FROM facts GROUP BY 1 HAVING sum(q) > 0", ""),
    ("SELECT date_trunc('year', CAST(day AS TIMESTAMP)), count(*) FROM facts GROUP BY 1 HAVING count(*) > 1", ""),
    ("SELECT max(n) FROM (SELECT date_trunc('month', day), count(*) AS n FROM facts GROUP BY 1) x", ""),
];

#[tokio::test(flavor = "multi_thread")]
async fn dates_are_joined_and_cut_to_units_as_moments_are() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir);
    let (session, general) = (db.session(), db.session());
    set(&general, &["short_path", "index_rule"]).await;
    set(&session, &["cuboids"]).await;
    let days = "CASE WHEN i % 11 = 0 THEN NULL ELSE DATE '2023-11-20' + CAST(i * 7 % 120 AS INT) END";
    let select = format!("SELECT 's' || CAST(i % 5 AS TEXT), {days}, i % 10");
    let rows = |first, last| format!("INSERT INTO facts {select} FROM generate_series({first}, {last}) AS g(i)");
    for sql in [
        "CREATE TABLE facts (store TEXT, day DATE, q INT) WITH (dimensions = 'store; d(day: year, month, day)', measures = 'q')",
        "CREATE TABLE dates (day DATE, week INT, holiday BOOLEAN)",
        "CREATE TABLE outlets (store TEXT, region TEXT)",
        // Days that come twice, that no fact has, and NULL.
        "INSERT INTO dates SELECT DATE '2023-11-01' + CAST(i AS INT), i / 7, i % 10 = 3 FROM generate_series(0, 110) AS g(i)",
        "INSERT INTO dates VALUES ('2023-12-24', 99, true), ('2023-12-24', 99, true), (NULL, 7, true)",
        "INSERT INTO outlets VALUES ('s0', 'north'), ('s1', 'south'), ('s2', NULL), ('s9', 'north')",
        &rows(1, 3000),
        "CALL alluvia.merge()",
        &rows(3001, 3100),
    ] {
        session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    for (sql, keys) in DATES {
        assert!(both(&session, &general, sql).await, "{sql}\n{}", plan(&session, "EXPLAIN", sql).await);
        let plan = plan(&session, "EXPLAIN (ANALYZE, FORMAT indent)", sql).await;
        assert!(plan.contains(keys) && !plan.contains("refused="), "{sql}\n{plan}");
    }
}

/// Small tables whose keys come once: NULL among them, some that no sale has, and not all that sales have; attributes may be NULL.
pub(crate) async fn unique_tables(session: &Session) {
    for sql in [
        "CREATE TABLE stores (city TEXT, region TEXT, size INT, opened DATE)",
        "INSERT INTO stores VALUES ('Lima', 'south', 1, '2020-01-01'), ('Paris', 'north', 2, '2021-01-01'), ('Old Town', NULL, 3, NULL), \
         ('Lakeside', 'south', NULL, '2020-01-01'), ('Atlantis', 'deep', 2, NULL), (NULL, 'south', 9, NULL), (NULL, 'nowhere', 1, NULL)",
        "CREATE TABLE racks (id BIGINT, hall TEXT, width INT NOT NULL)",
        "INSERT INTO racks SELECT value, 'hall ' || CAST(value % 5 AS TEXT), value % 7 FROM generate_series(3, 44)",
        "INSERT INTO racks VALUES (NULL, 'hall 1', 3), (1099511627776, 'hall 2', 4)",
        "CREATE TABLE floors (hall TEXT, floor INT) WITH (dimensions = 'hall')",
        "INSERT INTO floors VALUES ('hall 0', 1), ('hall 1', 1), ('hall 3', 2), ('hall 9', 2), (NULL, 3)",
        "CREATE TABLE nations (land TEXT, continent TEXT, people BIGINT)",
        "INSERT INTO nations VALUES ('Chile', 'America', 19), ('Peru', 'America', 34), ('France', 'Europe', 68), ('Spain', 'Europe', 48)",
        "CREATE TABLE goods (article TEXT, brand TEXT, kind INT)",
        "INSERT INTO goods SELECT 'item ' || CAST(value AS TEXT), 'brand ' || CAST(value % 11 AS TEXT), value % 4 FROM generate_series(0, 1500)",
        "CREATE TABLE empties (city TEXT, region TEXT)",
    ] {
        session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

/// Star joins that are one question.
const WHOLE: [&str; 26] = [
    "SELECT d.region, sum(s.cents), count(*) FROM sales s JOIN stores d ON s.city = d.city GROUP BY d.region",
    "SELECT sum(s.cents), count(*), max(s.cents) FROM sales s JOIN stores d ON s.city = d.city WHERE d.region = 'south'",
    "SELECT d.region, r.hall, sum(s.price), avg(s.quantity), min(s.cents), max(s.amount), stddev(s.quantity) FROM sales s \
     JOIN stores d ON s.city = d.city JOIN racks r ON s.shelf = r.id WHERE d.size < 3 AND r.width > 2 GROUP BY d.region, r.hall",
    "SELECT g.brand, d.region, s.country, count(s.quantity), sum(s.amount) FROM sales s JOIN goods g ON s.item = g.article \
     JOIN stores d ON d.city = s.city JOIN racks r ON r.id = s.shelf WHERE g.kind <> 2 AND r.hall <> 'hall 3' GROUP BY 1, 2, 3",
    "SELECT n.continent || '!', date_trunc('month', s.sold_at), g.brand, sum(s.cents) FROM sales s, nations n, stores d, racks r, goods g \
     WHERE s.country = n.land AND s.city = d.city AND s.shelf = r.id AND s.item = g.article AND n.continent = 'America' \
     AND d.size IS NOT NULL AND r.width IN (1, 2, 5) AND g.brand LIKE 'brand 1%' GROUP BY 1, 2, 3",
    "SELECT l.floor, count(*), sum(s.quantity) FROM sales s JOIN racks r ON s.shelf = r.id JOIN floors l ON r.hall = l.hall GROUP BY l.floor",
    "SELECT l.floor, r.width, d.region, count(*) FROM sales s JOIN racks r ON s.shelf = r.id JOIN stores d ON s.city = d.city \
     JOIN floors l ON r.hall = l.hall WHERE l.floor < 2 GROUP BY l.floor, r.width, d.region",
    "SELECT x.floor, sum(s.cents) FROM sales s JOIN (SELECT r.id, l.floor FROM racks r JOIN floors l ON r.hall = l.hall) x ON s.shelf = x.id \
     GROUP BY x.floor",
    "SELECT s.open, sum(s.cents), count(*) FROM sales s WHERE s.city IN (SELECT city FROM stores WHERE size > 1) \
     AND s.shelf IN (SELECT id FROM racks WHERE hall = 'hall 1') GROUP BY s.open",
    "SELECT count(*), avg(s.price) FROM sales s WHERE s.city IN (SELECT town FROM shops)",
    "SELECT r.hall, count(*) FROM sales s JOIN racks r ON s.shelf = r.id \
     WHERE EXISTS (SELECT 1 FROM shops e WHERE e.town = s.city) GROUP BY r.hall",
    "SELECT r.hall, count(*) FROM sales s JOIN racks r ON s.shelf = r.id WHERE r.hall IN (SELECT hall FROM floors WHERE floor = 1) GROUP BY r.hall",
    "SELECT d.region, count(*) FROM sales s JOIN stores d ON s.city = d.city WHERE d.size > 1000 GROUP BY d.region",
    "SELECT count(*), sum(s.cents) FROM sales s JOIN stores d ON s.city = d.city WHERE d.size > 1000",
    "SELECT d.region, count(*) FROM sales s JOIN empties d ON s.city = d.city GROUP BY d.region",
    "SELECT d.region, sum(s.cents) AS v FROM sales s JOIN stores d ON s.city = d.city GROUP BY d.region HAVING count(*) > 3 ORDER BY v DESC LIMIT 2",
    "SELECT d.city, s.city, r.id, count(*) FROM sales s JOIN stores d ON s.city = d.city JOIN racks r ON s.shelf = r.id GROUP BY d.city, s.city, r.id",
    "SELECT upper(d.region), d.size * 2, date_trunc('year', d.opened), count(*) FROM sales s JOIN stores d ON s.city = d.city GROUP BY 1, 2, 3",
    "SELECT d.region, sum(s.cents) FROM sales s JOIN stores d ON s.city = d.city WHERE s.open AND s.country = 'Chile' AND d.size < 3 \
     AND s.city LIKE 'L%' GROUP BY d.region",
    "SELECT DISTINCT d.region, r.hall FROM sales s JOIN stores d ON s.city = d.city JOIN racks r ON s.shelf = r.id",
    "SELECT d.region, max(v) FROM (SELECT city, shelf, cents AS v FROM sales WHERE open) s JOIN stores d ON s.city = d.city \
     JOIN racks r ON s.shelf = r.id GROUP BY d.region",
    "SELECT a.region, b.opened, count(*) FROM sales s JOIN stores a ON s.city = a.city JOIN stores b ON s.city = b.city GROUP BY 1, 2",
    "SELECT g.brand, count(*) FROM sales s JOIN goods g ON s.item = g.article WHERE g.article <> 'item 7' GROUP BY g.brand",
    // Columns that are merged.
    "SELECT d.region, sum(s.cents), count(*) FROM sales s JOIN stores d USING (city) GROUP BY d.region",
    "SELECT city, d.region, count(*) FROM sales JOIN stores d USING (city) WHERE city <> 'Paris' AND d.size < 3 GROUP BY city, d.region",
    "SELECT x.region, x.v, y.v FROM (SELECT d.region, sum(s.cents) AS v FROM sales s JOIN stores d ON s.city = d.city GROUP BY d.region) x \
     JOIN (SELECT d.region, count(*) AS v FROM sales s JOIN stores d ON s.city = d.city WHERE s.open GROUP BY d.region) y ON x.region = y.region",
];

/// Joins that the plan answers once their small tables are read: keys come twice, where a sale counts twice, or what is grouped by
/// fails for a row that no sale joins.
const REFUSED: [&str; 6] = [
    "SELECT 100 / (n.people - 48), sum(s.cents) FROM sales s JOIN nations n ON s.country = n.land GROUP BY 100 / (n.people - 48)",
    "SELECT CAST(substr(d.city, 1, 1) || d.region AS INT), count(*) FROM sales s \
     JOIN (SELECT city, CASE WHEN city = 'Atlantis' THEN 'x' ELSE NULL END AS region FROM stores) d ON s.city = d.city GROUP BY 1",
    "SELECT d.region, sum(s.cents), count(*) FROM sales s JOIN shops d ON s.city = d.town GROUP BY d.region",
    "SELECT stddev(s.quantity) FROM sales s JOIN shops d ON s.city = d.town",
    "SELECT r.hall, d.kind, sum(s.cents) FROM sales s JOIN shops d ON s.city = d.town JOIN racks r ON s.shelf = r.id GROUP BY r.hall, d.kind",
    "SELECT count(*) FROM sales s JOIN (SELECT a.id, b.width FROM racks a JOIN racks b ON a.hall = b.hall) x ON s.shelf = x.id",
];

/// Joins that are no one question.
const CUT: [&str; 6] = [
    "SELECT d.region || r.hall, count(*) FROM sales s JOIN stores d ON s.city = d.city JOIN racks r ON s.shelf = r.id GROUP BY 1",
    "SELECT d.region, count(*) FROM sales s LEFT JOIN stores d ON s.city = d.city GROUP BY d.region",
    "SELECT d.region, count(*) FROM sales s JOIN stores d ON s.city = d.city AND s.country = d.region GROUP BY d.region",
    "SELECT d.region, count(*) FROM sales s JOIN stores d ON s.city = d.city AND s.shelf > d.size GROUP BY d.region",
    "SELECT r.hall, count(*) FROM sales s JOIN racks r ON s.shelf = r.id WHERE s.city NOT IN (SELECT town FROM shops WHERE town IS NOT NULL) GROUP BY r.hall",
    "SELECT a.country, count(*) FROM sales a JOIN (SELECT DISTINCT city FROM sales) b ON a.city = b.city GROUP BY a.country",
];

#[tokio::test(flavor = "multi_thread")]
async fn whole_star_joins_are_one_question() {
    let mut random = Random(11);
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir);
    let (tree, fast, general) = (db.session(), db.session(), db.session());
    set(&tree, &["cuboids"]).await;
    set(&general, &["short_path", "index_rule"]).await;
    general.sql(CREATE).await.expect("creates");
    small_tables(&general, &mut random).await;
    unique_tables(&general).await;
    general.sql(&rows(&mut random, 2_000)).await.expect("inserts");
    db.core().organise(Stage::Merged).expect("organises");
    general.sql(&rows(&mut random, 300)).await.expect("inserts");
    db.core().organise(Stage::Sorted).expect("organises");
    for session in [&tree, &fast] {
        // Items that came since have codes when the first statement meets them.
        general.sql(&rows(&mut random, 60)).await.expect("inserts");
        for sql in WHOLE {
            let explained = plan(session, "EXPLAIN", sql).await;
            assert!(explained.contains("joined=["), "{sql}\n{explained}");
            assert!(both(session, &general, sql).await, "{sql}");
            let analyzed = plan(session, "EXPLAIN (ANALYZE, FORMAT indent)", sql).await;
            assert!(!analyzed.contains("refused=") && analyzed.contains("_keys="), "{sql}\n{analyzed}");
        }
    }
    general.sql("CALL alluvia.build_cuboids()").await.expect("builds");
    general.sql(&rows(&mut random, 20)).await.expect("inserts");
    let mut by_cuboid = 0;
    for sql in WHOLE {
        assert!(both(&fast, &general, sql).await, "{sql}");
        by_cuboid += usize::from(plan(&fast, "EXPLAIN (ANALYZE, FORMAT indent)", sql).await.contains("cuboid=1"));
    }
    assert!(by_cuboid > 3, "cuboids answered {by_cuboid} statements only");
    for sql in REFUSED {
        assert!(both(&tree, &general, sql).await, "{sql}");
        let analyzed = plan(&tree, "EXPLAIN (ANALYZE, FORMAT indent)", sql).await;
        assert!(analyzed.contains("joined=[") && analyzed.contains("refused=1"), "{sql}\n{analyzed}");
    }
    for sql in CUT {
        both(&tree, &general, sql).await;
        let explained = plan(&tree, "EXPLAIN", sql).await;
        assert!(!explained.contains("joined=["), "{sql}\n{explained}");
    }
    let analyzed = plan(&tree, "EXPLAIN (ANALYZE, FORMAT indent)", WHOLE[2]).await;
    for shown in ["joined=[shelf, city]", "city_keys=", "city_groups=", "shelf_keys=", "shelf_groups=", "tail_rows="] {
        assert!(analyzed.contains(shown), "{shown}\n{analyzed}");
    }
}

/// Rows of a small table that only the transaction sees are joined; of the large one, the plan answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_joins_its_own_rows() {
    let mut random = Random(5);
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir);
    let session = db.session();
    session.sql(CREATE).await.expect("creates");
    small_tables(&session, &mut random).await;
    unique_tables(&session).await;
    session.sql(&rows(&mut random, 300)).await.expect("inserts");
    db.core().organise(Stage::Sorted).expect("organises");
    let general = db.session();
    set(&general, &["short_path", "index_rule"]).await;
    for session in [&session, &general] {
        session.sql("BEGIN ISOLATION LEVEL REPEATABLE READ").await.expect("begins");
        session.sql("INSERT INTO stores VALUES ('Lamu', 'coast', 1, NULL)").await.expect("inserts");
    }
    assert!(both(&session, &general, WHOLE[0]).await);
    let (_, batches) = crate::nested::answer(&session, WHOLE[0]).await;
    let shown = arrow::util::pretty::pretty_format_batches(&batches).expect("shows").to_string();
    assert!(shown.contains("coast"), "{shown}");
    for session in [&session, &general] {
        session.sql(&rows(&mut Random(9), 3)).await.expect("inserts");
    }
    assert!(!both(&session, &general, WHOLE[0]).await);
    for session in [&session, &general] {
        session.sql("ROLLBACK").await.expect("rolls back");
    }
}

/// Sums of a join that is cut are those of the whole, whatever its parts come to, or the same error.
#[tokio::test(flavor = "multi_thread")]
async fn sums_of_a_cut_join_are_exact_or_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir);
    let (session, general) = (db.session(), db.session());
    set(&session, &["cuboids"]).await;
    set(&general, &["short_path", "index_rule"]).await;
    for sql in [
        "CREATE TABLE f (k TEXT, x BIGINT, n INT) WITH (dimensions = 'k', measures = 'x, n')",
        "CREATE TABLE d (k TEXT, r TEXT)",
        "CREATE TABLE g (k TEXT, r TEXT)",
        "INSERT INTO f VALUES ('a', 5000000000000000000, 1), ('b', 5000000000000000000, 2), ('c', 9000000000000000000, 3), \
         ('c', 9000000000000000000, 4), ('p', 9000000000000000000, 5), ('p', 9000000000000000000, 6), \
         ('q', -9000000000000000000, 7), ('q', -9000000000000000000, 8), ('z', NULL, NULL)",
        "INSERT INTO d VALUES ('a', 'R'), ('b', 'R'), ('b', 'S'), ('b', 'T')",
        "INSERT INTO g VALUES ('b', 'S'), ('b', 'T')",
    ] {
        general.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    db.core().organise(Stage::Merged).expect("organises");
    let too_large = "SELECT d.r, sum(f.x) FROM f LEFT JOIN d ON f.k = d.k WHERE f.k <> 'c' AND f.k < 'p' GROUP BY d.r";
    for session in [&session, &general] {
        let answer = async { session.sql(too_large).await?.collect().await };
        let error = answer.await.expect_err("two sums of five make no BIGINT");
        assert_eq!(error.kind().sqlstate(), "22003", "{error}");
    }
    for (sql, values) in [
        // What joins nothing, here two rows of nine, is in no sum.
        ("SELECT g.r, sum(f.x) FROM f JOIN g ON f.k = g.k GROUP BY g.r", "5000000000000000000"),
        ("SELECT d.r, sum(f.x) FROM f LEFT JOIN d ON f.k = d.k WHERE f.k IN ('p', 'q') GROUP BY d.r", " 0 "),
        (
            "SELECT d.r, sum(f.n), sum(f.x), avg(f.n) FROM f LEFT JOIN d ON f.k = d.k WHERE f.k > 'd' GROUP BY d.r",
            " 26 ",
        ),
        ("SELECT d.r, sum(f.x) FROM f LEFT JOIN d ON f.k = d.k WHERE f.k = 'z' GROUP BY d.r", ""),
    ] {
        assert!(both(&session, &general, sql).await, "{sql}\n{}", plan(&session, "EXPLAIN", sql).await);
        let (_, batches) = crate::nested::answer(&session, sql).await;
        let shown = arrow::util::pretty::pretty_format_batches(&batches).expect("shows").to_string();
        assert!(shown.contains(values), "{sql}\n{shown}");
    }
}
