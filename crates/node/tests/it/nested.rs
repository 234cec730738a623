//! Aggregates inside larger statements are answered as the general plan answers them: generated statements with HAVING, derived
//! tables, CTEs, UNION ALL, joins of aggregates and scalar subqueries against `SET index_rule = off`, while rows lie in the
//! tail, in sorted and in merged segments.
//!
//! `ALLUVIA_TEST_SECONDS` and `ALLUVIA_TEST_SEED` are as for `index_answers`.

#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::index_answers::{agree, shown};
use crate::statements::{CREATE, condition, rows};
use crate::support::{Random, variable};
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::Session;
use alluvia_snapshot::Admin;
use alluvia_types::Stage;
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int64Type, SchemaRef};
use arrow::util::pretty::pretty_format_batches;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const KEYS: [&str; 5] = ["country", "city", "shelf", "open", "date_trunc('month', sold_at)"];
const VALUES: [&str; 12] = [
    "count(*)",
    "count(quantity)",
    "sum(cents)",
    "sum(quantity)",
    "min(cents)",
    "max(quantity)",
    "sum(price)",
    "avg(price)",
    "avg(quantity)",
    "sum(amount)",
    "max(share)",
    "stddev(quantity)",
];
/// Of which nothing depends on the last digit of a float.
pub(crate) const EXACT: [&str; 5] = ["count(*)", "sum(cents)", "sum(quantity)", "max(cents)", "count(amount)"];

fn wheres(random: &mut Random) -> String {
    let conditions: Vec<String> = (0..random.below(3)).map(|_| condition(random)).collect();
    if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) }
}

/// `key AS k, value AS v, exact value AS n`, grouped by the key.
fn grouped(random: &mut Random, key: &str) -> String {
    let (value, exact) = (random.pick(&VALUES), random.pick(&EXACT));
    format!("SELECT {key} AS k, {value} AS v, {exact} AS n FROM sales s{} GROUP BY {key}", wheres(random))
}

pub(crate) fn statement(random: &mut Random) -> String {
    let key = random.pick(&KEYS);
    let (value, exact) = (random.pick(&VALUES), random.pick(&EXACT));
    let number = random.below(400);
    match random.below(13) {
        0 => format!("{} HAVING {exact} {} {number}", grouped(random, key), random.pick(&["<", ">", "<>"])),
        1 => format!(
            "{} HAVING count(*) > {} ORDER BY n DESC NULLS LAST, k LIMIT {}",
            grouped(random, key),
            number / 10,
            random.below(5)
        ),
        2 => format!("SELECT count(*), sum(n), max(n), min(k) FROM ({}) x WHERE n > {number}", grouped(random, key)),
        3 => format!(
            "WITH x AS ({}) SELECT k, v, n FROM x WHERE k IS NOT NULL UNION ALL SELECT NULL, NULL, sum(n) FROM x",
            grouped(random, "country")
        ),
        4 => format!(
            "SELECT 'a' AS which, {value} AS v FROM sales s{} UNION ALL SELECT 'b', {value} FROM sales s{}",
            wheres(random),
            wheres(random)
        ),
        5 => format!(
            "SELECT x.k, x.v, x.n, y.k, y.v, y.n FROM ({}) x {} JOIN ({}) y ON x.k = y.k",
            grouped(random, key),
            random.pick(&["INNER", "LEFT", "FULL"]),
            grouped(random, key)
        ),
        6 => format!(
            "SELECT {key}, {exact} FROM sales s WHERE shelf > (SELECT {} FROM sales s{}) GROUP BY {key}",
            random.pick(&["min(quantity)", "count(*) / 100", "max(quantity) / 3"]),
            wheres(random)
        ),
        7 => format!(
            "SELECT (SELECT {value} FROM sales s{}) AS v, (SELECT {exact} FROM sales s{}) AS n",
            wheres(random),
            wheres(random)
        ),
        8 => format!(
            "SELECT k, (SELECT {exact} FROM sales s WHERE s.country = x.k) AS n FROM (SELECT DISTINCT country AS k FROM sales s{}) x",
            wheres(random)
        ),
        9 => format!("SELECT count(DISTINCT city), count(DISTINCT shelf) FROM sales s{}", wheres(random)),
        10 => format!("SELECT k, n, rank() OVER (ORDER BY n DESC, k) AS r FROM ({}) x", grouped(random, key)),
        11 => format!(
            "SELECT a, b, {exact} FROM (SELECT country AS a, country AS b, cents, quantity, amount FROM sales s{}) x GROUP BY a, b",
            wheres(random)
        ),
        _ => format!("SELECT {key}, {value} * 2, coalesce({exact}, 0) + 1 FROM sales s{} GROUP BY 1", wheres(random)),
    }
}

