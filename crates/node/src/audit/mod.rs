//! The audit log's files: `audit/NNNNNNNN.ndjson`.
//!
//! Invariants:
//! - Lines are added to the newest file alone, and are durable before [`AuditLog::append`] returns.
//! - After a write that failed, a file gets no more lines: the next line begins another file. So nothing stands behind
//!   a line that tore.
//! - Acknowledged lines are kept: only operators remove files. Exception: a file that was begun for a line which failed
//!   is removed, so that a full disk is not filled with files without lines.
//! - Lines are chained (`chain.rs`), across files and processes. A clean stop leaves a mark that names the last: it stays true whatever
//!   comes, since lines are kept; and the oldest file, which somebody may put away since. The mark of the log says which one it is.
//!
//! A crash or a full disk may tear the last line of a file. A torn line was never acknowledged, and readers skip it.

mod chain;
mod verify;

pub(crate) use verify::{Found, Verifier};

use alluvia_storage::{Disk, DiskFile, read_atomic, write_atomic};
use alluvia_types::{Error, ErrorKind, Result};
use chain::{Link, chained};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder in the data directory.
pub(crate) const AUDIT_DIR: &str = "audit";
/// The mark of the last clean stop, beside that folder: so it is missed if all of it is gone.
pub(crate) const END_NAME: &str = "audit.end";
/// Magic of the mark; the last two bytes are the format version.
const END_MAGIC: &[u8; 8] = b"ALVAUD01";
const SUFFIX: &str = ".ndjson";
/// Digits of a file's number; a larger number has more.
const NUMBER_DIGITS: usize = 8;

/// How much of a file is read at first to find its last line.
const TAIL_BYTES: u64 = 64 << 10;

/// The name of a file of the log.
pub(crate) fn file_name(number: u64) -> String {
    format!("{number:0NUMBER_DIGITS$}{SUFFIX}")
}

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

/// The last line when the log was last stopped cleanly.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct EndMark {
    /// The number of its file.
    pub(crate) file: u64,
    /// Its chain.
    pub(crate) chain: String,
    /// The number of the oldest file that was there; absent in marks of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) first: Option<u64>,
}

impl EndMark {
    /// What the log's mark says of this one, so that it is missed: the first half of the chain.
    pub(crate) fn note(&self) -> u64 {
        self.chain.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0)
    }
}

#[derive(Debug, Default)]
struct State {
    current: Option<Current>,
    /// The chain of the last line that was acknowledged; `None` until the folder was looked at.
    chain: Option<String>,
    /// The last line that this process added.
    last: Option<EndMark>,
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
        self.dir.join(file_name(number))
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

    /// The files with their numbers, oldest first.
    pub(crate) fn files(&self) -> Result<Vec<(u64, PathBuf)>> {
        Ok(self.numbers()?.into_iter().map(|number| (number, self.path(number))).collect())
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
        let before = match &state.chain {
            Some(chain) => chain.clone(),
            None => self.look(state)?,
        };
        let (mut text, mut chain) = chained(lines, &before, state.current.is_none())?;
        let full = |current: &Current| current.len > 0 && current.len + text.len() as u64 > self.file_bytes_max;
        if state.current.as_ref().is_some_and(full) {
            state.current = None;
            (text, chain) = chained(lines, &before, true)?;
        }
        let is_new = state.current.is_none();
        if is_new {
            state.current = Some(self.begin(&mut state.next)?);
        }
        let Some(current) = state.current.as_mut() else { return Err(Error::internal("an audit log without a file")) };
        let failed = |error: std::io::Error| Error::io(&self.dir, "adding to the audit log in", &error);
        current.file.write_all_at(&text, current.len).map_err(failed)?;
        current.file.sync_data().map_err(failed)?;
        if is_new {
            self.disk.sync_dir(&self.dir).map_err(failed)?;
        }
        current.len += text.len() as u64;
        state.last = Some(EndMark { file: current.number, chain: chain.clone(), first: None });
        state.chain = Some(chain);
        Ok(())
    }

    /// A new file. A process begins one of its own: what an earlier one left may end in a torn line.
    fn begin(&self, next: &mut Option<u64>) -> Result<Current> {
        let failed = |error: std::io::Error| Error::io(&self.dir, "beginning a file of the audit log in", &error);
        let Some(number) = *next else { return Err(Error::internal("an audit log that was not looked at")) };
        *next = Some(number + 1);
        let file = self.disk.create(&self.path(number)).map_err(failed)?;
        Ok(Current { number, file, len: 0 })
    }

