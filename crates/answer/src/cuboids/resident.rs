//! One cuboid in memory: how it is built, and how it follows the log.
//!
//! Invariant: a resident cuboid holds exactly the rows of its table through its version, whatever stage they are in: sorting
//! and merging do not touch it. It only moves forward, by the rows that were killed since, which are taken off, and by those that
//! came; once it cannot, it is stale for ever. Its version is pinned: so whatever was killed since can be found and read, wherever
//! sorts and merges have taken it.
//!
//! - A row that came and was killed since is neither added nor taken off; so is one that was born dead.
//! - A row that it never had is not among those that were killed: it had all through its version that were alive then.
//! - Sums of floats that are no decimal numbers, and of squares of floats, are lost with the first kill of such a value: it answers what
//!   needs none of them.
//! - Rows are taken off before others are added: a value that is replaced by itself leaves the least and greatest as they are known.

use super::super::run::{code_bounds, measure_columns, segment_rows};
use super::super::tail::{CodedRows, CodedTails, TailRows, code};
use super::selected::Ancestors;
use super::shape::Shape;
use alluvia_catalog::{Dictionaries, TableEntry};
use alluvia_snapshot::{Killed, Pin, Read, Snapshot, TableRead};
use alluvia_tree::{Cuboid, GroupSpan, SegmentRows};
use alluvia_types::{Clock, Result, Version};
use parking_lot::RwLock;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Rows of segments newer than a cuboid up to which it catches up; beyond, it is built anew.
const CATCH_UP_ROWS_MAX: u64 = 4 << 20;
/// Rows of the tail that get their codes while somebody waits for an answer at once.
const CODED_AT_ONCE_MAX: usize = 1 << 16;
/// Killed rows of segments that are read while somebody waits for an answer at once.
const KILLED_AT_ONCE_MAX: u64 = 1 << 10;
/// After so many times as long as it took to build it, a cuboid that could not tell a bound is built anew.
const TIMES_BUILD: u32 = 20;
/// But not sooner after.
const REBUILT_AFTER: Duration = Duration::from_secs(1);

/// One resident cuboid.
#[derive(Debug)]
pub struct Resident {
    /// What it is of.
    pub shape: Shape,
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
    /// How many cells it has.
    pub cells: u64,
    bytes: AtomicU64,
    /// When it was built.
    built: Duration,
    /// How long it took to build it.
    pub build: Duration,
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
    /// Keeps the version readable.
    pin: Arc<Pin>,
    pub(super) cuboid: Cuboid,
    /// It can be used no more.
    pub(super) is_stale: bool,
}

/// How much of the log is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effort {
    /// As much as an answer can wait for that is to be given at once.
    Little,
    /// As much as the tail has.
    All,
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
        let now = clock.monotonic();
        Ok(Some(Resident {
            shape: shape.clone(),
            entry: Arc::clone(&read.entry),
            dictionaries: self.dictionaries,
            cells: cuboid.cells(),
            bytes: AtomicU64::new(cuboid.bytes()),
            version: AtomicU64::new(snapshot.version.0),
            is_busy: AtomicBool::new(false),
            ancestors: Ancestors::default(),
            state: RwLock::new(State {
                version: snapshot.version,
                pin: Arc::clone(&snapshot.pin),
                cuboid,
                is_stale: false,
            }),
            build: now.saturating_sub(start),
            built: now,
            is_pinned: AtomicBool::new(false),
            hits: AtomicU64::new(0),
            recent: AtomicU64::new(0),
            last_hit_micros: AtomicI64::new(0),
        }))
    }
}

impl Resident {
    /// Everything through this version is in it.
    pub fn version(&self) -> Version {
        Version(self.version.load(Ordering::Acquire))
    }

    /// Whether whoever asks may have to wait for long.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }

