//! Result formats: rows into CSV, JSON, Arrow IPC or Parquet, over any writer.
//!
//! Invariants:
//! - Rows are written as they come; memory holds one batch, and for Parquet one row group of at most 64 MiB.
//! - What other tools may not know is not written: views and dictionaries become plain columns.
//! - A value that a format has no form for is an error, never another value.

use crate::csv_out::{write_header, write_rows};
use crate::json_out::JsonRows;
use alluvia_space::DataType as StoredType;
use alluvia_space::data_type::{EXTENSION_METADATA, EXTENSION_NAME, UUID_BYTES};
use alluvia_syntax::copy::options::{Compression, CopyOptions, Dialect, Format, Header};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::convert::texts_of;
use alluvia_values::unique_names::unique_names;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow::json::writer::{JsonArray, LineDelimited};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{Compression as ParquetCompression, LogicalType};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};
use std::io::{self, Write};
use std::sync::Arc;

const ROW_GROUP_BYTES_MAX: usize = 64 << 20;

/// Writes batches of one schema in one format.
pub struct ResultWriter<W: Write + Send> {
    schema: SchemaRef,
    rows: u64,
    form: Form<W>,
}

enum Form<W: Write + Send> {
    Csv { out: Packed<W>, dialect: Dialect, buffer: Vec<u8> },
    JsonLines(JsonRows<W, LineDelimited>),
    JsonArray(JsonRows<W, JsonArray>),
    ArrowFile(FileWriter<W>),
    ArrowStream(StreamWriter<W>),
    Parquet(Box<ArrowWriter<W>>),
}

impl<W: Write + Send> ResultWriter<W> {
    /// Starts writing to what is read once, as it comes: standard output, a socket.
    pub fn new(format: Format, schema: SchemaRef, options: &CopyOptions, out: W) -> Result<ResultWriter<W>> {
        ResultWriter::start(format, &schema, options, None, out)
    }

    /// Starts writing a file. `COMPRESSION auto` and the delimiter follow from its name.
    pub fn for_file(
        format: Format,
        schema: SchemaRef,
        options: &CopyOptions,
        name: &str,
        out: W,
    ) -> Result<ResultWriter<W>> {
        ResultWriter::start(format, &schema, options, Some(name), out)
    }

