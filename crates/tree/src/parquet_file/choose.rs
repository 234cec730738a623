//! The choice of an encoding and a compression for each column, by the first rows of a file.
//!
//! - Few distinct values make a dictionary. Text and binary have their own, see `bytes_column`.
//! - Other integers, dates and times are bit-packed by difference: in curve order they are near their neighbours.
//! - Other floats and decimals have a dictionary where it takes away [`GAIN_MIN`] of their bytes, and about as many as
//!   compression does: prices in cents have some hundred thousand values, whatever their rows. How many there are is
//!   estimated (Chao 1984, "Nonparametric estimation of the number of classes in a population", the bound with few
//!   counts corrected), which needs to be told how many rows will come. Indices are unpacked several times faster than
//!   zstd, and may be skipped.
//! - What is left of these stays as it is.
//! - Of columns that a dictionary or compression pays for, [`COLUMNS_MAX`] have each: whoever writes them holds a table of values or a context
//!   for every one, some hundred kilobytes. Those that it takes most away from come first.
//! - A page is compressed only where that clearly pays. Indices and differences are packed already; of the rest, zstd's
//!   level 1 must take away [`GAIN_MIN`]. What is not compressed is read at the speed of memory.

use crate::layout::{BLOCK_ROWS, ROW_GROUP_ROWS};
use crate::parquet_file::dictionary::value_bytes;
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::row::{RowConverter, SortField};
use hashbrown::{HashMap, HashSet};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

/// Rows of the sample that are looked at.
const SAMPLE_ROWS: usize = BLOCK_ROWS;
/// A dictionary is used where at most one row in this many brings a new value.
const ROWS_PER_DISTINCT: usize = 8;
/// The part of a column's bytes that compression, or a dictionary of many values, must take away.
const GAIN_MIN: f64 = 0.4;
/// A dictionary of more values is not expected to pay: whoever reads a few rows reads all of it.
const DISTINCT_MAX: f64 = 131_072.0;
/// How many times as large as what zstd makes a dictionary of many values may be with its indices: it is read several
/// times faster.
const DICTIONARY_MORE: f64 = 1.2;
/// Bytes of a dictionary of many values. What comes after that many is written without, so an estimate that is too low
/// by half costs little.
const DICTIONARY_BYTES_MAX: usize = 2 << 20;

/// Fixed-width columns that have a dictionary at most, and that are compressed.
const COLUMNS_MAX: usize = 64;

/// What is known of a file before it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected<'a> {
    /// Its first rows.
    pub(crate) sample: &'a [ArrayRef],
    /// How many rows it will have, at most; `None` if nobody knows.
    pub(crate) rows: Option<u64>,
}

