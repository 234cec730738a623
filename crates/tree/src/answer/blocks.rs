//! Answering from segments.

use super::code_set::{CodeSet, Overlap};
use super::groups::GroupKeys;
use super::nodes::FANOUT;
use super::question::{BoxQuery, Counters};
use super::totals::{Totals, Wanted};
use crate::filter::{self, Mask, PackedTest};
use crate::layout::BLOCK_ROWS;
use crate::segment::{BlockIndex, PackedStream, Segment};
use crate::side::{CodeBounds, Encoding, Value, value_at};
use crate::summary::MeasureSummary;
use alluvia_types::{Error, Result, Version};
use arrow::array::{Array, AsArray};
use arrow::datatypes::{Decimal256Type, Float64Type, UInt32Type, UInt64Type};
use std::sync::Arc;

/// Blocks below which a second thread costs more than it saves.
const BLOCKS_PER_THREAD: usize = 64;

/// Totals by groups, and what they took.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Which group is which.
    pub keys: GroupKeys,
    /// Their totals.
    pub totals: Totals,
    /// What it took.
    pub counters: Counters,
}

impl Answer {
    /// Of no rows.
    pub fn new(query: &BoxQuery, keys: GroupKeys) -> Answer {
        let totals = Totals::new(&query.measures, keys.places());
        Answer { keys, totals, counters: Counters::default() }
    }

    /// The number of the group with this index, with room for its totals.
    #[inline]
    pub(crate) fn group(&mut self, index: u64) -> usize {
        let group = self.keys.number(index);
        if self.keys.is_sparse() && group == self.totals.groups() {
            self.totals.grow((group + 1).next_power_of_two());
        }
        group
    }

    /// Adds one group of totals over the same measures to a group of this answer, which has that place.
    pub fn add_group(&mut self, group: usize, totals: &Totals, from: usize, measures: &[usize]) {
        if self.totals.groups() <= group {
            self.totals.grow(group + 1);
        }
        self.totals.add_group(group, totals, from, measures);
    }

    /// Adds another answer to the same question over other rows.
    pub fn add(&mut self, other: &Answer) {
        let measures: Vec<usize> = (0..other.totals.measures().len()).collect();
        if other.totals.is_spoilt() {
            self.totals.spoil();
        }
        for group in 0..other.totals.groups().min(other.keys.places()) {
            if other.totals.rows(group) > 0 {
                let own = self.group(other.keys.index(group));
                self.totals.add_group(own, &other.totals, group, &measures);
            }
        }
        self.counters.add(&other.counters);
    }
}

/// Rows of a segment: those of the versions above one and through another.
#[derive(Clone, Debug)]
pub struct SegmentRows {
    /// The segment.
    pub segment: Arc<Segment>,
    /// Rows of this version and before do not count; `None` if all do.
    pub above: Option<Version>,
    /// Rows of later versions do not count; `None` if all do.
    pub through: Option<Version>,
}

impl SegmentRows {
    /// The bounds that the segment does not keep by itself.
    fn bounds(&self) -> Versions {
        let meta = self.segment.meta();
        Versions {
            above: self.above.filter(|above| meta.min_version <= *above).map_or(0, |above| above.0),
            through: self.through.filter(|through| meta.max_version > *through).map_or(u64::MAX, |through| through.0),
        }
    }
}

/// Versions above one and through another.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Versions {
    above: u64,
    through: u64,
}

impl Versions {
    const ALL: Versions = Versions { above: 0, through: u64::MAX };

    fn contains(self, version: u64) -> bool {
        version > self.above && version <= self.through
    }
}

/// A block to be read.
struct CutBlock {
    segment: usize,
    block: usize,
    /// Filters that the block does not cover, by place.
    open: u64,
    /// Only rows of these versions count.
    versions: Versions,
}

/// A segment with what is needed of it in memory.
struct Reading {
    segment: Arc<Segment>,
    index: Arc<BlockIndex>,
    /// By filter; `None` where no cut block needs it.
    filters: Vec<Option<Arc<PackedStream>>>,
    groups: Vec<Arc<PackedStream>>,
    /// By measure; `None` where the segment does not have the column, whose values are all NULL then.
    measures: Vec<Option<(usize, Arc<PackedStream>)>>,
}

