//! A statement that takes for ever is stopped by its session's handle, and the session goes on.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use alluvia_node::Database;
use alluvia_query::Session;
use alluvia_types::{Error, ErrorKind};
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use futures::StreamExt;
use std::sync::Arc;
use std::time::Duration;

/// Some 10^10 pairs: more than any test waits for.
const FOR_EVER: &str =
    "FROM generate_series(1, 100000) a, generate_series(1, 1000000) b WHERE a.value % 7 = b.value % 11";

/// Runs a statement that would take for ever in a task, and cancels it until it ends.
async fn cancelled(session: &Arc<Session>, sql: String) -> Error {
    let task = tokio::spawn({
        let session = Arc::clone(session);
        async move { session.sql(&sql).await?.collect().await }
    });
    // Before the statement begins a cancel does nothing, so it is repeated; how long that takes is left to the machine.
    while !task.is_finished() {
        tokio::time::sleep(Duration::from_millis(20)).await;
        session.cancel_handle().cancel();
    }
    task.await.expect("no panic").expect_err("it cannot have come to its end")
}

async fn count(session: &Session, table: &str) -> i64 {
    let batches = session.sql(&format!("SELECT count(*) FROM {table}")).await.unwrap().collect().await.unwrap();
    batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

#[test]
fn a_cancelled_statement_leaves_its_session_usable_and_nothing_behind() {
    let scratch = tempfile::tempdir().unwrap();
    let db = Database::open(scratch.path().join("db")).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    runtime.block_on(async {
        let session = Arc::new(db.session());
        session.sql("CREATE TABLE t (a BIGINT)").await.unwrap();

        let error = cancelled(&session, format!("SELECT count(*) {FOR_EVER}")).await;
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        session.sql("INSERT INTO t VALUES (1)").await.unwrap();
        assert_eq!(count(&session, "t").await, 1);

        let error = cancelled(&session, format!("CREATE TABLE copy AS SELECT a.value AS a {FOR_EVER}")).await;
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        let error = session.sql("SELECT count(*) FROM copy").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UndefinedTable, "{error}");
        session.sql("CREATE TABLE copy AS SELECT a FROM t").await.unwrap();
        assert_eq!(count(&session, "copy").await, 1);

        let error = cancelled(&session, format!("INSERT INTO t SELECT a.value {FOR_EVER}")).await;
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        assert_eq!(count(&session, "t").await, 1, "a batch is applied whole or not at all");

        // In a transaction it is an error like any other: the transaction can only end.
        session.sql("BEGIN").await.unwrap();
        session.sql("INSERT INTO t VALUES (2)").await.unwrap();
        let error = cancelled(&session, format!("SELECT count(*) {FOR_EVER}")).await;
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        assert_eq!(session.sql("SELECT 1").await.unwrap_err().kind(), ErrorKind::FailedTransaction);
        session.sql("ROLLBACK").await.unwrap();
        assert_eq!(count(&session, "t").await, 1);
    });
}

/// Each CTE joins the one before twice, so the plan has 2^13 joins; planning it would take seconds.
fn long_to_plan() -> String {
    let chain = (1..=13).map(|at| format!(", c{at} AS (SELECT x.a FROM c{0} x JOIN c{0} y ON x.a = y.a)", at - 1));
    format!("WITH c0 AS (SELECT a FROM t){} SELECT count(*) FROM c13", chain.collect::<String>())
}

#[test]
fn planning_is_stopped_too() {
    let scratch = tempfile::tempdir().unwrap();
    let db = Database::open(scratch.path().join("db")).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    runtime.block_on(async {
        let session = Arc::new(db.session());
        session.sql("CREATE TABLE t (a BIGINT)").await.unwrap();
        let error = cancelled(&session, long_to_plan()).await;
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        session.sql("SET statement_timeout = '100ms'").await.unwrap();
        let error = session.sql(&format!("EXPLAIN {}", long_to_plan())).await.expect_err("a time-out");
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        session.sql("RESET statement_timeout").await.unwrap();
        assert_eq!(count(&session, "t").await, 0);
    });
}

