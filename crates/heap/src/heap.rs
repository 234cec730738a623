//! One table's heap: rows, and the feed in front of them.
//!
//! Batches wait in the feed from when they are visible until somebody reads: who reads drains it first, for all who wait meanwhile
//! (BatchDB, section 5: queries come between batches of updates).
//!
//! Lock order: rows, then feed. Who feeds takes the feed's alone. A thread may have several views of one heap, and drains none meanwhile.

use crate::feed::FedBatch;
use crate::layout::{Layout, RowRef};
use crate::ordered::{KeyRange, Ordered};
use crate::rows::Rows;
use alluvia_catalog::TableEntry;
use alluvia_space::TableDef;
use alluvia_space::key_code::{KeyCode, KeyCoder};
use alluvia_types::{ColumnId, Result, Version};
use arrow::array::{ArrayRef, RecordBatch};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Keys that wait in a feed at most: a heap that nobody reads is given up.
const FED_KEYS_MAX: usize = 1 << 17;

/// The rows of a table in memory.
#[derive(Debug)]
pub struct Heap {
    entry: Arc<TableEntry>,
    layout: Layout,
    coder: KeyCoder,
    rows: RwLock<Rows>,
    feed: Mutex<Feed>,
    /// It has every row of its floor.
    is_loaded: AtomicBool,
    /// It is not followed any more.
    is_given_up: AtomicBool,
    /// What it will take, as was estimated before it was loaded.
    foreseen: usize,
    /// What it may take.
    bytes_max: usize,
    row_bytes: AtomicUsize,
    fed_bytes: AtomicUsize,
    /// When somebody asked for it last, in microseconds of the clock.
    asked_at: AtomicU64,
}

#[derive(Debug, Default)]
struct Feed {
    batches: Vec<FedBatch>,
    keys: usize,
    bytes: usize,
}

impl Heap {
    /// An empty one that will have the rows of a version, by a table's definition as of it. It is `foreseen` to take so many bytes, and is
    /// given up where it takes more than `bytes_max`. `None` of a table without a key, or with one that has no order of bytes.
    pub fn new(entry: &Arc<TableEntry>, floor: Version, foreseen: usize, bytes_max: usize) -> Option<Heap> {
        let def = &entry.def;
        let coder = KeyCoder::new(def)?;
        let mut columns = indexes_of(def).into_iter();
        // Without the key's there is no heap; of another that cannot be made nothing is lost.
        let mut indexes = vec![Ordered::new(def, &columns.next()?)?];
        indexes.extend(columns.filter_map(|columns| Ordered::new(def, &columns)));
        Some(Heap {
            entry: Arc::clone(entry),
            layout: Layout::new(def),
            coder,
            rows: RwLock::new(Rows::new(floor, indexes)),
            feed: Mutex::default(),
            is_loaded: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
            foreseen,
            bytes_max,
            row_bytes: AtomicUsize::new(0),
            fed_bytes: AtomicUsize::new(0),
            asked_at: AtomicU64::new(0),
        })
    }

    /// The table, by the definition that rows are laid out by.
    pub fn entry(&self) -> &Arc<TableEntry> {
        &self.entry
    }

    /// How rows are laid out.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What makes codes of keys.
    pub fn coder(&self) -> &KeyCoder {
        &self.coder
    }

    /// Estimated bytes in memory, with what waits in the feed; as long as it is not loaded, at least what it is foreseen to take.
    pub fn bytes(&self) -> usize {
        match self.is_loaded() {
            true => self.taken(),
            false => self.taken().max(self.foreseen),
        }
    }

    fn taken(&self) -> usize {
        self.row_bytes.load(Ordering::Relaxed).saturating_add(self.fed_bytes.load(Ordering::Relaxed))
    }

    /// The version of the last batch that was applied, how many keys there are, and how many wait in the feed.
    pub fn counts(&self) -> (Version, usize, usize) {
        let waiting = self.feed.lock().keys;
        let rows = self.rows.read();
        (rows.through, rows.len(), waiting)
    }

