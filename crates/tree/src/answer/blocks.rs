//! Reading of cut blocks: filters on packed codes, then sums of packed values, into the groups of an answer.

use super::question::BoxQuery;
use super::segments::{Answer, CutBlock};
use super::totals::Wanted;
use crate::filter::{self, Mask, PackedTest};
use crate::layout::BLOCK_ROWS;
use crate::nodes::{CodeSet, Overlap};
use crate::packed::{CodeBounds, Encoding, PackedStream, Value, code_at, value_at};
use crate::segment::{BlockIndex, Segment, values_of};
use crate::visible::{DeadRows, KilledRows, SegmentRows, Versions};
use alluvia_types::{Error, Result};
use std::sync::Arc;

/// Groups up to which the index answers.
pub(super) const GROUPS_MAX: usize = 1 << 20;

/// A segment with what is needed of it in memory.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) segment: Arc<Segment>,
    pub(crate) index: Arc<BlockIndex>,
    /// By filter; `None` where no cut block needs it.
    pub(crate) filters: Vec<Option<Arc<PackedStream>>>,
    pub(crate) groups: Vec<Arc<PackedStream>>,
    /// By measure; `None` where the segment does not have the column, whose values are all NULL then.
    pub(crate) measures: Vec<Option<(usize, Arc<PackedStream>)>>,
    /// By range of times, codes of its level; `None` where no cut block needs them.
    pub(crate) times: Vec<Option<Arc<PackedStream>>>,
    /// Rows that do not count, as of who asks: of a pass that questions share each has its own.
    pub(crate) dead: Option<DeadRows>,
    /// The rows that alone count, of who takes off what was killed.
    pub(crate) killed: Option<KilledRows>,
}

impl Reading {
    /// Of the rows of a segment, for tests that are open in any of the blocks that are read.
    pub(super) fn of_rows(query: &BoxQuery, rows: &SegmentRows, open: u64) -> Result<Reading> {
        Ok(Reading { dead: rows.dead.clone(), ..Reading::new(query, &rows.segment, open)? })
    }

    /// Of the rows of a segment that were killed.
    pub(super) fn of_killed(query: &BoxQuery, rows: &KilledRows) -> Result<Reading> {
        Ok(Reading { killed: Some(rows.clone()), ..Reading::new(query, rows.segment(), 0)? })
    }

    /// The same of a segment, or of a rung, all of whose rows count.
    pub(crate) fn new(query: &BoxQuery, segment: &Arc<Segment>, open: u64) -> Result<Reading> {
        let index = segment.index()?;
        let mut filters = Vec::with_capacity(query.filters.len());
        for (place, filter) in query.filters.iter().enumerate() {
            let needed = open >> place & 1 == 1;
            filters.push(if needed { Some(segment.level_stream(filter.level)?) } else { None });
        }
        let mut times = Vec::with_capacity(query.times.len());
        for (place, range) in (query.filters.len()..).zip(&query.times) {
            let needed = open >> place & 1 == 1;
            times.push(if needed { Some(segment.level_stream(range.level)?) } else { None });
        }
        let groups = query.groups.iter().map(|&level| segment.level_stream(level)).collect::<Result<_>>()?;
        let mut measures = Vec::with_capacity(query.measures.len());
        for measure in &query.measures {
            let place = index.table.measures.iter().position(|(id, _)| *id == measure.column);
            let needed = measure.wanted != Wanted::default();
            measures.push(match place {
                // The count of values alone needs them only if there are NULLs.
                Some(place)
                    if needed || (0..segment.blocks()).any(|block| values_of(&index, place, segment, block).1) =>
                {
                    Some((place, segment.measure_stream(place)?))
                }
                Some(place) => Some((place, Arc::default())),
                None => None,
            });
        }
        Ok(Reading { segment: Arc::clone(segment), index, filters, groups, measures, times, dead: None, killed: None })
    }
}