/// The writer's properties for a file of which this is known; they govern the fixed-width columns. A page has so many
/// rows, which divide a block's.
pub(crate) fn properties(
    schema: &SchemaRef,
    expected: Expected<'_>,
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
    let group_rows = expected.rows.map_or(0, |rows| rows.min(ROW_GROUP_ROWS as u64));
    let mut ways: Vec<Way> = Vec::new();
    for (field, values) in schema.fields().iter().zip(expected.sample) {
        let path = ColumnPath::from(field.name().as_str());
        let values = values.slice(0, values.len().min(SAMPLE_ROWS));
        if matches!(field.data_type(), DataType::Boolean | DataType::Utf8View | DataType::BinaryView) {
            continue;
        }
        let seen = Seen::of(&values);
        let is_integer = is_integer(field.data_type());
        if seen.distinct * ROWS_PER_DISTINCT <= values.len() {
            let kept = seen.distinct as f64 / values.len().max(1) as f64;
            ways.push(Way { kept, path, is_integer, dictionary: Some(None) });
        } else if is_integer {
            builder = builder.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        } else {
            let bytes = fixed_bytes(&values);
            let compressed = compressed_share(&bytes);
            let kept = seen.dictionary_share(group_rows as f64, stored_width(field.data_type()) as f64);
            if kept < 1.0 - GAIN_MIN && kept <= compressed * DICTIONARY_MORE {
                ways.push(Way { kept, path, is_integer, dictionary: Some(Some(DICTIONARY_BYTES_MAX)) });
            } else if compressed < 1.0 - GAIN_MIN {
                ways.push(Way { kept: compressed, path, is_integer, dictionary: None });
            }
        }
    }
    ways.sort_by(|one, other| one.kept.total_cmp(&other.kept));
    let (mut dictionaries, mut compressed) = (0, 0);
    for Way { path, is_integer, dictionary, .. } in ways {
        let (count, is_dictionary) = match dictionary {
            Some(_) => (&mut dictionaries, true),
            None => (&mut compressed, false),
        };
        *count += 1;
        if *count > COLUMNS_MAX {
            if is_integer {
                builder = builder.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
            }
        } else if is_dictionary {
            builder = builder.set_column_dictionary_enabled(path.clone(), true);
            if let Some(bytes_max) = dictionary.flatten() {
                builder = builder.set_column_dictionary_page_size_limit(path, bytes_max);
            }
        } else {
            builder = builder.set_column_compression(path, Compression::ZSTD(ZstdLevel::default()));
        }
    }
    builder.build()
}

/// How a column would best be written.
struct Way {
    /// The part of its bytes that is left.
    kept: f64,
    path: ColumnPath,
    is_integer: bool,
    /// With a dictionary, of at most so many bytes; otherwise compressed.
    dictionary: Option<Option<usize>>,
}

/// Whether a text or binary column, to judge by its first rows, is mostly values that appear once and that compress
/// well: then it is written without a dictionary, compressed.
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
    let bytes: Vec<u8> = values.take(1000).flat_map(|value| value.iter().copied().take(1000)).collect();
    compressed_share(&bytes) < 1.0 - GAIN_MIN
}

fn is_integer(data_type: &DataType) -> bool {
    use DataType::{Date32, Int16, Int32, Int64, Time64, Timestamp, UInt64};
    matches!(data_type, Int16 | Int32 | Int64 | UInt64 | Date32 | Time64(_) | Timestamp(_, _))
}

/// How often values were seen in a sample. NULLs are one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Seen {
    distinct: usize,
    once: usize,
    twice: usize,
}

impl Seen {
    fn of(values: &ArrayRef) -> Seen {
        let rows = RowConverter::new(vec![SortField::new(values.data_type().clone())])
            .and_then(|converter| converter.convert_columns(std::slice::from_ref(values)));
        // What cannot be compared counts as values that are all different.
        let Ok(rows) = rows else { return Seen { distinct: values.len(), once: values.len(), twice: 0 } };
        let mut times: HashMap<&[u8], usize> = HashMap::with_capacity(values.len());
        rows.iter().for_each(|row| *times.entry(row.data()).or_default() += 1);
        let so_often = |often: usize| times.values().filter(|&&times| times == often).count();
        Seen { distinct: times.len(), once: so_often(1), twice: so_often(2) }
    }

    /// About how many values there are in all, at least: Chao's bound.
    fn all(self) -> f64 {
        let (once, twice) = (self.once as f64, self.twice as f64);
        self.distinct as f64 + once * (once - 1.0).max(0.0) / (2.0 * (twice + 1.0))
    }

    /// The part of the bytes of so many rows, of values of `width` bytes, that a dictionary and indices into it are
    /// expected to keep; infinite if there are too many values for one.
    fn dictionary_share(self, rows: f64, width: f64) -> f64 {
        let all = self.all();
        if rows < 1.0 || all > DISTINCT_MAX {
            return f64::INFINITY;
        }
        let values = all.min(rows);
        let index_bytes = values.log2().ceil().max(1.0) / 8.0;
        (values * width + rows * index_bytes) / (rows * width)
    }
}

