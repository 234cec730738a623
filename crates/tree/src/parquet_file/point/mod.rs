//! Values of single rows.
//!
//! The general reader sets up decoders for a column, and decodes a page and its dictionary, before it gives a value. Whoever
//! wants one row wants one value of a page: here the page is found by the offset index, and only what leads to that value
//! is decoded. Dictionaries are kept by whoever asks ([`DictionaryPage`]).
//!
//! Invariants:
//! - What is not decoded here is said to be so ([`Decoded::Unknown`]), and then read by the general reader: encodings that
//!   the writer of these files does not use.
//! - No byte of a file makes it panic: what does not fit is an error.

mod decode;
mod header;

use super::ParquetInput;
use super::intervals::span_of;
use alluvia_space::data_type::UUID_BYTES;
use alluvia_types::Result as AlluviaResult;
use arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array,
    Float64Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, StringViewArray,
    Time64MicrosecondArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, TimeUnit};
use bytes::Bytes;
use decode::{Value, dictionary_indices, packed_differences, plain, starts, validity};
use header::PageHeader;
use parquet::basic::{Compression, Encoding, Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::ChunkReader;
use std::ops::Range;
use std::sync::Arc;

/// No header of a dictionary's page has more.
const HEADER_BYTES_MAX: usize = 64;

/// A dictionary, unpacked, with where its values begin.
#[derive(Debug)]
pub(crate) struct DictionaryPage {
    page: Bytes,
    /// Of texts and bytes.
    starts: Vec<u32>,
}

impl DictionaryPage {
    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.page.len() + 4 * self.starts.len()) as u64
    }
}

/// Values, or that they are for the general reader.
#[derive(Debug)]
pub(crate) enum Decoded {
    Values(ArrayRef),
    Unknown,
}

/// One column of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PointColumn<'a> {
    pub(crate) input: &'a ParquetInput,
    pub(crate) metadata: &'a ParquetMetaData,
    /// Its place.
    pub(crate) leaf: usize,
}

/// What a page has.
struct PageBody {
    header: PageHeader,
    body: Bytes,
}

