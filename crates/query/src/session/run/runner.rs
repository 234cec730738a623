//! Runs a session's statements: in turn, cancellable, timed, recorded, guarded against panics.

use crate::execution::guard::Guarded;
use crate::report::Report;
use crate::session::run::auditing::audit_refusal;
use crate::session::run::described_plan::DescribedPlan;
use crate::session::run::outcome::Outcome;
use crate::session::run::supervise::{Record, Stop, SupervisedRows};
use crate::session::run::{Calls, Run};
use crate::session::state::scope::Scope;
use alluvia_copy::destination::repeated;
use alluvia_copy::progress::{CancelHandle, Phase, Progress};
use alluvia_types::{Error, Result};
use alluvia_values::excerpt::cut;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;
use tracing::Instrument;

/// What a statement does once it has its turn.
///
/// It is boxed, and so is every future that leaves this crate: else each crate that awaits one compiles all that is
/// beneath it anew, and proves of all of it that threads may share it.
type Work<'a> = Box<dyn FnOnce(Arc<Run>) -> BoxFuture<'a, Result<Outcome>> + Send + 'a>;

/// Runs the statements of one session.
#[derive(Debug)]
pub(crate) struct Runner {
    pub(crate) scope: Arc<Scope>,
    /// Held while a statement runs.
    turn: tokio::sync::Mutex<()>,
    cancel: CancelHandle,
    calls: Calls,
    progress: Mutex<Arc<Progress>>,
    /// The plan of the query that was described last.
    described: Mutex<Option<Arc<DescribedPlan>>>,
}

impl Runner {
    /// For a session that has run nothing; `cancel` stops its statements, `calls` runs procedures.
    pub(crate) fn new(scope: Scope, cancel: CancelHandle, calls: Calls) -> Runner {
        Runner {
            scope: Arc::new(scope),
            turn: tokio::sync::Mutex::new(()),
            cancel,
            calls,
            progress: Mutex::default(),
            described: Mutex::default(),
        }
    }