    /// Whether it can be read.
    pub fn is_ready(&self) -> bool {
        self.is_loaded() && !self.is_given_up()
    }

    /// Whether it has every row of its floor.
    pub fn is_loaded(&self) -> bool {
        self.is_loaded.load(Ordering::Acquire)
    }

    /// Whether it is not followed any more.
    pub fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire)
    }

    /// It is not followed any more: whoever has a view of it reads on, and nobody gets another.
    pub fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Release);
    }

    /// The same, with what it has: nobody can look at it any more.
    fn let_go(&self, mut rows: RwLockWriteGuard<'_, Rows>) {
        self.give_up();
        let through = rows.through;
        let gone = std::mem::replace(&mut *rows, Rows::new(through, Vec::new()));
        self.row_bytes.store(0, Ordering::Relaxed);
        // Whoever waits for the lock need not wait for this.
        drop(rows);
        drop(gone);
    }

    /// When somebody asked for it last.
    pub(crate) fn asked_at(&self) -> Duration {
        Duration::from_micros(self.asked_at.load(Ordering::Relaxed))
    }

    pub(crate) fn ask_at(&self, now: Duration) {
        self.asked_at.store(now.as_micros() as u64, Ordering::Relaxed);
    }

    /// Adds rows that were there at the floor; to be called before [`Heap::loaded`], each row once. Whether it takes no more than it may
    /// with them: if not, it is given up.
    ///
    /// # Errors
    /// Those of [`KeyCoder::codes`]; `Internal` where rows are not of the definition.
    pub fn load(&self, rows: &RecordBatch) -> Result<bool> {
        let codes = self.coder.codes(rows)?;
        let mut of = self.rows.write();
        of.load(&self.layout, rows, &codes)?;
        self.row_bytes.store(of.bytes, Ordering::Relaxed);
        let is_within = self.taken() <= self.bytes_max;
        if !is_within {
            self.let_go(of);
        }
        Ok(is_within)
    }

    /// Every row of the floor is there.
    pub fn loaded(&self) {
        self.is_loaded.store(true, Ordering::Release);
    }

    /// Adds a batch that has become visible, in the order of versions. Where more waits than may, it is given up.
    pub fn feed(&self, batch: FedBatch) {
        if self.is_given_up() {
            return;
        }
        let mut feed = self.feed.lock();
        feed.keys += batch.keys.len();
        feed.bytes = feed.bytes.saturating_add(batch.bytes).saturating_add(size_of_val(batch.keys.as_slice()));
        // What waits goes with the heap: whoever feeds must not take the time.
        feed.batches.push(batch);
        self.fed_bytes.store(feed.bytes, Ordering::Relaxed);
        if feed.keys > FED_KEYS_MAX || self.taken() > self.bytes_max {
            self.give_up();
        }
    }

    /// The rows, with what was followed before the call. Who has a view of them may ask for another.
    pub fn read_followed(&self) -> Option<HeapView<'_>> {
        // Whoever waits to drain the feed waits for the views that there are: behind it a second one of the same thread would wait for ever.
        let rows = self.rows.read_recursive();
        Some(HeapView { heap: self, rows }).filter(|_| self.is_ready())
    }

    /// Whether somebody has the rows to himself, or waits for that.
    #[cfg(test)]
    pub(crate) fn is_awaited(&self) -> bool {
        self.rows.try_read().is_none()
    }

    /// The rows, with all that was fed before the call; `oldest` is the least version that anybody has pinned. `None` where it cannot be
    /// followed, or takes more than it may by then: it is given up.
    pub fn read(&self, oldest: Version) -> Option<HeapView<'_>> {
        if !self.is_ready() {
            return None;
        }
        if self.feed.lock().batches.is_empty() {
            // Who drains has the rows until all of it is in them.
            let rows = self.rows.read();
            return Some(HeapView { heap: self, rows }).filter(|_| self.is_ready());
        }
        let mut rows = self.rows.write();
        if !self.is_ready() {
            return None;
        }
        let waiting = {
            let mut feed = self.feed.lock();
            self.fed_bytes.store(0, Ordering::Relaxed);
            std::mem::take(&mut *feed)
        };
        for batch in waiting.batches {
            let applied = rows.apply(&self.layout, &batch, oldest);
            debug_assert!(applied.is_ok(), "{applied:?}");
            self.row_bytes.store(rows.bytes, Ordering::Relaxed);
            if applied.is_err() || self.taken() > self.bytes_max {
                self.let_go(rows);
                return None;
            }
        }
        Some(HeapView { heap: self, rows: RwLockWriteGuard::downgrade(rows) })
    }
}

