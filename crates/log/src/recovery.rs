//! Opening a log: read it, cut what a power loss left, make durable what is handed out.
//!
//! Invariants:
//! - Nothing is changed before the whole log has been read and accepted; refusing leaves it untouched.
//! - What was handed out is durable when opening returns, even if the process before us was killed between write and
//!   fsync, or its fsync failed. For the latter a new fsync is not enough: after a failed one the operating system may
//!   hold the bytes as clean and never write them. So records that no group states to be durable are written again, with
//!   the same bytes in the same place, and then synced.
//! - The same goes for a cut, and for a statement at the end, about which nothing is stated. So the newest file is cut, rewritten from
//!   what is stated on, and synced at every opening, also where nothing seems to be amiss.
//! - Every step can be interrupted and done again: the cut is at the same place, what is rewritten has the same bytes.

use crate::end::{EndMark, MarkState};
use crate::files::{ClosedFile, CurrentFile};
use crate::format::{FILE_HEADER_BYTES, FileHeader, Position};
use crate::scan::{FoundFile, FoundFiles, FoundMark, Record, ScanEnd, TornEnd, found_mark, scan};
use alluvia_storage::{Disk, DiskFile};
use alluvia_types::{Error, Result, Version};
use std::path::Path;

/// How much is rewritten at once.
const REWRITE_BYTES: usize = 1 << 20;

/// A log that is whole again.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub closed: Vec<ClosedFile>,
    pub current: CurrentFile,
    pub last_version: Version,
    pub last_sequence: u64,
    /// Everything before this offset of the current file is stated to be durable.
    pub stated_len: u64,
    /// End of the current file's last record.
    pub records_end: u64,
    /// How the log ended before it was repaired.
    pub found: LogEnd,
    /// The mark, or what is wrong with it.
    pub mark: Result<Option<EndMark>>,
}

/// How a log ended when it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogEnd {
    /// Whether the mark beside it says that whoever had it stopped cleanly ([`Log::mark_end`](crate::Log::mark_end)), right here, or had
    /// written nothing since; and its own last word is that all of it is durable ([`Log::seal`](crate::Log::seal)).
    pub is_closed: bool,
    /// Whether it ends behind the header of a group or of a file, and not behind a record. Where it was not closed, records may be missing
    /// behind that without a trace.
    pub is_behind_header: bool,
    /// Whether there was a mark, whatever it said.
    pub has_mark: bool,
    /// What the mark's note was, and whether it was of a clean end that nothing followed.
    pub note: Option<(u64, bool)>,
    /// What followed the last whole record, and was cut: the writing of a group was broken off, or its end was damaged since.
    pub torn: Option<TornEnd>,
}

