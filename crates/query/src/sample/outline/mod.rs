//! Outlines: plans of statements over one drawn table, kept with a gap where the rows come in.
//!
//! Invariants:
//! - What is around the rows was planned once, by the planner, for a text; every statement that differs from it in its box and in how
//!   much is drawn has the same plan around its rows. So an outline gives what the general way gives, or there is none.
//! - The rows come from the scans that the general way makes, under the same conditions.
//! - An outline knows nothing of a snapshot, a box or a session, and what its operators remember while they run is made anew for
//!   every run.
//!
//! A thinned picture of a box takes a millisecond to read and five to plan, since a statement is planned around its rows, and the rows
//! for themselves once more. [`DrawnQuery`] recognises what is asked, [`filters`] makes the box of its WHERE, [`DrawnRows`] scans, and
//! [`gap`] is where the rows come into the plan.

pub(crate) mod drawn_query;

mod filters;
mod gap;
mod rows;

pub(crate) use crate::sample::outline::drawn_query::DrawnQuery;
pub(crate) use rows::DrawnRows;

pub(super) use gap::GapTable;

use alluvia_types::{TableId, Version};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use gap::GapExec;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Outlines kept; beyond, all are forgotten.
const OUTLINES_MAX: usize = 1_024;
/// Statements whose text without its box is longer have none: whoever sends many must not fill the memory.
pub(crate) const OUTLINE_TEXT_BYTES_MAX: usize = 16 << 10;

/// What operators an outline may have. Each is made anew for a run by the plan's own means.
const OPERATORS: [&str; 8] = [
    "ProjectionExec",
    "FilterExec",
    "AggregateExec",
    "SortExec",
    "GlobalLimitExec",
    "LocalLimitExec",
    "CoalescePartitionsExec",
    "CooperativeExec",
];

/// Everything about a statement that its outline depends on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct OutlineKey {
    pub(crate) table: TableId,
    pub(crate) changed_at: Version,
    pub(crate) batch_size: usize,
    /// The statement without its box and without how much is drawn.
    pub(crate) text: String,
}

/// A plan with a gap.
#[derive(Debug)]
pub(crate) struct Outline {
    plan: Arc<dyn ExecutionPlan>,
    config: SessionConfig,
}

impl Outline {
    /// Of a plan over a [`GapTable`]; `None` if it has no gap, or is more than an outline can be. `config` is that of its runs.
    pub(crate) fn new(plan: Arc<dyn ExecutionPlan>, config: SessionConfig) -> Option<Outline> {
        let mut at = &plan;
        while at.downcast_ref::<GapExec>().is_none() {
            let children = at.children();
            let ([child], true) = (children.as_slice(), OPERATORS.contains(&at.name())) else { return None };
            at = *child;
        }
        Some(Outline { plan, config })
    }

    /// What its operators run with.
    pub(crate) fn config(&self) -> &SessionConfig {
        &self.config
    }

    /// The plan over these rows; `None` if they are so many that the general way, which divides the work, is as good.
    pub(crate) fn over(&self, rows: &DrawnRows) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let mut are_few = true;
        let plan = Arc::clone(&self.plan).transform_up(|plan| {
            let Some(gap) = plan.downcast_ref::<GapExec>() else { return plan.reset_state().map(Transformed::yes) };
            let filled = match rows.scan(gap.wanted(), plan.schema())? {
                Some(source) => gap.filled(source),
                None => {
                    are_few = false;
                    return Ok(Transformed::no(plan));
                }
            };
            Ok(Transformed::yes(Arc::new(filled) as Arc<dyn ExecutionPlan>))
        });
        plan.data().map(|plan| are_few.then_some(plan))
    }
}

/// Outlines of statements; `None` for those that have none.
#[derive(Debug, Default)]
pub(crate) struct Outlines {
    known: Mutex<HashMap<OutlineKey, Option<Arc<Outline>>>>,
    answered: AtomicU64,
}

impl Outlines {
    /// What is known of statements of this key.
    pub(crate) fn get(&self, key: &OutlineKey) -> Option<Option<Arc<Outline>>> {
        self.known.lock().get(key).cloned()
    }

    /// A statement was answered over one.
    pub(crate) fn answers(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// How many were.
    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Keeps what was found.
    pub(crate) fn insert(&self, key: OutlineKey, outline: Option<Arc<Outline>>) {
        let mut known = self.known.lock();
        if known.len() >= OUTLINES_MAX {
            known.clear();
        }
        known.insert(key, outline);
    }
}
