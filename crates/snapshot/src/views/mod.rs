//! The views of the log, from the newest batch to the merged segments, and the snapshots taken of them.
//!
//! Invariants (numbered as in docs/ARCHITECTURE.md):
//! - V1: versions are published in order, without gaps, after they are durable.
//! - V2: a visible row is in the tail if its version is above the sorted watermark and it was not staged, else in exactly
//!   one segment; [`Views::install`] moves rows from tail to segments in one step.
//! - V3: readers hold the lock only to clone `Arc`s of the tables they name.
//! - Rows in memory are bounded by thrice [`TailBounds::bytes_max`]: the tail with what is on its way there, what readers held when the
//!   batch was let in, and what one sort takes from the tail under their hands.

mod cut;
mod heaps;
mod kills;
mod moving;
mod pace;
mod replaced;
mod report;
mod room;
mod state;
mod turns;

pub use cut::Cut;
pub use heaps::{HeapLoad, HeapSnapshot, WrittenKeys};
pub use kills::{TableKills, TailDead};
pub use moving::WholeTable;
pub use room::{TailBounds, TailRoom};
pub use turns::Failures;

use crate::freshness::VisibleTimes;
use crate::key_tables::KeyTables;
use crate::keys::KeyRecord;
use crate::killed::Killed;
use crate::manifest::{Base, ProducerState, TableBase};
use crate::pins::Pins;
use crate::ports::{BatchInfo, PublishedTotals, StagedLoad, Want};
use crate::snapshot::{Newer, Snapshot, TailRead};
use crate::spaces::Spaces;
use crate::tail::{Pinned, TailTable};
use alluvia_catalog::{Catalog, TableEntry};
use alluvia_heap::Heaps;
use alluvia_tree::{Dead, Segment, SegmentMeta, TreeContext};
use alluvia_types::{Clock, Freshness, Result, SegmentId, Stage, TableId, Version, planted};
use arrow::record_batch::RecordBatch;
use cut::Marks;
use pace::Pace;
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use turns::Turns;

/// Batches remembered for `alluvia.batches`.
const BATCHES_REMEMBERED: usize = 4_096;

/// A durable batch, ready to become visible.
#[derive(Debug)]
pub struct Published {
    /// What `alluvia.batches` says of it; its version and commit time.
    pub info: BatchInfo,
    /// The definitions, when the batch changes them.
    pub catalog: Option<Arc<Catalog>>,
    /// Rows with the hidden columns, and their bytes.
    pub rows: Vec<(TableId, RecordBatch, u64)>,
    /// What became of the keys that it wrote, by table, once; nothing of what is replayed.
    pub keys: Vec<WrittenKeys>,
    /// Rows that were staged as segments.
    pub loads: Vec<StagedLoad>,
    /// The room that its rows have until then; `None` without rows, and of what was in the log already.
    pub room: Option<TailRoom>,
}

/// All views of one database.
#[derive(Debug)]
pub struct Views {
    clock: Arc<dyn Clock>,
    tree: TreeContext,
    spaces: Arc<Spaces>,
    keys: KeyTables,
    heaps: Arc<Heaps>,
    pins: Pins,
    state: RwLock<State>,
    visible: AtomicU64,
    bounds: TailBounds,
    pace: Mutex<Pace>,
    /// Bytes of batches that were let in and are not visible yet.
    promised: Arc<AtomicU64>,
    writers_waiting: AtomicU64,
    changed: Condvar,
    changed_lock: Mutex<()>,
}

/// Segments that one batch staged for a table.
type Attached = (TableId, Vec<Arc<Segment>>);

#[derive(Debug)]
struct State {
    visible: Version,
    catalog: Arc<Catalog>,
    base: Arc<Base>,
    tails: HashMap<TableId, TailTable>,
    /// Of tables with dead rows, and of those whose kills are above the base's watermark. Those of a table that was dropped
    /// stay until a sort lets the log go through that: what is replayed before it must find the table as it was.
    kills: HashMap<TableId, TableKills>,
    /// Staged loads above the base's watermark, by version.
    attached: BTreeMap<Version, Vec<Attached>>,
    /// The same of tables that were dropped since. Nobody reads them, but the log has the records that name their files, which must be
    /// there when these are replayed.
    dropped: BTreeMap<Version, Vec<Attached>>,
    producers: BTreeMap<String, ProducerState>,
    /// Keys of batches above the base's watermark.
    keys: Vec<KeyRecord>,
    times: VisibleTimes,
    batches: VecDeque<BatchInfo>,
    published: PublishedTotals,
    tail_bytes: u64,
    marks: Marks,
    pinned: Mutex<Pinned>,
    sorts: Turns,
    merges: Turns,
    /// No snapshot is taken below this version from now on, but at one that is pinned.
    floor: Version,
}