/// Reads cut blocks, but for their dead rows.
pub(super) fn read(
    query: &BoxQuery,
    readings: &[Option<Reading>],
    blocks: &[CutBlock],
    scratch: &mut Scratch,
    into: &mut Answer,
) -> Result<()> {
    for cut in blocks {
        let Some(reading) = &readings[cut.segment] else { continue };
        if into.keys.places() > GROUPS_MAX {
            // Memory of statements is accounted for the general way.
            into.totals.spoil();
            return Ok(());
        }
        let rows = reading.segment.block_rows(cut.block);
        let rows = (rows.end - rows.start) as usize;
        into.counters.cut += 1;
        into.counters.rows_filtered += rows as u64;
        let mut mask = match &reading.killed {
            Some(killed) => killed.mask(cut.block),
            None => Mask::all(rows),
        };
        if let Some(dead) = reading.dead.as_ref().and_then(|dead| dead.mask(cut.block)) {
            mask.and_not_with(&dead);
        }
        filter_block(query, reading, cut, &mut mask, scratch)?;
        if mask.is_empty() {
            continue;
        }
        let codes = query.groups.iter().map(|&level| {
            let CodeBounds { min, max, has_null } = reading.index.table.levels[level].code_bounds(cut.block);
            (min, max, has_null)
        });
        match into.keys.only_index(codes) {
            Some(index) => {
                let group = into.group(index);
                into.totals.add_rows(group, mask.count() as u64);
                for measure in 0..query.measures.len() {
                    add_measure(query, reading, cut.block, measure, group, &mask, into);
                }
            }
            None => add_grouped(query, reading, cut.block, &mask, scratch, into)?,
        }
    }
    Ok(())
}

/// Memory that blocks share one after the other.
#[derive(Default)]
pub(super) struct Scratch {
    /// Open filters: the share of codes that they keep, their places, and the block's codes.
    order: Vec<(f64, usize, CodeBounds)>,
    words: Vec<u64>,
    rows: Vec<u16>,
    indices: Vec<u64>,
    groups: Vec<u32>,
    /// By group: how many packed values, and their sum.
    sums: Vec<(u64, u64)>,
}

fn filter_block(
    query: &BoxQuery,
    reading: &Reading,
    cut: &CutBlock,
    mask: &mut Mask,
    scratch: &mut Scratch,
) -> Result<()> {
    let Scratch { order, words, .. } = scratch;
    order.clear();
    for (place, filter) in query.filters.iter().enumerate().filter(|(place, _)| cut.open >> place & 1 == 1) {
        let bounds = reading.index.table.levels[filter.level].code_bounds(cut.block);
        order.push((filter.codes.share(bounds.min, bounds.max, None), place, bounds));
    }
    // What keeps the fewest rows first: the others then look at few.
    order.sort_unstable_by(|(one, ..), (other, ..)| one.total_cmp(other));
    for &(_, place, bounds) in order.iter() {
        let (filter, Some(stream)) = (&query.filters[place], &reading.filters[place]) else { continue };
        filter_codes(stream.block(cut.block), bounds, &filter.codes, mask, words);
        if mask.is_empty() {
            return Ok(());
        }
    }
    if cut.versions != Versions::ALL {
        let versions = reading.segment.versions(cut.block)?;
        mask.retain(|row| cut.versions.contains(versions[row]));
    }
    filter_edges(query, reading, cut, mask, words)
}

/// Keeps the rows that are at no edge, or whose own values lie in the range.
fn filter_edges(
    query: &BoxQuery,
    reading: &Reading,
    cut: &CutBlock,
    mask: &mut Mask,
    words: &mut Vec<u64>,
) -> Result<()> {
    let tests = (query.filters.len()..).zip(query.times.iter().zip(&reading.times));
    for (_, (range, stream)) in tests.filter(|(place, _)| cut.open >> place & 1 == 1) {
        let stream = stream.as_ref().ok_or_else(|| Error::internal("codes of an open range of times were not read"))?;
        let bounds = reading.index.table.levels[range.level].code_bounds(cut.block);
        let mut at_edges = mask.clone();
        filter_codes(stream.block(cut.block), bounds, &range.edges, &mut at_edges, words);
        // Values are unpacked from Parquet: that costs more than all else.
        if at_edges.is_empty() {
            continue;
        }
        mask.and_not_with(&at_edges);
        match range.overlap(&reading.index, cut.block) {
            Overlap::Disjoint => at_edges.clear(),
            Overlap::Covered => {}
            Overlap::Cut => {
                let values = reading.segment.values(&range.storage_name, &range.data_type, cut.block)?;
                range.narrow(&values, 0, &mut at_edges);
            }
        }
        mask.or_with(&at_edges);
    }
    Ok(())
}

