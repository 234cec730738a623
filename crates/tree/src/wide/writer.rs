//! Writing of one segment of wide rows and its ladder.

use super::held::{COPIES, Held};
use super::pending::Pending;
use super::{ColumnValues, RowAt};
use crate::chunk::{CodedColumn, RowChunk};
use crate::context::TreeContext;
use crate::layout::{BLOCK_ROWS, STRIPE_BLOCKS};
use crate::meta::SegmentMeta;
use crate::parquet_file::Piece;
use crate::writer::{LadderWriter, SegmentWriter};
use alluvia_types::Result;
use arrow::array::{Array, ArrayRef, new_empty_array};
use std::ops::Range;

/// Rows by which encodings are chosen, at least. So few tell little of how often values come again, but longer ones are hardly ever the same.
const SAMPLE_ROWS_MIN: usize = 8;

/// Writes one segment and its rungs column by column. Dropped before [`WideWriter::finish`], it removes its files.
pub struct WideWriter {
    ladder: LadderWriter,
    source: Source,
    segment: Pending,
    /// By rung, the thickest first.
    rungs: Vec<Pending>,
}

/// Where the values come from.
struct Source {
    inputs: Box<dyn ColumnValues>,
    /// By place among the table's columns.
    coded: Vec<Option<CodedColumn>>,
    /// Of values, in memory.
    bytes_max: usize,
}

impl WideWriter {
    /// Over a writer of whole rows that has none yet. Of columns that are `coded` nothing is read: the codes of rows say all.
    pub fn new(
        context: &TreeContext,
        ladder: LadderWriter,
        inputs: Box<dyn ColumnValues>,
        coded: Vec<CodedColumn>,
    ) -> WideWriter {
        let mut by_place: Vec<Option<CodedColumn>> = vec![None; inputs.widths().len()];
        for column in coded {
            let place = column.place;
            by_place[place] = Some(column);
        }
        let levels = ladder.segment.levels();
        let rungs = ladder.rungs.iter().map(|_| Pending::new(levels)).collect();
        let source = Source { inputs, coded: by_place, bytes_max: context.wide_bytes_max() };
        WideWriter { ladder, source, segment: Pending::new(levels), rungs }
    }

    /// Whether the rows of a block may come in bands: they are read in another order than they lie in, and that takes all of them in one
    /// column.
    pub fn can_be_banded(context: &TreeContext, inputs: &dyn ColumnValues) -> bool {
        group_blocks(inputs.widths(), context.wide_bytes_max()) > 0
    }

    /// Adds rows as [`LadderWriter::write`] does, of which the chunk has the hidden columns alone, or some others, too; `at` says where
    /// the values of each are.
    ///
    /// # Errors
    /// Those of reading them, and of writing.
    pub fn write(&mut self, chunk: &RowChunk, at: &[RowAt]) -> Result<()> {
        let before = self.segment.len() as u64 + self.ladder.segment.rows();
        self.segment.add(chunk, at, 0..chunk.len())?;
        for (pending, picked) in self.rungs.iter_mut().zip(self.ladder.pick(chunk, before)?) {
            pending.add(chunk, at, picked.iter().map(|&row| row as usize))?;
        }
        self.flush(false)
    }

    /// Writes what makes whole groups, or all that waits.
    fn flush(&mut self, is_last: bool) -> Result<()> {
        let rungs = self.ladder.rungs.iter_mut().map(|rung| &mut rung.writer).zip(&mut self.rungs);
        for (writer, pending) in std::iter::once((&mut self.ladder.segment, &mut self.segment)).chain(rungs) {
            let group = self.source.group_rows();
            while pending.len() >= group || (is_last && pending.len() > 0) {
                let rows = pending.take(group.min(pending.len()));
                self.source.write(writer, &rows)?;
            }
        }
        Ok(())
    }

