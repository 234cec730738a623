//! Answers that get better while they are waited for.
//!
//! Invariants:
//! - All refinements of a statement are of one version, that of its answer, which is the last of them.
//! - Work is done while somebody waits for the next refinement, in pieces of some milliseconds. When the stream is dropped, or the
//!   statement cancelled or timed out, the piece under way is the last one, and the snapshot and all memory are freed with it.
//! - A statement that may be estimated is refined if no cuboid has its answer; every other one is run as [`Session::execute`] runs it.

use crate::answer::{Accuracy, Bounded, Missed, Refined, may_refine, refine};
use crate::errors::from_datafusion;
use crate::execution::blocking::blocking;
use crate::session::core::{Run, Session};
use crate::session::indexed::Ready;
use crate::session::outcome::Outcome;
use crate::session::prepared::Prepared;
use crate::session::select::Unplanned;
use alluvia_copy::progress::{CancelToken, Progress};
use alluvia_syntax::{Hints, Statement};
use alluvia_types::{Clock, Error, Result, Version};
use alluvia_values::errors::wrap;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast::Query;
use futures::future::BoxFuture;
use futures::{Stream, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

/// The answer as far as it is known.
#[derive(Clone, Debug)]
pub struct Refinement {
    /// All rows, with the columns, order and limit of the answer.
    pub rows: RecordBatch,
    /// For each column that is a `count`, `sum` or `avg` of a statement that is estimated: where the exact values are. Of a column of any
    /// other kind, and of a statement that is never estimated, `None`.
    pub bounds: Vec<Option<Bounds>>,
    /// The planned look that this is, from 1; 0 of an exact answer.
    pub look: u32,
    /// Looks that are planned.
    pub looks: u32,
    /// What kind of intervals the bounds are.
    pub kind: IntervalKind,
    /// How often *all* intervals that one value has in all refinements of a statement hold the exact one, over the choice of the
    /// table's seed: so one may stop at whichever, for whatever reason. 1 of an exact answer.
    pub confidence: f64,
    /// The largest relative error of a value; infinite where nothing is known. 0 of an exact answer.
    pub error: f64,
    /// The share of the rows that the exact answer reads that were read so far, from 0 to 1.
    pub fraction: f64,
    /// Groups that may exist and were not seen yet.
    pub groups_unseen: u64,
    /// Everything through this version is in it, and nothing above; `None` of a statement that reads no table.
    pub version: Option<Version>,
    /// Since the statement began.
    pub elapsed: Duration,
    /// Whether it is the answer: exact, or within `max_error`.
    pub is_last: bool,
}

impl Refinement {
    /// Whether nothing in it is estimated.
    pub fn is_exact(&self) -> bool {
        self.kind == IntervalKind::Exact
    }
}

/// Where the exact values of a column are, row by row. NULL where nothing is known.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// They are not below these. Of the column's type.
    pub lower: ArrayRef,
    /// They are not above these.
    pub upper: ArrayRef,
}

/// How bounds came about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IntervalKind {
    /// The bounds are the values.
    Exact,
    /// One of so many planned looks at samples, each with its share of the error.
    Planned {
        /// How many were planned.
        looks: u32,
    },
}

/// What a statement that was asked to be refined has become.
#[derive(Debug)]
pub enum Refining {
    /// Estimates that get better until the answer.
    Looks(Refinements),
    /// The statement is never estimated, or a cuboid has its answer: the answer as ever, read as it comes.
    Rows(Outcome),
}

/// Refinements of one statement, each better than the one before; the last is the answer. Nothing is done while nobody waits. Dropping the
/// stream stops the statement.
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

    /// The statement's tag, notices, and what was read; complete once the stream has ended. Its rows are the last refinement's.
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

impl Session {
    /// Runs one statement and gives its answer as far as it is known, better and better, until it is exact, or as near as the session's
    /// `max_error` asks. A statement that is never estimated gives one refinement, its answer, whose rows are gathered in memory;
    /// [`Session::progress`] and [`Session::report`] tell meanwhile how far it is.
    /// All intervals of a statement hold together, so one may stop at whichever, for whatever reason. An example that runs is in the
    /// documentation of `alluvia_node`.
    pub async fn refine(&self, sql: &str) -> Result<Refinements> {
        let since = self.since_now();
        Ok(match self.refine_statement(self.parse_one(sql)?).await? {
            Refining::Looks(refinements) => refinements,
            Refining::Rows(outcome) => Refinements::of_rows(outcome, since),
        })
    }

