//! SQL text, from sensible to mangled, against parser, planner and execution: never a panic, never an internal error.
//!
//! Statements are made from fragments of real ones, and mangled at random; the seed is printed, so that a failure replays.
//! `make fuzz DURATION=...` runs it longer.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::variable;
use alluvia_node::Database;
use alluvia_types::ErrorKind;
use std::time::{Duration, Instant};

const WORDS: &[&str] = &[
    "SELECT",
    "*",
    "FROM",
    "t",
    "u",
    "WHERE",
    "id",
    "kind",
    "price",
    "at",
    "=",
    "<>",
    "<",
    "IN",
    "(",
    ")",
    ",",
    "1",
    "-1",
    "'a'",
    "NULL",
    "GROUP BY",
    "ORDER BY",
    "LIMIT",
    "sum(price)",
    "count(*)",
    "JOIN",
    "ON",
    "LEFT",
    "AND",
    "OR",
    "NOT",
    "BETWEEN",
    "LIKE",
    "'%b%'",
    "INSERT INTO",
    "VALUES",
    "CREATE TABLE",
    "DROP TABLE",
    "ALTER TABLE",
    "ADD COLUMN",
    "TEXT",
    "INT",
    "WITH",
    "AS",
    "UNION ALL",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "CAST(",
    "::date",
    "extract(year FROM at)",
    "over (partition by kind)",
    "row_number()",
    "EXPLAIN",
    "SET",
    "freshness",
    "'5s'",
    "SHOW",
    "DESCRIBE",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "COPY",
    "TO STDOUT",
    "alluvia.tables",
    "TABLESAMPLE BERNOULLI (10)",
    "/*+ freshness('1s') */",
    "/*",
    "--",
    "'",
    "\"",
    "$1",
    "\\",
    ";",
    "9223372036854775808",
    "1e400",
    "interval '1 day'",
    "date '2026-02-30'",
    "ü",
    "\u{0}",
    "🦀",
    "[",
    "]",
    "{",
    "}",
    "::",
    "||",
    "a.b.c.d",
    "current_timestamp",
    "EXISTS",
    "UPDATE",
    "DELETE",
    "MERGE",
    "GRANT",
    "VACUUM",
    "LATERAL",
    "unnest",
    "generate_series(1, 3)",
    "nullif(id, 0)",
    "1 / 0",
    "price / id",
];
const WHOLE: &[&str] = &[
    "SELECT kind, sum(price) FROM t WHERE id BETWEEN 1 AND 5 GROUP BY kind HAVING count(*) > 0 ORDER BY 2 DESC LIMIT 3",
    "SELECT a.id, b.kind FROM t a JOIN t b ON a.id = b.id WHERE a.kind IN (SELECT kind FROM u)",
    "INSERT INTO t (id, kind) VALUES (1, 'x'), (2, NULL)",
    "WITH c AS (SELECT * FROM t) SELECT max(price) OVER (PARTITION BY kind ORDER BY id) FROM c",
    "CREATE TABLE fresh (a INT, b TEXT) WITH (dimensions = 'b', measures = 'a')",
    "SELECT CASE WHEN id > 1 THEN 'many' ELSE 'one' END, CAST(price AS INT) FROM t",
    "EXPLAIN ANALYZE SELECT count(*) FROM t WHERE kind LIKE 'a%'",
    "INSERT INTO k AS s VALUES (1, 2), (2, 3) ON CONFLICT (id) DO UPDATE SET n = s.n + excluded.n WHERE s.n < 9 RETURNING *",
    "UPDATE t AS s SET (kind, price) = (u.kind, s.price + 1) FROM u WHERE s.kind = u.kind AND s.id IN (SELECT id FROM k)",
    "DELETE FROM k USING t WHERE k.id = t.id AND t.kind = 'x' RETURNING k.n",
    "CREATE TABLE keyed (a INT, b TEXT, PRIMARY KEY (b, a)) WITH (on_conflict = 'replace')",
];

struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % count as u64) as usize
    }
}

fn statement(random: &mut Random) -> String {
    let mut words: Vec<&str> = match random.below(3) {
        0 => (0..1 + random.below(25)).map(|_| WORDS[random.below(WORDS.len())]).collect(),
        _ => WHOLE[random.below(WHOLE.len())].split(' ').collect(),
    };
    for _ in 0..random.below(4) {
        let at = random.below(words.len());
        match random.below(4) {
            0 => drop(words.remove(at)),
            1 => words[at] = WORDS[random.below(WORDS.len())],
            2 => words.insert(at, WORDS[random.below(WORDS.len())]),
            _ => words.truncate(at),
        }
        if words.is_empty() {
            words.push("SELECT");
        }
    }
    words.join(" ")
}

#[test]
fn no_text_panics_or_finds_an_internal_error() {
    let seconds = variable("ALLUVIA_TEST_SECONDS").unwrap_or(5);
    let scratch = tempfile::tempdir().unwrap();
    let db = Database::open(scratch.path().join("db")).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    let seed = variable("ALLUVIA_TEST_SEED").unwrap_or(20_261_121);
    println!("seed {seed} (set ALLUVIA_TEST_SEED to replay another)");
    let mut random = Random(seed);
    let until = Instant::now() + Duration::from_secs(seconds);
    let (mut ran, mut succeeded) = (0, 0);
    runtime.block_on(async {
        let session = db.session();
        for setup in [
            "CREATE TABLE t (id INT, kind TEXT, price DOUBLE, at TIMESTAMP) WITH (dimensions = 'kind; time(at: year, month)', measures = 'price')",
            "CREATE TABLE u (kind TEXT)",
            "CREATE TABLE k (id BIGINT PRIMARY KEY, n INT)",
            "INSERT INTO t VALUES (1, 'a', 1.5, '2026-01-01 00:00:00'), (2, 'b', NULL, NULL)",
            "INSERT INTO u VALUES ('a')",
        ] {
            session.sql(setup).await.unwrap();
        }
        while Instant::now() < until {
            let session = db.session();
            session.sql("SET statement_timeout = '2s'").await.unwrap();
            let text = statement(&mut random);
            // Nothing a mangled statement says may read or write a file of the machine.
            if text.contains("COPY") && !text.contains("STDOUT") {
                continue;
            }
            ran += 1;
            let result = match session.sql(&text).await {
                Ok(outcome) => outcome.collect().await.map(drop),
                Err(error) => Err(error),
            };
            match result {
                Ok(()) => succeeded += 1,
                Err(error) => assert_ne!(error.kind(), ErrorKind::Internal, "{text}\n{error}"),
            }
        }
    });
    println!("{ran} statements, {succeeded} of them ran");
    assert!(ran > 50);
}

