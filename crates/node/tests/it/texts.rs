//! Statements asked by the same text again, which are not parsed again: they mean what they would mean if nobody had asked before.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use alluvia_node::{Database, DatabaseOptions};
use alluvia_pipeline::PipelineOptions;
use alluvia_query::Session;
use alluvia_types::{ErrorKind, Result};
use arrow::util::display::array_value_to_string;
use std::time::Duration;

const CREATE: &str = "CREATE TABLE sales (country TEXT, city TEXT, item TEXT, quantity INT) WITH \
    (dimensions = 'store(country, city); item', measures = 'quantity')";
const QUESTION: &str = "SELECT count(*), sum(quantity) FROM sales WHERE city IN ('city 1', 'city 5', 'city new')";

async fn ask(session: &Session, sql: &str) -> Result<Vec<String>> {
    let mut rows = Vec::new();
    for batch in session.sql(sql).await?.collect().await? {
        for row in 0..batch.num_rows() {
            let cell = |column: &arrow::array::ArrayRef| array_value_to_string(column, row).expect("shows");
            rows.push(batch.columns().iter().map(cell).collect::<Vec<_>>().join("|"));
        }
    }
    Ok(rows)
}

async fn rows(session: &Session, sql: &str) -> Vec<String> {
    ask(session, sql).await.unwrap_or_else(|error| panic!("{sql}\n{error}"))
}

fn insert(rows: usize) -> String {
    let row = |n: usize| format!("('country {}', 'city {}', 'item {}', {})", n % 4, n % 12, n % 7, n % 100);
    format!("INSERT INTO sales VALUES {}", (0..rows).map(row).collect::<Vec<_>>().join(", "))
}

/// A session whose answers come from the tree, and one whose answers come from plans.
async fn sessions(db: &Database) -> (Session, Session) {
    let (index, plan) = (db.session(), db.session());
    rows(&index, "SET cuboids = off").await;
    for setting in ["cuboids", "short_path", "index_rule"] {
        rows(&plan, &format!("SET {setting} = off")).await;
    }
    (index, plan)
}

