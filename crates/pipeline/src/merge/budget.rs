//! What a merge may hold: of how many segments, and how many of their rows at a time.
//!
//! Invariants:
//! - A merge takes its sorted segments oldest first, and at least two of them, or all. So rows of equal keys keep their order, and merging
//!   again and again comes to an end.
//! - Where all fits, which is so for most tables, nothing of this is seen: all are taken, in chunks of as many rows as the options say.

use super::plan::Run;
use crate::options::PipelineOptions;
use alluvia_snapshot::TableBase;
use alluvia_space::TableDef;
use alluvia_tree::{BLOCK_ROWS, RowBytes, Segment};
use alluvia_types::Result;
use std::sync::Arc;

/// Rows of a chunk at least: each chunk costs some work for every column.
const CHUNK_ROWS_MIN: usize = 32;

/// How the rows of a merge are gathered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Chunks {
    /// Rows of a chunk at most.
    pub(super) rows: usize,
    /// Whether the output is banded, for which chunks are whole blocks.
    pub(super) is_banded: bool,
}

/// The chunks of a merge of these runs, whose output is banded if it can be.
pub(super) fn chunks_of(runs: &[&Run], def: &TableDef, options: &PipelineOptions) -> Result<Chunks> {
    let (mut row, mut pages) = (0, 0);
    for run in runs {
        let bytes = run.segment.row_bytes(def)?;
        row = row.max(bytes.row);
        pages += bytes.of_pages();
    }
    Ok(chunks_within(row, pages, runs.len(), !def.dimensions.is_empty(), options))
}

/// The same of so many runs of rows of so many bytes, whose open pages have so many.
fn chunks_within(row: usize, pages: usize, runs: usize, can_be_banded: bool, options: &PipelineOptions) -> Chunks {
    // One of each input, and the output's as it is gathered, moved and written.
    let held = row.max(1) * (runs + 3);
    let rows = options.merge_bytes.saturating_sub(pages) / held;
    if can_be_banded && options.merge_bytes / held >= BLOCK_ROWS {
        let blocks = rows.min(options.chunk_rows) / BLOCK_ROWS;
        return Chunks { rows: blocks.max(1) * BLOCK_ROWS, is_banded: true };
    }
    Chunks { rows: rows.clamp(CHUNK_ROWS_MIN, options.chunk_rows.max(CHUNK_ROWS_MIN)), is_banded: false }
}

/// The files of a table with the oldest of its sorted segments, as many as one merge may hold; and whether others are left.
pub(super) fn fitting(files: &TableBase, def: &TableDef, options: &PipelineOptions) -> Result<(TableBase, bool)> {
    let mut sorted: Vec<Arc<Segment>> = files.sorted.clone();
    sorted.sort_by_key(|segment| (segment.meta().min_version, segment.meta().id));
    let bytes = sorted.iter().map(|segment| segment.row_bytes(def)).collect::<Result<Vec<RowBytes>>>()?;
    let taken = taken_of(&bytes, options.merge_bytes);
    let is_some_left = taken < sorted.len();
    sorted.truncate(taken);
    Ok((TableBase { sorted, ..files.clone() }, is_some_left))
}

/// How many of these segments are taken.
fn taken_of(bytes: &[RowBytes], bytes_max: usize) -> usize {
    let mut held = 0;
    let fits = bytes.iter().take_while(|bytes| {
        held += bytes.of_pages() + bytes.row * CHUNK_ROWS_MIN;
        held <= bytes_max
    });
    fits.count().max(2).min(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(merge_bytes: usize) -> PipelineOptions {
        PipelineOptions { merge_bytes, ..PipelineOptions::default() }
    }

    #[test]
    fn narrow_rows_are_gathered_as_the_options_say() {
        let chunks = chunks_within(100, 8 * 100 * BLOCK_ROWS, 8, true, &options(1 << 30));
        assert_eq!(chunks, Chunks { rows: 64 << 10, is_banded: true });
        let chunks = chunks_within(100, 0, 8, false, &options(1 << 30));
        assert_eq!(chunks, Chunks { rows: 64 << 10, is_banded: false });
    }

    #[test]
    fn chunks_hold_what_they_may() {
        for row in [50, 1_000, 10_000, 100_000, 1_000_000] {
            for runs in [1, 2, 8, 100] {
                for can_be_banded in [false, true] {
                    let chunks = chunks_within(row, 0, runs, can_be_banded, &options(32 << 20));
                    let held = chunks.rows * row * (runs + 3);
                    assert!(held <= 32 << 20 || chunks.rows == CHUNK_ROWS_MIN, "{row} {runs}: {chunks:?}");
                    assert!(!chunks.is_banded || chunks.rows.is_multiple_of(BLOCK_ROWS), "{chunks:?}");
                }
            }
        }
    }

    #[test]
    fn at_least_two_segments_are_taken_and_not_more_than_fit() {
        let bytes = |row| RowBytes { row, page_rows: 1_024 };
        assert_eq!(taken_of(&[bytes(10_000); 9], 32 << 20), 3);
        assert_eq!(taken_of(&[bytes(10_000_000); 9], 32 << 20), 2);
        assert_eq!(taken_of(&[bytes(10_000_000)], 32 << 20), 1);
        assert_eq!(taken_of(&[bytes(100); 900], 1 << 30), 900);
    }
}