/// Bytes of a value in the file.
fn stored_width(data_type: &DataType) -> usize {
    match data_type {
        DataType::Decimal128(..=9, _) => 4,
        DataType::Decimal128(..=18, _) => 8,
        other => width(other).unwrap_or(1),
    }
}

/// Bytes of a value in memory, where all have as many.
fn width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::FixedSizeBinary(bytes) => usize::try_from(*bytes).ok(),
        other => other.primitive_width(),
    }
}

/// Bytes of the values, as wide as they are stored.
fn fixed_bytes(values: &ArrayRef) -> Vec<u8> {
    let data = values.to_data();
    let width = width(data.data_type()).unwrap_or(0);
    let stored = stored_width(data.data_type()).min(width);
    let Some(buffer) = data.buffers().first().filter(|_| width > 0) else { return Vec::new() };
    let bytes = &buffer.as_slice()[data.offset() * width..(data.offset() + data.len()) * width];
    bytes.chunks_exact(width).flat_map(|value| value[..stored].iter().copied()).collect()
}

/// The part of the bytes that zstd's level 1 keeps.
fn compressed_share(bytes: &[u8]) -> f64 {
    let compressed = zstd::bulk::compress(bytes, 1).map_or(bytes.len(), |compressed| compressed.len());
    compressed as f64 / bytes.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Decimal128Array, Float64Array};
    use arrow::datatypes::{Field, Schema};
    use std::sync::Arc;

    /// Whole numbers below `end`, scattered.
    fn scattered(count: usize, end: u64) -> impl Iterator<Item = u64> {
        (1..=count as u64)
            .map(move |at| {
                let mixed = at.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 33
            })
            .map(move |number| number % end)
    }

    fn cents(end: u64) -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(scattered(SAMPLE_ROWS, end).map(|cents| cents as f64 / 100.0)))
    }

    #[test]
    fn values_are_estimated_from_those_seen_once_and_twice() {
        let values: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), Some(1.0), Some(2.0), Some(3.0), None]));
        let seen = Seen::of(&values);
        assert_eq!(seen, Seen { distinct: 4, once: 3, twice: 1 });
        assert_eq!(seen.all(), 4.0 + 3.0 * 2.0 / 4.0);
        for end in [20_000, 100_000] {
            let all = Seen::of(&cents(end)).all();
            assert!((0.8..1.25).contains(&(all / end as f64)), "{all} of {end}");
        }
        assert_eq!(Seen::of(&(Arc::new(Float64Array::from(vec![0.5; 100])) as ArrayRef)).all(), 1.0);
    }

    #[test]
    fn a_dictionary_of_many_values_is_for_many_rows() {
        let way = |values: ArrayRef, rows: Option<u64>| {
            let schema = Arc::new(Schema::new(vec![Field::new("x", values.data_type().clone(), true)]));
            let sample = [values];
            let properties = properties(&schema, Expected { sample: &sample, rows }, Vec::new(), BLOCK_ROWS);
            let path = ColumnPath::from("x");
            (properties.dictionary_enabled(&path), properties.compression(&path) == Compression::UNCOMPRESSED)
        };
        assert_eq!(way(cents(100_000), Some(ROW_GROUP_ROWS as u64)), (true, true));
        assert_eq!(way(cents(100_000), Some(50_000_000)), (true, true));
        assert!(!way(cents(100_000), Some(100_000)).0, "as many values as rows");
        assert!(!way(cents(100_000), None).0, "nobody knows how many rows");
        assert!(!way(cents(4_000_000), Some(50_000_000)).0, "too many values");
        assert_eq!(way(cents(500), None), (true, true));
        let decimals = Decimal128Array::from_iter_values(scattered(SAMPLE_ROWS, 100_000).map(i128::from));
        let decimals = decimals.with_precision_and_scale(15, 2).expect("fits");
        assert_eq!(way(Arc::new(decimals), Some(50_000_000)), (true, true));
    }
}
