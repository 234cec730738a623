//! Which cuboids are resident, and how they stay as new as the log.
//!
//! Invariants:
//! - A resident cuboid holds exactly the rows of its table through its version, whatever stage they are in: sorting and
//!   merging do not touch it. It only moves forward, by the rows that came since, and is dropped when the table's definition
//!   changes, when a code finds no place in it, or when catching up would cost as much as building it anew.
//! - What all cuboids hold is bounded: those with the fewest hits for their size are evicted.
//! - A shape is built after it was asked for, by whoever calls [`Cuboids::tend`], never by a query.

use super::run::{Bound, code_bounds, measure_columns, segment_rows};
use super::tail::CodedTails;
use super::{Kept, columns};
use alluvia_snapshot::{Freshness, Snapshot, Store, TableRead, Want};
use alluvia_space::codes::calendar;
use alluvia_space::{LevelSource, TableDef};
use alluvia_tree::{Answer, Cuboid, GroupKeys, GroupSpan, WantedMeasure};
use alluvia_types::{Result, TableId, Version};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{SchemaRef, UInt64Type};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Cells that a cuboid has at most.
const CELLS_MAX: u64 = 4 << 20;
/// Cells that are always worth it, however few rows there are.
const CELLS_FREE: u64 = 1 << 16;
/// Rows of segments newer than a cuboid up to which it catches up; beyond, it is built anew.
const CATCH_UP_ROWS_MAX: u64 = 4 << 20;
/// Shapes asked for and not yet built that are remembered.
const WANTED_MAX: usize = 1_000;

/// What a cuboid is of.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Shape {
    pub(crate) table: TableId,
    pub(crate) changed_at: Version,
    /// The finest level of each dimension that is named, ascending.
    pub(crate) levels: Vec<usize>,
    /// By column.
    pub(crate) measures: Vec<WantedMeasure>,
}

impl Shape {
    /// The shape of a statement.
    pub(crate) fn of(bound: &Bound, read: &TableRead) -> Shape {
        let dimensions: Vec<usize> = bound.def.levels().map(|(dimension, _, _)| dimension).collect();
        let mut levels: Vec<usize> = Vec::new();
        let filters = bound.asked().iter().flat_map(|question| &question.filters);
        for level in filters.map(|filter| filter.level).chain(bound.groups.iter().copied()) {
            match levels.iter_mut().find(|known| dimensions[**known] == dimensions[level]) {
                Some(known) => *known = level.max(*known),
                None => levels.push(level),
            }
        }
        levels.sort_unstable();
        let mut measures = bound.measures.clone();
        measures.sort_unstable();
        Shape { table: read.entry.def.id, changed_at: read.entry.changed_at, levels, measures }
    }

    /// Whether a cuboid of this shape can answer statements of another.
    fn contains(&self, other: &Shape, dimension_of: &dyn Fn(usize) -> usize) -> bool {
        self.table == other.table
            && self.changed_at == other.changed_at
            && other
                .levels
                .iter()
                .all(|level| self.levels.iter().any(|own| dimension_of(*own) == dimension_of(*level) && own >= level))
            && other.measures.iter().all(|wanted| {
                self.measures.iter().any(|own| own.column == wanted.column && own.wanted.contains(wanted.wanted))
            })
    }

    /// The levels by name, as `alluvia.cuboids` shows them.
    pub(crate) fn describe(&self, def: &TableDef) -> String {
        let name = |&level: &usize| {
            def.levels()
                .nth(level)
                .map(|(dimension, _, level)| format!("{}.{}", def.dimensions[dimension].name, level.name))
        };
        self.levels.iter().filter_map(name).collect::<Vec<_>>().join(", ")
    }
}

/// One resident cuboid.
#[derive(Debug)]
pub(crate) struct Resident {
    pub(crate) shape: Shape,
    state: RwLock<State>,
    pub(crate) hits: AtomicU64,
    pub(crate) cells: u64,
    pub(crate) bytes: u64,
    pub(crate) build: Duration,
}

#[derive(Debug)]
struct State {
    version: Version,
    cuboid: Cuboid,
    /// It can be used no more.
    is_stale: bool,
}

