//! How far a statement is while it runs: also when its tables are read, and a sort, a join or an aggregate goes on.

#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::{Report, Session};
use alluvia_snapshot::Admin;
use alluvia_types::Stage;
use arrow::util::pretty::pretty_format_batches;
use futures::StreamExt;
use std::sync::Arc;
use std::time::Duration;

const ROWS: u64 = 400_000;
const SECOND: Duration = Duration::from_secs(1);

/// Table `t` of merged rows, and one row in the tail.
async fn database() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().expect("a directory");
    let options = DatabaseOptions { threads: 2, ..DatabaseOptions::default() };
    let db = Database::open_with(dir.path().join("db"), options).expect("opens");
    let session = db.session();
    let create = "CREATE TABLE t (k BIGINT, v BIGINT, s TEXT)";
    let fill = format!(
        "INSERT INTO t SELECT value * 7919 % {ROWS}, value, 'text ' || value % 1000 FROM generate_series(1, {ROWS})"
    );
    for sql in [create, &fill] {
        session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    db.core().organise(Stage::Merged).expect("organises");
    session.sql("INSERT INTO t VALUES (-1, -1, 'last')").await.expect("inserts");
    (dir, db)
}

/// Holds what holds of whatever is told of one statement, in the order in which it was told.
fn check(sql: &str, told: &[Option<f64>]) {
    let known: Vec<f64> = told.iter().copied().flatten().collect();
    assert!(known.is_sorted(), "{sql} goes back: {known:?}");
    assert!(known.iter().all(|share| (0.0..1.0).contains(share)), "{sql} is not done yet: {known:?}");
    let first_known = told.iter().position(|share| *share > Some(0.0)).unwrap_or(told.len());
    assert!(told[first_known..].iter().all(Option::is_some), "{sql} is forgotten: {told:?}");
}

