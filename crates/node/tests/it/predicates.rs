//! The predicate cache over the life of a database: it changes no answer, whatever comes in, is merged or is altered meanwhile, and
//! it is there again after a restart.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::nested::seconds;
use crate::support::real::block_on;
use crate::support::{Random, variable};
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::Session;
use arrow::util::display::array_value_to_string;
use std::path::Path;
use std::time::Instant;

/// All rows, each as its values joined by '|'.
async fn rows(session: &Session, sql: &str) -> Vec<String> {
    let run = async { session.sql(sql).await?.collect().await };
    let batches = run.await.unwrap_or_else(|error| panic!("{sql}\n{error}"));
    let mut rows = Vec::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            let cell = |column: &arrow::array::ArrayRef| array_value_to_string(column, row).expect("shows");
            rows.push(batch.columns().iter().map(cell).collect::<Vec<_>>().join("|"));
        }
    }
    rows
}

async fn number(session: &Session, sql: &str) -> i64 {
    rows(session, sql).await[0].parse().unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn open(dir: &Path) -> Database {
    Database::open_with(dir, DatabaseOptions { memory_limit_bytes: 1 << 30, ..DatabaseOptions::default() }).unwrap()
}

const CREATE: &str = "CREATE TABLE events (n BIGINT, kind TEXT, amount DOUBLE, code INT, note TEXT, at TIMESTAMP)";

/// Rows of which a run of some thousand has few kinds and codes. Large batches are staged as segments.
fn insert(first: u64, count: u64) -> String {
    format!(
        "INSERT INTO events (n, kind, amount, code, note, at) SELECT n, 'kind ' || (n / 4000 * 3 + n % 3), CASE WHEN n % 97 = 0 THEN 'NaN'::double ELSE (n % 1000) / 4.0 END, \
         CASE WHEN n % 11 = 0 THEN NULL ELSE (n / 9000 * 5 + n % 4)::int END, 'note ' || (n * 7919 % 100003), \
         to_timestamp_seconds(1790000000 + n * 60)::timestamp \
         FROM (SELECT value AS n FROM generate_series({first}, {}))",
        first + count - 1
    )
}

/// How often the database is opened.
const LIVES: u32 = 3;
/// Whoever asks for long finds enough of them.
const ROWS_MAX: u64 = 400_000;

fn atom(random: &mut Random) -> String {
    let operator = ["=", "<", "<=", ">", ">=", "<>"][random.below(6) as usize];
    match random.below(9) {
        0 => format!("kind = 'kind {}'", random.below(40)),
        1 => format!("kind IN ('kind {}', 'kind {}')", random.below(40), random.below(40)),
        2 => format!("kind LIKE 'kind {}%'", random.below(30)),
        3 => format!("code {operator} {}", random.below(30)),
        4 => format!("code BETWEEN {} AND {}", random.below(15), 10 + random.below(15)),
        5 => format!("amount {operator} {}", [0.0, 100.25, 249.75][random.below(3) as usize]),
        6 => format!("note LIKE '%{}'", random.below(2_000)),
        7 => format!("n % {} = 0", 5_000 + random.below(3) * 1_000),
        _ => format!("at >= '2026-10-{:02} 00:00:00'", 1 + random.below(28)),
    }
}

/// `ALLUVIA_TEST_SEED` replays, `ALLUVIA_TEST_SECONDS` asks for longer.
#[test]
fn cached_predicates_never_change_an_answer() {
    let seed = variable("ALLUVIA_TEST_SEED").unwrap_or(4_711);
    let time = seconds(0) / LIVES;
    let mut random = Random(seed);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let mut next = 0;
    let mut asked: Vec<String> = Vec::new();
    let mut skipped = 0;
    for life in 0..LIVES {
        let db = open(&path);
        block_on(async {
            let (session, model, reader) = (db.session(), db.session(), db.session());
            rows(&model, "SET predicate_cache = off").await;
            if life == 0 {
                rows(&session, CREATE).await;
            }
            let start = Instant::now();
            let mut step = 0;
            while step < 90 || start.elapsed() < time {
                step += 1;
                match random.below(30) {
                    0..3 if next < ROWS_MAX => {
                        let count = 500 + random.below(12_000);
                        rows(&session, &insert(next, count)).await;
                        next += count;
                    }
                    3 => drop(rows(&session, "CALL alluvia.flush()").await),
                    4 => drop(rows(&session, "CALL alluvia.merge()").await),
                    5 if life == 1 && step > 40 => {
                        // What was a column comes back as another one.
                        rows(&session, "ALTER TABLE events DROP COLUMN code").await;
                        rows(&session, "ALTER TABLE events ADD COLUMN code INT").await;
                        rows(&session, "ALTER TABLE events DROP COLUMN code").await;
                        rows(&session, "ALTER TABLE events RENAME COLUMN n TO m").await;
                        rows(&session, "ALTER TABLE events ADD COLUMN code INT").await;
                        rows(&session, "ALTER TABLE events RENAME COLUMN m TO n").await;
                    }
                    _ => {}
                }
                let predicate = match random.below(4) {
                    0 if !asked.is_empty() => asked[random.below(asked.len() as u64) as usize].clone(),
                    1 if !asked.is_empty() => {
                        format!("{} AND {}", asked[random.below(asked.len() as u64) as usize], atom(&mut random))
                    }
                    _ => atom(&mut random),
                };
                let sql = match random.below(3) {
                    0 => format!("SELECT n, kind FROM events WHERE {predicate} ORDER BY n LIMIT 20"),
                    1 => format!("SELECT count(*), min(n), max(note) FROM events WHERE {predicate}"),
                    _ => format!("SELECT kind, count(*) FROM events WHERE {predicate} GROUP BY kind ORDER BY kind"),
                };
                // A reader of an older version beside it: what it has learnt holds for all.
                let older = next < ROWS_MAX && random.below(6) == 0;
                if older {
                    rows(&reader, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
                    let before = rows(&reader, &sql).await;
                    rows(&session, &insert(next, 900)).await;
                    next += 900;
                    rows(&session, "CALL alluvia.flush()").await;
                    assert_eq!(rows(&reader, &sql).await, before, "{sql}");
                }
                assert_eq!(rows(&session, &sql).await, rows(&model, &sql).await, "seed {seed}, {sql}");
                if older {
                    rows(&reader, "COMMIT").await;
                }
                asked.push(predicate);
            }
            skipped +=
                number(&session, "SELECT coalesce(sum(blocks_skipped), 0)::bigint FROM alluvia.predicate_cache").await;
            let wrong = "SELECT count(*) FROM alluvia.predicate_cache \
                WHERE blocks_without_match > blocks_seen OR blocks_seen > blocks OR bytes <= 0 OR table_name <> 'events'";
            assert_eq!(number(&session, wrong).await, 0);
        });
    }
    assert!(skipped > 0, "no block was spared");
}

#[test]
fn what_was_learnt_is_there_after_a_restart_and_goes_with_its_segments() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let question = "SELECT count(*) FROM events WHERE note LIKE '%4711'";
    let read = "SELECT blocks_read FROM alluvia.queries WHERE sql LIKE '%4711%' AND sql NOT LIKE '%queries%' ORDER BY query_id DESC LIMIT 1";
    let listed = "SELECT segment_id, predicate, blocks, blocks_seen, blocks_without_match FROM alluvia.predicate_cache ORDER BY 1, 2";
    let hits = "SELECT sum(hits)::bigint FROM alluvia.predicate_cache";
    let (before, entries, hits_before) = {
        let db = open(&path);
        block_on(async {
            let session = db.session();
            rows(&session, CREATE).await;
            rows(&session, &insert(0, 100_000)).await;
            rows(&session, "CALL alluvia.merge()").await;
            let found = rows(&session, question).await;
            let first = number(&session, read).await;
            assert!(first >= 13, "{first} blocks");
            assert_eq!(number(&session, "SELECT sum(blocks_seen)::bigint FROM alluvia.predicate_cache").await, first);
            assert_eq!(rows(&session, question).await, found);
            // Ten rows match.
            let second = number(&session, read).await;
            assert!(second <= 10, "{second} blocks");
            (second, rows(&session, listed).await, number(&session, hits).await)
        })
    };
    assert!(!entries.is_empty() && entries.iter().all(|entry| entry.contains("(note LIKE '%4711')")), "{entries:?}");
    assert!(path.join("predicates").exists());
    let db = open(&path);
    block_on(async {
        let session = db.session();
        assert_eq!(rows(&session, listed).await, entries);
        rows(&session, question).await;
        assert_eq!(number(&session, read).await, before);
        assert!(number(&session, hits).await > hits_before);
        // A merge makes other segments, of which nothing is known.
        rows(&session, &insert(100_000, 100_000)).await;
        rows(&session, "CALL alluvia.merge()").await;
        rows(&session, question).await;
        assert!(number(&session, read).await > before, "nothing is known of new segments");
    });
    drop(db);
    let file = path.join("predicates");
    let db = open(&path);
    block_on(async {
        let session = db.session();
        let gone = "SELECT count(*) FROM alluvia.predicate_cache WHERE segment_id NOT IN (SELECT segment_id FROM alluvia.segments)";
        assert_eq!(number(&session, gone).await, 0);
        assert!(number(&session, "SELECT count(*) FROM alluvia.predicate_cache").await > 0);
        rows(&session, "DROP TABLE events").await;
    });
    drop(db);
    // A damaged file is set aside.
    let db = open(&path);
    drop(db);
    std::fs::write(&file, b"nothing of the kind").unwrap();
    let db = open(&path);
    block_on(async {
        assert!(rows(&db.session(), "SELECT * FROM alluvia.predicate_cache").await.is_empty());
    });
    assert!(path.join("predicates.damaged").exists());
}
