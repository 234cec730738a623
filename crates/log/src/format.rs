//! The bytes of a log file; `docs/FORMAT.md`, section "Log", specifies them.
//!
//! Invariants:
//! - Everything is little-endian. Every header carries a CRC-32C over all of its other bytes, and is read only after that
//!   fits; so a length is known to be right before anything of that length is read or allocated.
//! - Every header is bound to its database by the salt, file and group headers also to the place where they lie. A file
//!   of another database, or bytes of a log stored *in* a table, are never taken for the log's own.
//! - A commit record repeats the length and checksum of the body it commits: bodies may come to lie elsewhere.

use alluvia_types::{Error, ErrorKind, Version};
use std::path::Path;

/// Length of a file header.
pub(crate) const FILE_HEADER_BYTES: usize = 64;
/// Length of a group header.
pub(crate) const GROUP_HEADER_BYTES: usize = 64;
/// Length of a frame header; a commit record is nothing more.
pub(crate) const FRAME_HEADER_BYTES: usize = 40;

/// First bytes of every log file; the last two are the format's version.
const FILE_MAGIC: [u8; 8] = *b"ALLULG02";
/// Read, too: the same file. Who writes it knows no batches that change rows which are there, and would take them for others.
const FILE_MAGIC_OLDER: [u8; 8] = *b"ALLULG01";
const FILE_MAGIC_FAMILY: usize = 6;
const GROUP_TAG: [u8; 4] = *b"GRUP";
const BODY_TAG: [u8; 4] = *b"BODY";
const COMMIT_TAG: [u8; 4] = *b"CMIT";

/// A place in the log: a file and an offset in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Position {
    pub file: u64,
    pub offset: u64,
}

/// Opens a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileHeader {
    /// Number of the file: 1, 2, 3 ...
    pub file: u64,
    /// Version of the first record that goes into this file.
    pub first_version: Version,
    /// Sequence of the first group that goes into this file.
    pub first_sequence: u64,
    /// Final length of the file before; 0 in the first file.
    pub previous_len: u64,
}

/// Opens a group: what one write and one fsync made durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GroupHeader {
    /// Where this header lies.
    pub at: Position,
    /// Groups are numbered 1, 2, 3 ... through the whole log.
    pub sequence: u64,
    /// Everything before this position was durable when this group was written.
    pub durable: Position,
}

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FrameKind {
    /// `body_len` opaque bytes follow the header.
    Body,
    /// Nothing follows; the batch whose body this describes is committed.
    Commit,
}

/// Opens a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrameHeader {
    pub kind: FrameKind,
    pub version: Version,
    pub commit_micros: i64,
    pub body_len: u64,
    pub body_crc: u32,
}

/// What begins at some place in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Header {
    Group(GroupHeader),
    Frame(FrameHeader),
}

fn put_u64(to: &mut [u8], at: usize, value: u64) {
    to[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn get_u64(from: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(from[at..at + 8].try_into().expect("eight bytes"))
}

fn get_u32(from: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(from[at..at + 4].try_into().expect("four bytes"))
}

/// Puts the checksum of all before into the last four bytes; the salt is checksummed with them.
fn seal(header: &mut [u8], salt: u64) {
    let at = header.len() - 4;
    let crc = header_crc(&header[..at], salt);
    header[at..].copy_from_slice(&crc.to_le_bytes());
}

fn is_sealed(header: &[u8], salt: u64) -> bool {
    let at = header.len() - 4;
    get_u32(header, at) == header_crc(&header[..at], salt)
}

fn header_crc(bytes: &[u8], salt: u64) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), bytes)
}

/// Why a file header was not accepted.
#[derive(Debug)]
pub(crate) enum BadFileHeader {
    /// Not whole: torn when the file was begun, or damaged since.
    Torn,
    /// Whole, and not for us.
    Refused(Error),
}

impl FileHeader {
    pub fn encode(&self, salt: u64) -> [u8; FILE_HEADER_BYTES] {
        let mut bytes = [0; FILE_HEADER_BYTES];
        bytes[..8].copy_from_slice(&FILE_MAGIC);
        put_u64(&mut bytes, 8, salt);
        put_u64(&mut bytes, 16, self.file);
        put_u64(&mut bytes, 24, self.first_version.0);
        put_u64(&mut bytes, 32, self.first_sequence);
        put_u64(&mut bytes, 40, self.previous_len);
        seal(&mut bytes, salt);
        bytes
    }

