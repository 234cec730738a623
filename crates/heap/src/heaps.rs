//! The heaps of a database, and what memory they may take.

use crate::feed::FedBatch;
use crate::heap::Heap;
use alluvia_catalog::TableEntry;
use alluvia_types::{TableId, Version};
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A table takes at most this part of what all may.
const SHARE: usize = 2;

/// The heaps of a database.
#[derive(Debug, Default)]
pub struct Heaps {
    tables: RwLock<HashMap<TableId, Arc<Heap>>>,
    bytes_max: AtomicUsize,
}

impl Heaps {
    /// Sets what they may take together; 0, as at first, for none at all.
    pub fn set_bytes_max(&self, bytes: usize) {
        self.bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// What they may take together.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// What they take.
    pub fn bytes(&self) -> usize {
        self.tables.read().values().map(|heap| heap.bytes()).sum()
    }

    /// The heap of a table, if there is one, and it is of this definition.
    pub fn of(&self, entry: &TableEntry) -> Option<Arc<Heap>> {
        let heap = self.tables.read().get(&entry.def.id).cloned()?;
        (heap.entry().changed_at == entry.changed_at && !heap.is_given_up()).then_some(heap)
    }

    /// All, with whether each can be read.
    pub fn all(&self) -> Vec<Arc<Heap>> {
        self.tables.read().values().cloned().collect()
    }

    /// Begins one of a table, whose rows at a version are to be loaded; `None` where there is one, or it may not take so many bytes. Nothing
    /// may become visible meanwhile.
    pub fn begin(&self, entry: &Arc<TableEntry>, floor: Version, bytes: usize) -> Option<Arc<Heap>> {
        let most = self.bytes_max();
        let mut tables = self.tables.write();
        tables.retain(|_, heap| !heap.is_given_up());
        let taken: usize = tables.values().map(|heap| heap.bytes()).sum();
        let is_there = tables.get(&entry.def.id).is_some_and(|heap| heap.entry().changed_at == entry.changed_at);
        if is_there || bytes > most / SHARE || taken.saturating_add(bytes) > most {
            return None;
        }
        let heap = Arc::new(Heap::new(entry, floor)?);
        tables.insert(entry.def.id, Arc::clone(&heap));
        Some(heap)
    }

    /// Gives up those that take more than they may. To be asked now and then.
    pub fn keep_bounds(&self) {
        let most = self.bytes_max();
        let mut taken = self.bytes();
        for heap in self.all() {
            if taken > most || heap.bytes() > most / SHARE {
                taken = taken.saturating_sub(heap.bytes());
                self.give_up(heap.entry().def.id);
            }
        }
    }

    /// Gives up a table's.
    pub fn give_up(&self, table: TableId) {
        if let Some(heap) = self.tables.write().remove(&table) {
            heap.give_up();
        }
    }

    /// Gives up those of other definitions than these.
    pub fn keep(&self, current: impl Fn(TableId) -> Option<Version>) {
        let is_other = |heap: &Arc<Heap>| current(heap.entry().def.id) != Some(heap.entry().changed_at);
        let others: Vec<TableId> =
            self.all().iter().filter(|heap| is_other(heap)).map(|heap| heap.entry().def.id).collect();
        others.into_iter().for_each(|table| self.give_up(table));
    }

    /// Whether a table has one that is to be told of batches.
    pub fn is_fed(&self, table: TableId) -> bool {
        self.tables.read().contains_key(&table)
    }

    /// Tells a table's heap of a batch that becomes visible; `None` of one whose rows it cannot follow.
    pub fn feed(&self, table: TableId, batch: Option<FedBatch>) {
        let heap = self.tables.read().get(&table).cloned();
        match (heap, batch) {
            (None, _) => {}
            (Some(heap), Some(batch)) => {
                heap.feed(batch);
                if heap.is_given_up() {
                    self.give_up(table);
                }
            }
            (Some(_), None) => self.give_up(table),
        }
    }
}
