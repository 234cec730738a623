//! The audit log's files: `audit/NNNNNNNN.ndjson`.
//!
//! Invariants:
//! - Lines are added to the newest file alone, and are durable before [`AuditLog::append`] returns.
//! - After a write that failed, a file gets no more lines: the next line begins another file. So nothing stands behind
//!   a line that tore.
//! - Acknowledged lines are kept: only operators remove files. Exception: a file that was begun for a line which failed
//!   is removed, so that a full disk is not filled with files without lines.
//!
//! A crash or a full disk may tear the last line of a file. A torn line was never acknowledged, and readers skip it.

use alluvia_storage::{Disk, DiskFile};
use alluvia_types::{Error, Result};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder in the data directory.
pub(crate) const AUDIT_DIR: &str = "audit";
const SUFFIX: &str = ".ndjson";
/// Digits of a file's number; a larger number has more.
const NUMBER_DIGITS: usize = 8;

/// The number of a file of the log.
fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    let is_number = digits.len() >= NUMBER_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// Whether a file of this name is one of the log's.
pub(crate) fn is_audit_file(name: &str) -> bool {
    number_of(name).is_some()
}

/// The audit log of one data directory.
#[derive(Debug)]
pub(crate) struct AuditLog {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// A file that holds this many bytes gets no more lines.
    file_bytes_max: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    current: Option<Current>,
    /// Numbers below this have been used; `None` until the folder was looked at.
    next: Option<u64>,
}

#[derive(Debug)]
struct Current {
    number: u64,
    file: Arc<dyn DiskFile>,
    /// Bytes of the lines that were acknowledged.
    len: u64,
}