    pub fn decode(bytes: &[u8; FILE_HEADER_BYTES], salt: u64, path: &Path) -> Result<FileHeader, BadFileHeader> {
        let is_log_file = bytes[..FILE_MAGIC_FAMILY] == FILE_MAGIC[..FILE_MAGIC_FAMILY];
        // The checksum uses the salt found in the file, so that a whole header of another database, or of another version, is told from
        // a torn or damaged one. Later versions keep its place.
        let found_salt = get_u64(bytes, 8);
        if !is_log_file || !is_sealed(bytes, found_salt) {
            return Err(BadFileHeader::Torn);
        }
        if bytes[..8] != FILE_MAGIC && bytes[..8] != FILE_MAGIC_OLDER {
            let version = String::from_utf8_lossy(&bytes[FILE_MAGIC_FAMILY..8]).into_owned();
            let error = Error::new(
                ErrorKind::IncompatibleFormat,
                format!("{} is a log file of format version {version}, this Alluvia reads 01 and 02", path.display()),
            );
            return Err(BadFileHeader::Refused(error.with_hint("open it with the Alluvia that wrote it")));
        }
        if found_salt != salt {
            let error = Error::new(
                ErrorKind::Corrupt,
                format!("{} is a log file of another database (salt {found_salt:016x})", path.display()),
            );
            return Err(BadFileHeader::Refused(
                error.with_hint("files of two data directories were mixed; restore this one"),
            ));
        }
        Ok(FileHeader {
            file: get_u64(bytes, 16),
            first_version: Version(get_u64(bytes, 24)),
            first_sequence: get_u64(bytes, 32),
            previous_len: get_u64(bytes, 40),
        })
    }
}

impl GroupHeader {
    pub fn encode(&self, salt: u64) -> [u8; GROUP_HEADER_BYTES] {
        let mut bytes = [0; GROUP_HEADER_BYTES];
        bytes[..GROUP_MARK_BYTES].copy_from_slice(&group_mark(salt));
        put_u64(&mut bytes, 16, self.at.file);
        put_u64(&mut bytes, 24, self.at.offset);
        put_u64(&mut bytes, 32, self.sequence);
        put_u64(&mut bytes, 40, self.durable.file);
        put_u64(&mut bytes, 48, self.durable.offset);
        seal(&mut bytes, salt);
        bytes
    }

    /// The header in the first bytes, if one lies there whole and says that it lies at `at`.
    pub fn decode(bytes: &[u8], salt: u64, at: Position) -> Option<GroupHeader> {
        let bytes = bytes.get(..GROUP_HEADER_BYTES)?;
        if bytes[..GROUP_MARK_BYTES] != group_mark(salt) || !is_sealed(bytes, salt) {
            return None;
        }
        let header = GroupHeader {
            at: Position { file: get_u64(bytes, 16), offset: get_u64(bytes, 24) },
            sequence: get_u64(bytes, 32),
            durable: Position { file: get_u64(bytes, 40), offset: get_u64(bytes, 48) },
        };
        (header.at == at).then_some(header)
    }
}

/// Length of [`group_mark`].
pub(crate) const GROUP_MARK_BYTES: usize = 16;

/// The bytes with which every group header of a database begins; what a search for groups looks for.
pub(crate) fn group_mark(salt: u64) -> [u8; GROUP_MARK_BYTES] {
    let mut mark = [0; GROUP_MARK_BYTES];
    mark[..4].copy_from_slice(&GROUP_TAG);
    put_u64(&mut mark, 8, salt);
    mark
}

impl FrameHeader {
    pub fn encode(&self, salt: u64) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        bytes[..4].copy_from_slice(match self.kind {
            FrameKind::Body => &BODY_TAG,
            FrameKind::Commit => &COMMIT_TAG,
        });
        bytes[4..8].copy_from_slice(&self.body_crc.to_le_bytes());
        put_u64(&mut bytes, 8, self.version.0);
        put_u64(&mut bytes, 16, self.commit_micros as u64);
        put_u64(&mut bytes, 24, self.body_len);
        seal(&mut bytes, salt);
        bytes
    }

    fn decode(bytes: &[u8], salt: u64) -> Option<FrameHeader> {
        let bytes = bytes.get(..FRAME_HEADER_BYTES)?;
        let kind = match bytes[..4].try_into().expect("four bytes") {
            BODY_TAG => FrameKind::Body,
            COMMIT_TAG => FrameKind::Commit,
            _ => return None,
        };
        is_sealed(bytes, salt).then(|| FrameHeader {
            kind,
            version: Version(get_u64(bytes, 8)),
            commit_micros: get_u64(bytes, 16) as i64,
            body_len: get_u64(bytes, 24),
            body_crc: get_u32(bytes, 4),
        })
    }
}

