//! Parquet and Arrow IPC files into rows.
//!
//! Invariants:
//! - Columns are found by name; a column of the file that the table lacks is an error unless the statement lists columns.
//! - Types that can never fit are refused before the first row, and so are, with `EXACT`, those whose values would be changed; values that
//!   do not fit are bad rows, as in text files.
//! - Text columns that are levels arrive as dictionaries, as Parquet has them: each distinct value is looked at once.
//! - What is made at a time of values that rows share is bounded ([`alluvia_values::widths`]): a small file may name one value many times.
//!
//! A Parquet file is read by several threads that take *columns*, not row groups: all of them are in the same rows, so memory
//! holds a few batches whatever the size of row groups, files with one row group are as fast as others, and the order of rows is
//! the file's.

use crate::arrow_frames::Frames;
use crate::arrow_message::check_schema_within;
use crate::assign::{Assigner, BadRow, storage_batch, storage_batch_without};
use crate::bind::Wanted;
use crate::caught::{SENSELESS, caught, contained};
use crate::files::InputFile;
use crate::infer::check_holds;
use crate::lacking::Lacking;
use crate::operations::type_name;
use crate::parallel;
use crate::parquet_check::LookedAt;
use crate::progress::{CancelToken, Progress};
use crate::rows::{Part, Reject, RowLocation};
use alluvia_space::data_type::{EXTENSION_NAME, JSON_EXTENSION, UUID_EXTENSION};
use alluvia_space::{Column, DataType, TableDef};
use alluvia_syntax::copy::options::OnError;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::builders::{TextAs, is_level_text};
use alluvia_values::widths::{PIECE_BYTES, Widths, pieces};
use arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::{DataType as ArrowType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use arrow::ipc::reader::StreamReader;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::{ConvertedType, LogicalType, Type as PhysicalType};
use parquet::schema::types::TypePtr;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufReader, Read};
use std::sync::Arc;

/// Rows of a batch: enough that a dictionary is worth its look-up, few enough to bound memory.
const BATCH_ROWS: usize = 32 * 1024;
/// Rows of a batch of Parquet that has values to be written out, of which pages and dictionaries may name one any number of times.
const WRITTEN_ROWS: usize = 4096;
/// What they may come to: 64 KB each.
const WRITTEN_BYTES_MAX: u64 = 256 << 20;

/// How Parquet and Arrow files become rows of one table.
pub(crate) struct ColumnarInput {
    pub table: Arc<TableDef>,
    pub wanted: Wanted,
    pub on_error: OnError,
}

/// Some of the table's columns, of the same rows.
struct Columns {
    /// Indices in the table's columns.
    columns: Arc<Vec<usize>>,
    /// Indices in the file's fields, of the same order.
    fields: Arc<Vec<usize>>,
    arrays: Vec<ArrayRef>,
    bad: Vec<BadRow>,
    /// As read; kept only where rejected rows are written out.
    source: Option<RecordBatch>,
    rows: usize,
}

struct Converter {
    table: Arc<TableDef>,
    assigner: Assigner,
    /// The fields whose values are written out, and their columns.
    written: Vec<(usize, usize)>,
    columns: Arc<Vec<usize>>,
    /// The file's fields, each of the column at its place.
    fields: Arc<Vec<usize>>,
    keep_source: bool,
}

impl Converter {
    fn convert(&self, batch: RecordBatch) -> Result<Columns> {
        let rows = batch.num_rows();
        for (field, at) in &self.written {
            let bytes = Widths::of(batch.column(*field).as_ref()).sum();
            if bytes > WRITTEN_BYTES_MAX && rows > 1 {
                return Err(too_wide(&batch.schema_ref().fields()[*field], &self.table.columns[*at], rows, bytes));
            }
        }
        let (arrays, bad) = self.assigner.convert(&batch)?;
        let source = self.keep_source.then_some(batch);
        Ok(Columns { columns: self.columns.clone(), fields: self.fields.clone(), arrays, bad, source, rows })
    }
}

