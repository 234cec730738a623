//! Summaries: bounds, NULL counts, codes and sums of each block, known without reading the block.
//!
//! Invariants:
//! - Bounds are bounds: no value of a block lies outside them, by the order Arrow's kernels compare with. Whatever
//!   cannot be bounded is NULL, which says nothing.
//! - A summary is a function of a block's rows alone, not of how they were handed to the writer: `verify` computes it
//!   again.
//!
//! One row per block, as Arrow arrays: pruning evaluates predicates on whole columns of bounds at once.

mod bounds;
mod build;
mod measures;
mod presence;
mod table;

pub(crate) use bounds::{lower_bound, upper_bound};
pub(crate) use build::{BlockCodes, PackedMeasure, SummaryBuilder, least_and_greatest};
pub use measures::{FloatSummary, MeasureSummary};
pub use presence::LevelSummary;
pub(crate) use table::{BlockTable, decode_presence, encode_presence, integer_at};

use crate::layout::block_rows;
use alluvia_types::ColumnId;
use arrow::array::ArrayRef;
use std::ops::Range;
use std::sync::Arc;

/// Bounds and NULLs of one column, one entry per block.
#[derive(Clone, Debug)]
pub struct ColumnSummary {
    /// NULLs (`UInt32`).
    pub nulls: ArrayRef,
    /// Lower bounds, of the column's Arrow type; NULL where a block has no value. Text and binary are cut to 64 bytes.
    pub mins: ArrayRef,
    /// Upper bounds, likewise.
    pub maxs: ArrayRef,
}

/// The summaries of one segment.
#[derive(Clone, Debug)]
pub struct BlockSummaries {
    pub(crate) table: Arc<BlockTable>,
    pub(crate) levels: Vec<LevelSummary>,
    pub(crate) rows: u64,
}

impl BlockSummaries {
    /// How many blocks.
    pub fn blocks(&self) -> usize {
        self.table.key_first.len()
    }

    /// The rows of a block.
    pub fn block_rows(&self, block: usize) -> Range<u64> {
        block_rows(block, self.rows)
    }

    /// First and last key of a block.
    pub fn key_bounds(&self, block: usize) -> (u128, u128) {
        (self.table.key_first[block], self.table.key_last[block])
    }

    /// Bounds of a column; `None` if it was added to the table after the segment was written (every row has NULL).
    pub fn column(&self, id: ColumnId) -> Option<&ColumnSummary> {
        self.table.columns.iter().find(|(column, _)| *column == id).map(|(_, summary)| summary)
    }

    /// Bounds of `_version`; NULL where a staged file does not know it.
    pub fn versions(&self) -> &ColumnSummary {
        &self.table.versions
    }

    /// Codes present at a level, counted over all dimensions in the definition's order.
    pub fn level(&self, level: usize) -> Option<&LevelSummary> {
        self.levels.get(level)
    }

    /// Sums of a measure.
    pub fn measure(&self, id: ColumnId) -> Option<&MeasureSummary> {
        self.table.measures.iter().find(|(column, _)| *column == id).map(|(_, summary)| summary)
    }
}