    /// As [`Session::refine`], of a prepared statement with a value for each of its parameters, and with the rows of a statement that is
    /// never estimated as they come.
    pub async fn refine_prepared(&self, prepared: &Prepared, values: &[ScalarValue]) -> Result<Refining> {
        self.refine_statement(prepared.bind(values)?).await
    }

    /// As [`Session::refine`], with the rows of a statement that is never estimated as they come. Statements of any kind are run.
    pub fn refine_statement(&self, statement: Statement) -> BoxFuture<'_, Result<Refining>> {
        Box::pin(async move {
            let telling = Arc::new(Telling::default());
            let text = Arc::clone(&statement.text);
            let work = |run: Arc<Run>| {
                let telling = Arc::clone(&telling);
                async move {
                    if run.telling.set(telling).is_err() {
                        return Err(Error::internal("a statement was refined twice"));
                    }
                    self.dispatch(&run, statement).await
                }
            };
            let mut outcome = self.run(&text, work).await?;
            let Some(token) = telling.token.get().cloned() else { return Ok(Refining::Rows(outcome)) };
            let Some(rows) = outcome.rows.take() else { return Err(Error::internal("refinements without rows")) };
            let schema = Some(rows.schema());
            let inner = rows.map(move |told| {
                let rows = told.map_err(from_datafusion)?;
                let mut refinement =
                    telling.next.lock().take().ok_or_else(|| Error::internal("a refinement was not told"))?;
                if refinement.is_last {
                    refinement.rows = rows;
                }
                Ok::<_, Error>(refinement)
            });
            let stop = Some(StopOnDrop(token));
            Ok(Refining::Looks(Refinements { inner: Box::pin(inner), schema, outcome, _stop: stop }))
        })
    }

    /// Whether the session asks whoever shows answers to show refinements: the setting `progressive`.
    pub fn is_progressive(&self) -> bool {
        self.state.lock().settings.progressive
    }

    /// A query that whoever asks wants to see refined.
    pub(super) async fn query_refined(
        &self,
        run: &Run,
        query: &Query,
        hints: &Hints,
        telling: &Arc<Telling>,
    ) -> Result<Outcome> {
        let since = self.since_now();
        let kept = Arc::clone(self.engine.kept());
        let ready = self.ready(run, query, hints).await?;
        let Some(ready) = ready.filter(|ready| may_refine(&ready.bound)) else {
            return self.query_at_once(run, query, hints).await;
        };
        if run.settings.cuboids
            && let Some(found) = self.find_in_cuboids(run, &ready).await?
        {
            return found.into_outcome(run, ready, hints);
        }
        let unplanned = self.plan_later(run, Box::new(query.clone()), &ready.snapshot, hints)?;
        let shown = ready.shown();
        let Ready { snapshot, read, bound, schema, .. } = ready;
        let settings = &run.settings;
        let accuracy =
            Accuracy { max_error: settings.max_error, confidence: settings.confidence, missed: Missed::Escalate };
        let (threads, version) = (settings.threads, snapshot.version);
        let begun = blocking(move || refine(bound, &read, version, &kept, threads, schema, accuracy));
        let Some(refining) = begun.await? else { return self.query_at_once(run, query, hints).await };
        let used = unplanned.used();
        let (token, progress) = (run.token.clone(), Arc::clone(&run.progress));
        let asking = Asking { refining, unplanned, token, progress, version, since, rows_told: 0 };
        // A statement runs once.
        let _ = telling.token.set(run.token.clone());
        let rows = asking.told(Arc::clone(telling), shown);
        Ok(Outcome::rows("SELECT", rows).with_used(used))
    }

    fn since_now(&self) -> Since {
        let clock = Arc::clone(self.engine.read().clock());
        Since { start: clock.monotonic(), clock }
    }
}

/// When a statement began.
struct Since {
    clock: Arc<dyn Clock>,
    start: Duration,
}

impl Since {
    fn elapsed(&self) -> Duration {
        self.clock.monotonic().saturating_sub(self.start)
    }
}

/// Tells a statement's work to stop. It may be over: then nobody hears it.
struct StopOnDrop(CancelToken);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Hands refinements past the supervisor, which knows of rows alone: each comes with a batch, which is empty but for the last.
#[derive(Default)]
pub struct Telling {
    next: Mutex<Option<Refinement>>,
    /// Set when the statement is refined.
    token: OnceLock<CancelToken>,
}

