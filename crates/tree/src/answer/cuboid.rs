//! Cuboids: totals of every combination of codes at some levels, one array access each.
//!
//! Invariants:
//! - A cell holds the totals of exactly the rows whose codes it stands for, of all rows that were added; rows are only ever added,
//!   each once, so a cuboid through a version becomes one through a later version by adding what came between.
//! - A cuboid answers a question only if each level that the question names lies in one of its dimensions, at the cuboid's level or
//!   coarser, and every measure is in it.
//!
//! In eight dimensions few nodes of the tree are covered, and a question that cuts most blocks reads most rows. A dense array
//! of the question's own levels has some thousands of cells instead of millions of rows.

use super::groups::{GroupKeys, GroupSpan};
use super::question::BoxQuery;
use super::rows::add_rows;
use super::segments::{Answer, SegmentRows, answer};
use super::totals::WantedMeasure;
use crate::segment::Segment;
use alluvia_space::LevelCodes;
use alluvia_types::Result;
use arrow::array::ArrayRef;
use std::ops::Range;
use std::sync::Arc;

/// Totals by the codes of some levels.
#[derive(Debug)]
pub struct Cuboid {
    /// Its levels as groups, its measures, and no filters.
    query: BoxQuery,
    cells: Answer,
    /// For each level whether a row has NULL there.
    has_nulls: Vec<bool>,
}

/// The code that a code of a finer level has at a coarser level of its dimension: (finer level, coarser level, code). `None` where
/// that cannot be said: a NULL child may be under any parent.
pub type Ancestor<'a> = dyn Fn(usize, usize, u32) -> Option<u32> + 'a;

impl Cuboid {
    /// A cuboid of no rows over codes of these levels, at most one of each dimension; `None` if it had more than `cells_max` cells.
    pub fn new(spans: Vec<GroupSpan>, measures: Vec<WantedMeasure>, cells_max: u64) -> Option<Cuboid> {
        let query = BoxQuery { filters: Vec::new(), groups: spans.iter().map(|span| span.level).collect(), measures };
        let keys = GroupKeys::dense(spans, cells_max)?;
        let has_nulls = vec![false; query.groups.len()];
        Some(Cuboid { cells: Answer::new(&query, keys), query, has_nulls })
    }

    /// Its levels.
    pub fn levels(&self) -> &[usize] {
        &self.query.groups
    }

    /// Its measures.
    pub fn measures(&self) -> &[WantedMeasure] {
        &self.query.measures
    }

    /// How many cells.
    pub fn cells(&self) -> usize {
        self.cells.totals.groups()
    }

    /// Bytes in memory, about.
    pub fn bytes(&self) -> u64 {
        self.cells.totals.bytes()
    }

    /// Adds rows of segments. `false`, with the cuboid in no state to be used, if a segment cannot be added.
    pub fn add_segments(&mut self, segments: &[SegmentRows], threads: usize) -> Result<bool> {
        for SegmentRows { segment, .. } in segments {
            if !self.holds(segment)? {
                return Ok(false);
            }
            let index = segment.index()?;
            for (has_nulls, span) in self.has_nulls.iter_mut().zip(self.cells.keys.spans()) {
                let mut blocks = (0..segment.blocks()).map(|block| index.table.levels[span.level].code_bounds(block));
                *has_nulls |= blocks.any(|codes| codes.has_null || codes.min == 0);
            }
        }
        Ok(answer(&self.query, segments, threads, &mut self.cells)? && !self.cells.totals.is_spoilt())
    }

    /// Whether every code of a segment has a place.
    fn holds(&self, segment: &Arc<Segment>) -> Result<bool> {
        let index = segment.index()?;
        Ok(self.cells.keys.spans().iter().all(|span| {
            let bounds = &index.table.levels[span.level];
            (0..segment.blocks()).all(|block| {
                let codes = bounds.code_bounds(block);
                span.digit(codes.min).is_some() && span.digit(codes.max).is_some()
            })
        }))
    }

    /// Adds rows that are in no segment, as [`add_rows`]. `false`, with nothing added, if a code has no place.
    pub fn add_rows(&mut self, codes: &LevelCodes, measures: &[Option<ArrayRef>], rows: Range<usize>) -> Result<bool> {
        let fits =
            |span: &GroupSpan| codes.levels[span.level][rows.clone()].iter().all(|&code| span.digit(code).is_some());
        if !self.cells.keys.spans().iter().all(fits) {
            return Ok(false);
        }
        for (has_nulls, span) in self.has_nulls.iter_mut().zip(self.cells.keys.spans()) {
            *has_nulls |= codes.levels[span.level][rows.clone()].contains(&0);
        }
        add_rows(&self.query, codes, measures, rows, &mut self.cells)?;
        Ok(!self.cells.totals.is_spoilt())
    }

    /// The codes that groups of a level can have, from those that this cuboid has at that level or a finer one of its dimension;
    /// `None` if it has none.
    pub fn span_of(
        &self,
        level: usize,
        dimension_of: &dyn Fn(usize) -> usize,
        ancestor: &Ancestor<'_>,
    ) -> Option<GroupSpan> {
        let mut spans = self.cells.keys.spans().iter();
        let span = spans.find(|span| dimension_of(span.level) == dimension_of(level) && span.level >= level)?;
        if span.level == level {
            return Some(*span);
        }
        let codes = (1..span.digits()).filter_map(|digit| ancestor(span.level, level, code_of(span, digit)));
        let bounds = codes.filter(|&code| code > 0).fold(None, |bounds: Option<(u32, u32)>, code| {
            let (min, max) = bounds.unwrap_or((code, code));
            Some((min.min(code), max.max(code)))
        });
        Some(match bounds {
            None => GroupSpan { level, first: 1, count: 0 },
            Some((min, max)) => GroupSpan { level, first: min, count: max - min + 1 },
        })
    }

