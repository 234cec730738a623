//! The Parquet half of a segment.
//!
//! Invariants:
//! - Every column's pages end where blocks end. A block of very long values may take several pages, and so does a block of a banded segment
//!   of what is compressed: a page is unpacked as a whole, and a sample reads only the first rows of each block.
//! - Row groups hold [`ROW_GROUP_ROWS`] rows; both page indexes are written for every column, except the column index of a
//!   float column chunk with a NaN, which Parquet's bounds cannot express.
//! - The file's key-value metadata says which segment of which table it is.
//!
//! Text and binary are encoded here (see [`bytes_column`]); fixed-width columns by the `parquet` crate, with an encoding
//! chosen once per file by the first rows and how many are expected (see [`choose`]).

mod bytes_column;
mod choose;
mod codec;
mod dictionary;
mod hybrid;
mod input;
mod rows;

pub(crate) use choose::Expected;
pub(crate) use input::{ParquetInput, read_error};
pub(crate) use rows::RowReader;

use crate::chunk::CodedColumn;
use crate::layout::{BLOCK_ROWS, ROW_GROUP_ROWS};
use crate::summary::SummaryBuilder;
use alluvia_storage::{CheckedWriter, FileChecks};
use alluvia_types::{Error, Result};
use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use bytes_column::BytesColumn;
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnDescPtr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes the Parquet file of a segment and hands what it learns to the summaries.
pub(crate) struct ParquetWriter {
    path: PathBuf,
    file: SerializedFileWriter<CheckedWriter>,
    /// Its column writers end a page with each block.
    factory: ArrowRowGroupWriterFactory,
    /// Of a banded segment: its column writers end a page after [`BANDED_PAGE_ROWS`].
    banded: Option<ArrowRowGroupWriterFactory>,
    columns: Vec<Column>,
    group_rows: usize,
    groups: usize,
}

/// Some of a column's rows.
pub(crate) enum Piece<'a> {
    Values(ArrayRef),
    /// Their codes.
    Codes(&'a CodedColumn, &'a [u32]),
}

impl Piece<'_> {
    fn len(&self) -> usize {
        match self {
            Piece::Values(values) => values.len(),
            Piece::Codes(_, codes) => codes.len(),
        }
    }
}

enum Column {
    Bytes(Box<BytesColumn>),
    /// The writer of the current row group, and whether the group holds a NaN.
    Fixed {
        field: FieldRef,
        writer: Option<Box<ArrowColumnWriter>>,
        saw_nan: bool,
        is_compressed: bool,
    },
}

/// Rows of a page of what is compressed of a banded segment.
const BANDED_PAGE_ROWS: usize = BLOCK_ROWS / 8;

impl ParquetWriter {
    /// Starts the file. Encodings are chosen by what is expected. With `in_blocks`, as of a banded segment, whole blocks are written at a
    /// time, and pages of some of their bands are made of what is compressed.
    pub(crate) fn create(
        file: CheckedWriter,
        path: &Path,
        schema: SchemaRef,
        expected: Expected<'_>,
        metadata: Vec<KeyValue>,
        in_blocks: bool,
    ) -> Result<ParquetWriter> {
        let failed = |error: ParquetError| write_error(path, error);
        let parquet_schema = ArrowSchemaConverter::new().schema_root("alluvia").convert(&schema).map_err(failed)?;
        let root = || parquet_schema.root_schema_ptr();
        let properties = Arc::new(choose::properties(&schema, expected, metadata, BLOCK_ROWS));
        let file = SerializedFileWriter::new(file, root(), Arc::clone(&properties)).map_err(failed)?;
        let factory = ArrowRowGroupWriterFactory::new(&file, Arc::clone(&schema));
        let is_compressed = |descr: &ColumnDescPtr| properties.compression(descr.path()) != Compression::UNCOMPRESSED;
        let compresses = file.schema_descr().columns().iter().any(is_compressed);
        // How many rows a page has is said of a file and not of a column: the factory of another file, which nobody keeps, has it its way.
        let banded = if in_blocks && compresses {
            let properties = choose::properties(&schema, expected, Vec::new(), BANDED_PAGE_ROWS);
            let other = SerializedFileWriter::new(std::io::sink(), root(), Arc::new(properties)).map_err(failed)?;
            Some(ArrowRowGroupWriterFactory::new(&other, Arc::clone(&schema)))
        } else {
            None
        };
        let prose_rows = if in_blocks { BANDED_PAGE_ROWS } else { BLOCK_ROWS };
        let column = |((field, descr), sample): ((&FieldRef, &ColumnDescPtr), &ArrayRef)| {
            Ok(match field.data_type() {
                DataType::Utf8View | DataType::BinaryView => {
                    let is_text = *field.data_type() == DataType::Utf8View;
                    let prose = choose::is_prose(sample);
                    let prose = prose.then_some(prose_rows);
                    let column = BytesColumn::new(Arc::clone(descr), field.is_nullable(), is_text, prose)?;
                    Column::Bytes(Box::new(column))
                }
                _ => {
                    let is_compressed = is_compressed(descr);
                    Column::Fixed { field: Arc::clone(field), writer: None, saw_nan: false, is_compressed }
                }
            })
        };
        let fields = schema.fields().iter().zip(file.schema_descr().columns());
        let columns = fields.zip(expected.sample).map(column).collect::<Result<_, ParquetError>>().map_err(failed)?;
        Ok(ParquetWriter { path: path.into(), file, factory, banded, columns, group_rows: 0, groups: 0 })
    }

