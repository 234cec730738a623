//! Packed keys, codes and measures of a segment's blocks, unpacked row by row or held in memory as streams.

use super::{BlockIndex, Segment};
use crate::context::Slot;
use crate::layout::{BLOCK_ROWS, STRIPE_BLOCKS};
use crate::packed::{PackedStream, key_width, unpack_codes, unpack_keys};
use alluvia_types::{ColumnId, Result};
use arrow::array::AsArray;
use arrow::datatypes::UInt32Type;
use std::ops::Range;
use std::sync::Arc;

/// How many values of a measure a block has, and whether it has NULLs beside them.
pub(crate) fn values_of(index: &BlockIndex, measure: usize, segment: &Segment, block: usize) -> (u64, bool) {
    let count = index.table.measures[measure].1.counts.as_primitive::<UInt32Type>().value(block);
    let rows = segment.block_rows(block);
    (count.into(), u64::from(count) < rows.end - rows.start)
}

impl Segment {
    /// The codes of a block at one level, counted over all dimensions in the definition's order.
    pub fn codes(&self, level: usize, block: usize) -> Result<Vec<u32>> {
        let mut codes = Vec::with_capacity(BLOCK_ROWS);
        self.codes_into(&*self.index()?, level, block, self.block_rows(block), &mut codes)?;
        Ok(codes)
    }

    /// The keys of some blocks, one after the other.
    pub fn keys(&self, blocks: Range<usize>) -> Result<Vec<u128>> {
        let index = self.index()?;
        let rows: u64 = blocks.clone().map(|block| self.block_rows(block)).map(|rows| rows.end - rows.start).sum();
        let mut keys = Vec::with_capacity(rows as usize);
        for block in blocks {
            self.keys_into(&index, block, self.block_rows(block), &mut keys)?;
        }
        Ok(keys)
    }

    /// The rows whose keys lie in `low..=high`, counted in key order: those of a banded segment lie elsewhere within
    /// their blocks.
    pub fn rows_in(&self, low: u128, high: u128) -> Result<Range<u64>> {
        if self.meta.rows == 0 || low > high || high < self.meta.key_min || low > self.meta.key_max {
            return Ok(0..0);
        }
        let start = if low <= self.meta.key_min { 0 } else { self.rows_where(|key| key < low)? };
        let end = if high >= self.meta.key_max { self.meta.rows } else { self.rows_where(|key| key <= high)? };
        Ok(start..end.max(start))
    }

    /// How many rows, from the first on, have keys of which `before` holds; it holds up to some key and not from there.
    fn rows_where(&self, before: impl Fn(u128) -> bool) -> Result<u64> {
        let index = self.index()?;
        // The last block that starts with such a key holds the boundary.
        let blocks = index.table.key_first.partition_point(|&key| before(key));
        let Some(block) = blocks.checked_sub(1) else { return Ok(0) };
        let rows = self.block_rows(block);
        if before(index.table.key_last[block]) {
            return Ok(rows.end);
        }
        let mut keys = Vec::new();
        self.keys_into(&index, block, rows.clone(), &mut keys)?;
        Ok(rows.start + keys.iter().filter(|&&key| before(key)).count() as u64)
    }

    /// Appends the keys of some rows of a block.
    pub(crate) fn keys_into(
        &self,
        index: &BlockIndex,
        block: usize,
        rows: Range<u64>,
        out: &mut Vec<u128>,
    ) -> Result<()> {
        let table = &index.table;
        let (first, last) = (table.key_first[block], table.key_last[block]);
        let width = key_width(first, last);
        let packed = self.packed(index, 0, block, &rows, width)?;
        unpack_keys(&packed, width, first, (rows.end - rows.start) as usize, out);
        Ok(())
    }

    /// Appends the codes of some rows of a block.
    pub(crate) fn codes_into(
        &self,
        index: &BlockIndex,
        level: usize,
        block: usize,
        rows: Range<u64>,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let bounds = index.table.levels[level].code_bounds(block);
        let packed = self.packed(index, 1 + level, block, &rows, bounds.width())?;
        unpack_codes(&packed, bounds, (rows.end - rows.start) as usize, out);
        Ok(())
    }

    /// All packed codes of a level, held in memory while there is room.
    pub(crate) fn level_stream(&self, level: usize) -> Result<Arc<PackedStream>> {
        self.stream(level)
    }

    /// All packed values of a measure, by its place among the segment's measures.
    pub(crate) fn measure_stream(&self, measure: usize) -> Result<Arc<PackedStream>> {
        self.stream(self.index()?.table.levels.len() + measure)
    }

    fn stream(&self, at: usize) -> Result<Arc<PackedStream>> {
        let index = self.index()?;
        let side = &self.files()?.side;
        let streams = self.streams.get_or_init(|| (1..side.streams()).map(|_| Arc::default()).collect());
        Slot::get(&streams[at], &self.context.pool, || {
            let mut starts = Vec::with_capacity(self.blocks() + 1);
            let mut bytes = Vec::new();
            for stripe in 0..self.blocks().div_ceil(STRIPE_BLOCKS) {
                let first = stripe * STRIPE_BLOCKS;
                let offset = bytes.len();
                let whole = index.stripes.stream(&index.table, self.meta.rows, stripe, 1 + at);
                for block in first..(first + STRIPE_BLOCKS).min(self.blocks()) {
                    let range = index.stripes.block(&index.table, self.meta.rows, block, 1 + at);
                    starts.push(offset + (range.start - whole.start) as usize);
                }
                bytes.extend_from_slice(&self.diagnosed(side.packed(whole, 1 + at, first))?);
            }
            starts.push(bytes.len());
            let size = (bytes.len() + 8 * starts.len()) as u64;
            Ok((PackedStream::new(bytes, starts), size))
        })
    }

    /// The packed values of a block of a measure; `None` if the column was no measure when the segment was written.
    pub(crate) fn measure(&self, column: ColumnId, block: usize) -> Result<Option<bytes::Bytes>> {
        let index = self.index()?;
        let Some(at) = index.table.measures.iter().position(|(id, _)| *id == column) else { return Ok(None) };
        let width = index.table.measures[at].1.encodings[block].width();
        let stream = 1 + index.table.levels.len() + at;
        self.packed(&index, stream, block, &self.block_rows(block), width).map(Some)
    }

    fn packed(
        &self,
        index: &BlockIndex,
        stream: usize,
        block: usize,
        rows: &Range<u64>,
        width: usize,
    ) -> Result<bytes::Bytes> {
        if width == 0 {
            return Ok(bytes::Bytes::new());
        }
        let whole = index.stripes.block(&index.table, self.meta.rows, block, stream);
        let first = self.block_rows(block).start;
        let start = whole.start + (rows.start - first) * width as u64;
        let end = start + (rows.end - rows.start) * width as u64;
        self.diagnosed(self.files()?.side.packed(start..end, stream, block))
    }
}