/// Keeps the rows whose codes are in the set. A cut block has codes in it and others; a rung's block may have only
/// codes beside it.
pub(crate) fn filter_codes(packed: &[u8], bounds: CodeBounds, codes: &CodeSet, mask: &mut Mask, words: &mut Vec<u64>) {
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
        // What is packed knows no code below the least one, which would be taken for it.
        if *high < bounds.min || *low > bounds.max {
            return mask.clear();
        }
        let low = low.saturating_sub(base).max(least);
        let high = high.saturating_sub(base);
        return filter::filter(packed, width, &PackedTest::Range { low, high }, mask);
    }
    let span = bounds.max - base;
    // Bits of a wide span are only worth copying where more rows than words are looked at.
    if codes.has_bitmap() && (width < 4 || span as usize / 64 < mask.count()) {
        codes.words(base, span as usize / 64 + 1, words);
        if bounds.has_null {
            words[0] = words[0] & !1 | u64::from(codes.holds_null());
        }
        return filter::filter(packed, width, &PackedTest::Set(words), mask);
    }
    mask.retain(|row| codes.contains(code_at(packed, bounds, width, row)));
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
    let (count, has_nulls) = values_of(&reading.index, *place, &reading.segment, block);
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
            let kept = has_nulls.then(|| without_null_floats(packed, encoding, mask));
            let finite = !summary.is_special(block);
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

/// The selected rows whose floats are not NULL.
pub(crate) fn without_null_floats(packed: &[u8], encoding: Encoding, mask: &Mask) -> Mask {
    let mut kept = mask.clone();
    kept.retain(|row| value_at(packed, encoding, true, true, row) != Value::Null);
    kept
}

