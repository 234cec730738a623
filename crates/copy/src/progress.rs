//! How a running statement is watched and stopped.
//!
//! Invariants:
//! - A [`CancelToken`] belongs to one statement and is never reset: work that notices late still stops.
//! - A [`CancelHandle`] belongs to a session and stops whatever runs now; with nothing running it does nothing. What runs is one
//!   statement, which may be suspended (its rows are taken a few at a time), and whatever is described beside it: describing takes
//!   nothing from the statement, which can be stopped before, meanwhile and after.
//! - Nothing here blocks, so that both can be used from a signal handler's task and from worker threads.
//! - Phase and token are one handshake: a statement sets [`Phase::Committing`] and then looks at its token, whoever stops it
//!   sets the token and then looks at the phase. Both are `SeqCst`, so at least one sees the other: a stopped statement does
//!   not commit, or is waited for.

use alluvia_types::{Error, ErrorKind, ReportedShare, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use tokio::sync::Notify;

/// What a long statement (COPY, CREATE TABLE AS, a query that is refined) has done so far. Counters only grow.
#[derive(Debug, Default)]
pub struct Progress {
    rows: AtomicU64,
    rows_total: AtomicU64,
    bytes_done: AtomicU64,
    bytes_total: AtomicU64,
    phase: AtomicU8,
    told: ReportedShare,
}

/// What a long statement is doing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u8)]
pub enum Phase {
    /// Nothing that takes long.
    #[default]
    Idle = 0,
    /// Reading its input (or running its query) and writing its output.
    Running = 1,
    /// Sorting and syncing what was staged.
    Finishing = 2,
    /// Waiting for its batch to be durable and visible.
    Committing = 3,
    /// Waiting for memory that other statements have.
    Waiting = 4,
}

impl Phase {
    /// In small letters.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Idle => "idle",
            Phase::Running => "running",
            Phase::Finishing => "finishing",
            Phase::Committing => "committing",
            Phase::Waiting => "waiting for memory",
        }
    }
}

impl Progress {
    /// Counts rows taken in or put out.
    pub fn add_rows(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Counts bytes of the input consumed, as they lie in the file.
    pub fn add_bytes(&self, bytes: u64) {
        self.bytes_done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// States (or raises) how many bytes there are to consume; 0 means unknown.
    pub fn set_bytes_total(&self, bytes: u64) {
        self.bytes_total.store(bytes, Ordering::Relaxed);
    }

    /// States how many rows there are to read; 0 means unknown.
    pub fn set_rows_total(&self, rows: u64) {
        self.rows_total.store(rows, Ordering::Relaxed);
    }

    /// States what the statement does now.
    pub fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::SeqCst);
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Bytes consumed so far.
    pub fn bytes_done(&self) -> u64 {
        self.bytes_done.load(Ordering::Relaxed)
    }

    /// Bytes to consume in all; 0 when unknown (standard input).
    pub fn bytes_total(&self) -> u64 {
        self.bytes_total.load(Ordering::Relaxed)
    }

    /// The share of the input, or of the rows to read, that is done, below 1 and never less than it was told to be; `None` when unknown.
    pub fn fraction(&self) -> Option<f64> {
        let share = |done: u64, total: u64| (total > 0).then(|| done as f64 / total as f64);
        let rows_total = self.rows_total.load(Ordering::Relaxed);
        self.told.tell(share(self.bytes_done(), self.bytes_total()).or_else(|| share(self.rows(), rows_total)))
    }

    /// Rows that were written, of a statement whose rows are for writing.
    pub fn written(&self) -> Option<u64> {
        (self.phase() != Phase::Idle).then(|| self.rows())
    }

    /// What the statement does now.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::SeqCst) {
            1 => Phase::Running,
            2 => Phase::Finishing,
            3 => Phase::Committing,
            _ => Phase::Idle,
        }
    }
}

const RUNNING: u8 = 0;
const CANCELLED: u8 = 1;
const TIMED_OUT: u8 = 2;

/// Tells one statement's work to stop. Cheap to clone; worker threads call [`CancelToken::check`] between batches.
#[derive(Clone, Debug, Default)]
pub struct CancelToken {
    inner: Arc<TokenInner>,
}

#[derive(Debug, Default)]
struct TokenInner {
    state: AtomicU8,
    changed: Notify,
}

impl CancelToken {
    /// A token that nobody has cancelled.
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// The user asked to stop.
    pub fn cancel(&self) {
        self.stop(CANCELLED);
    }

    /// `statement_timeout` ran out.
    pub fn time_out(&self) {
        self.stop(TIMED_OUT);
    }