/// Adds the rows of segments that lie in a box to an answer. Works with up to `threads`
/// threads. `false`, with the answer as it was, if a segment cannot answer: a column was no measure when it was written.
pub fn answer(query: &BoxQuery, segments: &[SegmentRows], threads: usize, into: &mut Answer) -> Result<bool> {
    assert!(query.filters.len() <= 64, "a bit for each filter");
    for rows in segments {
        if !can_answer(query, &rows.segment)? {
            return Ok(false);
        }
    }
    let mut cut = Vec::new();
    for (at, rows) in segments.iter().enumerate() {
        walk(query, at, rows, into, &mut cut)?;
    }
    let mut readings = Vec::with_capacity(segments.len());
    for (at, SegmentRows { segment, .. }) in segments.iter().enumerate() {
        let open = cut
            .iter()
            .filter(|block| block.segment == at)
            .fold(None, |open: Option<u64>, block| Some(open.unwrap_or(0) | block.open));
        readings.push(match open {
            Some(open) => Some(Reading::new(query, segment, open)?),
            None => None,
        });
    }
    let threads = threads.min(cut.len() / BLOCKS_PER_THREAD + 1).max(1);
    if threads == 1 {
        return read(query, &readings, &cut, into).map(|()| true);
    }
    let parts: Vec<Result<Answer>> = std::thread::scope(|scope| {
        let readings = &readings;
        let mut rest = cut.chunks(cut.len().div_ceil(threads));
        let first = rest.next().unwrap_or_default();
        let others: Vec<_> = rest
            .map(|blocks| {
                let keys = into.keys.clone();
                scope.spawn(move || {
                    let mut part = Answer::new(query, keys);
                    read(query, readings, blocks, &mut part).map(|()| part)
                })
            })
            .collect();
        let own = read(query, readings, first, into);
        let panicked = |_| Err(Error::internal("a thread that read blocks panicked"));
        let mut parts: Vec<Result<Answer>> =
            others.into_iter().map(|part| part.join().unwrap_or_else(panicked)).collect();
        if let Err(error) = own {
            parts.push(Err(error));
        }
        parts
    });
    for part in parts {
        into.add(&part?);
    }
    Ok(true)
}

/// Whether the segment has every measure that it has the column of.
fn can_answer(query: &BoxQuery, segment: &Segment) -> Result<bool> {
    let index = segment.index()?;
    Ok(query.measures.iter().all(|measure| {
        let is_measure = index.table.measures.iter().any(|(id, _)| *id == measure.column);
        is_measure || !segment.meta().columns.contains(&measure.column)
    }))
}

/// Answers what summaries can, and lists the blocks that are cut.
fn walk(query: &BoxQuery, at: usize, rows: &SegmentRows, into: &mut Answer, cut: &mut Vec<CutBlock>) -> Result<()> {
    let (segment, versions) = (&rows.segment, rows.bounds());
    let is_whole_segment = versions == Versions::ALL;
    if segment.blocks() == 0 {
        return Ok(());
    }
    let nodes = segment.nodes()?;
    let index = segment.index()?;
    let all = if query.filters.is_empty() { 0 } else { u64::MAX >> (64 - query.filters.len()) };
    let mut stack = vec![(nodes.heights() - 1, 0, all)];
    'nodes: while let Some((height, node, above)) = stack.pop() {
        // Filters that are not covered yet.
        let mut open = above;
        for (place, filter) in query.filters.iter().enumerate().filter(|(place, _)| above >> place & 1 == 1) {
            match nodes.overlap(height, node, filter.level, &filter.codes) {
                Overlap::Disjoint => {
                    into.counters.disjoint += 1;
                    into.counters.blocks_skipped += nodes.blocks_below(height, node).len() as u64;
                    continue 'nodes;
                }
                Overlap::Covered => open &= !(1 << place),
                Overlap::Cut => {}
            }
        }
        let mut cut_at = Versions::ALL;
        if !is_whole_segment && height == 0 {
            match visible(segment, &index, node, versions) {
                Overlap::Disjoint => {
                    into.counters.disjoint += 1;
                    into.counters.blocks_skipped += 1;
                    continue;
                }
                Overlap::Covered => {}
                Overlap::Cut => cut_at = versions,
            }
        }
        let is_whole = open == 0 && cut_at == Versions::ALL && (is_whole_segment || height == 0);
        if is_whole {
            let codes: Option<Vec<u32>> =
                query.groups.iter().map(|&level| nodes.only_code(height, node, level)).collect();
            let index_of_group = codes.and_then(|codes| into.keys.index_of(codes.into_iter()));
            if let Some(group) = index_of_group {
                let group = into.group(group);
                for block in nodes.blocks_below(height, node) {
                    add_summary(query, segment, &index, block, group, &mut into.totals);
                }
                into.counters.covered += 1;
                continue;
            }
        }
        match height {
            0 => cut.push(CutBlock { segment: at, block: node, open, versions: cut_at }),
            _ => {
                let children = node * FANOUT..((node + 1) * FANOUT).min(nodes.nodes(height - 1));
                stack.extend(children.rev().map(|child| (height - 1, child, open)));
            }
        }
    }
    Ok(())
}

