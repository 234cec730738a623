//! Encoding of a text or binary column into Parquet column chunks.
//!
//! The `parquet` crate hashes and compares every value of every row. Here rows come mostly as dictionaries, and so the
//! work per row is a look-up, a mark and a few bits, for the columns that a table has most of.
//! The pages are the same: a dictionary page, then data pages of indices (RLE/bit-packed), one per block or of fewer rows. A dictionary
//! that outgrows [`DICTIONARY_BYTES_MAX`] ends there: pages after that hold the values themselves.

use super::codec::{Codec, Context};
use super::dictionary::{Dictionary, Equal, NULL, Sources, value_bytes};
use super::hybrid;
use super::spool::{Chunk, Pages, Spool};
use crate::chunk::CodedColumn;
use crate::summary::{lower_bound, upper_bound};
use arrow::array::{Array, ArrayRef, AsArray, BooleanBufferBuilder, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::compute::take;
use arrow::datatypes::{ArrowDictionaryKeyType, ArrowNativeType, DataType, Int32Type, UInt32Type};
use bytes::Bytes;
use parquet::basic::{BoundaryOrder, Encoding, EncodingMask, PageType, Type};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ColumnIndexBuilder, OffsetIndexBuilder, PageEncodingStats};
use parquet::file::reader::Length;
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use std::io::Write;
use std::sync::Arc;

/// A dictionary page that is longer than this at the end of a block gets no more values.
const DICTIONARY_BYTES_MAX: usize = 4 << 20;
/// The same within a block; a bound on memory where values are long. With little memory what may wait of a row group is the bound.
const DICTIONARY_BYTES_HARD_MAX: usize = 64 << 20;
/// A page of values (not indices) ends when it is longer than this.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// Smallest and largest value.
type ByteRange = (Vec<u8>, Vec<u8>);

/// Encodes one column, row group after row group.
pub(crate) struct BytesColumn {
    descr: ColumnDescPtr,
    nullable: bool,
    is_text: bool,
    codec: Codec,
    sources: Sources,
    dictionary: Dictionary,
    /// Whether row groups start without a dictionary.
    is_prose: bool,
    /// Rows of a page at most.
    page_rows: usize,
    /// Whether this row group has no dictionary, or it has ended.
    plain: bool,
    page: OpenPage,
    block_nulls: usize,
    block_bounds: Option<ByteRange>,
    chunk: OpenChunk,
    /// Where pages go that do not fit in memory.
    spool: Option<Spool>,
    /// Of the dictionary page, within a block.
    dictionary_bytes_max: usize,
    /// Scratch: which indices a page holds.
    marks: Vec<u8>,
    /// Scratch: keys of rows that are not NULL.
    keys: Vec<u32>,
}

/// The page being filled.
#[derive(Default)]
struct OpenPage {
    rows: usize,
    nulls: usize,
    /// Bits of all rows, once one of them is NULL.
    validity: Option<BooleanBufferBuilder>,
    /// Of rows that are not NULL, while there is a dictionary.
    indices: Vec<u32>,
    /// The values as Parquet wants them, when there is none.
    values: Vec<u8>,
    /// Of `values`.
    bounds: Option<ByteRange>,
}

/// The pages of the row group so far.
struct OpenChunk {
    sink: TrackedWrite<Pages>,
    uncompressed: usize,
    rows: usize,
    nulls: usize,
    bounds: Option<ByteRange>,
    index_pages: i32,
    value_pages: i32,
    column_index: ColumnIndexBuilder,
    offset_index: OffsetIndexBuilder,
}

impl OpenChunk {
    fn new(spool: Option<Spool>) -> OpenChunk {
        OpenChunk {
            sink: TrackedWrite::new(Pages::new(spool)),
            uncompressed: 0,
            rows: 0,
            nulls: 0,
            bounds: None,
            index_pages: 0,
            value_pages: 0,
            column_index: ColumnIndexBuilder::new(Type::BYTE_ARRAY),
            offset_index: OffsetIndexBuilder::new(),
        }
    }
}