/// Chains within the bounds, of which planning once took time by the cube of their length: 15 s for each of these.
#[test]
fn long_chains_within_the_bounds_run() {
    let scratch = tempfile::tempdir().unwrap();
    let db = Database::open(scratch.path().join("db")).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    let numbered = |count: usize, by: &str, one: &dyn Fn(usize) -> String| -> String {
        (0..count).map(one).collect::<Vec<_>>().join(by)
    };
    let chained = numbered(399, ", ", &|at| format!("c{} AS (SELECT * FROM c{at})", at + 1));
    let chains = [
        format!("SELECT {}", vec!["1"; 400].join(" + ")),
        format!("SELECT {}", vec!["1.5::float8"; 240].join(" * ")),
        format!("SELECT {}1", "- ".repeat(400)),
        format!("SELECT {} FROM wide", vec!["a"; 499].join(" + ")),
        format!("SELECT * FROM wide WHERE {} > 0", vec!["a"; 450].join(" + ")),
        format!("SELECT {} FROM wide", vec!["note"; 400].join(" || ")),
        format!("SELECT {} FROM wide", numbered(200, " + ", &|at| format!("coalesce(c{at}, 0)"))),
        format!("SELECT * FROM wide WHERE {} > 0", numbered(150, " + ", &|at| format!("coalesce(c{at}, 0)"))),
        format!("SELECT sum({}) FROM wide GROUP BY note", vec!["a"; 400].join(" - ")),
        format!("SELECT {}1{}", "ARRAY[".repeat(100), "]".repeat(100)),
        format!("WITH c0 AS (SELECT a FROM wide), {chained} SELECT * FROM c399"),
    ];
    runtime.block_on(async {
        let session = db.session();
        let columns = numbered(200, ", ", &|at| format!("c{at} DOUBLE"));
        session.sql(&format!("CREATE TABLE wide (note TEXT, a BIGINT, {columns})")).await.unwrap();
        session.sql("INSERT INTO wide (note, a, c0) VALUES ('x', 1, 2.5), (NULL, NULL, NULL)").await.unwrap();
        for text in chains {
            let shown: String = text.chars().take(60).collect();
            let answer = match session.sql(&text).await {
                Ok(outcome) => outcome.collect().await,
                Err(error) => Err(error),
            };
            assert!(answer.is_ok(), "{shown}...: {}", answer.unwrap_err());
        }
    });
}

#[test]
fn deep_statements_are_refused_or_run_and_never_overflow() {
    let scratch = tempfile::tempdir().unwrap();
    let db = Database::open(scratch.path().join("db")).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    let deep = [
        format!("SELECT {}1{}", "(".repeat(10_000), ")".repeat(10_000)),
        format!("SELECT 1 WHERE {}", vec!["1 = 1"; 20_000].join(" AND ")),
        format!("SELECT {}", vec!["1"; 20_000].join(" + ")),
        format!("SELECT {} 1 {}", "CASE WHEN true THEN ".repeat(5_000), " END".repeat(5_000)),
        format!("{} SELECT 1 {}", "SELECT * FROM (".repeat(3_000), ") AS x".repeat(3_000)),
        format!("SELECT {}1", "NOT ".repeat(20_000)),
        format!("SELECT {}1", "- ".repeat(20_000)),
        format!("SELECT 1 {}", "UNION ALL SELECT 1 ".repeat(3_000)),
        format!("SELECT {}'1'", "interval ".repeat(10_000)),
        format!("SELECT {}'1'", "interval ".repeat(450)),
        format!("SELECT 1::int{}", "[]".repeat(10_000)),
        format!("SELECT 1::int{}", "[]".repeat(450)),
        format!("SELECT '{{1}}'::int{}", "[]".repeat(10_000)),
        format!("SELECT TRY_CAST(1 AS int{})", "[]".repeat(10_000)),
        format!("SELECT (ARRAY[1]){}", "[1]".repeat(10_000)),
        format!("SELECT 1 {}", "NOTNULL ".repeat(20_000)),
        format!("SELECT {}", vec!["CASE WHEN true THEN 1 END"; 20_000].join(" + ")),
        format!("SELECT {} FROM (SELECT 1 AS \"by\") AS t", vec!["by"; 20_000].join(" + ")),
        vec!["SELECT 1 AS end"; 5_000].join(" UNION ALL "),
        vec!["SELECT 1"; 5_000].join(" MINUS "),
        format!("SELECT {}1 1", "floor(".repeat(100)),
        format!("SELECT {}1{}", "case(".repeat(100), ")".repeat(100)),
        format!("SELECT * FROM {}t{}", "((SELECT * FROM ".repeat(30), ") AS x NATURAL JOIN t)".repeat(30)),
    ];
    runtime.block_on(async {
        let session = db.session();
        for text in deep {
            let shown: String = text.chars().take(40).collect();
            let result = match session.sql(&text).await {
                Ok(outcome) => outcome.collect().await.map(drop),
                Err(error) => Err(error),
            };
            if let Err(error) = result {
                assert_ne!(error.kind(), ErrorKind::Internal, "{shown}...: {error}");
            }
        }
    });
}
