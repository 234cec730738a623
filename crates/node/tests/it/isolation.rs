//! Levels of isolation between sessions: what statements of a transaction see of others, and what is refused at a statement or at
//! COMMIT.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::row_locks::{all, all_is_free, contents, database, outcome, refused, waiting};
use crate::support::real::{block_on, run, tag};
use crate::support::shown_rows as rows;
use alluvia_query::ScalarValue;
use alluvia_types::ErrorKind;
use std::sync::Arc;

#[test]
fn counters_at_read_committed_lose_nothing_and_nobody_is_refused() {
    const WRITERS: usize = 4;
    const EACH: usize = 50;
    let (_dir, db, watcher) = database();
    block_on(async {
        let mut writers = tokio::task::JoinSet::new();
        for _ in 0..WRITERS {
            let session = db.session();
            writers.spawn(async move {
                for at in 0..EACH {
                    let count = "UPDATE t SET n = n + 1 WHERE id = 1";
                    if at % 2 == 0 {
                        tag(&session, "BEGIN").await;
                    }
                    assert_eq!(tag(&session, count).await, "UPDATE 1");
                    if at % 2 == 0 {
                        tag(&session, "COMMIT").await;
                    }
                }
            });
        }
        while let Some(done) = writers.join_next().await {
            done.unwrap();
        }
        assert_eq!(contents(&watcher).await, format!("1|{} 2|20", 10 + WRITERS * EACH));
        all_is_free(&watcher).await;
    });
}

#[test]
fn a_level_says_what_statements_see_of_others() {
    let (_dir, db, _watcher) = database();
    block_on(async {
        let (one, other) = (db.session(), db.session());
        for (begin, sees) in [
            ("BEGIN", true),
            ("BEGIN ISOLATION LEVEL READ UNCOMMITTED", true),
            ("BEGIN ISOLATION LEVEL REPEATABLE READ", false),
            ("BEGIN ISOLATION LEVEL SERIALIZABLE", false),
            ("BEGIN READ ONLY", false),
            ("BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY", true),
        ] {
            tag(&other, "UPDATE t SET n = 20 WHERE id = 2").await;
            tag(&one, begin).await;
            assert_eq!(contents(&one).await, "1|10 2|20", "{begin}");
            tag(&other, "UPDATE t SET n = 21 WHERE id = 2").await;
            let now = if sees { "1|10 2|21" } else { "1|10 2|20" };
            assert_eq!(contents(&one).await, now, "{begin}");
            tag(&one, "COMMIT").await;
        }
    });
}

