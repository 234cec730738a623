//! Which encoding and compression each column gets, chosen by the first rows of a file.
//!
//! - Few distinct values make a dictionary. Text and binary have their own, see `bytes_column`.
//! - Other integers, dates and times are bit-packed by difference: in curve order they are near their neighbours.
//! - Other floats and decimals stay as they are.
//! - A page is compressed only where that clearly pays. Indices and differences are packed already; of the rest, zstd's level
//!   1 must take away [`GAIN_MIN`]. What is not compressed is read at the speed of memory.

use crate::layout::BLOCK_ROWS;
use crate::parquet_file::dictionary::value_bytes;
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::row::{RowConverter, SortField};
use hashbrown::HashSet;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

/// Rows of the sample that are looked at.
const SAMPLE_ROWS: usize = BLOCK_ROWS;
/// A dictionary is used where at most one row in this many brings a new value.
const ROWS_PER_DISTINCT: usize = 8;
/// The part of a column's bytes that compression must take away.
const GAIN_MIN: f64 = 0.4;

/// The writer's properties for a file whose first rows are these; they govern the fixed-width columns. A page has so many rows, which divide
/// a block's.
pub(crate) fn properties(
    schema: &SchemaRef,
    sample: &[ArrayRef],
    metadata: Vec<KeyValue>,
    page_rows: usize,
) -> WriterProperties {
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by(format!("alluvia {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(metadata))
        .set_data_page_row_count_limit(page_rows)
        .set_write_batch_size(page_rows)
        // Pages end by their rows, and nowhere else.
        .set_data_page_size_limit(usize::MAX)
        .set_max_row_group_row_count(None)
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_dictionary_enabled(false)
        .set_compression(Compression::UNCOMPRESSED);
    for (field, values) in schema.fields().iter().zip(sample) {
        let path = ColumnPath::from(field.name().as_str());
        let values = values.slice(0, values.len().min(SAMPLE_ROWS));
        if matches!(field.data_type(), DataType::Boolean | DataType::Utf8View | DataType::BinaryView) {
            continue;
        }
        if has_few_values(&values) {
            builder = builder.set_column_dictionary_enabled(path, true);
        } else if is_integer(field.data_type()) {
            builder = builder.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        } else if compresses(&fixed_bytes(&values)) {
            builder = builder.set_column_compression(path, Compression::ZSTD(ZstdLevel::default()));
        }
    }
    builder.build()
}

/// Whether a text or binary column, to judge by its first rows, is mostly values that appear once and that compress well: then
/// it is written without a dictionary, compressed.
pub(crate) fn is_prose(sample: &ArrayRef) -> bool {
    if !matches!(sample.data_type(), DataType::Utf8 | DataType::Utf8View | DataType::Binary | DataType::BinaryView) {
        return false;
    }
    let count = sample.len().min(SAMPLE_ROWS);
    let values = (0..count).filter_map(|place| value_bytes(sample, place));
    let distinct: HashSet<&[u8]> = values.clone().collect();
    if count < 100 || distinct.len() * 2 < count {
        return false;
    }
    compresses(&values.take(1000).flat_map(|value| value.iter().copied().take(1000)).collect::<Vec<u8>>())
}

fn is_integer(data_type: &DataType) -> bool {
    use DataType::{Date32, Int16, Int32, Int64, Timestamp, UInt64};
    matches!(data_type, Int16 | Int32 | Int64 | UInt64 | Date32 | Timestamp(_, _))
}

fn has_few_values(values: &ArrayRef) -> bool {
    let Ok(converter) = RowConverter::new(vec![SortField::new(values.data_type().clone())]) else { return false };
    let Ok(rows) = converter.convert_columns(std::slice::from_ref(values)) else { return false };
    let distinct: HashSet<&[u8]> = rows.iter().map(|row| row.data()).collect();
    distinct.len() * ROWS_PER_DISTINCT <= values.len()
}

fn fixed_bytes(values: &ArrayRef) -> Vec<u8> {
    let data = values.to_data();
    let width = data.data_type().primitive_width().unwrap_or(0);
    data.buffers().first().map_or(Vec::new(), |buffer| {
        buffer.as_slice()[data.offset() * width..(data.offset() + data.len()) * width].to_vec()
    })
}

fn compresses(bytes: &[u8]) -> bool {
    let compressed = zstd::bulk::compress(bytes, 1).map_or(bytes.len(), |compressed| compressed.len());
    (compressed as f64) < bytes.len() as f64 * (1.0 - GAIN_MIN)
}