/// What was told while nothing had come, and after each batch.
async fn told(session: &Session, sql: &str) -> (Vec<Option<f64>>, Vec<Option<f64>>) {
    let mut outcome = session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut rows = outcome.rows.take().expect("a query");
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    loop {
        tokio::select! {
            biased;
            next = rows.next() => {
                let Some(batch) = next else { break };
                batch.unwrap_or_else(|error| panic!("{sql}: {error}"));
                let report = session.report().unwrap_or_else(|| panic!("{sql} runs until its end was seen"));
                // Its answer tells what its session does.
                assert!(outcome.report(SECOND).fraction >= report.fraction, "{sql}");
                after.push(report.fraction);
            }
            _ = ticks.tick() => {
                let shares = if after.is_empty() { &mut before } else { &mut after };
                shares.push(session.report().and_then(|report| report.fraction));
            }
        }
    }
    assert_eq!(session.report(), None, "{sql} has ended");
    (before, after)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_share_moves_on_after_all_is_read_and_never_back() {
    let (_dir, db) = database().await;
    let session = db.session();
    for sql in [
        "SELECT * FROM t ORDER BY k",
        // Groups of one row, which DataFusion gives on as they come; and of two. Some 130,000 rows may wait for whoever takes them, so that
        // there must be many more.
        "SELECT k, count(*), max(v) FROM t GROUP BY k",
        "SELECT v % 350000, count(*), max(s) FROM t GROUP BY 1",
        "SELECT a.s, b.v FROM t a JOIN t b ON a.k = b.v ORDER BY b.k",
        "SELECT k, sum(v) OVER (PARTITION BY s ORDER BY k) FROM t ORDER BY v",
    ] {
        let (before, after) = told(&session, sql).await;
        check(sql, &[before.as_slice(), after.as_slice()].concat());
        // With the first batch all was read.
        let after: Vec<f64> = after.into_iter().flatten().collect();
        let (first, last) = (after[0], after[after.len() - 1]);
        assert!(first < 0.95 && last > first, "{sql}: from {first} to {last} after all was read");
        let mut distinct = after;
        distinct.dedup();
        assert!(distinct.len() > 5, "{sql} stands still: {distinct:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_looks_on_sees_how_long_a_statement_runs_and_how_far_it_is() {
    let (_dir, db) = database().await;
    let (session, onlooker) = (db.session(), db.session());
    let looked = "SELECT duration_seconds > 0, status, phase, fraction, seconds_left FROM alluvia.queries WHERE sql LIKE '%of t%'";
    let look = || async {
        let batches = onlooker.sql(&format!("{looked} AND sql NOT LIKE '%alluvia%'")).await.expect("asks");
        let rows = batches.collect().await.expect("looks");
        pretty_format_batches(&rows).expect("shows").to_string()
    };
    let mut outcome = session.sql("SELECT k /* of t */ FROM t ORDER BY k").await.expect("begins");
    let mut rows = outcome.rows.take().expect("a query");
    rows.next().await.expect("some").expect("rows");
    // Most rows are to come; some are made while nobody takes them, so that the share may move while one looks.
    let share = || {
        let Report { fraction, .. } = session.report().expect("it runs");
        fraction.expect("a plan runs")
    };
    let cells = |shown: &str| -> Vec<String> {
        let row = shown.lines().nth(3).expect("a row");
        row.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let before = share();
    let shown = cells(&look().await);
    let after = share();
    assert_eq!(shown[1..4], ["true", "running", "running"]);
    let fraction: f64 = shown[4].parse().expect("a share");
    assert!(before <= fraction && fraction <= after, "{fraction} is not from {before} to {after}");
    assert!(shown[5].parse::<f64>().expect("a time") > 0.0, "{shown:?}");
    while let Some(batch) = rows.next().await {
        batch.expect("rows");
    }
    let ended = cells(&look().await);
    assert_eq!(ended[1..6], ["true", "done", "", "", ""]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_few_rows_left_when_all_is_read_is_nearly_done_then() {
    let (_dir, db) = database().await;
    let session = db.session();
    for sql in [
        "SELECT s, count(*), max(v + k) FROM t GROUP BY s",
        "SELECT max(v + k) FROM t",
        "SELECT k FROM t WHERE v % 7 = 3 ORDER BY v LIMIT 10",
    ] {
        let (before, after) = told(&session, sql).await;
        check(sql, &[before.as_slice(), after.as_slice()].concat());
        assert!(after.iter().flatten().all(|share| *share > 0.5), "{sql}: {after:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_can_know_is_not_told() {
    let (_dir, db) = database().await;
    let session = db.session();
    for sql in ["SELECT value FROM generate_series(1, 300000) WHERE value % 3 = 0", "SELECT 1"] {
        let (before, after) = told(&session, sql).await;
        let told: Vec<f64> = before.into_iter().chain(after).flatten().collect();
        assert!(told.iter().all(|share| *share > 0.9), "{sql}: only when it has given all it is known: {told:?}");
    }
}

/// What is told of a statement that writes, until it has ended.
async fn told_of_writing(db: &Database, sql: &str) -> Vec<Report> {
    let session = Arc::new(db.session());
    let writing = tokio::spawn({
        let (session, sql) = (Arc::clone(&session), sql.to_owned());
        async move { session.sql(&sql).await.map(|outcome| outcome.tag) }
    });
    let mut told = Vec::new();
    while !writing.is_finished() {
        told.extend(session.report());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    writing.await.expect("no panic").unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert_eq!(session.report(), None, "{sql} has ended");
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn what_writes_is_told_by_what_it_has_written_too() {
    let (dir, db) = database().await;
    let file = dir.path().join("t.parquet").display().to_string();
    db.session().sql("CREATE TABLE copy (k BIGINT, v BIGINT, s TEXT)").await.expect("creates");
    for sql in [
        "INSERT INTO copy SELECT * FROM t".to_owned(),
        "CREATE TABLE sorted AS SELECT * FROM t ORDER BY k".to_owned(),
        format!("COPY (SELECT * FROM t ORDER BY s) TO '{file}'"),
        format!("COPY copy FROM '{file}'"),
    ] {
        let told = told_of_writing(&db, &sql).await;
        let shares: Vec<Option<f64>> = told.iter().map(|report| report.fraction).collect();
        check(&sql, &shares);
        let known: Vec<&Report> = told.iter().filter(|report| report.fraction > Some(0.0)).collect();
        assert!(!known.is_empty(), "{sql}: {told:?}");
        assert!(known.iter().all(|report| report.left.is_some()), "{sql}: {known:?}");
    }
    let count = db.session().sql("SELECT count(*) FROM copy").await.expect("counts").collect().await.expect("counts");
    let count = arrow::util::display::array_value_to_string(count[0].column(0), 0).expect("a number");
    assert_eq!(count, (2 * (ROWS + 1)).to_string());
}
