//! Heavy rows: the rows of a segment whose values outweigh all others. Heavy rows are never drawn, but counted exactly.
//!
//! Invariants:
//! - A measure's heavy rows are those of a segment whose values are larger in size than one limit. The limit depends on
//!   the segment's values alone, never on weights: so what is drawn of the others is as random as before.
//! - Where heavy rows would not make up a large part of the sum of squares there are none: then the limit is infinite.
//! - What a merge writes of them ([`section`]) is what a pass over the segment's values finds ([`find`]).
//!
//! Of a lognormal of sigma 2, one row in 256 has nine tenths of the sum of squares: without it a tenth of the sample
//! gives the same error, and the intervals need not allow for rows that they have not seen. A pass over all values is
//! dearer than most exact answers, so what writes a ladder finds heavy rows on the way, with what estimates need of
//! them: values, codes, and sums over the rows beside them. Of a segment that was written without, they are found when
//! a measure is first estimated; the pass over most measures is spared by what summaries say of their extremes.

mod find;
mod section;
#[cfg(test)]
mod tests;
mod values;
mod verify;

pub(crate) use find::Finder;
pub(crate) use section::encode;
pub(crate) use values::each_value;
pub(crate) use verify::verify_heavy;

use crate::estimate::Known;
use crate::layout::BLOCK_ROWS;
use crate::packed::code_at;
use crate::segment::Segment;
use alluvia_types::Result;
use find::find;
use section::written;
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
    /// Blocks that have heavy rows, ascending, and what is known of their other rows.
    light: Vec<(u32, Known)>,
    /// The heavy rows' codes by level, where they were written; else once they were asked for.
    codes: Vec<OnceLock<Vec<u32>>>,
}

impl Heavy {
    /// Where none are.
    fn none() -> Heavy {
        Heavy { limit: f64::INFINITY, rows: Vec::new(), values: Vec::new(), light: Vec::new(), codes: Vec::new() }
    }

    /// Of these rows, which ascend; `light` says what is known of a block's other rows, `codes` has the rows' codes by
    /// level as far as they are known.
    fn new(
        limit: f64,
        rows: Vec<u32>,
        values: Vec<f64>,
        light: impl Fn(usize) -> Known,
        codes: Vec<OnceLock<Vec<u32>>>,
    ) -> Heavy {
        let light = blocks_of(&rows).into_iter().map(|block| (block, light(block as usize))).collect();
        Heavy { limit, rows, values, light, codes }
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

    /// What is known of the other rows of a block; `None` where none of its rows is heavy.
    pub(crate) fn light(&self, block: usize) -> Option<Known> {
        let at = self.light.binary_search_by_key(&(block as u32), |(block, _)| *block).ok()?;
        Some(self.light[at].1)
    }

    /// The codes of all heavy rows at a level.
    pub(crate) fn codes(&self, segment: &Segment, level: usize) -> Result<&[u32]> {
        let slot = &self.codes[level];
        if let Some(codes) = slot.get() {
            return Ok(codes);
        }
        let (index, stream) = (segment.index()?, segment.level_stream(level)?);
        let code = |&row: &u32| {
            let block = row as usize / BLOCK_ROWS;
            let bounds = index.table.levels[level].code_bounds(block);
            code_at(stream.block(block), bounds, bounds.width(), row as usize % BLOCK_ROWS)
        };
        Ok(slot.get_or_init(|| self.rows.iter().map(code).collect()))
    }

    /// Bytes in memory once all codes were asked for.
    pub(crate) fn bytes(&self) -> u64 {
        (self.rows.len() * (4 + 8 + 4 * self.codes.len()) + size_of_val(self.light.as_slice())) as u64
    }
}

/// The heavy rows of a measure of a segment, by its place: as they were written, or found now.
pub(crate) fn heavy_rows(segment: &Segment, measure: usize) -> Result<Arc<Heavy>> {
    segment.derived(measure, || {
        let heavy = match written(segment, measure)? {
            Some(heavy) => heavy,
            None => find(segment, measure)?,
        };
        let bytes = heavy.bytes();
        Ok((heavy, bytes))
    })
}

/// The blocks of rows that ascend.
fn blocks_of(rows: &[u32]) -> Vec<u32> {
    let mut blocks: Vec<u32> = rows.iter().map(|row| row / BLOCK_ROWS as u32).collect();
    blocks.dedup();
    blocks
}
