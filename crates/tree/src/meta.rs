//! Segment metadata: the description of a segment in the manifest.

use alluvia_storage::FileChecks;
use alluvia_types::{ColumnId, SegmentId, Stage, TableId, Version};
use serde::{Deserialize, Serialize};

/// All that is known of a segment without opening its files.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SegmentMeta {
    /// Database-wide, never reused; names the files.
    pub id: SegmentId,
    /// The table its rows belong to.
    pub table: TableId,
    /// How organised it is.
    pub stage: Stage,
    /// How many rows it has.
    pub rows: u64,
    /// The oldest row's version (0 while a staged segment's is unknown, and in a segment without rows).
    pub min_version: Version,
    /// The newest row's version.
    pub max_version: Version,
    /// The version of every row, when the file does not know it because it was staged before its batch was committed.
    pub fixed_version: Option<Version>,
    /// The first row's key.
    #[serde(with = "hex_key")]
    pub key_min: u128,
    /// The last row's key.
    #[serde(with = "hex_key")]
    pub key_max: u128,
    /// Length of the Parquet file; its checksums are in the side file.
    pub parquet_bytes: u64,
    /// Length and checksums of the side file.
    pub side: FileChecks,
    /// The columns that the files have, in file order. A column added to the table later is not among them.
    pub columns: Vec<ColumnId>,
    /// Its ladder, the thickest rung first; empty where the segment is too small for one, or older than ladders are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rungs: Vec<RungMeta>,
}

/// A thinner copy of a segment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "StoredRung", into = "StoredRung")]
pub struct RungMeta {
    /// Its rows' weights are below 2^64 / 2^this.
    pub rung: u32,
    /// The copy, a segment itself.
    pub segment: SegmentMeta,
}

/// As files have it: once rungs were counted by eighths, under a name of their own.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredRung {
    Halvings { halvings: u32, segment: SegmentMeta },
    Eighths { rung: u32, segment: SegmentMeta },
}

impl From<StoredRung> for RungMeta {
    fn from(stored: StoredRung) -> RungMeta {
        match stored {
            StoredRung::Halvings { halvings, segment } => RungMeta { rung: halvings, segment },
            // One that no build wrote is none that can be read.
            StoredRung::Eighths { rung, segment } => RungMeta { rung: rung.saturating_mul(3), segment },
        }
    }
}

impl From<RungMeta> for StoredRung {
    fn from(RungMeta { rung, segment }: RungMeta) -> StoredRung {
        StoredRung::Halvings { halvings: rung, segment }
    }
}

impl SegmentMeta {
    /// Bytes of all its files, those of its ladder included.
    pub fn bytes(&self) -> u64 {
        self.parquet_bytes + self.side.len + self.ladder_bytes()
    }

    /// Bytes of its ladder.
    pub fn ladder_bytes(&self) -> u64 {
        self.rungs.iter().map(|rung| rung.segment.bytes()).sum()
    }

    /// A staged segment whose batch has become this version. Rows that were copied with the versions that they have keep them.
    pub fn committed_as(mut self, version: Version) -> SegmentMeta {
        if self.fixed_version.is_none() {
            return self;
        }
        (self.min_version, self.max_version, self.fixed_version) = (version, version, Some(version));
        let committed = |rung: RungMeta| RungMeta { segment: rung.segment.committed_as(version), ..rung };
        self.rungs = std::mem::take(&mut self.rungs).into_iter().map(committed).collect();
        self
    }

    /// Itself and its rungs: everything that has files.
    pub fn with_rungs(&self) -> impl Iterator<Item = &SegmentMeta> {
        std::iter::once(self).chain(self.rungs.iter().map(|rung| &rung.segment))
    }
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
