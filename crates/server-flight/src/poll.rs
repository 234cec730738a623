//! PollFlightInfo: a statement that runs while its client asks now and then how far it is.
//!
//! Invariants:
//! - The statement runs beside all calls, until it has ended or its first rows are there; then its FlightInfo is whole. A client that
//!   asks for nothing for `ticket_timeout` has lost it: it is cancelled, or what it gave is dropped.
//! - Asking waits until there is something else to tell, or a while has passed: a client may ask in a loop.
//! - The descriptor to ask with is known to its login alone, and answers to one more question once the statement has ended.

use crate::login::{Caller, Lane};
use crate::server::Shared;
use crate::statement::Answered;
use alluvia_access::{Stopping, gone, reached};
use alluvia_query::Report;
use alluvia_types::{Error, ErrorKind, Result};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

/// What the first question waits: what is over by then needs no second one.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// What later ones wait at most for something else to tell.
const WAIT: Duration = Duration::from_secs(5);
/// How often it is looked how far a statement is.
const TICK: Duration = Duration::from_millis(250);

/// A statement that is asked about.
pub(crate) struct Polled {
    /// How far it is; its end is told by closing.
    told: watch::Receiver<Option<Report>>,
    result: Mutex<Option<Result<Answered>>>,
    asked: Mutex<PollCount>,
    end: Notify,
}

struct PollCount {
    now: usize,
    last: Duration,
}

/// A question about it: meanwhile it is not forgotten.
struct Question<'a> {
    shared: &'a Shared,
    polled: &'a Polled,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let mut asked = self.polled.asked.lock();
        (asked.now, asked.last) = (asked.now.saturating_sub(1), self.shared.now());
    }
}

impl Polled {
    /// Runs `work`, a statement in this lane.
    pub(crate) fn begin(
        shared: &Arc<Shared>,
        caller: &Arc<Caller>,
        lane: Arc<Lane>,
        work: BoxFuture<'static, Result<Answered>>,
    ) -> Arc<Polled> {
        let (tell, told) = watch::channel(None);
        let asked = Mutex::new(PollCount { now: 0, last: shared.now() });
        let polled = Arc::new(Polled { told, result: Mutex::default(), asked, end: Notify::new() });
        let (shared, caller, there) = (Arc::clone(shared), Arc::clone(caller), Arc::clone(&polled));
        tokio::spawn(async move {
            let result = there.run(&shared, &lane, work, &tell).await;
            *there.result.lock() = Some(result);
            drop(tell);
            drop(caller);
        });
        polled
    }

    async fn run(
        &self,
        shared: &Shared,
        lane: &Lane,
        work: BoxFuture<'static, Result<Answered>>,
        tell: &watch::Sender<Option<Report>>,
    ) -> Result<Answered> {
        let begun = async {
            let mut answered = work.await?;
            if let Answered::Rows(waiting) = &mut answered {
                waiting.ready().await?;
            }
            Ok::<Answered, Error>(answered)
        };
        tokio::pin!(begun);
        let mut stop = shared.stop.clone();
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let forgotten = self.forgotten(shared);
        tokio::pin!(forgotten);
        loop {
            tokio::select! {
                biased;
                result = &mut begun => return result,
                () = self.end.notified() => {
                    return Err(Error::new(ErrorKind::Cancelled, "the statement was cancelled"));
                }
                () = reached(&mut stop, Stopping::All) => {
                    return Err(Error::new(ErrorKind::Shutdown, "the server is stopping"));
                }
                () = &mut forgotten => return Err(gone()),
                _ = ticks.tick() => {
                    tell.send_if_modified(|told| {
                        let report = lane.session.report();
                        let shown = |report: &Report| (report.rows, report.elapsed.as_secs());
                        let is_other = report.as_ref().map(shown) != told.as_ref().map(shown);
                        *told = report;
                        is_other
                    });
                }
            }
        }
    }

    /// Completes when nobody has asked for too long.
    async fn forgotten(&self, shared: &Shared) {
        loop {
            let wait = shared.options.ticket_timeout;
            let idle = self.idle(shared.now());
            if idle.is_some_and(|idle| idle > wait) {
                return;
            }
            // Asked again once it could be so, and at once where that is now.
            sleep(wait.saturating_sub(idle.unwrap_or_default()) + Duration::from_millis(1)).await;
        }
    }

    /// How long nobody has asked; `None` while somebody does.
    fn idle(&self, now: Duration) -> Option<Duration> {
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

    /// Waits until there is something to tell: what it gave, once it has ended, or else how far it is. What may be over soon is
    /// waited for a little when it is first asked about.
    pub(crate) async fn ask(&self, shared: &Shared, is_first: bool) -> StatementStatus {
        self.asked.lock().now += 1;
        let _question = Question { shared, polled: self };
        let mut told = self.told.clone();
        told.mark_unchanged();
        // An error says that the statement has ended.
        if is_first {
            let _ = timeout(FIRST_WAIT, async { while told.changed().await.is_ok() {} }).await;
        } else {
            let _ = timeout(WAIT, told.changed()).await;
        }
        match self.result.lock().take() {
            Some(result) => StatementStatus::End(result),
            None => StatementStatus::Running(*told.borrow()),
        }
    }
}

/// What is told of a statement.
pub(crate) enum StatementStatus {
    Running(Option<Report>),
    End(Result<Answered>),
}

/// How far a statement is; the names are those of HTTP's events.
pub(crate) fn progress(report: Option<Report>) -> Value {
    json!({ "progress": report.unwrap_or_default().to_json() })
}