impl PointColumn<'_> {
    /// Its values in some rows, whose numbers ascend and are in the file. `dictionary` gives that of a row group.
    pub(crate) fn values(
        &self,
        data_type: &DataType,
        rows: &[Range<u64>],
        dictionary: &dyn Fn(usize) -> AlluviaResult<Arc<DictionaryPage>>,
    ) -> Result<Decoded> {
        let Some(index) = self.metadata.offset_index() else { return Ok(Decoded::Unknown) };
        let rows: Vec<u64> = rows.iter().cloned().flatten().collect();
        let mut values: Vec<Option<Value>> = Vec::with_capacity(rows.len());
        let mut group_start = 0;
        for (at, group) in self.metadata.row_groups().iter().enumerate() {
            let group_rows = group.num_rows() as u64;
            let pages = index.get(at).and_then(|columns| columns.get(self.leaf)).ok_or_else(damaged)?.page_locations();
            while let Some(row) = rows.get(values.len()).filter(|row| **row < group_start + group_rows) {
                let row = row - group_start;
                let page = pages.partition_point(|page| page.first_row_index as u64 <= row);
                let location = page.checked_sub(1).and_then(|page| pages.get(page)).ok_or_else(damaged)?;
                let (first, end) = (
                    location.first_row_index as u64,
                    pages.get(page).map_or(group_rows, |next| next.first_row_index as u64),
                );
                let of_page = rows[values.len()..].iter().map(|row| row - group_start).take_while(|row| *row < end);
                let of_page: Vec<usize> = of_page.map(|row| (row - first) as usize).collect();
                let bytes = self.input.get_bytes(location.offset as u64, location.compressed_page_size as usize)?;
                let Some(page) = self.unpacked(at, bytes)? else { return Ok(Decoded::Unknown) };
                if !self.add_values(&page, &of_page, &|| dictionary(at), &mut values)? {
                    return Ok(Decoded::Unknown);
                }
            }
            group_start += group_rows;
        }
        if values.len() != rows.len() {
            return Err(damaged());
        }
        array_of(data_type, values)
    }

    /// The dictionary of a row group.
    pub(crate) fn dictionary(&self, group: usize) -> Result<DictionaryPage> {
        let chunk = self.metadata.row_group(group).column(self.leaf);
        let start = chunk.dictionary_page_offset().ok_or_else(damaged)?;
        let len = chunk.data_page_offset().checked_sub(start).and_then(|len| usize::try_from(len).ok());
        let bytes = self.input.get_bytes(start as u64, len.ok_or_else(damaged)?)?;
        let page = self.unpacked(group, bytes)?.ok_or_else(damaged)?;
        let starts = match self.physical_type() {
            Type::BYTE_ARRAY => starts(&page.body, page.header.values).ok_or_else(damaged)?,
            _ => Vec::new(),
        };
        // Of its own, and no part of a larger buffer.
        Ok(DictionaryPage { page: Bytes::copy_from_slice(&page.body), starts })
    }

    /// Bytes of the dictionary of a row group, unpacked, and how many values it has: by its header alone.
    pub(crate) fn dictionary_size(&self, group: usize) -> Result<(u64, u64)> {
        let chunk = self.metadata.row_group(group).column(self.leaf);
        let start = chunk.dictionary_page_offset().ok_or_else(damaged)?;
        let len = chunk.data_page_offset().checked_sub(start).and_then(|len| usize::try_from(len).ok());
        let head = self.input.get_bytes(start as u64, len.ok_or_else(damaged)?.min(HEADER_BYTES_MAX))?;
        let (header, _) = PageHeader::read(&head).ok_or_else(damaged)?;
        Ok((header.unpacked as u64, header.values as u64))
    }

    fn physical_type(&self) -> Type {
        self.metadata.file_metadata().schema_descr().column(self.leaf).physical_type()
    }

    /// A page without its header, unpacked; `None` if that is not done here.
    fn unpacked(&self, group: usize, bytes: Bytes) -> Result<Option<PageBody>> {
        let (header, len) = PageHeader::read(&bytes).ok_or_else(damaged)?;
        let end = len.checked_add(header.packed).filter(|end| *end <= bytes.len()).ok_or_else(damaged)?;
        let body = bytes.slice(len..end);
        let body = match self.metadata.row_group(group).column(self.leaf).compression() {
            Compression::UNCOMPRESSED => body,
            Compression::ZSTD(_) => {
                let unpacked = zstd::bulk::decompress(&body, header.unpacked);
                Bytes::from(unpacked.map_err(|error| ParquetError::General(error.to_string()))?)
            }
            _ => return Ok(None),
        };
        Ok(Some(PageBody { header, body }))
    }

    /// Adds the values of some rows of a page. Returns whether its encoding is known here.
    fn add_values(
        &self,
        page: &PageBody,
        rows: &[usize],
        dictionary: &dyn Fn() -> AlluviaResult<Arc<DictionaryPage>>,
        values: &mut Vec<Option<Value>>,
    ) -> Result<bool> {
        let descr = self.metadata.file_metadata().schema_descr().column(self.leaf);
        if descr.max_rep_level() > 0
            || descr.max_def_level() > 1
            || rows.last().is_some_and(|row| *row >= page.header.values)
        {
            return Err(damaged());
        }
        let mut body = page.body.clone();
        // Which of the page's values each row has.
        let places: Vec<Option<usize>> = if descr.max_def_level() == 0 {
            rows.iter().map(|row| Some(*row)).collect()
        } else {
            let len = body.first_chunk::<4>().map(|len| u32::from_le_bytes(*len) as usize).ok_or_else(damaged)?;
            let levels = body.get(4..4 + len).ok_or_else(damaged)?;
            let places = validity(levels, rows).ok_or_else(damaged)?;
            body = body.slice(4 + len..);
            places
        };
        let wanted: Vec<usize> = places.iter().flatten().copied().collect();
        let kind = descr.physical_type();
        let width = match kind {
            Type::FIXED_LEN_BYTE_ARRAY => descr.type_length() as usize,
            _ => 0,
        };
        let found = match page.header.encoding {
            _ if wanted.is_empty() => Some(Vec::new()),
            Encoding::PLAIN => plain(kind, width, &body, &wanted),
            Encoding::DELTA_BINARY_PACKED => packed_differences(kind, &body, &wanted),
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => {
                let dictionary = dictionary().map_err(|error| ParquetError::External(Box::new(error)))?;
                let indices = dictionary_indices(&body, &wanted).ok_or_else(damaged)?;
                match kind {
                    Type::BYTE_ARRAY => {
                        let text = |index: u32| {
                            let start = *dictionary.starts.get(index as usize)? as usize;
                            decode::text_at(&dictionary.page, start)
                        };
                        indices.into_iter().map(text).collect()
                    }
                    _ => {
                        let value = |index: u32| plain(kind, width, &dictionary.page, &[index as usize])?.pop();
                        indices.into_iter().map(value).collect()
                    }
                }
            }
            _ => return Ok(false),
        };
        let mut found = found.filter(|found| found.len() == wanted.len()).ok_or_else(damaged)?.into_iter();
        values.extend(places.into_iter().map(|place| place.and_then(|_| found.next())));
        Ok(true)
    }
}