#[test]
fn describing_is_stopped_and_leaves_a_suspended_statement_stoppable() {
    let scratch = tempfile::tempdir().unwrap();
    let db = Database::open(scratch.path().join("db")).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    runtime.block_on(async {
        let session = db.session();
        session.sql("CREATE TABLE t (a BIGINT)").await.unwrap();
        let long = session.prepare(&long_to_plan()).unwrap();
        loop {
            let mut describing = session.describe(long.statement(), &[]);
            // What is not done at its first step is stopped at its second.
            if futures::poll!(describing.as_mut()).is_pending() {
                session.cancel_handle().cancel();
                assert_eq!(describing.await.unwrap_err().kind(), ErrorKind::Cancelled);
                break;
            }
        }
        // It was that one alone.
        let short = session.prepare("SELECT a FROM t").unwrap();
        assert_eq!(session.describe(short.statement(), &[]).await.unwrap().columns.unwrap().fields().len(), 1);
        session.sql("SET statement_timeout = '1ms'").await.unwrap();
        let error = session.describe(long.statement(), &[]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        session.sql("RESET statement_timeout").await.unwrap();
        // A statement whose rows are taken a few at a time, and another that is described meanwhile.
        let mut outcome = session.sql("SELECT value FROM generate_series(1, 1000000000000)").await.unwrap();
        let mut rows = outcome.rows.take().unwrap();
        rows.next().await.unwrap().unwrap();
        session.describe(short.statement(), &[]).await.unwrap();
        rows.next().await.unwrap().unwrap();
        session.cancel_handle().cancel();
        let error = loop {
            match rows.next().await.expect("it has no end") {
                Ok(_) => {}
                Err(error) => break alluvia_query::from_datafusion(error),
            }
        };
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    });
}

/// A join that holds all against all and finds nothing, so that it never has a row to give: days of it.
const FINDS_NOTHING: &str =
    "SELECT count(*) FROM generate_series(1, 6000000) a(x), generate_series(1, 6000000) b(y) WHERE x + y = -7";

#[test]
fn what_finds_nothing_is_stopped_and_holds_nobody_up() {
    let scratch = tempfile::tempdir().unwrap();
    let db = Database::open(scratch.path().join("db")).unwrap();
    // One thread for all clients.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let session = Arc::new(db.session());
        session.sql("SET statement_timeout = '300ms'").await.unwrap();
        // More often than there are threads for plans: each must be given back.
        for _ in 0..2 + std::thread::available_parallelism().map_or(1, usize::from) {
            let (error, others) = tokio::join!(async { session.sql(FINDS_NOTHING).await?.collect().await }, async {
                let other = db.session();
                let mut answers = 0;
                for _ in 0..20 {
                    let shown = other.sql("SHOW statement_timeout").await.unwrap().collect().await.unwrap();
                    answers += shown.len();
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                answers
            });
            assert_eq!(error.unwrap_err().kind(), ErrorKind::Timeout);
            assert_eq!(others, 20);
        }
        session.sql("SET statement_timeout = 0").await.unwrap();
        assert_eq!(count(&session, "generate_series(1, 10)").await, 10);
    });
}

/// Some 10^13 pairs out of a few batches, which an aggregate takes in one after the other.
const MAKES_MANY: &str = "SELECT a.k % 3, sum(b.v) FROM j a JOIN j b ON a.one = b.one GROUP BY 1";

#[test]
fn a_join_that_makes_many_rows_is_stopped_and_holds_nobody_up() {
    let scratch = tempfile::tempdir().unwrap();
    let db = Database::open(scratch.path().join("db")).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    runtime.block_on(async {
        let session = Arc::new(db.session());
        session
            .sql("CREATE TABLE j AS SELECT k, k AS v, 1 AS one FROM generate_series(1, 3000000) g(k)")
            .await
            .unwrap();
        // As many as there are threads for plans, and one more.
        let many = 1 + std::thread::available_parallelism().map_or(1, usize::from);
        let long: Vec<Arc<Session>> = (0..many).map(|_| Arc::new(db.session())).collect();
        let tasks = long.iter().map(|session| {
            let session = Arc::clone(session);
            tokio::spawn(async move { session.sql(MAKES_MANY).await?.collect().await })
        });
        let tasks: Vec<_> = tasks.collect();
        // Answered while none of them has come to its end, which would take days.
        for _ in 0..5 {
            assert_eq!(count(&session, "generate_series(1, 10)").await, 10);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for (session, task) in long.iter().zip(tasks) {
            while !task.is_finished() {
                session.cancel_handle().cancel();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            assert_eq!(task.await.expect("no panic").expect_err("it is stopped").kind(), ErrorKind::Cancelled);
        }
        assert_eq!(count(&session, "j").await, 3_000_000);
    });
}
