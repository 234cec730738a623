//! Statements whose answers get better while they are waited for, as streams of refinements.
//!
//! Invariant: dropping the stream stops the statement. A statement that is never estimated is run as any other.

use crate::errors::from_datafusion;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::run::refinement::{IntervalKind, Refinement, RefinementSlot, Since, one_batch};
use crate::session::run::runner::Runner;
use crate::session::statement::dispatch::dispatch;
use crate::session::statement::parse_one;
use alluvia_copy::progress::CancelToken;
use alluvia_syntax::Statement;
use alluvia_types::{Error, Result};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::{Stream, StreamExt, TryStreamExt};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// What a statement that was asked to be refined has become.
#[derive(Debug)]
pub enum Refining {
    /// Estimates that get better until the answer.
    Looks(Refinements),
    /// The statement is never estimated, or a cuboid has its answer: the answer as ever, read as it comes.
    Rows(Outcome),
}

/// Refinements of one statement, each better than the one before; the last is the answer. Nothing is done while nobody
/// waits. Dropping the stream stops the statement.
pub struct Refinements {
    inner: Pin<Box<dyn Stream<Item = Result<Refinement>> + Send>>,
    schema: Option<SchemaRef>,
    outcome: Outcome,
    /// Dropped after the stream: by then whatever still runs is told to stop.
    _stop: Option<StopOnDrop>,
}

impl fmt::Debug for Refinements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refinements").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

impl Refinements {
    /// The columns of every refinement; `None` of a statement that returns no rows.
    pub fn schema(&self) -> Option<&SchemaRef> {
        self.schema.as_ref()
    }

    /// The statement's tag, notices, and what was read; complete once the stream has ended. Its rows are the last
    /// refinement's.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// The same, of a statement of which nothing more is wanted: it is stopped unless it has ended.
    pub(crate) fn into_outcome(self) -> Outcome {
        self.outcome
    }

    /// Rows as one refinement, which is exact.
    fn of_rows(mut outcome: Outcome, since: Since) -> Refinements {
        let Some(rows) = outcome.rows.take() else {
            return Refinements { inner: Box::pin(futures::stream::empty()), schema: None, outcome, _stop: None };
        };
        let (schema, used) = (rows.schema(), outcome.counters());
        let columns = Arc::clone(&schema);
        let inner = futures::stream::once(async move {
            let batches: Vec<RecordBatch> = rows.try_collect().await.map_err(from_datafusion)?;
            Ok::<_, Error>(Refinement {
                rows: one_batch(&columns, &batches)?,
                bounds: vec![None; columns.fields().len()],
                look: 0,
                looks: 0,
                kind: IntervalKind::Exact,
                confidence: 1.0,
                error: 0.0,
                fraction: 1.0,
                groups_unseen: 0,
                version: used.map(|used| used.used().version),
                elapsed: since.elapsed(),
                is_last: true,
            })
        });
        Refinements { inner: Box::pin(inner), schema: Some(schema), outcome, _stop: None }
    }
}

impl Stream for Refinements {
    type Item = Result<Refinement>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Refinement>>> {
        self.inner.as_mut().poll_next(context)
    }
}

/// Tells a statement's work to stop. It may be over: then nobody hears it.
struct StopOnDrop(CancelToken);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Runs one statement and gives its answer as far as it is known; rows of a statement that is never estimated are
/// gathered.
pub(crate) async fn refine(runner: &Runner, sql: &str) -> Result<Refinements> {
    let since = Since::now(runner.scope.engine.read().clock());
    Ok(match refine_statement(runner, parse_one(&runner.scope, sql)?).await? {
        Refining::Looks(refinements) => refinements,
        Refining::Rows(outcome) => Refinements::of_rows(outcome, since),
    })
}

/// The same of a parsed statement of any kind, with the rows of one that is never estimated as they come.
pub(crate) async fn refine_statement(runner: &Runner, statement: Statement) -> Result<Refining> {
    let slot = Arc::new(RefinementSlot::default());
    let text = Arc::clone(&statement.text);
    let work = |run: Arc<Run>| {
        let slot = Arc::clone(&slot);
        async move {
            if run.refining.set(slot).is_err() {
                return Err(Error::internal("a statement was refined twice"));
            }
            dispatch(&run, statement).await
        }
    };
    let mut outcome = runner.run(&text, work).await?;
    let Some(token) = slot.token.get().cloned() else { return Ok(Refining::Rows(outcome)) };
    let Some(rows) = outcome.rows.take() else { return Err(Error::internal("refinements without rows")) };
    let schema = Some(rows.schema());
    let inner = rows.map(move |rows| {
        let rows = rows.map_err(from_datafusion)?;
        let refinement = slot.next.lock().take();
        let mut refinement = refinement.ok_or_else(|| Error::internal("rows have come without their refinement"))?;
        if refinement.is_last {
            refinement.rows = rows;
        }
        Ok::<_, Error>(refinement)
    });
    let stop = Some(StopOnDrop(token));
    Ok(Refining::Looks(Refinements { inner: Box::pin(inner), schema, outcome, _stop: stop }))
}