/// A statement that is being refined.
struct Asking {
    refining: crate::answer::Refining,
    /// For an answer that the index cannot write down.
    unplanned: Unplanned,
    token: CancelToken,
    progress: Arc<Progress>,
    version: Version,
    since: Since,
    rows_told: u64,
}

impl Asking {
    /// The stream that a supervisor watches.
    fn told(self, telling: Arc<Telling>, schema: SchemaRef) -> SendableRecordBatchStream {
        let columns = Arc::clone(&schema);
        let rows = futures::stream::try_unfold(Some(Box::new(self)), move |asking| {
            let (telling, columns) = (Arc::clone(&telling), Arc::clone(&columns));
            async move {
                let Some(asking) = asking else { return Ok(None) };
                let (mut refinement, rest) = asking.next().await.map_err(wrap)?;
                let rows = match refinement.is_last {
                    true => std::mem::replace(&mut refinement.rows, RecordBatch::new_empty(Arc::clone(&columns))),
                    false => RecordBatch::new_empty(columns),
                };
                *telling.next.lock() = Some(refinement);
                Ok::<_, DataFusionError>(Some((rows, rest)))
            }
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }

    /// Works until there is something new to say. Gives itself back if that is not the last word.
    async fn next(self: Box<Self>) -> Result<(Refinement, Option<Box<Asking>>)> {
        let (asking, refined) = blocking(move || {
            let mut asking = self;
            loop {
                asking.token.check()?;
                let refined = asking.refining.step()?;
                let (read, total) = asking.refining.rows();
                // It is known once the answer is planned, which is a step, too.
                asking.progress.set_rows_total(total);
                asking.progress.add_rows(read.saturating_sub(asking.rows_told));
                asking.rows_told = read;
                if !matches!(refined, Refined::Read) {
                    return Ok((asking, refined));
                }
            }
        })
        .await?;
        let used = asking.unplanned.used();
        match refined {
            Refined::Read => Err(Error::internal("a refinement ended in its middle")),
            Refined::Look { look, estimate, sample, is_enough } => {
                let refinement = Refinement {
                    look,
                    kind: IntervalKind::Planned { looks: asking.refining.looks() },
                    confidence: asking.refining.confidence(),
                    error: sample.error,
                    groups_unseen: sample.groups_unseen,
                    is_last: is_enough,
                    ..asking.refinement(estimate)
                };
                if is_enough {
                    used.set_sample(sample);
                    used.add_counters(&asking.refining.counters());
                }
                Ok((refinement, (!is_enough).then_some(asking)))
            }
            Refined::Exact(Some(answer)) => {
                used.add_counters(&asking.refining.counters());
                Ok((asking.refinement(answer), None))
            }
            Refined::Exact(None) => asking.planned().await.map(|refinement| (refinement, None)),
        }
    }

    /// The answer by a plan, on the same snapshot.
    async fn planned(self: Box<Self>) -> Result<Refinement> {
        let empty = Bounded { rows: RecordBatch::new_empty(Arc::new(Schema::empty())), bounds: Vec::new() };
        let mut refinement = self.refinement(empty);
        let Asking { unplanned, since, .. } = *self;
        let planned = unplanned.plan().await?;
        let batches: Vec<RecordBatch> = planned.execute()?.try_collect().await.map_err(from_datafusion)?;
        refinement.rows = one_batch(&planned.schema(), &batches)?;
        refinement.bounds = vec![None; refinement.rows.num_columns()];
        refinement.elapsed = since.elapsed();
        Ok(refinement)
    }

    /// As an exact answer.
    fn refinement(&self, answer: Bounded) -> Refinement {
        let (read, rows) = self.refining.rows();
        let bounds = answer.bounds.into_iter().map(|bounds| bounds.map(|(lower, upper)| Bounds { lower, upper }));
        Refinement {
            rows: answer.rows,
            bounds: bounds.collect(),
            look: 0,
            looks: self.refining.looks(),
            kind: IntervalKind::Exact,
            confidence: 1.0,
            error: 0.0,
            fraction: if rows > 0 { read as f64 / rows as f64 } else { 1.0 },
            groups_unseen: 0,
            version: Some(self.version),
            elapsed: self.since.elapsed(),
            is_last: true,
        }
    }
}

fn one_batch(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<RecordBatch> {
    concat_batches(schema, batches)
        .map_err(|error| Error::internal(format!("an answer cannot be put together: {error}")))
}