/// All cuboids of a database.
#[derive(Debug)]
pub(crate) struct Cuboids {
    bytes_max: u64,
    resident: RwLock<Vec<Arc<Resident>>>,
    /// How often a shape was asked for; `None` once it was found too large.
    wanted: Mutex<HashMap<Shape, Option<u64>>>,
}

impl Cuboids {
    /// None yet; all together hold at most `bytes_max`.
    pub(crate) fn new(bytes_max: u64) -> Cuboids {
        Cuboids { bytes_max, resident: RwLock::default(), wanted: Mutex::default() }
    }

    /// The resident ones.
    pub(crate) fn list(&self) -> Vec<Arc<Resident>> {
        self.resident.read().clone()
    }

    /// Whether a cuboid that could answer has all of the snapshot already, so that answering does not wait for anything.
    pub(crate) fn is_ready(&self, bound: &Bound, snapshot: &Snapshot, read: &TableRead) -> bool {
        let shape = Shape::of(bound, read);
        self.find(bound, &shape).is_some_and(|resident| resident.version() >= snapshot.version)
    }

    /// The smallest cuboid that contains a shape.
    fn find(&self, bound: &Bound, shape: &Shape) -> Option<Arc<Resident>> {
        let dimensions: Vec<usize> = bound.def.levels().map(|(dimension, _, _)| dimension).collect();
        let resident = self.resident.read();
        let fits = resident.iter().filter(|cuboid| cuboid.shape.contains(shape, &|level| dimensions[level]));
        fits.min_by_key(|cuboid| cuboid.cells).map(Arc::clone)
    }

    /// Answers a statement at its snapshot's version, or at a later one unless `exactly` that is wanted; gives the version. `None`
    /// where no cuboid can; the shape is then wanted.
    pub(crate) fn answer(
        &self,
        bound: &Bound,
        snapshot: &Snapshot,
        read: &TableRead,
        exactly: bool,
        kept: &Kept,
        schema: &SchemaRef,
    ) -> Result<Option<(RecordBatch, Version)>> {
        let shape = Shape::of(bound, read);
        let dimensions: Vec<usize> = bound.def.levels().map(|(dimension, _, _)| dimension).collect();
        let dimension_of = |level: usize| dimensions[level];
        let Some(resident) = self.find(bound, &shape) else {
            self.want(shape);
            return Ok(None);
        };
        if !resident.catch_up(read, snapshot.version, &kept.tails)? {
            self.remove(&resident);
            self.want(resident.shape.clone());
            return Ok(None);
        }
        let state = resident.state.read();
        if state.is_stale || state.version < snapshot.version || exactly && state.version != snapshot.version {
            return Ok(None);
        }
        let ancestor = |finer: usize, coarser: usize, code: u32| ancestor(bound, finer, coarser, code);
        let spans = bound.groups.iter().map(|&level| state.cuboid.span_of(level, &dimension_of, &ancestor));
        let Some(spans) = spans.collect::<Option<Vec<GroupSpan>>>() else { return Ok(None) };
        let Some(keys) = GroupKeys::new(spans) else { return Ok(None) };
        // Codes that the cuboid has are in the dictionaries; filters must know them all.
        let Some(questions) = bound.questions() else { return Ok(None) };
        let mut found = Answer::new(&questions[0], keys);
        let mut answer = |question| state.cuboid.answer(question, &dimension_of, &ancestor, &mut found);
        if questions.iter().any(|question| answer(question).is_none()) {
            return Ok(None);
        }
        let version = state.version;
        drop(state);
        resident.hits.fetch_add(1, Ordering::Relaxed);
        Ok(columns::batch(bound, &found, &kept.names, schema).map(|batch| (batch, version)))
    }

    fn want(&self, shape: Shape) {
        let mut wanted = self.wanted.lock();
        if wanted.len() == WANTED_MAX {
            // What was too large once is tried again, should it be asked for again.
            wanted.retain(|_, count| count.is_some());
        }
        let has_room = wanted.len() < WANTED_MAX || wanted.contains_key(&shape);
        if has_room && let Some(count) = wanted.entry(shape).or_insert(Some(0)) {
            *count += 1;
        }
    }

    fn remove(&self, gone: &Arc<Resident>) {
        self.resident.write().retain(|resident| !Arc::ptr_eq(resident, gone));
    }

