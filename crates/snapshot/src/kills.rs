//! Files of kills: which rows of a table's segments are dead, and since which version.
//!
//! Invariants:
//! - A file is written once, under a number that no file of the database had, and is durable, with its name, before a
//!   manifest names it. It never changes.
//! - The manifest has its length and checksums, and each section has its own: damage is refused, and the section named.
//! - Without it dead rows would live again: it is as vital as a segment.
//!
//! A file is a header and a section for each segment. What the manifest's version says of them is for the reader: here a
//! row is a number, and a kill of a row that the segment does not have, or that is dead already, is read as it was written.
//! The bytes are in docs/FORMAT.md.

use alluvia_storage::{Cache, CheckedFile, CheckedWriter, Disk, FileChecks};
use alluvia_types::{Error, ErrorKind, Result, SegmentId, TableId, Version};
use crc32c::crc32c;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// First bytes of a file of kills.
pub const KILLS_MAGIC: &[u8; 8] = b"ALVKIL01";
const HEADER_BYTES: usize = 28;
/// What lies before a section's body.
const SECTION_BYTES: usize = 16;
const CRC_BYTES: usize = 4;
/// Longest varint of 64 bits.
const VARINT_BYTES_MAX: usize = 10;

/// A file of kills, as the manifest names it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KillsFile {
    /// Its number, database-wide.
    pub number: u64,
    /// Its length and checksums.
    pub checks: FileChecks,
}

/// Rows of one segment and the versions that killed them.
pub type SegmentKills = (SegmentId, Vec<(u64, Version)>);

/// Where the file with this number of a table is.
pub fn path(dir: &Path, table: TableId, number: u64) -> PathBuf {
    dir.join(name(table, number))
}

fn name(table: TableId, number: u64) -> String {
    format!("kills-{table}-{number}")
}

/// Table and number of the file of this name, if it is one of kills.
pub fn table_of_file(file: &str) -> Option<(TableId, u64)> {
    let (table, number) = file.strip_prefix("kills-")?.split_once('-')?;
    let (table, number) = (TableId(table.parse().ok()?), number.parse().ok()?);
    (name(table, number) == file).then_some((table, number))
}

/// Writes a file, durable with its name when this returns. Rows of a segment ascend.
///
/// After an error nothing is there, or something that nobody has named.
pub fn write(disk: &dyn Disk, dir: &Path, table: TableId, number: u64, kills: &[SegmentKills]) -> Result<FileChecks> {
    let path = path(dir, table, number);
    let written = write_file(disk, &path, table, number, kills).and_then(|checks| {
        disk.sync_dir(dir).map_err(|error| Error::io(dir, "syncing", &error))?;
        Ok(checks)
    });
    if written.is_err() {
        // It may hold the very bytes that a full disk lacks. What cannot go now does when the database is next opened.
        let _ = disk.remove(&path);
    }
    written
}

fn write_file(disk: &dyn Disk, path: &Path, table: TableId, number: u64, kills: &[SegmentKills]) -> Result<FileChecks> {
    let mut writer = CheckedWriter::create(disk, path)?;
    let mut add = |bytes: &[u8]| writer.write_all(bytes).map_err(|error| Error::io(path, "writing", &error));
    add(&header(table, number, kills.len() as u32))?;
    for (segment, rows) in kills {
        add(&section(*segment, rows))?;
    }
    writer.finish()
}

fn header(table: TableId, number: u64, sections: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    bytes.extend_from_slice(KILLS_MAGIC);
    bytes.extend_from_slice(&table.0.to_le_bytes());
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&sections.to_le_bytes());
    with_crc(bytes)
}

