//! The files that keep idempotency keys of batches that left the log.
//!
//! Invariants:
//! - Before the log gives up a batch that has a key, the key is in a synced file that the manifest names. So files and log together hold
//!   every key of the last seven days, whatever a crash cuts.
//! - A file is written once, under a number that no file beside it has, and is durable, with its name, before a manifest names it. Keys
//!   that are added to a file that is not full are written with it, as another file.
//! - A file goes only when a manifest that does not name it is durable. What nobody names is what a crash left, and goes at the next
//!   opening.
//! - The manifest has the length and the checksum of each: one that is missing, damaged or another one, such as an older copy, is found,
//!   and the directory is not opened, unless somebody allows it by a file [`KEYS_LOST_NAME`].
//!
//! A directory of an earlier build, whose manifest names no keys, has its files numbered without a gap. They are read as they are, and named
//! by the next manifest.

use crate::keys::{KeyRecord, decode, encode};
use alluvia_storage::{Disk, read_atomic, write_atomic};
use alluvia_types::{Error, ErrorKind, Result, Version};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

/// Magic of a file of keys; the last two bytes are the format version.
pub const KEYS_MAGIC: &[u8; 8] = b"ALVKEY01";
/// An empty file that somebody puts into the data directory to open it without the keys that are lost. It goes with the next manifest.
pub const KEYS_LOST_NAME: &str = "keys.lost";
/// Records of one file; the next one goes into the next file.
const FILE_RECORDS_MAX: usize = 1 << 13;

const HINT: &str = "it holds idempotency keys and no rows: restore it from a copy; or put an empty file 'keys.lost' into the data directory, \
                    to open it without these keys: batches of the last 7 days that are then sent again with them are applied again";

/// A file of keys, as the manifest names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KeysFile {
    /// Its number.
    pub number: u64,
    /// Bytes of its records.
    pub bytes: u64,
    /// Their crc32c.
    pub crc: u32,
}

/// The files of a data directory. Whoever writes the manifest writes them, before it, and names them in it.
#[derive(Debug)]
pub struct KeyFiles {
    dir: PathBuf,
    /// Oldest first, each with the commit time of its newest record; all but the last are full.
    files: VecDeque<(KeysFile, i64)>,
    /// Those of the last file.
    records: Vec<KeyRecord>,
    /// The number of the next file.
    next: u64,
    /// What is not to be named any more; the manifest on disk may name it yet.
    old: Vec<PathBuf>,
    /// What was passed over, because somebody allowed it.
    lost: Vec<Error>,
}

fn name(number: u64) -> String {
    format!("keys-{number:08}")
}

fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(name(number))
}

impl KeyFiles {
    /// The number of the file of this name, if it is one of keys.
    pub fn number_of_file(file: &str) -> Option<u64> {
        let number = file.strip_prefix("keys-")?.parse().ok()?;
        (name(number) == file).then_some(number)
    }

    /// Reads the files of `dir` that the manifest names (`None`: it is of an earlier build, and names none); gives all records, oldest
    /// first. Nothing is changed.
    ///
    /// Errors: [`ErrorKind::Corrupt`] for a file that is not there, or is not what the manifest names.
    pub fn load(disk: &dyn Disk, dir: &Path, named: Option<&[KeysFile]>) -> Result<(KeyFiles, Vec<KeyRecord>)> {
        let may_lose = disk.exists(&dir.join(KEYS_LOST_NAME));
        let mut lost = Vec::new();
        let (mut files, all) = KeyFiles::read_all(disk, dir, named, &mut |error| match may_lose {
            true => {
                lost.push(error);
                Ok(())
            }
            false => Err(error),
        })?;
        if may_lose {
            files.old.push(dir.join(KEYS_LOST_NAME));
        }
        files.lost = lost;
        Ok((files, all))
    }

    /// As [`KeyFiles::load`]; `damaged` is told of each file that cannot be read, and decides whether it is passed over.
    pub fn read_all(
        disk: &dyn Disk,
        dir: &Path,
        named: Option<&[KeysFile]>,
        damaged: &mut dyn FnMut(Error) -> Result<()>,
    ) -> Result<(KeyFiles, Vec<KeyRecord>)> {
        let there = numbers(disk, dir)?;
        let wanted: Vec<(u64, Option<KeysFile>)> = match named {
            Some(named) => named.iter().map(|file| (file.number, Some(*file))).collect(),
            // Without a gap: one between two others is missing.
            None => match (there.first(), there.last()) {
                (Some(&first), Some(&last)) => (first..=last).map(|number| (number, None)).collect(),
                _ => Vec::new(),
            },
        };
        let highest = there.last().copied().max(wanted.iter().map(|(number, _)| *number).max());
        let mut files = KeyFiles {
            dir: dir.into(),
            files: VecDeque::new(),
            records: Vec::new(),
            next: highest.unwrap_or(0) + 1,
            old: Vec::new(),
            lost: Vec::new(),
        };
        let mut all = Vec::new();
        for (number, file) in wanted {
            match read(disk, &path(dir, number), number, file) {
                Ok((file, records)) => {
                    all.extend_from_slice(&records);
                    files.files.push_back((file, newest_micros(&records)));
                    files.records = records;
                }
                Err(error) => {
                    damaged(error)?;
                    files.old.push(path(dir, number));
                }
            }
        }
        Ok((files, all))
    }