    /// Answers a question into `into`, which is of that question; `None` if this cuboid cannot. `dimension_of` says which dimension
    /// a level is of.
    pub fn answer(
        &self,
        query: &BoxQuery,
        dimension_of: &dyn Fn(usize) -> usize,
        ancestor: &Ancestor<'_>,
        into: &mut Answer,
    ) -> Option<()> {
        let measures: Vec<usize> = query
            .measures
            .iter()
            .map(|wanted| {
                self.query
                    .measures
                    .iter()
                    .position(|own| own.column == wanted.column && own.wanted.contains(wanted.wanted))
            })
            .collect::<Option<_>>()?;
        let spans = self.cells.keys.spans();
        let axis_of = |level: usize| {
            let axis = spans.iter().position(|span| dimension_of(span.level) == dimension_of(level))?;
            (level <= spans[axis].level).then_some(axis)
        };
        // The digits of each axis that the filters leave.
        let mut digits: Vec<Option<Vec<u64>>> = vec![None; spans.len()];
        for filter in &query.filters {
            let axis = axis_of(filter.level)?;
            let span = spans[axis];
            let passes = |digit: u64| -> Option<bool> {
                let code = code_of(&span, digit);
                let code = match filter.level == span.level {
                    true => Some(code),
                    false => ancestor(span.level, filter.level, code),
                };
                match code {
                    Some(code) => Some(filter.codes.contains(code)),
                    None => (digit == 0 && !self.has_nulls[axis]).then_some(false),
                }
            };
            let left = digits[axis].take();
            let mut kept = Vec::new();
            match left {
                Some(left) => {
                    for digit in left {
                        if passes(digit)? {
                            kept.push(digit);
                        }
                    }
                }
                None if filter.level == span.level => {
                    kept.extend(filter.codes.holds_null().then_some(0));
                    let last = span.first.saturating_add(span.count.saturating_sub(1));
                    for &(low, high) in filter.codes.runs() {
                        let (low, high) = (low.max(span.first), high.min(last));
                        if span.count > 0 && low <= high {
                            kept.extend((low..=high).map(|code| u64::from(code - span.first) + 1));
                        }
                    }
                }
                None => {
                    for digit in 0..span.digits() {
                        if passes(digit)? {
                            kept.push(digit);
                        }
                    }
                }
            }
            digits[axis] = Some(kept);
        }
        let mut axes = Vec::with_capacity(spans.len());
        for (axis, span) in spans.iter().enumerate() {
            let digits = digits[axis].take().unwrap_or_else(|| (0..span.digits()).collect());
            // What each digit adds to the index of the answer's group; a digit without rows may have no place there.
            let mut adds: Option<Vec<Option<u64>>> = None;
            for (at, &level) in query.groups.iter().enumerate() {
                if axis_of(level)? != axis {
                    continue;
                }
                let (out, stride) = (into.keys.spans()[at], into.keys.strides()[at]);
                let adds = adds.get_or_insert_with(|| vec![Some(0); digits.len()]);
                for (add, &digit) in adds.iter_mut().zip(&digits) {
                    let code = code_of(span, digit);
                    let code = if level == span.level { Some(code) } else { ancestor(span.level, level, code) };
                    if code.is_none() && (digit != 0 || self.has_nulls[axis]) {
                        return None;
                    }
                    let digit = code.and_then(|code| out.digit(code));
                    *add = add.zip(digit).map(|(add, digit)| add + digit * stride);
                }
            }
            let stride = self.cells.keys.strides()[axis];
            let offsets = digits.iter().map(|digit| (digit * stride) as usize).collect();
            axes.push(Axis { offsets, adds });
        }
        self.visit(&axes, 0, Some(0), &measures, into);
        Some(())
    }

    fn visit(&self, axes: &[Axis], cell: usize, index: Option<u64>, measures: &[usize], into: &mut Answer) {
        match axes {
            [] => self.add_cells(cell, &[0], index, measures, into),
            [Axis { offsets, adds: None }] => self.add_cells(cell, offsets, index, measures, into),
            [axis, rest @ ..] => {
                for (at, offset) in axis.offsets.iter().enumerate() {
                    let add = axis.adds.as_ref().map_or(Some(0), |adds| adds[at]);
                    let index = index.zip(add).map(|(index, add)| index + add);
                    self.visit(rest, cell + offset, index, measures, into);
                }
            }
        }
    }

    /// Adds cells to one group, if they have rows at all.
    fn add_cells(&self, cell: usize, offsets: &[usize], index: Option<u64>, measures: &[usize], into: &mut Answer) {
        let totals = &self.cells.totals;
        let Some(index) = index.filter(|_| offsets.iter().any(|offset| totals.rows(cell + offset) > 0)) else {
            return;
        };
        let group = into.group(index);
        into.totals.add_cells(group, totals, cell, offsets, measures);
    }
}

/// One dimension of the walk.
struct Axis {
    offsets: Vec<usize>,
    adds: Option<Vec<Option<u64>>>,
}

fn code_of(span: &GroupSpan, digit: u64) -> u32 {
    match digit {
        0 => 0,
        digit => span.first + (digit - 1) as u32,
    }
}
