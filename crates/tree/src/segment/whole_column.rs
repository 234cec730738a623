//! A column of all rows of a segment, in memory.
//!
//! Invariants:
//! - A text that comes again is kept once: a row has the number of its value, in as few bytes as the numbers need. Where most values
//!   come once, they are kept as they are.
//! - What is taken of it is what the file has.

use super::Segment;
use crate::parquet_file::dictionary::{Dictionary, Equal, NULL, Sources};
use alluvia_types::{Error, Result};
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, GenericByteViewArray, GenericByteViewBuilder,
    PrimitiveArray, StringArray, StringViewArray, UInt32Array, make_view,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::compute::{concat, take};
use arrow::datatypes::{ByteViewType, DataType, Int32Type, UInt8Type, UInt16Type, UInt32Type};
use arrow::error::ArrowError;
use parquet::file::metadata::ParquetMetaData;
use std::sync::Arc;

/// Bytes of different values at most: of longer ones there are few that come again.
const VALUES_BYTES_MAX: usize = 64 << 20;

/// Bytes that lie in the view of a text itself.
const INLINE_BYTES_MAX: usize = 12;

/// All values of a column.
#[derive(Debug)]
pub(super) enum WholeColumn {
    /// As they are.
    Plain(ArrayRef),
    /// As numbers of different values.
    Coded {
        /// The different values, in one buffer; NULL, where rows have it, among them.
        values: ArrayRef,
        codes: Codes,
    },
}

/// The numbers of values, one for each row.
#[derive(Debug)]
pub(super) enum Codes {
    One(Vec<u8>),
    Two(Vec<u16>),
    Four(Vec<u32>),
}

impl WholeColumn {
    /// Reads a column by its place in the file. Gives the bytes that it takes, too.
    pub(super) fn load(
        segment: &Arc<Segment>,
        leaf: usize,
        name: &str,
        data_type: &DataType,
    ) -> Result<(WholeColumn, u64)> {
        if let Some(coded) = WholeColumn::coded(segment, leaf, name, data_type)? {
            let bytes = coded.bytes();
            return Ok((coded, bytes));
        }
        let batches = segment.column_batches(&[(name, data_type.clone())])?;
        let parts = batches.map(|batch| Ok(Arc::clone(batch?.column(0)))).collect::<Result<Vec<ArrayRef>>>()?;
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        let whole = WholeColumn::Plain(concat(&parts).map_err(|error| misfit(segment, &error))?);
        let bytes = whole.bytes();
        Ok((whole, bytes))
    }

    /// The column as numbers of its values; `None` where that takes more memory.
    fn coded(segment: &Arc<Segment>, leaf: usize, name: &str, data_type: &DataType) -> Result<Option<WholeColumn>> {
        let kind = match data_type {
            DataType::Utf8View => DataType::Utf8,
            DataType::BinaryView => DataType::Binary,
            _ => return Ok(None),
        };
        let metadata = segment.parquet_metadata()?;
        if !has_dictionaries(&metadata, leaf) {
            return Ok(None);
        }
        let rows = segment.meta.rows as usize;
        let (mut dictionary, mut sources) = (Dictionary::new(), Sources::default());
        let mut codes: Vec<u32> = Vec::with_capacity(rows);
        let mut last: Option<ArrayRef> = None;
        for batch in segment.column_batches(&[(name, DataType::Dictionary(DataType::Int32.into(), kind.into()))])? {
            let batch = batch?;
            let Some(coded) = batch.column(0).as_dictionary_opt::<Int32Type>() else { return Ok(None) };
            // Batches of a row group have one dictionary, each in an array of its own.
            let values = match last.take() {
                Some(last) if is_same(&last, coded.values()) => last,
                _ => Arc::clone(coded.values()),
            };
            let source = sources.of(&values, || Equal::Unknown);
            let keys = coded.keys();
            if keys.null_count() == 0 {
                source.extend(keys.values().iter().copied(), |key| key as usize, &mut dictionary, &mut codes);
            } else {
                for key in keys {
                    match key {
                        Some(key) => source.extend([key].into_iter(), |key| key as usize, &mut dictionary, &mut codes),
                        None => codes.push(NULL),
                    }
                }
            }
            last = Some(values);
            if dictionary.len() > rows / 2 + 1 || dictionary.page().len() > VALUES_BYTES_MAX {
                return Ok(None);
            }
        }
        let count = dictionary.len() as u32;
        let has_null = codes.contains(&NULL);
        codes.iter_mut().filter(|code| **code == NULL).for_each(|code| *code = count);
        let values = values_of(data_type, &dictionary, has_null).map_err(|error| misfit(segment, &error))?;
        let codes = match values.len() {
            0..=0x100 => Codes::One(codes.iter().map(|code| *code as u8).collect()),
            0x101..=0x1_0000 => Codes::Two(codes.iter().map(|code| *code as u16).collect()),
            _ => Codes::Four(codes),
        };
        Ok(Some(WholeColumn::Coded { values, codes }))
    }

    /// The values of some rows, which the column has.
    pub(super) fn taken(&self, rows: &UInt32Array) -> Result<ArrayRef, ArrowError> {
        match self {
            WholeColumn::Plain(values) => taken(values, rows),
            WholeColumn::Coded { values, codes } => {
                let rows = rows.values().iter().map(|row| *row as usize);
                match codes {
                    Codes::One(codes) => take(values, &coded::<UInt8Type>(codes, rows)?, None),
                    Codes::Two(codes) => take(values, &coded::<UInt16Type>(codes, rows)?, None),
                    Codes::Four(codes) => take(values, &coded::<UInt32Type>(codes, rows)?, None),
                }
            }
        }
    }