    fn start(
        format: Format,
        schema: &Schema,
        options: &CopyOptions,
        file: Option<&str>,
        out: W,
    ) -> Result<ResultWriter<W>> {
        let schema = plain_schema(schema, format == Format::Parquet);
        // A header may say a name twice; readers of the other formats know columns by their names.
        let schema = if format == Format::Csv { schema } else { unique_names(&schema) };
        let packing = match (options.compression, file.map(str::to_ascii_lowercase)) {
            (Compression::Auto, Some(name)) if name.ends_with(".gz") => Compression::Gzip,
            (Compression::Auto, Some(name)) if name.ends_with(".zst") => Compression::Zstd,
            (stated, _) => stated,
        };
        let form = match format {
            Format::Csv => {
                let (mut out, dialect) = (Packed::new(out, packing)?, options.dialect(file));
                let mut buffer = Vec::new();
                if options.header != Header::No {
                    write_header(&mut buffer, &schema, &dialect);
                    out.write_all(&buffer).map_err(writing)?;
                }
                Form::Csv { out, dialect, buffer }
            }
            Format::Text | Format::Binary => {
                return Err(Error::new(
                    ErrorKind::NotSupported,
                    "PostgreSQL's own formats are written to its clients alone",
                )
                .with_hint("use FORMAT csv, ndjson, parquet or arrow"));
            }
            Format::JsonLines => Form::JsonLines(JsonRows::new(Packed::new(out, packing)?, &options.time_zone)),
            Format::JsonArray => Form::JsonArray(JsonRows::new(Packed::new(out, packing)?, &options.time_zone)),
            // Arrow has one format for files, which is read from its end, and one for streams.
            Format::Arrow if file.is_some() => Form::ArrowFile(
                FileWriter::try_new_with_options(out, &schema, ipc_options(packing)?).map_err(arrow_error)?,
            ),
            Format::Arrow => Form::ArrowStream(
                StreamWriter::try_new_with_options(out, &schema, ipc_options(packing)?).map_err(arrow_error)?,
            ),
            Format::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(parquet_compression(packing))
                    .set_max_row_group_bytes(Some(ROW_GROUP_BYTES_MAX))
                    .build();
                let options = parquet_options(&schema, properties).map_err(parquet_error)?;
                let writer = ArrowWriter::try_new_with_options(out, schema.clone(), options).map_err(parquet_error)?;
                Form::Parquet(Box::new(writer))
            }
        };
        Ok(ResultWriter { schema, rows: 0, form })
    }

    /// Writes all rows of `batch`.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = plain_batch(batch, &self.schema)?;
        self.rows += batch.num_rows() as u64;
        match &mut self.form {
            Form::Csv { out, dialect, buffer } => {
                buffer.clear();
                write_rows(buffer, &batch, dialect)?;
                out.write_all(buffer).map_err(writing)
            }
            Form::JsonLines(writer) => writer.write(&batch),
            Form::JsonArray(writer) => writer.write(&batch),
            Form::ArrowFile(writer) => writer.write(&batch).map_err(arrow_error),
            Form::ArrowStream(writer) => writer.write(&batch).map_err(arrow_error),
            Form::Parquet(writer) => writer.write(&batch).map_err(parquet_error),
        }
    }

    /// Writes what must come last; gives the rows written, and the writer back.
    pub fn finish(self) -> Result<(u64, W)> {
        let mut out = match self.form {
            Form::Csv { out, .. } => out.finish()?,
            Form::JsonLines(writer) => writer.finish()?.finish()?,
            Form::JsonArray(writer) => {
                let mut out = writer.finish()?;
                out.write_all(b"\n").map_err(writing)?;
                out.finish()?
            }
            Form::ArrowFile(writer) => writer.into_inner().map_err(arrow_error)?,
            Form::ArrowStream(writer) => writer.into_inner().map_err(arrow_error)?,
            Form::Parquet(writer) => writer.into_inner().map_err(parquet_error)?,
        };
        out.flush().map_err(writing)?;
        Ok((self.rows, out))
    }
}

/// A writer that packs what is written, or not.
pub enum Packed<W: Write> {
    /// Bytes as they come, without compression.
    Plain(W),
    /// Compressed with gzip.
    Gzip(flate2::write::GzEncoder<W>),
    /// Compressed with Zstandard.
    Zstd(zstd::stream::write::Encoder<'static, W>),
}

impl<W: Write> Packed<W> {
    fn new(out: W, packing: Compression) -> Result<Packed<W>> {
        Ok(match packing {
            Compression::Auto | Compression::None => Packed::Plain(out),
            Compression::Gzip => Packed::Gzip(flate2::write::GzEncoder::new(out, flate2::Compression::default())),
            Compression::Zstd => Packed::Zstd(zstd::stream::write::Encoder::new(out, 3).map_err(writing)?),
        })
    }

    fn finish(self) -> Result<W> {
        match self {
            Packed::Plain(out) => Ok(out),
            Packed::Gzip(encoder) => encoder.finish().map_err(writing),
            Packed::Zstd(encoder) => encoder.finish().map_err(writing),
        }
    }
}

impl<W: Write> Write for Packed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Packed::Plain(out) => out.write(bytes),
            Packed::Gzip(encoder) => encoder.write(bytes),
            Packed::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Packed::Plain(out) => out.flush(),
            Packed::Gzip(encoder) => encoder.flush(),
            Packed::Zstd(encoder) => encoder.flush(),
        }
    }
}

fn ipc_options(packing: Compression) -> Result<IpcWriteOptions> {
    let codec = match packing {
        Compression::Auto | Compression::None => None,
        Compression::Zstd => Some(CompressionType::ZSTD),
        Compression::Gzip => {
            return Err(Error::new(ErrorKind::InvalidSetting, "Arrow files are not packed with gzip")
                .with_hint("COMPRESSION zstd or none"));
        }
    };
    IpcWriteOptions::default().try_with_compression(codec).map_err(arrow_error)
}

