//! The heaps of a database, and what memory they may take.
//!
//! Invariants:
//! - Together they take no more than they may but for what came since a heap was fed, begun or loaded last; what a heap will take counts
//!   from when it begins.
//! - One that is removed is handed out, or held by who removes it: freeing its rows takes time, which nobody spends under a lock.

use crate::feed::FedBatch;
use crate::heap::Heap;
use alluvia_catalog::TableEntry;
use alluvia_types::{Clock, TableId, Version};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A table takes at most this part of what all may.
const SHARE: usize = 2;

/// A heap that nobody has asked for so long makes room for another.
const UNREAD_MAX: Duration = Duration::from_secs(60);

/// How long a table is not tried that could have no heap: loading rows in vain costs much, and every statement would.
const REFUSED_FOR: Duration = Duration::from_secs(60);

/// The heaps of a database.
#[derive(Debug)]
pub struct Heaps {
    clock: Arc<dyn Clock>,
    tables: RwLock<HashMap<TableId, Arc<Heap>>>,
    bytes_max: AtomicUsize,
    /// Tables that could have none, by their definitions of then, and until when they are not tried.
    refused: Mutex<HashMap<TableId, (Version, Duration)>>,
}

impl Heaps {
    /// None, and none may be made yet.
    pub fn new(clock: Arc<dyn Clock>) -> Heaps {
        let (tables, refused) = (RwLock::default(), Mutex::default());
        Heaps { clock, tables, bytes_max: AtomicUsize::new(0), refused }
    }

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
        bytes_of(self.tables.read().values())
    }

    /// Whether they take more than they may.
    pub fn is_over(&self) -> bool {
        self.bytes() > self.bytes_max()
    }

    /// The heap of a table, if there is one, and it is of this definition: it counts as asked for.
    pub fn of(&self, entry: &TableEntry) -> Option<Arc<Heap>> {
        let heap = self.tables.read().get(&entry.def.id).cloned()?;
        heap.ask_at(self.clock.monotonic());
        (heap.entry().changed_at == entry.changed_at && !heap.is_given_up()).then_some(heap)
    }

    /// All, also those that cannot be read yet.
    pub fn all(&self) -> Vec<Arc<Heap>> {
        self.tables.read().values().cloned().collect()
    }

    /// Begins one of a table, whose rows at a version are to be loaded, and which is foreseen to take so many bytes; `None` where there is
    /// one, or none may be made: then the table is refused. Others that nobody has asked for lately make room; they are added to `gone`.
    /// Nothing may become visible meanwhile.
    pub fn begin(
        &self,
        entry: &Arc<TableEntry>,
        floor: Version,
        foreseen: usize,
        gone: &mut Vec<Arc<Heap>>,
    ) -> Option<Arc<Heap>> {
        let now = self.clock.monotonic();
        let (most, share) = (self.bytes_max(), self.bytes_max() / SHARE);
        let mut tables = self.tables.write();
        gone.extend(tables.extract_if(|_, heap| heap.is_given_up()).map(|(_, heap)| heap));
        if tables.get(&entry.def.id).is_some_and(|heap| heap.entry().changed_at == entry.changed_at) {
            return None;
        }
        let heap = Heap::new(entry, floor, foreseen, share).filter(|_| foreseen <= share);
        let lacking = bytes_of(tables.values()).saturating_add(foreseen).saturating_sub(most);
        let (Some(heap), Some(unread)) = (heap, unread(tables.values(), lacking, now)) else {
            drop(tables);
            self.refuse(entry);
            return None;
        };
        gone.extend(unread.into_iter().filter_map(|table| tables.remove(&table)));
        let heap = Arc::new(heap);
        heap.ask_at(now);
        gone.extend(tables.insert(entry.def.id, Arc::clone(&heap)));
        gone.iter().for_each(|heap| heap.give_up());
        Some(heap)
    }

    /// A table is not tried for some time, as long as it has this definition.
    pub fn refuse(&self, entry: &TableEntry) {
        let until = self.clock.monotonic() + REFUSED_FOR;
        self.refused.lock().insert(entry.def.id, (entry.changed_at, until));
    }

    /// Whether a table is not to be tried now.
    pub fn is_refused(&self, entry: &TableEntry) -> bool {
        let refused = self.refused.lock().get(&entry.def.id).copied();
        refused.is_some_and(|(of, until)| of == entry.changed_at && self.clock.monotonic() < until)
    }

    /// Gives up those that take more than they may, first those that nobody has asked for longest; gives them.
    #[must_use = "they are freed where no lock is held"]
    pub fn keep_bounds(&self) -> Vec<Arc<Heap>> {
        let most = self.bytes_max();
        let mut all = self.all();
        all.sort_by_key(|heap| heap.asked_at());
        let mut taken = bytes_of(&all);
        all.retain(|heap| {
            let is_beyond = taken > most || heap.bytes() > most / SHARE;
            if is_beyond {
                taken = taken.saturating_sub(heap.bytes());
                self.end(heap);
            }
            is_beyond
        });
        all
    }

    /// Gives one up: it is nobody's any more but of who has it.
    pub fn end(&self, heap: &Arc<Heap>) {
        heap.give_up();
        let (mut tables, table) = (self.tables.write(), heap.entry().def.id);
        if tables.get(&table).is_some_and(|known| Arc::ptr_eq(known, heap)) {
            tables.remove(&table);
        }
    }

    /// Gives up those of other definitions than these; gives them.
    #[must_use = "they are freed where no lock is held"]
    pub fn keep(&self, current: impl Fn(TableId) -> Option<Version>) -> Vec<Arc<Heap>> {
        self.refused.lock().retain(|&table, (of, _)| current(table) == Some(*of));
        let mut others = self.all();
        others.retain(|heap| current(heap.entry().def.id) != Some(heap.entry().changed_at));
        others.iter().for_each(|heap| self.end(heap));
        others
    }

    /// Whether a table has one that is to be told of batches.
    pub fn is_fed(&self, table: TableId) -> bool {
        self.tables.read().contains_key(&table)
    }

    /// Tells a table's heap of a batch that becomes visible; `None` of one whose rows it cannot follow. Gives those that are given up.
    #[must_use = "they are freed where no lock is held"]
    pub fn feed(&self, table: TableId, batch: Option<FedBatch>) -> Vec<Arc<Heap>> {
        let Some(heap) = self.tables.read().get(&table).cloned() else { return Vec::new() };
        match batch {
            Some(batch) => heap.feed(batch),
            None => heap.give_up(),
        }
        if heap.is_given_up() {
            self.end(&heap);
            return vec![heap];
        }
        if self.is_over() { self.keep_bounds() } else { Vec::new() }
    }
}

fn bytes_of<'a>(heaps: impl IntoIterator<Item = &'a Arc<Heap>>) -> usize {
    heaps.into_iter().fold(0, |bytes, heap| bytes.saturating_add(heap.bytes()))
}

/// Tables whose heaps take so many bytes together, and nobody has asked for them lately: first those of longest ago. `None` if these are too
/// few.
fn unread<'a>(heaps: impl Iterator<Item = &'a Arc<Heap>>, bytes: usize, now: Duration) -> Option<Vec<TableId>> {
    let is_unread = |heap: &&Arc<Heap>| heap.is_loaded() && now.saturating_sub(heap.asked_at()) >= UNREAD_MAX;
    let mut unread: Vec<&Arc<Heap>> = heaps.filter(is_unread).collect();
    unread.sort_by_key(|heap| heap.asked_at());
    let (mut freed, mut tables) = (0usize, Vec::new());
    for heap in unread {
        if freed >= bytes {
            break;
        }
        freed = freed.saturating_add(heap.bytes());
        tables.push(heap.entry().def.id);
    }
    (freed >= bytes).then_some(tables)
}