impl ColumnarInput {
    /// Reads one Parquet file.
    pub fn read_parquet(
        &self,
        file: &InputFile,
        name: &str,
        progress: &Progress,
        cancel: &CancelToken,
        mut emit: impl FnMut(Part) -> Result<()>,
    ) -> Result<()> {
        let opened = file.open()?;
        let plain = footer(&opened, name)?;
        let bound = self.bind(&said(&plain, plain.schema()), name)?;
        self.refuse_intervals(&plain, &bound, name)?;
        let is_bound = |leaf: usize| bound[plain.parquet_schema().get_column_root_idx(leaf)].is_some();
        let looked_at = LookedAt::new(&opened, name)?;
        contained(|| looked_at.check_pages(plain.metadata(), is_bound)).unwrap_or_else(|| Err(senseless(name)))?;
        let hinted = self.hinted(&plain, &bound);
        let options = ArrowReaderOptions::new().with_schema(hinted);
        let metadata = read(name, || ArrowReaderMetadata::try_new(plain.metadata().clone(), options))?;
        let batch_rows = self.batch_rows(metadata.schema(), &bound);

        let readers = share(&metadata, &bound, parallel::workers())
            .into_iter()
            .map(|fields| {
                let mask = ProjectionMask::roots(metadata.parquet_schema(), fields.iter().copied());
                let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file.open()?, metadata.clone());
                let mut reader = read(name, || builder.with_projection(mask).with_batch_size(batch_rows).build())?;
                let schema = metadata.schema().project(&fields).map_err(internal)?;
                let converter = self.converter(&schema, &fields, &bound)?;
                let name = name.to_owned();
                Ok(move || match caught(|| reader.next().transpose()) {
                    Ok(None) => Ok(None),
                    Ok(Some(batch)) => converter.convert(batch).map(Some),
                    Err(error) => Err(unreadable_batch(&name, "Parquet", &error)),
                })
            })
            .collect::<Result<Vec<_>>>()?;
        if readers.is_empty() {
            return Err(nothing_in_common(&self.table, name));
        }
        let total_rows = metadata.metadata().file_metadata().num_rows().max(1) as u64;
        let mut done_rows = 0;
        parallel::side_by_side(readers, cancel, |columns| {
            let rows = columns[0].rows as u64;
            let part = self.part(columns, done_rows)?;
            // Bytes as if they were spread evenly over the rows.
            let bytes_through = |rows: u64| (u128::from(file.bytes) * u128::from(rows) / u128::from(total_rows)) as u64;
            progress.add_bytes(bytes_through(done_rows + rows) - bytes_through(done_rows));
            done_rows += rows;
            emit(part)
        })?;
        if done_rows != metadata.metadata().file_metadata().num_rows() as u64 {
            return Err(Error::new(ErrorKind::InvalidValue, format!("{name} has fewer rows than its footer says")));
        }
        Ok(())
    }

    /// Reads one Arrow IPC file or stream. The file format is a stream between a mark and a footer, so it needs no seeking.
    pub(crate) fn read_arrow(
        &self,
        bytes: impl Read + Send + 'static,
        name: &str,
        cancel: &CancelToken,
        mut emit: impl FnMut(Part) -> Result<()>,
    ) -> Result<()> {
        let mut reader = arrow_stream(bytes, name)?;
        let bound = self.bind(&reader.schema(), name)?;
        let fields: Vec<usize> = (0..bound.len()).filter(|field| bound[*field].is_some()).collect();
        if fields.is_empty() {
            return Err(nothing_in_common(&self.table, name));
        }
        let schema = reader.schema().project(&fields).map_err(internal)?;
        let converter = self.converter(&schema, &fields, &bound)?;
        let mut current: VecDeque<RecordBatch> = VecDeque::new();
        let mut read_rows = 0;
        let produce = move || loop {
            if let Some(batch) = current.pop_front() {
                let rows = batch.num_rows().min(BATCH_ROWS);
                if rows < batch.num_rows() {
                    current.push_front(batch.slice(rows, batch.num_rows() - rows));
                }
                return Ok(Some(batch.slice(0, rows)));
            }
            match caught(|| reader.next().transpose()) {
                Ok(None) => return Ok(None),
                Ok(Some(batch)) => {
                    let batch = batch.project(&fields).map_err(internal)?;
                    // Before anything is cast: of a few bytes dictionaries and runs make any number.
                    current.extend(pieces(&batch, Some(read_rows)).map_err(|error| error.at(name))?);
                    read_rows += batch.num_rows() as u64;
                }
                Err(error) => return Err(unreadable_batch(name, "Arrow", &error)),
            }
        };
        let worker = || |batch: RecordBatch| converter.convert(batch);
        let mut done_rows = 0;
        parallel::in_order(parallel::workers(), cancel, produce, worker, |columns| {
            let rows = columns.rows as u64;
            let part = self.part(vec![columns], done_rows)?;
            done_rows += rows;
            emit(part)
        })
    }

    /// For each field of the file, its column.
    fn bind(&self, schema: &Schema, name: &str) -> Result<Vec<Option<usize>>> {
        let names = schema.fields().iter().map(|field| field.name().as_str());
        let bound = self.wanted.by_name(&self.table, names, name)?;
        if self.wanted.is_exact {
            for (field, column) in schema.fields().iter().zip(&bound) {
                column.map_or(Ok(()), |at| check_holds(&self.table.columns[at], field, name))?;
            }
        }
        Ok(bound)
    }

    /// Refuses intervals of Parquet's own form: the reader of Parquet gives a part of each.
    fn refuse_intervals(&self, file: &ArrowReaderMetadata, bound: &[Option<usize>], name: &str) -> Result<()> {
        let fields = file.parquet_schema().root_schema().get_fields();
        let is_one = |(field, column): &(&TypePtr, &Option<usize>)| {
            column.is_some() && field.get_basic_info().converted_type() == ConvertedType::INTERVAL
        };
        match fields.iter().zip(bound).find(is_one) {
            None => Ok(()),
            Some((field, _)) => {
                let message = format!("{name}: column {} is an INTERVAL of Parquet, which is not read", field.name());
                Err(Error::new(ErrorKind::NotSupported, message).with_hint(
                    "write it as text, which an INTERVAL column reads, or leave it out: COPY t (a, b) FROM ...",
                ))
            }
        }
    }

    /// How many rows are read at a time: few, where values are written out as they are read or cast. All threads read as many.
    fn batch_rows(&self, schema: &Schema, bound: &[Option<usize>]) -> usize {
        let rows = |(field, column): (&FieldRef, &Option<usize>)| -> Option<usize> {
            let to = self.table.columns[(*column)?].data_type;
            match field.data_type() {
                ArrowType::FixedSizeBinary(bytes) => Some(PIECE_BYTES as usize / usize::try_from(*bytes).ok()?.max(1)),
                from => is_written_out(from, to).then_some(WRITTEN_ROWS),
            }
        };
        let fewest = schema.fields().iter().zip(bound).filter_map(rows).min();
        fewest.map_or(BATCH_ROWS, |rows| rows.clamp(1, BATCH_ROWS))
    }

    /// The file's schema, with dictionaries for level columns, views of texts and bytes, which share what pages and dictionaries
    /// hold, and microseconds for the old 96-bit timestamps (nanoseconds would not reach beyond the year 2262).
    fn hinted(&self, file: &ArrowReaderMetadata, bound: &[Option<usize>]) -> SchemaRef {
        let schema = microseconds(file);
        let hint = |(field, column): (&FieldRef, &Option<usize>)| {
            let Some(column) = column.map(|at| &self.table.columns[at]) else { return field.clone() };
            let text = matches!(field.data_type(), ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View);
            let wanted = match text {
                true if is_level_text(&self.table, column.id, column.data_type) => {
                    ArrowType::Dictionary(Box::new(ArrowType::Int32), Box::new(ArrowType::Utf8))
                }
                true => ArrowType::Utf8View,
                false if is_bytes(field.data_type()) => ArrowType::BinaryView,
                false => return field.clone(),
            };
            Arc::new(field.as_ref().clone().with_data_type(wanted))
        };
        let fields: Vec<FieldRef> = schema.fields().iter().zip(bound).map(hint).collect();
        Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
    }

    /// Casts batches of these fields of the file to columns of the table.
    fn converter(&self, schema: &Schema, fields: &[usize], bound: &[Option<usize>]) -> Result<Converter> {
        let columns: Vec<usize> = fields.iter().filter_map(|field| bound[*field]).collect();
        let sources: Vec<Option<usize>> = (0..fields.len()).map(Some).collect();
        let assigner = Assigner::for_columns(schema, &self.table, &columns, &sources, TextAs::Dictionary)?;
        let is_written = |(field, at): &(usize, usize)| {
            is_written_out(schema.field(*field).data_type(), self.table.columns[*at].data_type)
        };
        let written = columns.iter().copied().enumerate().filter(is_written).collect();
        let keep_source = self.on_error == OnError::Skip;
        let (columns, fields) = (Arc::new(columns), Arc::new(fields.to_vec()));
        Ok(Converter { table: self.table.clone(), assigner, written, columns, fields, keep_source })
    }

    /// Puts the columns of the same rows together; those that the file lacks are lacking, or NULL.
    fn part(&self, shares: Vec<Columns>, rows_before: u64) -> Result<Part> {
        let rows = shares[0].rows;
        assert!(shares.iter().all(|share| share.rows == rows), "all threads read the same rows");
        let mut arrays: Vec<Option<ArrayRef>> = vec![None; self.table.columns.len()];
        let mut bad: Vec<BadRow> = Vec::new();
        for share in &shares {
            for (at, array) in share.columns.iter().zip(&share.arrays) {
                arrays[*at] = Some(array.clone());
            }
            bad.extend(share.bad.iter().cloned());
        }
        let mut lacking = Lacking::of(&self.table, (0..arrays.len()).filter(|&at| arrays[at].is_none()));
        for (at, column) in self.table.columns.iter().enumerate() {
            if arrays[at].is_none() && !column.nullable && !lacking.has(at) {
                bad.extend((0..rows).map(|row| BadRow::missing(row, at)));
            }
        }
        bad.sort_by_key(|bad| (bad.row, bad.column));
        bad.dedup_by_key(|bad| bad.row);
        let is_given: Vec<bool> = arrays.iter().map(Option::is_some).collect();
        let fill = |(array, column): (Option<ArrayRef>, &Column)| {
            array.unwrap_or_else(|| new_null_array(&column.data_type.to_arrow(), rows))
        };
        let mut arrays: Vec<ArrayRef> = arrays.into_iter().zip(&self.table.columns).map(fill).collect();
        if let Some(operations) = &self.wanted.operations {
            operations.complete(&mut arrays, |at| is_given[at], &mut lacking, &mut bad)?;
        }
        if bad.is_empty() {
            let places = self.places(0..rows, rows_before);
            let rows = storage_batch(&self.table, arrays, rows, &lacking)?;
            return Ok(Part { rows, lacking, rejects: Vec::new(), places });
        }
        let rejects = bad.iter().map(|bad| self.reject(bad, &shares, rows_before)).collect();
        let mut good = vec![true; rows];
        bad.iter().for_each(|bad| good[bad.row] = false);
        let places = self.places((0..rows).filter(|row| good[*row]), rows_before);
        let bad_rows: Vec<usize> = bad.iter().map(|bad| bad.row).collect();
        let rows = storage_batch_without(&self.table, arrays, rows, bad_rows.iter().copied(), &lacking)?;
        Ok(Part { rows, lacking: lacking.without(&bad_rows), rejects, places })
    }

    /// Where rows are, in a table with a key.
    fn places(&self, rows: impl Iterator<Item = usize>, rows_before: u64) -> Vec<RowLocation> {
        if self.wanted.operations.is_none() {
            return Vec::new();
        }
        rows.map(|row| RowLocation::Row(rows_before + row as u64 + 1)).collect()
    }

    fn reject(&self, bad: &BadRow, shares: &[Columns], rows_before: u64) -> Reject {
        let column = &self.table.columns[bad.column];
        Reject {
            place: RowLocation::Row(rows_before + bad.row as u64 + 1),
            column: Some(column.name.clone()),
            kind: bad.bad.kind(),
            reason: bad.bad.describe(&bad.shown, &type_name(column)),
            hint: None,
            lines: 1,
            raw: raw_row(shares, bad.row),
        }
    }
}

