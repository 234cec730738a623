//! Idempotency keys of batches, and the files that keep them.
//!
//! Invariants:
//! - Before the log gives up a batch that has a key, the key is in a synced file. So files and log together hold every key of the last
//!   seven days, whatever a crash cuts.
//! - Files are numbered without a gap, and only the newest is written again; one that is damaged, or missing between two others, is
//!   found, not passed over.

use alluvia_storage::{Disk, read_atomic, write_atomic};
use alluvia_types::{Error, ErrorKind, Result, TableId, Version};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_128;

/// How long a key is remembered after its batch was committed.
pub const KEYS_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// Magic of a file of keys; the last two bytes are the format version.
pub const KEYS_MAGIC: &[u8; 8] = b"ALVKEY01";
/// Records of one file; the next one goes into the next file.
const FILE_RECORDS_MAX: usize = 1 << 13;
const RECORD_BYTES: usize = 40;

/// What a client's key for a batch of one table comes to: 128 bits of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BatchKey(pub u128);

impl BatchKey {
    /// Of the text that a client sent. The same text for another table is another key.
    pub fn new(table: TableId, text: &str) -> BatchKey {
        BatchKey(xxh3_128(&[&table.0.to_le_bytes(), text.as_bytes()].concat()))
    }
}

impl fmt::Debug for BatchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// JSON has no 128-bit numbers.
impl Serialize for BatchKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:032x}", self.0))
    }
}

impl<'de> Deserialize<'de> for BatchKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<BatchKey, D::Error> {
        let text = String::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16).map(BatchKey).map_err(serde::de::Error::custom)
    }
}

/// A key that was used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KeyRecord {
    /// The key.
    pub key: BatchKey,
    /// The version of its batch.
    pub version: Version,
    /// Its commit time, microseconds since 1970.
    pub commit_micros: i64,
    /// Its rows.
    pub rows: u64,
}

/// The files of a data directory. Whoever writes the manifest writes them, before it.
#[derive(Debug)]
pub struct KeyFiles {
    dir: PathBuf,
    /// Number and newest commit time of the files that are full, oldest first.
    full: VecDeque<(u64, i64)>,
    /// The file that is written again.
    newest: u64,
    records: Vec<KeyRecord>,
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

    /// Reads the files of `dir`; gives all records, oldest first.
    pub fn load(disk: &dyn Disk, dir: &Path) -> Result<(KeyFiles, Vec<KeyRecord>)> {
        let entries = disk.read_dir(dir).map_err(|error| Error::io(dir, "listing", &error))?;
        let mut numbers: Vec<u64> = entries.iter().filter_map(|entry| KeyFiles::number_of_file(&entry.name)).collect();
        numbers.sort_unstable();
        let mut files = KeyFiles { dir: dir.into(), full: VecDeque::new(), newest: 1, records: Vec::new() };
        let mut all = Vec::new();
        for (at, &number) in numbers.iter().enumerate() {
            if at > 0 && numbers[at - 1] + 1 != number {
                let missing = path(dir, number - 1);
                return Err(Error::new(ErrorKind::Corrupt, format!("{} is missing", missing.display())).with_hint(HINT));
            }
            let records = read(disk, &path(dir, number))?;
            all.extend_from_slice(&records);
            if at + 1 < numbers.len() {
                files.full.push_back((number, newest_micros(&records)));
            } else {
                (files.newest, files.records) = (number, records);
            }
        }
        Ok((files, all))
    }

    /// Keeps records, durably, and removes files that only hold ones older than `oldest_micros`. What is kept already is passed over.
    pub fn add(&mut self, disk: &dyn Disk, records: &[KeyRecord], oldest_micros: i64) -> Result<()> {
        let last = self.records.last().map_or(Version(0), |record| record.version);
        let mut new: VecDeque<KeyRecord> = records.iter().filter(|record| record.version > last).copied().collect();
        while !new.is_empty() {
            let is_full = self.records.len() >= FILE_RECORDS_MAX;
            let number = self.newest + u64::from(is_full);
            let mut grown = if is_full { Vec::new() } else { self.records.clone() };
            let room = (FILE_RECORDS_MAX - grown.len()).min(new.len());
            grown.extend(new.drain(..room));
            // What was not written is not remembered as written, nor is what was written before forgotten: it would be written again.
            write_atomic(disk, &path(&self.dir, number), KEYS_MAGIC, &encode(&grown))?;
            if is_full {
                self.full.push_back((self.newest, newest_micros(&self.records)));
            }
            (self.newest, self.records) = (number, grown);
        }
        while let Some(&(number, newest)) = self.full.front()
            && newest < oldest_micros
        {
            let path = path(&self.dir, number);
            match disk.remove(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io(&path, "removing", &error));
                }
                _ => {}
            }
            // One after the other: a crash must not bring an older one back and leave a gap behind it.
            disk.sync_dir(&self.dir).map_err(|error| Error::io(&self.dir, "syncing", &error))?;
            self.full.pop_front();
        }
        Ok(())
    }
}