async fn filled() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().expect("a directory");
    // Nothing is sorted or merged unless it is asked for: what is merged says how old an answer is.
    let never = Duration::from_secs(86_400);
    let pipeline = PipelineOptions { sort_interval: never, merge_interval: never, ..PipelineOptions::default() };
    let options = DatabaseOptions { pipeline, ..DatabaseOptions::default() };
    let db = Database::open_with(dir.path().join("db"), options).expect("opens");
    let session = db.session();
    rows(&session, CREATE).await;
    rows(&session, &insert(2_000)).await;
    rows(&session, "CALL alluvia.merge()").await;
    (dir, db)
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_and_members_that_came_since_are_seen() {
    let (_dir, db) = filled().await;
    let (index, plan) = sessions(&db).await;
    for step in 0..6 {
        for _ in 0..2 {
            assert_eq!(rows(&index, QUESTION).await, rows(&plan, QUESTION).await, "step {step}");
        }
        let change = match step {
            0 => "INSERT INTO sales VALUES ('country 1', 'city 1', 'item 1', 7)",
            1 => "INSERT INTO sales VALUES ('country 9', 'city new', 'item 1', 9)",
            2 => "CALL alluvia.flush()",
            3 => "CALL alluvia.merge()",
            4 => "ALTER TABLE sales ADD COLUMN note TEXT",
            _ => "ALTER TABLE sales DROP COLUMN note",
        };
        rows(&plan, change).await;
    }
    rows(&plan, "DROP TABLE sales").await;
    assert_eq!(ask(&index, QUESTION).await.unwrap_err().kind(), ErrorKind::UndefinedTable);
    rows(&plan, CREATE).await;
    rows(&plan, "INSERT INTO sales VALUES ('country 1', 'city 5', 'item 1', 70)").await;
    assert_eq!(rows(&index, QUESTION).await, ["1|70"]);
    rows(&plan, "ALTER TABLE sales RENAME COLUMN quantity TO pieces").await;
    assert_eq!(ask(&index, QUESTION).await.unwrap_err().kind(), ErrorKind::UndefinedColumn);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_session_is_set_to_holds_for_texts_that_others_asked() {
    let (_dir, db) = filled().await;
    let (index, plan) = sessions(&db).await;
    let exact = rows(&index, QUESTION).await;
    for session in [&index, &plan] {
        rows(session, "SET sample_fraction = '0.5'").await;
    }
    let drawn = rows(&index, QUESTION).await;
    assert_eq!(drawn, rows(&plan, QUESTION).await);
    assert_ne!(drawn, exact);
    rows(&index, "SET sample_fraction = '1'").await;
    assert_eq!(rows(&index, QUESTION).await, exact);
    // A HAVING on what is not shown is the index's where estimates are allowed, and the plan's where not.
    let having =
        "SELECT country FROM sales WHERE item = 'item 1' GROUP BY country HAVING sum(quantity) > 3000 ORDER BY country";
    let expected = rows(&plan, &having.replace("SELECT", "SELECT /*+ sample_fraction(1) */")).await;
    for error in ["0.05", "0", "0.05"] {
        rows(&index, &format!("SET max_error = '{error}'")).await;
        for _ in 0..2 {
            assert_eq!(rows(&index, having).await, expected, "max_error {error}");
        }
    }
    // A hint belongs to its text.
    let hinted = QUESTION.replace("SELECT", "SELECT /*+ freshness('merged') */");
    let merged = rows(&index, &hinted).await;
    let writer = db.session();
    rows(&writer, "INSERT INTO sales VALUES ('country 1', 'city 1', 'item 1', 7)").await;
    let (asked, other) = (db.session(), db.session());
    assert_eq!(rows(&asked, &hinted).await, merged);
    assert_ne!(rows(&other, QUESTION).await, merged);
    assert_eq!(rows(&asked, &hinted).await, merged);
}

/// What asks a query on the way means more than its answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_is_declared_each_time() {
    let (_dir, db) = filled().await;
    for (index, _) in [sessions(&db).await, (db.session(), db.session())] {
        let declare = format!("DECLARE c CURSOR WITH HOLD FOR {QUESTION}");
        for _ in 0..3 {
            assert_eq!(rows(&index, &declare).await, Vec::<String>::new());
            assert_eq!(ask(&index, &declare).await.unwrap_err().kind(), ErrorKind::DuplicateCursor);
            assert_eq!(rows(&index, "FETCH ALL FROM c").await, rows(&index, QUESTION).await);
            rows(&index, "CLOSE c").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_and_rights_are_looked_at_each_time() {
    let (_dir, db) = filled().await;
    let (index, _) = sessions(&db).await;
    let before = rows(&index, QUESTION).await;
    rows(&index, "BEGIN").await;
    rows(&index, "INSERT INTO sales VALUES ('country 1', 'city 1', 'item 1', 7)").await;
    assert_ne!(rows(&index, QUESTION).await, before, "a transaction sees its own rows");
    assert!(ask(&index, "SELECT 1 / 0").await.is_err());
    assert!(ask(&index, QUESTION).await.is_err(), "it has failed");
    rows(&index, "ROLLBACK").await;
    assert_eq!(rows(&index, QUESTION).await, before);
    rows(&index, "CREATE ROLE nobody").await;
    rows(&index, "SET ROLE nobody").await;
    assert_eq!(ask(&index, QUESTION).await.unwrap_err().kind(), ErrorKind::Forbidden);
    rows(&index, "RESET ROLE").await;
    rows(&index, "GRANT SELECT ON sales TO nobody").await;
    rows(&index, "SET ROLE nobody").await;
    assert_eq!(rows(&index, QUESTION).await, before);
}
