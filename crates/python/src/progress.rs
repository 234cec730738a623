//! Progress of statements, as Python is told it, from either backend.
//!
//! Invariants:
//! - What nobody knows is `None`, and never a number in its place.
//! - A statement's time ends once: with its last row, or when nobody can have the rest any more.

use alluvia_client::State;
use alluvia_copy::progress::Phase;
use alluvia_query::Report;
use alluvia_types::{Clock, SystemClock};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Phase, rows, bytes, bytes in all, seconds, fraction, rows a second, seconds left: `alluvia.Progress` in its order.
pub(crate) type ProgressRow =
    (String, Option<u64>, Option<u64>, Option<u64>, Option<f64>, Option<f64>, Option<f64>, Option<f64>);

/// Rows and bytes that a statement has read.
pub(crate) type Read = Option<(u64, u64)>;

/// Of a statement that runs in this process.
pub(crate) fn of_report(report: &Report) -> ProgressRow {
    (
        report.doing().to_owned(),
        Some(report.rows),
        counted(report.bytes),
        report.bytes_total,
        Some(report.elapsed.as_secs_f64()),
        report.fraction,
        Some(report.rows_per_second),
        seconds(report.left),
    )
}

/// Of a server's session: of the statement that it runs, or else of its last one.
pub(crate) fn of_state(state: &State) -> ProgressRow {
    (
        state.phase.clone(),
        Some(state.rows),
        counted(state.bytes_done),
        counted(state.bytes_total),
        seconds(state.elapsed),
        state.fraction,
        state.rows_per_second,
        seconds(state.left),
    )
}

/// Of the last statement of a session that runs none.
pub(crate) fn of_last(last: &alluvia_copy::progress::Progress) -> ProgressRow {
    let (done, total) = (counted(last.bytes_done()), counted(last.bytes_total()));
    (idle(), Some(last.rows()), done, total, None, None, None, None)
}

/// Of a statement that has not ended, and of which nobody tells more than its time.
pub(crate) fn of_time(elapsed: Duration) -> ProgressRow {
    (Phase::Running.name().to_owned(), None, None, None, Some(elapsed.as_secs_f64()), None, None, None)
}

/// Of a statement that has ended.
pub(crate) fn of_end(ended: Ended, read: Read) -> ProgressRow {
    let took = ended.after.as_secs_f64();
    let rows = read.map(|(rows, _)| rows);
    let rate = rows.filter(|_| took > 0.0).map(|rows| rows as f64 / took);
    // What was not read to its end has come as far as nobody knows.
    let (fraction, left) = if ended.is_whole { (Some(1.0), Some(0.0)) } else { (None, None) };
    (idle(), rows, read.and_then(|(_, bytes)| counted(bytes)), None, Some(took), fraction, rate, left)
}

/// Whether it is of a statement that runs.
pub(crate) fn is_running(state: &State) -> bool {
    state.phase != Phase::Idle.name()
}

fn idle() -> String {
    Phase::Idle.name().to_owned()
}

/// Bytes, where anybody counts them.
fn counted(bytes: u64) -> Option<u64> {
    (bytes > 0).then_some(bytes)
}

fn seconds(time: Option<Duration>) -> Option<f64> {
    time.map(|time| time.as_secs_f64())
}

/// How a statement ended.
#[derive(Clone, Copy)]
pub(crate) struct Ended {
    /// How long after it was given.
    after: Duration,
    /// Whether all of its rows came.
    is_whole: bool,
}

/// The time of a statement.
pub(crate) struct Stopwatch {
    clock: SystemClock,
    ended: OnceLock<Ended>,
}

impl Stopwatch {
    /// The statement is given now.
    pub(crate) fn begin() -> Arc<Stopwatch> {
        Arc::new(Stopwatch { clock: SystemClock::default(), ended: OnceLock::new() })
    }

    /// Since then.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.monotonic()
    }

    /// It is over; what is said of it later is nothing new.
    pub(crate) fn end(&self, is_whole: bool) {
        let _ = self.ended.set(Ended { after: self.elapsed(), is_whole });
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&self) -> Option<Ended> {
        self.ended.get().copied()
    }
}