/// About what a row of a table takes in a heap.
pub fn bytes_about(def: &TableDef) -> usize {
    Layout::new(def).bytes_about()
}

/// The columns of the indexes of a table's heap, by their places in the definition: first those of the primary key, then those that the
/// definition names. Of a table without a key there are none.
pub fn indexes_of(def: &TableDef) -> Vec<Vec<usize>> {
    let Some(key) = def.key_columns() else { return Vec::new() };
    let place = |id: &ColumnId| def.columns.iter().position(|column| column.id == *id);
    let named = def.indexes.iter().filter_map(|index| index.columns.iter().map(place).collect());
    std::iter::once(key).chain(named).collect()
}

/// A heap that nobody changes as long as this lives.
#[derive(Debug)]
pub struct HeapView<'a> {
    heap: &'a Heap,
    rows: RwLockReadGuard<'a, Rows>,
}

impl HeapView<'_> {
    /// The heap.
    pub fn heap(&self) -> &Heap {
        self.heap
    }

    /// Whether rows can be read at a version.
    pub fn has(&self, version: Version) -> bool {
        version >= self.rows.floor
    }

    /// How many keys it knows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it knows none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The row that a key has at a version.
    pub fn by_code(&self, code: KeyCode, version: Version) -> Option<RowRef<'_>> {
        self.rows.by_code(code, version).map(|bytes| RowRef::new(&self.heap.layout, bytes))
    }

    /// The columns of each index, by their places in the definition; the first is that of the primary key.
    pub fn indexes(&self) -> impl Iterator<Item = &[usize]> {
        self.rows.indexes.iter().map(|index| index.columns.as_slice())
    }

    /// The ranges of an index where its first columns have the values of each of so many rows, and the next one lies between two others.
    ///
    /// # Errors
    /// `Internal` where a value is not of its column's type, or the index is not there.
    pub fn ranges(
        &self,
        index: usize,
        values: &[ArrayRef],
        low: Option<(ArrayRef, bool)>,
        high: Option<(ArrayRef, bool)>,
        rows: usize,
    ) -> Result<Vec<KeyRange>> {
        let index = self.rows.indexes.get(index);
        let index = index.ok_or_else(|| alluvia_types::Error::internal("a heap has no such index"))?;
        index.ranges(values, low, high, rows)
    }

    /// The rows, and their keys, that an index has in a range at a version, in its order or in the other. A row that had another key before
    /// may come where that is, and more than once. `None` for each entry that has no row at the version: passing over it takes time, too.
    pub fn in_range<'a>(
        &'a self,
        index: usize,
        range: &KeyRange,
        version: Version,
        is_reverse: bool,
    ) -> impl Iterator<Item = Option<(KeyCode, RowRef<'a>)>> + 'a {
        let slots = self.rows.indexes.get(index).map(|index| index.slots(range, is_reverse));
        slots.into_iter().flatten().map(move |slot| {
            let bytes = self.rows.at(slot, version)?;
            Some((self.rows.code(slot), RowRef::new(&self.heap.layout, bytes)))
        })
    }
}
