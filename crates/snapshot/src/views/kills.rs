//! The kills of a table: which of its rows are dead, and since when.
//!
//! Invariants:
//! - Kills are there from the moment their batch has its version, before it is durable: two batches of one group see each
//!   other. Readers, whose version is lower, do not.
//! - A row is killed once (K3), and after it came, or by the batch that brings it: then nobody ever sees it.
//! - Kills of rows in the tail are known by the rows' identities, kills of rows in segments by their places. A sort takes
//!   the ones to the others in the step in which it takes the rows ([`super::Views::install`]).

use alluvia_keys::RowPlace;
use alluvia_tree::{Dead, DeadRows, Segment};
use alluvia_types::{SegmentId, Version, planted};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Rows of the tail, by version and ordinal, and the versions that killed them.
pub type TailDead = BTreeMap<(Version, u64), Version>;

/// The kills of one table, of all versions that batches have got.
#[derive(Clone, Debug, Default)]
pub struct TableKills {
    segments: BTreeMap<SegmentId, Arc<Dead>>,
    tail: Arc<TailDead>,
    /// The same in the order of the versions that killed them, which stand before the rows.
    tail_log: Arc<Vec<(Version, (Version, u64))>>,
    /// Versions that killed rows, above the base's watermark, ascending.
    versions: VecDeque<Version>,
    /// The newest version that killed rows and is no more among these.
    before: Version,
}

impl TableKills {
    /// The kills that files tell of.
    pub(crate) fn of_segments(segments: BTreeMap<SegmentId, Arc<Dead>>, through: Version) -> TableKills {
        TableKills { segments, before: through, ..TableKills::default() }
    }

    /// Kills of a segment's rows.
    pub fn of(&self, segment: SegmentId) -> Option<&Arc<Dead>> {
        self.segments.get(&segment)
    }

    /// Segments with dead rows.
    pub fn segments(&self) -> impl Iterator<Item = (SegmentId, &Arc<Dead>)> {
        self.segments.iter().map(|(&segment, dead)| (segment, dead))
    }

    /// Rows of the tail that are dead.
    pub fn tail(&self) -> &Arc<TailDead> {
        &self.tail
    }

    /// How many rows of the tail are dead at a version.
    pub(crate) fn dead_in_tail(&self, at: Version) -> u64 {
        self.tail_log.partition_point(|(killed, _)| *killed <= at) as u64
    }

