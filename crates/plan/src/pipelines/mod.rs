//! How far a statement's plan is: the one place that every channel's fraction comes from.
//!
//! A plan is [`cut`] into pipelines before it runs, with meters ([`exec`], [`meter`]) on what drives them; whoever asks has the share of their
//! rows [`estimate`]d then and there. While it runs a meter adds up rows, and nothing else happens.
//!
//! Invariants:
//! - A plan that cannot be metered runs as it is, and its scans alone tell how far it is.
//! - Nothing of a plan is held but its meters: its operators go when whoever runs them lets them go.

mod cut;
mod estimate;
mod exec;
mod meter;
mod source;

pub use source::ScannedParts;
#[cfg(test)]
mod tests;

use alluvia_types::ReportedShare;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::physical_plan::ExecutionPlan;
use estimate::{Operator, work};
use parking_lot::Mutex;
use std::sync::Arc;

/// Fewer rows than these have no share that is worth telling: a row of constants is computed, or not.
const ROWS_MIN: f64 = 2.0;

/// How operators are known that are not DataFusion's.
#[derive(Clone, Copy, Debug)]
pub struct KnownOperators {
    /// Whether an operator answers by itself, and runs its first input only where it cannot.
    pub answers_alone: fn(&dyn ExecutionPlan) -> bool,
    /// The rows of each part of a file that a scan reads, whose reader counts them as `rows_read` when it opens the part; `None` of any
    /// other scan.
    pub part_rows: fn(&DataSourceExec) -> Option<Vec<u64>>,
}

/// The pipelines of the plan that a statement runs; none before it is planned, or if it needs no plan.
#[derive(Debug, Default)]
pub struct Pipelines {
    plan: Mutex<Option<Metered>>,
    told: ReportedShare,
}

#[derive(Debug)]
struct Metered {
    root: Operator,
    memory: Arc<dyn MemoryPool>,
}

impl Pipelines {
    /// The plan with meters, to be run in the place of `plan`, and of any that was given before. Its operators take memory of `memory`.
    pub fn meter(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        memory: &Arc<dyn MemoryPool>,
        known: &KnownOperators,
    ) -> Arc<dyn ExecutionPlan> {
        match cut::cut(&plan, known) {
            Ok((metered, root)) => {
                *self.plan.lock() = Some(Metered { root, memory: Arc::clone(memory) });
                metered
            }
            Err(error) => {
                tracing::debug!(%error, "a plan is not metered");
                *self.plan.lock() = None;
                plan
            }
        }
    }

    /// The share of the statement that is done, below 1 and never less than it was told to be; `None` where nobody knows.
    /// `written` is how many of the plan's rows have been written, where that is what they are for; `scanned` the share of the scans,
    /// which is told where there is no plan.
    pub fn fraction(&self, written: Option<u64>, scanned: Option<f64>) -> Option<f64> {
        let share = match &*self.plan.lock() {
            Some(Metered { root, memory }) => {
                let work = work(root, memory.reserved(), written);
                work.share().filter(|_| work.total.is_some_and(|total| total >= ROWS_MIN))
            }
            None => scanned,
        };
        self.told.tell(share)
    }
}