/// How a block's rows lie to these versions.
fn visible(segment: &Segment, index: &BlockIndex, block: usize, wanted: Versions) -> Overlap {
    if let Some(version) = segment.meta().fixed_version {
        return if wanted.contains(version.0) { Overlap::Covered } else { Overlap::Disjoint };
    }
    let versions = &index.table.versions;
    let at = |array: &Arc<dyn Array>| {
        array.as_primitive_opt::<UInt64Type>().filter(|array| array.is_valid(block)).map(|array| array.value(block))
    };
    match (at(&versions.mins), at(&versions.maxs)) {
        (Some(min), Some(max)) if min > wanted.through || max <= wanted.above => Overlap::Disjoint,
        (Some(min), Some(max)) if min > wanted.above && max <= wanted.through => Overlap::Covered,
        _ => Overlap::Cut,
    }
}

/// Adds a whole block by its summary.
fn add_summary(
    query: &BoxQuery,
    segment: &Segment,
    index: &BlockIndex,
    block: usize,
    group: usize,
    totals: &mut Totals,
) {
    let rows = segment.block_rows(block);
    totals.add_rows(group, rows.end - rows.start);
    for (at, measure) in query.measures.iter().enumerate() {
        let Some((_, summary)) = index.table.measures.iter().find(|(id, _)| *id == measure.column) else { continue };
        let count = u64::from(summary.counts.as_primitive::<UInt32Type>().value(block));
        if let Some(floats) = &summary.floats {
            let float = |array: &Arc<dyn Array>| {
                let array = array.as_primitive::<Float64Type>();
                if array.is_valid(block) { array.value(block) } else { 0.0 }
            };
            if is_special(summary, block) {
                totals.spoil();
            }
            let sum = (float(&summary.sums), float(&floats.sum_rests));
            let bounds = (float(&floats.mins), float(&floats.maxs));
            totals.add_float_summary(at, group, count, sum, float(&summary.squares), bounds);
        } else {
            let wide = |array: &Arc<dyn Array>| {
                let array = array.as_primitive::<Decimal256Type>();
                array.is_valid(block).then(|| array.value(block).to_i128()).flatten()
            };
            let bounds = measure.wanted.min_max.then(|| exact_bounds(index, measure.column, block)).flatten();
            totals.add_exact_summary(at, group, count, wide(&summary.sums), wide(&summary.squares), bounds);
        }
    }
}

/// Whether a block of a float measure holds NaN or an infinity.
fn is_special(summary: &MeasureSummary, block: usize) -> bool {
    summary.floats.as_ref().is_some_and(|floats| {
        [&floats.nans, &floats.infinities, &floats.negative_infinities]
            .iter()
            .any(|array| array.as_primitive::<UInt32Type>().value(block) > 0)
    })
}

/// The bounds of an integer or decimal column, which are exact.
fn exact_bounds(index: &BlockIndex, column: alluvia_types::ColumnId, block: usize) -> Option<(i128, i128)> {
    let (_, summary) = index.table.columns.iter().find(|(id, _)| *id == column)?;
    Some((integer_at(&summary.mins, block)?, integer_at(&summary.maxs, block)?))
}

