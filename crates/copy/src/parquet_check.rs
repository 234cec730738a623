//! Parquet files, checked before the reader of Parquet reads them.
//!
//! That reader makes room for what a footer says of row groups, and a page header of its page, before it has read them; and it panics where
//! places in the file are negative, or a header has bytes where it expects none.
//!
//! Invariants:
//! - No length is believed before as many bytes have come: what a page unpacks to is no more than its packing can make of it, lists have no
//!   more elements than there are bytes.
//! - What is checked is what the reader reads: a header that has a field twice, or as another kind of value, is refused.
//! - Column chunks lie in the file, pages in their chunks, and the pages have no more values than their chunk says.
//! - What pages hold is the reader's: see [`crate::caught`].

use crate::thrift::{Compact, I32, LIST, STRUCT};
use alluvia_types::{Error, ErrorKind, Result};
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{Page, PageReader};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::serialized_reader::SerializedPageReader;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

const MARK: &[u8; 4] = b"PAR1";
/// What one page may unpack to.
const PAGE_BYTES_MAX: i64 = 1 << 30;
/// The longest header of a page: it may have the least and the greatest value.
const HEADER_BYTES_MAX: usize = 16 << 20;
const HEADER_BYTES: usize = 1 << 10;
/// What Zstandard makes of a byte at most, about: blocks of 128 KiB of 4 bytes each.
const ZSTD_RATIO_MAX: i64 = 32 << 10;
/// The number of row groups has 16 bits.
const GROUPS_MAX: usize = i16::MAX as usize;
/// The field of a footer that lists the row groups.
const GROUPS: i16 = 4;

/// A file that is looked at.
pub(crate) struct LookedAt<'a> {
    file: &'a File,
    /// As messages call it.
    name: &'a str,
    bytes: u64,
}

impl<'a> LookedAt<'a> {
    /// As it is now.
    pub(crate) fn new(file: &'a File, name: &'a str) -> Result<LookedAt<'a>> {
        let bytes = file.metadata().map_err(|error| Error::io(name, "reading", &error))?.len();
        Ok(LookedAt { file, name, bytes })
    }

    fn wrong(&self, what: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::InvalidValue, format!("{} cannot be read as Parquet: {what}", self.name))
            .with_hint("is it complete, and in the format that was stated?")
    }

    fn read_at(&self, bytes: &mut [u8], at: u64) -> Result<()> {
        self.file.read_exact_at(bytes, at).map_err(|error| Error::io(self.name, "reading", &error))
    }

    /// Checks the footer, before it is read. What is no Parquet at all is left to the reader, which says so.
    pub(crate) fn check_footer(&self) -> Result<()> {
        let mut end = [0; 8];
        let Some(end_at) = self.bytes.checked_sub(end.len() as u64) else { return Ok(()) };
        self.read_at(&mut end, end_at)?;
        let length = u64::from(u32::from_le_bytes([end[0], end[1], end[2], end[3]]));
        let Some(at) = end_at.checked_sub(length).filter(|_| end[4..] == *MARK) else { return Ok(()) };
        let mut footer = vec![0; length as usize];
        self.read_at(&mut footer, at)?;
        footer_holds(&footer).ok_or_else(|| self.wrong("a length in its footer makes no sense"))
    }

    /// Checks where the parts of a file lie, by its footer, and the headers of all pages of the columns that are read.
    pub(crate) fn check_pages(&self, metadata: &ParquetMetaData, is_read: impl Fn(usize) -> bool) -> Result<()> {
        let mut rows = Some(0_i64);
        for group in metadata.row_groups() {
            let more = Some(group.num_rows()).filter(|rows| *rows >= 0);
            rows = rows.and_then(|rows| rows.checked_add(more?));
            for (_, column) in group.columns().iter().enumerate().filter(|(leaf, _)| is_read(*leaf)) {
                let chunk = Chunk::of(column, self.bytes);
                let chunk = chunk.ok_or_else(|| self.wrong("a column lies outside of the file"))?;
                if chunk.check(self)? {
                    self.check_lengths(column, group.num_rows())?;
                }
            }
        }
        if rows != Some(metadata.file_metadata().num_rows()) {
            return Err(self.wrong("its row groups have not as many rows as its footer says"));
        }
        Ok(())
    }

    /// Pages of lengths say how many they have, in front of them, and the reader makes room for as many.
    fn check_lengths(&self, column: &ColumnChunkMetaData, rows: i64) -> Result<()> {
        let rows = usize::try_from(rows).map_err(|_| self.wrong("a row group has fewer rows than none"))?;
        let file = self.file.try_clone().map_err(|error| Error::io(self.name, "opening", &error))?;
        let pages = SerializedPageReader::new(Arc::new(file), column, rows, None);
        let mut pages = pages.map_err(|error| self.wrong(error))?;
        let of_column = column.column_descr();
        let levels = u8::from(of_column.max_rep_level() > 0) + u8::from(of_column.max_def_level() > 0);
        while let Some(page) = pages.get_next_page().map_err(|error| self.wrong(error))? {
            let (bytes, encoding, values) = match &page {
                Page::DataPage { buf, encoding, num_values, .. } => (behind_levels(buf, levels), encoding, num_values),
                Page::DataPageV2 { buf, encoding, num_values, def_levels_byte_len, rep_levels_byte_len, .. } => {
                    (buf.get((def_levels_byte_len + rep_levels_byte_len) as usize..), encoding, num_values)
                }
                Page::DictionaryPage { .. } => continue,
            };
            let is_said = matches!(encoding, Encoding::DELTA_LENGTH_BYTE_ARRAY | Encoding::DELTA_BYTE_ARRAY);
            if is_said && bytes.and_then(lengths_said).is_some_and(|said| said > u64::from(*values)) {
                return Err(self.wrong("a page has more lengths than values"));
            }
        }
        Ok(())
    }
}

