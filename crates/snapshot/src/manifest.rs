//! The manifest: which files make the database, replaced atomically.
//!
//! Invariants:
//! - The file `manifest` is written only after every file it names, and their directories, are synced.
//! - Everything through [`Manifest::through`] is in the segments, definitions and producers it names; the rest is in the log.
//! - Partitions of a table cover the key space without overlap; a merged segment's keys lie in its partition.
//! - Only `pipeline` writes it.

use crate::closed::{ClosedTable, Held};
use crate::forgotten::Forgotten;
use crate::key_files::KeysFile;
use crate::kills::KillsFile;
use alluvia_catalog::{Catalog, DictionaryMark};
use alluvia_space::KeyRange;
use alluvia_storage::{Disk, NotReplaced, read_atomic_of, write_atomic};
use alluvia_tree::{Segment, SegmentMeta};
use alluvia_types::{Error, ErrorKind, Result, SegmentId, TableId, Version};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Magic of the manifest file; the last two bytes are the format version.
pub const MANIFEST_MAGIC: &[u8; 8] = b"ALVMAN08";
/// Versions that are read, too: 01 knows no ladders, 02 counts their rungs by eighths, neither knows rights, and segments of the first
/// three have their rows in key order: who writes these would take banded blocks for ordered ones. Who writes 04 knows no primary
/// keys, and would take dead rows for live ones. Who writes 05 knows no columns of the types UUID, JSON, JSONB, TIME, INTERVAL, NUMERIC
/// and CHAR(n). Who writes 06 does not name the files of idempotency keys, and would miss none of those that 07 has. Who writes 07 does not
/// keep the log for tables that are closed.
const MANIFEST_MAGICS_OLDER: [[u8; 8]; 7] =
    [*b"ALVMAN01", *b"ALVMAN02", *b"ALVMAN03", *b"ALVMAN04", *b"ALVMAN05", *b"ALVMAN06", *b"ALVMAN07"];
/// Name of the manifest in the data directory.
pub const MANIFEST_NAME: &str = "manifest";

/// What the manifest file holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// Random, one per database; salts the log, so that frames of another database are never taken for ours.
    pub database: u64,
    /// Everything through this version is below; the log holds the rest.
    pub through: Version,
    /// Ids below this have been used.
    pub next_segment: u64,
    /// Ids below this have been used.
    pub next_table: u32,
    /// Numbers of files of kills below this have been used.
    #[serde(default)]
    pub next_kills: u64,
    /// The files of idempotency keys of batches through `through`, oldest first. A manifest before version 07 names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<Vec<KeysFile>>,
    /// Whether the log had its mark when this was written: then it is missed where it is not there.
    #[serde(default, skip_serializing_if = "is_false")]
    pub marked: bool,
    /// From where on the log is kept, because tables that are closed have changes there that no file of theirs has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// The definitions as of `through`.
    pub catalog: Catalog,
    /// Producers as of `through`.
    pub producers: BTreeMap<String, ProducerState>,
    /// Every table's files.
    pub tables: BTreeMap<TableId, TableFiles>,
}

/// The last batch of a producer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProducerState {
    /// Its current epoch.
    pub epoch: u64,
    /// The last sequence number accepted in it.
    pub sequence: u64,
    /// The version that batch got.
    pub version: Version,
}

/// One table's files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TableFiles {
    /// How much of the dictionary file the segments need.
    pub dictionary: Option<DictionaryMark>,
    /// The key ranges, fixed when the first segment was written.
    pub ranges: Option<Vec<KeyRange>>,
    /// Which rows of the segments are dead, oldest first: every kill through the manifest's version of a row that a segment has
    /// is in one of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kills: Vec<KillsFile>,
    /// Rows that sorts and merges have left out because they were dead.
    #[serde(default, skip_serializing_if = "is_none")]
    pub dropped: u64,
    /// Segments that were lost, and forgotten with their rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forgotten: Vec<Forgotten>,
    /// The version through which these files have everything of the table, if that is not the manifest's: what came since is in the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Version>,
    /// Sorted segments, each over the whole key space, oldest first.
    pub sorted: Vec<SegmentMeta>,
    /// Merged segments over the whole key space: too few rows yet to be worth spreading over the partitions.
    pub buffer: Vec<SegmentMeta>,
    /// Merged segments by partition, in key order.
    pub partitions: Vec<PartitionFiles>,
}