/// A value of an integer or decimal array.
pub(super) fn integer_at(array: &Arc<dyn Array>, row: usize) -> Option<i128> {
    use arrow::datatypes::{DataType, Decimal128Type, Int16Type, Int32Type, Int64Type};
    if array.is_null(row) {
        return None;
    }
    Some(match array.data_type() {
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::Decimal128(..) => array.as_primitive::<Decimal128Type>().value(row),
        _ => return None,
    })
}

impl Reading {
    fn new(query: &BoxQuery, segment: &Arc<Segment>, open: u64) -> Result<Reading> {
        let index = segment.index()?;
        let mut filters = Vec::with_capacity(query.filters.len());
        for (place, filter) in query.filters.iter().enumerate() {
            let needed = open >> place & 1 == 1;
            filters.push(if needed { Some(segment.level_stream(filter.level)?) } else { None });
        }
        let groups = query.groups.iter().map(|&level| segment.level_stream(level)).collect::<Result<_>>()?;
        let mut measures = Vec::with_capacity(query.measures.len());
        for measure in &query.measures {
            let place = index.table.measures.iter().position(|(id, _)| *id == measure.column);
            let needed = measure.wanted != Wanted::default();
            measures.push(match place {
                // The count of values alone needs them only if there are NULLs.
                Some(place) if needed || has_nulls(&index, place, segment) => {
                    Some((place, segment.measure_stream(place)?))
                }
                Some(place) => Some((place, Arc::default())),
                None => None,
            });
        }
        Ok(Reading { segment: Arc::clone(segment), index, filters, groups, measures })
    }
}

/// Whether any block has a NULL in a measure.
fn has_nulls(index: &BlockIndex, measure: usize, segment: &Segment) -> bool {
    let counts = index.table.measures[measure].1.counts.as_primitive::<UInt32Type>();
    (0..segment.blocks()).any(|block| {
        let rows = segment.block_rows(block);
        u64::from(counts.value(block)) < rows.end - rows.start
    })
}

/// Reads cut blocks.
fn read(query: &BoxQuery, readings: &[Option<Reading>], blocks: &[CutBlock], into: &mut Answer) -> Result<()> {
    let mut scratch = Scratch::default();
    for cut in blocks {
        let Some(reading) = &readings[cut.segment] else { continue };
        let rows = reading.segment.block_rows(cut.block);
        let rows = (rows.end - rows.start) as usize;
        into.counters.cut += 1;
        into.counters.rows_filtered += rows as u64;
        let mut mask = Mask::all(rows);
        filter_block(query, reading, cut, &mut mask, &mut scratch)?;
        if mask.is_empty() {
            continue;
        }
        let only: Option<Vec<u32>> = query
            .groups
            .iter()
            .map(|&level| {
                let CodeBounds { min, max, has_null } = reading.index.table.levels[level].code_bounds(cut.block);
                (min == max && !has_null).then_some(min)
            })
            .collect();
        match only.and_then(|codes| into.keys.index_of(codes.into_iter())) {
            Some(index) => {
                let group = into.group(index);
                into.totals.add_rows(group, mask.count() as u64);
                for measure in 0..query.measures.len() {
                    add_measure(query, reading, cut.block, measure, group, &mask, into);
                }
            }
            None => add_grouped(query, reading, cut.block, &mask, &mut scratch, into)?,
        }
    }
    Ok(())
}

/// Memory that blocks share one after the other.
#[derive(Default)]
struct Scratch {
    words: Vec<u64>,
    rows: Vec<u16>,
    indices: Vec<u64>,
    groups: Vec<u32>,
}

fn filter_block(
    query: &BoxQuery,
    reading: &Reading,
    cut: &CutBlock,
    mask: &mut Mask,
    scratch: &mut Scratch,
) -> Result<()> {
    for (place, filter) in query.filters.iter().enumerate().filter(|(place, _)| cut.open >> place & 1 == 1) {
        let Some(stream) = &reading.filters[place] else { continue };
        let bounds = reading.index.table.levels[filter.level].code_bounds(cut.block);
        filter_codes(stream.block(cut.block), bounds, &filter.codes, mask, &mut scratch.words);
        if mask.is_empty() {
            return Ok(());
        }
    }
    if cut.versions != Versions::ALL {
        let versions = reading.segment.versions(cut.block)?;
        mask.retain(|row| cut.versions.contains(versions[row]));
    }
    Ok(())
}

