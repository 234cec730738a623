//! The key indexes of tables, and the locks under which keys are looked up and changed.
//!
//! Invariants:
//! - Who changes rows of a table by their keys, or moves rows that a key index names, holds the table's lock. Locks of
//!   several tables are taken in the order of their ids, before the lock of the sequencer and that of the views.
//! - An index has what batches have done that have a version (K2), durable or not. It is made when rows of a table are first
//!   changed or looked up by key, of what is there then: nobody else can change the table meanwhile, and what others have
//!   done before is visible, for it was done through the index or before the database was opened.
//! - For that reason an index is never made anew as long as batches have versions that are not visible: where a segment is gone with its
//!   rows, its keys are taken out ([`KeyIndex::forget_segment`]), and what such batches have done stays.
//! - What indexes hold is bounded: past the bound no batch gets a version that brings keys which are not there. It is measured now and then, so
//!   what comes in between may be above it.
//! - Batches that a full disk takes back leave no trace in an index: all indexes are made anew ([`KeyTables::renew`]). When
//!   keys were written last is known as before.

use alluvia_keys::{KeyIndex, Recent};
use alluvia_types::{TableId, Version};
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a measurement waits for a table's lock.
const MEASURE_PATIENCE: Duration = Duration::from_millis(5);

/// What is known of the keys of one table: nothing, until it is needed.
#[derive(Debug, Default)]
pub struct KeyTable {
    known: Option<KnownKeys>,
    measured: Measured,
}

/// What a table's keys were seen to hold: looking costs a step for each page of the index.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    keys: usize,
    index_bytes: u64,
    bytes: u64,
}

/// The keys of one table.
#[derive(Debug)]
pub struct KnownKeys {
    /// As of [`KeyTables::generation`].
    generation: u64,
    /// Where each key's row is.
    pub index: KeyIndex,
    /// When keys were written last.
    pub recent: Recent,
}

/// The locks of some tables, in the order of their ids.
#[derive(Debug)]
pub struct KeyLocks(Vec<(TableId, Arc<Mutex<KeyTable>>)>);

/// A table's keys, locked.
pub type KeyGuard<'a> = (TableId, MutexGuard<'a, KeyTable>);

/// The key indexes of all tables.
#[derive(Debug)]
pub struct KeyTables {
    tables: Mutex<HashMap<TableId, Arc<Mutex<KeyTable>>>>,
    /// The version that the database was opened with, before the log: which keys were written by then is not known.
    opened: Version,
    /// The versions through which batches were kept, each time that others were taken back.
    kept: Mutex<Vec<Version>>,
    generation: AtomicU64,
    /// What all of them were seen to hold.
    bytes: AtomicU64,
    /// The indexes of that; the last writes of keys go by themselves.
    index_bytes: AtomicU64,
    index_bytes_max: AtomicU64,
    /// By table.
    by_table: Mutex<HashMap<TableId, Measured>>,
}

impl KeyTables {
    /// Of a database that was opened with everything through a version.
    pub(crate) fn new(opened: Version) -> KeyTables {
        KeyTables {
            tables: Mutex::default(),
            opened,
            kept: Mutex::default(),
            generation: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            index_bytes: AtomicU64::new(0),
            index_bytes_max: AtomicU64::new(u64::MAX),
            by_table: Mutex::default(),
        }
    }

