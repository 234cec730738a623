//! A table that has lost a segment, or that is open again: its rows are others from now on, and none of them has moved.
//!
//! Invariants:
//! - Readers are switched in one step, under the table's lock: no row is killed meanwhile.
//! - What was made of the rows that are gone goes: their keys, their kills, the heap. What batches have done that are not visible yet stays
//!   in the key index, and when keys were written last is known as before.
//! - No row is in the log alone that was passed over since a row of the segment had its key ([`Views::has_passed_over`]): the log is read
//!   again without the segment, and the row would be there.
//! - Whoever has a snapshot keeps what he reads.

use super::{TableKills, Views};
use crate::key_tables::{KeyGuard, KeyTable};
use crate::manifest::Base;
use alluvia_tree::Dead;
use alluvia_types::{SegmentId, TableId, planted};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Views {
    /// The kills of a table that is closed, and is about to be opened.
    pub fn set_kills(&self, table: TableId, dead: BTreeMap<SegmentId, Arc<Dead>>) {
        let mut state = self.state.write();
        let through = state.base.through;
        state.kills.insert(table, TableKills::of_segments(dead, through));
    }

    /// Whether rows of a table are in the log, and in no file, that were dead when they came: their key was there, or came again within
    /// their batch. Also those of versions that are not visible yet. Called under the table's lock, which keeps others from coming.
    pub fn has_passed_over(&self, table: TableId) -> bool {
        let state = self.state.read();
        let Some(kills) = state.kills.get(&table) else { return false };
        let files = state.base.tables.get(&table);
        let is_in_files = |id| {
            files.is_some_and(|files| files.sorted.iter().chain(files.merged()).any(|segment| segment.meta().id == id))
        };
        // Of a staged load any dead row counts: few loads are in the log alone for long.
        kills.tail().iter().any(|((came, _), killed)| came == killed)
            || kills.segments().any(|(id, _)| !is_in_files(id))
    }

    /// Switches readers to a base that the manifest now names: of `table` alone it has other segments. `segment` is gone.
    pub fn replace(&self, base: Base, table: TableId, segment: SegmentId, mut keys: Vec<KeyGuard<'_>>) {
        let mut state = self.state.write();
        assert_eq!(base.through, state.base.through, "V2: a base without a segment is of the same version");
        if let Some(kills) = state.kills.get_mut(&table) {
            kills.forget_segment(segment);
        }
        state.base = Arc::new(base);
        let heaps = self.heaps.feed(table, None);
        drop(state);
        for (_, keys) in keys.iter_mut().filter(|(of, _)| *of == table) {
            if planted("index made anew for a forgotten segment") {
                **keys = KeyTable::default();
            } else if let Some(known) = keys.any() {
                known.index.forget_segment(segment);
            }
        }
        drop(keys);
        drop(heaps);
        self.notify();
    }
}