    /// Stops the running statement from anywhere.
    pub(crate) fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    /// What the running (or else the last) statement has done so far.
    pub(crate) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress.lock())
    }

    /// Keeps the plan that describing a query has made, for its executions.
    pub(crate) fn keep_described(&self, plan: DescribedPlan) {
        *self.described.lock() = Some(Arc::new(plan));
    }

    /// The plan that describing the statement of this text has made, if no other was described since.
    pub(crate) fn described(&self, text: &Arc<str>) -> Option<Arc<DescribedPlan>> {
        self.described.lock().clone().filter(|described| described.is_of(text))
    }

    /// How far the running statement is; `None` if none runs.
    pub(crate) fn report(&self) -> Option<Report> {
        let (query_id, start) = self.scope.entry.running.lock().as_ref().map(|now| (now.query_id, now.start))?;
        let engine = &self.scope.engine;
        let elapsed = engine.read().clock().monotonic().saturating_sub(start);
        Some(Report::new(elapsed, &self.progress(), engine.queries().counters(query_id).as_deref()))
    }

    /// Does what waits for nothing in a turn of its own, as a statement that has no progress to tell once it gives
    /// `Some`; `None` while another statement has the turn.
    pub(crate) fn at_once<T>(&self, work: impl FnOnce() -> Result<Option<T>>) -> Result<Option<T>> {
        let Ok(_turn) = self.turn.try_lock() else { return Ok(None) };
        let done = work()?;
        if done.is_some() {
            *self.progress.lock() = Arc::default();
        }
        Ok(done)
    }

    /// Runs what reads beside the session's statements, as a description: it can be cancelled, takes no longer than
    /// `statement_timeout`, and has no line in `alluvia.queries`.
    pub(crate) async fn beside<T, F, W>(&self, text: &str, work: F) -> Result<T>
    where
        F: FnOnce(Arc<Run>) -> W,
        W: Future<Output = Result<T>>,
    {
        let beside = self.cancel.beside();
        // Its number is no statement's: what is read here is nobody's.
        let run = Run::new(&self.scope, beside.token.clone(), "".into(), self.calls);
        let mut stop = Stop::new(beside.token.clone(), run.settings.statement_timeout);
        let done = tokio::select! {
            // First, since nothing is lost: what is stopped is stopped, however far it came.
            biased;
            () = stop.stopped() => Err(beside.token.error()),
            done = Guarded::new(work(Arc::new(run))) => done,
        };
        if let Err(error) = &done {
            audit_refusal(&self.scope, text, error).await;
        }
        done
    }

    /// Runs `work` as a statement.
    pub(crate) fn run<'a, F, W>(&'a self, text: &'a str, work: F) -> BoxFuture<'a, Result<Outcome>>
    where
        F: FnOnce(Arc<Run>) -> W + Send + 'a,
        W: Future<Output = Result<Outcome>> + Send + 'a,
    {
        Box::pin(self.run_work(text, Box::new(move |run| Box::pin(work(run)))))
    }

    /// Runs `work` as a statement that gives something else than rows: `tag` is its outcome's.
    pub(crate) async fn run_for<'a, T, F, W>(&'a self, text: &'a str, tag: &'a str, work: F) -> Result<T>
    where
        T: Send + 'a,
        F: FnOnce(Arc<Run>) -> W + Send + 'a,
        W: Future<Output = Result<T>> + Send + 'a,
    {
        let done = Mutex::new(None);
        let place = &done;
        let work = |run| async move {
            *place.lock() = Some(work(run).await?);
            Ok(Outcome::tagged(tag))
        };
        self.run(text, work).await?;
        done.into_inner().ok_or_else(|| Error::internal("a statement has ended without what it gives"))
    }

    async fn run_work<'a>(&'a self, text: &'a str, work: Work<'a>) -> Result<Outcome> {
        let _turn = self.turn.lock().await;
        let token = self.cancel.begin();
        let scope = &self.scope;
        scope.state().begin_statement();
        let mut run = Run::new(scope, token.clone(), cut(text).into(), self.calls);
        let progress = Arc::clone(&run.progress);
        *self.progress.lock() = Arc::clone(&progress);
        let mut stop = Stop::new(token.clone(), run.settings.statement_timeout);
        let record = Record::begin(&scope.engine, &scope.entry, text, Arc::clone(&progress));
        run.query_id = record.id();
        let version_before = Arc::clone(&run.repeated);
        let span = record.span().clone();
        let work = work(Arc::new(run));
        let work = async {
            // A user who is nobody here, or no longer somebody, may nothing. (A user whose SET ROLE does not hold any more
            // may RESET it.)
            scope.authoriser().acting_as("none").role()?;
            work.await
        };
        let mut work = Guarded::new(work.instrument(span));
        let result = tokio::select! {
            biased;
            result = &mut work => result,
            () = stop.stopped() => match progress.phase() {
                Phase::Committing => work.await,
                _ => Err(token.error()),
            },
        };
        match result {
            Ok(mut outcome) => {
                scope.state().end_statement(true);
                if let Some(version) = version_before.get() {
                    outcome = outcome.with_notice(repeated(*version));
                }
                match outcome.rows.take() {
                    Some(rows) => {
                        let supervised = SupervisedRows::new(rows, stop, record, Arc::clone(&scope.state));
                        outcome.rows = Some(Box::pin(supervised));
                    }
                    None => record.end(progress.rows(), Ok(())),
                }
                Ok(outcome)
            }
            Err(error) => {
                // Before it is over: a transaction that has failed keeps no locks.
                {
                    let mut state = scope.state();
                    state.fail_transaction();
                    state.end_statement(false);
                }
                record.end(progress.rows(), Err(&error));
                audit_refusal(scope, text, &error).await;
                Err(error)
            }
        }
    }
}
