//! Values of rows that lie in segments.

use super::{ColumnValues, RowAt};
use crate::layout::BLOCK_ROWS;
use crate::segment::Segment;
use alluvia_space::TableDef;
use alluvia_types::{Error, Result, planted};
use arrow::array::{Array, ArrayRef};
use arrow::compute::interleave;
use arrow::datatypes::DataType;
use std::ops::Range;
use std::sync::Arc;

/// Values that nobody asked for are read up to so many bytes, where they lie between two that somebody did: skipping costs something, too.
const GAP_BYTES_MAX: usize = 512;

/// Segments, each an input; a row is its number in the file.
#[derive(Debug)]
pub struct SegmentValues {
    segments: Vec<Arc<Segment>>,
    /// By storage name.
    columns: Vec<(String, DataType)>,
    widths: Vec<usize>,
}

impl SegmentValues {
    /// Over segments, under a definition: columns that one lacks are NULL.
    ///
    /// # Errors
    /// Those of reading their footers.
    pub fn new(segments: Vec<Arc<Segment>>, table: &TableDef) -> Result<SegmentValues> {
        let column = |column: &alluvia_space::Column| (column.storage_name.clone(), column.data_type.to_arrow());
        let columns = table.columns.iter().map(column).collect();
        let mut widths = vec![0; table.columns.len()];
        for segment in &segments {
            for (width, of_segment) in widths.iter_mut().zip(segment.column_widths(table)?) {
                *width = of_segment.max(*width);
            }
        }
        Ok(SegmentValues { segments, columns, widths })
    }

    /// The rows of each input as ranges to read, which ascend, and where in what is read of it each begins.
    fn ranges(&self, rows: &[RowAt], gap: u64) -> Vec<Ranges> {
        let mut wanted: Vec<Vec<u32>> = vec![Vec::new(); self.segments.len()];
        rows.iter().for_each(|at| wanted[at.input as usize].push(at.row));
        let ranges = wanted.into_iter().map(|mut rows| {
            rows.sort_unstable();
            let mut ranges: Vec<Range<u64>> = Vec::new();
            for row in rows.into_iter().map(u64::from) {
                match ranges.last_mut() {
                    Some(last) if row <= last.end + gap => last.end = last.end.max(row + 1),
                    _ => ranges.push(row..row + 1),
                }
            }
            let mut read = 0;
            let starts = ranges.iter().map(|range| {
                read += range.end - range.start;
                read - (range.end - range.start)
            });
            Ranges { starts: starts.collect(), ranges }
        });
        ranges.collect()
    }
}

/// What is read of one input.
struct Ranges {
    ranges: Vec<Range<u64>>,
    starts: Vec<u64>,
}

impl Ranges {
    /// The place of a row among those that are read.
    fn place(&self, row: u64) -> usize {
        let at = self.ranges.partition_point(|range| range.end <= row);
        (self.starts[at] + (row - self.ranges[at].start)) as usize
    }
}

impl ColumnValues for SegmentValues {
    fn widths(&self) -> &[usize] {
        &self.widths
    }

    fn values(&self, places: &[usize], rows: &[RowAt]) -> Result<Vec<ArrayRef>> {
        let columns: Vec<(&str, DataType)> =
            places.iter().map(|&at| (self.columns[at].0.as_str(), self.columns[at].1.clone())).collect();
        let widest = places.iter().map(|&at| self.widths[at]).max().unwrap_or(0).max(1);
        let ranges = self.ranges(rows, (GAP_BYTES_MAX / widest) as u64);
        let mut parts: Vec<Vec<ArrayRef>> = vec![Vec::new(); places.len()];
        // Of each input the first of its batches among all.
        let mut first = Vec::with_capacity(ranges.len());
        let mut batches = 0;
        for (segment, wanted) in self.segments.iter().zip(&ranges) {
            first.push(batches);
            if wanted.ranges.is_empty() {
                continue;
            }
            for batch in segment.column_batches_of(&columns, &wanted.ranges)? {
                let batch = batch?;
                parts.iter_mut().zip(batch.columns()).for_each(|(parts, column)| parts.push(Arc::clone(column)));
                batches += 1;
            }
        }
        let place = |at: &RowAt| {
            let place = ranges[at.input as usize].place(at.row.into());
            let place = if planted("values of another row") { place.saturating_sub(1) } else { place };
            (first[at.input as usize] + place / BLOCK_ROWS, place % BLOCK_ROWS)
        };
        let rows: Vec<(usize, usize)> = rows.iter().map(place).collect();
        let column = |parts: Vec<ArrayRef>| {
            let parts: Vec<&dyn Array> = parts.iter().map(|part| part.as_ref()).collect();
            interleave(&parts, &rows).map_err(|error| Error::internal(format!("values of wide rows: {error}")))
        };
        parts.into_iter().map(column).collect()
    }
}
