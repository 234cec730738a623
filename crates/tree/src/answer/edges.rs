//! Rows at the edges of ranges of times: those of the calendar's units that a range begins or ends within.
//!
//! Invariants:
//! - A row of an edge counts if its codes pass the box's filters and its own values lie in one of the ranges of each ranged column. The
//!   filters hold no NULL of such a column's calendar, so a row that comes to be tested has a value.
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

/// Rows must have a value of one of these ranges.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimeRange {
    /// A column of type DATE or TIMESTAMP, with or without zone.
    pub column: ColumnId,
    /// Its name in files and in the tail.
    pub storage_name: String,
    /// Its type.
    pub data_type: DataType,
    /// Days, or microseconds, since 1970: ranges that ascend and have nothing in common. Beyond the greatest value there is an end, too.
    pub values: Vec<Range<i128>>,
}

impl TimeRange {
    /// The first range that has not ended before a value.
    fn through(&self, value: i64) -> Option<&Range<i128>> {
        self.values.get(self.values.partition_point(|range| range.end <= i128::from(value)))
    }

    /// Whether a value is in one of the ranges.
    pub fn contains(&self, value: i64) -> bool {
        self.through(value).is_some_and(|range| range.start <= i128::from(value))
    }

    /// Keeps the rows whose values lie in a range; row 0 of the mask is row `first`.
    pub(super) fn narrow(&self, values: &ArrayRef, first: usize, mask: &mut Mask) {
        if let Some(days) = values.as_primitive_opt::<Date32Type>() {
            mask.retain(|row| self.contains(days.value(first + row).into()));
        } else if let Some(micros) = values.as_primitive_opt::<TimestampMicrosecondType>() {
            mask.retain(|row| self.contains(micros.value(first + row)));
        } else {
            mask.clear();
        }
    }

    /// How a block's values lie to the ranges, by the least and the greatest of them.
    pub(super) fn overlap(&self, index: &BlockIndex, block: usize) -> Overlap {
        let Some((_, summary)) = index.table.columns.iter().find(|(id, _)| *id == self.column) else {
            return Overlap::Cut;
        };
        match (value_at(&summary.mins, block), value_at(&summary.maxs, block)) {
            (Some(min), Some(max)) => self.overlap_of(min, max),
            _ => Overlap::Cut,
        }
    }

    fn overlap_of(&self, min: i64, max: i64) -> Overlap {
        match self.through(min) {
            Some(range) if range.start <= i128::from(min) && range.end > i128::from(max) => Overlap::Covered,
            Some(range) if range.start <= i128::from(max) => Overlap::Cut,
            _ => Overlap::Disjoint,
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_the_values_in_them(
            mut ends in prop::collection::btree_set(0i64..60, 0..12),
            value in -5i64..65,
            more in 0i64..30,
        ) {
            if ends.len() % 2 == 1 {
                ends.pop_last();
            }
            let ends: Vec<i64> = ends.into_iter().collect();
            let values: Vec<Range<i128>> = ends.chunks(2).map(|pair| i128::from(pair[0])..i128::from(pair[1])).collect();
            let holds = |value: i64| values.iter().any(|range| range.contains(&i128::from(value)));
            let range = TimeRange {
                column: ColumnId(1),
                storage_name: "t".to_owned(),
                data_type: DataType::Date32,
                values: values.clone(),
            };
            prop_assert_eq!(range.contains(value), holds(value));
            let max = value + more;
            let expected = match (value..=max).filter(|&value| holds(value)).count() as i64 {
                0 => Overlap::Disjoint,
                count if count == more + 1 => Overlap::Covered,
                _ => Overlap::Cut,
            };
            prop_assert_eq!(range.overlap_of(value, max), expected);
        }
    }
}
