//! Box queries: filters, groups and measures that are asked of the rows of a table.

use super::edges::TimeRange;
use super::totals::WantedMeasure;
use crate::nodes::CodeSet;

/// Filters and ranges of times of a box, at most: each has a bit.
pub const TESTS_MAX: usize = 64;

/// Rows must have one of these codes at a level.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LevelFilter {
    /// Counted over all dimensions in the definition's order.
    pub level: usize,
    /// The codes.
    pub codes: CodeSet,
}

/// Aggregates of the rows of a box, by groups.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BoxQuery {
    /// All must hold; at most one for each level.
    pub filters: Vec<LevelFilter>,
    /// What the values of rows at edges must be beside that; at most one for each column.
    pub times: Vec<TimeRange>,
    /// Levels whose codes make a group.
    pub groups: Vec<usize>,
    /// Measures, and what of them.
    pub measures: Vec<WantedMeasure>,
}

impl BoxQuery {
    /// How many tests a row has to pass. The bits of filters come first, then those of ranges of times.
    pub fn tests(&self) -> usize {
        self.filters.len() + self.times.len()
    }
}

/// What answering took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Segments some of whose rows may match.
    pub segments: u64,
    /// Segments none of whose rows match.
    pub segments_skipped: u64,
    /// Nodes none of whose rows match.
    pub disjoint: u64,
    /// Nodes answered from summaries.
    pub covered: u64,
    /// Blocks that were read.
    pub cut: u64,
    /// Rows of the blocks that were read.
    pub rows_filtered: u64,
    /// Blocks below the disjoint nodes.
    pub blocks_skipped: u64,
    /// Rows from the tail.
    pub tail_rows: u64,
}

impl Counters {
    /// Adds others.
    pub fn add(&mut self, other: &Counters) {
        self.segments += other.segments;
        self.segments_skipped += other.segments_skipped;
        self.disjoint += other.disjoint;
        self.covered += other.covered;
        self.cut += other.cut;
        self.rows_filtered += other.rows_filtered;
        self.blocks_skipped += other.blocks_skipped;
        self.tail_rows += other.tail_rows;
    }
}