/// Keeps the rows whose codes are in the set. The block is cut, so its codes have a width.
fn filter_codes(packed: &[u8], bounds: CodeBounds, codes: &CodeSet, mask: &mut Mask, words: &mut Vec<u64>) {
    let width = bounds.width();
    if width == 0 {
        if !codes.contains(bounds.min) {
            mask.clear();
        }
        return;
    }
    // A packed value `p` is code `base + p`; with NULLs, 0 is NULL instead.
    let base = bounds.base();
    let least = u32::from(bounds.has_null);
    let null_fits = !bounds.has_null || !codes.holds_null();
    if let ([(low, high)], true) = (codes.runs(), null_fits) {
        let low = low.saturating_sub(base).max(least);
        let high = high.saturating_sub(base);
        return filter::filter(packed, width, &PackedTest::Range { low, high }, mask);
    }
    if codes.has_bitmap() && width < 4 {
        let span = bounds.max - base;
        codes.words(base, span as usize / 64 + 1, words);
        if bounds.has_null {
            words[0] = words[0] & !1 | u64::from(codes.holds_null());
        }
        return filter::filter(packed, width, &PackedTest::Set(words), mask);
    }
    mask.retain(|row| codes.contains(code_at(packed, bounds, width, row)));
}

/// The code of a row.
#[inline]
fn code_at(packed: &[u8], bounds: CodeBounds, width: usize, row: usize) -> u32 {
    let raw = match width {
        0 => return bounds.min,
        1 => u32::from(packed[row]),
        2 => u32::from(u16::from_le_bytes([packed[2 * row], packed[2 * row + 1]])),
        _ => u32::from_le_bytes(packed[4 * row..4 * row + 4].try_into().expect("4 bytes")),
    };
    if bounds.has_null && raw == 0 { 0 } else { bounds.base().wrapping_add(raw) }
}

/// Adds a measure of the selected rows of a block to one group.
fn add_measure(
    query: &BoxQuery,
    reading: &Reading,
    block: usize,
    measure: usize,
    group: usize,
    mask: &Mask,
    into: &mut Answer,
) {
    let Some((place, stream)) = &reading.measures[measure] else { return };
    let summary = &reading.index.table.measures[*place].1;
    let rows = reading.segment.block_rows(block);
    let count = u64::from(summary.counts.as_primitive::<UInt32Type>().value(block));
    let has_nulls = count < rows.end - rows.start;
    let of = query.measures[measure];
    if count == 0 {
        return;
    }
    let counted =
        |rows: usize| filter::PackedSums { count: rows as u64, sum: 0, squares: 0, squares_carry: 0, min: 0, max: 0 };
    let encoding = summary.encodings[block];
    if of.wanted == Wanted::default() && !has_nulls {
        into.totals.add_packed(measure, group, &counted(mask.count()), 0, 0);
        return;
    }
    // Squares of distances from a base become squares of values by the sum.
    let Wanted { sum, squares, min_max } = of.wanted;
    let wanted = filter::Wanted { sum: sum || squares, squares, min_max };
    let packed = stream.block(block);
    match encoding {
        Encoding::Integers { base, width: 0, scale } => {
            into.totals.add_packed(measure, group, &counted(mask.count()), base, scale);
        }
        Encoding::Integers { base, width, scale } => {
            let width = usize::from(width);
            let kept = has_nulls.then(|| without_zeros(packed, width, mask));
            let sums = filter::sum_masked_packed(packed, width, kept.as_ref().unwrap_or(mask), wanted);
            into.totals.add_packed(measure, group, &sums, base, scale);
        }
        Encoding::Floats => {
            let kept = has_nulls.then(|| {
                let mut kept = mask.clone();
                kept.retain(|row| value_at(packed, encoding, true, true, row) != Value::Null);
                kept
            });
            let finite = !is_special(summary, block);
            let sums = filter::sum_masked_f64(packed, kept.as_ref().unwrap_or(mask), wanted, finite);
            into.totals.add_floats(measure, group, &sums);
        }
        Encoding::Wide => {
            for row in mask.rows() {
                if let Value::Integer(value) = value_at(packed, encoding, has_nulls, of.is_float, row) {
                    into.totals.add_integer(measure, group, value);
                }
            }
        }
    }
}