fn footer_holds(footer: &[u8]) -> Option<()> {
    let (mut compact, mut last) = (Compact::new(footer), 0);
    while let Some((field, kind)) = compact.field(&mut last)? {
        if (field, kind) == (GROUPS, LIST) && compact.clone().list()?.1 > GROUPS_MAX {
            return None;
        }
        compact.skip(kind)?;
    }
    Some(())
}

/// The pages of a column in a row group.
struct Chunk {
    from: u64,
    to: u64,
    values: i64,
    packing: Compression,
}

impl Chunk {
    fn of(column: &ColumnChunkMetaData, file_bytes: u64) -> Option<Chunk> {
        let from = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
        let from = u64::try_from(from).ok()?;
        let to = from.checked_add(u64::try_from(column.compressed_size()).ok()?)?;
        let is_within = to <= file_bytes && column.num_values() >= 0 && column.data_page_offset() >= 0;
        is_within.then(|| Chunk { from, to, values: column.num_values(), packing: column.compression() })
    }

    /// Whether there are pages among them that say how many lengths they have.
    fn check(&self, file: &LookedAt<'_>) -> Result<bool> {
        let (mut at, mut values, mut has_lengths) = (self.from, 0_i64, false);
        while at < self.to {
            let (header, length) = self.header(file, at)?;
            at += length as u64;
            let left = (self.to - at) as i64;
            let page = header.page(self.packing, left).ok_or_else(|| file.wrong("a page header makes no sense"))?;
            at += page.bytes;
            values = values.saturating_add(page.values);
            has_lengths |= page.has_lengths;
        }
        if values > self.values {
            return Err(file.wrong("the pages of a column have more values than its footer says"));
        }
        Ok(has_lengths)
    }

    /// The page header here, and its length.
    fn header(&self, file: &LookedAt<'_>, at: u64) -> Result<(Header, usize)> {
        let left = usize::try_from(self.to - at).unwrap_or(usize::MAX).min(HEADER_BYTES_MAX);
        let mut length = left.min(HEADER_BYTES);
        loop {
            let mut bytes = vec![0; length];
            file.read_at(&mut bytes, at)?;
            let mut compact = Compact::new(&bytes);
            match Header::read(&mut compact) {
                Some(header) => return Ok((header, compact.read())),
                None if length == left => return Err(file.wrong("a page header makes no sense")),
                None => length = (length * 16).min(left),
            }
        }
    }
}

/// What is looked at of a page header; numbers that it lacks are -1.
#[derive(Debug)]
struct Header {
    kind: i64,
    unpacked: i64,
    packed: i64,
    /// The numbers of the header of its kind, by their fields.
    own: [i64; 8],
    is_packed: bool,
}

/// A page of which the header makes sense.
struct CheckedPage {
    /// Behind the header.
    bytes: u64,
    /// Of a page of data.
    values: i64,
    has_lengths: bool,
}

/// Kinds of pages, and fields of their headers.
const DATA: i64 = 0;
const DICTIONARY: i64 = 2;
const DATA_2: i64 = 3;
const DELTA_LENGTHS: i64 = 6;
const DELTA_TEXTS: i64 = 7;

/// The fields of a structure that were met. The reader goes by their numbers alone, whatever their kinds are, and believes the last of one
/// number: so each is met once, and is of the kind that it is to be.
#[derive(Default)]
struct Seen(u16);

