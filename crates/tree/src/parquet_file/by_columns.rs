//! A row group, column by column.

use super::{Column, ParquetWriter, Piece, intervals, write_error};
use crate::summary::{PackedMeasure, SummaryBuilder};
use alluvia_types::{Error, Result};
use arrow::datatypes::{Schema, SchemaRef};
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};
use std::ops::Range;
use std::sync::Arc;

/// Some rows of a column, by its place.
type Values<'v, 'a> = dyn FnMut(usize, Range<usize>) -> Result<Piece<'a>> + 'v;
/// What becomes of a block of a measure.
type Measured<'m> = dyn FnMut(usize, &PackedMeasure) -> Result<()> + 'm;

/// The writer of one column of a row group, of the file's root and Arrow schema: by a file that has this column alone, which nobody keeps.
/// A file's own writers come all at once, each with a megabyte of buffers and contexts of compression.
fn column_writer(
    root: &TypePtr,
    stored: &SchemaRef,
    properties: &WriterPropertiesPtr,
    at: usize,
    group: usize,
) -> std::result::Result<ArrowColumnWriter, ParquetError> {
    let field = Arc::clone(&root.get_fields()[at]);
    let alone = Arc::new(Type::group_type_builder(root.name()).with_fields(vec![field]).build()?);
    let file = SerializedFileWriter::new(std::io::sink(), alone, Arc::clone(properties))?;
    let stored = Arc::new(Schema::new(vec![Arc::clone(&stored.fields()[at])]));
    let writers = ArrowRowGroupWriterFactory::new(&file, stored).create_column_writers(group)?;
    writers.into_iter().next().ok_or_else(|| ParquetError::General("a column without a writer".to_owned()))
}

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
        let root = self.file.schema_descr().root_schema_ptr();
        let number = self.groups;
        let mut group = self.file.next_row_group().map_err(failed)?;
        for (at, column) in self.columns.iter_mut().enumerate() {
            if let Column::Fixed { writer, saw_nan, is_compressed, .. } = column {
                let properties = if *is_compressed { &self.short_properties } else { &self.properties };
                let new = column_writer(&root, &self.stored, properties, at, number).map_err(failed)?;
                (*writer, *saw_nan) = (Some(Box::new(new)), false);
            }
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
