//! A transaction that replaces a table beside sessions that write to it: what was acknowledged is not lost in silence.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::shown_rows as rows;
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::Session;
use alluvia_types::{ErrorKind, Result};

async fn run(session: &Session, sql: &str) -> Result<Vec<String>> {
    let outcome = session.sql(sql).await?;
    let notices = outcome.notices().to_vec();
    outcome.collect().await.map(|_| notices)
}

#[test]
fn a_table_that_was_read_and_is_dropped_has_no_rows_that_were_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let options = DatabaseOptions { memory_limit_bytes: 256 << 20, threads: 2, ..DatabaseOptions::default() };
    let db = Database::open_with(dir.path().join("db"), options).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    runtime.block_on(async {
        let (writer, other) = (db.session(), db.session());
        let made = "CREATE TABLE ev (k INT, v DOUBLE) WITH (dimensions = 'k', measures = 'v')";
        run(&writer, made).await.unwrap();
        run(&writer, "CREATE ROLE bob").await.unwrap();
        run(&writer, "GRANT SELECT ON ev TO bob").await.unwrap();
        run(&writer, "INSERT INTO ev VALUES (1, 1), (2, 2)").await.unwrap();
        for (reads, inserts, is_refused) in [(true, true, true), (true, false, false), (false, true, false)] {
            run(&writer, "BEGIN").await.unwrap();
            let copy = match reads {
                true => "CREATE TABLE ev2 AS SELECT * FROM ev WHERE k > 1",
                false => "CREATE TABLE ev2 (k INT, v DOUBLE)",
            };
            run(&writer, copy).await.unwrap();
            if inserts {
                run(&other, "INSERT INTO ev VALUES (3, 3)").await.unwrap();
            }
            run(&writer, "DROP TABLE ev").await.unwrap();
            let notices = run(&writer, "ALTER TABLE ev2 RENAME TO ev").await.unwrap();
            let told = notices.concat();
            for lost in ["dimensions", "measures", "grants"] {
                assert!(told.contains(lost) || (!is_refused && !inserts) || !reads, "{lost}: {told}");
            }
            let committed = run(&writer, "COMMIT").await;
            let kind = committed.err().map(|error| error.kind());
            assert_eq!(kind, is_refused.then_some(ErrorKind::Conflict), "{reads} {inserts}");
            let kept: &[&str] = match (reads, inserts) {
                (true, true) => &["1", "2", "3"],
                (true, false) => &["2", "3"],
                (false, _) => &[],
            };
            assert_eq!(rows(&other, "SELECT k FROM ev ORDER BY k").await, kept);
        }
        // A name alone goes from table to table.
        run(&writer, "BEGIN").await.unwrap();
        run(&writer, "CREATE TABLE ev2 AS SELECT * FROM ev").await.unwrap();
        run(&other, "INSERT INTO ev VALUES (4, 4)").await.unwrap();
        run(&writer, "ALTER TABLE ev RENAME TO ev_old").await.unwrap();
        run(&writer, "ALTER TABLE ev2 RENAME TO ev").await.unwrap();
        run(&writer, "COMMIT").await.unwrap();
        assert_eq!(rows(&other, "SELECT k FROM ev_old").await, ["4"]);
    });
}
