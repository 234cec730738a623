//! Parts of plans at the workers: their answers are those of one process, what they can be asked is, and what they cannot be asked is
//! done at the gateway.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use super::sessions::{row, run, shown};
use alluvia_node::cluster::Within;
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::Session;

const CREATE: &str = "CREATE TABLE t (k INT, name TEXT, n BIGINT, small INT, price DECIMAL(12, 2), x DOUBLE, flag BOOLEAN, \
                      at TIMESTAMP, moment TIMESTAMPTZ, day DATE)";
const OPTIONS: &str = "dimensions = 'name; time(at: year, month, day)', measures = 'n, small, price, x'";
const PLACED: &str = "placement = 'rows', shards = 5, replicas = 2";

/// NULL in each column; sums of `n` that no BIGINT holds in a part, and that it holds in all.
const ROWS: [&str; 3] = [
    "INSERT INTO t SELECT i % 40, CASE WHEN i % 11 <> 0 THEN 'name ' || (i * 7919 % 23) END, \
     CASE WHEN i % 13 <> 0 THEN i * 1000003 % 99991 END, i % 100, CASE WHEN i % 17 <> 0 THEN i * 37 % 100000 / 100.0 END, \
     CASE WHEN i % 19 <> 0 THEN (i * 31 % 1000) / 8.0 END, CASE WHEN i % 5 <> 0 THEN i % 2 = 0 END, \
     TIMESTAMP '2024-01-01' + i * INTERVAL '97 minutes', TIMESTAMPTZ '2024-03-30 12:00+00' + i * INTERVAL '11 minutes', \
     DATE '2024-01-01' + i % 400 FROM generate_series(1, 3000) AS g(i)",
    "INSERT INTO t (k, n) VALUES (1000, 9223372036854775807), (1000, 9223372036854775807), (1000, -9223372036854775807), \
     (1000, -9223372036854775807)",
    "INSERT INTO t (k) VALUES (1001)",
];

/// Each with whether its plan asks the workers for aggregates.
const QUESTIONS: [(&str, bool); 26] = [
    ("SELECT count(*), count(n), sum(n), sum(small), sum(price), min(x), max(x) FROM t WHERE k < 40", true),
    (
        "SELECT name, count(*), sum(n), avg(n), avg(small), avg(price), avg(x) FROM t WHERE k < 40 GROUP BY name ORDER BY name",
        true,
    ),
    ("SELECT date_trunc('month', at) AS m, count(*), sum(price) FROM t GROUP BY m ORDER BY m", true),
    (
        "SELECT name, sum(n) FROM t WHERE at >= '2024-02-01' AND at < '2024-05-01' AND name LIKE 'name 1%' GROUP BY name HAVING count(*) > 20 ORDER BY 2 DESC, 1 LIMIT 5",
        true,
    ),
    ("SELECT avg(n), sum(n::numeric) FROM t WHERE k = 1000", true),
    ("SELECT sum(n) FROM t WHERE k = 1000", true),
    ("SELECT k, sum(n), avg(x), min(name), max(price), count(flag) FROM t WHERE k >= 1000 GROUP BY k ORDER BY k", true),
    ("SELECT var_samp(n), stddev_pop(small), var_pop(price) FROM t WHERE k < 40", true),
    (
        "SELECT name, bool_and(flag), bool_or(flag), bit_or(small), count(DISTINCT small) FROM t WHERE k < 40 GROUP BY name ORDER BY 1",
        true,
    ),
    ("SELECT count(*) FILTER (WHERE small > 50), sum(n) FILTER (WHERE flag) FROM t WHERE k < 40", true),
    ("SELECT small % 7 AS r, count(*), sum(n + small) FROM t GROUP BY r ORDER BY r", true),
    ("SELECT upper(name) AS u, count(*) FROM t WHERE length(name) > 6 GROUP BY u ORDER BY u", true),
    ("SELECT CASE WHEN small < 10 THEN 'few' ELSE 'many' END AS c, sum(price) FROM t GROUP BY c ORDER BY c", true),
    ("SELECT count(*), sum(n) FROM t WHERE name = 'nobody'", true),
    ("SELECT name, count(*) FROM t WHERE name = 'nobody' GROUP BY name", true),
    ("SELECT min(at), max(day), min(moment) FROM t", true),
    ("SELECT DISTINCT name FROM t ORDER BY name", true),
    ("SELECT EXTRACT(dow FROM day) AS d, count(*) FROM t GROUP BY d ORDER BY d", true),
    ("SELECT sum(s) FROM (SELECT k, max(n) AS s FROM t WHERE k < 40 GROUP BY k) AS q", true),
    (
        "SELECT a.name, count(*) FROM t a JOIN t b ON a.k = b.n % 40 AND a.small = b.small WHERE a.small < 3 GROUP BY a.name ORDER BY 1",
        false,
    ),
    ("SELECT k, name, n FROM t WHERE small = 7 AND k < 20 ORDER BY k, name, n", false),
    ("SELECT k, row_number() OVER (ORDER BY k, n, at) FROM t WHERE name = 'name 3' ORDER BY 2 LIMIT 20", false),
    ("SELECT string_agg(name, ',' ORDER BY name, at) FROM t WHERE small = 3", false),
    ("SELECT name, small, count(*) FROM t WHERE small < 3 GROUP BY ROLLUP (name, small) ORDER BY 1, 2, 3", false),
    ("SELECT k FROM t WHERE n = (SELECT max(n) FROM t WHERE k < 40) AND k < 40", true),
    ("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM t", false),
];

struct Both {
    _scratch: tempfile::TempDir,
    alone: Session,
    placed: Session,
    within: Within,
    _one: Database,
}

