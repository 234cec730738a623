//! Which rows of a segment a reader sees: those of some versions that nobody has killed by then.
//!
//! Invariants:
//! - There is one type for it, [`SegmentRows`], from the snapshot to the last block: who reads a segment for a statement
//!   asks it, and nothing else, whether a row counts.
//! - A summary is of all rows of its block. So a block of which some rows do not count is never answered from its summary.
//! - What is written beside a segment of its rows as a whole (rungs, heavy rows) knows of no dead ones, either. Whoever
//!   reads that takes [`Laddered`] rows, and draws from a rung as [`Drawn`]: these know the dead.

mod dead;
mod killed;
mod laddered;

pub use dead::{Dead, DeadRows};
pub use killed::KilledRows;
pub(crate) use laddered::{Drawn, Laddered};

use crate::segment::Segment;
use alluvia_types::Version;
use std::sync::Arc;

/// Rows of a segment: those of the versions above one and through another that are not dead.
#[derive(Clone, Debug)]
pub struct SegmentRows {
    /// The segment.
    pub segment: Arc<Segment>,
    /// Rows of this version and before do not count; `None` if all do.
    pub above: Option<Version>,
    /// Rows of later versions do not count; `None` if all do.
    pub through: Option<Version>,
    /// Rows that do not count because they were killed.
    pub dead: Option<DeadRows>,
}

impl SegmentRows {
    /// All rows of a segment.
    pub fn all(segment: Arc<Segment>) -> SegmentRows {
        SegmentRows { segment, above: None, through: None, dead: None }
    }

    /// Whether all of the segment's rows count.
    pub fn is_whole(&self) -> bool {
        self.dead.is_none() && self.bounds() == Versions::ALL
    }

    /// Whether every row of a block is dead.
    pub(crate) fn is_block_dead(&self, block: usize) -> bool {
        let rows = self.segment.block_rows(block);
        self.dead.as_ref().is_some_and(|dead| dead.count_in(block) as u64 == rows.end - rows.start)
    }

    /// The bounds that the segment does not keep by itself.
    pub(crate) fn bounds(&self) -> Versions {
        let meta = self.segment.meta();
        Versions {
            above: self.above.filter(|above| meta.min_version <= *above).map_or(0, |above| above.0),
            through: self.through.filter(|through| meta.max_version > *through).map_or(u64::MAX, |through| through.0),
        }
    }
}

/// Versions above one and through another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Versions {
    pub(crate) above: u64,
    pub(crate) through: u64,
}

impl Versions {
    pub(crate) const ALL: Versions = Versions { above: 0, through: u64::MAX };

    pub(crate) fn contains(self, version: u64) -> bool {
        version > self.above && version <= self.through
    }
}