    /// Says what the indexes of all tables may hold of memory; before that nothing bounds them.
    pub fn set_index_bytes_max(&self, bytes: u64) {
        self.index_bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// What the indexes of all tables may hold of memory.
    pub fn index_bytes_max(&self) -> u64 {
        self.index_bytes_max.load(Ordering::Relaxed)
    }

    /// What they held when they were last measured.
    pub fn index_bytes(&self) -> u64 {
        self.index_bytes.load(Ordering::Relaxed)
    }

    /// Looks what the keys of all tables hold. Of one that is locked for long it is what was seen before.
    pub fn measure(&self) -> u64 {
        let tables: Vec<(TableId, Arc<Mutex<KeyTable>>)> =
            self.tables.lock().iter().map(|(&table, keys)| (table, Arc::clone(keys))).collect();
        let mut by_table = self.by_table.lock();
        by_table.retain(|table, _| tables.iter().any(|(known, _)| known == table));
        for (table, keys) in tables {
            if let Some(mut keys) = keys.try_lock_for(MEASURE_PATIENCE) {
                by_table.insert(table, keys.measure());
            }
        }
        let bytes = by_table.values().map(|measured| measured.bytes).sum();
        self.bytes.store(bytes, Ordering::Relaxed);
        self.index_bytes.store(by_table.values().map(|measured| measured.index_bytes).sum(), Ordering::Relaxed);
        bytes
    }

    /// What they held when they were last measured.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The locks of tables, whose ids ascend.
    pub fn locks(&self, tables: &[TableId]) -> KeyLocks {
        debug_assert!(tables.is_sorted(), "tables are locked in the order of their ids");
        let mut known = self.tables.lock();
        let lock = |&table: &TableId| (table, Arc::clone(known.entry(table).or_default()));
        KeyLocks(tables.iter().map(lock).collect())
    }

    /// The version that the database was opened with: of older ones no index knows what was written after them.
    pub(crate) fn opened(&self) -> Version {
        self.opened
    }

    /// How often indexes had to be made anew.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Batches of versions above one were taken back: from now on no index that was made before is used. Called under the
    /// lock of the sequencer.
    pub fn renew(&self, kept: Version) {
        self.kept.lock().push(kept);
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Sets the index of a table, which is locked, that was made in a generation: the newest, as of when it was locked, or a
    /// later one.
    pub fn set(&self, table: &mut KeyTable, index: KeyIndex, generation: u64) {
        let recent = match table.known.take() {
            // Nobody has written a key of it by then.
            None => Recent::new(self.opened),
            Some(KnownKeys { generation: made_in, mut recent, .. }) => {
                let kept = self.kept.lock();
                kept[made_in as usize..generation as usize].iter().for_each(|kept| recent.take_back(*kept));
                recent
            }
        };
        table.known = Some(KnownKeys { generation, index, recent });
    }

    /// Forgets a table that is gone.
    pub fn forget(&self, table: TableId) {
        self.tables.lock().remove(&table);
    }
}

impl KeyLocks {
    /// Locks them all.
    pub fn lock(&self) -> Vec<KeyGuard<'_>> {
        self.0.iter().map(|(table, keys)| (*table, keys.lock())).collect()
    }

    /// Locks them all, if each is free within this time.
    pub(crate) fn lock_within(&self, patience: Duration) -> Option<Vec<KeyGuard<'_>>> {
        self.0.iter().map(|(table, keys)| Some((*table, keys.try_lock_for(patience)?))).collect()
    }
}

impl KeyTable {
    /// What the keys hold. The index is looked at where it has a hundredth more or less keys than when that was done last.
    fn measure(&mut self) -> Measured {
        let Some(KnownKeys { index, recent, .. }) = &self.known else {
            self.measured = Measured::default();
            return self.measured;
        };
        let measured = &mut self.measured;
        if measured.bytes == 0 || index.len().abs_diff(measured.keys) > measured.keys / 100 {
            (measured.keys, measured.index_bytes) = (index.len(), index.bytes() as u64);
        }
        measured.bytes = measured.index_bytes + recent.bytes() as u64;
        *measured
    }

    /// The keys, if they are known and of this generation.
    pub fn of(&mut self, generation: u64) -> Option<&mut KnownKeys> {
        self.known.as_mut().filter(|known| known.generation == generation)
    }

    /// Whatever is known: for who moves rows.
    pub fn any(&mut self) -> Option<&mut KnownKeys> {
        self.known.as_mut()
    }
}
