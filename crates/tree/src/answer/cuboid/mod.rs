//! Cuboids: totals of every combination of codes at some levels, one array access each.
//!
//! Invariants:
//! - A cell holds the totals of exactly the rows whose codes it stands for, of all rows that were added and not taken
//!   off; each is added once and taken off once at most. So a cuboid through a version becomes one through a later
//!   version by taking off what was killed between, and adding what came.
//! - What can be taken off: counts, sums and sums of squares of exact values, sums of floats as long as all of a measure are
//!   decimal numbers. Other sums of floats, and sums of their squares, are *lost* with the first value that is taken off. A
//!   least or greatest value that is taken off leaves its bound *open*. Who asks for what is lost, or for a bound that no
//!   other cell tells, gets no answer.
//! - A cuboid answers a question only if each level that the question names lies in one of its dimensions, at a level
//!   of the cuboid's or coarser, and every measure is in it. A level that it has itself needs no ancestors: of several
//!   levels of one dimension each is an axis, so that rows that are NULL at the finer one are told apart by the coarser
//!   one.
//!
//! In eight dimensions few nodes of the tree are covered, and a question that cuts most blocks reads most rows. A dense
//! array of the question's own levels has some thousands of cells instead of millions of rows; with totals of its
//! longest axes beside the cells (the data cube of Gray et al., 1996, for those axes), an answer reads at most half of
//! each axis: what is wanted, or the total less what is not. [`cells`] holds what can be subtracted, [`loose`] the
//! rest, [`select`] chooses places, [`visit`] adds them up.

mod cells;
mod loose;
mod part;
mod select;
mod visit;

use super::blocks::GROUPS_MAX;
use super::groups::{GroupKeys, GroupSpan};
use super::question::{BoxQuery, LevelFilter};
use super::segments::{Answer, answer_apart, answer_killed};
use super::totals::WantedMeasure;
use crate::nodes::CodeSet;
use crate::segment::Segment;
use crate::visible::{KilledRows, SegmentRows};
use alluvia_space::LevelCodes;
use alluvia_types::Result;
use arrow::array::ArrayRef;
use cells::{Cells, axes_of};
use loose::Loose;
use part::Part;
use select::{By, Chosen};
use std::ops::Range;
use std::sync::Arc;

/// Cells that are filled at a time: totals of rows take several times the memory of cells.
const SLAB_CELLS_MAX: u64 = 4 << 20;

/// Rows that are added column by column.
const ROWS_AT_ONCE: usize = 1_024;

/// Totals by the codes of some levels.
#[derive(Debug)]
pub struct Cuboid {
    /// Its levels as groups, its measures, and no filters.
    query: BoxQuery,
    spans: Vec<GroupSpan>,
    cells: Cells,
    loose: Loose,
    /// For each level whether a row may have NULL there.
    has_nulls: Vec<bool>,
    has_rows: bool,
}

/// The cells of a cuboid that answer one question. Which they are depends on codes alone, so rows that are added later
/// do not change it as long as [`Cuboid::is_current`] says so.
#[derive(Debug)]
pub struct Selection {
    totals: Vec<Chosen>,
    /// The same cell by cell, where something of them cannot be subtracted.
    cells: Option<Vec<Chosen>>,
    /// For each measure of the question its place in the cuboid.
    measures: Vec<usize>,
    /// Of the cuboid's levels when it was made.
    has_nulls: Vec<bool>,
}

impl Selection {
    /// Bytes in memory, about.
    pub fn bytes(&self) -> u64 {
        let of = |chosen: &Chosen| {
            let adds = chosen.adds.as_ref().map_or(0, |adds| size_of_val(adds.as_slice()));
            size_of_val(chosen.plus.as_slice()) + size_of_val(chosen.minus.as_slice()) + adds
        };
        self.totals.iter().chain(self.cells.iter().flatten()).map(of).sum::<usize>() as u64
    }
}

/// The code that a code of a finer level has at a coarser level of its dimension: (finer level, coarser level, code).
/// `None` where that cannot be said: a NULL child may be under any parent.
pub type Ancestor<'a> = dyn Fn(usize, usize, u32) -> Option<u32> + 'a;