impl Header {
    /// The header in the first bytes of `bytes`, which lie at `at`; `None` if none lies there whole.
    pub fn decode(bytes: &[u8], salt: u64, at: Position) -> Option<Header> {
        match GroupHeader::decode(bytes, salt, at) {
            Some(group) => Some(Header::Group(group)),
            None => FrameHeader::decode(bytes, salt).map(Header::Frame),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SALT: u64 = 0x0123_4567_89ab_cdef;
    const AT: Position = Position { file: 3, offset: 4096 };

    fn group() -> GroupHeader {
        GroupHeader { at: AT, sequence: 17, durable: Position { file: 3, offset: 64 } }
    }

    fn commit() -> FrameHeader {
        let version = Version(u64::MAX - 1);
        FrameHeader { kind: FrameKind::Commit, version, commit_micros: -5, body_len: 1 << 40, body_crc: 0xdead_beef }
    }

    fn file() -> FileHeader {
        FileHeader { file: 3, first_version: Version(42), first_sequence: 17, previous_len: 1 << 33 }
    }

    #[test]
    fn headers_come_back_as_they_were() {
        assert_eq!(Header::decode(&group().encode(SALT), SALT, AT), Some(Header::Group(group())));
        assert_eq!(Header::decode(&commit().encode(SALT), SALT, AT), Some(Header::Frame(commit())));
        let body = FrameHeader { kind: FrameKind::Body, ..commit() };
        assert_eq!(Header::decode(&body.encode(SALT), SALT, AT), Some(Header::Frame(body)));
        assert_eq!(FileHeader::decode(&file().encode(SALT), SALT, Path::new("f")).unwrap(), file());
    }

    #[test]
    fn a_group_header_elsewhere_or_of_another_database_is_none() {
        let bytes = group().encode(SALT);
        assert_eq!(GroupHeader::decode(&bytes, SALT, Position { offset: 4097, ..AT }), None);
        assert_eq!(GroupHeader::decode(&bytes, SALT, Position { file: 4, ..AT }), None);
        assert_eq!(GroupHeader::decode(&bytes, SALT + 1, AT), None);
        assert_eq!(FrameHeader::decode(&commit().encode(SALT), SALT + 1), None);
    }

    #[test]
    fn a_file_of_another_database_or_version_is_told_from_a_torn_one() {
        let mut bytes = file().encode(SALT);
        match FileHeader::decode(&bytes, SALT + 1, Path::new("f")) {
            Err(BadFileHeader::Refused(error)) => assert!(error.message().contains("another database"), "{error}"),
            other => panic!("{other:?}"),
        }
        bytes[7] = b'3';
        assert!(matches!(FileHeader::decode(&bytes, SALT, Path::new("f")), Err(BadFileHeader::Torn)), "a flipped bit");
        seal(&mut bytes, SALT);
        match FileHeader::decode(&bytes, SALT, Path::new("f")) {
            Err(BadFileHeader::Refused(error)) => assert_eq!(error.kind(), ErrorKind::IncompatibleFormat),
            other => panic!("{other:?}"),
        }
        assert!(matches!(FileHeader::decode(&[0; 64], SALT, Path::new("f")), Err(BadFileHeader::Torn)));
    }

    proptest! {
        #[test]
        fn no_changed_bit_passes(bit in 0usize..64 * 8) {
            let mut bytes = group().encode(SALT);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(GroupHeader::decode(&bytes, SALT, AT), None);
            let mut bytes = file().encode(SALT);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(FileHeader::decode(&bytes, SALT, Path::new("f")).is_err());
            if bit < FRAME_HEADER_BYTES * 8 {
                let mut bytes = commit().encode(SALT);
                bytes[bit / 8] ^= 1 << (bit % 8);
                prop_assert_eq!(FrameHeader::decode(&bytes, SALT), None);
            }
        }

        #[test]
        fn arbitrary_bytes_are_never_a_header(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            prop_assert_eq!(Header::decode(&bytes, SALT, AT), None);
        }
    }
}