    /// Builds the most wanted shape, if any is wanted, and brings resident cuboids up to date. Returns whether anything was
    /// built.
    pub(crate) fn tend(&self, store: &dyn Store, kept: &Kept, threads: usize) -> Result<bool> {
        let shape = {
            let wanted = self.wanted.lock();
            let most = wanted.iter().filter_map(|(shape, count)| count.map(|count| (count, shape)));
            most.max_by_key(|(count, _)| *count).map(|(_, shape)| shape.clone())
        };
        if let Some(shape) = &shape {
            let built = self.build(shape, store, &kept.tails, threads);
            if built.is_err() {
                // Not again and again: what is resident must be tended, too.
                self.wanted.lock().insert(shape.clone(), None);
            }
            let built = built?;
            let mut wanted = self.wanted.lock();
            if built.is_some() {
                wanted.remove(shape);
            } else {
                wanted.insert(shape.clone(), None);
            }
            drop(wanted);
            if let Some(built) = built {
                self.admit(Arc::new(built));
            }
        }
        let catalog = store.catalog();
        kept.retain(|table| catalog.by_id(table).is_some());
        for table in kept.tails.tables() {
            if newest(store, table)?.is_some_and(|snapshot| snapshot.tables[&table].tail.is_empty()) {
                kept.tails.forget(table);
            }
        }
        let visible = store.info().visible;
        for resident in self.list().into_iter().filter(|resident| resident.version() < visible) {
            let Some(snapshot) = newest(store, resident.shape.table)? else {
                self.remove(&resident);
                continue;
            };
            let current = snapshot.tables.get(&resident.shape.table);
            let is_same = current.is_some_and(|read| read.entry.changed_at == resident.shape.changed_at);
            if !is_same {
                self.remove(&resident);
            } else if let Some(read) = current
                && !resident.catch_up(read, snapshot.version, &kept.tails)?
            {
                self.remove(&resident);
                self.want(resident.shape.clone());
            }
        }
        Ok(shape.is_some())
    }

    /// Makes room by evicting what is hit least for its size.
    fn admit(&self, built: Arc<Resident>) {
        let mut resident = self.resident.write();
        let mut held: u64 = resident.iter().map(|cuboid| cuboid.bytes).sum();
        while held + built.bytes > self.bytes_max {
            let use_of = |cuboid: &Arc<Resident>| cuboid.hits.load(Ordering::Relaxed) as f64 / cuboid.bytes as f64;
            let least = (0..resident.len()).min_by(|&a, &b| use_of(&resident[a]).total_cmp(&use_of(&resident[b])));
            let Some(least) = least else { return };
            held -= resident.swap_remove(least).bytes;
        }
        resident.push(built);
    }

    fn build(&self, shape: &Shape, store: &dyn Store, tails: &CodedTails, threads: usize) -> Result<Option<Resident>> {
        let start = store.clock().monotonic();
        let Some(snapshot) = newest(store, shape.table)? else { return Ok(None) };
        let Some(read) = snapshot.tables.get(&shape.table) else { return Ok(None) };
        if read.entry.changed_at != shape.changed_at {
            return Ok(None);
        }
        let Some(dictionaries) = &read.dictionaries else { return Ok(None) };
        let tail = tails.read(&read.entry, dictionaries, &read.tail, snapshot.version)?;
        let (def, segments) = (&read.entry.def, segment_rows(read, None));
        let mut spans = Vec::with_capacity(shape.levels.len());
        for &level in &shape.levels {
            spans.push(if dictionaries.has_members(level) {
                // Room for members to come.
                let members = dictionaries.len(level) - 1;
                GroupSpan { level, first: 1, count: members + members / 8 + 2 }
            } else {
                let (low, high) = code_bounds(level, &segments, &tail)?.unwrap_or((1, 1));
                // Time goes on.
                let count = u64::from(high - low) + 5 + u64::from(high - low) / 8;
                match u32::try_from(count).ok().filter(|count| low.checked_add(*count).is_some()) {
                    Some(count) => GroupSpan { level, first: low, count },
                    None => return Ok(None),
                }
            });
        }
        let rows = read.rows_at_most();
        let cells_max = CELLS_MAX.min((rows / 4).max(CELLS_FREE));
        let Some(mut cuboid) = Cuboid::new(spans, shape.measures.clone(), cells_max) else { return Ok(None) };
        if cuboid.bytes() > self.bytes_max / 2 || !cuboid.add_segments(&segments, threads)? {
            return Ok(None);
        }
        for (chunk, rows) in &tail {
            let measures = measure_columns(def, &shape.measures, &chunk.rows);
            if !cuboid.add_rows(&chunk.codes, &measures, rows.clone())? {
                return Ok(None);
            }
        }
        let (cells, bytes) = (cuboid.cells() as u64, cuboid.bytes());
        let state = RwLock::new(State { version: snapshot.version, cuboid, is_stale: false });
        let (shape, build) = (shape.clone(), store.clock().monotonic().saturating_sub(start));
        Ok(Some(Resident { shape, state, hits: AtomicU64::new(0), cells, bytes, build }))
    }
}

