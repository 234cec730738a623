//! Cuts of the tail, which sorts begin with.
//!
//! Room in the tail comes back when a sort is installed, and not before. So where much waits, a sort does not take all of it: it ends at a
//! mark, and the next one goes on from there.
//!
//! Invariants:
//! - A mark is a version that was the visible one, with the definitions and producers as of it.
//! - It is no older than what any file tells of: where a start reads the log behind files, it is caught up with before a mark is set.
//! - No table was dropped or changed between a mark and the visible version: what is read at the mark is as it was.

use super::{State, TableKills, Views};
use crate::keys::KeyRecord;
use crate::manifest::{Base, ProducerState};
use alluvia_catalog::Catalog;
use alluvia_tree::Segment;
use alluvia_types::{TableId, Version};
use arrow::record_batch::RecordBatch;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// What a sort cycle starts from: one consistent cut.
#[derive(Debug)]
pub struct Cut {
    /// Everything through this version.
    pub through: Version,
    /// The definitions as of it.
    pub catalog: Arc<Catalog>,
    /// The producers as of it.
    pub producers: BTreeMap<String, ProducerState>,
    /// Keys of batches above the base's watermark.
    pub keys: Vec<KeyRecord>,
    /// Tail rows above the base's watermark.
    pub tails: Vec<(TableId, Vec<RecordBatch>)>,
    /// Staged loads above the base's watermark, with their versions; also those of tables that were dropped since, whose files may go once
    /// a manifest lets the log give up the records that name them.
    pub attached: Vec<(Version, TableId, Vec<Arc<Segment>>)>,
    /// The kills of tables that have any, also of versions above the cut.
    pub kills: HashMap<TableId, TableKills>,
    /// Versions that may be asked for beside those from the cut on, ascending.
    pub askable: Vec<Version>,
    /// The base they are above.
    pub base: Arc<Base>,
}

/// A version that a sort may end at.
#[derive(Debug)]
struct Mark {
    through: Version,
    catalog: Arc<Catalog>,
    producers: BTreeMap<String, ProducerState>,
}

/// Marks in the tail, about so many bytes of rows apart.
#[derive(Debug)]
pub(super) struct Marks {
    step_bytes: u64,
    /// Bytes that came since the last mark.
    bytes: u64,
    marks: VecDeque<Mark>,
}

impl Marks {
    pub(super) fn new(step_bytes: u64) -> Marks {
        Marks { step_bytes, bytes: 0, marks: VecDeque::new() }
    }

    /// Called where a table is dropped or changed.
    pub(super) fn clear(&mut self) {
        self.bytes = 0;
        self.marks.clear();
    }

    /// Called when the base is complete through this version.
    pub(super) fn forget_through(&mut self, through: Version) {
        let known = self.marks.partition_point(|mark| mark.through <= through);
        self.marks.drain(..known);
    }

    /// The mark that ends the first `steps` steps, if more than these are there.
    fn after(&self, steps: usize) -> Option<&Mark> {
        assert!(steps > 0, "a sort takes something");
        self.marks.get(steps - 1).filter(|_| self.marks.len() > steps)
    }
}

impl State {
    /// Called when batches became visible, with the bytes of their rows.
    pub(super) fn mark(&mut self, bytes: u64) {
        if self.visible < self.base.complete {
            return;
        }
        self.marks.bytes += bytes;
        if self.marks.bytes >= self.marks.step_bytes {
            self.marks.bytes = 0;
            let (catalog, producers) = (Arc::clone(&self.catalog), self.producers.clone());
            self.marks.marks.push_back(Mark { through: self.visible, catalog, producers });
        }
    }
}

impl Views {
    /// Keys of batches that no sort has taken.
    pub fn unsorted_keys(&self) -> Vec<KeyRecord> {
        self.state.read().keys.clone()
    }

    /// What a sort cycle starts from: so many steps of what waits, or all of it where that is not much more.
    pub fn cut(&self, steps: usize) -> Cut {
        let now = self.clock.monotonic();
        let state = self.state.read();
        let above = state.base.through;
        let mark = state.marks.after(steps);
        let through = mark.map_or(state.visible, |mark| mark.through);
        let tails = state.tails.iter().map(|(&table, tail)| {
            let rows = tail.read(above, through).into_iter().map(|(rows, _)| rows);
            (table, rows.collect::<Vec<_>>())
        });
        let mut tails: Vec<_> = tails.filter(|(_, runs)| !runs.is_empty()).collect();
        // Segments are numbered in this order: a run follows from its seed.
        tails.sort_unstable_by_key(|(table, _)| *table);
        let attached = state.attached.range(..=through).chain(state.dropped.range(..=through));
        let attached = attached.flat_map(|(&version, loads)| {
            loads.iter().map(move |(table, segments)| (version, *table, segments.clone()))
        });
        let cut = Cut {
            through,
            catalog: Arc::clone(mark.map_or(&state.catalog, |mark| &mark.catalog)),
            producers: mark.map_or(&state.producers, |mark| &mark.producers).clone(),
            keys: state.keys.iter().filter(|record| record.version <= through).cloned().collect(),
            tails,
            attached: attached.collect(),
            kills: state.kills.clone(),
            askable: self.askable(&state),
            base: Arc::clone(&state.base),
        };
        drop(state);
        self.pace.lock().sort_begins(now);
        cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_ends_at_a_mark_only_where_more_than_its_steps_wait() {
        let mut marks = Marks::new(10);
        let catalog = Arc::new(Catalog::default());
        let mark =
            |version| Mark { through: Version(version), catalog: Arc::clone(&catalog), producers: BTreeMap::new() };
        let after = |marks: &Marks, steps| marks.after(steps).map(|mark| mark.through.0);
        marks.marks.extend([3, 5].map(mark));
        assert_eq!((after(&marks, 1), after(&marks, 2)), (Some(3), None));
        marks.marks.push_back(mark(9));
        assert_eq!((after(&marks, 1), after(&marks, 2), after(&marks, 3)), (Some(3), Some(5), None));
        marks.forget_through(Version(4));
        assert_eq!(after(&marks, 1), Some(5), "a sort may have gone past a mark");
        marks.clear();
        assert_eq!(after(&marks, 1), None);
    }
}
