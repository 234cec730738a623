//! A statement that a client polls for with PollFlightInfo: how far it is, its result, and when somebody last asked.
//!
//! [`crate::poll`] runs such statements and answers the questions.

use crate::answer::StatementResult;
use alluvia_query::Report;
use alluvia_types::Result;
use parking_lot::Mutex;
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// A statement that a client polls for.
pub(crate) struct PolledStatement {
    /// How far it is; its end is told by closing.
    progress: watch::Receiver<Option<Report>>,
    result: Mutex<Option<Result<StatementResult>>>,
    asked: Mutex<PollCount>,
    end: Notify,
}

struct PollCount {
    now: usize,
    last: Duration,
}

impl PolledStatement {
    /// A statement that begins, and whose progress comes from this channel.
    pub(crate) fn new(progress: watch::Receiver<Option<Report>>, now: Duration) -> PolledStatement {
        let asked = Mutex::new(PollCount { now: 0, last: now });
        PolledStatement { progress, result: Mutex::default(), asked, end: Notify::new() }
    }

    /// How far the statement is; closed once it has ended.
    pub(crate) fn progress(&self) -> watch::Receiver<Option<Report>> {
        self.progress.clone()
    }

    /// Keeps the result until it is asked for.
    pub(crate) fn ended(&self, result: Result<StatementResult>) {
        *self.result.lock() = Some(result);
    }

    /// The result, to be told once; `None` while the statement runs.
    pub(crate) fn take_result(&self) -> Option<Result<StatementResult>> {
        self.result.lock().take()
    }

    /// Somebody begins to ask.
    pub(crate) fn question_begins(&self) {
        self.asked.lock().now += 1;
    }

    /// Somebody has been answered, or has gone.
    pub(crate) fn question_ends(&self, now: Duration) {
        let mut asked = self.asked.lock();
        (asked.now, asked.last) = (asked.now.saturating_sub(1), now);
    }

    /// How long nobody has asked; `None` while somebody does.
    pub(crate) fn idle(&self, now: Duration) -> Option<Duration> {
        let asked = self.asked.lock();
        (asked.now == 0).then(|| now.saturating_sub(asked.last))
    }

    /// Whether it has ended, and nobody has asked how for longer than `wait`.
    pub(crate) fn is_late(&self, now: Duration, wait: Duration) -> bool {
        self.result.lock().is_some() && self.idle(now).is_some_and(|idle| idle > wait)
    }

    /// Ends it.
    pub(crate) fn cancel(&self) {
        self.end.notify_one();
    }

    /// Completes once somebody has cancelled it.
    pub(crate) async fn cancelled(&self) {
        self.end.notified().await;
    }
}
