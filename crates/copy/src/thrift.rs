//! The compact protocol of Thrift, as far as footers and page headers of Parquet are looked at before the reader of Parquet has them.
//!
//! Invariants:
//! - No number of bytes or elements is believed that is more than what is left: [`Compact`] gives `None` there, as at every other fault.
//! - It recurses no deeper than [`DEPTH_MAX`].

/// Structures within structures.
const DEPTH_MAX: usize = 32;
/// Elements of a list: the reader of Parquet makes room for as many, of some hundred bytes each, before it reads the first.
const ELEMENTS_MAX: usize = 1 << 20;

/// Kinds of values.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
pub(crate) const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
pub(crate) const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
pub(crate) const STRUCT: u8 = 12;

/// Reads what lies in some bytes.
#[derive(Clone, Debug)]
pub(crate) struct Compact<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Compact<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Compact<'a> {
        Compact { bytes, at: 0 }
    }

    /// How many bytes were read.
    pub(crate) fn read(&self) -> usize {
        self.at
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn pass(&mut self, bytes: u64) -> Option<()> {
        let left = self.bytes.len() - self.at;
        self.at += usize::try_from(bytes).ok().filter(|bytes| *bytes <= left)?;
        Some(())
    }

    /// A whole number that is not negative.
    pub(crate) fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                return None;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A whole number of any width.
    pub(crate) fn integer(&mut self) -> Option<i64> {
        let zigzag = self.unsigned()?;
        Some((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
    }

    /// Number and kind of a structure's next field; `Some(None)` behind the last. `last` is the number of the one before.
    pub(crate) fn field(&mut self, last: &mut i16) -> Option<Option<(i16, u8)>> {
        let head = self.byte()?;
        if head == 0 {
            return Some(None);
        }
        *last = match head >> 4 {
            0 => i16::try_from(self.integer()?).ok()?,
            more => last.checked_add(i16::from(more))?,
        };
        Some(Some((*last, head & 0x0f)))
    }

    /// Kind and number of a list's elements.
    pub(crate) fn list(&mut self) -> Option<(u8, usize)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => usize::try_from(self.unsigned()?).ok()?,
            few => usize::from(few),
        };
        self.fits(count)?;
        Some((head & 0x0f, count))
    }

    /// Each element takes a byte at least.
    fn fits(&self, count: usize) -> Option<()> {
        (count <= ELEMENTS_MAX && count <= self.bytes.len() - self.at).then_some(())
    }

    /// Passes over the value of a field.
    pub(crate) fn skip(&mut self, kind: u8) -> Option<()> {
        match kind {
            // The kind is the value.
            TRUE | FALSE => Some(()),
            kind => self.skip_value(kind, DEPTH_MAX),
        }
    }

    fn skip_value(&mut self, kind: u8, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            TRUE | FALSE | BYTE => self.pass(1),
            I16 | I32 | I64 => self.unsigned().map(drop),
            DOUBLE => self.pass(8),
            BINARY => {
                let bytes = self.unsigned()?;
                self.pass(bytes)
            }
            LIST | SET => {
                let (kind, count) = self.list()?;
                (0..count).try_for_each(|_| self.skip_value(kind, depth))
            }
            MAP => {
                let count = usize::try_from(self.unsigned()?).ok()?;
                self.fits(count)?;
                if count == 0 {
                    return Some(());
                }
                let kinds = self.byte()?;
                (0..count).try_for_each(|_| {
                    self.skip_value(kinds >> 4, depth)?;
                    self.skip_value(kinds & 0x0f, depth)
                })
            }
            STRUCT => {
                let mut last = 0;
                while let Some((_, kind)) = self.field(&mut last)? {
                    match kind {
                        TRUE | FALSE => {}
                        kind => self.skip_value(kind, depth)?,
                    }
                }
                Some(())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skips(kind: u8, bytes: &[u8]) -> bool {
        let mut compact = Compact::new(bytes);
        compact.skip(kind).is_some() && compact.read() == bytes.len()
    }

    #[test]
    fn values_are_passed_over_whole() {
        for (kind, bytes) in [
            (TRUE, &[][..]),
            (BYTE, &[7]),
            (I32, &[0xff, 0x01]),
            (DOUBLE, &[0; 8]),
            (BINARY, &[3, b'a', b'b', b'c']),
            (LIST, &[0x25, 2, 4]),
            (LIST, &[0x00]),
            (LIST, &[0x31, 1, 2, 1]),
            (MAP, &[0]),
            (MAP, &[1, 0x85, 1, b'k', 9]),
            // A number, a truth, a list of an empty structure, a field far away.
            (STRUCT, &[0x15, 2, 0x11, 0x19, 0x1c, 0, 0x05, 0xc8, 0x01, 2, 0]),
        ] {
            assert!(skips(kind, bytes), "{kind} {bytes:?}");
            for cut in 0..bytes.len() {
                assert!(!skips(kind, &bytes[..cut]), "{kind} {bytes:?} cut at {cut}");
            }
        }
        assert_eq!(Compact::new(&[0x03]).integer(), Some(-2));
        let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Compact::new(&most).integer(), Some(i64::MIN));
    }

    #[test]
    fn no_number_is_believed() {
        for (kind, bytes) in [
            (BINARY, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01][..]),
            (BINARY, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
            (LIST, &[0xfc, 0xff, 0xff, 0xff, 0xff, 0x07]),
            (MAP, &[0xff, 0xff, 0xff, 0xff, 0x07, 0x85]),
            (13, &[0; 16]),
        ] {
            assert!(!skips(kind, bytes), "{bytes:?}");
        }
        let deep = [&[0x19; 1][..], &[0x1c, 0x1c].repeat(1_000)].concat();
        assert!(!skips(STRUCT, &deep));
    }
}