impl BytesColumn {
    /// `is_prose`: most values appear once and compress well. Pages have `page_rows` rows at most, which divide a block's;
    /// values are taken in such pieces.
    pub(crate) fn new(
        descr: ColumnDescPtr,
        nullable: bool,
        is_text: bool,
        is_prose: bool,
        page_rows: usize,
        context: &Context,
    ) -> BytesColumn {
        BytesColumn {
            descr,
            nullable,
            is_text,
            codec: if is_prose { Codec::zstd(context) } else { Codec::default() },
            sources: Sources::default(),
            dictionary: Dictionary::new(),
            is_prose,
            page_rows,
            plain: is_prose,
            page: OpenPage::default(),
            block_nulls: 0,
            block_bounds: None,
            chunk: OpenChunk::new(None),
            spool: None,
            dictionary_bytes_max: DICTIONARY_BYTES_HARD_MAX,
            marks: Vec::new(),
            keys: Vec::new(),
        }
    }

    /// Pages that do not fit in memory go to a file.
    pub(crate) fn spooling(mut self, spool: &Spool) -> BytesColumn {
        self.chunk = OpenChunk::new(Some(spool.clone()));
        self.spool = Some(spool.clone());
        self.dictionary_bytes_max = DICTIONARY_BYTES_HARD_MAX.min(spool.bytes_max);
        self
    }

    /// Gives back the memory that it keeps from row group to row group. There is none open.
    pub(crate) fn release(&mut self) {
        self.sources = Sources::default();
        self.dictionary = Dictionary::new();
        self.page = OpenPage::default();
        (self.marks, self.keys) = (Vec::new(), Vec::new());
    }

    /// Bytes of pages that wait for the row group's end.
    pub(crate) fn bytes(&self) -> usize {
        self.chunk.sink.bytes_written() + self.dictionary.page().len()
    }

    /// Takes in some of the current block's values.
    pub(crate) fn write(&mut self, values: &ArrayRef) -> Result<()> {
        if values.null_count() > 0 && !self.nullable {
            return Err(ParquetError::General(format!("NULL in {}, which is NOT NULL", self.descr.name())));
        }
        match values.data_type() {
            DataType::Dictionary(key, _) if **key == DataType::UInt32 => self.write_keys::<UInt32Type>(values)?,
            DataType::Dictionary(key, _) if **key == DataType::Int32 => self.write_keys::<Int32Type>(values)?,
            DataType::Utf8 | DataType::Utf8View | DataType::Binary | DataType::BinaryView => {
                self.write_values(values)?
            }
            other => return Err(ParquetError::General(format!("{other} in {}, a text column", self.descr.name()))),
        }
        self.end_full_page()
    }

    /// Ends a page that has all its rows.
    fn end_full_page(&mut self) -> Result<()> {
        if self.page.rows < self.page_rows { Ok(()) } else { self.end_page() }
    }

    fn write_keys<K: ArrowDictionaryKeyType>(&mut self, array: &ArrayRef) -> Result<()> {
        let rows = array.as_dictionary::<K>();
        let huge = rows.values().get_buffer_memory_size() > self.dictionary_bytes_max;
        if self.plain || huge {
            return self.write_values(&take(rows.values(), rows.keys(), None)?);
        }
        let start = self.page.indices.len();
        let source = self.sources.of(rows.values(), || Equal::Unknown);
        let keys: &PrimitiveArray<K> = rows.keys();
        match keys.nulls() {
            None => {
                let keys = keys.values().iter().copied();
                source.extend(keys, |key: K::Native| key.as_usize(), &mut self.dictionary, &mut self.page.indices);
            }
            Some(nulls) => {
                self.keys.clear();
                self.keys.extend(nulls.valid_indices().map(|at| keys.value(at).as_usize() as u32));
                let keys = self.keys.iter().copied();
                source.extend(keys, |key: u32| key as usize, &mut self.dictionary, &mut self.page.indices);
            }
        }
        // The incoming dictionary may itself hold a NULL, which some rows mean.
        if self.page.indices[start..].contains(&NULL) {
            self.page.indices.truncate(start);
            return self.write_values(&take(rows.values(), rows.keys(), None)?);
        }
        self.page.add_validity(keys.len(), keys.nulls());
        Ok(())
    }

