//! Queries whose answers get better while somebody waits.
//!
//! Invariants:
//! - All refinements of a statement are of one version, that of its answer, which is the last refinement.
//! - Work is done while somebody waits for the next refinement, in pieces of some milliseconds. When the stream is
//!   dropped, or the statement cancelled or timed out, the piece under way is the last one, and the snapshot and all
//!   memory are freed with it.
//! - A statement that may be estimated is refined if no cuboid has its answer; every other statement is run as
//!   [`Session::execute`](crate::Session::execute) runs it.

use crate::answer::{Accuracy, Bounded, Missed, Refined, may_refine, refine};
use crate::errors::from_datafusion;
use crate::execution::blocking::blocking;
use crate::result_names::{named_schema, renamed};
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::run::refinement::{Bounds, IntervalKind, Refinement, RefinementSlot, Since, one_batch};
use crate::session::select::indexed::{Ready, find_in_cuboids, ready};
use crate::session::select::planning::{Unplanned, plan_later};
use crate::session::select::query_at_once;
use alluvia_copy::progress::{CancelToken, Progress};
use alluvia_syntax::{Hints, ResultNames};
use alluvia_types::{Error, Result, Version};
use alluvia_values::errors::wrap;
use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast::Query;
use futures::TryStreamExt;
use std::sync::Arc;

/// A query that whoever asks wants to see refined.
pub(crate) async fn query_refined(
    run: &Run,
    query: &Query,
    hints: &Hints,
    slot: &Arc<RefinementSlot>,
) -> Result<Outcome> {
    let since = Since::now(run.engine().read().clock());
    let kept = Arc::clone(run.engine().kept());
    let ready = ready(run, query, hints).await?;
    let Some(ready) = ready.filter(|ready| may_refine(&ready.bound)) else {
        return query_at_once(run, query, hints).await;
    };
    if run.settings.cuboids
        && let Some(found) = find_in_cuboids(run, &ready).await?
    {
        return found.into_outcome(run, ready, hints);
    }
    let unplanned = plan_later(run, Box::new(query.clone()), &ready.snapshot, hints)?;
    let shown = ready.shown();
    let Ready { snapshot, read, bound, schema, .. } = ready;
    let settings = &run.settings;
    let accuracy =
        Accuracy { max_error: settings.max_error, confidence: settings.confidence, missed: Missed::Escalate };
    let (threads, version) = (settings.threads, snapshot.version);
    let begun = blocking(move || refine(bound, &read, version, &kept, threads, schema, accuracy));
    let Some(refining) = begun.await? else { return query_at_once(run, query, hints).await };
    let used = unplanned.used();
    let (token, progress) = (run.token.clone(), Arc::clone(&run.progress));
    let names = run.names.get().cloned();
    let refiner = Refiner { refining, unplanned, names, token, progress, version, since, rows_reported: 0 };
    // A statement runs once.
    let _ = slot.token.set(run.token.clone());
    let rows = refiner.rows(Arc::clone(slot), shown);
    Ok(Outcome::rows("SELECT", rows).with_used(used))
}

/// A statement that is being refined.
struct Refiner {
    refining: crate::answer::Refining,
    /// For an answer that the index cannot write down.
    unplanned: Unplanned,
    names: Option<Arc<ResultNames>>,
    token: CancelToken,
    progress: Arc<Progress>,
    version: Version,
    since: Since,
    rows_reported: u64,
}

impl Refiner {
    /// The stream that a supervisor watches.
    fn rows(self, slot: Arc<RefinementSlot>, schema: SchemaRef) -> SendableRecordBatchStream {
        let columns = Arc::clone(&schema);
        let rows = futures::stream::try_unfold(Some(Box::new(self)), move |refiner| {
            let (slot, columns) = (Arc::clone(&slot), Arc::clone(&columns));
            async move {
                let Some(refiner) = refiner else { return Ok(None) };
                let (mut refinement, rest) = refiner.next().await.map_err(wrap)?;
                let rows = match refinement.is_last {
                    true => std::mem::replace(&mut refinement.rows, RecordBatch::new_empty(Arc::clone(&columns))),
                    false => RecordBatch::new_empty(columns),
                };
                *slot.next.lock() = Some(refinement);
                Ok::<_, DataFusionError>(Some((rows, rest)))
            }
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }

    /// Works until there is something new to say. Gives itself back if that is not the last word.
    async fn next(self: Box<Self>) -> Result<(Refinement, Option<Box<Refiner>>)> {
        let (refiner, refined) = blocking(move || {
            let mut refiner = self;
            loop {
                refiner.token.check()?;
                let refined = refiner.refining.step()?;
                let (read, total) = refiner.refining.rows();
                // It is known once the answer is planned, which is a step, too.
                refiner.progress.set_rows_total(total);
                refiner.progress.add_rows(read.saturating_sub(refiner.rows_reported));
                refiner.rows_reported = read;
                if !matches!(refined, Refined::Read) {
                    return Ok((refiner, refined));
                }
            }
        })
        .await?;
        let used = refiner.unplanned.used();
        match refined {
            Refined::Read => Err(Error::internal("a refinement ended in its middle")),
            Refined::Look { look, estimate, sample, share_off, is_enough } => {
                let refinement = Refinement {
                    look,
                    kind: IntervalKind::Planned { looks: refiner.refining.looks() },
                    confidence: refiner.refining.confidence(),
                    error: share_off,
                    groups_unseen: sample.groups_unseen,
                    is_last: is_enough,
                    ..refiner.refinement(estimate)
                };
                if is_enough {
                    used.set_sample(sample);
                    used.add_counters(&refiner.refining.counters());
                }
                Ok((refinement, (!is_enough).then_some(refiner)))
            }
            Refined::Exact(Some(answer)) => {
                used.add_counters(&refiner.refining.counters());
                Ok((refiner.refinement(answer), None))
            }
            Refined::Exact(None) => refiner.planned().await.map(|refinement| (refinement, None)),
        }
    }

    /// The answer by a plan, on the same snapshot.
    async fn planned(self: Box<Self>) -> Result<Refinement> {
        let empty = Bounded { rows: RecordBatch::new_empty(Arc::new(Schema::empty())), bounds: Vec::new() };
        let mut refinement = self.refinement(empty);
        let Refiner { unplanned, names, since, .. } = *self;
        let planned = unplanned.plan().await?;
        let batches: Vec<RecordBatch> = planned.execute()?.try_collect().await.map_err(from_datafusion)?;
        let rows = one_batch(&planned.schema(), &batches)?;
        refinement.rows = renamed(rows, &named_schema(&planned.schema(), names.as_deref()))
            .map_err(|error| Error::internal(format!("an answer cannot be named: {error}")))?;
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