pub(crate) async fn answer(session: &Session, sql: &str) -> (SchemaRef, Vec<RecordBatch>) {
    let outcome = session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let schema = outcome.rows.as_ref().expect("a query has columns").schema();
    (schema, outcome.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}")))
}

/// The statement's plan, as EXPLAIN shows it.
pub(crate) async fn plan(session: &Session, explain: &str, sql: &str) -> String {
    let (_, batches) = answer(session, &format!("{explain} {sql}")).await;
    pretty_format_batches(&batches).expect("shows").to_string()
}

/// Panics unless both sessions give the same; tells whether the index had a part in it.
pub(crate) async fn both(fast: &Session, general: &Session, sql: &str) -> bool {
    let (expected_schema, expected) = answer(general, sql).await;
    let (schema, found) = answer(fast, sql).await;
    let columns = |schema: &SchemaRef| -> Vec<(String, DataType)> {
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
    };
    assert_eq!(columns(&schema), columns(&expected_schema), "{sql}");
    // What statistics answer is a constant to the planner, which then knows that it is not NULL.
    let fields = schema.fields().iter().zip(expected_schema.fields());
    assert!(fields.into_iter().all(|(field, expected)| field.is_nullable() || !expected.is_nullable()), "{sql}");
    let is_ordered = sql.contains("LIMIT");
    let (found, expected) = (shown(&found, is_ordered), shown(&expected, is_ordered));
    assert!(agree(&found, &expected), "{sql}\n{found:?}\n{expected:?}");
    plan(fast, "EXPLAIN", sql).await.contains("IndexAnswerExec")
}

pub(crate) fn open(dir: &tempfile::TempDir) -> Database {
    Database::open_with(dir.path().join("db"), DatabaseOptions::default()).expect("opens")
}

pub(crate) async fn set(session: &Session, settings: &[&str]) {
    for setting in settings {
        session.sql(&format!("SET {setting} = off")).await.expect("sets");
    }
}

pub(crate) fn seed() -> u64 {
    let seed = variable("ALLUVIA_TEST_SEED").unwrap_or(0x5eed);
    println!("ALLUVIA_TEST_SEED={seed}");
    seed | 1
}

pub(crate) fn seconds(default: u64) -> Duration {
    Duration::from_secs(variable("ALLUVIA_TEST_SECONDS").unwrap_or(default))
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_aggregates_are_the_general_plan() {
    let mut random = Random(seed());
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir);
    let (fast, tree, general) = (db.session(), db.session(), db.session());
    set(&fast, &["short_path"]).await;
    set(&tree, &["short_path", "cuboids"]).await;
    set(&general, &["short_path", "index_rule"]).await;
    general.sql(CREATE).await.expect("creates");
    general.sql(&rows(&mut random, 3_000)).await.expect("inserts");
    db.core().organise(Stage::Merged).expect("organises");
    compared(&db, [&fast, &tree], &general, &mut random, statement).await;
}

/// Asks random statements while rows come and are organised: the index must have a part in a third of them.
pub(crate) async fn compared(
    db: &Database,
    fast: [&Session; 2],
    general: &Session,
    random: &mut Random,
    statement: fn(&mut Random) -> String,
) {
    let (time, start) = (seconds(20), Instant::now());
    let (mut asked, mut answered) = (0, 0);
    while start.elapsed() < time || asked < 150 {
        if random.below(12) == 0 {
            let count = 1 + random.below(60);
            general.sql(&rows(random, count)).await.expect("inserts");
        }
        if random.below(100) == 0 {
            db.core().organise(Stage::Sorted).expect("organises");
        }
        let sql = statement(random);
        let session = fast[random.below(2) as usize];
        answered += u64::from(both(session, general, &sql).await);
        asked += 1;
    }
    println!("{asked} statements, {answered} with answers of the index");
    assert!(answered * 3 > asked, "the index had a part in {answered} of {asked} statements only");
}

