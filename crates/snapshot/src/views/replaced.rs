//! A table that has lost a segment, or that is open again: its rows are others from now on, and none of them has moved.
//!
//! Invariants:
//! - Readers are switched in one step, under the table's lock: no row is killed meanwhile.
//! - What was made of the rows before (the key index, the heap, kills of rows that are gone) is not used any more. When keys were written
//!   last is known as before.
//! - Whoever has a snapshot keeps what he reads.

use super::{TableKills, Views};
use crate::key_tables::KeyGuard;
use crate::manifest::Base;
use alluvia_tree::Dead;
use alluvia_types::{SegmentId, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Views {
    /// The kills of a table that is closed, and is about to be opened.
    pub fn set_kills(&self, table: TableId, dead: BTreeMap<SegmentId, Arc<Dead>>) {
        let mut state = self.state.write();
        let through = state.base.through;
        state.kills.insert(table, TableKills::of_segments(dead, through));
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
        keys.iter_mut().filter(|(of, _)| *of == table).for_each(|(_, keys)| keys.forget_index());
        drop(keys);
        drop(heaps);
        self.notify();
    }
}
