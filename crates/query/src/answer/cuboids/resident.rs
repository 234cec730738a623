//! One cuboid in memory: how it is built, and how it follows the log.
//!
//! Invariant: a resident cuboid holds exactly the rows of its table through its version, whatever stage they are in: sorting
//! and merging do not touch it. It only moves forward, by the rows that came since; once it cannot, it is stale for ever. A row that was
//! killed since is in its cells, and cannot be taken out of them (a minimum does not tell what is next): then it cannot.

use super::super::run::{code_bounds, measure_columns, segment_rows};
use super::super::tail::{Came, CodedRows, CodedTails, TailRows};
use super::selected::Ancestors;
use super::shape::Shape;
use alluvia_catalog::{Dictionaries, TableEntry};
use alluvia_snapshot::{Read, Snapshot, TableRead};
use alluvia_tree::{Cuboid, GroupSpan, SegmentRows};
use alluvia_types::{Clock, Result, Version};
use parking_lot::RwLock;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Rows of segments newer than a cuboid up to which it catches up; beyond, it is built anew.
const CATCH_UP_ROWS_MAX: u64 = 4 << 20;

/// One resident cuboid.
#[derive(Debug)]
pub(crate) struct Resident {
    pub(crate) shape: Shape,
    /// The table's definition by which it is kept.
    pub(super) entry: Arc<TableEntry>,
    dictionaries: Arc<Dictionaries>,
    pub(super) state: RwLock<State>,
    /// Of the codes that it has.
    pub(super) ancestors: Ancestors,
    /// The state's version, for whoever does not want to wait for it.
    version: AtomicU64,
    /// Rows of segments are being added, which takes long.
    is_busy: AtomicBool,
    pub(crate) cells: u64,
    bytes: AtomicU64,
    pub(crate) build: Duration,
    /// Never evicted.
    pub(super) is_pinned: AtomicBool,
    hits: AtomicU64,
    /// Hits that fade.
    recent: AtomicU64,
    /// Microseconds since 1970; 0 before the first hit.
    last_hit_micros: AtomicI64,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) version: Version,
    pub(super) cuboid: Cuboid,
    /// It can be used no more.
    pub(super) is_stale: bool,
}

/// What became of a cuboid that was to follow the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Followed {
    /// It has all that is visible.
    Yes,
    /// It cannot, and must go.
    Never,
    /// Only a snapshot has what came.
    BySnapshot,
}

/// The places of a cuboid's cells, before any is made.
pub(super) struct Plan {
    dictionaries: Arc<Dictionaries>,
    spans: Vec<GroupSpan>,
    tail: Vec<TailRows>,
    segments: Vec<SegmentRows>,
    /// More than can be counted is `u64::MAX`.
    pub(super) cells: u64,
    pub(super) bytes: u64,
}

impl Plan {
    /// What a cuboid of a shape would hold of a table. `None` before the table has dictionaries, or where codes span too much.
    pub(super) fn new(shape: &Shape, read: &TableRead, version: Version, tails: &CodedTails) -> Result<Option<Plan>> {
        let Some(dictionaries) = &read.dictionaries else { return Ok(None) };
        let tail = tails.read(read, dictionaries, version)?;
        let segments = segment_rows(read, None);
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
        let (cells, bytes) = Cuboid::size(&spans, &shape.measures);
        Ok(Some(Plan { dictionaries: Arc::clone(dictionaries), spans, tail, segments, cells, bytes }))
    }

    /// Makes the cuboid, which was begun at `start`. `None` if rows have values that totals cannot hold.
    pub(super) fn build(
        self,
        shape: &Shape,
        snapshot: &Snapshot,
        read: &TableRead,
        start: Duration,
        clock: &dyn Clock,
        threads: usize,
    ) -> Result<Option<Resident>> {
        let Some(mut cuboid) = Cuboid::new(self.spans, shape.measures.clone(), self.cells) else { return Ok(None) };
        if !cuboid.add_segments(&self.segments, threads)? {
            return Ok(None);
        }
        for (chunk, rows) in &self.tail {
            let measures = measure_columns(&read.entry.def, &shape.measures, &chunk.rows);
            if !cuboid.add_rows(&chunk.codes, &measures, rows.clone())? {
                return Ok(None);
            }
        }
        Ok(Some(Resident {
            shape: shape.clone(),
            entry: Arc::clone(&read.entry),
            dictionaries: self.dictionaries,
            cells: cuboid.cells(),
            bytes: AtomicU64::new(cuboid.bytes()),
            version: AtomicU64::new(snapshot.version.0),
            is_busy: AtomicBool::new(false),
            ancestors: Ancestors::default(),
            state: RwLock::new(State { version: snapshot.version, cuboid, is_stale: false }),
            build: clock.monotonic().saturating_sub(start),
            is_pinned: AtomicBool::new(false),
            hits: AtomicU64::new(0),
            recent: AtomicU64::new(0),
            last_hit_micros: AtomicI64::new(0),
        }))
    }
}