/// Whether these are bytes of any length, or a dictionary of such.
fn is_bytes(from: &ArrowType) -> bool {
    match from {
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView => true,
        ArrowType::Dictionary(_, values) => is_bytes(values),
        _ => false,
    }
}

/// Whether values of a column are written out, each by itself, on their way from the file into this type. Views and texts of dictionaries
/// go on pointing to what they share.
fn is_written_out(from: &ArrowType, to: DataType) -> bool {
    match from {
        ArrowType::Utf8View => matches!(to, DataType::Binary | DataType::Json | DataType::Jsonb | DataType::Char),
        ArrowType::BinaryView => to.is_text(),
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Binary | ArrowType::LargeBinary => true,
        ArrowType::Dictionary(_, values) => match values.as_ref() {
            ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => to != DataType::Text,
            values => is_written_out(values, to) || is_bytes(values),
        },
        ArrowType::RunEndEncoded(_, values) => is_written_out(values.data_type(), to),
        // What is nested becomes text.
        _ => matches!(to, DataType::Json | DataType::Jsonb),
    }
}

fn too_wide(field: &Field, to: &Column, rows: usize, bytes: u64) -> Error {
    let (name, sql_type) = (field.name(), to.sql_type());
    let message = format!(
        "{rows} rows of field {name} come to {bytes} bytes, which are too many to be made {sql_type} at a time"
    );
    Error::new(ErrorKind::TooLarge, message).with_hint(
        "load it into a column of its own type, bytes into BYTEA and text into TEXT, or write shorter values",
    )
}