    /// Takes in some of the current block's values by their codes.
    pub(crate) fn write_codes(&mut self, column: &CodedColumn, codes: &[u32]) -> Result<()> {
        let huge = column.values.get_buffer_memory_size() > self.dictionary_bytes_max;
        if self.plain || huge {
            let rows = column.dictionary_array(codes).map_err(|error| ParquetError::General(error.to_string()))?;
            return self.write(&rows);
        }
        let equal = || column.first_codes.as_ref().map_or(Equal::None, |first| Equal::First(Arc::clone(first)));
        let source = self.sources.of(&column.values, equal);
        let (dictionary, indices) = (&mut self.dictionary, &mut self.page.indices);
        if !codes.contains(&0) {
            source.extend(codes.iter().copied(), |code| code as usize, dictionary, indices);
            self.page.add_validity(codes.len(), None);
            return self.end_full_page();
        }
        if !self.nullable {
            return Err(ParquetError::General(format!("NULL in {}, which is NOT NULL", self.descr.name())));
        }
        self.keys.clear();
        self.keys.extend(codes.iter().copied().filter(|&code| code != 0));
        source.extend(self.keys.iter().copied(), |code| code as usize, dictionary, indices);
        let valid = NullBuffer::from_iter(codes.iter().map(|&code| code != 0));
        self.page.add_validity(codes.len(), Some(&valid));
        self.end_full_page()
    }

    fn write_values(&mut self, values: &ArrayRef) -> Result<()> {
        let mut done = 0;
        if !self.plain {
            for place in 0..values.len() {
                if self.dictionary.page().len() > self.dictionary_bytes_max {
                    break;
                }
                if let Some(value) = value_bytes(values, place) {
                    self.page.indices.push(self.dictionary.index(value));
                }
                done += 1;
            }
            let taken = values.slice(0, done);
            self.page.add_validity(done, taken.nulls());
            if done == values.len() {
                return Ok(());
            }
            self.end_page()?;
            self.plain = true;
        }
        for place in done..values.len() {
            let value = value_bytes(values, place);
            if let Some(value) = value {
                widen(&mut self.page.bounds, value, value);
                self.page.values.extend_from_slice(&(value.len() as u32).to_le_bytes());
                self.page.values.extend_from_slice(value);
            }
            self.page.add_row(value.is_some());
            if self.page.values.len() > PAGE_BYTES_MAX || self.page.rows == self.page_rows {
                self.end_page()?;
            }
        }
        Ok(())
    }

    /// Ends the current block and returns its NULLs and bounds.
    pub(crate) fn end_block(&mut self) -> Result<(usize, Option<ByteRange>)> {
        if self.page.rows > 0 {
            self.end_page()?;
        }
        self.plain |= self.dictionary.page().len() > DICTIONARY_BYTES_MAX;
        Ok((std::mem::take(&mut self.block_nulls), self.block_bounds.take()))
    }

