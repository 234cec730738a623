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

/// A heap that begins, and the rows that it begins with.
#[derive(Debug)]
pub struct HeapLoad {
    heap: Arc<Heap>,
    read: TableRead,
    version: Version,
    _pin: Arc<Pin>,
}

impl HeapLoad {
    /// Loads the rows: reads all columns of the table.
    ///
    /// # Errors
    /// `Corrupt` if a segment is damaged. The heap is given up then.
    pub fn run(self) -> Result<()> {
        let loaded = self.load();
        match &loaded {
            Ok(()) => self.heap.loaded(),
            Err(_) => self.heap.give_up(),
        }
        loaded
    }

    fn load(&self) -> Result<()> {
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
                self.heap.load(&batch)?;
                first += count;
                if self.heap.is_given_up() {
                    return Ok(());
                }
            }
        }
        self.read.tail.iter().try_for_each(|run| self.heap.load(&run.rows))
    }

    /// The version from which on the heap has the table's rows.
    pub fn version(&self) -> Version {
        self.version
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

    /// Begins a heap of a table; `None` where it has one, or none may be made.
    pub fn begin_heap(&self, table: TableId) -> Option<HeapLoad> {
        if self.heaps.bytes_max() == 0 {
            return None;
        }
        self.heaps.keep_bounds();
        let now = self.clock.monotonic();
        let state = self.state.read();
        let entry: &Arc<TableEntry> = state.catalog.by_id(table)?;
        if self.heaps.of(entry).is_some() || !entry.def.keeps_rows() {
            return None;
        }
        let want = Want {
            freshness: Freshness::Within(Duration::ZERO),
            at_least: Version(0),
            exactly: None,
            tables: vec![table],
        };
        let (version, stage) = state.choose(&want, now).ok()?;
        // Of what is more organised than the newest version nothing else is read.
        let version = version.max(state.visible);
        let read = state.read_table(entry, version, stage);
        if read.segments.iter().any(|rows| rows.above.is_some() || rows.through.is_some()) {
            return None;
        }
        let about = alluvia_heap::bytes_about(&entry.def).saturating_mul(read.rows_at_most() as usize);
        let heap = self.heaps.begin(entry, version, about)?;
        let pin = self.pins.pin(version);
        Some(HeapLoad { heap, read, version, _pin: pin })
    }

    /// Tells the heaps of a batch that becomes visible.
    pub(super) fn feed_heaps(&self, batch: &mut Published) {
        let keys = std::mem::take(&mut batch.keys);
        let mut tables: Vec<TableId> = keys.iter().map(|(table, _)| *table).collect();
        tables.extend(batch.rows.iter().map(|(table, _, _)| *table));
        tables.extend(batch.loads.iter().map(|load| load.table));
        tables.sort_unstable();
        tables.dedup();
        let mut keys: BTreeMap<TableId, Vec<FedKey>> = keys.into_iter().collect();
        for table in tables.into_iter().filter(|&table| self.heaps.is_fed(table)) {
            let is_staged = batch.loads.iter().any(|load| load.table == table);
            let rows = batch.rows.iter().find(|(of, _, _)| *of == table).map(|(_, rows, _)| rows.clone());
            let fed = keys.remove(&table).filter(|_| !is_staged || planted("heap after a load"));
            let fed = fed.map(|keys| FedBatch { version: batch.info.version, rows, keys });
            self.heaps.feed(table, fed);
        }
    }

    /// Gives up the heaps of tables that are gone, or have another definition.
    pub(super) fn keep_heaps(&self, state: &State) {
        self.heaps.keep(|table| state.catalog.by_id(table).map(|entry| entry.changed_at));
    }
}