impl Resident {
    /// Everything through this version is in it.
    pub(crate) fn version(&self) -> Version {
        self.state.read().version
    }

    /// Adds the rows of the versions through `version` that it lacks; `false` if it cannot, and must go.
    fn catch_up(&self, read: &TableRead, version: Version, tails: &CodedTails) -> Result<bool> {
        {
            let state = self.state.read();
            if state.is_stale || state.version >= version {
                return Ok(!state.is_stale);
            }
        }
        let mut state = self.state.write();
        if state.is_stale || state.version >= version {
            return Ok(!state.is_stale);
        }
        let above = state.version;
        // Whatever goes wrong from here on leaves it with some of the rows.
        state.is_stale = true;
        let Some(dictionaries) = &read.dictionaries else { return Ok(false) };
        let newer: Vec<_> = segment_rows(read, Some(above))
            .into_iter()
            .filter(|rows| rows.segment.meta().max_version > above)
            .collect();
        if newer.iter().map(|rows| rows.segment.meta().rows).sum::<u64>() > CATCH_UP_ROWS_MAX
            || !state.cuboid.add_segments(&newer, 1)?
        {
            return Ok(false);
        }
        for (chunk, rows) in tails.read(&read.entry, dictionaries, &read.tail, version)? {
            let versions = chunk.rows.column(chunk.rows.num_columns() - 2).as_primitive::<UInt64Type>();
            let first = versions.values().partition_point(|&version| version <= above.0).max(rows.start);
            if first < rows.end {
                let measures = measure_columns(&read.entry.def, &self.shape.measures, &chunk.rows);
                if !state.cuboid.add_rows(&chunk.codes, &measures, first..rows.end)? {
                    return Ok(false);
                }
            }
        }
        state.version = version;
        state.is_stale = false;
        Ok(true)
    }
}

fn newest(store: &dyn Store, table: TableId) -> Result<Option<Snapshot>> {
    let freshness = Freshness::Within(Duration::ZERO);
    let snapshot = store.snapshot(&Want { freshness, at_least: Version(0), exactly: None, tables: vec![table] })?;
    Ok(snapshot.tables.contains_key(&table).then_some(snapshot))
}

/// The code at a coarser level of a dimension; `None` for NULL members of dictionaries, which may be under any parent.
fn ancestor(bound: &Bound, finer: usize, coarser: usize, code: u32) -> Option<u32> {
    let (_, _, from) = bound.def.levels().nth(finer)?;
    let (_, _, to) = bound.def.levels().nth(coarser)?;
    match (&from.source, &to.source) {
        (LevelSource::Calendar(_, from), LevelSource::Calendar(_, to)) => Some(match calendar::units_of_code(code) {
            None => 0,
            // The first and the last code stand for all times before and after.
            Some(_) if code == 1 || code == u32::MAX => return None,
            Some(units) => calendar::code_of_micros(calendar::start_micros(units, *from), *to),
        }),
        (LevelSource::Column(_), LevelSource::Column(_)) => {
            let mut code = code;
            for level in (coarser + 1..=finer).rev() {
                // A place without a member yet has no parent, and no rows.
                if code == 0 || code >= bound.dictionaries.len(level) {
                    return if code == 0 { None } else { Some(0) };
                }
                code = bound.dictionaries.parent(level, code);
            }
            Some(code)
        }
        _ => None,
    }
}