/// A row as it is in the file, as a JSON object, in the order of the file's fields.
fn raw_row(shares: &[Columns], row: usize) -> Vec<u8> {
    let mut cells: Vec<(usize, FieldRef, ArrayRef)> = Vec::new();
    for share in shares {
        let Some(batch) = &share.source else { continue };
        for ((at, field), array) in share.fields.iter().zip(batch.schema_ref().fields()).zip(batch.columns()) {
            cells.push((*at, field.clone(), array.slice(row, 1)));
        }
    }
    if cells.is_empty() {
        return Vec::new();
    }
    cells.sort_by_key(|(at, ..)| *at);
    let (fields, arrays): (Vec<FieldRef>, Vec<ArrayRef>) =
        cells.into_iter().map(|(_, field, array)| (field, array)).unzip();
    let mut out = Vec::new();
    let mut writer = arrow::json::LineDelimitedWriter::new(&mut out);
    let written = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
        .and_then(|batch| writer.write(&batch))
        .and_then(|()| writer.finish());
    match written {
        Ok(()) => out.trim_ascii_end().to_vec(),
        Err(error) => format!("(the row cannot be shown: {error})").into_bytes(),
    }
}

/// Shares the bound fields among threads so that each has about as many bytes to decode. No share is empty.
fn share(metadata: &ArrowReaderMetadata, bound: &[Option<usize>], threads: usize) -> Vec<Vec<usize>> {
    let parquet = metadata.parquet_schema();
    let mut bytes = vec![0_i64; bound.len()];
    for group in metadata.metadata().row_groups() {
        for (leaf, column) in group.columns().iter().enumerate() {
            bytes[parquet.get_column_root_idx(leaf)] += column.uncompressed_size();
        }
    }
    let mut fields: Vec<usize> = (0..bound.len()).filter(|field| bound[*field].is_some()).collect();
    fields.sort_by_key(|field| std::cmp::Reverse(bytes[*field]));
    let mut shares: Vec<(i64, Vec<usize>)> = vec![(0, Vec::new()); threads.min(fields.len())];
    for field in fields {
        if let Some(lightest) = shares.iter_mut().min_by_key(|(bytes, _)| *bytes) {
            lightest.0 += bytes[field].max(1);
            lightest.1.push(field);
        }
    }
    let sorted = |(_, mut fields): (i64, Vec<usize>)| {
        // A projection gives columns in the file's order.
        fields.sort_unstable();
        fields
    };
    shares.into_iter().map(sorted).collect()
}

