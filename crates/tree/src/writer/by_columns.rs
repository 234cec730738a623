//! A segment's rows, column by column: a row group at a time, of up to a stripe of the side file.
//!
//! Of a column no more is held than its own pages of that row group, so it does not matter how many columns there are.

use super::SegmentWriter;
use super::segment::Parquet;
use crate::layout::{BLOCK_ROWS, STRIPE_BLOCKS};
use crate::parquet_file::Piece;
use crate::summary::least_and_greatest;
use alluvia_space::LevelCodes;
use alluvia_types::{Error, Result};
use arrow::array::ArrayRef;
use std::ops::Range;

impl SegmentWriter {
    /// Adds rows, as [`SegmentWriter::write`] does: whole blocks, but for the last of the segment, which do not cross the end of a stripe.
    /// `values` gives some rows of a column, by its place in the file, one column after the other, each from its first row on; `sample` some
    /// of the first rows, and about how many bytes a row has.
    pub(crate) fn write_columns<'a>(
        &mut self,
        keys: &[u128],
        codes: &LevelCodes,
        versions: &ArrayRef,
        sample: &mut dyn FnMut() -> Result<(Vec<ArrayRef>, usize)>,
        values: &mut dyn FnMut(usize, Range<usize>) -> Result<Piece<'a>>,
    ) -> Result<()> {
        let (least, greatest) = least_and_greatest(keys);
        assert!(!keys.is_empty() && keys.len() <= STRIPE_BLOCKS * BLOCK_ROWS, "rows of a stripe");
        assert!(self.rows.is_multiple_of(BLOCK_ROWS as u64), "columns begin with a block");
        // What is written together of a rung of a banded segment may end within a block of that, whose rows are in no order of keys.
        let is_cut = self.is_banded && !self.in_blocks;
        assert!(is_cut || self.rows == 0 || least >= self.key_max, "chunks come in key order");
        assert!(self.is_banded || keys.is_sorted(), "a chunk's rows are in key order");
        self.see_versions(Some(versions))?;
        if self.rows == 0 {
            let (sample, row_bytes) = sample()?;
            self.open_parquet(sample, row_bytes)?;
            (self.key_min, self.key_max) = (least, greatest);
        }
        (self.key_min, self.key_max) = (self.key_min.min(least), self.key_max.max(greatest));
        let (Parquet::Open(parquet), Some(summaries), Some(side)) =
            (&mut self.parquet, &mut self.summaries, &mut self.side)
        else {
            return Err(Error::internal("a segment was written to after it failed"));
        };
        let blocks: Vec<Range<usize>> =
            (0..keys.len()).step_by(BLOCK_ROWS).map(|start| start..(start + BLOCK_ROWS).min(keys.len())).collect();
        let of_block = |block: &Range<usize>| codes.levels.iter().map(|of| of[block.clone()].to_vec()).collect();
        let block_codes: Vec<Vec<Vec<u32>>> = blocks.iter().map(of_block).collect();
        let heavy = &mut self.heavy;
        parquet.write_group(&blocks, values, summaries, &mut |block, packed| {
            side.measure(packed);
            if let Some(finder) = heavy.get_mut(packed.measure) {
                finder.block(&packed.values, packed.packed_as, blocks[block].len(), &block_codes[block]);
            }
            side.end_columns()
        })?;
        for (block, codes) in blocks.iter().zip(&block_codes) {
            let keys = &keys[block.clone()];
            let bounds = summaries.end_block(keys, codes);
            side.keys(keys, codes, &bounds);
        }
        side.end_blocks(blocks.len())?;
        self.rows += keys.len() as u64;
        Ok(())
    }
}