/// Values as an array of a column's type.
fn array_of(data_type: &DataType, values: Vec<Option<Value>>) -> Result<Decoded> {
    let number = |value: &Option<Value>| match value {
        Some(Value::Number(number)) => Some(*number),
        _ => None,
    };
    let numbers = || values.iter().map(number);
    let array: ArrayRef = match data_type {
        DataType::Boolean => Arc::new(BooleanArray::from_iter(numbers().map(|value| value.map(|value| value != 0)))),
        DataType::Int16 => Arc::new(Int16Array::from_iter(numbers().map(|value| value.map(|value| value as i16)))),
        DataType::Int32 => Arc::new(Int32Array::from_iter(numbers().map(|value| value.map(|value| value as i32)))),
        DataType::Date32 => Arc::new(Date32Array::from_iter(numbers().map(|value| value.map(|value| value as i32)))),
        DataType::Int64 => Arc::new(Int64Array::from_iter(numbers().map(|value| value.map(|value| value as i64)))),
        DataType::UInt64 => Arc::new(UInt64Array::from_iter(numbers().map(|value| value.map(|value| value as u64)))),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let micros = numbers().map(|value| value.map(|value| value as i64));
            Arc::new(TimestampMicrosecondArray::from_iter(micros).with_timezone_opt(zone.clone()))
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            Arc::new(Time64MicrosecondArray::from_iter(numbers().map(|value| value.map(|value| value as i64))))
        }
        DataType::FixedSizeBinary(UUID_BYTES) => {
            let bytes: Vec<u8> = numbers().flat_map(|value| value.unwrap_or(0).to_be_bytes()).collect();
            let nulls = NullBuffer::from_iter(numbers().map(|value| value.is_some()));
            let uuids = FixedSizeBinaryArray::try_new(UUID_BYTES, bytes.into(), Some(nulls));
            Arc::new(uuids.map_err(|error| ParquetError::General(error.to_string()))?)
        }
        DataType::Interval(_) => {
            let span = |value: i128| span_of(&value.to_be_bytes());
            Arc::new(IntervalMonthDayNanoArray::from_iter(numbers().map(|value| value.and_then(span))))
        }
        DataType::Float32 => {
            Arc::new(Float32Array::from_iter(numbers().map(|value| value.map(|value| f32::from_bits(value as u32)))))
        }
        DataType::Float64 => {
            Arc::new(Float64Array::from_iter(numbers().map(|value| value.map(|value| f64::from_bits(value as u64)))))
        }
        DataType::Decimal128(..) => Arc::new(Decimal128Array::from_iter(numbers()).with_data_type(data_type.clone())),
        DataType::Utf8View | DataType::BinaryView => {
            let mut bytes: Vec<Option<&[u8]>> = Vec::with_capacity(values.len());
            for value in &values {
                match value {
                    None => bytes.push(None),
                    Some(Value::Bytes(value)) => bytes.push(Some(&value[..])),
                    Some(Value::Number(_)) => return Ok(Decoded::Unknown),
                }
            }
            if *data_type == DataType::BinaryView {
                return Ok(Decoded::Values(Arc::new(BinaryViewArray::from_iter(bytes))));
            }
            let mut texts: Vec<Option<&str>> = Vec::with_capacity(bytes.len());
            for bytes in bytes {
                texts.push(bytes.map(std::str::from_utf8).transpose().map_err(|_| damaged())?);
            }
            return Ok(Decoded::Values(Arc::new(StringViewArray::from_iter(texts))));
        }
        _ => return Ok(Decoded::Unknown),
    };
    match values.iter().all(|value| !matches!(value, Some(Value::Bytes(_)))) {
        true => Ok(Decoded::Values(array)),
        false => Ok(Decoded::Unknown),
    }
}

fn damaged() -> ParquetError {
    ParquetError::General("a page is not what its header and the footer say".to_owned())
}
