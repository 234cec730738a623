//! Rows at the edges of ranges of times: those of the calendar's units that a range begins or ends within.
//!
//! Invariants:
//! - A range of times has a level of its column's calendar, of which a filter of the box holds the units that have any
//!   time of the range. Codes tell all rows of the box but those of *edges*: of these units only rows count whose own
//!   values lie in the range. NULL is no edge, so a row whose value is asked for has one.
//! - A row is looked at once, be it of an edge or not: a box with its edges is walked, and its blocks are read, as any
//!   other box is. A range has a bit as filters have; it is open where a node may have rows of edges and, of a block,
//!   not all values lie in the range.
//! - Values are read of the blocks alone of which rows of edges have passed all filters, but for those whose least and
//!   greatest values tell.
//!
//! Estimates know of codes alone: for them a box is cut in two, what codes tell and its edges
//! ([`BoxQuery::without_edges`]).

use super::question::{BoxQuery, LevelFilter};
use crate::filter::Mask;
use crate::nodes::{CodeSet, NodeTree, Overlap};
use crate::segment::BlockIndex;
use alluvia_types::ColumnId;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Date32Type, TimestampMicrosecondType};
use std::ops::Range;

/// Rows at edges must have a value of one of these ranges.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimeRange {
    /// A column of type DATE or TIMESTAMP, with or without zone.
    pub column: ColumnId,
    /// Its name in files and in the tail.
    pub storage_name: String,
    /// Its type.
    pub data_type: DataType,
    /// A level of its calendar.
    pub level: usize,
    /// The units of which only some times are in the ranges, without NULL.
    pub edges: CodeSet,
    /// Days, or microseconds, since 1970: ranges that ascend and have nothing in common. Beyond the greatest value
    /// there is an end, too. All times of the other units that the box has are in them.
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

    /// Bytes in memory of its sets.
    pub fn bytes(&self) -> usize {
        self.edges.bytes() + size_of_val(&*self.values)
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

    /// Whether all rows of a node lie in the ranges that pass the filters: none is of an edge or, of a block, all
    /// values lie in a range.
    pub(super) fn covers(&self, nodes: &NodeTree, index: &BlockIndex, (height, node): (usize, usize)) -> bool {
        nodes.overlap(height, node, self.level, &self.edges) == Overlap::Disjoint
            || height == 0 && self.overlap(index, node) == Overlap::Covered
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

impl BoxQuery {
    /// The box without its edges, whose rows codes alone tell, and the edges: boxes that share no row with it or with
    /// one another.
    pub fn without_edges(&self) -> (BoxQuery, Vec<BoxQuery>) {
        let mut edges = Vec::with_capacity(self.times.len());
        let mut whole = self.clone();
        for range in &self.times {
            // At an edge of this column, at none of those before, and anywhere in those behind.
            edges.push(whole.clone().with(range.level, &range.edges));
            whole = whole.with(range.level, &range.edges.complement(u32::MAX));
            whole.times.remove(0);
        }
        (whole, edges)
    }

    fn with(mut self, level: usize, codes: &CodeSet) -> BoxQuery {
        match self.filters.iter_mut().find(|filter| filter.level == level) {
            Some(filter) => filter.codes = filter.codes.intersect(codes),
            None => self.filters.push(LevelFilter { level, codes: codes.clone() }),
        }
        self
    }
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
                level: 0,
                edges: CodeSet::of_codes(Vec::new()),
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

    proptest! {
        /// Of two columns, each with a level: a row of the box is of what codes tell or of one edge, and no other row
        /// is of any.
        #[test]
        fn a_row_is_of_the_box_without_its_edges_or_of_one_of_them(
            units in prop::collection::vec((prop::collection::btree_set(0u32..9, 0..9), prop::collection::btree_set(1u32..9, 0..4)), 2),
        ) {
            let set = |codes: &std::collections::BTreeSet<u32>| CodeSet::of_codes(codes.iter().copied().collect());
            let mut query = BoxQuery::default();
            for (level, (codes, edges)) in units.iter().enumerate() {
                query.filters.push(LevelFilter { level, codes: set(codes) });
                query.times.push(TimeRange {
                    column: ColumnId(level as u32 + 1),
                    storage_name: "t".to_owned(),
                    data_type: DataType::Date32,
                    level,
                    edges: set(edges),
                    values: Vec::new(),
                });
            }
            let (whole, edges) = query.without_edges();
            prop_assert!(whole.times.is_empty() && edges.iter().all(|edge| !edge.times.is_empty()));
            for row in (0..81).map(|n| [n % 9, n / 9]) {
                let has = |of: &BoxQuery| of.filters.iter().all(|filter| filter.codes.contains(row[filter.level]));
                // The columns whose values are asked for.
                let asked = |of: &BoxQuery| -> Vec<usize> {
                    let at_edge = of.times.iter().filter(|range| range.edges.contains(row[range.level]));
                    at_edge.map(|range| range.level).collect()
                };
                let parts: Vec<&BoxQuery> = std::iter::once(&whole).chain(&edges).filter(|part| has(part)).collect();
                prop_assert_eq!(parts.len(), usize::from(has(&query)));
                prop_assert!(parts.iter().all(|part| asked(part) == asked(&query)));
            }
        }
    }
}