    fn end_page(&mut self) -> Result<()> {
        let page = &mut self.page;
        let bounds =
            if self.plain { page.bounds.take() } else { distinct_bounds(page, &self.dictionary, &mut self.marks) };
        let mut body = Vec::with_capacity(page.values.len() + 4 * page.indices.len() + page.rows / 8 + 64);
        if self.nullable {
            body.extend_from_slice(&[0; 4]);
            match page.validity.take() {
                None => hybrid::encode_level_run(1, page.rows, &mut body),
                Some(bits) => hybrid::encode_bitmap(bits.as_slice(), page.rows, &mut body),
            }
            let levels = (body.len() - 4) as u32;
            body[..4].copy_from_slice(&levels.to_le_bytes());
        }
        let encoding = if self.plain {
            body.append(&mut page.values);
            Encoding::PLAIN
        } else {
            let width = hybrid::bit_width(self.dictionary.len().saturating_sub(1) as u32);
            body.push(width as u8);
            hybrid::encode(&page.indices, width, &mut body);
            page.indices.clear();
            Encoding::RLE_DICTIONARY
        };
        let uncompressed = body.len();
        let buf = Bytes::from(self.codec.compress(body)?);
        let written = SerializedPageWriter::new(&mut self.chunk.sink).write_page(CompressedPage::new(
            Page::DataPage {
                buf,
                num_values: page.rows as u32,
                encoding,
                def_level_encoding: Encoding::RLE,
                rep_level_encoding: Encoding::RLE,
                statistics: None,
            },
            uncompressed,
        ))?;
        let chunk = &mut self.chunk;
        chunk.uncompressed += written.uncompressed_size;
        chunk.rows += page.rows;
        chunk.nulls += page.nulls;
        *(if self.plain { &mut chunk.value_pages } else { &mut chunk.index_pages }) += 1;
        chunk.offset_index.append_row_count(page.rows as i64);
        chunk.offset_index.append_offset_and_size(written.offset as i64, written.compressed_size as i32);
        let nulls = page.nulls as i64;
        match &bounds {
            None => chunk.column_index.append(true, Vec::new(), Vec::new(), nulls),
            Some((min, max)) => {
                let min = lower_bound(min, self.is_text).to_vec();
                let max = upper_bound(max, self.is_text).unwrap_or_else(|| max.clone());
                chunk.column_index.append(false, min, max, nulls);
            }
        }
        if let Some((min, max)) = bounds {
            widen(&mut chunk.bounds, &min, &max);
            widen(&mut self.block_bounds, &min, &max);
        }
        self.block_nulls += page.nulls;
        (page.rows, page.nulls) = (0, 0);
        Ok(())
    }

    /// Ends the row group: the column chunk's bytes, dictionary first, and what Parquet's footer says of it.
    pub(super) fn end_group(&mut self) -> Result<(Chunk, ColumnCloseResult)> {
        let mut chunk = std::mem::replace(&mut self.chunk, OpenChunk::new(self.spool.clone()));
        let mut head = TrackedWrite::new(Vec::new());
        let mut uncompressed = chunk.uncompressed;
        let mut encodings = vec![Encoding::RLE];
        let mut stats = Vec::new();
        let mut count = |page_type, encoding, count| {
            if count > 0 {
                encodings.push(encoding);
                stats.push(PageEncodingStats { page_type, encoding, count });
            }
        };
        if chunk.index_pages > 0 {
            let page = self.dictionary.page().to_vec();
            let len = page.len();
            let written = SerializedPageWriter::new(&mut head).write_page(CompressedPage::new(
                Page::DictionaryPage {
                    buf: Bytes::from(self.codec.compress(page)?),
                    num_values: self.dictionary.len() as u32,
                    encoding: Encoding::PLAIN,
                    is_sorted: false,
                },
                len,
            ))?;
            uncompressed += written.uncompressed_size;
            count(PageType::DICTIONARY_PAGE, Encoding::PLAIN, 1);
        }
        count(PageType::DATA_PAGE, Encoding::RLE_DICTIONARY, chunk.index_pages);
        count(PageType::DATA_PAGE, Encoding::PLAIN, chunk.value_pages);
        let head = head.into_inner()?;
        let has_dictionary = !head.is_empty();
        let dictionary_len = head.len();
        // By itself: it would make its own error of one of the disk's.
        chunk.sink.flush()?;
        let bytes = chunk.sink.into_inner()?.chunk(head);
        let metadata = ColumnChunkMetaData::builder(self.descr.clone())
            .set_compression(self.codec.compression())
            .set_encodings_mask(EncodingMask::new_from_encodings(encodings.iter()))
            .set_page_encoding_stats(stats)
            .set_total_compressed_size(bytes.len() as i64)
            .set_total_uncompressed_size(uncompressed as i64)
            .set_num_values(chunk.rows as i64)
            .set_data_page_offset(0)
            .set_statistics(self.statistics(chunk.bounds, chunk.nulls))
            .build()?;
        let mut column_index = chunk.column_index;
        column_index.set_boundary_order(BoundaryOrder::UNORDERED);
        let close = ColumnCloseResult {
            bytes_written: bytes.len(),
            rows_written: chunk.rows as u64,
            metadata,
            bloom_filter: None,
            column_index: Some(column_index.build()?),
            offset_index: Some(chunk.offset_index.build()),
        };
        let close = if has_dictionary { close.update_dictionary_location(dictionary_len)? } else { close };
        self.dictionary.clear();
        self.sources.clear();
        self.plain = self.is_prose;
        Ok((bytes, close))
    }

