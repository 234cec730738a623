//! What a merge may hold: of how many segments, and how many of their rows at a time.
//!
//! Invariants:
//! - A merge takes its sorted segments oldest first, and at least two of them, or all. So rows of equal keys keep their order, and merging
//!   again and again comes to an end.
//! - Chunks are whole blocks. Where a block of each input does not fit in memory, or a block of the output, the rows are wide: chunks have
//!   what decides their order alone, and values are read column by column.
//! - Where all fits, which is so for most tables, nothing of this is seen: all are taken, in chunks of as many rows as the options say.

use super::plan::Run;
use crate::options::PipelineOptions;
use crate::wide::narrow;
use alluvia_snapshot::TableBase;
use alluvia_space::TableDef;
use alluvia_tree::{BLOCK_ROWS, RowBytes, Segment, SegmentValues, TreeContext};
use alluvia_types::Result;
use std::borrow::Cow;
use std::sync::Arc;

/// How the rows of a merge are gathered.
#[derive(Debug)]
pub(super) struct Shape<'a> {
    /// The definition with the columns that chunks have.
    pub(super) def: Cow<'a, TableDef>,
    /// Rows of a chunk at most: whole blocks.
    pub(super) chunk_rows: usize,
    /// Where the values of wide rows are.
    pub(super) values: Option<SegmentValues>,
}

/// How a merge of these runs gathers its rows.
pub(super) fn shape_of<'a>(
    tree: &TreeContext,
    runs: &[&Run],
    def: &'a TableDef,
    options: &PipelineOptions,
) -> Result<Shape<'a>> {
    let bytes = runs.iter().map(|run| run.segment.row_bytes(def)).collect::<Result<Vec<_>>>()?;
    let rows = runs.iter().map(|run| run.rows.end - run.rows.start).sum();
    let segments = || runs.iter().map(|run| Arc::clone(&run.segment)).collect();
    let widest = bytes.iter().map(|bytes| bytes.row).max().unwrap_or(0);
    let is_wide = tree.is_wide(rows, widest, def.columns.len());
    if let Some(chunk_rows) = chunk_rows_of(&bytes, rows, options).filter(|_| !is_wide) {
        return Ok(Shape { def: Cow::Borrowed(def), chunk_rows, values: None });
    }
    let values = SegmentValues::new(segments(), def)?;
    let def = narrow(def);
    let bytes = runs.iter().map(|run| run.segment.row_bytes(&def)).collect::<Result<Vec<_>>>()?;
    let chunk_rows = chunk_rows_of(&bytes, rows, options).unwrap_or(BLOCK_ROWS);
    Ok(Shape { def: Cow::Owned(def), chunk_rows, values: Some(values) })
}

/// Rows of chunks of so many rows in all; `None` where not even a block of each fits.
fn chunk_rows_of(bytes: &[RowBytes], rows: u64, options: &PipelineOptions) -> Option<usize> {
    let pages: usize = bytes.iter().map(|bytes| bytes.of_pages()).sum();
    let widest = bytes.iter().map(|bytes| bytes.row).max().unwrap_or(0).max(1);
    // One of each input, and the output's as it is gathered, moved and written.
    let held = widest * (bytes.len() + 3);
    let least = (rows as usize).min(BLOCK_ROWS);
    if options.merge_bytes / held < least {
        return None;
    }
    let blocks = (options.merge_bytes.saturating_sub(pages) / held).min(options.chunk_rows) / BLOCK_ROWS;
    Some(blocks.max(1) * BLOCK_ROWS)
}

/// The files of a table with the oldest of its sorted segments, as many as one merge may hold; and whether others are left.
pub(super) fn fitting(files: &TableBase, def: &TableDef, options: &PipelineOptions) -> Result<(TableBase, bool)> {
    let mut sorted: Vec<Arc<Segment>> = files.sorted.clone();
    sorted.sort_by_key(|segment| (segment.meta().min_version, segment.meta().id));
    // Whatever the rows, this of each is held.
    let def = narrow(def);
    let bytes = sorted.iter().map(|segment| segment.row_bytes(&def)).collect::<Result<Vec<RowBytes>>>()?;
    let taken = taken_of(&bytes, options.merge_bytes);
    let is_some_left = taken < sorted.len();
    sorted.truncate(taken);
    Ok((TableBase { sorted, ..files.clone() }, is_some_left))
}

/// How many of these segments are taken.
fn taken_of(bytes: &[RowBytes], bytes_max: usize) -> usize {
    let mut held = 0;
    let fits = bytes.iter().take_while(|bytes| {
        held += bytes.of_pages() + bytes.row * BLOCK_ROWS + bytes.footer;
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

    fn bytes(row: usize) -> RowBytes {
        RowBytes { row, page_rows: 1_024, footer: 0 }
    }

    #[test]
    fn narrow_rows_are_gathered_as_the_options_say() {
        assert_eq!(chunk_rows_of(&[bytes(100); 8], 1 << 30, &options(1 << 30)), Some(64 << 10));
    }

    #[test]
    fn chunks_hold_what_they_may() {
        for row in [50, 1_000, 10_000, 100_000, 1_000_000] {
            for runs in [1, 2, 8, 100] {
                for rows in [10, 100_000] {
                    let chunk = chunk_rows_of(&vec![bytes(row); runs], rows, &options(32 << 20));
                    let held = |rows: usize| rows * row * (runs + 3);
                    match chunk {
                        None => assert!(held((rows as usize).min(BLOCK_ROWS)) > 31 << 20, "{row} {runs} {rows}"),
                        Some(chunk) => {
                            assert!(held(chunk.min(rows as usize)) <= 32 << 20, "{row} {runs} {rows}: {chunk}");
                            assert!(chunk.is_multiple_of(BLOCK_ROWS));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn at_least_two_segments_are_taken_and_not_more_than_fit() {
        assert_eq!(taken_of(&[bytes(1_000); 9], 32 << 20), 3);
        assert_eq!(taken_of(&[bytes(10_000_000); 9], 32 << 20), 2);
        assert_eq!(taken_of(&[bytes(10_000_000)], 32 << 20), 1);
        assert_eq!(taken_of(&[bytes(100); 900], 1 << 30), 900);
        assert_eq!(taken_of(&[RowBytes { footer: 3 << 20, ..bytes(100) }; 900], 32 << 20), 8);
    }
}
