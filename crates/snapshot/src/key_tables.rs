//! The key indexes of tables, and the locks under which keys are looked up and changed.
//!
//! Invariants:
//! - Who changes rows of a table by their keys, or moves rows that a key index names, holds the table's lock. Locks of
//!   several tables are taken in the order of their ids, before the lock of the sequencer and that of the views.
//! - An index has what batches have done that have a version (K2), durable or not. It is made when a table is first
//!   changed by key, of what is there then: nobody else can change the table meanwhile, and what others have done before
//!   is visible, for it was done through the index or before the database was opened.
//! - Batches that a full disk takes back leave no trace in an index: all indexes are made anew ([`KeyTables::renew`]).

use alluvia_keys::{KeyIndex, Recent};
use alluvia_types::{TableId, Version};
use parking_lot::{ArcMutexGuard, Mutex, RawMutex};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is known of the keys of one table: nothing, until it is needed.
#[derive(Debug, Default)]
pub struct KeyTable {
    known: Option<KnownKeys>,
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

/// A table's keys, locked.
pub type KeyGuard = ArcMutexGuard<RawMutex, KeyTable>;

/// The key indexes of all tables.
#[derive(Debug, Default)]
pub struct KeyTables {
    tables: Mutex<HashMap<TableId, Arc<Mutex<KeyTable>>>>,
    generation: AtomicU64,
}

impl KeyTables {
    /// Locks tables, whose ids ascend.
    pub fn lock(&self, tables: &[TableId]) -> Vec<(TableId, KeyGuard)> {
        debug_assert!(tables.is_sorted(), "tables are locked in the order of their ids");
        let found: Vec<(TableId, Arc<Mutex<KeyTable>>)> = {
            let mut known = self.tables.lock();
            tables.iter().map(|&table| (table, Arc::clone(known.entry(table).or_default()))).collect()
        };
        found.into_iter().map(|(table, keys)| (table, keys.lock_arc())).collect()
    }

    /// How often indexes had to be made anew.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// From now on no index that was made before is used. Called under the lock of the sequencer.
    pub fn renew(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Forgets a table that is gone.
    pub fn forget(&self, table: TableId) {
        self.tables.lock().remove(&table);
    }
}

impl KeyTable {
    /// The keys, if they are known and of this generation.
    pub fn of(&mut self, generation: u64) -> Option<&mut KnownKeys> {
        self.known.as_mut().filter(|known| known.generation == generation)
    }

    /// Whatever is known: for who moves rows.
    pub fn any(&mut self) -> Option<&mut KnownKeys> {
        self.known.as_mut()
    }

    /// Sets the index that was made in a generation, of everything through a version.
    pub fn set(&mut self, index: KeyIndex, generation: u64, through: Version) {
        self.known = Some(KnownKeys { generation, index, recent: Recent::new(through) });
    }
}
