//! Bare idempotency keys: which were used lately, and by which batch.
//!
//! Invariants:
//! - A key is remembered for [`KEYS_KEPT`] after its batch's commit time, across restarts; then it may be used again.
//! - Memory is bounded: past [`KEYS_MAX`] keys within that time a batch with a key is refused, and none is forgotten early.
//! - Commit times do not decrease, so the order of versions is the order of age.
//!
//! The keys of batches that left the log are in files that `pipeline` writes (docs/FORMAT.md, "Keys"); those of the others are in the
//! log with their batches. A producer's number needs no time and no bound: it is the better way for who can number.

use alluvia_snapshot::{BatchKey, KEYS_KEPT, KeyRecord};
use alluvia_types::{Error, ErrorKind, Result, Version};
use std::collections::{HashMap, VecDeque};

/// Keys that are remembered at once; about 100 bytes each.
const KEYS_MAX: usize = 1 << 21;

/// The keys that are remembered.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    known: HashMap<BatchKey, KeyRecord>,
    /// Oldest first.
    by_age: VecDeque<(i64, BatchKey)>,
}

fn is_over(commit_micros: i64, now_micros: i64) -> bool {
    now_micros.saturating_sub(commit_micros) > KEYS_KEPT.as_micros() as i64
}

impl Keys {
    /// The batch that used a key.
    pub(crate) fn get(&self, key: BatchKey, now_micros: i64) -> Option<KeyRecord> {
        self.known.get(&key).copied().filter(|record| !is_over(record.commit_micros, now_micros))
    }

    /// Makes room for one more, or refuses it.
    pub(crate) fn make_room(&mut self, now_micros: i64) -> Result<()> {
        while let Some((commit_micros, key)) = self.by_age.front().copied()
            && is_over(commit_micros, now_micros)
        {
            self.by_age.pop_front();
            // It may have been used again since.
            if self.known.get(&key).is_some_and(|record| record.commit_micros == commit_micros) {
                self.known.remove(&key);
            }
        }
        if self.by_age.len() < KEYS_MAX {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Busy,
            format!("{KEYS_MAX} idempotency keys were used within the last 7 days, and no more are kept"),
        )
        .with_hint(
            "number batches by a producer instead (SET producer), which needs no key, or put more rows into a batch",
        ))
    }

    /// Remembers a key. Later ones have later versions; one that is known is passed over.
    pub(crate) fn insert(&mut self, record: KeyRecord) {
        if self.known.get(&record.key).is_some_and(|known| known.version == record.version) {
            return;
        }
        self.by_age.push_back((record.commit_micros, record.key));
        self.known.insert(record.key, record);
    }

    /// Forgets the keys of versions above one: their batches were dropped.
    pub(crate) fn forget_above(&mut self, version: Version) {
        while let Some((_, key)) = self.by_age.back().copied()
            && self.known.get(&key).is_none_or(|record| record.version > version)
        {
            self.by_age.pop_back();
            self.known.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_types::TableId;

    const DAY: i64 = 24 * 3600 * 1_000_000;

    fn record(name: &str, version: u64, commit_micros: i64) -> KeyRecord {
        KeyRecord { key: BatchKey::new(TableId(1), name), version: Version(version), commit_micros, rows: 5 }
    }

    #[test]
    fn keys_are_forgotten_after_seven_days_and_no_earlier() {
        let mut keys = Keys::default();
        keys.insert(record("a", 1, 0));
        keys.insert(record("b", 2, DAY));
        let a = record("a", 1, 0).key;
        assert_eq!(keys.get(a, 7 * DAY).map(|record| record.version), Some(Version(1)));
        assert_eq!(keys.get(a, 7 * DAY + 1), None);
        keys.make_room(7 * DAY + 1).unwrap();
        assert_eq!((keys.known.len(), keys.by_age.len()), (1, 1));
        // Used again after its time: the old use must not take the new one away.
        keys.insert(record("b", 3, 9 * DAY));
        keys.make_room(9 * DAY).unwrap();
        assert_eq!(keys.get(record("b", 0, 0).key, 9 * DAY).map(|record| record.version), Some(Version(3)));
    }

    #[test]
    fn dropped_batches_give_their_keys_back() {
        let mut keys = Keys::default();
        (1..=5).for_each(|version| keys.insert(record(&version.to_string(), version, version as i64)));
        keys.forget_above(Version(3));
        assert!(keys.get(record("3", 0, 0).key, 5).is_some() && keys.get(record("4", 0, 0).key, 5).is_none());
        assert_eq!(keys.by_age.len(), 3);
    }
}
