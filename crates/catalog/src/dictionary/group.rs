//! The bytes of a dictionary file: header, groups, sections.
//!
//! Invariants:
//! - A group's checksum starts from the checksum of what is before it, so the last one vouches for the whole file: a
//!   group from another time, or another file, does not fit in.
//! - Within a file, the members of a level appear in code order without gaps.
//!
//! ```text
//! header  := "ALVDIC01", table u32, levels u32, shape of each level u8 (0 none, 1 text or binary, 2 words, 3 wide), crc u32
//! group   := crc u32, payload bytes u32, payload
//! payload := section...
//! section := level u32, first code u32, members u32, text bytes u32, parents, values
//! parents := code of the parent u32, for each member
//! forgotten (02) := level u32 with its top bit, 0 u32, members u32, 0 u32, codes u32 each
//! values  := text: where each value ends in the text u32, then the text | words: u64 each | wide: u128 each
//! ```
//!
//! All little-endian. A header's crc is the crc32c of the bytes before it. A group's is the crc32c, continued from the crc
//! before it in the file, of all its bytes after the crc. Values are kept in columns, so that reading a million members is
//! a few large copies.

use super::level::{Level, Members};
use super::value::Values;
use alluvia_types::TableId;
use crc32c::{crc32c, crc32c_append};

/// Magic of a table's first dictionary file; the last two bytes are the format version.
pub(crate) const MAGIC: &[u8; 8] = b"ALVDIC01";
/// Of a file that was written anew without the values of some members.
pub(crate) const MAGIC_REWRITTEN: &[u8; 8] = b"ALVDIC02";
/// Marks the level of a section that names members without a value.
const FORGOTTEN: u32 = 1 << 31;
/// A group is closed once it has so many bytes, so neither writing nor reading ever holds much more.
pub(crate) const GROUP_BYTES: usize = 4 << 20;
/// Crc and length of a group.
pub(crate) const GROUP_HEADER: usize = 8;
const SECTION_HEADER: usize = 16;

/// The header of a table's dictionary file, and its crc.
pub(crate) fn header(magic: &[u8; 8], table: TableId, levels: &[Option<Level>]) -> (Vec<u8>, u32) {
    let mut bytes = magic.to_vec();
    bytes.extend_from_slice(&table.0.to_le_bytes());
    bytes.extend_from_slice(&(levels.len() as u32).to_le_bytes());
    bytes.extend(levels.iter().map(|level| match level {
        None => 0,
        Some(level) => level.read(|members| match members.values() {
            Values::Bytes { .. } => 1u8,
            Values::Words(_) => 2,
            Values::Wide(_) => 3,
        }),
    }));
    let crc = crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    (bytes, crc)
}

/// Gathers sections into one group.
#[derive(Debug, Default)]
pub(crate) struct GroupWriter {
    bytes: Vec<u8>,
}

