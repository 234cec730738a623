//! Heaps of tables: what they are told when batches become visible, how they come to be, and what reads them.
//!
//! Invariants:
//! - A heap begins at a version while nothing can become visible, and is told of every batch from then on.
//! - What reads heaps has pinned its version, and reads all of them at that one.
//! - Heaps are locked in the order of their tables.

use super::{Published, State, Views};
use crate::pins::Pin;
use crate::ports::{HeapInfo, Want};
use crate::snapshot::{Snapshot, TableRead};
use alluvia_catalog::TableEntry;
use alluvia_heap::{FedBatch, FedKey, Heap, HeapView, Heaps};
use alluvia_types::{Error, Freshness, Result, Stage, TableId, Version, planted};
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::DataType;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A table, and what became of its keys by a batch; `None` where it had no heap to be told when the batch was resolved.
pub type WrittenKeys = (TableId, Option<Vec<FedKey>>);

/// Heaps of some tables, at one version.
#[derive(Debug)]
pub struct HeapSnapshot {
    /// The version, pinned, and the definitions; of tables it has nothing.
    pub snapshot: Snapshot,
    /// In the order in which tables were asked for.
    heaps: Vec<Arc<Heap>>,
    /// The least version that anybody had pinned.
    oldest: Version,
}

impl HeapSnapshot {
    /// The heaps.
    pub fn heaps(&self) -> &[Arc<Heap>] {
        &self.heaps
    }

    /// Their rows, in the order in which tables were asked for; `None` where one is not followed any more.
    pub fn rows(&self) -> Option<Vec<HeapView<'_>>> {
        let mut order: Vec<usize> = (0..self.heaps.len()).collect();
        order.sort_unstable_by_key(|&at| self.heaps[at].entry().def.id);
        // Who has one does not wait for who follows another.
        for heap in &self.heaps {
            heap.read(self.oldest)?;
        }
        let mut views: Vec<Option<HeapView<'_>>> = self.heaps.iter().map(|_| None).collect();
        for at in order {
            let view = self.heaps[at].read_followed();
            views[at] = Some(view.filter(|view| view.has(self.snapshot.version))?);
        }
        views.into_iter().collect()
    }
}

/// A heap that begins, and the rows that it begins with. One that is dropped before it is loaded is given up, and its table not tried again
/// for a while.
#[derive(Debug)]
pub struct HeapLoad {
    heaps: Arc<Heaps>,
    heap: Arc<Heap>,
    read: TableRead,
    version: Version,
    _pin: Arc<Pin>,
}

impl HeapLoad {
    /// Loads the rows: reads all columns of the table. Where they take more than they may the heap is given up.
    ///
    /// # Errors
    /// `Corrupt` if a segment is damaged. The heap is given up then.
    pub fn run(self) -> Result<()> {
        if self.load()? {
            self.heap.loaded();
        }
        Ok(())
    }

