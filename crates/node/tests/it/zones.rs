//! Sessions in time zones: what the index answers of a table is what a scan answers, in each of them, and none has another's.

#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::nested::set;
use crate::support::Random;
use alluvia_node::Database;
use alluvia_query::Session;
use alluvia_snapshot::Admin;
use alluvia_types::Stage;
use arrow::util::display::array_value_to_string;

pub(crate) async fn rows(session: &Session, sql: &str) -> Vec<String> {
    let batches = match session.sql(sql).await {
        Ok(outcome) => outcome.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}")),
        Err(error) => panic!("{sql}: {error}"),
    };
    let mut lines = Vec::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            let line = batch.columns().iter().map(|column| array_value_to_string(column, row).expect("a text"));
            lines.push(line.collect::<Vec<_>>().join("|"));
        }
    }
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn each_session_has_the_answers_of_its_zone() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::open(dir.path().join("db")).expect("opens");
    let general = db.session();
    set(&general, &["short_path", "index_rule", "cuboids", "predicate_cache"]).await;
    let create = "CREATE TABLE seen (at TIMESTAMPTZ, kind TEXT, v INT)
        WITH (dimensions = 'at(at: year, month, day, hour); kind', measures = 'v')";
    general.sql(create).await.expect("creates");
    // Every 17 minutes of a year from 2026-01-01 on, some without a time.
    let insert = |from: u64, to: u64| {
        format!(
            "INSERT INTO seen SELECT CASE WHEN n % 50 = 0 THEN NULL
                 ELSE arrow_cast(1767225600000000 + n * 1020000000, 'Timestamp(Microsecond, Some(\"UTC\"))') END,
                 'kind ' || n % 5, n % 1000 FROM (SELECT value AS n FROM generate_series({from}, {to})) AS numbers"
        )
    };
    general.sql(&insert(0, 25_000)).await.expect("inserts");
    db.core().organise(Stage::Merged).expect("organises");
    general.sql(&insert(25_001, 30_900)).await.expect("inserts");
    let mut random = Random(11);
    let zones = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "-3.5"];
    let (fast, slow): (Vec<Session>, Vec<Session>) = zones.iter().map(|_| (db.session(), db.session())).unzip();
    for (zone, (fast, slow)) in zones.iter().zip(fast.iter().zip(&slow)) {
        set(slow, &["short_path", "index_rule", "cuboids", "predicate_cache"]).await;
        for session in [fast, slow] {
            session.sql(&format!("SET timezone = '{zone}'")).await.expect("sets");
        }
    }
    for round in 0..40 {
        let moment = |random: &mut Random| {
            let (month, day) = (1 + random.below(12), 1 + random.below(28));
            format!("2026-{month:02}-{day:02} {:02}:{:02}", random.below(24), random.below(60))
        };
        let (a, b) = (moment(&mut random), moment(&mut random));
        let (low, end) = (a.clone().min(b.clone()), a.max(b));
        // Changes of the clocks among them.
        let day = ["2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "2026-04-05", &low[..10]][round % 6];
        let sql = match round % 8 {
            0 => format!("SELECT count(*), sum(v) FROM seen WHERE at >= '{low}' AND at < '{end}'"),
            1 => format!("SELECT kind, count(*) FROM seen WHERE at::date = '{day}' GROUP BY kind ORDER BY kind"),
            2 => format!("SELECT count(*) FROM seen WHERE date_trunc('day', at) = '{day}' AND kind <> 'kind 1'"),
            3 => format!("SELECT count(*) FROM seen WHERE date_trunc('month', at) >= '{day}'"),
            4 => format!("SELECT count(*) FROM seen WHERE at::date BETWEEN '{}' AND '{day}'", &low[..10]),
            5 => "SELECT date_trunc('day', at)::text, count(*) FROM seen GROUP BY 1 ORDER BY 1".to_owned(),
            6 => format!("SELECT at::date, sum(v) FROM seen WHERE at < '{end}' GROUP BY at::date ORDER BY 1"),
            _ => format!("SELECT count(*), min(at)::text, max(at)::text FROM seen WHERE at::date <> '{day}'"),
        };
        for (zone, (fast, slow)) in zones.iter().zip(fast.iter().zip(&slow)) {
            let wanted = rows(slow, &sql).await;
            // The second time what is kept by the text may answer.
            for _ in 0..2 {
                assert_eq!(rows(fast, &sql).await, wanted, "{zone}: {sql}");
            }
        }
    }
}

/// A day of the session's zone is a range of moments, of which the index knows the rows.
#[tokio::test(flavor = "multi_thread")]
async fn conditions_on_days_of_a_zone_are_answered_by_the_index() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::open(dir.path().join("db")).expect("opens");
    let session = db.session();
    for sql in [
        "CREATE TABLE t (at TIMESTAMPTZ, v INT) WITH (dimensions = 'at(at: year, month, day, hour)', measures = 'v')",
        "INSERT INTO t SELECT '2026-03-01 00:00Z'::timestamptz + INTERVAL '1 hour' * n, n FROM (SELECT value AS n FROM generate_series(0, 2000)) AS g",
        "CALL alluvia.merge()",
        "SET timezone = 'Europe/Berlin'",
    ] {
        session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    for (condition, count) in [
        ("at::date = '2026-03-29'", "23"),
        ("at >= '2026-03-29' AND at < '2026-03-30'", "23"),
        ("date_trunc('month', at) = '2026-04-01'", "720"),
    ] {
        let sql = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(rows(&session, &sql).await, [count], "{sql}");
        let plan = rows(&session, &format!("EXPLAIN {sql}")).await.join("\n");
        assert!(plan.contains("IndexAnswer"), "{sql}: {plan}");
    }
}