impl Views {
    /// Views that start from a manifest; what the log holds above it follows by [`Views::publish`].
    #[allow(clippy::too_many_arguments)] // called once, by the composition root
    pub fn new(
        clock: Arc<dyn Clock>,
        tree: TreeContext,
        spaces: Arc<Spaces>,
        catalog: Catalog,
        producers: BTreeMap<String, ProducerState>,
        base: Base,
        dead: BTreeMap<TableId, BTreeMap<SegmentId, Arc<Dead>>>,
        bounds: TailBounds,
    ) -> Self {
        let (visible, complete) = (base.through, base.complete.max(base.through));
        let kills = dead.into_iter().map(|(table, dead)| (table, TableKills::of_segments(dead, complete))).collect();
        let times = VisibleTimes::new(clock.monotonic(), visible);
        // Rows that went may have been alive where the merged stage of another table ends: a purge does not wait for that one.
        let has_lost = base.tables.values().any(TableBase::has_lost);
        // And of a version that files of some tables are ahead of there is no snapshot.
        let floor = if has_lost || visible < complete { complete } else { Version(0) };
        let state = State {
            visible,
            catalog: Arc::new(catalog),
            base: Arc::new(base),
            tails: HashMap::new(),
            kills,
            attached: BTreeMap::new(),
            dropped: BTreeMap::new(),
            producers,
            keys: Vec::new(),
            times,
            batches: VecDeque::new(),
            published: PublishedTotals::default(),
            tail_bytes: 0,
            marks: Marks::new(bounds.step_bytes),
            pinned: Mutex::default(),
            sorts: Turns::default(),
            merges: Turns::default(),
            floor,
        };
        Views {
            heaps: Arc::new(Heaps::new(Arc::clone(&clock))),
            clock,
            tree,
            spaces,
            keys: KeyTables::new(complete),
            pins: Pins::default(),
            state: RwLock::new(state),
            visible: AtomicU64::new(visible.0),
            bounds,
            pace: Mutex::default(),
            promised: Arc::default(),
            writers_waiting: AtomicU64::new(0),
            changed: Condvar::new(),
            changed_lock: Mutex::new(()),
        }
    }

    /// Where time comes from.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Where segments live.
    pub fn tree(&self) -> &TreeContext {
        &self.tree
    }

    /// The tables' dictionaries and key ranges.
    pub fn spaces(&self) -> &Arc<Spaces> {
        &self.spaces
    }

    /// The key indexes of tables, and their locks.
    pub fn keys(&self) -> &KeyTables {
        &self.keys
    }

    /// The newest visible version.
    pub fn visible(&self) -> Version {
        Version(self.visible.load(Ordering::Acquire))
    }

