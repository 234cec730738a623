//! Idempotency keys of batches: what a client's key comes to, and what is remembered of it.

use alluvia_types::{TableId, Version};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_128;

/// How long a key is remembered after its batch was committed.
pub const KEYS_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
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

/// The bytes of records, one behind the other.
pub(crate) fn encode(records: &[KeyRecord]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(records.len() * RECORD_BYTES);
    for record in records {
        bytes.extend_from_slice(&record.key.0.to_le_bytes());
        bytes.extend_from_slice(&record.version.0.to_le_bytes());
        bytes.extend_from_slice(&record.commit_micros.to_le_bytes());
        bytes.extend_from_slice(&record.rows.to_le_bytes());
    }
    bytes
}

/// The records that these bytes are; `None` if there is half a record.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<KeyRecord>> {
    let (records, []) = bytes.as_chunks::<RECORD_BYTES>() else { return None };
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
    Some(records.iter().map(decode).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_of_its_table() {
        assert_eq!(BatchKey::new(TableId(7), "a"), BatchKey::new(TableId(7), "a"));
        assert_ne!(BatchKey::new(TableId(7), "a"), BatchKey::new(TableId(8), "a"));
        // It is kept for seven days: what it comes to never changes.
        assert_eq!(BatchKey::new(TableId(7), "a"), BatchKey(0xace6_e902_1b03_c44e_92a0_3a28_ee4e_2db6));
    }

    #[test]
    fn half_a_record_is_none() {
        let record = KeyRecord { key: BatchKey(7), version: Version(2), commit_micros: -4, rows: 9 };
        let mut bytes = encode(&[record, record]);
        assert_eq!(decode(&bytes), Some(vec![record, record]));
        bytes.pop();
        assert_eq!(decode(&bytes), None);
    }
}
