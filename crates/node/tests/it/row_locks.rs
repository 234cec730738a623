//! Locks of rows between sessions: who changes or locks a row by its key waits for the transaction that has it, in or outside of
//! one, and goes on by what is there then. `isolation` has what each level sees and refuses.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::real::{block_on, open, run, tag};
use crate::support::shown_rows as rows;
use alluvia_node::Database;
use alluvia_query::{ScalarValue, Session};
use alluvia_syntax::copy::streams::Streams;
use alluvia_types::{ErrorKind, Result};
use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

pub(crate) type Task = JoinHandle<Result<String>>;

pub(crate) async fn all(session: &Session, script: &[&str]) {
    for statement in script {
        tag(session, statement).await;
    }
}

pub(crate) async fn refused(session: &Session, sql: &str) -> ErrorKind {
    match run(session, sql).await {
        Ok(tag) => panic!("{sql} is {tag}"),
        Err(error) => error.kind(),
    }
}

/// A database with a table `t` of two rows, and who looks at it.
pub(crate) fn database() -> (tempfile::TempDir, Database, Session) {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    let watcher = db.session();
    block_on(all(&watcher, &["CREATE TABLE t (id INT PRIMARY KEY, n INT)", "INSERT INTO t VALUES (1, 10), (2, 20)"]));
    (dir, db, watcher)
}

pub(crate) async fn contents(session: &Session) -> String {
    rows(session, "SELECT id, n FROM t ORDER BY id").await.join(" ")
}

