//! The mark of a clean end: a small file beside the log's directory that says how far the log goes.
//!
//! Invariants:
//! - What it says was durable before it was written, and stays true whatever comes: a log loses nothing that was durable but files whose
//!   records nobody needs. So a mark is a lower bound. It is replaced at the next clean end, and not removed before: no order of writes
//!   hangs on it, and one that is older than the log does no harm.
//! - A log that ends before its mark has lost what was acknowledged. That is refused, and nothing is changed.
//! - The mark holds nothing else: without it, or where it cannot be read, a log opens as it would after a crash.

use crate::files::file_path;
use crate::format::Position;
use alluvia_storage::{Disk, read_atomic, write_atomic};
use alluvia_types::{Error, ErrorKind, Result, Version};
use std::path::{Path, PathBuf};

/// What the name of a log's directory is continued with in that of its mark, which lies beside it: so it is missed if all of it is gone.
pub const END_SUFFIX: &str = ".end";
/// Magic of the mark; the last two bytes are the format version.
const END_MAGIC: &[u8; 8] = b"ALVEND01";
const PAYLOAD_BYTES: usize = 32;

/// How far a log went when it was last ended cleanly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EndMark {
    /// The last version.
    pub version: Version,
    /// Where its record, or the header of a file that has none, ends.
    pub at: Position,
}

pub(crate) fn end_path(dir: &Path) -> PathBuf {
    let mut name = dir.as_os_str().to_owned();
    name.push(END_SUFFIX);
    name.into()
}

impl EndMark {
    /// Reads the mark in `dir`; `None` if there is none.
    ///
    /// Errors: [`ErrorKind::Corrupt`] where it is damaged, or of another database.
    pub fn load(disk: &dyn Disk, dir: &Path, salt: u64) -> Result<Option<EndMark>> {
        let path = end_path(dir);
        if !disk.exists(&path) {
            return Ok(None);
        }
        let bytes = read_atomic(disk, &path, END_MAGIC)?;
        let corrupt = |what: &str| {
            Error::new(ErrorKind::Corrupt, format!("{} {what}", path.display())).with_hint(
                "it holds no data, and only says how far the log went: if no log file is from a copy either, remove it",
            )
        };
        let Some((words, [])) = bytes.first_chunk::<PAYLOAD_BYTES>().map(|_| bytes.as_chunks::<8>()) else {
            return Err(corrupt("has another length than a mark has"));
        };
        let &[found_salt, version, file, offset] = words else {
            return Err(corrupt("has another length than a mark has"));
        };
        if u64::from_le_bytes(found_salt) != salt {
            return Err(corrupt("is of another database"));
        }
        let at = Position { file: u64::from_le_bytes(file), offset: u64::from_le_bytes(offset) };
        Ok(Some(EndMark { version: Version(u64::from_le_bytes(version)), at }))
    }

    /// Replaces the mark in `dir`, durably.
    pub fn store(&self, disk: &dyn Disk, dir: &Path, salt: u64) -> Result<()> {
        let words = [salt, self.version.0, self.at.file, self.at.offset].map(u64::to_le_bytes);
        Ok(write_atomic(disk, &end_path(dir), END_MAGIC, words.as_flattened())?)
    }

    /// Refuses a log that ends at `version`, at `end` or without any file, if it once went further.
    pub fn check(&self, dir: &Path, version: Version, end: Option<Position>) -> Result<()> {
        if version >= self.version {
            return Ok(());
        }
        let (first, last, at) = (version.next(), self.version, self.at);
        let marked = file_path(dir, at.file);
        let ends = match end {
            None => format!("no log file in {} is whole", dir.display()),
            Some(end) if end.file == at.file => {
                let missing = at.offset.saturating_sub(end.offset);
                format!("{} ends at offset {}, {missing} bytes too early", marked.display(), end.offset)
            }
            Some(end) => format!("the log ends at offset {} of {}", end.offset, file_path(dir, end.file).display()),
        };
        let message = format!(
            "{ends}: when the database was last stopped cleanly it went through version {last}, to offset {} of {}; versions {first} \
             to {last} are missing",
            at.offset,
            marked.display()
        );
        let hint = format!(
            "they were acknowledged: restore {} or the data directory from a backup or a replica; to go on without them for good, remove {}",
            marked.display(),
            end_path(dir).display()
        );
        Err(Error::new(ErrorKind::Corrupt, message).with_hint(hint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_storage::{Disk, FaultDisk};

    const SALT: u64 = 7;

    fn dir() -> &'static Path {
        Path::new("/db/log")
    }

    fn mark() -> EndMark {
        EndMark { version: Version(9), at: Position { file: 2, offset: 640 } }
    }

    #[test]
    fn golden_bytes() {
        let disk = FaultDisk::new();
        disk.create_dir_all(dir()).unwrap();
        assert_eq!(EndMark::load(&*disk, dir(), SALT).unwrap(), None);
        mark().store(&*disk, dir(), SALT).unwrap();
        let file = disk.open(&end_path(dir())).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let payload = b"\x07\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x80\x02\0\0\0\0\0\0";
        assert_eq!((&bytes[..16], &bytes[20..]), (&b"ALVEND01\x20\0\0\0\0\0\0\0"[..], &payload[..]));
        assert_eq!(EndMark::load(&*disk, dir(), SALT).unwrap(), Some(mark()));
        assert!(EndMark::load(&*disk, dir(), 8).unwrap_err().message().contains("another database"));
        write_atomic(&*disk, &end_path(dir()), END_MAGIC, &payload[..31]).unwrap();
        assert_eq!(EndMark::load(&*disk, dir(), SALT).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn a_log_that_once_went_further_is_refused_and_what_is_missing_named() {
        let at = |file, offset| Some(Position { file, offset });
        mark().check(dir(), Version(9), at(2, 640)).unwrap();
        mark().check(dir(), Version(12), at(4, 64)).unwrap();
        let refused = |version, end| mark().check(dir(), Version(version), end).unwrap_err().message().to_owned();
        let shorter = refused(7, at(2, 400));
        assert!(shorter.contains("0000000000000002.log ends at offset 400, 240 bytes too early"), "{shorter}");
        assert!(shorter.contains("versions 8 to 9 are missing"), "{shorter}");
        assert!(refused(3, at(1, 400)).contains("the log ends at offset 400 of /db/log/0000000000000001.log"));
        assert!(refused(0, None).contains("no log file in /db/log is whole"));
    }
}