const HINT: &str = "it holds idempotency keys and no rows: restore it, or move all files keys-* away; batches of the last 7 days that \
                    are then sent again with their keys are applied again";

fn newest_micros(records: &[KeyRecord]) -> i64 {
    records.last().map_or(i64::MIN, |record| record.commit_micros)
}

fn encode(records: &[KeyRecord]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(records.len() * RECORD_BYTES);
    for record in records {
        bytes.extend_from_slice(&record.key.0.to_le_bytes());
        bytes.extend_from_slice(&record.version.0.to_le_bytes());
        bytes.extend_from_slice(&record.commit_micros.to_le_bytes());
        bytes.extend_from_slice(&record.rows.to_le_bytes());
    }
    bytes
}

fn read(disk: &dyn Disk, path: &Path) -> Result<Vec<KeyRecord>> {
    let bytes = read_atomic(disk, path, KEYS_MAGIC).map_err(|error| match error.kind() {
        ErrorKind::Corrupt => error.with_hint(HINT),
        _ => error,
    })?;
    let damaged = || Error::new(ErrorKind::Corrupt, format!("{} has half a record", path.display())).with_hint(HINT);
    let (records, []) = bytes.as_chunks::<RECORD_BYTES>() else { return Err(damaged()) };
    let eight = |record: &[u8; RECORD_BYTES], at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&record[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let decode = |record: &[u8; RECORD_BYTES]| KeyRecord {
        key: BatchKey(u128::from(eight(record, 0)) | u128::from(eight(record, 8)) << 64),
        version: Version(eight(record, 16)),
        commit_micros: eight(record, 24) as i64,
        rows: eight(record, 32),
    };
    Ok(records.iter().map(decode).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_storage::FaultDisk;

    fn record(version: u64) -> KeyRecord {
        let key = BatchKey::new(TableId(3), &format!("key {version}"));
        KeyRecord { key, version: Version(version), commit_micros: version as i64 * 10, rows: version * 2 }
    }

    #[test]
    fn keys_are_read_back_and_old_files_go() {
        let (disk, dir) = (FaultDisk::new(), Path::new("/db"));
        disk.create_dir_all(dir).unwrap();
        let (mut files, none) = KeyFiles::load(disk.as_ref(), dir).unwrap();
        assert!(none.is_empty());
        let count = FILE_RECORDS_MAX as u64 + 10;
        let all: Vec<KeyRecord> = (1..=count).map(record).collect();
        files.add(disk.as_ref(), &all[..100], 0).unwrap();
        // A sort that failed after this sends them again.
        files.add(disk.as_ref(), &all[50..], 0).unwrap();
        let (mut files, read) = KeyFiles::load(disk.as_ref(), dir).unwrap();
        assert_eq!(read, all);
        files.add(disk.as_ref(), &[], FILE_RECORDS_MAX as i64 * 10).unwrap();
        assert!(disk.exists(&path(dir, 1)), "its newest record is not older than that");
        files.add(disk.as_ref(), &[record(count + 1)], FILE_RECORDS_MAX as i64 * 10 + 1).unwrap();
        let (_, read) = KeyFiles::load(disk.as_ref(), dir).unwrap();
        assert_eq!(
            read.iter().map(|record| record.version.0).collect::<Vec<_>>(),
            (FILE_RECORDS_MAX as u64 + 1..=count + 1).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_write_that_fails_at_the_end_of_a_file_writes_no_key_twice() {
        let (disk, dir) = (FaultDisk::new(), Path::new("/db"));
        disk.create_dir_all(dir).unwrap();
        let (mut files, _) = KeyFiles::load(disk.as_ref(), dir).unwrap();
        let all: Vec<KeyRecord> = (1..=FILE_RECORDS_MAX as u64 + 10).map(record).collect();
        files.add(disk.as_ref(), &all[..FILE_RECORDS_MAX], 0).unwrap();
        // The sort is tried again with all that it takes out of the log: what the full file has is among that.
        for _ in 0..2 {
            disk.fail_write(1);
            assert!(files.add(disk.as_ref(), &all[10..], 0).is_err());
        }
        files.add(disk.as_ref(), &all[10..], 0).unwrap();
        assert_eq!((files.newest, files.full.len()), (2, 1));
        assert_eq!(KeyFiles::load(disk.as_ref(), dir).unwrap().1, all);
    }

    #[test]
    fn damage_and_gaps_are_found() {
        let (disk, dir) = (FaultDisk::new(), Path::new("/db"));
        disk.create_dir_all(dir).unwrap();
        for number in 1..=3 {
            write_atomic(disk.as_ref(), &path(dir, number), KEYS_MAGIC, &encode(&[record(number)])).unwrap();
        }
        assert_eq!(KeyFiles::load(disk.as_ref(), dir).unwrap().1.len(), 3);
        disk.corrupt(&path(dir, 3), 25, 4);
        assert_eq!(KeyFiles::load(disk.as_ref(), dir).unwrap_err().kind(), ErrorKind::Corrupt);
        write_atomic(disk.as_ref(), &path(dir, 3), KEYS_MAGIC, &[0; RECORD_BYTES + 1]).unwrap();
        assert_eq!(KeyFiles::load(disk.as_ref(), dir).unwrap_err().kind(), ErrorKind::Corrupt);
        disk.remove(&path(dir, 2)).unwrap();
        assert!(KeyFiles::load(disk.as_ref(), dir).unwrap_err().message().contains("keys-00000002 is missing"));
    }

    /// The golden file never changes: it is what this version writes, and every later one reads.
    #[test]
    fn the_golden_file_is_read_and_is_what_is_written() {
        const GOLDEN: &[u8] = include_bytes!("../tests/golden/keys-01/keys-00000001");
        let record = |key, version, commit_micros, rows| KeyRecord {
            key: BatchKey(key),
            version: Version(version),
            commit_micros,
            rows,
        };
        let records = [
            record(1, 2, -4, 0),
            record(0x0123_4567_89ab_cdef_fedc_ba98_7654_3210, 3, 1_767_225_600_000_000, 5),
            record(u128::MAX, (1 << 40) + 7, 1_767_225_600_000_001, 1 << 33),
        ];
        let (disk, dir) = (FaultDisk::new(), Path::new("/db"));
        disk.create_dir_all(dir).unwrap();
        disk.create(&path(dir, 1)).unwrap().write_all_at(GOLDEN, 0).unwrap();
        assert_eq!(KeyFiles::load(disk.as_ref(), dir).unwrap().1, records);

        disk.remove(&path(dir, 1)).unwrap();
        let (mut files, _) = KeyFiles::load(disk.as_ref(), dir).unwrap();
        files.add(disk.as_ref(), &records, i64::MIN).unwrap();
        let file = disk.open(&path(dir, 1)).unwrap();
        let mut written = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut written, 0).unwrap();
        assert_eq!(written, GOLDEN);
    }

    #[test]
    fn files_are_known_by_their_whole_names() {
        assert_eq!(KeyFiles::number_of_file("keys-00000001"), Some(1));
        assert_eq!(KeyFiles::number_of_file("keys-123456789"), Some(123_456_789));
        for other in
            ["keys-", "keys-1", "keys-+0000001", "keys-000000001", "keys-00000001.tmp", "keys-0000000a", "keys"]
        {
            assert_eq!(KeyFiles::number_of_file(other), None, "{other}");
        }
        // One of somebody else's is neither read nor taken for a gap.
        let (disk, dir) = (FaultDisk::new(), Path::new("/db"));
        disk.create_dir_all(dir).unwrap();
        disk.create(&dir.join("keys-7")).unwrap();
        let (mut files, none) = KeyFiles::load(disk.as_ref(), dir).unwrap();
        assert!(none.is_empty());
        files.add(disk.as_ref(), &[record(1)], 0).unwrap();
        assert_eq!(KeyFiles::load(disk.as_ref(), dir).unwrap().1, [record(1)]);
    }

    #[test]
    fn a_key_is_of_its_table() {
        assert_eq!(BatchKey::new(TableId(7), "a"), BatchKey::new(TableId(7), "a"));
        assert_ne!(BatchKey::new(TableId(7), "a"), BatchKey::new(TableId(8), "a"));
        // It is kept for seven days: what it comes to never changes.
        assert_eq!(BatchKey::new(TableId(7), "a"), BatchKey(0xace6_e902_1b03_c44e_92a0_3a28_ee4e_2db6));
    }
}