    /// Finds the chain that the next line follows on, and the number of the next file.
    ///
    /// Where the last clean stop left another line than is there now, the chain goes on from that one: so what is missing stays missed.
    fn look(&self, state: &mut State) -> Result<String> {
        self.disk.create_dir_all(&self.dir).map_err(|error| Error::io(&self.dir, "making", &error))?;
        let numbers = self.numbers()?;
        // One that cannot be read is told by a check, and replaced at the next stop.
        let mark = self.mark().unwrap_or_default();
        let newest = numbers.last().copied().max(mark.as_ref().map(|mark| mark.file));
        let mut found: Option<EndMark> = None;
        for &file in numbers.iter().rev() {
            if let Some(chain) = self.last_chain(file)? {
                found = Some(EndMark { file, chain, first: None });
                break;
            }
        }
        let chain = match (found, mark) {
            (Some(found), Some(mark)) if found.file < mark.file => mark.chain,
            (Some(found), Some(mark)) if found.file == mark.file && !self.has_chain(&mark)? => mark.chain,
            (None, Some(mark)) => mark.chain,
            (Some(found), _) => found.chain,
            (None, None) => String::new(),
        };
        state.next = Some(newest.map_or(1, |newest| newest + 1));
        state.chain = Some(chain.clone());
        Ok(chain)
    }

    /// The mark of the last clean stop; `None` if there is none.
    pub(crate) fn mark(&self) -> Result<Option<EndMark>> {
        let path = self.dir.with_file_name(END_NAME);
        if !self.disk.exists(&path) {
            return Ok(None);
        }
        let bytes = read_atomic(self.disk.as_ref(), &path, END_MAGIC)?;
        let mark = serde_json::from_slice(&bytes)
            .map_err(|error| Error::new(ErrorKind::Corrupt, format!("{} does not parse: {error}", path.display())))?;
        Ok(Some(mark))
    }

    /// Leaves a mark that names the last line and the oldest file, for a clean stop. Returns what there is to say of it elsewhere.
    pub(crate) fn mark_end(&self) -> Result<u64> {
        let state = self.state.lock();
        // One that cannot be read is told by a check, and replaced once there is another line.
        let known = self.mark().unwrap_or_default();
        let Some(last) = state.last.as_ref().or(known.as_ref()) else { return Ok(0) };
        let mark = EndMark { first: self.numbers()?.first().copied(), ..last.clone() };
        if known.as_ref() != Some(&mark) {
            let bytes = serde_json::to_vec(&mark)
                .map_err(|error| Error::internal(format!("the mark of the audit log: {error}")))?;
            write_atomic(self.disk.as_ref(), &self.dir.with_file_name(END_NAME), END_MAGIC, &bytes)?;
        }
        Ok(mark.note())
    }

    /// The chain of the last whole line of a file, if that has one.
    fn last_chain(&self, number: u64) -> Result<Option<String>> {
        let path = self.path(number);
        let failed = |error: std::io::Error| Error::io(&path, "reading", &error);
        let file = self.disk.open(&path).map_err(failed)?;
        let len = file.len().map_err(failed)?;
        let mut taken = TAIL_BYTES.min(len);
        loop {
            let mut bytes = vec![0; taken as usize];
            file.read_exact_at(&mut bytes, len - taken).map_err(failed)?;
            let end = bytes.iter().rposition(|byte| *byte == b'\n');
            let begin = end.and_then(|end| bytes[..end].iter().rposition(|byte| *byte == b'\n')).map(|at| at + 1);
            match (begin, end) {
                (Some(begin), Some(end)) => return Ok(Link::of(&bytes[begin..end]).map(|link| link.chain)),
                (None, Some(end)) if taken == len => return Ok(Link::of(&bytes[..end]).map(|link| link.chain)),
                (_, None) if taken == len => return Ok(None),
                _ => taken = (taken * 4).min(len),
            }
        }
    }

    /// Whether the line that a mark names is in its file.
    fn has_chain(&self, mark: &EndMark) -> Result<bool> {
        let path = self.path(mark.file);
        let failed = |error: std::io::Error| Error::io(&path, "reading", &error);
        let file = self.disk.open(&path).map_err(failed)?;
        let mut bytes = vec![0; file.len().map_err(failed)? as usize];
        file.read_exact_at(&mut bytes, 0).map_err(failed)?;
        let mut lines = bytes.split(|byte| *byte == b'\n');
        Ok(lines.any(|line| Link::of(line).is_some_and(|link| link.chain == mark.chain)))
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
mod tests;
