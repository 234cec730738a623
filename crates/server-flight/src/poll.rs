//! PollFlightInfo: a statement that runs while its client asks now and then how far it is.
//!
//! Invariants:
//! - The statement runs beside all calls, until it has ended or its first rows are there; then its FlightInfo is whole. A client that
//!   asks for nothing for `ticket_timeout` has lost it: it is cancelled, or what it gave is dropped.
//! - Asking waits until there is something else to tell, or a while has passed: a client may ask in a loop.
//! - The descriptor to ask with is known to its login alone, and answers to one more question once the statement has ended.

use crate::answer::StatementResult;
use crate::caller::Caller;
use crate::lane::Lane;
use crate::polled_statement::PolledStatement;
use crate::shared::Shared;
use alluvia_access::{Stopping, gone, reached};
use alluvia_query::Report;
use alluvia_types::{Error, ErrorKind, Result};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

/// What the first question waits: what is over by then needs no second one.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// What later ones wait at most for something else to tell.
const WAIT: Duration = Duration::from_secs(5);
/// How often it is looked how far a statement is.
const TICK: Duration = Duration::from_millis(250);

/// A question about a statement: meanwhile the statement is not forgotten.
struct Question<'a> {
    shared: &'a Shared,
    polled: &'a PolledStatement,
}

impl<'a> Question<'a> {
    fn begin(shared: &'a Shared, polled: &'a PolledStatement) -> Question<'a> {
        polled.question_begins();
        Question { shared, polled }
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.polled.question_ends(self.shared.now());
    }
}

/// Runs `work`, a statement in this lane.
pub(crate) fn begin(
    shared: &Arc<Shared>,
    caller: &Arc<Caller>,
    lane: Arc<Lane>,
    work: BoxFuture<'static, Result<StatementResult>>,
) -> Arc<PolledStatement> {
    let (tell, told) = watch::channel(None);
    let polled = Arc::new(PolledStatement::new(told, shared.now()));
    let (shared, caller, there) = (Arc::clone(shared), Arc::clone(caller), Arc::clone(&polled));
    tokio::spawn(async move {
        let result = run(&shared, &there, &lane, work, &tell).await;
        there.ended(result);
        drop(tell);
        drop(caller);
    });
    polled
}

async fn run(
    shared: &Shared,
    polled: &PolledStatement,
    lane: &Lane,
    work: BoxFuture<'static, Result<StatementResult>>,
    tell: &watch::Sender<Option<Report>>,
) -> Result<StatementResult> {
    let begun = async {
        let mut answered = work.await?;
        if let StatementResult::Rows(waiting) = &mut answered {
            waiting.ready().await?;
        }
        Ok::<StatementResult, Error>(answered)
    };
    tokio::pin!(begun);
    let mut stop = shared.stop.clone();
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let forgotten = forgotten(shared, polled);
    tokio::pin!(forgotten);
    loop {
        tokio::select! {
            biased;
            result = &mut begun => return result,
            () = polled.cancelled() => {
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
async fn forgotten(shared: &Shared, polled: &PolledStatement) {
    loop {
        let wait = shared.options.ticket_timeout;
        let idle = polled.idle(shared.now());
        if idle.is_some_and(|idle| idle > wait) {
            return;
        }
        // Asked again once it could be so, and at once where that is now.
        sleep(wait.saturating_sub(idle.unwrap_or_default()) + Duration::from_millis(1)).await;
    }
}

/// Waits until there is something to tell: what the statement gave, once it has ended, or else how far it is. What may be over soon is
/// waited for a little when it is first asked about.
pub(crate) async fn ask(shared: &Shared, polled: &PolledStatement, is_first: bool) -> StatementStatus {
    let _question = Question::begin(shared, polled);
    let mut told = polled.progress();
    told.mark_unchanged();
    // An error says that the statement has ended.
    if is_first {
        let _ = timeout(FIRST_WAIT, async { while told.changed().await.is_ok() {} }).await;
    } else {
        let _ = timeout(WAIT, told.changed()).await;
    }
    match polled.take_result() {
        Some(result) => StatementStatus::End(result),
        None => StatementStatus::Running(*told.borrow()),
    }
}

/// What is told of a statement.
pub(crate) enum StatementStatus {
    Running(Option<Report>),
    End(Result<StatementResult>),
}

/// How far a statement is; the names are those of HTTP's events.
pub(crate) fn progress(report: Option<Report>) -> Value {
    json!({ "progress": report.unwrap_or_default().to_json() })
}