/// How a schema is written to Parquet: columns of UUIDs and JSON say that they are, also to those who do not know Arrow.
fn parquet_options(schema: &Schema, properties: WriterProperties) -> parquet::errors::Result<ArrowWriterOptions> {
    let options = ArrowWriterOptions::new().with_properties(properties);
    let logical = |field: &FieldRef| match StoredType::from_field(field) {
        Some(StoredType::Uuid) => Some(LogicalType::Uuid),
        Some(StoredType::Json | StoredType::Jsonb) => Some(LogicalType::Json),
        _ => None,
    };
    if !schema.fields().iter().any(|field| logical(field).is_some()) {
        return Ok(options);
    }
    let converted = ArrowSchemaConverter::new().convert(schema)?;
    let root = converted.root_schema();
    let said = |(known, field): (&TypePtr, &FieldRef)| {
        let Some(logical) = logical(field).filter(|_| known.is_primitive()) else { return Ok(Arc::clone(known)) };
        let length = if logical == LogicalType::Uuid { UUID_BYTES } else { -1 };
        let column = Type::primitive_type_builder(known.name(), known.get_physical_type())
            .with_repetition(known.get_basic_info().repetition())
            .with_length(length)
            .with_logical_type(Some(logical))
            .build()?;
        Ok::<TypePtr, parquet::errors::ParquetError>(Arc::new(column))
    };
    let fields = root.get_fields().iter().zip(schema.fields()).map(said).collect::<parquet::errors::Result<_>>()?;
    let root = Type::group_type_builder(root.name()).with_fields(fields).build()?;
    Ok(options.with_parquet_schema(SchemaDescriptor::new(Arc::new(root))))
}

fn parquet_compression(packing: Compression) -> ParquetCompression {
    match packing {
        Compression::Auto | Compression::Zstd => ParquetCompression::ZSTD(Default::default()),
        Compression::Gzip => ParquetCompression::GZIP(Default::default()),
        Compression::None => ParquetCompression::UNCOMPRESSED,
    }
}

/// The type as every reader knows it.
fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::RunEndEncoded(_, values) => plain_type(values.data_type()),
        other => other.clone(),
    }
}

/// The same columns in types that every reader knows, with what tells UUIDs and JSON. Parquet has no interval that holds ours: there they are texts.
fn plain_schema(schema: &Schema, is_parquet: bool) -> SchemaRef {
    let plain = |field: &FieldRef| {
        let data_type = match field.data_type() {
            DataType::Interval(_) if is_parquet => DataType::Utf8,
            other => plain_type(other),
        };
        let kept = |(key, _): &(&String, &String)| *key == EXTENSION_NAME || *key == EXTENSION_METADATA;
        let metadata = field.metadata().iter().filter(kept);
        let metadata = metadata.map(|(key, value)| (key.clone(), value.clone())).collect();
        Field::new(field.name(), data_type, field.is_nullable()).with_metadata(metadata)
    };
    Arc::new(Schema::new(schema.fields().iter().map(plain).collect::<Vec<Field>>()))
}

/// The rows of `batch` with each column cast to the type that `schema` has at its position.
pub fn plain_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    assert_eq!(batch.num_columns(), schema.fields().len(), "batches of the schema that was announced");
    let plain = |(array, field): (&ArrayRef, &FieldRef)| match array.data_type() {
        DataType::Interval(_) if *field.data_type() == DataType::Utf8 => {
            let texts = texts_of(array).map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
            cast(&texts, &DataType::Utf8)
        }
        _ => cast(array, field.data_type()),
    };
    let arrays = batch.columns().iter().zip(schema.fields()).map(plain).collect::<Result<Vec<ArrayRef>, _>>();
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), arrays.map_err(arrow_error)?, &options).map_err(arrow_error)
}

/// The error for output that could not be written.
pub fn writing(error: io::Error) -> Error {
    Error::io("the output", "writing", &error)
}

/// An error of Arrow's writers: of I/O as [`writing`], any other as a result that the format has no form for.
pub fn arrow_error(error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, error) => writing(error),
        error => Error::new(ErrorKind::NotSupported, format!("the result cannot be written in this format: {error}")),
    }
}

fn parquet_error(error: parquet::errors::ParquetError) -> Error {
    match error {
        parquet::errors::ParquetError::External(error) if error.is::<io::Error>() => {
            error.downcast::<io::Error>().map_or_else(|_| Error::internal("a writer failed"), |error| writing(*error))
        }
        error => Error::new(ErrorKind::NotSupported, format!("the result cannot be written as Parquet: {error}")),
    }
}
