//! Sessions of two gateways: what one has written, the other sees; answers are those of one process; a worker that was away has all when
//! it is back.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use alluvia_node::cluster::Within;
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::Session;
use alluvia_types::{Error, ErrorKind};
use arrow::util::pretty::pretty_format_batches;
use std::time::Duration;

pub(super) async fn shown(session: &Session, sql: &str) -> Result<String, Error> {
    let outcome = session.sql(sql).await?;
    if outcome.rows.is_none() {
        return Ok(String::new());
    }
    let batches = outcome.collect().await?;
    Ok(pretty_format_batches(&batches).expect("rows can be shown").to_string())
}

/// The values of the one row that an answer has.
pub(super) async fn row(session: &Session, sql: &str) -> Vec<String> {
    let shown = run(session, sql).await;
    let cells = shown.lines().nth(3).unwrap_or_default().trim_matches('|').split('|');
    cells.map(|cell| cell.trim().to_owned()).collect()
}

pub(super) async fn run(session: &Session, sql: &str) -> String {
    shown(session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Tables: their columns, their options, and where they lie.
const TABLES: [(&str, &[&str], &str); 3] = [
    (
        "CREATE TABLE sales (id BIGINT, country TEXT, price DECIMAL(10, 2), at TIMESTAMP)",
        &["dimensions = 'country; time(at: year, month)'", "measures = 'price'"],
        "placement = 'hash(id)', shards = 6, replicas = 2",
    ),
    ("CREATE TABLE countries (country TEXT, continent TEXT)", &[], "placement = 'copied'"),
    (
        "CREATE TABLE stock (id BIGINT PRIMARY KEY, amount BIGINT)",
        &["on_conflict = 'replace'"],
        "placement = 'hash(id)', replicas = 2, write_quorum = 1",
    ),
];

/// The statement that makes a table, on several machines or on one.
fn create((columns, options, placement): (&str, &[&str], &str), is_placed: bool) -> String {
    let options: Vec<&str> = options.iter().copied().chain(is_placed.then_some(placement)).collect();
    match options.as_slice() {
        [] => columns.to_owned(),
        options => format!("{columns} WITH ({})", options.join(", ")),
    }
}

const ROWS: [&str; 5] = [
    "INSERT INTO sales SELECT i, CASE i % 3 WHEN 0 THEN 'Chile' WHEN 1 THEN 'France' END, i / 7.0, TIMESTAMP '2024-01-01' + i * INTERVAL '1 hour' FROM generate_series(1, 5000) AS g(i)",
    "INSERT INTO countries VALUES ('Chile', 'America'), ('France', 'Europe')",
    "INSERT INTO stock SELECT i, i * i FROM generate_series(1, 1000) AS g(i)",
    "INSERT INTO stock SELECT i, -i FROM generate_series(1, 1000, 7) AS g(i)",
    "INSERT INTO sales VALUES (9999, 'Peru', 1.25, NULL)",
];

const QUESTIONS: [&str; 9] = [
    "SELECT count(*) FROM countries a JOIN countries b ON a.continent <> b.continent",
    "SELECT country, count(*), sum(price), avg(price), min(at), max(at) FROM sales GROUP BY country ORDER BY country",
    "SELECT count(*) FROM sales WHERE country = 'Chile' AND at >= '2024-03-01' AND at < '2024-04-01'",
    "SELECT continent, sum(price) FROM sales JOIN countries USING (country) GROUP BY continent ORDER BY continent",
    "SELECT count(*), sum(amount) FROM stock",
    "SELECT amount FROM stock WHERE id = 8",
    "SELECT s.id, k.amount FROM sales s JOIN stock k USING (id) WHERE s.id < 12 ORDER BY s.id",
    "SELECT id FROM sales ORDER BY price DESC, id LIMIT 3",
    "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'",
];

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_one_process() {
    let scratch = tempfile::tempdir().unwrap();
    let one = Database::open(scratch.path().join("one")).unwrap();
    let within = Within::open(scratch.path().join("cluster"), DatabaseOptions::default(), 3, 2).unwrap();
    let (alone, writer, reader) = (one.session(), within.gateway(0).session(), within.gateway(1).session());
    for table in TABLES {
        run(&alone, &create(table, false)).await;
        run(&writer, &create(table, true)).await;
    }
    for sql in ROWS {
        run(&alone, sql).await;
        run(&writer, sql).await;
    }
    for stage in ["", "CALL alluvia.flush()", "CALL alluvia.merge()"] {
        if !stage.is_empty() {
            run(&reader, stage).await;
        }
        for question in QUESTIONS {
            assert_eq!(run(&reader, question).await, run(&alone, question).await, "{question} after {stage:?}");
        }
    }
    let shown = run(&reader, "SHOW CREATE TABLE sales").await;
    assert!(shown.contains("placement  = 'hash(id)'") && shown.contains("replicas   = '2'"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_was_away_has_all_when_it_is_back() {
    let scratch = tempfile::tempdir().unwrap();
    let within = Within::open(scratch.path().join("cluster"), DatabaseOptions::default(), 3, 2).unwrap();
    let (one, other) = (within.gateway(0).session(), within.gateway(1).session());
    run(&one, "CREATE TABLE t (n BIGINT) WITH (placement = 'rows', shards = 3, replicas = 2, write_quorum = 1)").await;
    run(&one, "INSERT INTO t SELECT i FROM generate_series(1, 100) AS g(i)").await;
    within.stop_worker(1);
    for n in 101..130 {
        run(&one, &format!("INSERT INTO t VALUES ({n})")).await;
    }
    assert_eq!(row(&other, "SELECT count(*), sum(n) FROM t").await, ["129", "8385"]);
    within.start_worker(1).unwrap();
    let newest = within.gateway(0).gateway().now().unwrap();
    within.wait_followed(newest, Duration::from_secs(20)).unwrap();
    within.stop_worker(0);
    within.stop_worker(2);
    // Each shard has a replica at the one that was away, or none that runs.
    let alone = shown(&other, "SELECT count(*) FROM t").await;
    within.start_worker(0).unwrap();
    within.start_worker(2).unwrap();
    match alone {
        Ok(count) => assert!(count.contains("129"), "{count}"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
    }
    assert_eq!(row(&other, "SELECT count(*), sum(n) FROM t").await, ["129", "8385"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_joins_late_has_the_tables_that_are_made_since() {
    let scratch = tempfile::tempdir().unwrap();
    let within = Within::open(scratch.path().join("cluster"), DatabaseOptions::default(), 1, 1).unwrap();
    let session = within.gateway(0).session();
    run(&session, "CREATE TABLE before (n BIGINT)").await;
    run(&session, "INSERT INTO before SELECT i FROM generate_series(1, 50) AS g(i)").await;
    let newest = within.gateway(0).gateway().now().unwrap();
    within.wait_followed(newest, Duration::from_secs(20)).unwrap();
    // The decisions are given up: who joins now has an image alone.
    while !within.save().unwrap() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    within.start_worker(1).unwrap();
    let newest = within.gateway(0).gateway().now().unwrap();
    within.wait_followed(newest, Duration::from_secs(20)).unwrap();
    run(&session, "CREATE TABLE since (n BIGINT) WITH (placement = 'copied', write_quorum = 1)").await;
    run(&session, "INSERT INTO since SELECT n FROM before").await;
    within.stop_worker(0);
    assert_eq!(row(&session, "SELECT count(*), sum(n) FROM since").await, ["50", "1275"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_cluster_does_not_take_is_refused_by_name() {
    let scratch = tempfile::tempdir().unwrap();
    let within = Within::open(scratch.path().join("cluster"), DatabaseOptions::default(), 2, 1).unwrap();
    let session = within.gateway(0).session();
    run(&session, &create(TABLES[2], true)).await;
    run(&session, "CREATE TABLE plain (n BIGINT)").await;
    run(&session, "INSERT INTO plain VALUES (1), (2)").await;
    run(&session, "INSERT INTO stock VALUES (1, 1)").await;
    for (sql, kind) in [
        ("CREATE TABLE a (n BIGINT) WITH (placement = 'curve')", ErrorKind::NotSupported),
        ("CREATE TABLE a (n BIGINT) WITH (placement = 'somewhere')", ErrorKind::InvalidDefinition),
        ("CREATE TABLE a (n BIGINT) WITH (placement = 'hash(m)')", ErrorKind::UndefinedColumn),
        ("CREATE TABLE a (n DOUBLE) WITH (placement = 'hash(n)')", ErrorKind::InvalidDefinition),
        ("CREATE TABLE a (n BIGINT) WITH (shards = '4')", ErrorKind::InvalidDefinition),
        ("CREATE TABLE a (n BIGINT PRIMARY KEY, m BIGINT) WITH (placement = 'hash(m)')", ErrorKind::InvalidDefinition),
        ("ALTER TABLE plain SET (placement = 'copied')", ErrorKind::NotSupported),
        ("CALL alluvia.purge('stock')", ErrorKind::NotSupported),
    ] {
        let refused = shown(&session, sql).await.expect_err(sql);
        assert_eq!(refused.kind(), kind, "{sql}: {refused}");
    }
    assert_eq!(row(&session, "SELECT sum(n) FROM plain").await, ["3"]);
    let one = Database::open(scratch.path().join("one")).unwrap();
    let refused = shown(&one.session(), "CREATE TABLE a (n BIGINT) WITH (placement = 'rows')").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotSupported, "{refused}");
}