    /// Whether all is there.
    fn load(&self) -> Result<bool> {
        let columns = &self.read.entry.def.columns;
        let columns: Vec<(&str, DataType)> =
            columns.iter().map(|column| (column.storage_name.as_str(), column.data_type.to_arrow())).collect();
        for rows in &self.read.segments {
            let mut first = 0;
            for batch in rows.segment.column_batches(&columns)? {
                let batch = batch?;
                let count = batch.num_rows() as u64;
                let batch = match &rows.dead {
                    None => batch,
                    Some(dead) => alive(&batch, |row| !dead.contains(first + row))?,
                };
                first += count;
                if !self.add(&batch)? {
                    return Ok(false);
                }
            }
        }
        for run in &self.read.tail {
            if !self.add(&run.rows)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds rows, and tells whether it goes on: it takes no more than it may, nor do all heaps together, and nobody has given it up.
    fn add(&self, rows: &RecordBatch) -> Result<bool> {
        if self.heap.is_given_up() {
            return Ok(false);
        }
        let is_within = self.heap.load(rows)? && !self.heaps.is_over();
        if !is_within {
            self.heaps.refuse(self.heap.entry());
        }
        Ok(is_within)
    }

    /// The version from which on the heap has the table's rows.
    pub fn version(&self) -> Version {
        self.version
    }
}

impl Drop for HeapLoad {
    fn drop(&mut self) {
        if self.heap.is_loaded() {
            return;
        }
        // If others have given it up, the next one may be loaded.
        if !self.heap.is_given_up() {
            self.heaps.refuse(self.heap.entry());
        }
        self.heaps.end(&self.heap);
    }
}

fn alive(rows: &RecordBatch, is_alive: impl Fn(u64) -> bool) -> Result<RecordBatch> {
    let mask: BooleanArray = (0..rows.num_rows() as u64).map(|row| Some(is_alive(row))).collect();
    filter_record_batch(rows, &mask).map_err(|error| Error::internal(format!("rows of a heap: {error}")))
}

impl Views {
    /// The heaps of tables.
    pub fn heaps(&self) -> &Heaps {
        &self.heaps
    }

    /// The heaps of these tables, at a version that is pinned, or the newest; `None` where one of them has none, or has begun later.
    pub fn rows_in_memory(&self, tables: &[TableId], exactly: Option<Version>) -> Option<HeapSnapshot> {
        let state = self.state.read();
        let version =
            exactly.filter(|version| *version <= state.visible).or(exactly.is_none().then_some(state.visible))?;
        let heap = |table: &TableId| {
            let heap = self.heaps.of(state.catalog.by_id(*table)?)?;
            heap.is_ready().then_some(heap)
        };
        let heaps = tables.iter().map(heap).collect::<Option<Vec<_>>>()?;
        let lag = match version == state.visible {
            true => Duration::ZERO,
            false => state.times.lag(self.clock.monotonic(), version),
        };
        let catalog = Arc::clone(&state.catalog);
        let pin = self.pins.pin(version);
        drop(state);
        let oldest = self.pins.oldest().unwrap_or(version);
        let snapshot = Snapshot { version, lag, stage: Stage::Ingested, catalog, tables: BTreeMap::new(), pin };
        Some(HeapSnapshot { snapshot, heaps, oldest })
    }

    /// What there is of them.
    pub fn heap_infos(&self) -> Vec<HeapInfo> {
        let info = |heap: Arc<Heap>| {
            let (version, keys, waiting) = heap.counts();
            HeapInfo {
                table: heap.entry().def.id,
                is_ready: heap.is_ready(),
                version,
                keys: keys as u64,
                waiting: waiting as u64,
                bytes: heap.bytes() as u64,
            }
        };
        let mut infos: Vec<HeapInfo> = self.heaps.all().into_iter().map(info).collect();
        infos.sort_unstable_by_key(|info| info.table);
        infos
    }

    /// Begins a heap of a table; `None` where it has one, or none may be made now. A table that is refused costs no more than that it is
    /// looked up.
    pub fn begin_heap(&self, table: TableId) -> Option<HeapLoad> {
        if self.heaps.bytes_max() == 0 {
            return None;
        }
        // They are freed after the state's lock.
        let mut gone = Vec::new();
        let state = self.state.read();
        let entry: &Arc<TableEntry> = state.catalog.by_id(table)?;
        state.base.check_open(table, &state.catalog).ok()?;
        if !entry.def.keeps_rows() || self.heaps.is_refused(entry) || self.heaps.of(entry).is_some() {
            return None;
        }
        gone.extend(self.heaps.keep_bounds());
        let want = Want {
            freshness: Freshness::Within(Duration::ZERO),
            at_least: Version(0),
            exactly: None,
            tables: vec![table],
        };
        let (version, stage) = state.choose(&want, self.clock.monotonic()).ok()?;
        // Of what is more organised than the newest version nothing else is read.
        let version = version.max(state.visible);
        let about = alluvia_heap::bytes_about(&entry.def).saturating_mul(state.rows_at_most(table) as usize);
        let heap = self.heaps.begin(entry, version, about, &mut gone)?;
        let (heaps, read) = (Arc::clone(&self.heaps), state.read_table(entry, version, stage));
        let load = HeapLoad { heaps, heap, read, version, _pin: self.pins.pin(version) };
        let is_whole = load.read.segments.iter().all(|rows| rows.above.is_none() && rows.through.is_none());
        is_whole.then_some(load)
    }

    /// Tells the heaps of a batch that becomes visible. Gives those that are given up, to be freed without the lock.
    pub(super) fn feed_heaps(&self, batch: &mut Published) -> Vec<Arc<Heap>> {
        let keys = std::mem::take(&mut batch.keys);
        let mut tables: Vec<TableId> = keys.iter().map(|(table, _)| *table).collect();
        tables.extend(batch.rows.iter().map(|(table, _, _)| *table));
        tables.extend(batch.loads.iter().map(|load| load.table));
        tables.sort_unstable();
        tables.dedup();
        // A heap that was begun after the batch was resolved is told of no keys: it is given up.
        let mut keys: BTreeMap<TableId, Option<Vec<FedKey>>> = keys.into_iter().collect();
        let mut gone = Vec::new();
        for table in tables.into_iter().filter(|&table| self.heaps.is_fed(table)) {
            let is_staged = batch.loads.iter().any(|load| load.table == table);
            let rows = batch.rows.iter().find(|(of, _, _)| *of == table);
            let (rows, bytes) = rows.map_or((None, 0), |(_, rows, bytes)| (Some(rows.clone()), *bytes as usize));
            let fed = keys.remove(&table).flatten().filter(|_| !is_staged || planted("heap after a load"));
            let fed = fed.map(|keys| FedBatch { version: batch.info.version, rows, bytes, keys });
            gone.extend(self.heaps.feed(table, fed));
        }
        gone
    }

    /// Gives up the heaps of tables that are gone, or have another definition; gives them, to be freed without the lock.
    pub(super) fn keep_heaps(&self, state: &State) -> Vec<Arc<Heap>> {
        self.heaps.keep(|table| state.catalog.by_id(table).map(|entry| entry.changed_at))
    }
}