/// Statements, and how many of their aggregates the index answers.
const FIRES: [(&str, usize); 17] = [
    ("SELECT country, count(*) FROM sales GROUP BY country HAVING count(*) > 3", 1),
    ("SELECT max(n) FROM (SELECT city, count(*) AS n FROM sales WHERE shelf < 5 GROUP BY city) x", 1),
    ("WITH x AS (SELECT country, sum(cents) AS n FROM sales GROUP BY country) SELECT * FROM x WHERE n > 5", 1),
    ("SELECT count(*) FROM sales WHERE open UNION ALL SELECT count(*) FROM sales WHERE NOT open", 2),
    (
        "SELECT x.country, a / b FROM (SELECT country, sum(cents) AS a FROM sales GROUP BY country) x \
         JOIN (SELECT country, count(*) AS b FROM sales WHERE day >= '2025-01-01' GROUP BY country) y ON x.country = y.country",
        2,
    ),
    ("SELECT (SELECT count(*) FROM sales WHERE city = 'Lima') * 1.0 / (SELECT count(*) FROM sales)", 2),
    ("SELECT shelf FROM (VALUES (1), (90)) v(shelf) WHERE shelf > (SELECT avg(quantity) FROM sales)", 1),
    ("SELECT DISTINCT country, open FROM sales WHERE item LIKE 'item 1%'", 1),
    ("SELECT count(DISTINCT city) FROM sales WHERE sold_at >= '2025-01-01'", 1),
    ("SELECT date_trunc('month', sold_at) AS m, avg(price) FROM sales GROUP BY 1 HAVING avg(price) > 0 ORDER BY 1", 1),
    ("SELECT country, rank() OVER (ORDER BY sum(cents)) FROM sales GROUP BY country", 1),
    ("SELECT sum(price) + 1 FROM sales WHERE country IN ('Chile', 'Peru') OR country IS NULL", 1),
    ("SELECT stddev(quantity), var_pop(quantity) + 1, min(share), max(amount), sum(amount) FROM sales", 1),
    (
        "SELECT c, count(*) FROM (SELECT country AS c, shelf AS d FROM sales s WHERE city <> 'Lima') x WHERE d = 3 GROUP BY c",
        1,
    ),
    ("SELECT count(*) + 1 FROM sales WHERE shelf + 1 = 3", 1),
    (
        "SELECT country, sum(cents) FROM sales WHERE length(city) > 4 OR NOT upper(country) = 'PERU' GROUP BY country HAVING count(*) > 1",
        1,
    ),
    ("SELECT count(*) + 1 FROM sales WHERE shelf % 7 < 3 AND nullif(city, 'Lima') <> 'Paris' AND shelf < 9.5", 1),
];

/// Statements that the index cannot answer, or must not.
const RESTS: [&str; 13] = [
    "SELECT sum(price) + 1 FROM (SELECT price FROM sales LIMIT 5) x",
    "SELECT count(*) + 1 FROM sales WHERE price > 100",
    "SELECT count(*) + 1 FROM sales WHERE weight + 1 = 3",
    "SELECT count(*) + 1 FROM sales WHERE shelf + quantity = 3",
    "SELECT sum(DISTINCT quantity), sum(cents) FROM sales",
    "SELECT count(*) FILTER (WHERE open) + 1 FROM sales",
    "SELECT sum(cents + 1) FROM sales HAVING count(*) > 0",
    "SELECT avg(amount) + 1 FROM sales",
    "SELECT price, count(*) FROM sales GROUP BY price HAVING count(*) > 0",
    "SELECT country, city, count(*) FROM sales GROUP BY ROLLUP (country, city) HAVING count(*) > 0",
    "SELECT count(*) + 1 FROM sales WHERE country = city",
    "SELECT count(*) + 1 FROM sales WHERE random() < 2",
    "SELECT array_agg(quantity ORDER BY cents) FROM sales WHERE shelf = 2",
];

