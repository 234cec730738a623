//! The rows of a segment whose values outweigh all others: they are never drawn, but counted exactly.
//!
//! Invariants:
//! - A measure's heavy rows are those of a segment whose values are larger in size than one limit. The limit depends on the segment's
//!   values alone, never on weights: so what is drawn of the others is as random as before.
//! - Where heavy rows would not make up a large part of the sum of squares there are none: then the limit is infinite.
//!
//! Of a lognormal of sigma 2, one row in 256 has nine tenths of the sum of squares: without it a tenth of the sample gives the same error,
//! and the intervals need not allow for rows that they have not seen. Finding heavy rows takes one pass over the values, when a measure is first
//! estimated; that of most measures is spared by what summaries say of their extremes.

use super::moments::value_of;
use crate::answer::{code_at, exact_bounds, is_special, values_of};
use crate::segment::{BlockIndex, Segment};
use crate::side::{Encoding, powi};
use alluvia_types::Result;
use arrow::array::{Array, AsArray};
use arrow::datatypes::{Decimal256Type, Float64Type};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// At most one row in so many is heavy.
const ROWS_PER_HEAVY: u64 = 256;
/// Heavy rows have at least this share of the sum of squares.
const SHARE_MIN: f64 = 0.3;

/// The heavy rows of a measure in a segment.
#[derive(Debug)]
pub(crate) struct Heavy {
    /// Values beyond it in size are heavy.
    pub(crate) limit: f64,
    /// Ascending.
    rows: Vec<u32>,
    values: Vec<f64>,
    /// The heavy rows' codes by level, once they were asked for.
    codes: Vec<OnceLock<Vec<u32>>>,
}

impl Heavy {
    /// Of the measure at a place.
    pub(crate) fn new(segment: &Arc<Segment>, measure: usize) -> Result<Heavy> {
        let index = segment.index()?;
        let none = || Heavy { limit: f64::INFINITY, rows: Vec::new(), values: Vec::new(), codes: Vec::new() };
        let most = (segment.meta().rows / ROWS_PER_HEAVY) as usize;
        if most == 0 || !may_outweigh(&index, measure, segment.blocks(), most as f64) {
            return Ok(none());
        }
        // Blocks with NaN or infinities are always read exactly.
        let summary = &index.table.measures[measure].1;
        let blocks = || (0..segment.blocks()).filter(|&block| !is_special(summary, block));
        let mut largest = Largest::new(most);
        each_value(segment, measure, blocks(), |_, value| largest.push(value.abs()))?;
        let Some(limit) = largest.limit() else { return Ok(none()) };
        let (mut rows, mut values) = (Vec::with_capacity(most), Vec::with_capacity(most));
        each_value(segment, measure, blocks(), |row, value| {
            if value.abs() > limit {
                rows.push(row as u32);
                values.push(value);
            }
        })?;
        let codes = index.table.levels.iter().map(|_| OnceLock::new()).collect();
        Ok(Heavy { limit, rows, values, codes })
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Places of the heavy rows among some rows of the segment.
    pub(crate) fn places(&self, rows: Range<u64>) -> Range<usize> {
        let before = |end: u64| self.rows.partition_point(|&row| u64::from(row) < end);
        before(rows.start)..before(rows.end)
    }

    /// Their rows.
    pub(crate) fn rows(&self, places: Range<usize>) -> &[u32] {
        &self.rows[places]
    }

    /// Their values.
    pub(crate) fn values(&self, places: Range<usize>) -> &[f64] {
        &self.values[places]
    }

    /// The codes of all heavy rows at a level.
    pub(crate) fn codes(&self, segment: &Segment, level: usize) -> Result<&[u32]> {
        let slot = &self.codes[level];
        if let Some(codes) = slot.get() {
            return Ok(codes);
        }
        let (index, stream) = (segment.index()?, segment.level_stream(level)?);
        let code = |&row: &u32| {
            let block = row as usize / crate::layout::BLOCK_ROWS;
            let bounds = index.table.levels[level].code_bounds(block);
            code_at(stream.block(block), bounds, bounds.width(), row as usize % crate::layout::BLOCK_ROWS)
        };
        Ok(slot.get_or_init(|| self.rows.iter().map(code).collect()))
    }

    /// Bytes in memory once all codes were asked for.
    pub(crate) fn bytes(&self) -> u64 {
        (self.rows.len() * (4 + 8 + 4 * self.codes.len())) as u64
    }
}

/// The largest of sizes that come one by one: no more than twice as many as are wanted are held at a time.
struct Largest {
    most: usize,
    held: Vec<f64>,
    /// Sizes up to this change nothing: as many as are wanted, and one more, are held that are no smaller.
    floor: f64,
    /// Of all sizes.
    squares: f64,
}

impl Largest {
    /// The `most` largest.
    fn new(most: usize) -> Largest {
        Largest { most, held: Vec::with_capacity(2 * (most + 1)), floor: f64::NEG_INFINITY, squares: 0.0 }
    }

