//! Rows of a segment that were killed between two versions: what who has counted them takes off.
//!
//! Invariants:
//! - A row is one of these if it came by the first version, and was killed after it and by the second one: it counted at
//!   the first, and does not at the second.
//! - What is in a row does not depend on where it lies: these are the same rows whatever sorts and merges happen between
//!   the versions, as long as the first is pinned (then no merge leaves them out).

use super::Versions;
use super::dead::Dead;
use crate::filter::Mask;
use crate::segment::Segment;
use alluvia_types::Version;
use std::sync::Arc;

/// Rows of a segment that came by a version, and were killed after it and by another.
#[derive(Clone, Debug)]
pub struct KilledRows {
    segment: Arc<Segment>,
    dead: Arc<Dead>,
    above: Version,
    through: Version,
}

impl KilledRows {
    /// Those of the rows of a segment, of which `dead` has the kills, that were killed above one version and through
    /// another; `None` if no row was.
    pub fn new(segment: &Arc<Segment>, dead: &Arc<Dead>, above: Version, through: Version) -> Option<KilledRows> {
        let any = segment.meta().min_version <= above && dead.blocks_between(above, through).next().is_some();
        any.then(|| KilledRows { segment: Arc::clone(segment), dead: Arc::clone(dead), above, through })
    }

    /// The segment.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// How many, those counted in that came after the first version.
    pub fn count_at_most(&self) -> u64 {
        self.blocks().map(|block| self.dead.count_between(block, self.above, self.through) as u64).sum()
    }

    /// Their numbers in the segment, and those of rows that came after the first version.
    pub fn rows_at_most(&self) -> impl Iterator<Item = u64> {
        self.dead.kills_between(self.above, self.through).map(|(row, _)| row)
    }

    /// Blocks that may have some, ascending.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = usize> {
        self.dead.blocks_between(self.above, self.through)
    }

    /// Those of a block, and those that came after the first version.
    pub(crate) fn mask(&self, block: usize) -> Mask {
        self.dead.mask_between(block, self.above, self.through)
    }

    /// The versions that they came by.
    pub(crate) fn versions(&self) -> Versions {
        let has_later = self.segment.meta().max_version > self.above;
        Versions { through: if has_later { self.above.0 } else { u64::MAX }, ..Versions::ALL }
    }
}
