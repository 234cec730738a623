//! The Parquet half of a segment.
//!
//! Invariants:
//! - Every column's pages end where blocks end. A block of very long values may take several pages, and so does a block of a banded segment
//!   of what is compressed: a page is unpacked as a whole, and a sample reads only the first rows of each block. In a table with a
//!   key every page is [`SHORT_PAGE_ROWS`] rows: whoever reads one row unpacks no more than these. Where rows are long, pages are
//!   shorter still ([`Bounds`]).
//! - Row groups hold [`ROW_GROUP_ROWS`] rows, or the blocks after which no more may wait in memory. Both page indexes are written for
//!   every column, except the column index of a float column chunk with a NaN, which Parquet's bounds cannot express.
//! - The file's key-value metadata says which segment of which table it is.
//!
//! Text and binary are encoded here (see [`bytes_column`]); fixed-width columns by the `parquet` crate, with an encoding
//! chosen once per file by the first rows and how many are expected (see [`choose`]).

mod by_columns;
mod bytes_column;
mod choose;
mod codec;
pub(crate) mod dictionary;
mod hybrid;
mod input;
mod intervals;
mod point;
mod rows;
mod spool;

pub(crate) use choose::Expected;
pub(crate) use input::{ParquetInput, read_error};
pub use intervals::intervals;
pub(crate) use point::{Decoded, DictionaryPage, PointColumn};
pub(crate) use rows::{ColumnReaders, RowReader};
pub(crate) use spool::Spool;

use crate::chunk::CodedColumn;
use crate::layout::{BLOCK_ROWS, ROW_GROUP_ROWS};
use crate::summary::SummaryBuilder;
use alluvia_storage::{CheckedWriter, FileChecks};
use alluvia_types::{Error, Result};
use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use bytes_column::BytesColumn;
use codec::Context;
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::ColumnDescPtr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes the Parquet file of a segment and hands what it learns to the summaries.
pub(crate) struct ParquetWriter {
    path: PathBuf,
    file: SerializedFileWriter<CheckedWriter>,
    /// Its column writers end a page with each block, or, where all pages are short, after [`SHORT_PAGE_ROWS`].
    factory: ArrowRowGroupWriterFactory,
    /// Where what is compressed alone has short pages: its column writers end them.
    compressed: Option<ArrowRowGroupWriterFactory>,
    /// What both are made of, for writers of single columns: the columns as Arrow has them, and how the one and the other are written.
    stored: SchemaRef,
    properties: WriterPropertiesPtr,
    short_properties: WriterPropertiesPtr,
    /// Rows of a page of what is not compressed.
    page_rows: usize,
    columns: Vec<Column>,
    group_rows: usize,
    groups: usize,
    /// Of a row group, in memory.
    group_bytes_max: usize,
}

/// What a writer holds at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds<'a> {
    /// Of a row group.
    pub(crate) group_bytes: usize,
    /// Bytes of a row, about.
    pub(crate) row_bytes: usize,
    /// Where the pages of long texts go that are more.
    pub(crate) spool: &'a Spool,
}

impl Bounds<'_> {
    /// Rows of a page at most, which divide a block's: whoever reads all columns holds a page of each.
    fn page_rows(self) -> usize {
        let rows = self.group_bytes / PAGES_OF_A_GROUP / self.row_bytes.max(1);
        // The greatest power of two that is not above.
        1 << rows.clamp(PAGE_ROWS_MIN, BLOCK_ROWS).ilog2()
    }
}

/// How many pages of all columns a row group has room for, at least, where rows are long.
const PAGES_OF_A_GROUP: usize = 1;
/// Rows of a page at least, but for the last: each costs some bytes of the page indexes.
const PAGE_ROWS_MIN: usize = 16;

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

/// Which pages are shorter than blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ShortPages {
    /// None.
    No,
    /// Those of what is compressed, as of a banded segment.
    Compressed,
    /// All, as in a table with a key.
    All,
}

/// Rows of a short page.
const SHORT_PAGE_ROWS: usize = BLOCK_ROWS / 8;

impl ParquetWriter {
    /// Starts the file. Encodings are chosen by what is expected. Where what is compressed alone has short pages, whole blocks are
    /// written at a time.
    pub(crate) fn create(
        file: CheckedWriter,
        path: &Path,
        schema: SchemaRef,
        expected: Expected<'_>,
        metadata: Vec<KeyValue>,
        short_pages: ShortPages,
        bounds: Bounds<'_>,
    ) -> Result<ParquetWriter> {
        let failed = |error: ParquetError| write_error(path, error);
        let stored = intervals::stored_schema(&schema);
        let converted = ArrowSchemaConverter::new().schema_root("alluvia").convert(&stored).map_err(failed)?;
        let root_schema = intervals::with_uuids(&converted, &schema).map_err(failed)?;
        let short_rows = SHORT_PAGE_ROWS.min(bounds.page_rows());
        let page_rows = if short_pages == ShortPages::All { short_rows } else { bounds.page_rows() };
        let root = || Arc::clone(&root_schema);
        let properties = Arc::new(choose::properties(&schema, expected, metadata, page_rows));
        let file = SerializedFileWriter::new(file, root(), Arc::clone(&properties)).map_err(failed)?;
        let factory = ArrowRowGroupWriterFactory::new(&file, Arc::clone(&stored));
        let is_compressed = |descr: &ColumnDescPtr| properties.compression(descr.path()) != Compression::UNCOMPRESSED;
        let compresses = file.schema_descr().columns().iter().any(is_compressed);
        // How many rows a page has is said of a file and not of a column: the factory of another file, which nobody keeps, has it its way.
        let (compressed, short_properties) = if short_pages == ShortPages::Compressed && compresses {
            let properties = Arc::new(choose::properties(&schema, expected, Vec::new(), short_rows));
            let other = SerializedFileWriter::new(std::io::sink(), root(), Arc::clone(&properties)).map_err(failed)?;
            (Some(ArrowRowGroupWriterFactory::new(&other, Arc::clone(&stored))), properties)
        } else {
            (None, Arc::clone(&properties))
        };
        let prose_rows = if short_pages == ShortPages::No { page_rows } else { short_rows };
        let context = Context::default();
        let column = |((field, descr), sample): ((&FieldRef, &ColumnDescPtr), &ArrayRef)| match field.data_type() {
            DataType::Utf8View | DataType::BinaryView => {
                let is_text = *field.data_type() == DataType::Utf8View;
                let prose = choose::is_prose(sample);
                let rows = if prose { prose_rows } else { page_rows };
                let column = BytesColumn::new(Arc::clone(descr), field.is_nullable(), is_text, prose, rows, &context);
                Column::Bytes(Box::new(column.spooling(bounds.spool)))
            }
            _ => {
                let is_compressed = is_compressed(descr);
                let field = field.as_ref().clone().with_data_type(intervals::stored_type(field.data_type()));
                Column::Fixed { field: Arc::new(field), writer: None, saw_nan: false, is_compressed }
            }
        };
        let fields = schema.fields().iter().zip(file.schema_descr().columns());
        let columns = fields.zip(expected.sample).map(column).collect();
        Ok(ParquetWriter {
            path: path.into(),
            file,
            factory,
            compressed,
            stored,
            properties,
            short_properties,
            page_rows,
            columns,
            group_rows: 0,
            groups: 0,
            group_bytes_max: bounds.group_bytes,
        })
    }

