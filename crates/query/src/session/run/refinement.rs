//! Answers as far as they are known: what refining a statement tells, and how it comes past whoever supervises rows.

use alluvia_copy::progress::CancelToken;
use alluvia_types::{Clock, Error, Result, Version};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The answer as far as it is known.
#[derive(Clone, Debug)]
pub struct Refinement {
    /// All rows, with the columns, order and limit of the answer.
    pub rows: RecordBatch,
    /// For each column that is a `count`, `sum` or `avg` of a statement that is estimated: where the exact values are.
    /// Of a column of any other kind, and of a statement that is never estimated, `None`.
    pub bounds: Vec<Option<Bounds>>,
    /// The planned look that this is, from 1; 0 of an exact answer.
    pub look: u32,
    /// Looks that are planned.
    pub looks: u32,
    /// What kind of intervals the bounds are.
    pub kind: IntervalKind,
    /// How often *all* intervals that one value has in all refinements of a statement hold the exact one, over the
    /// choice of the table's seed: so one may stop at whichever, for whatever reason. 1 of an exact answer.
    pub confidence: f64,
    /// The most that a value may be off, as a share: of the exact value, or of the estimate where that is less, as where
    /// the exact value may be next to 0. Infinite where nothing is known, 0 of an exact answer.
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

/// When a statement began.
pub(crate) struct Since {
    clock: Arc<dyn Clock>,
    start: Duration,
}

impl Since {
    /// It begins.
    pub(crate) fn now(clock: &Arc<dyn Clock>) -> Since {
        Since { start: clock.monotonic(), clock: Arc::clone(clock) }
    }

    /// The time that has gone by.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.monotonic().saturating_sub(self.start)
    }
}

/// Hands refinements past the supervisor, which knows of rows alone: each comes with a batch, which is empty but for
/// the last.
#[derive(Default)]
pub(crate) struct RefinementSlot {
    pub(crate) next: Mutex<Option<Refinement>>,
    /// Set when the statement is refined.
    pub(crate) token: OnceLock<CancelToken>,
}

/// All rows of an answer as one batch.
pub(crate) fn one_batch(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<RecordBatch> {
    concat_batches(schema, batches)
        .map_err(|error| Error::internal(format!("an answer cannot be put together: {error}")))
}