impl Cuboid {
    /// A cuboid of no rows over codes of these levels, those of one dimension from coarse to fine; `None` if it had
    /// more than `cells_max` cells.
    pub fn new(spans: Vec<GroupSpan>, measures: Vec<WantedMeasure>, cells_max: u64) -> Option<Cuboid> {
        let (axes, places) = axes_of(&spans)?;
        let query = BoxQuery { groups: spans.iter().map(|span| span.level).collect(), measures, ..BoxQuery::default() };
        if count(&spans).is_none_or(|cells| cells > cells_max) {
            return None;
        }
        let has_nulls = vec![false; spans.len()];
        let cells = Cells::new(axes, places, &query.measures);
        let loose = Loose::new(&query.measures, places);
        Some(Cuboid { query, spans, cells, loose, has_nulls, has_rows: false })
    }

    /// How many cells a cuboid would have, and about how many bytes; `u64::MAX` for more than can be counted.
    pub fn size(spans: &[GroupSpan], measures: &[WantedMeasure]) -> (u64, u64) {
        let each = Cells::cell_bytes(measures) + Loose::cell_bytes(measures);
        let bytes = axes_of(spans).and_then(|(_, places)| (places as u64).checked_mul(each));
        (count(spans).unwrap_or(u64::MAX), bytes.unwrap_or(u64::MAX))
    }

    /// Its levels.
    pub fn levels(&self) -> &[usize] {
        &self.query.groups
    }

    /// Its measures.
    pub fn measures(&self) -> &[WantedMeasure] {
        &self.query.measures
    }

    /// How many cells, without the totals of axes.
    pub fn cells(&self) -> u64 {
        count(&self.spans).unwrap_or(u64::MAX)
    }

    /// Bytes in memory, about.
    pub fn bytes(&self) -> u64 {
        self.cells.bytes() + self.loose.bytes()
    }

    /// Whether a question asks for sums that are lost, since rows were taken off.
    pub fn has_lost(&self, query: &BoxQuery) -> bool {
        let wanted = query.measures.iter().map(|of| of.wanted);
        self.measures_of(query).is_some_and(|measures| self.loose.has_lost(&measures, wanted))
    }

    /// Adds those rows of segments that count. `false`, with the cuboid in no state to be used, if a segment cannot be
    /// added.
    pub fn add_segments(&mut self, segments: &[SegmentRows], threads: usize) -> Result<bool> {
        let mut rows = 0;
        for SegmentRows { segment, .. } in segments {
            if !self.holds(segment)? {
                return Ok(false);
            }
            rows += segment.meta().rows;
            let index = segment.index()?;
            for (has_nulls, span) in self.has_nulls.iter_mut().zip(&self.spans) {
                let mut blocks = (0..segment.blocks()).map(|block| index.table.levels[span.level].code_bounds(block));
                *has_nulls |= blocks.any(|codes| codes.has_null || codes.min == 0);
            }
        }
        if rows == 0 {
            return Ok(true);
        }
        // A cuboid without rows is filled cell by cell, and its axes are added up once.
        let is_first = !std::mem::replace(&mut self.has_rows, true);
        for slab in self.slabs(if is_first { u64::MAX } else { rows }) {
            let mut into = Answer::new(&slab.query, slab.keys);
            if !answer_apart(&slab.query, segments, threads, &mut into)? || !self.add_answer(&into, !is_first) {
                return Ok(false);
            }
        }
        if is_first {
            self.cells.roll_up();
        }
        Ok(true)
    }

