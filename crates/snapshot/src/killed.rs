//! Rows of a table that were killed since a version: what who has counted them takes off.
//!
//! Invariants:
//! - A row that came by the first version and was killed after it, by the second one, is here once, wherever it lies now;
//!   no other row is. What is in it does not depend on where it lies.
//! - That holds if the first version is pinned, and has been since it could be asked for: then neither a sort nor a merge
//!   has left such a row out.

use crate::tail::TailRun;
use alluvia_tree::KilledRows;
use alluvia_types::Version;
use arrow::record_batch::RecordBatch;
use std::sync::Arc;

/// Rows that were killed above one version and through another.
#[derive(Clone, Debug, Default)]
pub struct Killed {
    /// Rows of segments, of those that came by the first version.
    pub segments: Vec<KilledRows>,
    /// Rows of the tail, of those that came by the first version: columns as of [`TailRead::rows`](crate::TailRead::rows).
    pub tail: Vec<RecordBatch>,
    /// Versions and ordinals, ascending, of rows of the tail that came after the first version: no reader of either has
    /// them.
    pub brief: Vec<(Version, u64)>,
}

/// The same, found, and nothing read yet.
#[derive(Default)]
pub(crate) struct KilledPlaces {
    pub(crate) segments: Vec<KilledRows>,
    pub(crate) tail: Vec<(Arc<TailRun>, Vec<u32>)>,
    pub(crate) brief: Vec<(Version, u64)>,
}

impl Killed {
    /// How many rows have to be taken off, at most.
    pub fn rows_at_most(&self) -> u64 {
        self.rows_of_segments_at_most() + self.tail.iter().map(|rows| rows.num_rows() as u64).sum::<u64>()
    }

    /// How many of them lie in segments, at most.
    pub fn rows_of_segments_at_most(&self) -> u64 {
        self.segments.iter().map(KilledRows::count_at_most).sum()
    }
}

impl KilledPlaces {
    pub(crate) fn read(self) -> Killed {
        let KilledPlaces { segments, tail, brief } = self;
        Killed { segments, tail: tail.into_iter().map(|(run, places)| run.take(places)).collect(), brief }
    }
}
