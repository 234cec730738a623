//! Rows that change: kills at their versions, and the moves of sorts and merges.
//!
//! Invariants:
//! - [`Views::install`] switches segments, kills and key indexes in one step, under the locks of the tables whose rows
//!   moved: no kill lands on a segment that readers are just leaving, and an index names places of the newest base.
//! - K5: what may still be asked for keeps its rows ([`Views::horizon`], [`Cut::askable`](super::Cut)).

use super::{State, TableKills, Views};
use crate::key_tables::KeyGuard;
use crate::manifest::{Base, TableBase};
use crate::moves::{Moved, Moves};
use alluvia_keys::RowPlace;
use alluvia_tree::{Dead, Segment};
use alluvia_types::{SegmentId, Stage, TableId, Version, planted};
use arrow::record_batch::RecordBatch;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Everything of one table, for who changes rows of it and holds its lock.
#[derive(Clone, Debug)]
pub struct WholeTable {
    /// Its segments, also those that batches above the base's watermark have staged.
    pub segments: Vec<Arc<Segment>>,
    /// Its tail, above the base's watermark.
    pub tail: Vec<RecordBatch>,
    /// The base's watermark.
    pub base_through: Version,
    /// The kills, also of versions that are not visible yet.
    pub kills: TableKills,
}

impl Views {
    /// Everything of a table that is visible.
    pub fn whole_table(&self, table: TableId) -> WholeTable {
        let state = self.state.read();
        let base = state.base.tables.get(&table);
        let based = base.iter().flat_map(|base| base.sorted.iter().chain(base.merged()));
        let attached = state.attached.values().flatten().filter(|(owner, _)| *owner == table);
        let segments = based.chain(attached.flat_map(|(_, segments)| segments)).cloned().collect();
        let runs = state.tails.get(&table).map(|tail| tail.read(state.base.through, state.visible));
        WholeTable {
            segments,
            tail: runs.unwrap_or_default().into_iter().map(|(rows, _)| rows).collect(),
            base_through: state.base.through,
            kills: state.kills.get(&table).cloned().unwrap_or_default(),
        }
    }

    /// The kills of a table, of all versions that batches have got.
    pub fn kills_of(&self, table: TableId) -> TableKills {
        self.state.read().kills.get(&table).cloned().unwrap_or_default()
    }

    /// Kills rows at a version that a batch has just got. Called under the locks of the tables and of the sequencer.
    pub fn kill(&self, version: Version, kills: Vec<(TableId, Vec<RowPlace>)>) {
        if kills.iter().all(|(_, places)| places.is_empty()) {
            return;
        }
        let mut state = self.state.write();
        for (table, places) in kills.into_iter().filter(|(_, places)| !places.is_empty()) {
            state.kills.entry(table).or_default().kill(places, version);
        }
    }

    /// Takes back what versions above one have done: they will be given to other batches. Called under the lock of the
    /// sequencer.
    pub fn take_back(&self, above: Version) {
        let mut state = self.state.write();
        if !planted("kills not undone") {
            state.kills.values_mut().for_each(|kills| kills.take_back(above));
        }
        if !planted("index not undone") {
            self.keys.renew(above);
        }
    }

    /// From now on no snapshot is taken below a version, if the base has all through it; but where that is pinned. Stages that end
    /// before it are not read until they come as far.
    pub fn raise_floor(&self, floor: Version) {
        let mut state = self.state.write();
        state.floor = state.floor.max(floor.min(state.base.through));
    }

    /// The least version that anybody may still ask for: rows that were killed by then are dead for all.
    pub fn horizon(&self) -> Version {
        let state = self.state.read();
        let merged = state.catalog.tables().map(|entry| state.watermark(entry.def.id, Stage::Merged)).min();
        let merged = merged.map(|merged| merged.max(state.floor));
        let pinned = self.pins.versions().first().copied();
        let horizon = [merged, pinned].into_iter().flatten().fold(state.base.through, Version::min);
        if planted("horizon too far") { horizon.next() } else { horizon }
    }

    /// The newest version through `at` at which rows of a table were killed. Never too low; 0 if none is known.
    pub fn killed_through(&self, table: TableId, at: Version) -> Version {
        self.state.read().kills.get(&table).map_or(Version(0), |kills| kills.killed_through(at))
    }

    /// Whether all rows that a table had at a version are still there. Of a table whose rows never went that is so at every version, of others
    /// from the last sort on. Ask after the snapshot of the version was taken: what is so then, was so before.
    pub fn is_whole_at(&self, table: TableId, version: Version) -> bool {
        let state = self.state.read();
        let has_lost = state.base.tables.get(&table).is_some_and(TableBase::has_lost);
        version >= state.base.through || !has_lost && !state.kills.contains_key(&table)
    }

    /// The versions below `version` that readers still hold, ascending.
    pub fn pinned_below(&self, version: Version) -> Vec<Version> {
        let mut pinned = self.pins.versions();
        pinned.retain(|pinned| *pinned < version);
        pinned
    }