    /// Adds rows that are in no segment: their codes at the cuboid's levels (others may be empty), and the values of
    /// each of its measures, `None` for a column that the rows lack. `false`, with the cuboid in no state to be used,
    /// if a code has no place or totals cannot hold a value.
    pub fn add_rows(&mut self, codes: &LevelCodes, measures: &[Option<ArrayRef>], rows: Range<usize>) -> Result<bool> {
        let fits =
            |span: &GroupSpan| codes.levels[span.level][rows.clone()].iter().all(|&code| span.digit(code).is_some());
        if !self.spans.iter().all(fits) {
            return Ok(false);
        }
        for (has_nulls, span) in self.has_nulls.iter_mut().zip(&self.spans) {
            *has_nulls |= codes.levels[span.level][rows.clone()].contains(&0);
        }
        self.has_rows = true;
        let mut first = rows.start;
        while first < rows.end {
            let some = first..rows.end.min(first + ROWS_AT_ONCE);
            first = some.end;
            if !self.add_words(codes, measures, some.clone()) && !self.add_one_by_one(codes, measures, some) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds rows of which each adds one word to each sum and nothing else, as nearly all do; `false` if these are
    /// others.
    fn add_words(&mut self, codes: &LevelCodes, measures: &[Option<ArrayRef>], rows: Range<usize>) -> bool {
        let words = self.query.measures.iter().zip(measures);
        let words = words.map(|(of, values)| part::words_of_rows(of, values.as_ref(), rows.clone()));
        let Some(words) = words.collect::<Option<Vec<Vec<i64>>>>() else { return false };
        let codes: Vec<&[u32]> = self.spans.iter().map(|span| &codes.levels[span.level][rows.clone()]).collect();
        self.cells.add_words(rows.len(), &codes, &words)
    }

    fn add_one_by_one(&mut self, codes: &LevelCodes, measures: &[Option<ArrayRef>], rows: Range<usize>) -> bool {
        let (mut digits, mut parts) = (vec![0; self.spans.len()], Vec::with_capacity(measures.len()));
        let mut scratch = Scratch::default();
        for row in rows {
            for (digit, span) in digits.iter_mut().zip(&self.spans) {
                *digit = span.digit(codes.levels[span.level][row]).unwrap_or(0) as usize;
            }
            parts.clear();
            for (of, values) in self.query.measures.iter().zip(measures) {
                let Some(part) = Part::of_row(of, values.as_ref(), row) else { return false };
                parts.push(part);
            }
            if !self.add(&digits, 1, &parts, true, &mut scratch) {
                return false;
            }
        }
        true
    }

    /// Adds rows to a cell, and with `spread` to the totals of its axes. `false` if 128 bits do not hold a sum.
    fn add(&mut self, digits: &[usize], rows: u64, parts: &[Part], spread: bool, scratch: &mut Scratch) -> bool {
        let cell = self.cell_of(digits);
        self.loose.add(cell, parts);
        let is_added = self.cells.add(cell, rows, parts, &mut scratch.difference).is_some();
        if is_added && spread {
            self.cells.spread(digits, cell, &scratch.difference, &mut scratch.cells);
        }
        is_added
    }

    /// Takes off rows of segments that were killed since they were added. `false`, with the cuboid in no state to be used, if
    /// it does not have them, or what came meanwhile beside them.
    pub fn take_off_segments(&mut self, killed: &[KilledRows]) -> Result<bool> {
        if killed.is_empty() {
            return Ok(true);
        }
        for rows in killed {
            // Rows beside them may have codes that came later.
            if !self.holds(rows.segment())? {
                return Ok(false);
            }
        }
        let rows = killed.iter().map(KilledRows::count_at_most).sum::<u64>();
        let all = self.cells();
        let keys = match rows >= all / 8 && all <= GROUPS_MAX as u64 {
            true => GroupKeys::dense(self.spans.clone(), all),
            false => GroupKeys::met(self.spans.clone()),
        };
        let Some(keys) = keys else { return Ok(false) };
        let mut off = Answer::new(&self.query, keys);
        if !answer_killed(&self.query, killed, &mut off)? || off.totals.is_spoilt() {
            return Ok(false);
        }
        let (mut digits, mut parts) = (vec![0; self.spans.len()], Vec::new());
        let mut scratch = Scratch::default();
        for group in (0..off.totals.groups()).filter(|&group| off.totals.rows(group) > 0) {
            self.parts_of(&off, group, &mut digits, &mut parts);
            if !self.take_off(&digits, off.totals.rows(group), &parts, &mut scratch) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes off rows that are in no segment, as [`Cuboid::add_rows`] adds them. `false` as there, and if it does not have
    /// them.
    pub fn take_off_rows(
        &mut self,
        codes: &LevelCodes,
        measures: &[Option<ArrayRef>],
        rows: Range<usize>,
    ) -> Result<bool> {
        let mut scratch = Scratch::default();
        for row in rows {
            let digit = |span: &GroupSpan| span.digit(codes.levels[span.level][row]).map(|digit| digit as usize);
            let digits: Option<Vec<usize>> = self.spans.iter().map(digit).collect();
            let of_measures = self.query.measures.iter().zip(measures);
            let parts: Option<Vec<Part>> =
                of_measures.map(|(of, values)| Part::of_row(of, values.as_ref(), row)).collect();
            let (Some(digits), Some(parts)) = (digits, parts) else { return Ok(false) };
            if !self.take_off(&digits, 1, &parts, &mut scratch) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes rows off a cell and the totals of its axes. `false` if it does not have them.
    fn take_off(&mut self, digits: &[usize], rows: u64, parts: &[Part], scratch: &mut Scratch) -> bool {
        let cell = self.cell_of(digits);
        self.loose.lose(parts);
        let is_exact = |measure: usize| self.loose.is_exact(measure);
        if self.cells.take_off(cell, rows, parts, is_exact, &mut scratch.difference).is_none() {
            return false;
        }
        self.cells.spread(digits, cell, &scratch.difference, &mut scratch.cells);
        self.loose.take_off(cell, parts, |measure| self.cells.values(cell, measure));
        true
    }

    fn cell_of(&self, digits: &[usize]) -> usize {
        self.cells.axes().iter().zip(digits).map(|(axis, digit)| digit * axis.stride).sum()
    }

    /// The digits of a group of an answer to this cuboid's own question, or to a part of it, and its part of each measure.
    fn parts_of(&self, from: &Answer, group: usize, digits: &mut [usize], parts: &mut Vec<Part>) {
        from.keys.codes_into(group, |at, code| {
            // The spans of a part lie in the spans of the whole.
            digits[at] = self.spans[at].digit(code).unwrap_or(0) as usize;
        });
        parts.clear();
        parts.extend(from.totals.measures().iter().map(|totals| Part::of_group(totals, group)));
    }

    /// Whether every code of a segment has a place.
    fn holds(&self, segment: &Arc<Segment>) -> Result<bool> {
        let index = segment.index()?;
        Ok(self.spans.iter().all(|span| {
            let bounds = &index.table.levels[span.level];
            (0..segment.blocks()).all(|block| {
                let codes = bounds.code_bounds(block);
                span.digit(codes.min).is_some() && span.digit(codes.max).is_some()
            })
        }))
    }

    /// Parts of the cuboid that are filled one after the other, for so many rows.
    fn slabs(&self, rows: u64) -> Vec<Slab> {
        let all = self.cells();
        let whole = |keys: Option<GroupKeys>| keys.map(|keys| vec![Slab { query: self.query.clone(), keys }]);
        if rows < all / 8 {
            // Most cells get nothing.
            return whole(GroupKeys::met(self.spans.clone())).unwrap_or_default();
        }
        if all <= SLAB_CELLS_MAX {
            return whole(GroupKeys::dense(self.spans.clone(), all)).unwrap_or_default();
        }
        let longest = (0..self.spans.len()).max_by_key(|&at| self.spans[at].digits()).unwrap_or(0);
        let span = self.spans[longest];
        let digits = (SLAB_CELLS_MAX / (all / span.digits())).clamp(1, u64::from(u32::MAX)) as u32;
        let mut slabs = Vec::new();
        let mut first = span.first;
        while first - span.first < span.count {
            let count = digits.min(span.count - (first - span.first));
            let mut spans = self.spans.clone();
            spans[longest] = GroupSpan { first, count, ..span };
            // NULL is the first one's.
            let codes = CodeSet::of_range_and_null(first, first + (count - 1), first == span.first);
            let filters = vec![LevelFilter { level: span.level, codes }];
            let query = BoxQuery { filters, ..self.query.clone() };
            slabs.extend(GroupKeys::dense(spans, u64::MAX).map(|keys| Slab { query, keys }));
            first += count;
        }
        slabs
    }

    /// Adds an answer to this cuboid's own question, or to a part of it. `false` if it has what cannot be added.
    fn add_answer(&mut self, from: &Answer, spread: bool) -> bool {
        if from.totals.is_spoilt() {
            return false;
        }
        let (mut digits, mut parts) = (vec![0; self.spans.len()], Vec::new());
        let mut scratch = Scratch::default();
        for group in (0..from.totals.groups()).filter(|&group| from.totals.rows(group) > 0) {
            self.parts_of(from, group, &mut digits, &mut parts);
            if !self.add(&digits, from.totals.rows(group), &parts, spread, &mut scratch) {
                return false;
            }
        }
        true
    }

    /// The codes that groups of a level can have, from those that this cuboid has at that level or a finer one of its
    /// dimension; `None` if it has none.
    pub fn span_of(
        &self,
        level: usize,
        dimension_of: &dyn Fn(usize) -> usize,
        ancestor: &Ancestor<'_>,
    ) -> Option<GroupSpan> {
        let mut spans = self.spans.iter();
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

    /// How many cells answering a question takes, about: of several cuboids that can answer, the least is the best.
    pub fn visits(&self, query: &BoxQuery, dimension_of: &dyn Fn(usize) -> usize) -> u64 {
        let visits = select::visits(query, self.cells.axes(), dimension_of, By::Totals);
        match self.measures_of(query).is_some_and(|measures| self.loose.is_needed(&measures, &query.measures)) {
            true => visits.saturating_add(select::visits(query, self.cells.axes(), dimension_of, By::Cells)),
            false => visits,
        }
    }

    /// Chooses the cells that answer a question whose groups `keys` number; `None` if this cuboid cannot.
    /// `dimension_of` says which dimension a level is of.
    pub fn select(
        &self,
        query: &BoxQuery,
        dimension_of: &dyn Fn(usize) -> usize,
        ancestor: &Ancestor<'_>,
        keys: &GroupKeys,
    ) -> Option<Selection> {
        let measures = self.measures_of(query)?;
        let choose = |by: By| -> Option<Vec<Chosen>> {
            select::choose(query, self.cells.axes(), &self.has_nulls, dimension_of, ancestor, keys, by)
        };
        let cells = match self.loose.is_needed(&measures, &query.measures) {
            true => Some(choose(By::Cells)?),
            false => None,
        };
        Some(Selection { totals: choose(By::Totals)?, cells, measures, has_nulls: self.has_nulls.clone() })
    }

    /// Whether a selection that was made for a question before is still what [`Cuboid::select`] would choose for it, if
    /// the codes' ancestors are the same.
    pub fn is_current(&self, selection: &Selection, query: &BoxQuery) -> bool {
        self.has_nulls == selection.has_nulls
            && self.loose.is_needed(&selection.measures, &query.measures) == selection.cells.is_some()
    }

    /// Adds the selected cells to `into`, which is of the question that they were selected for and numbers its groups
    /// alike; `None` if totals cannot hold a value, or what is asked for is open or lost.
    pub fn add_selected(&self, selection: &Selection, into: &mut Answer) -> Option<()> {
        let Selection { totals, cells, measures, .. } = selection;
        if self.loose.has_lost(measures, into.totals.measures().iter().map(|totals| totals.of().wanted)) {
            return None;
        }
        let sums = visit::sum(&self.cells, totals, into);
        for (group, words) in sums.chunks_exact(self.cells.width()).enumerate().filter(|(_, words)| words[0] != 0) {
            self.cells.give(words, measures, &mut into.totals, group)?;
        }
        let Some(cells) = cells else { return Some(()) };
        let mut open = Vec::new();
        visit::each_cell(&self.cells, cells, 0, Some(0), &mut |cell, index| {
            let group = into.group(index);
            self.loose.give(cell, measures, &mut into.totals, group, &mut open);
        });
        let is_told = |&(cell, group): &(usize, usize)| self.loose.is_told(cell, measures, &into.totals, group);
        open.iter().all(is_told).then_some(())
    }

    /// Answers a question into `into`, which is of that question; `None` if this cuboid cannot.
    pub fn answer(
        &self,
        query: &BoxQuery,
        dimension_of: &dyn Fn(usize) -> usize,
        ancestor: &Ancestor<'_>,
        into: &mut Answer,
    ) -> Option<()> {
        let selection = self.select(query, dimension_of, ancestor, &into.keys)?;
        self.add_selected(&selection, into)
    }

    /// For each measure of a question its place here.
    fn measures_of(&self, query: &BoxQuery) -> Option<Vec<usize>> {
        let place = |wanted: &WantedMeasure| {
            let is_it = |own: &WantedMeasure| own.column == wanted.column && own.wanted.contains(wanted.wanted);
            self.query.measures.iter().position(is_it)
        };
        query.measures.iter().map(place).collect()
    }
}

/// Memory that rows share one after the other.
#[derive(Default)]
struct Scratch {
    difference: Vec<i64>,
    cells: Vec<usize>,
}

/// A part of a cuboid to be filled.
struct Slab {
    query: BoxQuery,
    keys: GroupKeys,
}

/// How many cells there are over these levels.
fn count(spans: &[GroupSpan]) -> Option<u64> {
    spans.iter().try_fold(1u64, |cells, span| cells.checked_mul(span.digits()))
}

fn code_of(span: &GroupSpan, digit: u64) -> u32 {
    match digit {
        0 => 0,
        digit => span.first + (digit - 1) as u32,
    }
}
