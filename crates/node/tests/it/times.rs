//! Ranges of times that begin and end anywhere are answered by the index, and as the general plan answers them.

#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::index_answers::{compared, explained};
use crate::nested::set;
use crate::statements::GeneratedStatement;
use crate::support::Random;
use alluvia_node::{Database, DatabaseOptions};
use alluvia_snapshot::Admin;
use alluvia_storage::RealDisk;
use alluvia_types::{Clock, ManualClock, Stage};
use arrow::util::display::array_value_to_string;
use std::sync::Arc;
use std::time::Duration;

/// From 2026-01-01 on, a row every 97 seconds; some without a time.
fn insert(from: u64, rows: u64) -> String {
    let at = "arrow_cast(1767225600000000 + n * 97000000, 'Timestamp(Microsecond, None)')";
    format!(
        "INSERT INTO seen SELECT CASE WHEN n % 50 = 0 THEN NULL ELSE {at} END AS a, {at} AS b, CAST({at} AS DATE) AS c,
             'kind ' || (n * 7 % 11), n % 1000, n % 13 - 6.0
         FROM (SELECT value AS n FROM generate_series({from}, {})) AS numbers",
        from + rows - 1
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_that_end_anywhere_are_answered_by_the_index() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::open(dir.path().join("db")).expect("opens");
    let (fast, general) = (db.session(), db.session());
    set(&general, &["short_path", "index_rule", "cuboids", "predicate_cache"]).await;
    let create = "CREATE TABLE seen (at TIMESTAMPTZ, local TIMESTAMP NOT NULL, day DATE NOT NULL, kind TEXT NOT NULL, v INT NOT NULL, x DOUBLE)
        WITH (dimensions = 'at(at: year, month, day); local(local: month, hour); day(day: year, month); kind', measures = 'v, x')";
    general.sql(create).await.expect("creates");
    // Several blocks in a merged segment, one in a sorted one, and rows in the tail: a third of a year.
    general.sql(&insert(0, 90_000)).await.expect("inserts");
    db.core().organise(Stage::Merged).expect("organises");
    general.sql(&insert(90_000, 5_000)).await.expect("inserts");
    db.core().organise(Stage::Sorted).expect("organises");
    general.sql(&insert(95_000, 300)).await.expect("inserts");
    let mut random = Random(7);
    for round in 0..91 {
        let moment = |random: &mut Random| {
            let (month, day) = (1 + random.below(5), 1 + random.below(28));
            format!("2026-{month:02}-{day:02} {:02}:{:02}:{:02}", random.below(24), random.below(60), random.below(60))
        };
        let (a, b) = (moment(&mut random), moment(&mut random));
        let (low, end) = (a.clone().min(b.clone()), a.max(b));
        let condition = match round % 13 {
            0 => format!("at >= '{low}' AND at < '{end}+02:00'"),
            1 => format!("local BETWEEN '{low}' AND '{end}' AND kind IN ('kind 3', 'kind 5')"),
            2 => format!("local > '{low}'"),
            3 => format!("at <= '{end}Z' AND kind <> 'kind 1'"),
            4 => format!("day >= '{}' AND day < '{}'", &low[..10], &end[..10]),
            5 => format!("NOT (at >= '{low}' AND at < '{end}')"),
            6 => format!("at < '{low}' OR at IS NULL OR kind = 'kind 2'"),
            7 => format!("local NOT BETWEEN '{low}' AND '{end}' AND kind NOT IN ('kind 3', 'kind 5')"),
            8 => format!("at < '{low}' AND kind = 'kind 4' OR at >= '{end}' AND kind = 'kind 7'"),
            9 => format!("NOT (local >= '{low}' OR at < '{low}') OR kind = 'kind 1'"),
            10 => format!("day IN ('{}', '{}', '2026-02-03') OR at = '2026-01-04 00:00:08'", &low[..10], &end[..10]),
            11 => {
                // Many moments within few units.
                let days: Vec<String> = (1..19).map(|at| format!("'2026-0{}-{:02}'", 1 + at % 2, 1 + at)).collect();
                format!("day NOT IN ({}) AND at NOT IN ('{low}', '{low}Z', '{end}')", days.join(", "))
            }
            // Within a day, and two columns at once.
            _ => format!("local >= '{low}' AND local < '{} 23:59:59' AND day > '2026-01-17'", &low[..10]),
        };
        for select in ["count(*), sum(v), min(x), max(x), avg(x)", "kind, count(*), min(x)"] {
            let group = if select.starts_with("kind") { " GROUP BY kind" } else { "" };
            let asked = GeneratedStatement::of(format!("SELECT {select} FROM seen WHERE {condition}{group}"));
            assert!(compared(&asked, &fast, &general).await, "{asked:?}");
            let plan = explained(&fast, "EXPLAIN ANALYZE VERBOSE", &asked.sql).await.expect("is explained");
            assert!(plan.contains("IndexAnswer") && !plan.contains("refused="), "{asked:?}\n{plan}");
        }
    }
    // One box, with both ends of the range.
    let both = "SELECT count(*) FROM seen WHERE local >= '2026-02-03 04:05:06' AND local < '2026-04-05 06:07:08'";
    let plan = explained(&fast, "EXPLAIN ANALYZE VERBOSE", both).await.expect("is explained");
    assert!(plan.contains("filters=[local.hour (") && plan.contains(" codes), local in range]"), "{plan}");
    for group in ["day", "date_trunc('month', day)", "date_trunc('day', at)"] {
        let asked = GeneratedStatement::of(format!(
            "SELECT {group} AS k, count(*), sum(v) FROM seen WHERE local >= '2026-02-03 04:05:06' GROUP BY 1"
        ));
        assert!(compared(&asked, &fast, &general).await, "{asked:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_comes_with_its_question_is_counted_within_the_range() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::open(dir.path().join("db")).expect("opens");
    let session = db.session();
    let create = "CREATE TABLE seen (at TIMESTAMP NOT NULL, kind TEXT NOT NULL, v INT NOT NULL)
        WITH (dimensions = 'at(at: day); kind', measures = 'v')";
    session.sql(create).await.expect("creates");
    session.sql("INSERT INTO seen VALUES ('2026-01-05 08:00:00', 'old', 1)").await.expect("inserts");
    db.core().organise(Stage::Merged).expect("organises");
    session.sql("CALL alluvia.pin_cuboid('seen', 'day, kind')").await.expect("pins");
    // Nobody has met the new member when the question is bound: its box is empty then, with its edge.
    session
        .sql("INSERT INTO seen VALUES ('2026-01-05 10:30:00', 'new', 7), ('2026-01-05 08:30:00', 'new', 9)")
        .await
        .expect("inserts");
    let asked = GeneratedStatement::of(
        "SELECT count(*), sum(v) FROM seen WHERE kind = 'new' AND at >= '2026-01-05 09:00:00'".to_owned(),
    );
    let general = db.session();
    set(&general, &["short_path", "index_rule", "cuboids", "predicate_cache"]).await;
    for _ in 0..3 {
        assert!(compared(&asked, &session, &general).await, "{asked:?}");
    }
}

/// A time, maybe cut to a unit, beside constants that are computed.
pub(crate) fn computed(random: &mut Random, op: &str) -> String {
    let constant = random.pick(&[
        "now() - INTERVAL '400 days'",
        "current_date - 300",
        "current_date - INTERVAL '1 year'",
        "date_trunc('month', now()) - INTERVAL '6 months'",
        "date_trunc('quarter', current_date)",
        "'2025-03-05 12:34:56.789'::timestamp",
        "'2025-03-05'::timestamp",
        "CAST('2025-03-05' AS DATE)",
        "DATE '2024-01-31' + INTERVAL '13 months'",
        "DATE '2025-03-05' + INTERVAL '36 hours'",
        "TIMESTAMP '2025-05-31 10:00:00' - INTERVAL '3 months'",
        "'2025-03-05 12:00:00+02:00'::timestamptz",
    ]);
    let column = random.pick(&["sold_at", "seen_at", "day"]);
    match random.below(6) {
        0 => format!("{column}::date {op} {constant}"),
        1 | 2 => format!("date_trunc('{}', {column}) {op} {constant}", random.pick(&["year", "month", "day", "hour"])),
        3 => {
            let negated = random.pick(&["", "NOT "]);
            format!(
                "{column}::date {negated}IN ('2025-03-05', '2025-04-01', '2025-05-01', '2026-01-0{}')",
                1 + random.below(9)
            )
        }
        4 => format!(
            "{column}::date {}BETWEEN '2024-02-01' AND '2025-0{}-15'",
            random.pick(&["", "NOT "]),
            1 + random.below(9)
        ),
        _ => format!("{column} {op} {constant}"),
    }
}

/// Conditions on a TIMESTAMPTZ, a TIMESTAMP and a DATE with constants that are computed, and on what is cut to a unit.
const COMPUTED: [&str; 32] = [
    "at >= now() - INTERVAL '1 hour'",
    "local >= now() - INTERVAL '1 hour' AND kind = 'new'",
    "local > now() - '90 minutes'::interval AND local <= now()",
    "local BETWEEN now() - INTERVAL '2 hours' AND now()",
    "day >= now() - INTERVAL '1 day'",
    "at < current_timestamp - INTERVAL '30 days'",
    "local >= current_date - 7",
    "day = current_date OR day = current_date - 1",
    "local >= date_trunc('month', now()) - INTERVAL '1 month'",
    "at::date = now()::date",
    "date_trunc('hour', local) >= date_trunc('hour', now() - INTERVAL '1 hour')",
    "local >= '2026-02-03'::timestamp",
    "at >= CAST('2026-02-03 04:05:06' AS TIMESTAMP)",
    "at < '2026-02-03 04:05:06+02:00'::timestamptz",
    "local >= CAST('2026-02-03' AS DATE)",
    "at >= DATE '2026-02-03'",
    "local >= DATE '2026-01-31' + INTERVAL '1 month'",
    "local < DATE '2026-01-31' - INTERVAL '90 minutes'",
    "day > TIMESTAMP '2026-02-03 04:05:06'",
    "day <= TIMESTAMP '2026-02-03 04:05:06'",
    "NOT (day = TIMESTAMP '2026-02-03 04:05:06')",
    "local::date = '2026-02-03'",
    "at::date BETWEEN '2026-02-03' AND '2026-02-20'",
    "at::date NOT IN ('2026-02-03', '2026-02-20')",
    "NOT (at::date <> DATE '2026-02-03')",
    "local::date < TIMESTAMP '2026-02-03 04:05:06'",
    "date_trunc('month', local) = '2026-02-01'",
    "date_trunc('month', at) = '2026-02-02'",
    "date_trunc('day', at) >= TIMESTAMP '2026-02-03 04:05:06'",
    "date_trunc('month', day) = '2026-03-01'",
    "date_trunc('quarter', day) < DATE '2026-04-01'",
    "date_trunc('hour', day) > TIMESTAMP '2026-02-03 00:00:00' AND kind <> 'kind 1' OR kind = 'kind 3'",
];

#[tokio::test(flavor = "multi_thread")]
async fn constants_that_are_computed_need_no_plan() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::open(dir.path().join("db")).expect("opens");
    let (short, rule, general) = (db.session(), db.session(), db.session());
    set(&short, &["index_rule"]).await;
    set(&rule, &["short_path"]).await;
    set(&general, &["short_path", "index_rule", "cuboids", "predicate_cache"]).await;
    let create = "CREATE TABLE seen (at TIMESTAMPTZ, local TIMESTAMP NOT NULL, day DATE NOT NULL, kind TEXT NOT NULL, v INT NOT NULL, x DOUBLE)
        WITH (dimensions = 'at(at: year, month, day); local(local: month, hour); day(day: year, month); kind', measures = 'v, x')";
    general.sql(create).await.expect("creates");
    general.sql(&insert(0, 90_000)).await.expect("inserts");
    db.core().organise(Stage::Merged).expect("organises");
    // Some minutes from each hour, so that none passes while both are asked.
    let new = "INSERT INTO seen SELECT m, m::timestamp, m::date, 'new', n, n
        FROM (SELECT value AS n, now() - value * INTERVAL '10 minutes' - INTERVAL '5 minutes' AS m FROM generate_series(0, 30)) AS numbers";
    general.sql(new).await.expect("inserts");
    for condition in COMPUTED {
        for select in ["count(*), sum(v), min(x)", "kind, count(*)"] {
            let group = if select.starts_with("kind") { " GROUP BY kind" } else { "" };
            let asked = GeneratedStatement::of(format!("SELECT {select} FROM seen WHERE {condition}{group}"));
            // The second time of what is known by its text.
            for session in [&short, &short, &rule] {
                assert!(compared(&asked, session, &general).await, "{asked:?}");
            }
            let plan = explained(&short, "EXPLAIN ANALYZE VERBOSE", &asked.sql).await.expect("is explained");
            assert!(plan.contains("IndexAnswer") && !plan.contains("refused="), "{asked:?}\n{plan}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn now_is_another_moment_each_time_a_statement_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::open(dir.path().join("db")).expect("opens");
    let session = db.session();
    let create = "CREATE TABLE seen (at TIMESTAMP NOT NULL, kind TEXT NOT NULL, v INT NOT NULL)
        WITH (dimensions = 'at(at: day); kind', measures = 'v')";
    session.sql(create).await.expect("creates");
    session.sql("INSERT INTO seen VALUES ('2026-01-05 08:00:00', 'old', 1)").await.expect("inserts");
    db.core().organise(Stage::Merged).expect("organises");
    session.sql("INSERT INTO seen SELECT (now() + INTERVAL '8 seconds')::timestamp, 'soon', 7").await.expect("inserts");
    let sql = "SELECT sum(v) FROM seen WHERE kind = 'soon' AND at <= now()";
    let prepared = session.prepare(sql).expect("prepares");
    let has_come = |batches: &[arrow::array::RecordBatch]| {
        use arrow::array::Array;
        batches[0].column(0).is_valid(0)
    };
    let start = std::time::Instant::now();
    let mut waited = 0;
    loop {
        let written = session.sql(sql).await.expect("answers").collect().await.expect("rows");
        let again = session.execute_prepared(&prepared, &[]).await.expect("answers").collect().await.expect("rows");
        assert!(has_come(&again) || !has_come(&written), "time does not go back");
        if has_come(&written) {
            break;
        }
        waited += 1;
        assert!(start.elapsed() < std::time::Duration::from_secs(60), "it is still to come");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(waited >= 2, "what was kept of the statement has to be asked before the time has come");
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_and_the_index_take_the_stores_clock() {
    let dir = tempfile::tempdir().expect("a directory");
    let clock = Arc::new(ManualClock::default());
    clock.advance(Duration::from_secs(1_000_000_000));
    let there = Arc::clone(&clock) as Arc<dyn Clock>;
    let (disk, options) = (Arc::new(RealDisk::new()), DatabaseOptions::default());
    let db = Database::open_on(disk, there, dir.path().join("db"), options).expect("opens");
    let (fast, general) = (db.session(), db.session());
    set(&general, &["short_path", "index_rule", "cuboids", "predicate_cache"]).await;
    let create =
        "CREATE TABLE seen (at TIMESTAMP NOT NULL, v INT NOT NULL) WITH (dimensions = 'at(at: day)', measures = 'v')";
    fast.sql(create).await.expect("creates");
    let insert = "INSERT INTO seen VALUES ('2001-09-09 01:46:40', 1), ('2001-09-09 01:46:41', 2)";
    fast.sql(insert).await.expect("inserts");
    for seconds in [0, 1] {
        clock.advance(Duration::from_secs(seconds));
        let now = format!("2001-09-09 01:46:4{seconds}+00");
        for (session, sql, expected) in [
            (&general, "SELECT now()::text", now.as_str()),
            (&general, "SELECT current_date::text", "2001-09-09"),
            (&general, "SELECT count(*) FROM seen WHERE at <= now()", if seconds == 0 { "1" } else { "2" }),
            (&fast, "SELECT count(*) FROM seen WHERE at <= now()", if seconds == 0 { "1" } else { "2" }),
        ] {
            let rows = session.sql(sql).await.expect("answers").collect().await.expect("rows");
            assert_eq!(array_value_to_string(rows[0].column(0), 0).expect("a text"), expected, "{sql}");
        }
    }
}
