//! The directory of log files: their names, and how one is begun.
//!
//! Invariants:
//! - Files are numbered 1, 2, 3 ... without a gap, and removed oldest first. A removal need not survive a crash, so an
//!   older file may reappear before a gap; what lies before the last gap was removed.
//! - A file is used only after its header and its name are durable. One for which there was no room is removed again; if
//!   it reappears after a crash, its header is torn, and recovery removes it.

use crate::format::{FILE_HEADER_BYTES, FileHeader};
use alluvia_storage::{Disk, DiskFile};
use alluvia_types::{Error, ErrorKind, Result, Version, planted};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Groups whose fsyncs may be under way at once. Disks and journals serve overlapping fsyncs together (ext4 on a virtual
/// disk: one at a time 1,000 a second, four at a time 4,000), and writers that come back from one group need not sit out
/// the next one in full, as they would with one at a time (the convoy).
pub(crate) const GROUPS_IN_FLIGHT_MAX: usize = 4;

const NAME_SUFFIX: &str = ".log";
const NAME_DIGITS: usize = 16;

/// The name of file `number` in `dir`.
pub(crate) fn file_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:0NAME_DIGITS$}{NAME_SUFFIX}"))
}

/// Number and length of every log file in `dir`, oldest first. Other names are left alone.
pub(crate) fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<(u64, u64)>> {
    let entries = disk.read_dir(dir).map_err(|e| Error::io(dir, "listing", &e))?;
    let mut files: Vec<(u64, u64)> = entries
        .iter()
        .filter(|entry| !entry.is_dir)
        .filter_map(|entry| {
            let digits = entry.name.strip_suffix(NAME_SUFFIX)?;
            let is_number = digits.len() == NAME_DIGITS && digits.bytes().all(|b| b.is_ascii_digit());
            is_number.then(|| digits.parse().ok()).flatten().map(|number| (number, entry.len))
        })
        .collect();
    files.sort_unstable();
    Ok(files)
}

/// A file that is written no more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClosedFile {
    pub number: u64,
    pub len: u64,
    /// The last version in it or in any file before it.
    pub last_version: Version,
}

/// The newest file, which groups are appended to.
#[derive(Debug)]
pub(crate) struct CurrentFile {
    pub number: u64,
    pub path: PathBuf,
    /// Where the next group goes; groups under way lie before it.
    pub len: u64,
    /// Up to here the file has zeros, if this is behind `len`.
    pub room_end: u64,
    /// Behind groups that end before this no zeros are written: there was no space for them.
    pub room_from: u64,
    /// One handle for each group that may be under way. Each is an open file of its own, because the operating system
    /// reports a failed write-back once *per open file*: on a shared one, the fsync of one group could swallow the error
    /// that another's would have returned.
    pub handles: Vec<Arc<dyn DiskFile>>,
}

impl CurrentFile {
    /// Opens an existing file for appending at `len`, without room.
    pub fn open(disk: &dyn Disk, dir: &Path, number: u64, len: u64) -> Result<CurrentFile> {
        let path = file_path(dir, number);
        let handles: io::Result<Vec<_>> = (0..GROUPS_IN_FLIGHT_MAX).map(|_| disk.open(&path)).collect();
        let handles = handles.map_err(|e| Error::io(&path, "opening", &e))?;
        Ok(CurrentFile { number, path, len, room_end: len, room_from: 0, handles })
    }

    /// Begins a new file: durable, and empty but for its header.
    ///
    /// Errors: [`ErrorKind::DiskFull`] when there is no room; the directory is then as it was. [`ErrorKind::Poisoned`]
    /// when it is unknown what the disk holds.
    pub fn begin(disk: &dyn Disk, dir: &Path, header: &FileHeader, salt: u64) -> Result<CurrentFile> {
        let path = file_path(dir, header.file);
        let undo = |error: Error, created: bool| {
            if error.kind() != ErrorKind::DiskFull {
                return poisoned(error);
            }
            match if created { disk.remove(&path) } else { Ok(()) } {
                Ok(()) => error,
                Err(e) => poisoned(Error::io(&path, "removing the unfinished", &e)),
            }
        };
        let file = disk.create(&path).map_err(|e| undo(Error::io(&path, "creating", &e), false))?;
        file.write_all_at(&header.encode(salt), 0).map_err(|e| undo(Error::io(&path, "writing", &e), true))?;
        file.sync_data().map_err(|e| poisoned(Error::io(&path, "syncing", &e)))?;
        if !planted("name of a log file not synced") {
            disk.sync_dir(dir).map_err(|e| poisoned(Error::io(dir, "syncing", &e)))?;
        }
        CurrentFile::open(disk, dir, header.file, FILE_HEADER_BYTES as u64).map_err(poisoned)
    }
}

/// The error after which nothing is acknowledged any more, because of `cause`.
pub(crate) fn poisoned(cause: Error) -> Error {
    let message = format!("the log is closed to writes, since it is unknown what the disk holds: {}", cause.message());
    Error::new(ErrorKind::Poisoned, message).with_hint(
        "check the disk, then reopen the database; every acknowledged batch is safe, others may or may not be",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_as_numbers_do() {
        let (nine, ten) = (file_path(Path::new("d"), 9), file_path(Path::new("d"), 10));
        assert_eq!(nine, Path::new("d/0000000000000009.log"));
        assert!(nine < ten);
    }
}