/// An Arrow stream, whether or not it lies in the file format's envelope.
pub fn arrow_stream(
    mut bytes: impl Read + Send + 'static,
    name: &str,
) -> Result<StreamReader<BufReader<Box<dyn Read + Send>>>> {
    const MARK: [u8; 8] = *b"ARROW1\0\0";
    let mut next = || {
        let mut eight = Vec::with_capacity(8);
        let read = (&mut bytes).take(8).read_to_end(&mut eight);
        read.map(|_| eight).map_err(|error| Error::io(name, "reading", &error))
    };
    let mut start = next()?;
    let is_file = start == MARK;
    if is_file {
        // Some writers fill up with zeros until the stream is aligned.
        start = next()?;
        while start == [0; 8] {
            start = next()?;
        }
    }
    let bytes = std::io::Cursor::new(start).chain(bytes);
    let stream: Box<dyn Read + Send> = Box::new(if is_file { Frames::of_file(bytes) } else { Frames::new(bytes) });
    caught(|| StreamReader::try_new_buffered(stream, None)).map_err(|error| unreadable_batch(name, "Arrow", &error))
}

/// What the reader of Parquet does.
fn read<T>(name: &str, work: impl FnOnce() -> parquet::errors::Result<T>) -> Result<T> {
    let done = contained(work).ok_or_else(|| senseless(name))?;
    done.map_err(|error| unreadable(name, "Parquet", &error))
}