impl AuditLog {
    /// The log in a data directory. Nothing is made before the first line.
    pub(crate) fn new(disk: Arc<dyn Disk>, data_dir: &Path, file_bytes_max: u64) -> AuditLog {
        AuditLog { disk, dir: data_dir.join(AUDIT_DIR), file_bytes_max, state: Mutex::default() }
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:0NUMBER_DIGITS$}{SUFFIX}"))
    }

    /// Numbers of the files, oldest first.
    fn numbers(&self) -> Result<Vec<u64>> {
        if !self.disk.exists(&self.dir) {
            return Ok(Vec::new());
        }
        let entries = self.disk.read_dir(&self.dir).map_err(|error| Error::io(&self.dir, "listing", &error))?;
        let mut numbers: Vec<u64> = entries.iter().filter_map(|entry| number_of(&entry.name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The files, oldest first.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>> {
        Ok(self.numbers()?.into_iter().map(|number| self.path(number)).collect())
    }

    /// Adds whole lines, durably.
    pub(crate) fn append(&self, lines: &[u8]) -> Result<()> {
        let mut state = self.state.lock();
        let added = self.add(&mut state, lines);
        if added.is_err()
            && let Some(failed) = state.current.take()
            && failed.len == 0
            && self.disk.remove(&self.path(failed.number)).is_ok()
        {
            state.next = Some(failed.number);
        }
        added
    }

    fn add(&self, state: &mut State, lines: &[u8]) -> Result<()> {
        let full = |current: &Current| current.len > 0 && current.len + lines.len() as u64 > self.file_bytes_max;
        if state.current.as_ref().is_some_and(full) {
            state.current = None;
        }
        let is_new = state.current.is_none();
        if is_new {
            state.current = Some(self.begin(&mut state.next)?);
        }
        let Some(current) = state.current.as_mut() else { return Err(Error::internal("an audit log without a file")) };
        let failed = |error: std::io::Error| Error::io(&self.dir, "adding to the audit log in", &error);
        current.file.write_all_at(lines, current.len).map_err(failed)?;
        current.file.sync_data().map_err(failed)?;
        if is_new {
            self.disk.sync_dir(&self.dir).map_err(failed)?;
        }
        current.len += lines.len() as u64;
        Ok(())
    }

    /// A new file. A process begins one of its own: what an earlier one left may end in a torn line.
    fn begin(&self, next: &mut Option<u64>) -> Result<Current> {
        let failed = |error: std::io::Error| Error::io(&self.dir, "beginning a file of the audit log in", &error);
        let number = match *next {
            Some(number) => number,
            None => {
                self.disk.create_dir_all(&self.dir).map_err(failed)?;
                self.numbers()?.last().map_or(1, |last| last + 1)
            }
        };
        *next = Some(number + 1);
        let file = self.disk.create(&self.path(number)).map_err(failed)?;
        Ok(Current { number, file, len: 0 })
    }

    /// The newest lines, oldest first, whole, together at most so many bytes.
    pub(crate) fn tail(&self, bytes_max: u64) -> Result<Vec<u8>> {
        // While nobody adds: what is there is durable, apart from the end of a file that failed.
        let _state = self.state.lock();
        let mut parts: Vec<Vec<u8>> = Vec::new();
        let mut room = bytes_max;
        for number in self.numbers()?.into_iter().rev() {
            let path = self.path(number);
            let failed = |error: std::io::Error| Error::io(&path, "reading", &error);
            let file = self.disk.open(&path).map_err(failed)?;
            let len = file.len().map_err(failed)?;
            let taken = len.min(room);
            let mut bytes = vec![0; taken as usize];
            file.read_exact_at(&mut bytes, len - taken).map_err(failed)?;
            let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            bytes.truncate(end);
            if taken < len {
                let begin = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
                bytes.drain(..begin);
            }
            parts.push(bytes);
            room -= taken;
            if room == 0 {
                break;
            }
        }
        parts.reverse();
        Ok(parts.concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_storage::FaultDisk;

    fn log(disk: &Arc<FaultDisk>) -> AuditLog {
        AuditLog::new(Arc::clone(disk) as Arc<dyn Disk>, Path::new("/db"), 20)
    }

    fn shown(log: &AuditLog, bytes_max: u64) -> String {
        String::from_utf8(log.tail(bytes_max).unwrap()).unwrap()
    }

    #[test]
    fn lines_are_kept_across_restarts_in_files_of_bounded_size() {
        let disk = FaultDisk::new();
        disk.create_dir_all(Path::new("/db")).unwrap();
        assert_eq!(shown(&log(&disk), 100), "");
        for process in 0..2 {
            let log = log(&disk);
            (0..3).for_each(|line| log.append(format!("line {process}.{line}\n").as_bytes()).unwrap());
        }
        let log = log(&disk);
        assert_eq!(log.numbers().unwrap(), [1, 2, 3, 4]);
        assert_eq!(shown(&log, 1_000), "line 0.0\nline 0.1\nline 0.2\nline 1.0\nline 1.1\nline 1.2\n");
        // Whole lines, the newest of them.
        assert_eq!(shown(&log, 20), "line 1.1\nline 1.2\n");
        assert_eq!(shown(&log, 5), "");
        log.append(b"a line that is longer than a file\n").unwrap();
        assert_eq!(shown(&log, 40), "a line that is longer than a file\n");
    }

    #[test]
    fn a_disk_that_stays_full_is_not_filled_with_empty_files() {
        let disk = FaultDisk::new();
        disk.create_dir_all(Path::new("/db")).unwrap();
        let log = log(&disk);
        log.append(b"first\n").unwrap();
        for bytes_max in [6, 9] {
            // Nothing of the line fits, or a part of it.
            disk.limit_bytes(Some(bytes_max));
            for _ in 0..10 {
                log.append(b"a line that is refused\n").unwrap_err();
            }
            assert_eq!(log.numbers().unwrap(), [1]);
        }
        disk.limit_bytes(None);
        log.append(b"second\n").unwrap();
        assert_eq!((shown(&log, 100).as_str(), log.numbers().unwrap()), ("first\nsecond\n", vec![1, 2]));
        // One that holds a line stays, whatever tore behind it.
        disk.fail_write(1);
        log.append(b"third\n").unwrap_err();
        log.append(b"fourth\n").unwrap();
        assert_eq!((shown(&log, 100).as_str(), log.numbers().unwrap()), ("first\nsecond\nfourth\n", vec![1, 2, 3]));
    }

    #[test]
    fn a_torn_line_is_passed_over_and_nothing_is_added_behind_it() {
        let disk = FaultDisk::new();
        disk.create_dir_all(Path::new("/db")).unwrap();
        let first = log(&disk);
        first.append(b"whole\n").unwrap();
        let file = disk.open(&first.path(1)).unwrap();
        file.write_all_at(b"to", 6).unwrap();
        assert_eq!(shown(&first, 100), "whole\n");
        let second = log(&disk);
        second.append(b"next\n").unwrap();
        assert_eq!(second.numbers().unwrap(), [1, 2]);
        assert_eq!(shown(&second, 100), "whole\nnext\n");
    }
}