/// The selected rows whose packed values are not 0, which is NULL.
fn without_zeros(packed: &[u8], width: usize, mask: &Mask) -> Mask {
    let mut kept = mask.clone();
    match width {
        8 => kept.retain(|row| packed[8 * row..8 * row + 8] != [0; 8]),
        _ => filter::filter(packed, width, &PackedTest::Range { low: 1, high: u32::MAX }, &mut kept),
    }
    kept
}

/// Adds the selected rows of a block that lie in several groups.
fn add_grouped(
    query: &BoxQuery,
    reading: &Reading,
    block: usize,
    mask: &Mask,
    scratch: &mut Scratch,
    into: &mut Answer,
) -> Result<()> {
    let Scratch { rows, indices, groups, .. } = scratch;
    rows.clear();
    rows.extend(mask.rows().map(|row| row as u16));
    indices.clear();
    indices.resize(rows.len(), 0);
    let missing = || Error::internal("a block has a code that its table does not");
    for (at, stream) in reading.groups.iter().enumerate() {
        let (span, stride) = (into.keys.spans()[at], into.keys.strides()[at]);
        let bounds = reading.index.table.levels[span.level].code_bounds(block);
        let (packed, width) = (stream.block(block), bounds.width());
        match width {
            1 => {
                // What each packed value adds to the index, looked up instead of computed.
                let mut adds = [0u64; 256];
                for (raw, add) in adds.iter_mut().enumerate().take((bounds.max - bounds.base()) as usize + 1) {
                    let code = if bounds.has_null && raw == 0 { 0 } else { bounds.base() + raw as u32 };
                    *add = span.digit(code).ok_or_else(missing)? * stride;
                }
                indices
                    .iter_mut()
                    .zip(rows.iter())
                    .for_each(|(index, &row)| *index += adds[usize::from(packed[usize::from(row)])]);
            }
            _ => {
                for (index, &row) in indices.iter_mut().zip(rows.iter()) {
                    let code = code_at(packed, bounds, width, row.into());
                    *index += span.digit(code).ok_or_else(missing)? * stride;
                }
            }
        }
    }
    groups.clear();
    for &index in indices.iter() {
        let group = into.group(index);
        into.totals.add_rows(group, 1);
        groups.push(group as u32);
    }
    for (measure, of) in query.measures.iter().enumerate() {
        let Some((place, stream)) = &reading.measures[measure] else { continue };
        let summary = &reading.index.table.measures[*place].1;
        let block_rows = reading.segment.block_rows(block);
        let count = u64::from(summary.counts.as_primitive::<UInt32Type>().value(block));
        let has_nulls = count < block_rows.end - block_rows.start;
        if of.wanted == Wanted::default() && !has_nulls {
            groups.iter().for_each(|&group| into.totals.add_count(measure, group as usize));
            continue;
        }
        let packed = stream.block(block);
        let encoding = summary.encodings[block];
        for (&row, &group) in rows.iter().zip(groups.iter()) {
            let (row, group) = (usize::from(row), group as usize);
            match encoding {
                Encoding::Integers { base, width, scale } => {
                    let raw = raw_at(packed, width.into(), row);
                    if has_nulls && raw == 0 {
                        continue;
                    }
                    let value = i128::from(base) + i128::from(raw);
                    if of.is_float {
                        into.totals.add_scaled(measure, group, value, scale);
                    } else {
                        into.totals.add_integer(measure, group, value);
                    }
                }
                _ => match value_at(packed, encoding, has_nulls, of.is_float, row) {
                    Value::Null => {}
                    Value::Integer(value) => into.totals.add_integer(measure, group, value),
                    Value::Float(value) => into.totals.add_float(measure, group, value),
                },
            }
        }
    }
    Ok(())
}

#[inline]
fn raw_at(packed: &[u8], width: usize, row: usize) -> u64 {
    debug_assert!(packed.len() <= BLOCK_ROWS * 8);
    match width {
        0 => 0,
        1 => packed[row].into(),
        2 => u16::from_le_bytes([packed[2 * row], packed[2 * row + 1]]).into(),
        4 => u32::from_le_bytes(packed[4 * row..4 * row + 4].try_into().expect("4 bytes")).into(),
        _ => u64::from_le_bytes(packed[8 * row..8 * row + 8].try_into().expect("8 bytes")),
    }
}
