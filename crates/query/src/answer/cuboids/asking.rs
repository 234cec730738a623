//! Answering from resident cuboids.

use super::Cuboids;
use super::resident::{Followed, Resident};
use super::selected::Selected;
use crate::answer::run::Bound;
use crate::answer::{Kept, columns};
use alluvia_snapshot::{Snapshot, Store, TableRead};
use alluvia_tree::Answer;
use alluvia_types::{Result, Version};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::sync::Arc;

impl Cuboids {
    /// Whether a cuboid that could answer has all of the snapshot already, so that answering does not wait for anything.
    pub(crate) fn is_ready(&self, bound: &Bound, snapshot: &Snapshot) -> bool {
        self.find(bound).is_some_and(|resident| resident.version() >= snapshot.version)
    }

    /// Of the cuboids that can answer a statement, the one that visits the fewest cells for it.
    fn find(&self, bound: &Bound) -> Option<Arc<Resident>> {
        if !bound.is_told_by_codes() {
            return None;
        }
        let shape = bound.shape();
        let fits = |resident: &&Arc<Resident>| {
            Arc::ptr_eq(&resident.entry.def, &bound.def) && resident.shape.contains(shape, &bound.dimensions)
        };
        let mut fit: Vec<Arc<Resident>> = self.resident.read().iter().filter(fits).cloned().collect();
        if fit.len() < 2 {
            return fit.pop();
        }
        let visits = |resident: &Arc<Resident>| {
            if resident.is_busy() {
                return (u64::MAX, resident.cells);
            }
            let state = resident.state.read();
            let of_box = |question| state.cuboid.visits(question, &|level| bound.dimensions[level]);
            (bound.asked().iter().map(of_box).fold(0, u64::saturating_add), resident.cells)
        };
        fit.into_iter().min_by_key(visits)
    }

    /// Answers a statement at its snapshot's version, or at a later one unless `exactly` that is wanted; gives the version. `None`
    /// where no cuboid can; the shape is then wanted.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn answer(
        &self,
        bound: &Bound,
        snapshot: &Snapshot,
        read: &TableRead,
        exactly: bool,
        store: &dyn Store,
        kept: &Kept,
        schema: &SchemaRef,
    ) -> Result<Option<(RecordBatch, Version)>> {
        let Some(resident) = self.find(bound) else {
            if bound.is_told_by_codes() {
                self.want(bound.shape());
            }
            return Ok(None);
        };
        if !resident.catch_up(read, snapshot.version, &kept.tails)? {
            self.remove(&resident);
            self.want(&resident.shape);
            return Ok(None);
        }
        let exactly = exactly.then_some(snapshot.version);
        ask(&resident, bound, snapshot.version, exactly, store, kept, schema)
    }

    /// As [`Cuboids::answer`] at `version` or a later one, without a snapshot and without waiting for more than what the tail has.
    /// `None` where that is not enough.
    pub(crate) fn answer_at_once(
        &self,
        bound: &Bound,
        version: Version,
        store: &dyn Store,
        kept: &Kept,
        schema: &SchemaRef,
    ) -> Result<Option<(RecordBatch, Version)>> {
        let Some(resident) = self.find(bound) else { return Ok(None) };
        if resident.is_busy() {
            return Ok(None);
        }
        let is_behind = resident.version() < version;
        if is_behind && resident.follow(store, version, &kept.tails)? != Followed::Yes {
            return Ok(None);
        }
        ask(&resident, bound, version, None, store, kept, schema)
    }
}

/// A cuboid's answer at `version` or a later one, or exactly at one.
fn ask(
    resident: &Arc<Resident>,
    bound: &Bound,
    version: Version,
    exactly: Option<Version>,
    store: &dyn Store,
    kept: &Kept,
    schema: &SchemaRef,
) -> Result<Option<(RecordBatch, Version)>> {
    let state = resident.state.read();
    if state.is_stale || state.version < version || exactly.is_some_and(|exactly| exactly != state.version) {
        return Ok(None);
    }
    let (Some(selected), Some(question)) = (Selected::of(resident, &state.cuboid, bound), bound.asked().first()) else {
        return Ok(None);
    };
    let mut found = Answer::new(question, selected.keys.clone());
    let mut selections = selected.selections.iter();
    if selections.any(|selection| state.cuboid.add_selected(selection, &mut found).is_none()) {
        return Ok(None);
    }
    let version = state.version;
    drop(state);
    resident.hit(store.clock().as_ref());
    Ok(columns::batch(bound, &found, &kept.names, schema).map(|batch| (batch, version)))
}