impl Seen {
    fn once(&mut self, field: i16) -> Option<()> {
        let Some(bit) = u32::try_from(field).ok().and_then(|field| 1_u16.checked_shl(field)) else { return Some(()) };
        let is_new = self.0 & bit == 0;
        self.0 |= bit;
        is_new.then_some(())
    }
}

/// A number of 32 bits: of a longer one the reader takes the lower ones.
fn number(compact: &mut Compact<'_>) -> Option<i64> {
    i32::try_from(compact.integer()?).ok().map(i64::from)
}

impl Header {
    fn read(compact: &mut Compact<'_>) -> Option<Header> {
        let mut header = Header { kind: -1, unpacked: -1, packed: -1, own: [-1; 8], is_packed: true };
        let (mut last, mut seen) = (0, Seen::default());
        while let Some((field, kind)) = compact.field(&mut last)? {
            seen.once(field)?;
            match (field, kind) {
                (1, I32) => header.kind = number(compact)?,
                (2, I32) => header.unpacked = number(compact)?,
                (3, I32) => header.packed = number(compact)?,
                (4, I32) => compact.skip(kind)?,
                (5, STRUCT) => header.read_own(compact, header.kind == DATA, DATA)?,
                (6, STRUCT) => compact.skip(kind)?,
                (7, STRUCT) => header.read_own(compact, header.kind == DICTIONARY, DICTIONARY)?,
                (8, STRUCT) => header.read_own(compact, header.kind == DATA_2, DATA_2)?,
                (1..=8, _) => return None,
                _ => compact.skip(kind)?,
            }
        }
        Some(header)
    }

    /// The header `of` a kind of page, which is this one's or is passed over as the reader does.
    fn read_own(&mut self, compact: &mut Compact<'_>, is_own: bool, of: i64) -> Option<()> {
        let (mut last, mut seen) = (0, Seen::default());
        let numbers = match of {
            DATA => 1..=4,
            DICTIONARY => 1..=2,
            _ => 1..=6,
        };
        while let Some((field, kind)) = compact.field(&mut last)? {
            seen.once(field)?;
            match (of, field, kind) {
                (_, field, I32) if numbers.contains(&field) => {
                    let number = number(compact)?;
                    if is_own {
                        self.own[field as usize] = number;
                    }
                }
                // The kind of a truth is its value.
                (DICTIONARY, 3, 1 | 2) => {}
                (DATA_2, 7, 1 | 2) if is_own => self.is_packed = kind == 1,
                (DATA_2, 7, 1 | 2) => {}
                (DATA, 5, STRUCT) | (DATA_2, 8, STRUCT) => compact.skip(kind)?,
                (DATA, 1..=5, _) | (DICTIONARY, 1..=3, _) | (DATA_2, 1..=8, _) => return None,
                _ => compact.skip(kind)?,
            }
        }
        Some(())
    }

    /// The page, if it is what it can be of these bytes.
    fn page(&self, packing: Compression, left: i64) -> Option<CheckedPage> {
        let Header { kind, unpacked, packed, own, is_packed } = *self;
        let values = own[1];
        let ratio = if is_packed { ratio_max(packing) } else { 1 };
        let most = packed.saturating_mul(ratio).saturating_add(64).min(PAGE_BYTES_MAX);
        if !(0..=left).contains(&packed) || !(0..=most).contains(&unpacked) {
            return None;
        }
        let is_data = kind == DATA || kind == DATA_2;
        let makes_sense = match kind {
            DATA => values >= 0,
            // Nothing is shorter than a byte there.
            DICTIONARY => (0..=unpacked).contains(&values),
            DATA_2 => {
                let (nulls, rows, definition, repetition) = (own[2], own[3], own[5], own[6]);
                let levels = definition.checked_add(repetition)?;
                values >= 0
                    && (0..=values).contains(&nulls)
                    && (0..=values).contains(&rows)
                    && definition >= 0
                    && repetition >= 0
                    && levels <= packed.min(unpacked)
            }
            // The reader passes over an index, and refuses what is not known.
            _ => true,
        };
        let encoding = match kind {
            DATA => own[2],
            DATA_2 => own[4],
            _ => -1,
        };
        makes_sense.then_some(CheckedPage {
            bytes: packed as u64,
            values: if is_data { values } else { 0 },
            has_lengths: encoding == DELTA_LENGTHS || encoding == DELTA_TEXTS,
        })
    }
}

/// The most that a packing makes of a byte.
fn ratio_max(packing: Compression) -> i64 {
    match packing {
        Compression::UNCOMPRESSED => 1,
        Compression::SNAPPY => 64,
        Compression::LZ4 | Compression::LZ4_RAW => 256,
        Compression::GZIP(_) => 1_100,
        Compression::ZSTD(_) => ZSTD_RATIO_MAX,
        // Some bytes may stand for as many as they like.
        _ => PAGE_BYTES_MAX,
    }
}