impl GroupWriter {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= GROUP_BYTES
    }

    /// Adds members `first..end` of a level, as many as make the group full but at least one. Returns how far it came.
    pub(crate) fn add(&mut self, level: usize, members: &Members, first: u32, end: u32) -> u32 {
        assert!(first < end, "a section has members");
        if self.bytes.is_empty() {
            self.bytes.resize(GROUP_HEADER, 0);
        }
        let room = GROUP_BYTES.saturating_sub(self.bytes.len() + SECTION_HEADER);
        let fixed = |width: usize| first + (room / (4 + width)).clamp(1, (end - first) as usize) as u32;
        let (end, text) = match members.values() {
            Values::Words(_) => (fixed(8), 0),
            Values::Wide(_) => (fixed(16), 0),
            Values::Bytes { ends, .. } => {
                let start = ends[first as usize - 1];
                let size = |code: u32| (ends[code as usize] - start) as usize + 8 * (code + 1 - first) as usize;
                let mut stop = first + 1;
                while stop < end && size(stop) <= room {
                    stop += 1;
                }
                (stop, ends[stop as usize - 1] - start)
            }
        };
        for word in [level as u32, first, end - first, text] {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        let range = first as usize..end as usize;
        put(&mut self.bytes, &members.parents()[range.clone()], u32::to_le_bytes);
        match members.values() {
            Values::Words(words) => put(&mut self.bytes, &words[range], u64::to_le_bytes),
            Values::Wide(wide) => put(&mut self.bytes, &wide[range], u128::to_le_bytes),
            Values::Bytes { ends, bytes } => {
                let start = ends[first as usize - 1];
                self.bytes.extend(ends[range].iter().flat_map(|end| (end - start).to_le_bytes()));
                self.bytes.extend_from_slice(&bytes[start as usize..(start + text) as usize]);
            }
        }
        end
    }

    /// Adds a section that names members of a level that have no value. They are in the file before.
    pub(crate) fn add_forgotten(&mut self, level: usize, codes: &[u32]) {
        if self.bytes.is_empty() {
            self.bytes.resize(GROUP_HEADER, 0);
        }
        for word in [level as u32 | FORGOTTEN, 0, codes.len() as u32, 0] {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        put(&mut self.bytes, codes, u32::to_le_bytes);
    }

    /// The group's bytes and crc; `before` is the crc before it in the file. The writer is empty again.
    pub(crate) fn finish(&mut self, before: u32) -> (Vec<u8>, u32) {
        let mut bytes = std::mem::take(&mut self.bytes);
        assert!(bytes.len() > GROUP_HEADER, "a group has sections");
        let payload = (bytes.len() - GROUP_HEADER) as u32;
        bytes[4..GROUP_HEADER].copy_from_slice(&payload.to_le_bytes());
        let crc = crc32c_append(before, &bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        (bytes, crc)
    }
}

fn put<T: Copy, const N: usize>(bytes: &mut Vec<u8>, values: &[T], to_bytes: impl Fn(T) -> [u8; N]) {
    bytes.reserve(values.len() * N);
    bytes.extend(values.iter().flat_map(|&value| to_bytes(value)));
}

/// The crc that a group's first bytes state, and the length of its payload.
pub(crate) fn group_header(bytes: &[u8; GROUP_HEADER]) -> (u32, usize) {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    (word(0), word(4) as usize)
}

/// The crc that a group's bytes after the crc have.
pub(crate) fn group_crc(before: u32, header: &[u8; GROUP_HEADER], payload: &[u8]) -> u32 {
    crc32c_append(crc32c_append(before, &header[4..]), payload)
}

/// Appends a group's members to their levels. Fails, saying why, on what no writer writes.
pub(crate) fn read_payload(mut payload: &[u8], levels: &mut [Option<Level>]) -> Result<(), &'static str> {
    while !payload.is_empty() {
        let words = words::<u32, 4>(&mut payload, 4, u32::from_le_bytes)?;
        let [level, first, count, text] = words[..] else { return Err("a section header is cut off") };
        let Some(Some(of_level)) = levels.get_mut((level & !FORGOTTEN) as usize) else {
            return Err("a section is of a level without a dictionary");
        };
        if level & FORGOTTEN != 0 {
            let codes: Vec<u32> = self::words(&mut payload, count as usize, u32::from_le_bytes)?;
            let known = of_level.len();
            if first != 0 || text != 0 || codes.iter().any(|&code| code == 0 || code >= known) {
                return Err("a section names members that are not there");
            }
            of_level.members_mut().forget(&codes);
            continue;
        }
        let level = of_level;
        let (parents, values) = level.members_mut().parts_mut();
        let count = count as usize;
        if first as usize != parents.len() {
            return Err("a section does not continue its level");
        }
        parents.append(&mut self::words(&mut payload, count, u32::from_le_bytes)?);
        match values {
            Values::Words(words) => words.append(&mut self::words(&mut payload, count, u64::from_le_bytes)?),
            Values::Wide(wide) => wide.append(&mut self::words(&mut payload, count, u128::from_le_bytes)?),
            Values::Bytes { ends, bytes } => {
                let found: Vec<u32> = self::words(&mut payload, count, u32::from_le_bytes)?;
                if !found.is_sorted() || found.last() != Some(&text) {
                    return Err("the ends of values do not ascend to the end of the text");
                }
                let text = take(&mut payload, text as usize)?;
                let start = bytes.len();
                if start + text.len() > super::value::BYTES_MAX {
                    return Err("a level's text is too long");
                }
                ends.extend(found.iter().map(|end| start as u32 + end));
                bytes.extend_from_slice(text);
            }
        }
    }
    Ok(())
}

fn take<'a>(payload: &mut &'a [u8], len: usize) -> Result<&'a [u8], &'static str> {
    let (taken, rest) = payload.split_at_checked(len).ok_or("a section is cut off")?;
    *payload = rest;
    Ok(taken)
}

fn words<T, const N: usize>(
    payload: &mut &[u8],
    count: usize,
    of: impl Fn([u8; N]) -> T,
) -> Result<Vec<T>, &'static str> {
    let bytes = take(payload, count.checked_mul(N).ok_or("a section is cut off")?)?;
    let (words, _) = bytes.as_chunks::<N>();
    Ok(words.iter().map(|&word| of(word)).collect())
}