    fn stop(&self, state: u8) {
        let first = self.inner.state.compare_exchange(RUNNING, state, Ordering::SeqCst, Ordering::SeqCst);
        if first.is_ok() {
            self.inner.changed.notify_waiters();
        }
    }

    /// Whether the work should stop.
    pub fn is_cancelled(&self) -> bool {
        self.inner.state.load(Ordering::SeqCst) != RUNNING
    }

    /// `Err` with kind `Cancelled` or `Timeout` once the work should stop.
    pub fn check(&self) -> Result<()> {
        match self.inner.state.load(Ordering::SeqCst) {
            RUNNING => Ok(()),
            _ => Err(self.error()),
        }
    }

    /// The error that a stopped statement ends with.
    pub fn error(&self) -> Error {
        match self.inner.state.load(Ordering::SeqCst) {
            TIMED_OUT => Error::new(ErrorKind::Timeout, "the statement took longer than statement_timeout")
                .with_hint("raise it with SET statement_timeout = '5min', or 0 for no limit"),
            _ => Error::new(ErrorKind::Cancelled, "the statement was cancelled"),
        }
    }

    /// Completes once the work should stop.
    pub async fn cancelled(&self) {
        loop {
            let notified = self.inner.changed.notified();
            tokio::pin!(notified);
            // Registered before the state is read, so that a stop in between is not missed.
            notified.as_mut().enable();
            if self.is_cancelled() {
                return;
            }
            notified.await;
        }
    }
}

/// Stops whatever a session is running. Cheap to clone; outlives its session harmlessly.
#[derive(Clone, Debug, Default)]
pub struct CancelHandle {
    running: Arc<Mutex<Running>>,
}

#[derive(Debug, Default)]
struct Running {
    /// The last statement that began.
    statement: CancelToken,
    beside: Vec<CancelToken>,
}

impl CancelHandle {
    /// Stops what runs at once.
    pub fn cancel(&self) {
        let running = self.running.lock();
        running.statement.cancel();
        running.beside.iter().for_each(CancelToken::cancel);
    }

    /// A new statement begins.
    pub fn begin(&self) -> CancelToken {
        let token = CancelToken::new();
        self.running.lock().statement = token.clone();
        token
    }

    /// Something begins beside the statement, and ends with what is given.
    pub fn beside(&self) -> Beside {
        let token = CancelToken::new();
        self.running.lock().beside.push(token.clone());
        Beside { running: Arc::clone(&self.running), token }
    }
}

/// What runs beside a statement, until this is dropped. Work of it that goes on then is stopped: nobody waits for it.
#[derive(Debug)]
pub struct Beside {
    running: Arc<Mutex<Running>>,
    /// Stops the work: set by the session's [`CancelHandle`], and when the [`Beside`] is dropped.
    pub token: CancelToken,
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.token.cancel();
        self.running.lock().beside.retain(|other| !Arc::ptr_eq(&other.inner, &self.token.inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_stops_the_statement_that_runs_and_no_later_one() {
        let handle = CancelHandle::default();
        let first = handle.begin();
        handle.cancel();
        assert_eq!(first.check().unwrap_err().kind(), ErrorKind::Cancelled);
        let second = handle.begin();
        assert!(second.check().is_ok() && first.is_cancelled());
    }

    #[test]
    fn what_runs_beside_a_statement_leaves_it_stoppable() {
        let handle = CancelHandle::default();
        let statement = handle.begin();
        let (first, second) = (handle.beside(), handle.beside());
        let late = first.token.clone();
        drop(first);
        assert!(late.is_cancelled(), "nobody waits for what goes on");
        assert!(!statement.is_cancelled() && !second.token.is_cancelled());
        drop(second);
        let third = handle.beside();
        handle.cancel();
        assert!(statement.is_cancelled() && third.token.is_cancelled());
        assert!(!handle.beside().token.is_cancelled() && !handle.begin().is_cancelled());
    }

    #[test]
    fn the_first_reason_to_stop_is_the_one_reported() {
        let token = CancelToken::new();
        token.time_out();
        token.cancel();
        assert_eq!(token.check().unwrap_err().kind(), ErrorKind::Timeout);
    }

    #[tokio::test]
    async fn waiters_wake_whether_they_came_before_or_after() {
        let token = CancelToken::new();
        let waiter = tokio::spawn({
            let token = token.clone();
            async move { token.cancelled().await }
        });
        tokio::task::yield_now().await;
        token.cancel();
        waiter.await.unwrap();
        token.cancelled().await;
    }
}