    /// The value of one row; `None` if there is no such row.
    pub(super) fn one(&self, row: usize) -> Option<ArrayRef> {
        let (values, at) = match self {
            WholeColumn::Plain(values) => (values, row),
            WholeColumn::Coded { values, codes } => {
                let code = match codes {
                    Codes::One(codes) => usize::from(*codes.get(row)?),
                    Codes::Two(codes) => usize::from(*codes.get(row)?),
                    Codes::Four(codes) => *codes.get(row)? as usize,
                };
                (values, code)
            }
        };
        if at >= values.len() {
            return None;
        }
        Some(match values.data_type() {
            // A part of these would keep, and hand on, the texts of all.
            DataType::Utf8View => one_of(values.as_string_view(), at)?,
            DataType::BinaryView => one_of(values.as_binary_view(), at)?,
            _ => values.slice(at, 1),
        })
    }

    /// The bytes that it takes.
    fn bytes(&self) -> u64 {
        let bytes = match self {
            WholeColumn::Plain(values) => values.get_array_memory_size(),
            WholeColumn::Coded { values, codes } => {
                values.get_array_memory_size()
                    + match codes {
                        Codes::One(codes) => codes.len(),
                        Codes::Two(codes) => 2 * codes.len(),
                        Codes::Four(codes) => 4 * codes.len(),
                    }
            }
        };
        bytes as u64
    }
}

/// Whether the writer has made a dictionary of a column, by its place in the file, in all row groups: values come again.
pub(super) fn has_dictionaries(metadata: &ParquetMetaData, leaf: usize) -> bool {
    metadata.row_groups().iter().all(|group| group.column(leaf).dictionary_page_offset().is_some())
}

/// The numbers of some rows.
fn coded<K: arrow::datatypes::ArrowPrimitiveType>(
    codes: &[K::Native],
    rows: impl Iterator<Item = usize>,
) -> Result<PrimitiveArray<K>, ArrowError> {
    let code = |row: usize| codes.get(row).copied();
    let codes: Option<Vec<K::Native>> = rows.map(code).collect();
    let codes = codes.ok_or_else(|| ArrowError::InvalidArgumentError("a row is behind the last one".to_owned()))?;
    Ok(PrimitiveArray::new(codes.into(), None))
}

/// Whether arrays of texts or bytes are the same one.
fn is_same(one: &ArrayRef, other: &ArrayRef) -> bool {
    one.to_data().ptr_eq(&other.to_data())
}

/// The values of a dictionary as views of one buffer, and a NULL behind them where there is one.
fn values_of(data_type: &DataType, dictionary: &Dictionary, has_null: bool) -> Result<ArrayRef, ArrowError> {
    let count = dictionary.len();
    let values = (0..count as u32).map(|index| dictionary.value(index));
    let lengths = values.clone().map(<[u8]>::len).chain(has_null.then_some(0));
    let offsets = OffsetBuffer::<i32>::from_lengths(lengths);
    let bytes: Vec<u8> = values.flatten().copied().collect();
    let nulls = has_null.then(|| (0..=count).map(|index| index < count).collect());
    let bytes = Buffer::from_vec(bytes);
    Ok(match data_type {
        DataType::Utf8View => Arc::new(StringViewArray::from(&StringArray::try_new(offsets, bytes, nulls)?)),
        _ => Arc::new(BinaryViewArray::from(&BinaryArray::try_new(offsets, bytes, nulls)?)),
    })
}

/// Some of the values. A whole column of texts has hundreds of buffers, which Arrow's kernel would hand on with each row: texts are copied.
fn taken(values: &ArrayRef, rows: &UInt32Array) -> Result<ArrayRef, ArrowError> {
    Ok(match values.data_type() {
        DataType::Utf8View => Arc::new(copied(values.as_string_view(), rows)),
        DataType::BinaryView => Arc::new(copied(values.as_binary_view(), rows)),
        _ => take(values, rows, None)?,
    })
}

fn copied<T: ByteViewType>(values: &GenericByteViewArray<T>, rows: &UInt32Array) -> GenericByteViewArray<T> {
    let mut copies = GenericByteViewBuilder::<T>::with_capacity(rows.len());
    for &row in rows.values() {
        let row = row as usize;
        copies.append_option(values.is_valid(row).then(|| values.value(row)));
    }
    copies.finish()
}

/// A value in an array of its own. Arrow's builders take larger buffers than it needs.
fn one_of<T: ByteViewType>(values: &GenericByteViewArray<T>, at: usize) -> Option<ArrayRef> {
    let nulls = values.is_null(at).then(|| NullBuffer::new_null(1));
    let value: &[u8] = match nulls {
        Some(_) => &[],
        None => values.value(at).as_ref(),
    };
    let buffers = match value.len() > INLINE_BYTES_MAX {
        true => vec![Buffer::from_slice_ref(value)],
        false => Vec::new(),
    };
    let one = GenericByteViewArray::<T>::try_new(vec![make_view(value, 0, 0)].into(), buffers, nulls);
    one.ok().map(|one| Arc::new(one) as ArrayRef)
}

/// What does not fit together.
pub(super) fn misfit(segment: &Segment, error: &ArrowError) -> Error {
    Error::internal(format!("rows of segment {}: {error}", segment.meta.id))
}