/// What follows so many levels, each of which begins with its length.
fn behind_levels(mut bytes: &[u8], levels: u8) -> Option<&[u8]> {
    for _ in 0..levels {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        bytes = rest.get(u32::from_le_bytes(*length) as usize..)?;
    }
    Some(bytes)
}

/// How many lengths there are: behind the size of a block and the number of its parts.
fn lengths_said(bytes: &[u8]) -> Option<u64> {
    let mut compact = Compact::new(bytes);
    compact.unsigned()?;
    compact.unsigned()?;
    compact.unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(own: [i64; 8], kind: i64, unpacked: i64, packed: i64) -> bool {
        let header = Header { kind, unpacked, packed, own, is_packed: true };
        header.page(Compression::SNAPPY, 1_000).is_some()
    }

    #[test]
    fn pages_are_what_they_can_be() {
        let data = |values| [-1, values, 0, 3, 3, -1, -1, -1];
        assert!(of(data(5), DATA, 6_000, 100) && of(data(0), DATA, 0, 0));
        for (unpacked, packed) in [(-1, 5), (5, -1), (5, 1_001), (7_000, 100), (i64::MAX, 100)] {
            assert!(!of(data(5), DATA, unpacked, packed), "{unpacked} {packed}");
        }
        assert!(!of(data(-1), DATA, 10, 10));
        assert!(of(data(10), DICTIONARY, 10, 10) && !of(data(11), DICTIONARY, 10, 10));
        let second = |nulls, rows, definition, repetition| [-1, 5, nulls, rows, 0, definition, repetition, -1];
        assert!(of(second(5, 5, 5, 5), DATA_2, 10, 10));
        for wrong in
            [second(6, 5, 5, 5), second(5, 6, 5, 5), second(5, 5, 6, 5), second(5, 5, -1, 5), second(0, 0, i64::MAX, 1)]
        {
            assert!(!of(wrong, DATA_2, 10, 10), "{wrong:?}");
        }
    }

    /// A header of a page of one value, with more fields behind those that it has.
    fn header(more: &[u8]) -> Option<Header> {
        // Kind 0, 100 and 90 bytes, and of a page of data one value, three encodings.
        let bytes =
            [&[0x15, 0, 0x15, 200, 1, 0x15, 180, 1, 0x2c, 0x15, 2, 0x15, 0, 0x15, 6, 0x15, 6, 0][..], more, &[0]];
        Header::read(&mut Compact::new(&bytes.concat()))
    }

    #[test]
    fn fields_are_what_the_reader_takes_them_for() {
        let plain = header(&[]).unwrap();
        assert_eq!((plain.kind, plain.unpacked, plain.packed, plain.own[1]), (0, 100, 90, 1));
        // A field that nobody knows.
        assert!(header(&[0x05, 40, 2]).is_some());
        assert_eq!(number(&mut Compact::new(&[0xfe, 0xff, 0xff, 0xff, 0x0f])), Some(i64::from(i32::MAX)));
        assert_eq!(number(&mut Compact::new(&[0x80, 0x80, 0x80, 0x80, 0x10])), None, "one of 33 bits");
        let wrong: [&[u8]; 6] = [
            // Field 2 again: 2,147,483,647 as i64, and as i32.
            &[0x06, 4, 0xfe, 0xff, 0xff, 0xff, 0x0f],
            &[0x05, 4, 0xfe, 0xff, 0xff, 0xff, 0x0f],
            // A checksum that is a double: the reader takes a number, and what is left of it for fields.
            &[0x07, 8, 1, 0x15, 0, 0, 0, 0, 0, 0],
            // The header of a dictionary's page with a text for its number of values.
            &[0x2c, 0x18, 1, b'a', 0],
            // The header of the page again, and one of the second kind that has a number twice.
            &[0x0c, 10, 0x15, 4, 0],
            &[0x3c, 0x15, 2, 0x05, 2, 4, 0],
        ];
        for more in wrong {
            assert!(header(more).is_none(), "{more:?}");
        }
    }

    #[test]
    fn footers_state_no_more_than_they_have() {
        // Field 4, a list of 32,768 structures.
        let many = [&[0x49, 0xfc, 0x80, 0x80, 0x02][..], &[0; 32_768], &[0]].concat();
        assert!(footer_holds(&many).is_none());
        let few = [&[0x49, 0xfc, 0xff, 0xff, 0x01][..], &[0; 32_767], &[0]].concat();
        assert!(footer_holds(&few).is_some());
        assert!(footer_holds(&few[..100]).is_none() && footer_holds(&[]).is_none());
    }
}