    /// Bytes written, and those of pages that wait for their row group's end.
    pub(crate) fn bytes(&self) -> u64 {
        let waiting = self.columns.iter().map(|column| match column {
            Column::Bytes(column) => column.bytes(),
            Column::Fixed { writer, .. } => writer.as_ref().map_or(0, |writer| writer.get_estimated_total_bytes()),
        });
        (self.file.bytes_written() + waiting.sum::<usize>()) as u64
    }

    /// Takes in rows of the current block, the first of them its row `place`.
    pub(crate) fn write(&mut self, rows: &[Piece<'_>], place: usize, summaries: &mut SummaryBuilder) -> Result<()> {
        self.write_columns(rows, place, summaries).map_err(|error| write_error(&self.path, error))?;
        self.group_rows += rows.first().map_or(0, Piece::len);
        Ok(())
    }

    fn write_columns(
        &mut self,
        rows: &[Piece<'_>],
        place: usize,
        summaries: &mut SummaryBuilder,
    ) -> Result<(), ParquetError> {
        if self.group_rows == 0 && place == 0 {
            self.open_group()?;
        }
        for (at, (column, piece)) in self.columns.iter_mut().zip(rows).enumerate() {
            match (column, piece) {
                (Column::Bytes(column), Piece::Values(values)) => column.write(values)?,
                (Column::Bytes(column), Piece::Codes(coded, codes)) => column.write_codes(coded, codes)?,
                (Column::Fixed { field, .. }, Piece::Codes(..)) => {
                    return Err(ParquetError::General(format!("codes in {}, which is not text", field.name())));
                }
                (Column::Fixed { field, writer, .. }, Piece::Values(values)) => {
                    let writer = writer.as_mut().expect("a row group is open");
                    for leaf in compute_leaves(field, values)? {
                        writer.write(&leaf)?;
                    }
                    summaries.fixed(at, values.as_ref(), place);
                }
            }
        }
        Ok(())
    }

    fn open_group(&mut self) -> Result<(), ParquetError> {
        let writers = |factory: &ArrowRowGroupWriterFactory| factory.create_column_writers(self.groups);
        let of_blocks = writers(&self.factory)?;
        let mut of_bands = self.banded.as_ref().map(writers).transpose()?.unwrap_or_default().into_iter();
        for (column, of_block) in self.columns.iter_mut().zip(of_blocks) {
            let of_band = of_bands.next();
            if let Column::Fixed { writer, saw_nan, is_compressed, .. } = column {
                let new = of_band.filter(|_| *is_compressed).unwrap_or(of_block);
                (*writer, *saw_nan) = (Some(Box::new(new)), false);
            }
        }
        Ok(())
    }

    /// Ends the current block, which is not empty.
    pub(crate) fn end_block(&mut self, summaries: &mut SummaryBuilder) -> Result<()> {
        for (at, column) in self.columns.iter_mut().enumerate() {
            match column {
                Column::Bytes(column) => {
                    let (nulls, bounds) = column.end_block().map_err(|error| write_error(&self.path, error))?;
                    summaries.bytes(at, nulls, bounds.as_ref().map(|(min, max)| (min.as_slice(), max.as_slice())));
                }
                Column::Fixed { saw_nan, .. } => *saw_nan |= summaries.saw_nan(at),
            }
        }
        if self.group_rows >= ROW_GROUP_ROWS {
            self.end_group().map_err(|error| write_error(&self.path, error))?;
        }
        Ok(())
    }

    fn end_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for column in &mut self.columns {
            match column {
                Column::Bytes(column) => {
                    let (bytes, close) = column.end_group()?;
                    group.append_column(&bytes, close)?;
                }
                Column::Fixed { writer, saw_nan, .. } => {
                    let mut chunk = writer.take().expect("a row group is open").close()?;
                    if *saw_nan {
                        // Parquet's bounds leave NaN out, but a predicate may not: better none than wrong ones.
                        let close = chunk.close_mut();
                        close.column_index = None;
                        close.metadata = close.metadata.clone().into_builder().clear_statistics().build()?;
                    }
                    chunk.append_to_row_group(&mut group)?;
                }
            }
        }
        group.close()?;
        self.group_rows = 0;
        self.groups += 1;
        Ok(())
    }

    /// Writes the footer and syncs the file; the caller syncs the directory. Every block has been ended.
    pub(crate) fn finish(mut self) -> Result<FileChecks> {
        let path = std::mem::take(&mut self.path);
        if self.group_rows > 0 {
            self.end_group().map_err(|error| write_error(&path, error))?;
        }
        let file = self.file.into_inner().map_err(|error| write_error(&path, error))?;
        file.finish()
    }
}

/// A full disk stays a full disk on its way through the `parquet` crate.
fn write_error(path: &Path, error: ParquetError) -> Error {
    match error {
        ParquetError::External(source) => match source.downcast::<std::io::Error>() {
            Ok(io) => Error::io(path, "writing", &io),
            Err(other) => Error::internal(format!("writing {}: {other}", path.display())),
        },
        other => Error::internal(format!("writing {}: {other}", path.display())),
    }
}