fn section(segment: SegmentId, rows: &[(u64, Version)]) -> Vec<u8> {
    assert!(rows.is_sorted_by(|a, b| a.0 < b.0), "rows of segment {segment} are killed once, and ascend");
    let mut body = Vec::with_capacity(8 + 3 * rows.len());
    let mut before = 0;
    for &(row, _) in rows {
        varint(&mut body, row - before);
        before = row;
    }
    let least = rows.iter().map(|&(_, version)| version.0).min().unwrap_or(0);
    body.extend_from_slice(&least.to_le_bytes());
    for &(_, version) in rows {
        varint(&mut body, version.0 - least);
    }
    let length = u32::try_from(body.len()).expect("a segment has fewer rows than fill 4 GiB");
    let mut bytes = Vec::with_capacity(SECTION_BYTES + body.len() + CRC_BYTES);
    bytes.extend_from_slice(&segment.0.to_le_bytes());
    bytes.extend_from_slice(&(rows.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.append(&mut body);
    with_crc(bytes)
}

fn with_crc(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

fn varint(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

/// Reads a file that the manifest names: each segment's rows, ascending, with the versions that killed them.
///
/// Errors: `Corrupt`, with the file, the section and an offset, where it is not what was written; `IncompatibleFormat`;
/// `Io`, also where it is not there.
pub fn read(disk: &dyn Disk, dir: &Path, table: TableId, file: &KillsFile) -> Result<Vec<SegmentKills>> {
    let path = path(dir, table, file.number);
    // Read once, at the start, and past the database's cache.
    let checked = CheckedFile::open(disk, &path, Arc::new(file.checks.clone()), Arc::new(Cache::new(0)))?;
    match checked.read(0..checked.len()) {
        Ok(bytes) => Reader { path: &path, bytes: &bytes, at: 0 }.file(table, file.number),
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            // The sections' own checksums say which one the damage is in.
            let bytes = unchecked(disk, &path)?;
            Reader { path: &path, bytes: &bytes, at: 0 }.file(table, file.number)?;
            Err(error)
        }
        Err(error) => Err(error),
    }
}

fn unchecked(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| Error::io(path, "reading", &error);
    let file = disk.open(path).map_err(failed)?;
    let mut bytes = vec![0; file.len().map_err(failed)? as usize];
    file.read_exact_at(&mut bytes, 0).map_err(failed)?;
    Ok(bytes)
}

/// A file's bytes, and how far they are read.
struct Reader<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn file(mut self, table: TableId, number: u64) -> Result<Vec<SegmentKills>> {
        let sections = self.header(table, number)?;
        let mut all = Vec::new();
        for _ in 0..sections {
            all.push(self.section()?);
        }
        if self.at < self.bytes.len() {
            return Err(self.corrupt("header", self.at, "the file goes on behind its last section"));
        }
        Ok(all)
    }

    /// Says how many sections there are.
    fn header(&mut self, table: TableId, number: u64) -> Result<u32> {
        let header = self.take("header", HEADER_BYTES)?;
        if header[..6] != KILLS_MAGIC[..6] {
            return Err(self.corrupt("header", 0, "it does not have the magic of a file of kills"));
        }
        self.check_crc("header", 0)?;
        if header[..8] != KILLS_MAGIC[..] {
            let version = header[6..8].escape_ascii();
            let message = format!("{} has format {version} of kills; this build reads 01", self.path.display());
            return Err(Error::new(ErrorKind::IncompatibleFormat, message)
                .with_hint("open it with the version of Alluvia that wrote it"));
        }
        let (found_table, found_number) = (TableId(u32_at(header, 8)), u64_at(header, 12));
        if (found_table, found_number) != (table, number) {
            let what = format!("it is of table {found_table} and has number {found_number}");
            return Err(self.corrupt("header", 8, &what));
        }
        Ok(u32_at(header, 20))
    }

    fn section(&mut self) -> Result<SegmentKills> {
        let start = self.at;
        let fixed = self.take("of a segment", SECTION_BYTES)?;
        let (segment, count, length) = (SegmentId(u64_at(fixed, 0)), u32_at(fixed, 8), u32_at(fixed, 12));
        let section = format!("segment {segment}");
        self.take(&section, length as usize)?;
        let end = self.at;
        self.take(&section, CRC_BYTES)?;
        self.check_crc(&section, start)?;
        let mut body = Reader { path: self.path, bytes: &self.bytes[..end], at: start + SECTION_BYTES };
        let kills = body.body(&section, count as usize)?;
        if body.at < end {
            return Err(self.corrupt(&section, body.at, "there is more than its kills"));
        }
        Ok((segment, kills))
    }

    fn body(&mut self, section: &str, count: usize) -> Result<Vec<(u64, Version)>> {
        // Each takes a byte at least: no count makes more room than there are bytes.
        let mut kills: Vec<(u64, Version)> = Vec::with_capacity(count.min(self.bytes.len() - self.at));
        for _ in 0..count {
            let at = self.at;
            let more = self.varint(section)?;
            let row = match kills.last() {
                None => Some(more),
                Some((before, _)) => before.checked_add(more).filter(|row| row > before),
            };
            let row = row.ok_or_else(|| self.corrupt(section, at, "its rows do not ascend"))?;
            kills.push((row, Version(0)));
        }
        let least = u64_at(self.take(section, 8)?, 0);
        for (_, version) in &mut kills {
            let at = self.at;
            let later = least.checked_add(self.varint(section)?);
            *version = Version(later.ok_or_else(|| self.corrupt(section, at, "a version is past all"))?);
        }
        Ok(kills)
    }

    fn varint(&mut self, section: &str) -> Result<u64> {
        let at = self.at;
        let mut value = 0;
        for (place, &byte) in self.bytes[at..].iter().take(VARINT_BYTES_MAX).enumerate() {
            let low = u64::from(byte & 0x7f);
            // The last byte has one bit of 64 left.
            if place == VARINT_BYTES_MAX - 1 && byte > 1 {
                break;
            }
            value |= low << (7 * place);
            if byte < 0x80 {
                self.at += place + 1;
                return Ok(value);
            }
        }
        Err(self.corrupt(section, at, "a number does not end"))
    }

    fn take(&mut self, section: &str, count: usize) -> Result<&'a [u8]> {
        let Some(taken) = self.bytes[self.at..].get(..count) else {
            return Err(self.corrupt(section, self.at, "it is cut short"));
        };
        self.at += count;
        Ok(taken)
    }

    /// Compares the checksum that was just read with the bytes from `start` to it.
    fn check_crc(&self, section: &str, start: usize) -> Result<()> {
        let (bytes, crc) = self.bytes[start..self.at].split_at(self.at - start - CRC_BYTES);
        if crc32c(bytes) == u32_at(crc, 0) {
            return Ok(());
        }
        Err(self.corrupt(section, start, "checksum mismatch"))
    }

    fn corrupt(&self, section: &str, at: usize, what: &str) -> Error {
        Error::new(ErrorKind::Corrupt, format!("{}, section {section}, byte {at}: {what}", self.path.display()))
            .with_hint("the file is damaged; run `alluvia check` and restore the data directory from a copy")
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_storage::{FaultDisk, Survival};
    use proptest::prelude::*;

    const TABLE: TableId = TableId(3);

    fn disk() -> Arc<FaultDisk> {
        let disk = FaultDisk::new();
        disk.create_dir_all(dir()).unwrap();
        disk
    }

    fn dir() -> &'static Path {
        Path::new("/db")
    }

    fn kills(segments: &[(u64, &[(u64, u64)])]) -> Vec<SegmentKills> {
        let rows = |rows: &[(u64, u64)]| rows.iter().map(|&(row, version)| (row, Version(version))).collect();
        segments.iter().map(|&(segment, of_segment)| (SegmentId(segment), rows(of_segment))).collect()
    }

    /// What the golden file has: rows and versions of one to ten bytes, a segment without kills, versions that fall.
    fn golden() -> Vec<SegmentKills> {
        kills(&[
            (5, &[(0, 12), (1, 9), (129, 10), (130, 1_000), (16_600, 9)]),
            (1 << 40, &[]),
            (7, &[(u64::MAX - 1, u64::MAX), (u64::MAX, 0)]),
        ])
    }

    proptest! {
        #[test]
        fn kills_come_back(
            segments in prop::collection::vec(
                (any::<u64>(), prop::collection::btree_map(prop_oneof![0u64..200, any::<u64>()], any::<u64>(), 0..50)),
                0..5,
            ),
            number in any::<u64>(),
        ) {
            let rows = |rows: std::collections::BTreeMap<u64, u64>| {
                rows.into_iter().map(|(row, version)| (row, Version(version))).collect()
            };
            let kills: Vec<SegmentKills> =
                segments.into_iter().map(|(segment, of_segment)| (SegmentId(segment), rows(of_segment))).collect();
            let disk = disk();
            let checks = write(disk.as_ref(), dir(), TABLE, number, &kills).unwrap();
            let disk = disk.after_power_loss(Survival::SyncedOnly);
            let file = KillsFile { number, checks };
            prop_assert_eq!(read(disk.as_ref(), dir(), TABLE, &file).unwrap(), kills);
        }

        /// A reader of arbitrary bytes neither panics nor makes room for what is not there.
        #[test]
        fn no_bytes_are_too_strange(body in prop::collection::vec(any::<u8>(), 0..60), count in any::<u32>()) {
            let mut bytes = header(TABLE, 1, 1);
            let mut section = 9u64.to_le_bytes().to_vec();
            section.extend_from_slice(&count.to_le_bytes());
            section.extend_from_slice(&(body.len() as u32).to_le_bytes());
            section.extend_from_slice(&body);
            bytes.extend(with_crc(section));
            match (Reader { path: Path::new("/kills"), bytes: &bytes, at: 0 }).file(TABLE, 1) {
                Ok(read) => prop_assert_eq!(read[0].1.len(), count as usize),
                Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Corrupt),
            }
        }
    }

    #[test]
    fn damage_is_refused_wherever_it_is() {
        let disk = disk();
        let checks = write(disk.as_ref(), dir(), TABLE, 7, &golden()).unwrap();
        let (len, file) = (checks.len, KillsFile { number: 7, checks });
        let path = path(dir(), TABLE, 7);
        let refused = |what: &str| {
            let error = read(disk.as_ref(), dir(), TABLE, &file).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
            assert!(error.message().starts_with("/db/kills-3-7, section "), "{what}: {error}");
            error.message().to_owned()
        };
        for at in 0..len {
            disk.corrupt(&path, at, 1 << (at % 8));
            let message = refused(&format!("byte {at}"));
            assert_eq!(message.contains("section header, byte"), at < HEADER_BYTES as u64, "byte {at}: {message}");
            disk.corrupt(&path, at, 1 << (at % 8));
        }
        disk.corrupt(&path, HEADER_BYTES as u64 + 20, 4);
        assert_eq!(refused("a row"), "/db/kills-3-7, section segment 5, byte 28: checksum mismatch");
        disk.corrupt(&path, HEADER_BYTES as u64 + 20, 4);
        assert_eq!(read(disk.as_ref(), dir(), TABLE, &file).unwrap(), golden());
    }

    #[test]
    fn a_file_of_another_place_or_time_is_refused() {
        let disk = disk();
        let one = write(disk.as_ref(), dir(), TABLE, 1, &golden()).unwrap();
        let other = write(disk.as_ref(), dir(), TABLE, 2, &golden()).unwrap();
        // The same length, and whole.
        disk.rename(&path(dir(), TABLE, 2), &path(dir(), TABLE, 1)).unwrap();
        let refuse = |checks| read(disk.as_ref(), dir(), TABLE, &KillsFile { number: 1, checks }).unwrap_err();
        let swapped = refuse(one);
        assert_eq!(swapped.kind(), ErrorKind::Corrupt);
        assert!(swapped.message().contains("has number 2"), "{swapped}");
        assert!(refuse(other).message().contains("has number 2"));
        let shorter = write(disk.as_ref(), dir(), TABLE, 3, &golden()[..1]).unwrap();
        assert_eq!(refuse(shorter).kind(), ErrorKind::Corrupt);
        let missing = KillsFile { number: 9, checks: FileChecks::default() };
        assert_eq!(read(disk.as_ref(), dir(), TABLE, &missing).unwrap_err().kind(), ErrorKind::Io);
    }

    #[test]
    fn sums_that_hold_do_not_make_nonsense_true() {
        let read = |bytes: &[u8]| Reader { path: Path::new("/kills"), bytes, at: 0 }.file(TABLE, 1).unwrap_err();
        let of_section = |body: &[u8], count: u32| {
            let mut section = 9u64.to_le_bytes().to_vec();
            section.extend_from_slice(&count.to_le_bytes());
            section.extend_from_slice(&(body.len() as u32).to_le_bytes());
            section.extend_from_slice(body);
            [header(TABLE, 1, 1), with_crc(section)].concat()
        };
        let message = |bytes: &[u8]| read(bytes).message().to_owned();
        let twice = of_section(&[5, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0], 2);
        assert_eq!(message(&twice), "/kills, section segment 9, byte 45: its rows do not ascend");
        let more = of_section(&[5, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0], 1);
        assert_eq!(message(&more), "/kills, section segment 9, byte 54: there is more than its kills");
        let past = of_section(&[5, 255, 255, 255, 255, 255, 255, 255, 255, 1], 1);
        assert_eq!(message(&past), "/kills, section segment 9, byte 53: a version is past all");
        let endless = of_section(&[255; 12], 1);
        assert_eq!(message(&endless), "/kills, section segment 9, byte 44: a number does not end");
        let behind = [header(TABLE, 1, 0), vec![0]].concat();
        assert_eq!(message(&behind), "/kills, section header, byte 28: the file goes on behind its last section");
        let mut newer = header(TABLE, 1, 0);
        newer[7] = b'2';
        newer.truncate(HEADER_BYTES - CRC_BYTES);
        assert_eq!(read(&with_crc(newer)).kind(), ErrorKind::IncompatibleFormat);
    }

    #[test]
    fn a_failed_write_leaves_nothing_behind() {
        for failing in [FaultDisk::fail_write, FaultDisk::fail_sync, FaultDisk::fail_sync_dir] {
            let disk = disk();
            failing(&disk, 1);
            assert!(write(disk.as_ref(), dir(), TABLE, 7, &golden()).is_err());
            assert!(!disk.exists(&path(dir(), TABLE, 7)));
        }
    }

    /// The golden file never changes: it is what this version writes, and every later one reads. Another program made it,
    /// from docs/FORMAT.md.
    #[test]
    fn the_golden_file_is_read_and_is_what_is_written() {
        const GOLDEN: &[u8] = include_bytes!("../tests/golden/kills-01/kills-3-7");
        let disk = disk();
        let checks = write(disk.as_ref(), dir(), TABLE, 7, &golden()).unwrap();
        assert_eq!(unchecked(disk.as_ref(), &path(dir(), TABLE, 7)).unwrap(), GOLDEN);
        assert_eq!(checks, FileChecks { len: GOLDEN.len() as u64, chunk_crcs: vec![crc32c(GOLDEN)] });
        assert_eq!(read(disk.as_ref(), dir(), TABLE, &KillsFile { number: 7, checks }).unwrap(), golden());
    }

    #[test]
    fn files_are_known_by_their_whole_names() {
        assert_eq!(table_of_file("kills-3-7"), Some((TableId(3), 7)));
        assert_eq!(table_of_file(&name(TableId(u32::MAX), u64::MAX)), Some((TableId(u32::MAX), u64::MAX)));
        for other in
            ["kills-3", "kills-3-", "kills--7", "kills-03-7", "kills-3-+7", "kills-3-7.tmp", "kills-3-7-1", "keys-3-7"]
        {
            assert_eq!(table_of_file(other), None, "{other}");
        }
    }
}