#[test]
fn a_row_that_was_written_since_is_refused_at_its_statement_above_read_committed() {
    let (_dir, db, watcher) = database();
    block_on(async {
        let (one, other) = (db.session(), Arc::new(db.session()));
        for sql in [
            "UPDATE t SET n = n + 1 WHERE id = 1",
            "DELETE FROM t WHERE id = 1",
            "SELECT n FROM t WHERE id = 1 FOR UPDATE",
            "SELECT n FROM t WHERE id = 1 FOR SHARE",
            "INSERT INTO t VALUES (1, 0) ON CONFLICT (id) DO UPDATE SET n = 0",
        ] {
            for level in ["REPEATABLE READ", "SERIALIZABLE"] {
                let begin = format!("BEGIN ISOLATION LEVEL {level}");
                // Written and committed before the statement.
                tag(&other, &begin).await;
                rows(&other, "SELECT n FROM t WHERE id = 1").await;
                tag(&one, "UPDATE t SET n = n + 1 WHERE id = 1").await;
                let error = run(&other, sql).await.unwrap_err();
                assert_eq!(error.kind().sqlstate(), "40001", "{level}, {sql}: {error}");
                tag(&other, "ROLLBACK").await;
                // Written while it waits.
                for (end, is_refused) in [("COMMIT", true), ("ROLLBACK", false)] {
                    tag(&other, &begin).await;
                    all(&one, &["BEGIN", "UPDATE t SET n = n + 1 WHERE id = 1"]).await;
                    let task = waiting(&watcher, &other, sql).await;
                    tag(&one, end).await;
                    assert_eq!(outcome(task).await == "40001", is_refused, "{level}, {sql}, {end}");
                    tag(&other, "ROLLBACK").await;
                }
            }
        }
        // Rows that nobody has written are in nobody's way.
        tag(&other, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
        tag(&one, "UPDATE t SET n = 0 WHERE id = 1").await;
        assert_eq!(tag(&other, "UPDATE t SET n = n + 1 WHERE id = 2").await, "UPDATE 1");
        tag(&other, "COMMIT").await;
        assert_eq!(contents(&watcher).await, "1|0 2|21");
        all_is_free(&watcher).await;
    });
}

#[test]
fn what_a_serializable_transaction_has_read_is_as_it_was_or_its_commit_is_refused() {
    let (_dir, db, watcher) = database();
    block_on(async {
        let (one, other) = (db.session(), db.session());
        for (level, is_refused) in [("REPEATABLE READ", false), ("SERIALIZABLE", true)] {
            all(&one, &["UPDATE t SET n = 1"]).await;
            let begin = format!("BEGIN ISOLATION LEVEL {level}");
            for session in [&one, &other] {
                tag(session, &begin).await;
                assert_eq!(rows(session, "SELECT sum(n) FROM t").await, ["2"]);
            }
            // Each takes one away, as long as there are two.
            tag(&one, "UPDATE t SET n = n - 1 WHERE id = 1").await;
            tag(&other, "UPDATE t SET n = n - 1 WHERE id = 2").await;
            tag(&one, "COMMIT").await;
            match run(&other, "COMMIT").await {
                Ok(_) => assert!(!is_refused, "{level}"),
                Err(error) => assert!(is_refused && error.kind().sqlstate() == "40001", "{level}: {error}"),
            }
            assert_eq!(contents(&watcher).await, if is_refused { "1|0 2|1" } else { "1|0 2|0" }, "{level}");
        }
        // Who writes nothing is never refused.
        for begin in ["BEGIN ISOLATION LEVEL SERIALIZABLE", "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY"] {
            tag(&one, begin).await;
            let before = contents(&one).await;
            tag(&other, "UPDATE t SET n = n + 1").await;
            assert_eq!(contents(&one).await, before);
            tag(&one, "COMMIT").await;
        }
        // Nor who has read nothing that was written.
        tag(&other, "CREATE TABLE u (id INT PRIMARY KEY)").await;
        tag(&one, "BEGIN ISOLATION LEVEL SERIALIZABLE").await;
        assert_eq!(rows(&one, "SELECT count(*) FROM u").await, ["0"]);
        tag(&one, "INSERT INTO u VALUES (1)").await;
        tag(&other, "UPDATE t SET n = 0").await;
        tag(&one, "COMMIT").await;
        assert_eq!(rows(&watcher, "SELECT id FROM u").await, ["1"]);
        all_is_free(&watcher).await;
    });
}

#[test]
fn the_level_is_settled_with_the_first_query() {
    let (_dir, db, _watcher) = database();
    block_on(async {
        let session = db.session();
        let shown = async || rows(&session, "SHOW transaction_isolation").await.remove(0);
        assert_eq!(shown().await, "read committed");
        all(&session, &["BEGIN", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"]).await;
        assert_eq!(shown().await, "serializable");
        tag(&session, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").await;
        assert_eq!(shown().await, "repeatable read");
        for query in ["SELECT n FROM t WHERE id = 1", "SELECT count(*) FROM t", "UPDATE t SET n = n WHERE id = 1"] {
            all(&session, &["ROLLBACK", "BEGIN", query]).await;
            // What it is already, it may be.
            tag(&session, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED").await;
            let error = run(&session, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").await.unwrap_err();
            assert_eq!(error.kind().sqlstate(), "25001", "{query}: {error}");
        }
        tag(&session, "ROLLBACK").await;
        assert_eq!(shown().await, "read committed");
        // As is one by a prepared statement that names its row.
        let prepared = session.prepare("SELECT n FROM t WHERE id = $1 FOR UPDATE").unwrap();
        tag(&session, "BEGIN").await;
        let outcome = session.execute_prepared(&prepared, &[ScalarValue::Int32(Some(1))]).await.unwrap();
        outcome.collect().await.unwrap();
        assert_eq!(
            refused(&session, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE").await,
            ErrorKind::ActiveTransaction
        );
        tag(&session, "ROLLBACK").await;
    });
}
