//! A row group, column by column.

use super::{Column, ParquetWriter, Piece, intervals, write_error};
use crate::summary::{PackedMeasure, SummaryBuilder};
use alluvia_types::{Error, Result};
use parquet::arrow::arrow_writer::compute_leaves;
use std::ops::Range;

/// Some rows of a column, by its place.
type Values<'v, 'a> = dyn FnMut(usize, Range<usize>) -> Result<Piece<'a>> + 'v;
/// What becomes of a block of a measure.
type Measured<'m> = dyn FnMut(usize, &PackedMeasure) -> Result<()> + 'm;

impl ParquetWriter {
    /// Writes these blocks as a row group of their own. Each column ends before the next one begins, and nothing of it stays but what the
    /// footer says.
    pub(crate) fn write_group(
        &mut self,
        blocks: &[Range<usize>],
        values: &mut Values<'_, '_>,
        summaries: &mut SummaryBuilder,
        measured: &mut Measured<'_>,
    ) -> Result<()> {
        assert_eq!(self.group_rows, 0, "rows and columns do not come into one row group");
        let path = self.path.clone();
        let failed = |error| write_error(&path, error);
        self.open_group().map_err(failed)?;
        let mut group = self.file.next_row_group().map_err(failed)?;
        for (at, column) in self.columns.iter_mut().enumerate() {
            for (number, block) in blocks.iter().enumerate() {
                for start in block.clone().step_by(self.page_rows) {
                    let piece = values(at, start..(start + self.page_rows).min(block.end))?;
                    match (&mut *column, piece) {
                        (Column::Bytes(column), Piece::Values(values)) => column.write(&values).map_err(failed)?,
                        (Column::Bytes(column), Piece::Codes(coded, codes)) => {
                            column.write_codes(coded, codes).map_err(failed)?;
                        }
                        (Column::Fixed { field, writer: Some(writer), .. }, Piece::Values(values)) => {
                            let stored = intervals::stored(&values).map_err(failed)?;
                            for leaf in compute_leaves(field, &stored).map_err(failed)? {
                                writer.write(&leaf).map_err(failed)?;
                            }
                            summaries.fixed(at, values.as_ref(), start - block.start);
                        }
                        (Column::Fixed { field, .. }, _) => {
                            return Err(Error::internal(format!("codes, or no writer, for {}", field.name())));
                        }
                    }
                }
                match column {
                    Column::Bytes(column) => {
                        let (nulls, bounds) = column.end_block().map_err(failed)?;
                        let bounds = bounds.as_ref().map(|(min, max)| (min.as_slice(), max.as_slice()));
                        summaries.bytes(at, nulls, bounds);
                    }
                    Column::Fixed { saw_nan, .. } => *saw_nan |= summaries.saw_nan(at),
                }
                if let Some(packed) = summaries.end_column(at) {
                    measured(number, &packed)?;
                }
            }
            summaries.release(at);
            column.end_group(&mut group).map_err(failed)?;
            column.release();
        }
        group.close().map_err(failed)?;
        self.groups += 1;
        Ok(())
    }
}