    #[inline]
    fn push(&mut self, size: f64) {
        self.squares += size * size;
        if size <= self.floor {
            return;
        }
        self.held.push(size);
        if self.held.len() == 2 * (self.most + 1) {
            self.shrink();
        }
    }

    /// Keeps the largest, and one more.
    fn shrink(&mut self) {
        if self.held.len() > self.most {
            self.held.select_nth_unstable_by(self.most, |a, b| b.total_cmp(a));
            self.held.truncate(self.most + 1);
            self.floor = self.held[self.most];
        }
    }

    /// The size that those are beyond which outweigh all others; `None` if they do not, or there are no others.
    fn limit(mut self) -> Option<f64> {
        self.shrink();
        if self.held.len() <= self.most {
            return None;
        }
        let limit = self.held[self.most];
        let heavy: f64 = self.held.iter().filter(|&&size| size > limit).map(|size| size * size).sum();
        (heavy >= SHARE_MIN * self.squares).then_some(limit)
    }
}

/// Whether so many rows of the largest size could have a large share of the sum of squares.
fn may_outweigh(index: &BlockIndex, measure: usize, blocks: usize, most: f64) -> bool {
    let (column, summary) = &index.table.measures[measure];
    let wide = |array: &dyn Array, block: usize| match array.as_primitive_opt::<Float64Type>() {
        Some(array) => array.is_valid(block).then(|| array.value(block)),
        None => {
            let array = array.as_primitive_opt::<Decimal256Type>()?;
            array.is_valid(block).then(|| array.value(block).to_i128()).flatten().map(|value| value as f64)
        }
    };
    let (mut squares, mut largest) = (0.0, 0.0f64);
    for block in (0..blocks).filter(|&block| !is_special(summary, block)) {
        let of_block = wide(&*summary.squares, block).unwrap_or(f64::NAN);
        squares += of_block;
        // Without bounds no value is larger than the root of all squares.
        let bound = match &summary.floats {
            Some(floats) => wide(&*floats.mins, block).zip(wide(&*floats.maxs, block)),
            None => exact_bounds(index, *column, block).map(|(min, max)| (min as f64, max as f64)),
        };
        largest = largest.max(bound.map_or(of_block, |(min, max)| min.abs().max(max.abs()).powi(2)));
    }
    // Squares that are not known, or not finite, make no strata.
    squares.is_finite() && most * largest >= SHARE_MIN * squares
}

/// Calls `each` with all rows of some blocks and their values, NULL as 0.
pub(crate) fn each_value(
    segment: &Segment,
    measure: usize,
    blocks: impl Iterator<Item = usize>,
    mut each: impl FnMut(usize, f64),
) -> Result<()> {
    let (index, stream) = (segment.index()?, segment.measure_stream(measure)?);
    let summary = &index.table.measures[measure].1;
    for block in blocks {
        let (count, has_nulls) = values_of(&index, measure, segment, block);
        let rows = segment.block_rows(block);
        let (first, rows) = (rows.start as usize, (rows.end - rows.start) as usize);
        match count {
            0 => (first..first + rows).for_each(|row| each(row, 0.0)),
            _ => unpack(stream.block(block), summary.encodings[block], has_nulls, rows, |row, value| {
                each(first + row, value);
            }),
        }
    }
    Ok(())
}

/// Calls `each` with all rows of a block and what [`value_of`] says of them: a pass over all values is what the first estimate waits for.
fn unpack(packed: &[u8], encoding: Encoding, has_nulls: bool, rows: usize, mut each: impl FnMut(usize, f64)) {
    match encoding {
        Encoding::Integers { base, width, scale } => {
            let unit = powi(scale);
            let mut integer = |row: usize, raw: u64| {
                let value = match base.checked_add_unsigned(raw) {
                    Some(value) => value as f64,
                    None => (i128::from(base) + i128::from(raw)) as f64,
                };
                each(row, if has_nulls && raw == 0 { 0.0 } else { value / unit });
            };
            let rows = 0..rows;
            match width {
                0 => rows.for_each(|row| integer(row, 0)),
                1 => rows.zip(packed).for_each(|(row, &raw)| integer(row, raw.into())),
                2 => rows
                    .zip(packed.as_chunks::<2>().0)
                    .for_each(|(row, &raw)| integer(row, u16::from_le_bytes(raw).into())),
                4 => rows
                    .zip(packed.as_chunks::<4>().0)
                    .for_each(|(row, &raw)| integer(row, u32::from_le_bytes(raw).into())),
                _ => rows.zip(packed.as_chunks::<8>().0).for_each(|(row, &raw)| integer(row, u64::from_le_bytes(raw))),
            }
        }
        Encoding::Floats if !has_nulls => {
            let values = packed.as_chunks::<8>().0.iter().map(|&value| f64::from_le_bytes(value));
            (0..rows).zip(values).for_each(|(row, value)| each(row, value));
        }
        Encoding::Floats | Encoding::Wide => {
            (0..rows).for_each(|row| each(row, value_of(packed, encoding, has_nulls, row)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All sizes at once.
    fn limit_of(sizes: &[f64], most: usize) -> Option<f64> {
        let mut sorted = sizes.to_vec();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let limit = *sorted.get(most)?;
        let squares = |sizes: &mut dyn Iterator<Item = &f64>| sizes.map(|size| size * size).sum::<f64>();
        let heavy = squares(&mut sorted.iter().filter(|&&size| size > limit));
        (heavy >= SHARE_MIN * squares(&mut sizes.iter())).then_some(limit)
    }

    proptest! {
        #[test]
        fn blocks_are_unpacked_as_rows_are(
            bytes in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 16 * 20),
            base in prop_oneof![-300..300i64, Just(i64::MAX - 70), any::<i64>()],
            (kind, scale, has_nulls, rows) in (0usize..7, 0u8..=6, any::<bool>(), 0usize..=20),
        ) {
            let encoding = match [0u8, 1, 2, 4, 8].get(kind) {
                Some(&width) => Encoding::Integers { base, width, scale },
                None if kind == 5 => Encoding::Floats,
                None => Encoding::Wide,
            };
            let packed = &bytes[..rows * encoding.width()];
            let mut found = Vec::new();
            unpack(packed, encoding, has_nulls, rows, |row, value| found.push((row, value.to_bits())));
            let expected = (0..rows).map(|row| (row, value_of(packed, encoding, has_nulls, row).to_bits()));
            prop_assert_eq!(found, expected.collect::<Vec<_>>());
        }

        #[test]
        fn the_largest_are_found_without_holding_all(
            // Squares of which add up exactly, with many ties.
            sizes in prop::collection::vec((0u32..12, 0u32..6), 0..400),
            most in 1usize..40,
        ) {
            let sizes: Vec<f64> = sizes.into_iter().map(|(size, power)| f64::from(size) * f64::from(1 << power)).collect();
            let mut largest = Largest::new(most);
            for &size in &sizes {
                largest.push(size);
                prop_assert!(largest.held.len() <= 2 * (most + 1) && largest.held.capacity() == 2 * (most + 1));
            }
            prop_assert_eq!(largest.limit(), limit_of(&sizes, most));
        }
    }
}
