//! Headers of pages, in Thrift's compact protocol.

use parquet::basic::Encoding;

/// What a page's header says of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PageHeader {
    /// Bytes behind the header.
    pub(super) packed: usize,
    /// Bytes of these unpacked.
    pub(super) unpacked: usize,
    /// Values, those that are NULL, too.
    pub(super) values: usize,
    pub(super) encoding: Encoding,
}

/// Structs in one another, at most.
const DEPTH_MAX: usize = 4;

/// The types of fields that pages' headers have.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const STRUCT: u8 = 12;

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl PageHeader {
    /// Reads a header; and how many bytes it has. `None` if it is none of a page of data (version 1) or a dictionary.
    pub(super) fn read(bytes: &[u8]) -> Option<(PageHeader, usize)> {
        let mut reader = Reader { bytes, at: 0 };
        let (mut packed, mut unpacked, mut of_page) = (None, None, None);
        let mut field = 0;
        while let Some((number, kind)) = reader.field(&mut field)? {
            match (number, kind) {
                (2, I32) => unpacked = Some(reader.number()?),
                (3, I32) => packed = Some(reader.number()?),
                (5 | 7, STRUCT) => of_page = Some(reader.values_and_encoding()?),
                _ => reader.skip(kind, DEPTH_MAX)?,
            }
        }
        let size = |number: Option<i64>| usize::try_from(number?).ok();
        let (values, encoding) = of_page?;
        let encoding = match encoding {
            0 => Encoding::PLAIN,
            2 => Encoding::PLAIN_DICTIONARY,
            3 => Encoding::RLE,
            5 => Encoding::DELTA_BINARY_PACKED,
            6 => Encoding::DELTA_LENGTH_BYTE_ARRAY,
            7 => Encoding::DELTA_BYTE_ARRAY,
            8 => Encoding::RLE_DICTIONARY,
            9 => Encoding::BYTE_STREAM_SPLIT,
            _ => return None,
        };
        let header =
            PageHeader { packed: size(packed)?, unpacked: size(unpacked)?, values: size(Some(values))?, encoding };
        Some((header, reader.at))
    }
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn unsigned(&mut self) -> Option<u64> {
        let (value, len) = super::decode::varint(self.bytes.get(self.at..)?)?;
        self.at += len;
        Some(value)
    }

    fn number(&mut self) -> Option<i64> {
        let value = self.unsigned()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// The next field's number and type; `None` within at the end of the struct.
    fn field(&mut self, last: &mut i64) -> Option<Option<(i64, u8)>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Some(None);
        }
        *last = match byte >> 4 {
            0 => self.number()?,
            more => last.checked_add(more.into())?,
        };
        Some(Some((*last, byte & 15)))
    }

    /// The first two fields of a struct about a page's values.
    fn values_and_encoding(&mut self) -> Option<(i64, i64)> {
        let (mut values, mut encoding, mut field) = (None, None, 0);
        while let Some((number, kind)) = self.field(&mut field)? {
            match (number, kind) {
                (1, I32) => values = Some(self.number()?),
                (2, I32) => encoding = Some(self.number()?),
                _ => self.skip(kind, DEPTH_MAX)?,
            }
        }
        Some((values?, encoding?))
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            TRUE | FALSE => {}
            BYTE => self.at = self.at.checked_add(1)?,
            I16 | I32 | I64 => {
                self.unsigned()?;
            }
            DOUBLE => self.at = self.at.checked_add(8)?,
            BINARY => {
                let len = usize::try_from(self.unsigned()?).ok()?;
                self.at = self.at.checked_add(len)?;
            }
            STRUCT => {
                let depth = depth.checked_sub(1)?;
                let mut field = 0;
                while let Some((_, kind)) = self.field(&mut field)? {
                    self.skip(kind, depth)?;
                }
            }
            _ => return None,
        }
        Some(())
    }
}