    /// What was passed over when they were read, because a file [`KEYS_LOST_NAME`] allowed it.
    pub fn lost(&self) -> &[Error] {
        &self.lost
    }

    /// What the next manifest names, oldest first; and how much is old once that is durable.
    pub fn named(&self) -> (Vec<KeysFile>, usize) {
        (self.files.iter().map(|(file, _)| *file).collect(), self.old.len())
    }

    /// Gives the oldest `count` of what is old, to be removed: a manifest that names none of it is durable.
    pub fn forget_old(&mut self, count: usize) -> Vec<PathBuf> {
        self.old.drain(..count).collect()
    }

    /// Removes what neither the manifest names nor is kept for another reason: what a crash left.
    pub fn remove_orphans(&self, disk: &dyn Disk) -> Result<()> {
        let named: BTreeSet<PathBuf> =
            self.files.iter().map(|(file, _)| path(&self.dir, file.number)).chain(self.old.iter().cloned()).collect();
        let entries = disk.read_dir(&self.dir).map_err(|error| Error::io(&self.dir, "listing", &error))?;
        for entry in entries {
            let path = self.dir.join(&entry.name);
            let is_partial =
                entry.name.strip_suffix(".tmp").is_some_and(|name| KeyFiles::number_of_file(name).is_some());
            if is_partial || KeyFiles::number_of_file(&entry.name).is_some() && !named.contains(&path) {
                disk.remove(&path).map_err(|error| Error::io(&path, "removing", &error))?;
            }
        }
        Ok(())
    }

    /// Keeps records, durably: the next manifest names the files that have them. Files that only hold records older than
    /// `oldest_micros` are not named by it any more. What is kept already is passed over.
    pub fn add(&mut self, disk: &dyn Disk, records: &[KeyRecord], oldest_micros: i64) -> Result<()> {
        let last = self.records.last().map_or(Version(0), |record| record.version);
        let mut new: VecDeque<KeyRecord> = records.iter().filter(|record| record.version > last).copied().collect();
        while !new.is_empty() {
            let is_full = self.records.len() >= FILE_RECORDS_MAX;
            let mut grown = if is_full { Vec::new() } else { self.records.clone() };
            let room = (FILE_RECORDS_MAX - grown.len()).min(new.len());
            grown.extend(new.drain(..room));
            // What was not written is not remembered as written, nor is what was written before forgotten: it would be written again.
            let (number, bytes) = (self.next, encode(&grown));
            write_atomic(disk, &path(&self.dir, number), KEYS_MAGIC, &bytes)?;
            self.next += 1;
            if !is_full && let Some((before, _)) = self.files.pop_back() {
                self.old.push(path(&self.dir, before.number));
            }
            self.files.push_back((file_of(number, &bytes), newest_micros(&grown)));
            self.records = grown;
        }
        while self.files.len() > 1 && self.files.front().is_some_and(|(_, newest)| *newest < oldest_micros) {
            self.old.extend(self.files.pop_front().map(|(file, _)| path(&self.dir, file.number)));
        }
        Ok(())
    }
}

/// The numbers of the files that are there, ascending.
fn numbers(disk: &dyn Disk, dir: &Path) -> Result<Vec<u64>> {
    let entries = disk.read_dir(dir).map_err(|error| Error::io(dir, "listing", &error))?;
    let mut numbers: Vec<u64> = entries.iter().filter_map(|entry| KeyFiles::number_of_file(&entry.name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn newest_micros(records: &[KeyRecord]) -> i64 {
    records.last().map_or(i64::MIN, |record| record.commit_micros)
}

fn file_of(number: u64, bytes: &[u8]) -> KeysFile {
    KeysFile { number, bytes: bytes.len() as u64, crc: crc32c::crc32c(bytes) }
}

/// Reads a file, and holds it against what the manifest says of it.
fn read(disk: &dyn Disk, path: &Path, number: u64, named: Option<KeysFile>) -> Result<(KeysFile, Vec<KeyRecord>)> {
    let damaged = |what: &str| Error::new(ErrorKind::Corrupt, format!("{} {what}", path.display())).with_hint(HINT);
    if !disk.exists(path) {
        return Err(damaged("is missing"));
    }
    let bytes = read_atomic(disk, path, KEYS_MAGIC).map_err(|error| match error.kind() {
        ErrorKind::Corrupt => error.with_hint(HINT),
        _ => error,
    })?;
    let found = file_of(number, &bytes);
    if let Some(named) = named.filter(|named| *named != found) {
        return Err(damaged(&format!(
            "is whole, and is not the file that the manifest names: it has {} bytes of keys with the checksum {:08x} instead of {} with \
             {:08x}; it may be an older copy",
            found.bytes, found.crc, named.bytes, named.crc
        )));
    }
    let records = decode(&bytes).ok_or_else(|| damaged("has half a record"))?;
    Ok((found, records))
}

#[cfg(test)]
mod tests;
