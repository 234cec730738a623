//! A statement that is stopped ends with its work: in every operator, at any moment, by a cancel, by its timeout, or because its client is
//! gone; and others' statements are answered meanwhile.
//!
//! The process under test is this test binary itself, started again: what its threads compute is nobody else's. The bounds are what no machine
//! needs; with `--nocapture` the child's lines tell the milliseconds. `ALLUVIA_TEST_STATEMENTS=5` stops each statement five times, and
//! `ALLUVIA_TEST_ONLY=sort` those alone whose names have that.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

mod statements;
mod threads;

use crate::support::variable;
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::Session;
use alluvia_types::ErrorKind;
use statements::{STATEMENTS, TABLES, long_to_plan};
use std::fmt;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

const CHILD: &str = "ALLUVIA_STOPPED_CHILD";
/// What the threads of a statement that was stopped may compute on for.
const MOST: Duration = Duration::from_secs(10);
/// What another session's small statement may take meanwhile.
const OTHERS: Duration = Duration::from_secs(20);
/// A statement is stopped within so many milliseconds.
const MOMENTS: u64 = 400;

#[test]
fn whatever_is_stopped_stops_and_holds_nobody_up() {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "stopped::child", "--nocapture", "--test-threads", "1"])
        .env(CHILD, "1")
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

/// The process whose threads are looked at. Does nothing unless it was started by the parent.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let options = DatabaseOptions { memory_limit_bytes: 2 << 30, threads: 2, ..DatabaseOptions::default() };
    let db = Database::open_with(scratch.path().join("db"), options).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .thread_stack_size(8 << 20)
        .build()
        .unwrap();
    let run = |sql: &str| {
        let session = db.session();
        runtime.block_on(async { session.sql(sql).await.unwrap().collect().await.unwrap() })
    };
    TABLES.iter().for_each(|sql| drop(run(sql)));
    threads::idle(MOST).expect("nothing is to be done any more");
    let only = std::env::var("ALLUVIA_TEST_ONLY").unwrap_or_default();
    let mut random = variable("ALLUVIA_TEST_SEED").unwrap_or(42);
    let mut late = Vec::new();
    for (name, sql) in STATEMENTS.iter().filter(|(name, _)| name.contains(&only)) {
        for _ in 0..variable("ALLUVIA_TEST_STATEMENTS").unwrap_or(1) {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // By then it has begun: before that a cancel does nothing.
            let after = Duration::from_millis(20 + (random >> 33) % MOMENTS);
            let way = [Way::Cancel, Way::Timeout, Way::Gone][(random >> 20) as usize % 3];
            let stopped = stop(&runtime, &db, sql, after, way);
            println!("{name}: {stopped}, stopped by {way:?} after {after:?}");
            if stopped.idle.is_none() || stopped.others > OTHERS || stopped.wrong.is_some() {
                late.push(format!("{name}: {stopped}"));
            }
        }
    }
    assert!(late.is_empty(), "{late:?}");
}

/// How a statement is stopped.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    /// From another connection.
    Cancel,
    /// By `statement_timeout`.
    Timeout,
    /// Its client is gone: nobody waits for it any more.
    Gone,
}

/// What was seen of a statement that was stopped.
struct Stopped {
    /// Whether it ended before, by itself.
    is_done: bool,
    /// What a small statement of another session took while it ran.
    others: Duration,
    /// How long its client waited for the error.
    error: Duration,
    /// How long threads computed on; `None`: too long.
    idle: Option<Duration>,
    /// An error that is another than that it was stopped.
    wrong: Option<String>,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stopped { is_done, others, error, idle, wrong } = self;
        match is_done {
            true => write!(f, "ended by itself")?,
            false => write!(f, "told after {error:?}")?,
        }
        match idle {
            Some(idle) => write!(f, ", idle after {idle:?}")?,
            None => write!(f, ", computes on")?,
        }
        write!(
            f,
            ", others waited {others:?}{}",
            wrong.as_ref().map(|wrong| format!(", and {wrong}")).unwrap_or_default()
        )
    }
}

fn stop(runtime: &tokio::runtime::Runtime, db: &Database, sql: &str, after: Duration, way: Way) -> Stopped {
    let session = Arc::new(db.session());
    let other = db.session();
    let sql = if sql == "PLANNING" { long_to_plan() } else { sql.to_owned() };
    if way == Way::Timeout {
        let timeout = format!("SET statement_timeout = {}", after.as_millis());
        runtime.block_on(async { session.sql(&timeout).await.unwrap().collect().await.unwrap() });
    }
    let begun = Instant::now();
    let task = runtime.spawn({
        let (session, sql) = (Arc::clone(&session), sql.clone());
        async move { session.sql(&sql).await?.collect().await }
    });
    // A little before a timeout, so that threads are looked at from then on.
    std::thread::sleep(if way == Way::Timeout { after / 2 } else { after });
    let start = Instant::now();
    let answer = runtime.block_on(async { answered(&other).await });
    let others = start.elapsed();
    assert_eq!(answer, 1);
    if way == Way::Timeout {
        std::thread::sleep((begun + after).saturating_duration_since(Instant::now()));
    }
    let is_done = task.is_finished() && way != Way::Timeout;
    let start = Instant::now();
    match way {
        Way::Cancel => session.cancel_handle().cancel(),
        Way::Timeout => {}
        Way::Gone => task.abort(),
    }
    let (told, telling) = std::sync::mpsc::channel();
    runtime.spawn(async move {
        let ended = task.await;
        let _ = told.send((Instant::now(), ended));
    });
    let idle = threads::idle(MOST);
    let (ended, result) = telling.recv_timeout(OTHERS).expect("the client hears of it");
    let kind = if way == Way::Timeout { ErrorKind::Timeout } else { ErrorKind::Cancelled };
    let wrong = match result {
        Ok(Err(error)) if error.kind() != kind => Some(error.to_string()),
        Err(error) if error.is_panic() => Some(error.to_string()),
        _ => None,
    };
    Stopped { is_done, others, error: ended.saturating_duration_since(start), idle, wrong }
}

async fn answered(session: &Session) -> usize {
    session.sql("SELECT count(*) FROM generate_series(1, 10)").await.unwrap().collect().await.unwrap().len()
}
