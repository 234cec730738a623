//! Rows at the edges of ranges of times: those of the calendar's units that a range begins or ends within.
//!
//! Invariants:
//! - A row of an edge counts if its codes pass the box's filters and its own values lie in all ranges. The filters hold no NULL of a ranged
//!   column's calendar, so a row that comes to be tested has a value.
//! - No node is covered: codes do not tell on which side of an end its rows lie. Blocks are read one by one, but for those whose least and
//!   greatest values tell, and only their rows that pass the filters are held against the ranges.
//!
//! All units between the edges are a box like any other; so what is read value by value is what two units have, whatever the range.

use super::code_set::Overlap;
use super::question::BoxQuery;
use super::segments::{Answer, SegmentRows, can_answer, readings};
use super::walk::walk;
use crate::filter::Mask;
use crate::segment::BlockIndex;
use alluvia_types::{ColumnId, Result};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Date32Type, TimestampMicrosecondType};
use std::ops::Range;
use std::sync::Arc;

/// Filters of a box that is an edge, at most: each has a bit, and one more says that no block is covered.
pub const EDGE_FILTERS_MAX: usize = 63;
const ALWAYS_OPEN: u64 = 1 << EDGE_FILTERS_MAX;

/// Rows must have one of these values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimeRange {
    /// A column of type DATE or TIMESTAMP, with or without zone.
    pub column: ColumnId,
    /// Its name in files and in the tail.
    pub storage_name: String,
    /// Its type.
    pub data_type: DataType,
    /// Days, or microseconds, since 1970.
    pub values: Range<i64>,
}

impl TimeRange {
    /// Keeps the rows whose values lie in the range; row 0 of the mask is row `first`.
    pub(super) fn narrow(&self, values: &ArrayRef, first: usize, mask: &mut Mask) {
        if let Some(days) = values.as_primitive_opt::<Date32Type>() {
            mask.retain(|row| self.values.contains(&days.value(first + row).into()));
        } else if let Some(micros) = values.as_primitive_opt::<TimestampMicrosecondType>() {
            mask.retain(|row| self.values.contains(&micros.value(first + row)));
        } else {
            mask.clear();
        }
    }

    /// How a block's values lie to the range, by the least and the greatest of them.
    pub(super) fn overlap(&self, index: &BlockIndex, block: usize) -> Overlap {
        let Some((_, summary)) = index.table.columns.iter().find(|(id, _)| *id == self.column) else {
            return Overlap::Cut;
        };
        match (value_at(&summary.mins, block), value_at(&summary.maxs, block)) {
            (Some(min), Some(max)) if min >= self.values.end || max < self.values.start => Overlap::Disjoint,
            (Some(min), Some(max)) if self.values.contains(&min) && self.values.contains(&max) => Overlap::Covered,
            _ => Overlap::Cut,
        }
    }
}

fn value_at(array: &ArrayRef, row: usize) -> Option<i64> {
    if array.is_null(row) {
        return None;
    }
    let days = array.as_primitive_opt::<Date32Type>().map(|days| days.value(row).into());
    days.or_else(|| array.as_primitive_opt::<TimestampMicrosecondType>().map(|micros| micros.value(row)))
}

/// Adds the rows of segments that lie in a box and in ranges, as [`super::answer`] does those of a box alone.
pub fn answer_edge(
    query: &BoxQuery,
    ranges: &Arc<[TimeRange]>,
    segments: &[SegmentRows],
    threads: usize,
    into: &mut Answer,
) -> Result<bool> {
    assert!(query.filters.len() <= EDGE_FILTERS_MAX, "a bit for each filter, and one more");
    for rows in segments {
        if !can_answer(query, &rows.segment)? {
            return Ok(false);
        }
    }
    let mut cut = Vec::new();
    for (at, rows) in segments.iter().enumerate() {
        // A column that a segment lacks is NULL in all its rows.
        if ranges.iter().all(|range| rows.segment.meta().columns.contains(&range.column)) {
            walk(query, ALWAYS_OPEN, at, rows, into, &mut cut)?;
        }
    }
    let Some(first) = cut.first() else { return Ok(true) };
    let mut readings = readings(query, segments, &cut)?;
    readings.iter_mut().flatten().for_each(|reading| reading.times = Arc::clone(ranges));
    segments[first.segment].segment.passes().read(query, readings, &cut, threads, into)?;
    Ok(true)
}