    /// Versions below the visible one that may be asked for: what is pinned, and where stages of tables end or may come
    /// to end, since a statement over several tables reads where the least organised of them is complete.
    pub(super) fn askable(&self, state: &State) -> Vec<Version> {
        let before = |version: Version| Version(version.0.saturating_sub(1));
        let mut askable = if planted("pin passed over") { Vec::new() } else { self.pins.versions() };
        for base in state.base.tables.values() {
            askable.extend(base.sorted.iter().map(|segment| before(segment.meta().min_version)));
        }
        askable.extend(state.attached.keys().map(|&version| before(version)));
        askable.extend(state.tails.values().filter_map(|tail| tail.first_above(state.base.through)).map(before));
        askable.extend(state.kills.values().filter_map(TableKills::first).map(before));
        askable.push(state.base.through);
        askable.sort_unstable();
        askable.dedup();
        askable
    }

    /// Switches readers to a base that the manifest now names (V2). What it holds leaves the tail, and what names rows by
    /// their places follows their moves. `keys` are the locks of all tables of which rows have moved: while they are
    /// held, no row of these is killed, and none gets a version by its key. Of a table without moves no dead row may have
    /// moved.
    pub fn install(&self, base: Base, moves: &[Moves], mut keys: Vec<KeyGuard<'_>>) {
        let (mut state, mut after) = loop {
            let made_in = self.keys.generation();
            let after_of = |moves: &Moves| (moves.table, moves.kills_after(&self.kills_of(moves.table)));
            let after: BTreeMap<TableId, BTreeMap<SegmentId, Arc<Dead>>> = moves.iter().map(after_of).collect();
            let state = self.state.write();
            // Kills that a full disk has taken back meanwhile would live on in these.
            if self.keys.generation() == made_in {
                break (state, after);
            }
        };
        let through = base.through;
        let is_sort = through > state.base.through;
        assert!(through >= state.base.through && through <= state.visible, "V2: the watermark only advances");
        assert!(!is_sort || through >= state.base.complete, "no sort ends below what files tell of");
        #[cfg(feature = "paranoid")]
        let before = state.rows_of(&base);
        let State { tails, tail_bytes, marks, attached, dropped, pinned, keys: records, kills, catalog, .. } =
            &mut *state;
        let taken_before = *tail_bytes;
        for tail in tails.values_mut() {
            let before = tail.bytes();
            tail.drop_through(through, pinned.get_mut());
            *tail_bytes -= before - tail.bytes();
        }
        tails.retain(|_, tail| tail.rows() > 0);
        let taken = taken_before - *tail_bytes;
        marks.forget_through(through);
        *attached = attached.split_off(&through.next());
        *dropped = dropped.split_off(&through.next());
        records.retain(|record| record.version > through);
        for (table, of_table) in kills.iter_mut() {
            let segments = after.remove(table).unwrap_or_else(|| {
                let unmoved = of_table.segments().map(|(segment, dead)| (segment, Arc::clone(dead)));
                unmoved.collect()
            });
            of_table.rebase(segments, through);
        }
        if is_sort {
            // A table whose creation is not visible yet may have rows that are born dead.
            let is_known = |table: &TableId| base.tables.contains_key(table) || catalog.by_id(*table).is_some();
            kills.retain(|table, kills| is_known(table) || kills.first().is_some());
        }
        state.base = Arc::new(base);
        #[cfg(feature = "paranoid")]
        {
            let gone = |table: TableId| moves.iter().filter(|m| m.table == table).map(Moves::gone).sum::<u64>();
            let mut kept = state.rows_of(&state.base);
            kept.iter_mut().for_each(|(&table, rows)| *rows += gone(table));
            assert_eq!(before, kept, "V2: rows moved, none came or went but the dead");
        }
        drop(state);
        if is_sort {
            self.pace.lock().sort_ends(self.clock.monotonic(), taken, self.bounds.bytes_max / 32);
        }
        // Nobody asks any more what was written after an older version.
        let horizon = self.horizon();
        keys.iter_mut().filter_map(|(_, keys)| keys.any()).for_each(|known| known.recent.forget_through(horizon));
        follow(&mut keys, moves);
        drop(keys);
        self.notify();
    }
}

/// Brings the places of rows that moved up to date.
fn follow(keys: &mut [KeyGuard<'_>], moves: &[Moves]) {
    for (table, keys) in keys.iter_mut().filter(|_| !planted("index not moved")) {
        let Some(known) = keys.any() else { continue };
        let index = &mut known.index;
        for moves in moves.iter().filter(|moves| moves.table == *table) {
            for &code in moves.codes() {
                // The key's row may be another one by now, which stays.
                let Some(place) = index.get(code) else { continue };
                if let Moved::To(place) = moves.of(place) {
                    index.insert(code, place);
                }
            }
        }
    }
}