/// One partition's merged segments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartitionFiles {
    /// First key, in hexadecimal.
    #[serde(with = "hex_key")]
    pub low: u128,
    /// Last key, in hexadecimal.
    #[serde(with = "hex_key")]
    pub high: u128,
    /// Its segments.
    pub segments: Vec<SegmentMeta>,
}

/// The manifest with its segments open.
#[derive(Clone, Debug, Default)]
pub struct Base {
    /// As [`Manifest::through`]: the database-wide sorted watermark. Of a database that begins to catch up with what a table was closed
    /// for, lower: where the log is read from ([`Held::after`]).
    pub through: Version,
    /// Everything through this version is in the files of all tables but those that have a version of their own (`held`).
    pub complete: Version,
    /// As [`Manifest::held`], if a table is closed.
    pub held: Option<Arc<Held>>,
    /// Tables that have files.
    pub tables: BTreeMap<TableId, TableBase>,
    /// Tables that are neither read nor written. Among `tables` is what was sorted of them since.
    pub closed: BTreeMap<TableId, ClosedTable>,
}

/// One table's open segments.
#[derive(Clone, Debug, Default)]
pub struct TableBase {
    /// As [`TableFiles::dictionary`].
    pub dictionary: Option<DictionaryMark>,
    /// As [`TableFiles::ranges`].
    pub ranges: Option<Vec<KeyRange>>,
    /// As [`TableFiles::kills`].
    pub kills: Vec<KillsFile>,
    /// As [`TableFiles::dropped`].
    pub dropped: u64,
    /// As [`TableFiles::forgotten`].
    pub forgotten: Vec<Forgotten>,
    /// As [`TableFiles::held`], until the next sort.
    pub held: Option<Version>,
    /// As [`TableFiles::sorted`].
    pub sorted: Vec<Arc<Segment>>,
    /// As [`TableFiles::buffer`].
    pub buffer: Vec<Arc<Segment>>,
    /// As [`TableFiles::partitions`].
    pub partitions: Vec<Partition>,
}

/// The rows whose curve key lies in `low..=high`: the unit of merging.
#[derive(Clone, Debug)]
pub struct Partition {
    /// First key.
    pub low: u128,
    /// Last key.
    pub high: u128,
    /// Merged segments, largest first.
    pub segments: Vec<Arc<Segment>>,
}

impl Manifest {
    /// Reads the manifest of a data directory; `None` if there is none.
    pub fn load(disk: &dyn Disk, dir: &Path) -> Result<Option<Manifest>> {
        let path = dir.join(MANIFEST_NAME);
        if !disk.exists(&path) {
            return Ok(None);
        }
        let bytes = read_atomic_of(disk, &path, MANIFEST_MAGIC, &MANIFEST_MAGICS_OLDER)?;
        let manifest = serde_json::from_slice(&bytes).map_err(|error| {
            Error::new(
                ErrorKind::Corrupt,
                format!("{} does not parse although its checksum holds: {error}", path.display()),
            )
            .with_hint("it was written by another build of Alluvia; open it with that one")
        })?;
        Ok(Some(manifest))
    }

    /// Replaces the manifest of a data directory.
    pub fn store(&self, disk: &dyn Disk, dir: &Path) -> Result<(), NotReplaced> {
        let bytes = serde_json::to_vec(self)
            .map_err(|error| NotReplaced { error: Error::internal(format!("manifest: {error}")), is_kept: true })?;
        write_atomic(disk, &dir.join(MANIFEST_NAME), MANIFEST_MAGIC, &bytes)
    }

    /// Every segment it names.
    pub fn segments(&self) -> impl Iterator<Item = &SegmentMeta> {
        self.tables.values().flat_map(TableFiles::segments)
    }
}

impl TableFiles {
    /// Every segment it names.
    pub fn segments(&self) -> impl Iterator<Item = &SegmentMeta> {
        let partitions = self.partitions.iter().flat_map(|partition| &partition.segments);
        self.sorted.iter().chain(&self.buffer).chain(partitions)
    }