#[tokio::test(flavor = "multi_thread")]
async fn the_rule_fires_where_it_can_and_only_there() {
    let mut random = Random(77);
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir);
    let session = db.session();
    // Which shapes are resident by when is up to the machine.
    set(&session, &["cuboids"]).await;
    session.sql(CREATE).await.expect("creates");
    session.sql(&rows(&mut random, 400)).await.expect("inserts");
    db.core().organise(Stage::Sorted).expect("organises");
    session.sql(&rows(&mut random, 40)).await.expect("inserts");
    for (sql, count) in FIRES {
        let plan = plan(&session, "EXPLAIN", sql).await;
        assert_eq!(plan.matches("IndexAnswerExec").count(), count, "{sql}\n{plan}");
        let analyzed = self::plan(&session, "EXPLAIN (ANALYZE, FORMAT indent)", sql).await;
        assert!(!analyzed.contains("refused="), "{sql}\n{analyzed}");
        assert_eq!(analyzed.matches("cuboid=").count(), count, "{sql}\n{analyzed}");
    }
    let analyzed = plan(&session, "EXPLAIN (ANALYZE, FORMAT indent)", FIRES[0].0).await;
    for figure in ["covered=", "disjoint=", "cut=", "rows_filtered=", "tail_rows=40"] {
        assert!(analyzed.contains(figure), "{figure}\n{analyzed}");
    }
    for sql in RESTS {
        let plan = plan(&session, "EXPLAIN", sql).await;
        assert!(!plan.contains("IndexAnswer"), "{sql}\n{plan}");
    }
    session.sql("SET index_rule = off").await.expect("sets");
    assert!(!plan(&session, "EXPLAIN", FIRES[0].0).await.contains("IndexAnswer"));
    session.sql("RESET index_rule").await.expect("resets");
    // Rows that only the transaction sees are in no index.
    session.sql("BEGIN ISOLATION LEVEL REPEATABLE READ").await.expect("begins");
    assert!(plan(&session, "EXPLAIN", FIRES[0].0).await.contains("IndexAnswer"));
    let count = "SELECT count(*) + 0 FROM sales";
    let before = answer(&session, count).await.1[0].column(0).as_primitive::<Int64Type>().value(0);
    session.sql(&rows(&mut random, 3)).await.expect("inserts");
    assert!(!plan(&session, "EXPLAIN", FIRES[0].0).await.contains("IndexAnswer"));
    let after = answer(&session, count).await.1[0].column(0).as_primitive::<Int64Type>().value(0);
    assert_eq!(after, before + 3);
    session.sql("ROLLBACK").await.expect("rolls back");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_index_refuses_when_it_runs_the_plan_gives() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir);
    let (fast, general) = (db.session(), db.session());
    set(&general, &["short_path", "index_rule"]).await;
    fast.sql("CREATE TABLE t (a TEXT, x DOUBLE, n BIGINT) WITH (dimensions = 'a', measures = 'x, n')")
        .await
        .expect("creates");
    fast.sql(
        "INSERT INTO t VALUES ('a', 1, 1), ('b', 'Infinity', 9223372036854775807), ('b', 3, 5), (NULL, 'Infinity', NULL)",
    )
    .await
    .expect("inserts");
    // The index has no codes of a table before its first sort.
    db.core().organise(Stage::Sorted).expect("organises");
    for sql in [
        "SELECT a, sum(x) FROM t GROUP BY a HAVING count(*) > 0",
        "SELECT max(m) FROM (SELECT a, max(x) AS m FROM t GROUP BY a) y",
        "SELECT avg(x) + 1 FROM t WHERE a = 'b'",
        "SELECT avg(n) + 1 FROM t WHERE a = 'b'",
    ] {
        assert!(both(&fast, &general, sql).await, "{sql}");
        let analyzed = plan(&fast, "EXPLAIN (ANALYZE, FORMAT indent)", sql).await;
        let adds_up = sql.contains("sum(x)") || sql.contains("avg(x)");
        assert!(analyzed.contains("refused=1") || !adds_up, "{sql}\n{analyzed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_parts_of_a_statement_are_of_one_version_while_rows_come_in() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Arc::new(open(&dir));
    let session = db.session();
    session.sql(CREATE).await.expect("creates");
    session.sql(&rows(&mut Random(5), 500)).await.expect("inserts");
    db.core().organise(Stage::Sorted).expect("organises");
    session.sql("CALL alluvia.pin_cuboid('sales', 'country, open')").await.expect("pins");
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (db, stop) = (Arc::clone(&db), Arc::clone(&stop));
        tokio::spawn(async move {
            let (session, mut random) = (db.session(), Random(6));
            while !stop.load(Ordering::Relaxed) {
                session.sql(&rows(&mut random, 5)).await.expect("inserts");
            }
        })
    };
    // One part is answered by a cuboid that follows the log, one by the tree, one by a scan.
    let sql = "SELECT (SELECT count(*) FROM sales WHERE country IS NULL OR country >= '') \
               - (SELECT count(*) FROM sales WHERE shelf >= 0) AS a, \
               (SELECT count(*) FROM sales) - (SELECT count(*) FROM sales WHERE price IS NULL OR price > -1) AS b";
    assert_eq!(plan(&session, "EXPLAIN", sql).await.matches("IndexAnswerExec").count(), 3);
    for _ in 0..60 {
        let (_, batches) = answer(&session, sql).await;
        for column in batches[0].columns() {
            assert_eq!(column.as_primitive::<Int64Type>().value(0), 0);
        }
    }
    stop.store(true, Ordering::Relaxed);
    writer.await.expect("writes");
}