    /// Whether nothing is dead.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.tail.is_empty() && self.versions.is_empty()
    }

    /// Bytes of memory that they take, about.
    pub(crate) fn bytes(&self) -> u64 {
        /// A row's entry in a tree and in a list.
        const TAIL_ROW: usize = 2 * size_of::<(Version, (Version, u64))>() + size_of::<usize>();
        let segments: usize = self.segments.values().map(|dead| dead.bytes()).sum();
        (segments + self.tail.len() * TAIL_ROW) as u64
    }

    /// When a row was killed.
    pub fn killed_at(&self, place: RowPlace) -> Option<Version> {
        match place {
            RowPlace::Segment { segment, row } => self.segments.get(&segment)?.killed_at(row.into()),
            RowPlace::Tail { version, ordinal } => self.tail.get(&(version, ordinal)).copied(),
        }
    }

    /// The rows of a segment that are dead at a version.
    pub(crate) fn dead_rows(&self, segment: &Segment, at: Version) -> Option<DeadRows> {
        self.segments.get(&segment.meta().id).and_then(|dead| DeadRows::new(dead, at))
    }

    /// The newest version through `at` at which rows were killed. Never too low; 0 if none is known.
    pub(crate) fn killed_through(&self, at: Version) -> Version {
        if planted("follower not told") {
            return self.before.min(at);
        }
        let known = self.versions.partition_point(|version| *version <= at);
        match known.checked_sub(1) {
            Some(last) => self.versions[last],
            None => self.before.min(at),
        }
    }

    /// The first version above the base's watermark that kills rows.
    pub(crate) fn first(&self) -> Option<Version> {
        self.versions.front().copied()
    }

    /// Kills rows at a version that is above all before. Tells how many were alive.
    pub(crate) fn kill(&mut self, rows: impl IntoIterator<Item = RowPlace>, version: Version) -> u64 {
        let mut killed = 0;
        for place in rows {
            let is_new = match place {
                RowPlace::Segment { segment, row } => {
                    Arc::make_mut(self.segments.entry(segment).or_default()).kill(row.into(), version)
                }
                RowPlace::Tail { version: came, ordinal } => {
                    // As in a segment, the first kill stays.
                    let tail = Arc::make_mut(&mut self.tail);
                    let is_new = !tail.contains_key(&(came, ordinal));
                    tail.entry((came, ordinal)).or_insert(version);
                    if is_new {
                        Arc::make_mut(&mut self.tail_log).push((version, (came, ordinal)));
                    }
                    is_new
                }
            };
            killed += u64::from(is_new);
        }
        if killed > 0 && self.versions.back() != Some(&version) {
            self.versions.push_back(version);
        }
        killed
    }

    /// Forgets the kills of a segment that is gone with its rows.
    pub(crate) fn forget_segment(&mut self, segment: SegmentId) {
        self.segments.remove(&segment);
    }

    /// Takes back what versions above one have killed: their batches were not durable.
    pub(crate) fn take_back(&mut self, above: Version) {
        while self.versions.back().is_some_and(|version| *version > above) {
            self.versions.pop_back();
        }
        for dead in self.segments.values_mut() {
            Arc::make_mut(dead).take_back(above);
        }
        self.segments.retain(|_, dead| dead.rows() > 0);
        Arc::make_mut(&mut self.tail).retain(|_, killed| *killed <= above);
        Arc::make_mut(&mut self.tail_log).retain(|(killed, _)| *killed <= above);
    }

    /// Rows of the tail that were killed above one version and through another, in the order of the versions that killed
    /// them. It costs what is found.
    pub(crate) fn killed_in_tail(&self, above: Version, through: Version) -> impl Iterator<Item = (Version, u64)> {
        let first = self.tail_log.partition_point(|(killed, _)| *killed <= above);
        self.tail_log[first..].iter().take_while(move |(killed, _)| *killed <= through).map(|(_, row)| *row)
    }

    /// The base has everything through a version now: `segments` are all segments that have dead rows, and rows of the
    /// tail of these versions are in segments.
    pub(crate) fn rebase(&mut self, segments: BTreeMap<SegmentId, Arc<Dead>>, through: Version) {
        self.segments = segments;
        if self.tail.keys().next().is_some_and(|(came, _)| *came <= through) {
            Arc::make_mut(&mut self.tail).retain(|(came, _), _| *came > through);
            Arc::make_mut(&mut self.tail_log).retain(|(_, (came, _))| *came > through);
        }
        while self.versions.front().is_some_and(|version| *version <= through) {
            self.before = self.versions.pop_front().unwrap_or(self.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(version: u64, ordinal: u64) -> RowPlace {
        RowPlace::Tail { version: Version(version), ordinal }
    }

    fn between(kills: &TableKills, above: u64, through: u64) -> Vec<(u64, u64)> {
        let rows = kills.killed_in_tail(Version(above), Version(through));
        rows.map(|(version, ordinal)| (version.0, ordinal)).collect()
    }

    #[test]
    fn who_follows_is_told_of_rows_of_the_tail_by_the_versions_that_killed_them() {
        let mut kills = TableKills::default();
        kills.kill([tail(3, 1), tail(2, 0)], Version(5));
        // One that is born dead, and one that is dead already.
        kills.kill([tail(6, 0), tail(3, 1)], Version(6));
        kills.kill([tail(3, 0)], Version(8));
        assert_eq!(between(&kills, 0, 9), [(3, 1), (2, 0), (6, 0), (3, 0)]);
        assert_eq!(between(&kills, 5, 7), [(6, 0)]);
        assert_eq!(between(&kills, 8, 9), []);
        assert_eq!([4, 5, 7, 9].map(|at| kills.dead_in_tail(Version(at))), [0, 2, 3, 4]);
        kills.take_back(Version(6));
        assert_eq!(between(&kills, 4, 9), [(3, 1), (2, 0), (6, 0)]);
        kills.rebase(BTreeMap::new(), Version(2));
        assert_eq!(between(&kills, 0, 9), [(3, 1), (6, 0)], "the others are in segments");
    }
}