async fn both() -> Both {
    let scratch = tempfile::tempdir().unwrap();
    let one = Database::open(scratch.path().join("one")).unwrap();
    let within = Within::open(scratch.path().join("cluster"), DatabaseOptions::default(), 3, 1).unwrap();
    let (alone, placed) = (one.session(), within.gateway(0).session());
    run(&alone, &format!("{CREATE} WITH ({OPTIONS})")).await;
    run(&placed, &format!("{CREATE} WITH ({OPTIONS}, {PLACED})")).await;
    Both { _scratch: scratch, alone, placed, within, _one: one }
}

/// An answer, as people see it, without its head: of no rows there may be no batch that has one.
async fn rows(session: &Session, question: &str) -> Vec<String> {
    let shown = run(session, question).await;
    shown.lines().filter(|line| line.starts_with('|')).skip(1).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn aggregates_are_asked_at_the_workers_and_are_those_of_one_process() {
    let both = both().await;
    for (question, _) in QUESTIONS {
        assert_eq!(rows(&both.placed, question).await, rows(&both.alone, question).await, "{question} of no rows");
    }
    for sql in ROWS {
        run(&both.alone, sql).await;
        run(&both.placed, sql).await;
    }
    for stage in ["", "CALL alluvia.flush()", "CALL alluvia.merge()"] {
        if !stage.is_empty() {
            run(&both.placed, stage).await;
        }
        for (question, is_asked) in QUESTIONS {
            let (placed, alone) = (rows(&both.placed, question).await, rows(&both.alone, question).await);
            assert_eq!(placed, alone, "{question} after {stage:?}");
            let plan = run(&both.placed, &format!("EXPLAIN {question}")).await;
            assert_eq!(plan.contains("aggregates=["), is_asked, "{question}: {plan}");
            assert!(plan.contains("AnswersExec"), "{question}: {plan}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rows_that_come_are_those_that_pass_and_columns_those_that_are_wanted() {
    let both = both().await;
    for sql in ROWS {
        run(&both.placed, sql).await;
    }
    // Of 3005 rows, and ten columns.
    let analysed = run(&both.placed, "EXPLAIN ANALYZE SELECT k, n FROM t WHERE small = 7 AND length(name) > 6").await;
    let rows = row(&both.placed, "SELECT count(*) FROM t WHERE small = 7 AND length(name) > 6").await;
    let asked = analysed.lines().find(|line| line.contains("Asked of")).unwrap_or_else(|| panic!("{analysed}"));
    assert!(asked.contains("columns=2") && asked.contains("Asked of 5 shards"), "{asked}");
    assert!(asked.split_whitespace().any(|word| word == rows[0]), "{} rows come: {asked}", rows[0]);
    // What a statement reads twice, and what it reads of itself.
    run(&both.placed, "BEGIN").await;
    run(&both.placed, "INSERT INTO t (k, small) VALUES (7000, 7), (7001, 8)").await;
    let seen = row(&both.placed, "SELECT count(*), count(*) FILTER (WHERE k >= 7000) FROM t WHERE small = 7").await;
    assert_eq!(seen[1], "1");
    let all = row(&both.placed, "SELECT k FROM t WHERE k > 6999 ORDER BY k LIMIT 1").await;
    assert_eq!(all, ["7000"]);
    run(&both.placed, "ROLLBACK").await;
    assert_eq!(row(&both.placed, "SELECT count(*) FROM t WHERE k >= 7000").await, ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_by_the_session_is_done_at_the_gateway() {
    let both = both().await;
    for sql in ROWS {
        run(&both.alone, sql).await;
        run(&both.placed, sql).await;
    }
    let questions = [
        "SELECT date_trunc('day', moment) AS d, count(*) FROM t GROUP BY d ORDER BY d",
        "SELECT count(*) FROM t WHERE moment < '2024-04-01'",
        "SELECT moment::text FROM t WHERE k = 3 ORDER BY moment LIMIT 3",
        "SELECT name, sum(n) FROM t WHERE k < 40 GROUP BY name ORDER BY name",
    ];
    for zone in ["Europe/Berlin", "UTC", "America/St_Johns"] {
        for session in [&both.alone, &both.placed] {
            run(session, &format!("SET time zone '{zone}'")).await;
        }
        for question in questions {
            assert_eq!(run(&both.placed, question).await, run(&both.alone, question).await, "{question} in {zone}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_are_drawn_of_all_rows_by_identity() {
    let both = both().await;
    for sql in ROWS {
        run(&both.placed, sql).await;
    }
    let drawn = "SELECT count(*), count(DISTINCT (k, at)), sum(small) FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (7)";
    let first = row(&both.placed, drawn).await;
    let count: u64 = first[0].parse().unwrap();
    assert!((200..400).contains(&count), "a tenth of 3005, about: {count}");
    // Where rows lie does not tell which are drawn: sorted, these are the same.
    run(&both.placed, "CALL alluvia.merge()").await;
    assert_eq!(row(&both.placed, drawn).await, first);
    assert_eq!(both.within.gateway(0).gateway().image().workers().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_at_a_worker_is_that_of_one_process() {
    let both = both().await;
    for sql in ROWS {
        run(&both.alone, sql).await;
        run(&both.placed, sql).await;
    }
    for question in ["SELECT sum(100 / (small - 50)) FROM t", "SELECT sum(n) FROM t WHERE k = 1000 AND n > 0"] {
        let placed = shown(&both.placed, question).await.expect_err("it is refused");
        let alone = shown(&both.alone, question).await.expect_err("it is refused");
        assert_eq!((placed.kind(), placed.message()), (alone.kind(), alone.message()), "{question}");
    }
    assert_eq!(row(&both.placed, "SELECT count(*) FROM t").await, ["3005"]);
}