    /// Bytes in memory, about.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed) + self.ancestors.bytes()
    }

    /// Answers so far.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// When it answered last, microseconds since 1970.
    pub fn last_hit_micros(&self) -> Option<i64> {
        Some(self.last_hit_micros.load(Ordering::Relaxed)).filter(|&micros| micros > 0)
    }

    /// Whether it is kept whatever others ask for.
    pub fn is_pinned(&self) -> bool {
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

    /// Whether it was built long enough ago to be built anew for what it cannot tell any more.
    pub(super) fn may_be_rebuilt(&self, clock: &dyn Clock) -> bool {
        clock.monotonic().saturating_sub(self.built) >= (TIMES_BUILD * self.build).max(REBUILT_AFTER)
    }

    /// Takes off and adds what lies between its version and a snapshot's; `false` if it cannot, and must go.
    pub(super) fn catch_up(
        &self,
        store: &dyn Read,
        snapshot: &Snapshot,
        read: &TableRead,
        tails: &CodedTails,
    ) -> Result<bool> {
        if self.version() >= snapshot.version {
            return Ok(!self.state.read().is_stale);
        }
        let mut state = self.state.write();
        if state.is_stale || state.version >= snapshot.version {
            return Ok(!state.is_stale);
        }
        self.is_busy.store(true, Ordering::Relaxed);
        let added = self.add_newer(&mut state, store, snapshot, read, tails);
        self.is_busy.store(false, Ordering::Relaxed);
        added
    }

    fn add_newer(
        &self,
        state: &mut State,
        store: &dyn Read,
        snapshot: &Snapshot,
        read: &TableRead,
        tails: &CodedTails,
    ) -> Result<bool> {
        let (above, version) = (state.version, snapshot.version);
        // Whatever goes wrong from here on leaves it with some of the rows.
        state.is_stale = true;
        let Some(dictionaries) = &read.dictionaries else { return Ok(false) };
        if read.entry.changed_at != self.entry.changed_at {
            return Ok(false);
        }
        let newer: Vec<_> = segment_rows(read, Some(above))
            .into_iter()
            .filter(|rows| rows.segment.meta().max_version > above)
            .collect();
        let killed = match read.killed_through > above {
            true => store.killed(read.entry.def.id, above, version),
            false => Some(Killed::default()),
        };
        let Some(killed) = killed else { return Ok(false) };
        let rows = newer.iter().map(|rows| rows.segment.meta().rows).sum::<u64>() + killed.rows_at_most();
        if rows > CATCH_UP_ROWS_MAX || !self.take_off(state, &killed)? || !state.cuboid.add_segments(&newer, 1)? {
            return Ok(false);
        }
        for (chunk, rows) in tails.read(read, dictionaries, version)? {
            let first = chunk.versions().partition_point(|&version| version <= above.0).max(rows.start);
            if first < rows.end && !self.add(&mut state.cuboid, &chunk, first..rows.end)? {
                return Ok(false);
            }
        }
        self.is_through(state, version, Arc::clone(&snapshot.pin));
        Ok(true)
    }

    /// As [`Resident::catch_up`] through what is visible, from the tail and the rows that were killed, at the cost of what is new.
    pub(super) fn follow(
        &self,
        store: &dyn Read,
        version: Version,
        tails: &CodedTails,
        effort: Effort,
    ) -> Result<Followed> {
        let mut state = self.state.write();
        if state.is_stale || state.version >= version {
            return Ok(if state.is_stale { Followed::Never } else { Followed::Yes });
        }
        let (coded_max, killed_max) = match effort {
            Effort::Little => (CODED_AT_ONCE_MAX, KILLED_AT_ONCE_MAX),
            Effort::All => (usize::MAX, CATCH_UP_ROWS_MAX),
        };
        let Some(came) = tails.newer(store, &self.entry, &self.dictionaries, state.version, coded_max)? else {
            return Ok(Followed::BySnapshot);
        };
        if came.killed.rows_of_segments_at_most() > killed_max {
            return Ok(Followed::BySnapshot);
        }
        state.is_stale = true;
        // Blocks may have to be read.
        self.is_busy.store(effort == Effort::All && !came.killed.segments.is_empty(), Ordering::Relaxed);
        let is_taken_off = self.take_off(&mut state, &came.killed);
        self.is_busy.store(false, Ordering::Relaxed);
        if !is_taken_off? {
            return Ok(Followed::Never);
        }
        for (chunk, rows) in came.rows {
            if !self.add(&mut state.cuboid, &chunk, rows)? {
                return Ok(Followed::Never);
            }
        }
        self.is_through(&mut state, came.through, came.pin);
        Ok(Followed::Yes)
    }

    fn is_through(&self, state: &mut State, version: Version, pin: Arc<Pin>) {
        state.version = version;
        state.pin = pin;
        state.is_stale = false;
        self.version.store(version.0, Ordering::Release);
        self.bytes.store(state.cuboid.bytes(), Ordering::Relaxed);
    }

    /// Takes off rows that it has and that were killed; `false` if it cannot.
    fn take_off(&self, state: &mut State, killed: &Killed) -> Result<bool> {
        let mut is_done = state.cuboid.take_off_segments(&killed.segments)?;
        for rows in &killed.tail {
            let chunk = code(&self.entry, &self.dictionaries, rows)?;
            let measures = measure_columns(&self.entry.def, &self.shape.measures, &chunk.rows);
            is_done = is_done && state.cuboid.take_off_rows(&chunk.codes, &measures, 0..rows.num_rows())?;
        }
        Ok(is_done)
    }

    fn add(&self, cuboid: &mut Cuboid, chunk: &CodedRows, rows: Range<usize>) -> Result<bool> {
        let measures = measure_columns(&self.entry.def, &self.shape.measures, &chunk.rows);
        cuboid.add_rows(&chunk.codes, &measures, rows)
    }
}