    /// Ends the segment and its rungs: all files and their directory are synced when this returns.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn finish(mut self) -> Result<SegmentMeta> {
        self.flush(true)?;
        self.ladder.finish()
    }
}

/// Bytes of all columns of a row group, by those that are held while it is written: who asks for all columns has a whole row group.
const GROUP_SHARES: usize = 4;

/// As many blocks as fit in the widest column, up to a stripe; of several no more than a row group may have.
fn group_blocks(widths: &[usize], bytes_max: usize) -> usize {
    let widest = widths.iter().copied().max().unwrap_or(0).max(1);
    let row = widths.iter().sum::<usize>().max(1);
    let in_widest = bytes_max / COPIES / widest / BLOCK_ROWS;
    let in_group = (bytes_max.saturating_mul(GROUP_SHARES) / row / BLOCK_ROWS).max(1);
    let blocks = in_widest.min(in_group).min(STRIPE_BLOCKS);
    // The greatest power of two that is not above: groups do not cross the ends of stripes.
    if blocks == 0 { 0 } else { 1 << blocks.ilog2() }
}

impl Source {
    fn group_rows(&self) -> usize {
        group_blocks(self.inputs.widths(), self.bytes_max).max(1) * BLOCK_ROWS
    }

    fn write(&self, writer: &mut SegmentWriter, rows: &Pending) -> Result<()> {
        let columns = self.coded.len();
        let hidden = rows.hidden();
        let is_coded = |place: usize| self.coded[place].is_some();
        let mut held = Held::default();
        let mut values = |at: usize, range: Range<usize>| -> Result<Piece<'_>> {
            if at >= columns {
                return Ok(Piece::Values(hidden[at - columns].slice(range.start, range.len())));
            }
            match &self.coded[at] {
                Some(column) => Ok(Piece::Codes(column, &rows.codes.levels[column.level][range])),
                None => {
                    let held = held.values(self.inputs.as_ref(), &is_coded, self.bytes_max, at, range, &rows.at);
                    held.map(Piece::Values)
                }
            }
        };
        writer.write_columns(&rows.keys, &rows.codes, &hidden[0], &mut || self.sample(rows, &hidden), &mut values)
    }

    /// What encodings are chosen by, and about how many bytes a row has.
    fn sample(&self, rows: &Pending, hidden: &[ArrayRef; 2]) -> Result<(Vec<ArrayRef>, usize)> {
        let read: Vec<usize> = (0..self.coded.len()).filter(|&place| self.coded[place].is_none()).collect();
        let row_bytes: usize = read.iter().map(|&place| self.inputs.widths()[place]).sum();
        let count = (self.bytes_max / COPIES / row_bytes.max(1)).clamp(SAMPLE_ROWS_MIN, BLOCK_ROWS).min(rows.len());
        let mut values = self.inputs.values(&read, &rows.at[..count])?.into_iter();
        let mut sample = Vec::with_capacity(self.coded.len() + 2);
        for column in &self.coded {
            sample.extend(match column {
                Some(column) => Some(new_empty_array(&column.data_type())),
                None => values.next(),
            });
        }
        sample.extend(hidden.iter().map(|column| column.slice(0, count)));
        Ok((sample, row_bytes))
    }
}

impl std::fmt::Debug for WideWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WideWriter").field("ladder", &self.ladder).field("waiting", &self.segment.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_stripes_at_most_and_fit() {
        assert_eq!(group_blocks(&[8; 10], 256 << 20), STRIPE_BLOCKS);
        assert_eq!(group_blocks(&[8; 1_000], 256 << 20), STRIPE_BLOCKS);
        assert_eq!(group_blocks(&[8; 1_000], 20 << 20), 1, "a row group of all columns is a block");
        assert_eq!(group_blocks(&[8; 10_000], 20 << 20), 1);
        assert_eq!(group_blocks(&[100_000], 20 << 20), 0, "not even a block fits");
        assert_eq!(group_blocks(&[], 20 << 20), STRIPE_BLOCKS);
    }
}