    /// The newest visible definitions.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.state.read().catalog)
    }

    /// The newest installed base.
    pub fn base(&self) -> Arc<Base> {
        Arc::clone(&self.state.read().base)
    }

    /// The definitions and producers as of the visible version.
    pub fn committed(&self) -> (Version, Arc<Catalog>, BTreeMap<String, ProducerState>) {
        let state = self.state.read();
        (state.visible, Arc::clone(&state.catalog), state.producers.clone())
    }

    /// The last batch of a producer.
    pub fn producer(&self, name: &str) -> Option<ProducerState> {
        self.state.read().producers.get(name).copied()
    }

    /// What became visible since the database was opened.
    pub fn published(&self) -> PublishedTotals {
        self.state.read().published
    }

    /// Makes durable batches visible, in version order (V1), and takes them; where a segment of theirs cannot be opened they stay, and
    /// none is visible. While recovering, they count as visible for ever.
    pub fn publish(&self, batches: &mut Vec<Published>, recovering: bool) -> Result<()> {
        if batches.is_empty() {
            return Ok(());
        }
        // Segments are opened before the lock is taken.
        let mut opened = Vec::with_capacity(batches.len());
        for batch in batches.iter() {
            let mut tables = Vec::with_capacity(batch.loads.len());
            for load in &batch.loads {
                tables.push((load.table, self.open_load(batch.info.version, load)?));
            }
            opened.push(tables);
        }
        let now = self.clock.monotonic();
        let (mut gone, mut heaps_gone) = (Vec::new(), Vec::new());
        let mut came = 0;
        let mut state = self.state.write();
        for (mut batch, loads) in batches.drain(..).zip(opened) {
            let version = batch.info.version;
            assert_eq!(version, state.visible.next(), "V1: versions are published in order, without gaps");
            if let Some(catalog) = batch.catalog.take() {
                let known = std::mem::replace(&mut state.catalog, Arc::clone(&catalog));
                gone.extend(known.tables().map(|entry| entry.def.id).filter(|&table| catalog.by_id(table).is_none()));
                let is_as_it_was = |entry: &TableEntry| {
                    catalog.by_id(entry.def.id).is_some_and(|entry_now| Arc::ptr_eq(&entry_now.def, &entry.def))
                };
                if !known.tables().all(|entry| is_as_it_was(entry)) {
                    state.marks.clear();
                }
                state.leave_dropped(&catalog, version);
                heaps_gone.extend(self.keep_heaps(&state));
            }
            heaps_gone.extend(self.feed_heaps(&mut batch));
            for (table, rows, bytes) in batch.rows {
                let State { tails, tail_bytes, pinned, .. } = &mut *state;
                let tail = tails.entry(table).or_default();
                let before = tail.bytes();
                tail.push(version, rows, bytes, pinned.get_mut());
                *tail_bytes += tail.bytes() - before;
                came += tail.bytes() - before;
            }
            drop(batch.room);
            if !loads.is_empty() {
                state.attached.insert(version, loads);
            }
            if let Some(mark) = &batch.info.producer {
                let reached = ProducerState { epoch: mark.epoch, sequence: mark.sequence, version };
                state.producers.insert(mark.name.clone(), reached);
            }
            if let Some(key) = batch.info.key {
                let BatchInfo { commit_micros, rows, .. } = batch.info;
                state.keys.push(KeyRecord { key, version, commit_micros, rows });
            }
            if !recovering {
                let staged = batch.loads.iter().flat_map(|load| &load.segments).map(|meta| meta.bytes()).sum::<u64>();
                state.published.batches += 1;
                state.published.rows += batch.info.rows;
                state.published.bytes += batch.info.bytes + staged;
            }
            if state.batches.len() == BATCHES_REMEMBERED {
                state.batches.pop_front();
            }
            state.batches.push_back(batch.info);
            state.visible = version;
        }
        let visible = state.visible;
        state.mark(came);
        if recovering {
            state.times = VisibleTimes::new(now, visible);
        } else {
            state.times.record(now, visible);
        }
        self.visible.store(visible.0, Ordering::Release);
        drop(state);
        gone.into_iter().for_each(|table| self.keys.forget(table));
        self.notify();
        Ok(())
    }

    fn open_load(&self, version: Version, load: &StagedLoad) -> Result<Vec<Arc<Segment>>> {
        load.segments.iter().map(|meta| Segment::open(&self.tree, meta.clone().committed_as(version))).collect()
    }

    /// As [`Base::hold`]: while a database is opened.
    pub fn hold(&self, table: TableId, version: Version, staged: &[SegmentMeta]) {
        Arc::make_mut(&mut self.state.write().base).hold(table, version, staged);
    }

    /// Refuses what is read or written of a table that is closed.
    pub fn check_open(&self, table: TableId) -> Result<()> {
        let state = self.state.read();
        state.base.check_open(table, &state.catalog)
    }

    /// Pins a snapshot for a statement.
    pub fn snapshot(&self, want: &Want) -> Result<Snapshot> {
        let now = self.clock.monotonic();
        let state = self.state.read();
        let (version, stage) = state.choose(want, now)?;
        let mut tables = BTreeMap::new();
        for &table in &want.tables {
            state.base.check_open(table, &state.catalog)?;
            if let Some(entry) = state.catalog.by_id(table) {
                tables.insert(table, state.read_table(entry, version, stage));
            }
        }
        let lag = state.times.lag(now, version);
        let catalog = Arc::clone(&state.catalog);
        // Before the state may change: a merge that begins now keeps what this version has.
        let pin = self.pins.pin(version);
        drop(state);
        for read in tables.values_mut() {
            if let Some(space) = self.spaces.existing(&read.entry.def)? {
                read.dictionaries = Some(Arc::clone(&space.dictionaries));
            }
        }
        Ok(Snapshot { version, lag, stage, catalog, tables, pin })
    }

    /// The least version that an answer of this freshness may be of.
    pub fn required(&self, freshness: Freshness, at_least: Version) -> Version {
        let fresh = match freshness {
            Freshness::Within(Duration::ZERO) => self.visible(),
            Freshness::Within(age) => {
                let now = self.clock.monotonic();
                self.state.read().times.required(now, age)
            }
            Freshness::Merged => Version(0),
        };
        fresh.max(at_least)
    }

    /// How long ago the first batch above a version became visible.
    pub fn lag(&self, version: Version) -> Duration {
        if version >= self.visible() {
            return Duration::ZERO;
        }
        let now = self.clock.monotonic();
        self.state.read().times.lag(now, version)
    }

    /// What came to a table above version `above`, if all of that is in the tail: its rows above `from`.
    pub fn newer(&self, table: TableId, above: Version, from: Version) -> Option<Newer> {
        let state = self.state.read();
        let floor = state.base.through;
        let mut staged = state.attached.range(above.next()..).flat_map(|(_, loads)| loads);
        if floor > above && !planted("stale cuboid after a merge") || staged.any(|(owner, _)| *owner == table) {
            return None;
        }
        let entry = Arc::clone(state.catalog.by_id(table)?);
        let rows = state.tails.get(&table).map(|tail| tail.read(from.max(floor), state.visible));
        let tail = rows.unwrap_or_default().into_iter().map(TailRead::of_run).collect();
        let kills = state.kills.get(&table);
        let killed_through = kills.map_or(Version(0), |kills| kills.killed_through(state.visible));
        let (through, killed) = (state.visible, state.killed(table, above, state.visible)?);
        // Before the state may change, as in a snapshot.
        let pin = self.pins.pin(through);
        drop(state);
        Some(Newer { through, floor, entry, tail, killed: killed.read(), killed_through, pin })
    }

    /// The rows of a table that were killed above one version, which is pinned, and through another that is visible; `None` if
    /// the table is gone.
    pub fn killed(&self, table: TableId, above: Version, through: Version) -> Option<Killed> {
        let places = self.state.read().killed(table, above, through)?;
        Some(places.read())
    }

    /// Waits until `version` is visible.
    pub fn wait_visible(&self, version: Version) -> Result<()> {
        if self.visible() >= version {
            return Ok(());
        }
        self.wait_until(|state| (state.visible >= version).then_some(Ok(())))
    }

    /// Waits until `stage` is complete through `version`, for all tables, or what makes it has failed since `since`.
    pub fn wait_organised(&self, stage: Stage, version: Version, since: Failures) -> Result<()> {
        self.wait_until(|state| {
            // What is sorted of a closed table waits behind what it has, and is not merged.
            let is_closed = |table| stage == Stage::Merged && state.base.closed.contains_key(&table);
            let mut tables = state.catalog.tables().map(|entry| entry.def.id);
            let done = tables.all(|table| is_closed(table) || state.watermark(table, stage) >= version);
            if done { Some(Ok(())) } else { state.failed(stage, since).map(|error| Err(error.clone())) }
        })
    }

    /// Whether segments of a dropped table take space that a sort would give back.
    pub fn has_dropped(&self) -> bool {
        let state = self.state.read();
        state.base.tables.keys().any(|&table| state.catalog.by_id(table).is_none())
    }

    fn wait_until<T>(&self, mut ready: impl FnMut(&State) -> Option<T>) -> T {
        let mut guard = self.changed_lock.lock();
        loop {
            if let Some(result) = ready(&self.state.read()) {
                return result;
            }
            // Every change of the views notifies. Readers that let go of rows, and batches that are dropped, do not: the time-out is for them.
            self.changed.wait_for(&mut guard, Duration::from_millis(200));
        }
    }

    fn notify(&self) {
        drop(self.changed_lock.lock());
        self.changed.notify_all();
    }
}