/// Recovers the log in `dir`, which exists, or begins one if there is none.
pub(crate) fn recover(
    disk: &dyn Disk,
    dir: &Path,
    salt: u64,
    after: Version,
    replay: &mut dyn FnMut(Record<'_>) -> Result<()>,
) -> Result<Recovered> {
    let found = FoundFiles::find(disk, dir, salt, after)?;
    let end = match found.files.is_empty() {
        true => None,
        false => Some(scan(disk, &found.files, salt, after, replay)?),
    };
    let newest = found.files.last().zip(end.as_ref());
    let at = newest.map(|(newest, end)| Position { file: newest.header.file, offset: end.good_len });
    let mark = found_mark(disk, dir, salt, end.map_or(Version(0), |end| end.last_version), at)?;
    remove_leftovers(disk, &found)?;
    match (end, found.files.last()) {
        (Some(end), Some(newest)) => {
            let current = CurrentFile::open(disk, dir, newest.header.file, end.good_len)?;
            repair(disk, dir, newest, &end, &*current.handles[0])?;
            Ok(Recovered {
                closed: closed_files(&found.files),
                current,
                last_version: end.last_version,
                last_sequence: end.last_sequence,
                stated_len: end.stated_len,
                records_end: end.records_end,
                found: LogEnd::new(Some(&end), &mark),
                mark: mark.map(|(mark, _)| mark),
            })
        }
        _ => begin_log(disk, dir, salt, mark),
    }
}

impl LogEnd {
    /// Of a log that ends so, or has no file, beside a mark of which is said whether it is of this end.
    pub(crate) fn new(end: Option<&ScanEnd>, mark: &FoundMark) -> LogEnd {
        let marked = mark.as_ref().ok().and_then(|(mark, is_of_end)| Some((mark.as_ref()?, *is_of_end)));
        let header = FILE_HEADER_BYTES as u64;
        let is_stated = end.is_none_or(|end| end.records_end <= end.stated_len && end.torn.is_none());
        // Nobody had written anything.
        let is_new = end.is_none_or(|end| end.last_version == Version(0)) && matches!(mark, Ok((None, _)));
        LogEnd {
            is_closed: is_stated && (is_new || marked.is_some_and(|(_, is_of_end)| is_of_end)),
            is_behind_header: end.is_none_or(|end| end.good_len != end.records_end || end.records_end == header),
            has_mark: !matches!(mark, Ok((None, _))),
            note: marked.map(|(mark, is_of_end)| (mark.note, is_of_end && mark.state == MarkState::Stopped)),
            torn: end.and_then(|end| end.torn),
        }
    }
}

fn begin_log(disk: &dyn Disk, dir: &Path, salt: u64, mark: FoundMark) -> Result<Recovered> {
    let header = FileHeader { file: 1, first_version: Version(1), first_sequence: 1, previous_len: 0 };
    let len = FILE_HEADER_BYTES as u64;
    Ok(Recovered {
        closed: Vec::new(),
        current: CurrentFile::begin(disk, dir, &header, salt)?,
        last_version: Version(0),
        last_sequence: 0,
        stated_len: len,
        records_end: len,
        found: LogEnd::new(None, &mark),
        mark: mark.map(|(mark, _)| mark),
    })
}

/// Removes what reappeared and what was never begun. If that is lost in a crash, it is found and removed again.
fn remove_leftovers(disk: &dyn Disk, found: &FoundFiles) -> Result<()> {
    for path in found.stale.iter().chain(&found.torn) {
        disk.remove(path).map_err(|e| Error::io(path, "removing", &e))?;
    }
    Ok(())
}

/// Whether a group states something in the file, and so its header, to be durable.
fn has_stated_records(end: &ScanEnd) -> bool {
    end.stated_len > FILE_HEADER_BYTES as u64
}

/// Makes durable that the newest file holds its good part and nothing else.
fn repair(disk: &dyn Disk, dir: &Path, newest: &FoundFile, end: &ScanEnd, file: &dyn DiskFile) -> Result<()> {
    file.set_len(end.good_len).map_err(|e| Error::io(&newest.path, "cutting", &e))?;
    // Without a statement even the header's own sync may have failed.
    let unsure_from = if has_stated_records(end) { end.stated_len } else { 0 };
    rewrite(file, &newest.path, unsure_from, end.good_len)?;
    file.sync_data().map_err(|e| Error::io(&newest.path, "syncing", &e))?;
    // The newest file's name may be one that its maker had not yet synced.
    disk.sync_dir(dir).map_err(|e| Error::io(dir, "syncing", &e))
}

fn rewrite(file: &dyn DiskFile, path: &Path, from: u64, to: u64) -> Result<()> {
    let mut buffer = vec![0; REWRITE_BYTES.min((to - from) as usize)];
    let mut offset = from;
    while offset < to {
        let bytes = (to - offset).min(REWRITE_BYTES as u64) as usize;
        let part = &mut buffer[..bytes];
        file.read_exact_at(part, offset).map_err(|e| Error::io(path, "reading", &e))?;
        file.write_all_at(part, offset).map_err(|e| Error::io(path, "writing", &e))?;
        offset += bytes as u64;
    }
    Ok(())
}

/// All files but the newest; each ends where the next begins.
fn closed_files(files: &[FoundFile]) -> Vec<ClosedFile> {
    files
        .windows(2)
        .map(|pair| ClosedFile {
            number: pair[0].header.file,
            len: pair[0].len,
            last_version: Version(pair[1].header.first_version.0.saturating_sub(1)),
        })
        .collect()
}
