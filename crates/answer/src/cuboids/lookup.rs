//! Answering from resident cuboids.

use super::resident::{Effort, Followed, Resident};
use super::selected::Selected;
use super::{Cuboids, Shape};
use crate::bound::Bound;
use crate::{Kept, columns};
use alluvia_snapshot::{Read, Snapshot, TableRead};
use alluvia_tree::Answer;
use alluvia_types::{Clock, Result, Version};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::sync::Arc;

/// What asking one cuboid came to.
enum CuboidAnswer {
    Answered(RecordBatch, Version),
    /// Its cells do not tell: rows are NULL at one of its levels, which may be under any parent.
    NeverOfIt,
    /// A least or greatest value is not known since its row was killed.
    Open,
    /// Sums are lost since a row was killed.
    Lost,
    /// Not at this version, or the general way must answer.
    Not,
}

impl Cuboids {
    /// Whether the cuboids that could answer have all of the snapshot already, so that answering does not wait for anything.
    pub fn is_ready(&self, bound: &Bound, snapshot: &Snapshot) -> bool {
        let fit = self.fitting(bound);
        !fit.is_empty() && fit.iter().all(|resident| resident.version() >= snapshot.version)
    }

    /// The cuboids that have what a statement asks for, those first that visit the fewest cells for it.
    fn fitting(&self, bound: &Bound) -> Vec<Arc<Resident>> {
        if !bound.is_told_by_codes() {
            return Vec::new();
        }
        let shape = bound.shape();
        let fits = |resident: &&Arc<Resident>| {
            Arc::ptr_eq(&resident.entry.def, &bound.def) && resident.shape.contains(shape, &bound.dimensions)
        };
        let mut fit: Vec<Arc<Resident>> = self.resident.read().iter().filter(fits).cloned().collect();
        if fit.len() > 1 {
            fit.sort_by_cached_key(|resident| {
                if resident.is_busy() {
                    return (u64::MAX, resident.cells);
                }
                let state = resident.state.read();
                let of_box = |question| state.cuboid.visits(question, &|level| bound.dimensions[level]);
                (bound.asked().iter().map(of_box).fold(0, u64::saturating_add), resident.cells)
            });
        }
        fit
    }

    /// Answers a statement at its snapshot's version, or at a later one unless `exactly` that is wanted; gives the version. `None`
    /// where no cuboid can; the shape is then wanted.
    #[allow(clippy::too_many_arguments)]
    pub fn answer(
        &self,
        bound: &Bound,
        snapshot: &Snapshot,
        read: &TableRead,
        exactly: bool,
        store: &dyn Read,
        kept: &Kept,
        schema: &SchemaRef,
    ) -> Result<Option<(RecordBatch, Version)>> {
        let exactly = exactly.then_some(snapshot.version);
        let (fit, clock) = (self.fitting(bound), store.clock().as_ref());
        let mut is_any_open = false;
        for resident in &fit {
            // At the cost of what is new, where a later version will do: the tail of a snapshot may need all its codes anew.
            if exactly.is_none() && resident.version() < snapshot.version {
                resident.follow(store, snapshot.version, &kept.tails, Effort::All)?;
            }
            if !resident.catch_up(store, snapshot, read, &kept.tails)? {
                self.remove(resident);
                self.want(&resident.shape);
                return Ok(None);
            }
            match ask(resident, bound, snapshot.version, exactly, clock, kept, schema)? {
                CuboidAnswer::Answered(batch, version) => return Ok(Some((batch, version))),
                CuboidAnswer::NeverOfIt => {}
                open @ (CuboidAnswer::Open | CuboidAnswer::Lost) => {
                    self.want_anew(resident, matches!(open, CuboidAnswer::Lost), store);
                    is_any_open = true;
                }
                CuboidAnswer::Not => return Ok(None),
            }
        }
        if bound.is_told_by_codes() && !is_any_open {
            self.want_for(bound, &fit);
        }
        Ok(None)
    }

    /// Wants a cuboid that tells what those that fit do not: one of these very levels would tell no more, but one that has the
    /// coarser ones that are named, too, may.
    fn want_for(&self, bound: &Bound, fit: &[Arc<Resident>]) {
        let is_there = |shape: &Shape| fit.iter().any(|resident| resident.shape.levels == shape.levels);
        let shape = bound.shape();
        if !is_there(shape) {
            self.want(shape);
        } else if let Some(apart) = shape.apart(bound.asked()).filter(|apart| !is_there(apart)) {
            self.want(&apart);
        }
    }

    /// As [`Cuboids::answer`] at `version` or a later one, without a snapshot and without waiting for more than what the tail has.
    /// `None` where that is not enough.
    pub fn answer_at_once(
        &self,
        bound: &Bound,
        version: Version,
        store: &dyn Read,
        kept: &Kept,
        schema: &SchemaRef,
    ) -> Result<Option<(RecordBatch, Version)>> {
        for resident in self.fitting(bound) {
            if resident.is_busy() {
                return Ok(None);
            }
            let is_behind = resident.version() < version;
            if is_behind && resident.follow(store, version, &kept.tails, Effort::Little)? != Followed::Yes {
                return Ok(None);
            }
            match ask(&resident, bound, version, None, store.clock().as_ref(), kept, schema)? {
                CuboidAnswer::Answered(batch, version) => return Ok(Some((batch, version))),
                // The general way asks the others, too, and wants it anew.
                CuboidAnswer::NeverOfIt | CuboidAnswer::Open | CuboidAnswer::Lost => {}
                CuboidAnswer::Not => return Ok(None),
            }
        }
        Ok(None)
    }
}

/// A cuboid's answer at `version` or a later one, or exactly at one.
fn ask(
    resident: &Arc<Resident>,
    bound: &Bound,
    version: Version,
    exactly: Option<Version>,
    clock: &dyn Clock,
    kept: &Kept,
    schema: &SchemaRef,
) -> Result<CuboidAnswer> {
    let state = resident.state.read();
    if state.is_stale || state.version < version || exactly.is_some_and(|exactly| exactly != state.version) {
        return Ok(CuboidAnswer::Not);
    }
    let Some(selected) = Selected::of(resident, &state.cuboid, bound) else { return Ok(CuboidAnswer::NeverOfIt) };
    let Some(question) = bound.asked().first() else { return Ok(CuboidAnswer::Not) };
    let mut found = Answer::new(question, selected.keys.clone());
    let mut selections = selected.selections.iter();
    if selections.any(|selection| state.cuboid.add_selected(selection, &mut found).is_none()) {
        return Ok(match (state.cuboid.has_lost(question), question.measures.iter().any(|of| of.wanted.min_max)) {
            (true, _) => CuboidAnswer::Lost,
            (false, true) => CuboidAnswer::Open,
            (false, false) => CuboidAnswer::Not,
        });
    }
    let version = state.version;
    drop(state);
    resident.hit(clock);
    // A cuboid's cells are members.
    let Some(merged) = columns::merge_by_name(bound, &found, &kept.names) else { return Ok(CuboidAnswer::Not) };
    let batch = columns::batch(bound, merged.as_ref().unwrap_or(&found), schema);
    Ok(batch.map_or(CuboidAnswer::Not, |batch| CuboidAnswer::Answered(batch, version)))
}
