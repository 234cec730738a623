//! Dimensions of the time that a zone's clocks show: what the index answers of them is what a scan answers, in sessions of every zone, and
//! in a session of their zone it answers groups by days.

#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::nested::set;
use crate::support::Random;
use crate::zones::rows;
use alluvia_node::Database;
use alluvia_query::Session;
use alluvia_snapshot::Admin;
use alluvia_types::Stage;

const ZONES: [&str; 5] = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns"];

/// A session without anything that answers for a scan.
async fn slow(db: &Database) -> Session {
    let session = db.session();
    set(&session, &["short_path", "index_rule", "cuboids", "predicate_cache"]).await;
    session
}

async fn run(session: &Session, sql: &str) {
    session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// Rows each 17 minutes of the year 2026, some without a time, most of them sorted and merged.
async fn filled(db: &Database, table: &str) {
    let general = slow(db).await;
    let insert = |from: u64, to: u64| {
        format!(
            "INSERT INTO {table} SELECT CASE WHEN n % 50 = 0 THEN NULL
                 ELSE arrow_cast(1767225600000000 + n * 1020000000, 'Timestamp(Microsecond, Some(\"UTC\"))') END,
                 'kind ' || n % 5, n % 1000 FROM (SELECT value AS n FROM generate_series({from}, {to})) AS numbers"
        )
    };
    run(&general, &insert(0, 25_000)).await;
    db.core().organise(Stage::Merged).expect("organises");
    run(&general, &insert(25_001, 30_900)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_session_has_the_answers_of_a_scan() {
    for (table, dimensions) in [
        ("of_berlin", "local(at AT TIME ZONE Europe/Berlin: year, month, day, hour); kind"),
        ("of_minutes", "local(at AT TIME ZONE ''Australia/Lord_Howe'': month, day, minute); kind"),
        ("of_both", "utc(at: month, day); local(at AT TIME ZONE America/New_York: quarter, day, hour); kind"),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let db = Database::open(dir.path().join("db")).expect("opens");
        let create = format!(
            "CREATE TABLE {table} (at TIMESTAMPTZ, kind TEXT, v INT)
             WITH (dimensions = '{dimensions}', measures = 'v')"
        );
        run(&db.session(), &create).await;
        filled(&db, table).await;
        let mut sessions = Vec::new();
        for zone in ZONES {
            let (fast, slow) = (db.session(), slow(&db).await);
            for session in [&fast, &slow] {
                run(session, &format!("SET timezone = '{zone}'")).await;
            }
            sessions.push((zone, fast, slow));
        }
        let mut random = Random(17);
        for round in 0..40 {
            let moment = |random: &mut Random| {
                let (month, day) = (1 + random.below(12), 1 + random.below(28));
                let (hour, minute) = match random.below(3) {
                    0 => (0, 0),
                    1 => (random.below(24), 0),
                    _ => (random.below(24), random.below(60)),
                };
                format!("2026-{month:02}-{day:02} {hour:02}:{minute:02}")
            };
            let (a, b) = (moment(&mut random), moment(&mut random));
            let (low, end) = (a.clone().min(b.clone()), a.max(b));
            // Within and around changes of the clocks.
            let change = [
                "2026-03-29 01:30",
                "2026-10-25 02:30+02",
                "2026-10-25 01:00Z",
                "2026-11-01 01:30",
                "2026-11-01 06:00Z",
                "2026-04-05 01:45",
                "2026-04-04 15:10Z",
                "2026-10-04 02:15",
            ][round % 8];
            let unit = ["day", "month", "hour", "quarter", "minute"][round % 5];
            let sql = match round % 8 {
                0 => format!("SELECT count(*), sum(v) FROM {table} WHERE at >= '{low}' AND at < '{end}'"),
                1 => format!("SELECT kind, count(*) FROM {table} WHERE at >= '{change}' GROUP BY kind ORDER BY kind"),
                2 => format!("SELECT count(*) FROM {table} WHERE at < '{change}' OR at > '{end}'"),
                3 => format!(
                    "SELECT date_trunc('{unit}', at)::text, count(*), sum(v) FROM {table} WHERE at::date <> '{}'
                     GROUP BY date_trunc('{unit}', at) ORDER BY date_trunc('{unit}', at)",
                    &low[..10]
                ),
                4 => format!(
                    "SELECT date_trunc('{unit}', at, 'America/New_York')::text, count(*) FROM {table}
                     WHERE at BETWEEN '{low}' AND '{end}' GROUP BY 1 ORDER BY 1"
                ),
                5 => {
                    format!("SELECT count(*), min(at)::text FROM {table} WHERE NOT (at >= '{low}' AND at < '{change}')")
                }
                6 => format!(
                    "SELECT date_trunc('day', at)::text, count(*) FROM {table} WHERE kind = 'kind 3' GROUP BY 1 ORDER BY 1"
                ),
                _ => {
                    format!(
                        "SELECT kind, v FROM {table} WHERE at = '{low}' OR at IN ('{end}', '{change}') ORDER BY kind, v"
                    )
                }
            };
            for (zone, fast, slow) in &sessions {
                let wanted = rows(slow, &sql).await;
                // The second time what is kept by the text may answer.
                for _ in 0..2 {
                    assert_eq!(rows(fast, &sql).await, wanted, "{zone}, {dimensions}: {sql}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn days_of_the_zone_are_answered_by_the_index() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::open(dir.path().join("db")).expect("opens");
    let session = db.session();
    let create = "CREATE TABLE t (at TIMESTAMPTZ, v INT) WITH (dimensions = \
                  'at(at AT TIME ZONE Europe/Berlin: year, month, day, hour)', measures = 'v')";
    for sql in [
        create,
        "INSERT INTO t SELECT '2026-03-01 00:00Z'::timestamptz + INTERVAL '30 minutes' * n, n FROM (SELECT value AS n FROM generate_series(0, 15000)) AS g",
        "CALL alluvia.merge()",
        "SET timezone = 'Europe/Berlin'",
    ] {
        run(&session, sql).await;
    }
    let plan = async |sql: &str| rows(&session, &format!("EXPLAIN {sql}")).await.join("\n");
    // Days of 23, 24 and 25 hours, and an hour that comes twice.
    for (condition, count) in [
        ("at::date = '2026-03-29'", "46"),
        ("at >= '2026-10-25' AND at < '2026-10-26'", "50"),
        ("at >= '2026-10-24' AND at < '2026-10-25'", "48"),
        ("date_trunc('month', at) = '2026-04-01'", "1440"),
        ("at >= '2026-10-25 02:00+02' AND at < '2026-10-25 03:00+01'", "4"),
        ("at >= '2026-10-25 02:00+01' AND at < '2026-10-25 03:00+01'", "2"),
    ] {
        let sql = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(rows(&session, &sql).await, [count], "{sql}");
        assert!(plan(&sql).await.contains("IndexAnswer"), "{sql}");
    }
    let by_day = "SELECT date_trunc('day', at), count(*) FROM t GROUP BY 1 HAVING count(*) NOT IN (48, 27) ORDER BY 1";
    assert!(plan(by_day).await.contains("IndexAnswer"));
    let days: Vec<String> = rows(&session, by_day).await;
    assert_eq!(days.iter().map(|day| &day[day.len() - 3..]).collect::<Vec<_>>(), ["|46", "|46", "|50"], "{days:?}");
    // An hour that comes twice is two groups, and the index has one member for it.
    assert!(!plan("SELECT date_trunc('hour', at), count(*) FROM t GROUP BY 1").await.contains("IndexAnswer"));
    run(&session, "SET timezone = 'America/New_York'").await;
    assert!(!plan(by_day).await.contains("IndexAnswer"));
    let named = "SELECT date_trunc('day', at, 'Europe/Berlin'), count(*) FROM t GROUP BY 1";
    assert!(plan(named).await.contains("IndexAnswer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_is_shown_and_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("db");
    let shown = {
        let db = Database::open(&path).expect("opens");
        let session = db.session();
        run(
            &session,
            "CREATE TABLE t (at TIMESTAMPTZ) WITH (dimensions = 'at(at at time zone ''europe/berlin'': year, day)')",
        )
        .await;
        run(&session, "INSERT INTO t VALUES ('2026-06-30 22:30Z'), ('2026-12-31 23:30Z')").await;
        let shown = rows(&session, "SHOW CREATE TABLE t").await.join("\n");
        assert!(shown.contains("at(at AT TIME ZONE Europe/Berlin: year, day)"), "{shown}");
        let levels = rows(&session, "SELECT level, source FROM alluvia.dimensions ORDER BY position").await;
        assert_eq!(levels, ["year|year in Europe/Berlin", "day|day in Europe/Berlin"]);
        shown
    };
    let db = Database::open(&path).expect("opens again");
    let session = db.session();
    assert_eq!(rows(&session, "SHOW CREATE TABLE t").await.join("\n"), shown);
    run(&session, "SET timezone = 'Europe/Berlin'").await;
    let years = rows(&session, "SELECT date_trunc('year', at)::text, count(*) FROM t GROUP BY 1 ORDER BY 1").await;
    assert_eq!(years, ["2026-01-01 00:00:00+01|1", "2027-01-01 00:00:00+01|1"]);
}