    /// The same, to be changed.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut SegmentMeta> {
        let partitions = self.partitions.iter_mut().flat_map(|partition| &mut partition.segments);
        self.sorted.iter_mut().chain(&mut self.buffer).chain(partitions)
    }

    /// Rows that are not there any more: left out because they were dead, or lost.
    pub fn gone(&self) -> u64 {
        self.dropped + self.forgotten.iter().map(|lost| lost.rows).sum::<u64>()
    }
}

impl TableBase {
    /// Merged segments: of the buffer and of all partitions.
    pub fn merged(&self) -> impl Iterator<Item = &Arc<Segment>> {
        self.buffer.iter().chain(self.partitions.iter().flat_map(|partition| &partition.segments))
    }

    /// All segments, to be changed.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Arc<Segment>> {
        let partitions = self.partitions.iter_mut().flat_map(|partition| &mut partition.segments);
        self.sorted.iter_mut().chain(&mut self.buffer).chain(partitions)
    }

    /// Takes a segment out.
    pub fn take(&mut self, id: SegmentId) -> Option<Arc<Segment>> {
        let partitions = self.partitions.iter_mut().map(|partition| &mut partition.segments);
        let mut lists = [&mut self.sorted, &mut self.buffer].into_iter().chain(partitions);
        lists.find_map(|list| Some(list.remove(list.iter().position(|segment| segment.meta().id == id)?)))
    }

    /// How many rows each segment has.
    pub fn rows_by_segment(&self) -> BTreeMap<SegmentId, u64> {
        self.sorted.iter().chain(self.merged()).map(|segment| (segment.meta().id, segment.meta().rows)).collect()
    }

    /// Whether rows that were alive at some version are not there any more.
    pub fn has_lost(&self) -> bool {
        self.dropped > 0 || !self.forgotten.is_empty()
    }

    /// The version below which every row of this table that is in a segment is merged.
    pub fn merged_through(&self, sorted_through: Version) -> Version {
        let oldest = self.sorted.iter().map(|segment| segment.meta().min_version).min();
        oldest.map_or(sorted_through, |version| Version(version.0.saturating_sub(1)).min(sorted_through))
    }

    /// What the manifest file says of this table.
    pub fn files(&self) -> TableFiles {
        let metas = |segments: &[Arc<Segment>]| segments.iter().map(|segment| segment.meta().clone()).collect();
        let files = |partition: &Partition| PartitionFiles {
            low: partition.low,
            high: partition.high,
            segments: metas(&partition.segments),
        };
        TableFiles {
            dictionary: self.dictionary.clone(),
            ranges: self.ranges.clone(),
            kills: self.kills.clone(),
            dropped: self.dropped,
            forgotten: self.forgotten.clone(),
            held: self.held,
            sorted: metas(&self.sorted),
            buffer: metas(&self.buffer),
            partitions: self.partitions.iter().map(files).collect(),
        }
    }
}

/// Whether what is not so is left out of the manifest.
#[allow(clippy::trivially_copy_pass_by_ref)] // as serde asks
fn is_false(is: &bool) -> bool {
    !*is
}

/// Whether a count is left out of the manifest.
fn is_none(count: &u64) -> bool {
    *count == 0
}

/// JSON has no 128-bit numbers.
mod hex_key {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(key: &u128, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{key:x}"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
        let text = String::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A range that is off by its last bit gives other keys and codes to values at the edges of its parts.
        #[test]
        fn key_ranges_come_back_bit_by_bit(bits in prop::collection::vec(any::<u64>(), 1..50)) {
            let cuts: Vec<f64> = bits.into_iter().map(f64::from_bits).filter(|cut| cut.is_finite()).collect();
            let written = TableFiles { ranges: Some(vec![KeyRange::Quantiles { cuts }]), ..TableFiles::default() };
            let read: TableFiles = serde_json::from_slice(&serde_json::to_vec(&written).unwrap()).unwrap();
            let bits_of = |files: &TableFiles| match files.ranges.as_deref() {
                Some([KeyRange::Quantiles { cuts }]) => cuts.iter().map(|cut| cut.to_bits()).collect::<Vec<u64>>(),
                _ => Vec::new(),
            };
            prop_assert_eq!(bits_of(&read), bits_of(&written));
        }
    }
}