    /// Bytes of pages that wait for their row group's end.
    fn waiting(&self) -> usize {
        let waiting = self.columns.iter().map(|column| match column {
            Column::Bytes(column) => column.bytes(),
            Column::Fixed { writer, .. } => writer.as_ref().map_or(0, |writer| writer.get_estimated_total_bytes()),
        });
        waiting.sum()
    }

    /// Bytes written, and those of pages that wait for their row group's end.
    pub(crate) fn bytes(&self) -> u64 {
        (self.file.bytes_written() + self.waiting()) as u64
    }

    /// How many rows may be written next, where the block has `place` rows: so many that no page ends among them.
    pub(crate) fn room(&self, place: usize) -> usize {
        self.page_rows - place % self.page_rows
    }

    /// Takes in rows of the current block, the first of them its row `place`, no more than there is room for.
    pub(crate) fn write(&mut self, rows: &[Piece<'_>], place: usize, summaries: &mut SummaryBuilder) -> Result<()> {
        self.write_columns(rows, summaries, place).map_err(|error| write_error(&self.path, error))?;
        self.group_rows += rows.first().map_or(0, Piece::len);
        Ok(())
    }

    /// Remembers which columns of the row group hold a NaN, to judge by the block so far.
    fn see_nan(&mut self, summaries: &SummaryBuilder) {
        for (at, column) in self.columns.iter_mut().enumerate() {
            if let Column::Fixed { saw_nan, .. } = column {
                *saw_nan |= summaries.saw_nan(at);
            }
        }
    }

    fn write_columns(
        &mut self,
        rows: &[Piece<'_>],
        summaries: &mut SummaryBuilder,
        place: usize,
    ) -> Result<(), ParquetError> {
        if self.group_rows == 0 {
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
                    for leaf in compute_leaves(field, &intervals::stored(values)?)? {
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
        let mut short = self.compressed.as_ref().map(writers).transpose()?.unwrap_or_default().into_iter();
        for (column, of_block) in self.columns.iter_mut().zip(of_blocks) {
            let short = short.next();
            if let Column::Fixed { writer, saw_nan, is_compressed, .. } = column {
                let new = short.filter(|_| *is_compressed).unwrap_or(of_block);
                (*writer, *saw_nan) = (Some(Box::new(new)), false);
            }
        }
        Ok(())
    }

    /// Ends the current block, which is not empty.
    pub(crate) fn end_block(&mut self, summaries: &mut SummaryBuilder) -> Result<()> {
        for (at, column) in self.columns.iter_mut().enumerate() {
            if let Column::Bytes(column) = column {
                let (nulls, bounds) = column.end_block().map_err(|error| write_error(&self.path, error))?;
                summaries.bytes(at, nulls, bounds.as_ref().map(|(min, max)| (min.as_slice(), max.as_slice())));
            }
        }
        self.see_nan(summaries);
        if self.group_rows >= ROW_GROUP_ROWS || self.waiting() > self.group_bytes_max {
            self.end_group().map_err(|error| write_error(&self.path, error))?;
        }
        Ok(())
    }

    fn end_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for column in &mut self.columns {
            column.end_group(&mut group)?;
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

impl Column {
    /// Appends the column's chunk to its row group.
    fn end_group(&mut self, group: &mut SerializedRowGroupWriter<'_, CheckedWriter>) -> Result<(), ParquetError> {
        match self {
            Column::Bytes(column) => {
                let (chunk, close) = column.end_group()?;
                group.append_column(&chunk, close)
            }
            Column::Fixed { writer, saw_nan, .. } => {
                let mut chunk = writer.take().expect("a row group is open").close()?;
                if *saw_nan {
                    // Parquet's bounds leave NaN out, but a predicate may not: better none than wrong ones.
                    let close = chunk.close_mut();
                    close.column_index = None;
                    close.metadata = close.metadata.clone().into_builder().clear_statistics().build()?;
                }
                chunk.append_to_row_group(group)
            }
        }
    }

    /// Gives back the memory that it keeps from row group to row group.
    fn release(&mut self) {
        if let Column::Bytes(column) = self {
            column.release();
        }
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
