//! The mark: a small file beside the log's directory that says whether somebody writes to the log, and how far the log goes at least.
//!
//! Invariants:
//! - What it says of the log's length was durable before it was written, and stays true whatever comes: a log loses nothing that was
//!   durable but files whose records nobody needs. So a mark is a lower bound; a log that ends before it has lost what was acknowledged.
//!   That is refused, and nothing is changed.
//! - A clean end says *stopped*. Before the first record behind that the mark says *running*, durably: so a log whose mark says stopped
//!   ends where the mark says. One that goes further has a mark that is a copy from before, which is told. One whose mark says running was
//!   not stopped cleanly, wherever it ends: a cut behind a group's header, which looks like a clean end, is none. The start that finds that,
//!   and has told it, says *recovered*, which is as stopped: it is told once.
//! - A log opens without its mark, or where it cannot be read, as it would after a crash. Whoever knows that there was one tells that it
//!   is missing.

use crate::files::file_path;
use crate::format::Position;
use alluvia_storage::{Disk, NotReplaced, read_atomic_of, write_atomic};
use alluvia_types::{Error, ErrorKind, Result, Version};
use std::path::{Path, PathBuf};

/// What the name of a log's directory is continued with in that of its mark, which lies beside it: so it is missed if all of it is gone.
pub const END_SUFFIX: &str = ".end";
/// Magic of the mark; the last two bytes are the format version.
const END_MAGIC: &[u8; 8] = b"ALVEND02";
/// A mark that is read, too: it was written at clean ends alone, and stayed as it was when records followed.
const END_MAGIC_OLDER: [u8; 8] = *b"ALVEND01";

/// What a mark says beside how far the log goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MarkState {
    /// Records may follow, or have followed.
    Running,
    /// None has followed a clean end.
    Stopped,
    /// None has followed what a start has brought back, and told.
    Recovered,
    /// There was a clean end; of the first format, which does not say whether records followed.
    OnceStopped,
}

/// How far a log went when its mark was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EndMark {
    /// The last version.
    pub version: Version,
    /// Where its record, or the header of a file that has none, ends.
    pub at: Position,
    pub state: MarkState,
    /// What the owner of the log has to say of the last clean end; 0 is nothing.
    pub note: u64,
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
        let bytes = read_atomic_of(disk, &path, END_MAGIC, &[END_MAGIC_OLDER])?;
        let corrupt = |what: &str| {
            Error::new(ErrorKind::Corrupt, format!("{} {what}", path.display())).with_hint(
                "it holds no data, and only says how far the log went: if no log file is from a copy either, remove it",
            )
        };
        let words = match bytes.as_chunks::<8>() {
            (words, []) => words.iter().map(|word| u64::from_le_bytes(*word)).collect::<Vec<u64>>(),
            _ => Vec::new(),
        };
        let (of, version, file, offset, state, note) = match words[..] {
            [of, version, file, offset] => (of, version, file, offset, MarkState::OnceStopped, 0),
            [of, version, file, offset, 0, note] => (of, version, file, offset, MarkState::Running, note),
            [of, version, file, offset, 1, note] => (of, version, file, offset, MarkState::Stopped, note),
            [of, version, file, offset, 2, note] => (of, version, file, offset, MarkState::Recovered, note),
            _ => return Err(corrupt("has another length than a mark has, or says what none says")),
        };
        if of != salt {
            return Err(corrupt("is of another database"));
        }
        Ok(Some(EndMark { version: Version(version), at: Position { file, offset }, state, note }))
    }

    /// Replaces the mark in `dir`, durably.
    pub fn store(&self, disk: &dyn Disk, dir: &Path, salt: u64) -> Result<(), NotReplaced> {
        let state = match self.state {
            MarkState::Running => 0,
            MarkState::Stopped | MarkState::OnceStopped => 1,
            MarkState::Recovered => 2,
        };
        let words = [salt, self.version.0, self.at.file, self.at.offset, state, self.note].map(u64::to_le_bytes);
        write_atomic(disk, &end_path(dir), END_MAGIC, words.as_flattened())
    }

    /// Whether it says that a log which ends at `version` ends as it was stopped.
    ///
    /// Errors: [`ErrorKind::Corrupt`] where it is a copy from before: nobody writes behind a clean end and leaves the mark as it was.
    pub fn is_of_end(&self, dir: &Path, version: Version) -> Result<bool> {
        if matches!(self.state, MarkState::Stopped | MarkState::Recovered) && version > self.version {
            let message = format!(
                "{} says that nothing was written behind version {}, and the log goes through version {version}",
                end_path(dir).display(),
                self.version
            );
            return Err(Error::new(ErrorKind::Corrupt, message).with_hint(
                "it is as it was at an earlier stop: whether batches are missing behind this version is not known; the next write mends it",
            ));
        }
        Ok(self.state != MarkState::Running && version == self.version)
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
            "{ends}: when its end was last noted it went through version {last}, to offset {} of {}; versions {first} \
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
        EndMark { version: Version(9), at: Position { file: 2, offset: 640 }, state: MarkState::Stopped, note: 0xa0d1 }
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
        let first = b"\x07\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x80\x02\0\0\0\0\0\0";
        let payload = [&first[..], b"\x01\0\0\0\0\0\0\0\xd1\xa0\0\0\0\0\0\0"].concat();
        assert_eq!((&bytes[..16], &bytes[20..]), (&b"ALVEND02\x30\0\0\0\0\0\0\0"[..], &payload[..]));
        assert_eq!(EndMark::load(&*disk, dir(), SALT).unwrap(), Some(mark()));
        assert!(EndMark::load(&*disk, dir(), 8).unwrap_err().message().contains("another database"));
        for state in [MarkState::Running, MarkState::Recovered] {
            let marked = EndMark { state, ..mark() };
            marked.store(&*disk, dir(), SALT).unwrap();
            assert_eq!(EndMark::load(&*disk, dir(), SALT).unwrap(), Some(marked));
        }
        let mut neither = payload.clone();
        neither[32] = 3;
        for wrong in [&payload[..31], &payload[..40], &neither] {
            write_atomic(&*disk, &end_path(dir()), END_MAGIC, wrong).unwrap();
            assert_eq!(EndMark::load(&*disk, dir(), SALT).unwrap_err().kind(), ErrorKind::Corrupt);
        }
        // As the first format has it.
        write_atomic(&*disk, &end_path(dir()), &END_MAGIC_OLDER, first).unwrap();
        let once = EndMark { state: MarkState::OnceStopped, note: 0, ..mark() };
        assert_eq!(EndMark::load(&*disk, dir(), SALT).unwrap(), Some(once));
    }

    #[test]
    fn a_mark_is_of_the_end_where_it_says_stopped_and_nothing_follows() {
        let of = |state| EndMark { state, ..mark() };
        let is_of = |state, version| of(state).is_of_end(dir(), Version(version)).map_err(|error| error.kind());
        assert_eq!(is_of(MarkState::Stopped, 9), Ok(true));
        assert_eq!(is_of(MarkState::Stopped, 10), Err(ErrorKind::Corrupt));
        assert_eq!(
            (is_of(MarkState::Recovered, 9), is_of(MarkState::Recovered, 10)),
            (Ok(true), Err(ErrorKind::Corrupt))
        );
        assert_eq!((is_of(MarkState::OnceStopped, 9), is_of(MarkState::OnceStopped, 10)), (Ok(true), Ok(false)));
        assert_eq!((is_of(MarkState::Running, 9), is_of(MarkState::Running, 10)), (Ok(false), Ok(false)));
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