fn senseless(name: &str) -> Error {
    unreadable(name, "Parquet", &SENSELESS)
}

/// What a Parquet file says of itself.
fn footer(file: &File, name: &str) -> Result<ArrowReaderMetadata> {
    LookedAt::new(file, name)?.check_footer()?;
    let plain = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = Arc::clone(read(name, || ArrowReaderMetadata::load(file, plain))?.metadata());
    // Beside its own schema a file may have Arrow's, which is taken for one that Arrow's types can say.
    let said = metadata.file_metadata().key_value_metadata().into_iter().flatten();
    for schema in said.filter(|said| said.key == ARROW_SCHEMA_META_KEY).filter_map(|said| said.value.as_ref()) {
        if BASE64.decode(schema).is_ok_and(|message| check_schema_within(&message).is_err()) {
            return Err(senseless(name));
        }
    }
    read(name, || ArrowReaderMetadata::try_new(metadata, ArrowReaderOptions::new()))
}

/// The schema of a Parquet file.
pub fn parquet_schema(file: &InputFile) -> Result<SchemaRef> {
    let metadata = footer(&file.open()?, &file.name())?;
    Ok(said(&metadata, &microseconds(&metadata)))
}

/// The schema with what the file says of UUIDs and JSON, which the reader of Parquet takes for bytes and texts.
fn said(file: &ArrowReaderMetadata, schema: &SchemaRef) -> SchemaRef {
    let root = file.parquet_schema().root_schema();
    let field = |(field, parquet): (&FieldRef, &TypePtr)| {
        let info = parquet.get_basic_info();
        let extension = match info.logical_type_ref() {
            Some(LogicalType::Uuid) => UUID_EXTENSION,
            Some(LogicalType::Json) => JSON_EXTENSION,
            _ if info.converted_type() == ConvertedType::JSON => JSON_EXTENSION,
            _ => return Arc::clone(field),
        };
        let mut said = field.as_ref().clone();
        said.metadata_mut().entry(EXTENSION_NAME.to_owned()).or_insert_with(|| extension.to_owned());
        Arc::new(said)
    };
    let fields: Vec<FieldRef> = schema.fields().iter().zip(root.get_fields()).map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The file's schema with its 96-bit timestamps as microseconds.
fn microseconds(file: &ArrowReaderMetadata) -> SchemaRef {
    let parquet = file.parquet_schema();
    let mut old = vec![false; file.schema().fields().len()];
    for (leaf, column) in parquet.columns().iter().enumerate() {
        old[parquet.get_column_root_idx(leaf)] |= column.physical_type() == PhysicalType::INT96;
    }
    let field = |(field, old): (&FieldRef, bool)| match field.data_type() {
        ArrowType::Timestamp(TimeUnit::Nanosecond, zone) if old => {
            let wanted = ArrowType::Timestamp(TimeUnit::Microsecond, zone.clone());
            Arc::new(field.as_ref().clone().with_data_type(wanted))
        }
        _ => field.clone(),
    };
    let fields: Vec<FieldRef> = file.schema().fields().iter().zip(old).map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, file.schema().metadata().clone()))
}

fn nothing_in_common(table: &TableDef, name: &str) -> Error {
    Error::new(ErrorKind::UndefinedColumn, format!("{name} has none of the wanted columns of table {}", table.name))
}

fn unreadable(name: &str, what: &str, error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidValue, format!("{name} cannot be read as {what}: {error}"))
        .with_hint("is it complete, and in the format that was stated?")
}

fn unreadable_batch(name: &str, what: &str, error: &arrow::error::ArrowError) -> Error {
    // What the reader below has to say says more.
    if let arrow::error::ArrowError::IoError(_, error) = error
        && let Some(own) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>())
    {
        return own.clone().at(name);
    }
    unreadable(name, what, error)
}

fn internal(error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("columns of a file could not be taken: {error}"))
}