/// The selected rows whose packed values are not 0, which is NULL.
pub(crate) fn without_zeros(packed: &[u8], width: usize, mask: &Mask) -> Mask {
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
    let Scratch { rows, indices, groups, sums, .. } = scratch;
    rows.clear();
    rows.extend(mask.rows().map(|row| row as u16));
    indices.clear();
    indices.resize(rows.len(), 0);
    let missing = || Error::internal("a block has a code that its table does not");
    for (at, stream) in reading.groups.iter().enumerate() {
        let (keys, stride) = (&into.keys, into.keys.strides()[at]);
        let bounds = reading.index.table.levels[keys.spans()[at].level].code_bounds(block);
        let (packed, width) = (stream.block(block), bounds.width());
        match (width, keys.map(at)) {
            (1, _) => {
                // What each packed value adds to the index, looked up instead of computed.
                let mut adds = [0u64; 256];
                for (raw, add) in adds.iter_mut().enumerate().take((bounds.max - bounds.base()) as usize + 1) {
                    let code = if bounds.has_null && raw == 0 { 0 } else { bounds.base() + raw as u32 };
                    *add = keys.digit(at, code).ok_or_else(missing)? * stride;
                }
                indices
                    .iter_mut()
                    .zip(rows.iter())
                    .for_each(|(index, &row)| *index += adds[usize::from(packed[usize::from(row)])]);
            }
            (_, Some(map)) => {
                for (index, &row) in indices.iter_mut().zip(rows.iter()) {
                    let code = code_at(packed, bounds, width, row.into());
                    *index += u64::from(map.digit(code)) * stride;
                }
            }
            (_, None) => {
                for (index, &row) in indices.iter_mut().zip(rows.iter()) {
                    let code = code_at(packed, bounds, width, row.into());
                    *index += keys.digit(at, code).ok_or_else(missing)? * stride;
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
        let (_, has_nulls) = values_of(&reading.index, *place, &reading.segment, block);
        if of.wanted == Wanted::default() && !has_nulls {
            groups.iter().for_each(|&group| into.totals.add_count(measure, group as usize));
            continue;
        }
        let packed = stream.block(block);
        let encoding = summary.encodings[block];
        let adds_up = of.wanted == (Wanted { sum: true, ..Wanted::default() });
        // Where groups are few against rows, packed values are added up first.
        if let (Encoding::Integers { base, width: width @ (1 | 2 | 4), scale }, true) = (encoding, adds_up)
            && !into.keys.is_sparse()
            && into.keys.places() <= rows.len()
        {
            sums.clear();
            sums.resize(into.keys.places(), (0, 0));
            match width {
                1 => tally(rows, groups, has_nulls, sums, |row| raw_at(packed, 1, row)),
                2 => tally(rows, groups, has_nulls, sums, |row| raw_at(packed, 2, row)),
                _ => tally(rows, groups, has_nulls, sums, |row| raw_at(packed, 4, row)),
            }
            for (group, &(count, sum)) in sums.iter().enumerate() {
                let sums = filter::PackedSums { count, sum: sum.into(), squares: 0, squares_carry: 0, min: 0, max: 0 };
                into.totals.add_packed(measure, group, &sums, base, scale);
            }
            continue;
        }
        if let (Encoding::Integers { base, width, scale }, true) = (encoding, adds_up) {
            let values = rows.iter().zip(groups.iter());
            let values = values.map(|(&row, &group)| (group, raw_at(packed, width.into(), row.into())));
            match has_nulls {
                true => into.totals.add_each_packed(measure, values.filter(|(_, raw)| *raw != 0), base, scale),
                false => into.totals.add_each_packed(measure, values, base, scale),
            }
            continue;
        }
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

/// Adds up packed values of rows by their groups. Where there are NULLs, 0 is one.
fn tally(rows: &[u16], groups: &[u32], has_nulls: bool, sums: &mut [(u64, u64)], raw: impl Fn(usize) -> u64) {
    for (&row, &group) in rows.iter().zip(groups) {
        let raw = raw(row.into());
        let (count, sum) = &mut sums[group as usize];
        *count += u64::from(!has_nulls || raw != 0);
        // At most 8192 times 2^32.
        *sum += raw;
    }
}

#[inline(always)]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::pack_codes;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_filter_keeps_the_rows_whose_codes_are_in_its_set(
            span in prop::sample::select(vec![2u32, 200, 40_000, 100_000, 2_000_000]),
            seeds in prop::collection::vec(any::<u32>(), 1..4_000),
            nulls: bool,
            share in 1u32..10,
            every in prop::sample::select(vec![1usize, 3, 90]),
            range in prop::option::of((0u32..400, 0u32..400)),
        ) {
            let codes: Vec<u32> = seeds.iter().map(|seed| if nulls && seed % 7 == 0 { 0 } else { 150 + seed % span }).collect();
            let kept = |code: &u32| code.wrapping_mul(0x9E37_79B9) >> 16 & 0xF < share;
            // Ranges also lie below all codes, or above.
            let set = match range {
                Some((low, length)) => CodeSet::of_range(low, low + length),
                None => CodeSet::of_codes(codes.iter().copied().filter(kept).chain([1, 150 + span / 2]).collect()),
            };
            let bounds = CodeBounds::of(&codes);
            let mut packed = Vec::new();
            pack_codes(&codes, bounds, &mut packed);
            let mut mask = Mask::all(codes.len());
            mask.retain(|row| row % every == 0);
            filter_codes(&packed, bounds, &set, &mut mask, &mut Vec::new());
            let expected: Vec<usize> =
                (0..codes.len()).filter(|row| row % every == 0 && set.contains(codes[*row])).collect();
            prop_assert_eq!(mask.rows().collect::<Vec<_>>(), expected);
        }
    }
}