    fn statistics(&self, bounds: Option<ByteRange>, nulls: usize) -> Statistics {
        let cut = bounds.map(|(min, max)| {
            let low = lower_bound(&min, self.is_text).to_vec();
            let high = upper_bound(&max, self.is_text).unwrap_or_else(|| max.clone());
            let exact = (low == min, high == max);
            (low, high, exact)
        });
        let (low, high, exact) = match cut {
            None => (None, None, (true, true)),
            Some((low, high, exact)) => (Some(ByteArray::from(low)), Some(ByteArray::from(high)), exact),
        };
        let statistics = ValueStatistics::new(low, high, None, Some(nulls as u64), false);
        statistics.with_min_is_exact(exact.0).with_max_is_exact(exact.1).into()
    }
}

impl OpenPage {
    fn add_validity(&mut self, rows: usize, nulls: Option<&NullBuffer>) {
        let null_count = nulls.map_or(0, NullBuffer::null_count);
        match (&mut self.validity, nulls.filter(|_| null_count > 0)) {
            (None, None) => {}
            (Some(bits), None) => bits.append_n(rows, true),
            (bits, Some(nulls)) => {
                let bits = bits.get_or_insert_with(|| all_valid(self.rows));
                bits.append_buffer(nulls.inner());
            }
        }
        self.rows += rows;
        self.nulls += null_count;
    }

    fn add_row(&mut self, valid: bool) {
        match &mut self.validity {
            Some(bits) => bits.append(valid),
            None if valid => {}
            bits => bits.insert(all_valid(self.rows)).append(false),
        }
        self.rows += 1;
        self.nulls += usize::from(!valid);
    }
}

fn all_valid(rows: usize) -> BooleanBufferBuilder {
    let mut bits = BooleanBufferBuilder::new(crate::layout::BLOCK_ROWS);
    bits.append_n(rows, true);
    bits
}

/// Smallest and largest value of a page of indices: each distinct value is compared once.
fn distinct_bounds(page: &OpenPage, dictionary: &Dictionary, marks: &mut Vec<u8>) -> Option<ByteRange> {
    marks.clear();
    marks.resize(dictionary.len(), 0);
    for &index in &page.indices {
        marks[index as usize] = 1;
    }
    let mut bounds: Option<(&[u8], &[u8])> = None;
    for (index, _) in marks.iter().enumerate().filter(|(_, mark)| **mark != 0) {
        let value = dictionary.value(index as u32);
        bounds = Some(match bounds {
            None => (value, value),
            Some((min, max)) => (min.min(value), max.max(value)),
        });
    }
    bounds.map(|(min, max)| (min.to_vec(), max.to_vec()))
}

fn widen(bounds: &mut Option<ByteRange>, min: &[u8], max: &[u8]) {
    match bounds {
        None => *bounds = Some((min.to_vec(), max.to_vec())),
        Some((low, high)) => {
            if min < low.as_slice() {
                low.clear();
                low.extend_from_slice(min);
            }
            if max > high.as_slice() {
                high.clear();
                high.extend_from_slice(max);
            }
        }
    }
}