impl Resident {
    /// Everything through this version is in it.
    pub(crate) fn version(&self) -> Version {
        Version(self.version.load(Ordering::Acquire))
    }

    /// Whether whoever asks may have to wait for long.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }

    /// Bytes in memory, about.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed) + self.ancestors.bytes()
    }

    /// Answers so far.
    pub(crate) fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// When it answered last, microseconds since 1970.
    pub(crate) fn last_hit_micros(&self) -> Option<i64> {
        Some(self.last_hit_micros.load(Ordering::Relaxed)).filter(|&micros| micros > 0)
    }

    /// Whether it is kept whatever others ask for.
    pub(crate) fn is_pinned(&self) -> bool {
        self.is_pinned.load(Ordering::Relaxed)
    }

    /// It answered.
    pub(super) fn hit(&self, clock: &dyn Clock) {
        self.hits.fetch_add(1, Ordering::Relaxed);
        self.recent.fetch_add(1, Ordering::Relaxed);
        self.last_hit_micros.store(clock.wall_micros(), Ordering::Relaxed);
    }

    /// Answers, of which old ones count less.
    pub(super) fn recent(&self) -> u64 {
        self.recent.load(Ordering::Relaxed)
    }

    /// How much it is used for what it takes.
    pub(super) fn usefulness(&self) -> f64 {
        self.recent() as f64 / self.bytes() as f64
    }

    /// What it was used for long ago counts less.
    pub(super) fn fade(&self) {
        let _ = self.recent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |recent| Some(recent / 2));
    }

    /// Adds the rows of the versions through `version` that it lacks; `false` if it cannot, and must go.
    pub(super) fn catch_up(&self, read: &TableRead, version: Version, tails: &CodedTails) -> Result<bool> {
        if self.version() >= version {
            return Ok(!self.state.read().is_stale);
        }
        let mut state = self.state.write();
        if state.is_stale || state.version >= version {
            return Ok(!state.is_stale);
        }
        self.is_busy.store(true, Ordering::Relaxed);
        let added = self.add_newer(&mut state, read, version, tails);
        self.is_busy.store(false, Ordering::Relaxed);
        added
    }

    fn add_newer(&self, state: &mut State, read: &TableRead, version: Version, tails: &CodedTails) -> Result<bool> {
        let above = state.version;
        // Whatever goes wrong from here on leaves it with some of the rows.
        state.is_stale = true;
        let Some(dictionaries) = &read.dictionaries else { return Ok(false) };
        let newer: Vec<_> = segment_rows(read, Some(above))
            .into_iter()
            .filter(|rows| rows.segment.meta().max_version > above)
            .collect();
        if read.entry.changed_at != self.entry.changed_at
            || read.killed_through > above
            || newer.iter().map(|rows| rows.segment.meta().rows).sum::<u64>() > CATCH_UP_ROWS_MAX
            || !state.cuboid.add_segments(&newer, 1)?
        {
            return Ok(false);
        }
        for (chunk, rows) in tails.read(read, dictionaries, version)? {
            let first = chunk.versions().partition_point(|&version| version <= above.0).max(rows.start);
            if first < rows.end && !self.add(&mut state.cuboid, &chunk, first..rows.end)? {
                return Ok(false);
            }
        }
        self.is_through(state, version);
        Ok(true)
    }

    /// As [`Resident::catch_up`] through what is visible, from the tail alone and at the cost of what is new there.
    pub(super) fn follow(&self, store: &dyn Read, version: Version, tails: &CodedTails) -> Result<Followed> {
        let mut state = self.state.write();
        if state.is_stale || state.version >= version {
            return Ok(if state.is_stale { Followed::Never } else { Followed::Yes });
        }
        let (through, pieces) = match tails.newer(store, &self.entry, &self.dictionaries, state.version)? {
            Came::Rows(through, pieces) => (through, pieces),
            Came::Kills => {
                state.is_stale = true;
                return Ok(Followed::Never);
            }
            Came::Unknown => return Ok(Followed::BySnapshot),
        };
        state.is_stale = true;
        for (chunk, rows) in pieces {
            if !self.add(&mut state.cuboid, &chunk, rows)? {
                return Ok(Followed::Never);
            }
        }
        self.is_through(&mut state, through);
        Ok(Followed::Yes)
    }

    fn is_through(&self, state: &mut State, version: Version) {
        state.version = version;
        state.is_stale = false;
        self.version.store(version.0, Ordering::Release);
        self.bytes.store(state.cuboid.bytes(), Ordering::Relaxed);
    }

    fn add(&self, cuboid: &mut Cuboid, chunk: &CodedRows, rows: Range<usize>) -> Result<bool> {
        let measures = measure_columns(&self.entry.def, &self.shape.measures, &chunk.rows);
        cuboid.add_rows(&chunk.codes, &measures, rows)
    }
}