/// Goes on as soon as the session that a task is of waits for a lock.
async fn until_waiting(watcher: &Session, session: u64, task: Task, sql: &str) -> Task {
    let asked = format!("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = {session}");
    while rows(watcher, &asked).await != ["1"] {
        if task.is_finished() {
            panic!("{sql} does not wait: {:?}", task.await);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    task
}

/// A statement of a session that waits for a lock.
pub(crate) async fn waiting(watcher: &Session, session: &Arc<Session>, sql: &str) -> Task {
    let (of_task, text) = (Arc::clone(session), sql.to_owned());
    let task = tokio::spawn(async move { run(&of_task, &text).await });
    until_waiting(watcher, session.id(), task, sql).await
}

/// What became of who waited: the tag, or the error's SQLSTATE.
pub(crate) async fn outcome(task: Task) -> String {
    task.await.unwrap().unwrap_or_else(|error| error.kind().sqlstate().to_owned())
}

async fn copy_in(session: &Session, sql: &str, text: &'static str) -> Result<String> {
    let statement = session.parse(sql)?.remove(0);
    let streams = Streams { stdin: Some(Box::new(Cursor::new(text.as_bytes().to_vec()))), stdout: None };
    session.execute_with(statement, streams).await.map(|outcome| outcome.tag)
}

/// A statement of a session that waits, and is cancelled.
async fn cancelled(watcher: &Session, session: &Arc<Session>, sql: &str) {
    let task = waiting(watcher, session, sql).await;
    session.cancel_handle().cancel();
    assert_eq!(outcome(task).await, "57014", "{sql}");
    let asked = format!("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = {}", session.id());
    while rows(watcher, &asked).await != ["0"] {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Nothing is locked, and nobody waits.
pub(crate) async fn all_is_free(watcher: &Session) {
    while rows(watcher, "SELECT count(*) FROM pg_locks").await != ["0"] {
        // Who was cancelled goes from among those who wait a moment after it was told.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A statement of a transaction, one of another session outside of any, and what becomes of it and of the table, which has
/// `1|10 2|20`, after COMMIT and after ROLLBACK.
type Meeting = (&'static str, &'static str, [(&'static str, &'static str); 2]);

const UPSERT: &str = "INSERT INTO t VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET n = t.n + excluded.n";
const MERGE: &str = "MERGE INTO t USING (SELECT 1 AS id, 5 AS n) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = t.n + s.n \
                     WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, s.n)";

const MEETINGS: [Meeting; 16] = [
    (
        "UPDATE t SET n = n + 1 WHERE id = 1",
        "UPDATE t SET n = n * 2 WHERE id = 1",
        [("UPDATE 1", "1|22 2|20"), ("UPDATE 1", "1|20 2|20")],
    ),
    (
        "UPDATE t SET n = n + 1 WHERE id = 1",
        "UPDATE t SET n = n + 100",
        [("UPDATE 2", "1|111 2|120"), ("UPDATE 2", "1|110 2|120")],
    ),
    ("UPDATE t SET n = n + 1 WHERE id = 1", "DELETE FROM t WHERE id = 1", [("DELETE 1", "2|20"), ("DELETE 1", "2|20")]),
    (
        "UPDATE t SET n = n + 1 WHERE id = 1",
        "DELETE FROM t WHERE n = 10",
        [("DELETE 0", "1|11 2|20"), ("DELETE 1", "2|20")],
    ),
    ("UPDATE t SET n = n + 1 WHERE id = 1", UPSERT, [("INSERT 0 1", "1|16 2|20"), ("INSERT 0 1", "1|15 2|20")]),
    ("UPDATE t SET n = n + 1 WHERE id = 1", MERGE, [("MERGE 1", "1|16 2|20"), ("MERGE 1", "1|15 2|20")]),
    (
        "UPDATE t SET id = 7 WHERE id = 1",
        "UPDATE t SET n = n * 2 WHERE id = 1",
        [("UPDATE 0", "2|20 7|10"), ("UPDATE 1", "1|20 2|20")],
    ),
    (
        "UPDATE t SET id = 7 WHERE id = 1",
        "INSERT INTO t VALUES (7, 70)",
        [("23505", "2|20 7|10"), ("INSERT 0 1", "1|10 2|20 7|70")],
    ),
    (
        "DELETE FROM t WHERE id = 1",
        "UPDATE t SET n = n * 2 WHERE id = 1",
        [("UPDATE 0", "2|20"), ("UPDATE 1", "1|20 2|20")],
    ),
    ("DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (1, 7)", [("INSERT 0 1", "1|7 2|20"), ("23505", "1|10 2|20")]),
    (
        "SELECT n FROM t WHERE id = 1 FOR UPDATE",
        "UPDATE t SET n = n * 2 WHERE id = 1",
        [("UPDATE 1", "1|20 2|20"), ("UPDATE 1", "1|20 2|20")],
    ),
    (
        "SELECT n FROM t WHERE id = 1 FOR SHARE",
        "DELETE FROM t WHERE id = 1",
        [("DELETE 1", "2|20"), ("DELETE 1", "2|20")],
    ),
    (
        "UPDATE t SET n = n + 1 WHERE id = 1",
        "SELECT n FROM t WHERE id = 1 FOR UPDATE",
        [("SELECT", "1|11 2|20"), ("SELECT", "1|10 2|20")],
    ),
    (
        "INSERT INTO t VALUES (9, 90)",
        "INSERT INTO t VALUES (9, 1)",
        [("23505", "1|10 2|20 9|90"), ("INSERT 0 1", "1|10 2|20 9|1")],
    ),
    (
        "INSERT INTO t VALUES (9, 90)",
        "INSERT INTO t VALUES (9, 1) ON CONFLICT (id) DO UPDATE SET n = t.n + excluded.n",
        [("INSERT 0 1", "1|10 2|20 9|91"), ("INSERT 0 1", "1|10 2|20 9|1")],
    ),
    (
        "INSERT INTO t VALUES (9, 90)",
        "INSERT INTO t VALUES (9, 1) ON CONFLICT DO NOTHING",
        [("INSERT 0 0", "1|10 2|20 9|90"), ("INSERT 0 1", "1|10 2|20 9|1")],
    ),
];

#[test]
fn statements_wait_for_rows_that_a_transaction_has_and_go_on_by_what_is_there_then() {
    let (_dir, db, watcher) = database();
    block_on(async {
        let (one, other) = (db.session(), Arc::new(db.session()));
        for (held, waits, outcomes) in MEETINGS {
            // Outside of a transaction, and in one of its own.
            for is_alone in [true, false] {
                for (end, (tag_then, contents_then)) in ["COMMIT", "ROLLBACK"].into_iter().zip(outcomes) {
                    let what = format!("{held}; {waits}; {end}, alone: {is_alone}");
                    all(&one, &["DELETE FROM t", "INSERT INTO t VALUES (1, 10), (2, 20)", "BEGIN", held]).await;
                    if !is_alone {
                        tag(&other, "BEGIN").await;
                    }
                    let task = waiting(&watcher, &other, waits).await;
                    assert_eq!(contents(&watcher).await, "1|10 2|20", "{what}: readers do not wait");
                    tag(&one, end).await;
                    assert_eq!(outcome(task).await, tag_then, "{what}");
                    if !is_alone {
                        tag(&other, "COMMIT").await;
                    }
                    assert_eq!(contents(&watcher).await, contents_then, "{what}");
                    all_is_free(&watcher).await;
                }
            }
        }
    });
}

#[test]
fn prepared_statements_about_rows_that_they_name_wait_as_others_do() {
    let (_dir, db, watcher) = database();
    block_on(async {
        let (one, other) = (db.session(), Arc::new(db.session()));
        for begin in ["", "BEGIN"] {
            for (sql, expected) in [
                ("UPDATE t SET n = n * 2 WHERE id = $1", "1|22 2|20"),
                ("DELETE FROM t WHERE id = $1", "2|20"),
                ("SELECT n FROM t WHERE id = $1 FOR UPDATE", "1|11 2|20"),
            ] {
                all(&one, &["DELETE FROM t", "INSERT INTO t VALUES (1, 10), (2, 20)"]).await;
                all(&one, &["BEGIN", "UPDATE t SET n = n + 1 WHERE id = 1"]).await;
                if !begin.is_empty() {
                    tag(&other, begin).await;
                }
                let of_task = Arc::clone(&other);
                let task: Task = tokio::spawn(async move {
                    let prepared = of_task.prepare(sql)?;
                    let outcome = of_task.execute_prepared(&prepared, &[ScalarValue::Int32(Some(1))]).await?;
                    let tag = outcome.tag.clone();
                    let found = outcome.collect().await?;
                    Ok(format!("{tag} {}", found.iter().map(|batch| batch.num_rows()).sum::<usize>()))
                });
                let task = until_waiting(&watcher, other.id(), task, sql).await;
                tag(&one, "COMMIT").await;
                let done = task.await.unwrap().unwrap_or_else(|error| panic!("{sql}: {error}"));
                assert!(done.ends_with(if sql.starts_with("SELECT") { "SELECT 1" } else { "1 0" }), "{sql}: {done}");
                if !begin.is_empty() {
                    tag(&other, "COMMIT").await;
                }
                assert_eq!(contents(&watcher).await, expected, "{sql}");
            }
        }
        all_is_free(&watcher).await;
    });
}

#[test]
fn a_copy_into_locked_rows_is_refused_outside_of_a_transaction_and_waits_in_one() {
    const REPLACES: &str = "COPY t FROM STDIN (FORMAT csv, HEADER false, ON_CONFLICT replace)";
    let (_dir, db, watcher) = database();
    block_on(async {
        let (one, other) = (db.session(), Arc::new(db.session()));
        for held in ["UPDATE t SET n = n + 1 WHERE id = 1", "SELECT n FROM t WHERE id = 1 FOR UPDATE"] {
            all(&one, &["BEGIN", held]).await;
            let error = copy_in(&other, REPLACES, "3,30\n1,5\n").await.unwrap_err();
            assert_eq!(error.kind().sqlstate(), "55P03", "{error}");
            tag(&one, "ROLLBACK").await;
            assert_eq!(contents(&watcher).await, "1|10 2|20", "{held}: nothing is loaded");
        }
        // Rows that nobody has locked are loaded at once.
        all(&one, &["BEGIN", "UPDATE t SET n = n + 1 WHERE id = 1"]).await;
        assert_eq!(copy_in(&other, REPLACES, "3,30\n2,21\n").await.unwrap(), "COPY 2");
        tag(&other, "BEGIN").await;
        let of_task = Arc::clone(&other);
        let task = tokio::spawn(async move { copy_in(&of_task, REPLACES, "4,40\n1,5\n").await });
        let task = until_waiting(&watcher, other.id(), task, REPLACES).await;
        tag(&one, "COMMIT").await;
        assert_eq!(outcome(task).await, "COPY 2");
        assert_eq!(contents(&watcher).await, "1|11 2|21 3|30");
        tag(&other, "COMMIT").await;
        assert_eq!(contents(&watcher).await, "1|5 2|21 3|30 4|40");
        // And it locks what it brings.
        tag(&one, "BEGIN").await;
        copy_in(&one, "COPY t FROM STDIN (FORMAT csv, HEADER false)", "5,50\n").await.unwrap();
        let task = waiting(&watcher, &other, "INSERT INTO t VALUES (5, 55)").await;
        tag(&one, "COMMIT").await;
        assert_eq!(outcome(task).await, "23505");
        all_is_free(&watcher).await;
    });
}

#[test]
fn who_ends_or_goes_back_frees_rows() {
    let (_dir, db, watcher) = database();
    block_on(async {
        let (one, other) = (db.session(), Arc::new(db.session()));
        // A session that is gone.
        all(&one, &["BEGIN", "UPDATE t SET n = n + 1 WHERE id = 1"]).await;
        let task = waiting(&watcher, &other, "UPDATE t SET n = n * 2 WHERE id = 1").await;
        drop(one);
        assert_eq!(outcome(task).await, "UPDATE 1");
        assert_eq!(contents(&watcher).await, "1|20 2|20");
        // ROLLBACK TO: what was locked since, and nothing else.
        let one = db.session();
        all(&one, &["BEGIN", "UPDATE t SET n = 1 WHERE id = 1", "SAVEPOINT s", "UPDATE t SET n = 2 WHERE id = 2"])
            .await;
        let task = waiting(&watcher, &other, "UPDATE t SET n = n + 1 WHERE id = 2").await;
        tag(&one, "ROLLBACK TO s").await;
        assert_eq!(outcome(task).await, "UPDATE 1");
        let task = waiting(&watcher, &other, "UPDATE t SET n = n + 1 WHERE id = 1").await;
        tag(&one, "COMMIT").await;
        assert_eq!(outcome(task).await, "UPDATE 1");
        assert_eq!(contents(&watcher).await, "1|2 2|21");
        // What a savepoint has before it is locked, it keeps: also where the same row is changed again behind it.
        all(&one, &["BEGIN", "SELECT n FROM t WHERE id = 1 FOR UPDATE", "SAVEPOINT s", "DELETE FROM t WHERE id = 1"])
            .await;
        tag(&one, "ROLLBACK TO s").await;
        let task = waiting(&watcher, &other, "UPDATE t SET n = n + 1 WHERE id = 1").await;
        tag(&one, "ROLLBACK").await;
        assert_eq!(outcome(task).await, "UPDATE 1");
        // An error frees what came behind the last savepoint.
        all(&one, &["BEGIN", "UPDATE t SET n = 0 WHERE id = 1", "SAVEPOINT s", "UPDATE t SET n = 0 WHERE id = 2"])
            .await;
        assert_eq!(refused(&one, "SELECT 1 / 0").await.sqlstate(), "22012");
        assert_eq!(tag(&other, "UPDATE t SET n = n + 1 WHERE id = 2").await, "UPDATE 1");
        tag(&one, "ROLLBACK").await;
        assert_eq!(contents(&watcher).await, "1|3 2|22");
        all_is_free(&watcher).await;
    });
}

#[test]
fn locks_are_waited_for_as_long_as_is_said() {
    let (_dir, db, watcher) = database();
    block_on(async {
        let (one, other) = (db.session(), Arc::new(db.session()));
        all(&one, &["BEGIN", "UPDATE t SET n = n + 1 WHERE id = 1"]).await;
        tag(&other, "SET lock_timeout = '20ms'").await;
        for sql in [
            "UPDATE t SET n = 0 WHERE id = 1",
            "DELETE FROM t",
            "INSERT INTO t VALUES (1, 1)",
            "SELECT n FROM t WHERE id = 1 FOR UPDATE",
            "SELECT n FROM t FOR SHARE",
        ] {
            let error = run(&other, sql).await.unwrap_err();
            assert_eq!(error.kind().sqlstate(), "55P03", "{sql}: {error}");
            assert!(error.hint().is_some_and(|hint| hint.contains("lock_timeout")), "{sql}: {error}");
            tag(&other, "BEGIN").await;
            assert_eq!(refused(&other, sql).await, ErrorKind::LockNotAvailable, "{sql}");
            tag(&other, "ROLLBACK").await;
        }
        // Others' rows are in nobody's way.
        assert_eq!(tag(&other, "UPDATE t SET n = n + 1 WHERE id = 2").await, "UPDATE 1");
        tag(&other, "RESET lock_timeout").await;
        for sql in ["SELECT n FROM t WHERE id = 1 FOR UPDATE NOWAIT", "SELECT n FROM t FOR SHARE OF t NOWAIT"] {
            let error = run(&other, sql).await.unwrap_err();
            assert_eq!(error.kind().sqlstate(), "55P03", "{sql}: {error}");
        }
        assert_eq!(rows(&other, "SELECT n FROM t WHERE id = 2 FOR UPDATE NOWAIT").await, ["21"]);
        assert_eq!(
            rows(&watcher, "SELECT locktype, relation = (SELECT oid FROM pg_class WHERE relname = 't'), mode, granted FROM pg_locks").await,
            ["tuple|true|ExclusiveLock|true"]
        );
        tag(&one, "COMMIT").await;
        // What is shared is shared, and nobody's to change.
        all(&one, &["BEGIN", "SELECT n FROM t WHERE id = 1 FOR SHARE"]).await;
        assert_eq!(rows(&other, "SELECT n FROM t WHERE id = 1 FOR SHARE NOWAIT").await, ["11"]);
        assert_eq!(
            refused(&other, "SELECT n FROM t WHERE id = 1 FOR UPDATE NOWAIT").await,
            ErrorKind::LockNotAvailable
        );
        tag(&one, "COMMIT").await;
        all_is_free(&watcher).await;
    });
}

#[test]
fn rows_that_are_passed_over_count_for_no_limit() {
    let (_dir, db, watcher) = database();
    block_on(async {
        let (one, other) = (db.session(), db.session());
        tag(&one, "INSERT INTO t SELECT value, value * 10 FROM generate_series(3, 7) AS s (value)").await;
        let next = "SELECT id FROM t ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED";
        all(&one, &["BEGIN", "UPDATE t SET n = 0 WHERE id = 2"]).await;
        assert_eq!(rows(&one, next).await, ["1", "2"], "what is one's own is not passed over");
        tag(&other, "BEGIN").await;
        assert_eq!(rows(&other, next).await, ["3", "4"]);
        assert_eq!(rows(&watcher, next).await, ["5", "6"], "outside of a transaction they are free again");
        assert_eq!(rows(&watcher, &next.replace("LIMIT 2", "LIMIT 2 OFFSET 1")).await, ["6", "7"]);
        assert_eq!(rows(&watcher, "SELECT id FROM t ORDER BY id DESC FOR SHARE SKIP LOCKED").await, ["7", "6", "5"]);
        assert!(rows(&watcher, "SELECT id FROM t WHERE id < 5 FOR UPDATE SKIP LOCKED").await.is_empty());
        tag(&other, "ROLLBACK").await;
        assert_eq!(rows(&watcher, next).await, ["3", "4"]);
        tag(&one, "COMMIT").await;
        assert_eq!(rows(&watcher, next).await, ["1", "2"]);
        all_is_free(&watcher).await;
    });
}

#[test]
fn who_would_close_a_circle_is_refused_and_the_other_goes_on() {
    let (_dir, db, watcher) = database();
    block_on(async {
        let (one, other) = (Arc::new(db.session()), db.session());
        for circle in ["UPDATE t SET n = n + 1 WHERE id = 1", "SELECT n FROM t WHERE id = 1 FOR UPDATE"] {
            all(&one, &["BEGIN", "UPDATE t SET n = n + 1 WHERE id = 1"]).await;
            all(&other, &["BEGIN", "UPDATE t SET n = n + 100 WHERE id = 2"]).await;
            let task = waiting(&watcher, &one, "UPDATE t SET n = n + 1 WHERE id = 2").await;
            let error = run(&other, circle).await.unwrap_err();
            assert_eq!((error.kind(), error.kind().sqlstate()), (ErrorKind::Deadlock, "40P01"), "{error}");
            assert_eq!(outcome(task).await, "UPDATE 1");
            assert_eq!(refused(&other, "SELECT 1").await, ErrorKind::FailedTransaction);
            all(&one, &["COMMIT"]).await;
            tag(&other, "ROLLBACK").await;
        }
        assert_eq!(contents(&watcher).await, "1|12 2|22");
        // Statements that change the same rows in whatever order they find them are in no circle.
        tag(&one, "INSERT INTO t SELECT value, 0 FROM generate_series(3, 60) AS s (value)").await;
        let mut writers = tokio::task::JoinSet::new();
        for order in ["ASC", "DESC"] {
            let session = db.session();
            writers.spawn(async move {
                for _ in 0..10 {
                    let locked = format!("SELECT id FROM t ORDER BY id {order} FOR UPDATE");
                    all(&session, &["BEGIN", &locked, "UPDATE t SET n = n + 1 WHERE id > 2", "COMMIT"]).await;
                }
            });
        }
        while let Some(done) = writers.join_next().await {
            done.unwrap();
        }
        assert_eq!(rows(&watcher, "SELECT min(n), max(n) FROM t WHERE id > 2").await, ["20|20"]);
        all_is_free(&watcher).await;
    });
}

#[test]
fn who_waits_can_be_cancelled_and_changes_nothing() {
    let (_dir, db, watcher) = database();
    block_on(async {
        let (one, other) = (db.session(), Arc::new(db.session()));
        all(&one, &["BEGIN", "UPDATE t SET n = n + 1 WHERE id = 1"]).await;
        for sql in [
            "UPDATE t SET n = 0 WHERE id = 1",
            "DELETE FROM t WHERE id = 1",
            "INSERT INTO t VALUES (1, 0) ON CONFLICT (id) DO UPDATE SET n = 0",
            "SELECT n FROM t WHERE id = 1 FOR UPDATE",
        ] {
            for begin in ["", "BEGIN"] {
                if !begin.is_empty() {
                    tag(&other, begin).await;
                }
                cancelled(&watcher, &other, sql).await;
                if !begin.is_empty() {
                    tag(&other, "ROLLBACK").await;
                }
            }
        }
        // A third that came behind it has its turn.
        let third = Arc::new(db.session());
        let first = waiting(&watcher, &other, "UPDATE t SET n = 0 WHERE id = 1").await;
        let task = waiting(&watcher, &third, "UPDATE t SET n = n * 2 WHERE id = 1").await;
        other.cancel_handle().cancel();
        assert_eq!(outcome(first).await, "57014");
        tag(&one, "COMMIT").await;
        assert_eq!(outcome(task).await, "UPDATE 1");
        assert_eq!(contents(&watcher).await, "1|22 2|20");
        all_is_free(&watcher).await;
    });
}

#[test]
fn rows_of_several_tables_are_locked_as_the_statement_says() {
    let (_dir, db, watcher) = database();
    block_on(async {
        let (one, other) = (db.session(), Arc::new(db.session()));
        all(&one, &["CREATE TABLE u (id TEXT PRIMARY KEY, t INT)", "INSERT INTO u VALUES ('a', 1), ('b', 2)"]).await;
        let joined = "SELECT u.id, n FROM u JOIN t ON t.id = u.t WHERE t.id = 1 FOR UPDATE";
        let (of_t, of_u) = ("UPDATE t SET n = n + 1 WHERE id = 1", "UPDATE u SET t = t WHERE id = 'a'");
        tag(&one, "BEGIN").await;
        assert_eq!(rows(&one, joined).await, ["a|10"]);
        cancelled(&watcher, &other, of_t).await;
        cancelled(&watcher, &other, of_u).await;
        assert_eq!(tag(&other, "UPDATE u SET t = 3 WHERE id = 'b'").await, "UPDATE 1");
        tag(&one, "ROLLBACK").await;
        // One of them alone.
        tag(&one, "BEGIN").await;
        assert_eq!(rows(&one, &format!("{joined} OF u")).await, ["a|10"]);
        assert_eq!(tag(&other, of_t).await, "UPDATE 1");
        let task = waiting(&watcher, &other, of_u).await;
        tag(&one, "COMMIT").await;
        assert_eq!(outcome(task).await, "UPDATE 1");
        // Changes of both in one transaction, and one that waits for either.
        all(&one, &["BEGIN", "UPDATE u SET t = 1 WHERE id = 'a'", of_t]).await;
        let task = waiting(&watcher, &other, joined).await;
        tag(&one, "COMMIT").await;
        assert_eq!(outcome(task).await, "SELECT");
        assert_eq!(rows(&watcher, joined.trim_end_matches(" FOR UPDATE")).await, ["a|12"]);
        all_is_free(&watcher).await;
    });
}

#[test]
fn what_cannot_be_locked_is_refused_by_name() {
    let (_dir, db, _watcher) = database();
    block_on(async {
        let session = db.session();
        all(&session, &["CREATE TABLE keyless (id INT)", "CREATE VIEW v AS SELECT id, n FROM t"]).await;
        for (sql, expected) in [
            ("SELECT id FROM keyless FOR UPDATE", "SELECT FOR UPDATE of table keyless, which has no primary key,"),
            ("SELECT id FROM keyless FOR SHARE", "SELECT FOR SHARE of table keyless, which has no primary key,"),
            ("SELECT n FROM t GROUP BY n FOR UPDATE", "FOR UPDATE with GROUP BY"),
            ("SELECT max(n) FROM t FOR UPDATE", "FOR UPDATE with aggregate functions"),
            ("SELECT DISTINCT n FROM t FOR UPDATE", "FOR UPDATE with DISTINCT"),
            ("SELECT n FROM v FOR UPDATE", "SELECT FOR UPDATE of view v"),
            ("SELECT id FROM (SELECT id FROM t FOR UPDATE) AS s", "FOR UPDATE within a query"),
            ("SELECT id FROM t WHERE id IN (SELECT id FROM t FOR SHARE)", "FOR SHARE within a query"),
            ("SELECT t.id FROM t LEFT JOIN t AS u ON u.id = t.n FOR UPDATE", "FOR UPDATE of the nullable side"),
            ("SELECT id FROM t LIMIT 1 + 1 FOR UPDATE SKIP LOCKED", "a computed LIMIT or OFFSET with SKIP LOCKED"),
        ] {
            let error = run(&session, sql).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotSupported, "{sql}: {error}");
            assert!(error.message().starts_with(expected), "{sql}: {error}");
        }
        assert_eq!(refused(&session, "SELECT id FROM t FOR UPDATE OF u").await, ErrorKind::UndefinedTable);
        // Whoever locks rows must be allowed to change them.
        all(&session, &["CREATE ROLE clerk", "GRANT SELECT ON t TO clerk", "SET ROLE clerk"]).await;
        assert_eq!(refused(&session, "SELECT n FROM t FOR UPDATE").await, ErrorKind::Forbidden);
        assert_eq!(refused(&session, "SELECT n FROM t FOR SHARE").await, ErrorKind::Forbidden);
        all(&session, &["RESET ROLE", "BEGIN READ ONLY"]).await;
        assert_eq!(refused(&session, "SELECT n FROM t FOR UPDATE").await.sqlstate(), "25006");
        tag(&session, "ROLLBACK").await;
    });
}

#[test]
fn rows_of_temporary_tables_are_their_sessions_own() {
    let (_dir, db, watcher) = database();
    block_on(async {
        let session = db.session();
        let script = [
            "CREATE TEMPORARY TABLE own (id INT PRIMARY KEY, n INT)",
            "BEGIN",
            "INSERT INTO own VALUES (1, 1), (2, 2)",
            "UPDATE own SET n = n + 1 WHERE id = 1",
            "DELETE FROM own WHERE id = 2",
        ];
        all(&session, &script).await;
        assert_eq!(rows(&session, "SELECT n FROM own WHERE id = 1 FOR UPDATE").await, ["2"]);
        assert_eq!(rows(&watcher, "SELECT count(*) FROM pg_locks").await, ["0"]);
        tag(&session, "UPDATE t SET n = 0 WHERE id = 1").await;
        assert_eq!(rows(&watcher, "SELECT count(*) FROM pg_locks").await, ["1"]);
        tag(&session, "COMMIT").await;
        assert_eq!(rows(&session, "SELECT * FROM own").await, ["1|2"]);
        all_is_free(&watcher).await;
    });
}
