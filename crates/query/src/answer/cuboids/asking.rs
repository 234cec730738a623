//! Answering from resident cuboids.

use super::Cuboids;
use super::resident::{Followed, Resident};
use crate::answer::run::{Bound, Now};
use crate::answer::{Kept, columns};
use alluvia_snapshot::{Snapshot, Store, TableRead};
use alluvia_space::LevelSource;
use alluvia_space::codes::calendar;
use alluvia_tree::{Answer, GroupKeys, GroupSpan};
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
            self.want(bound.shape());
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
    resident: &Resident,
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
    let dimension_of = |level: usize| bound.dimensions[level];
    let ancestor = |finer: usize, coarser: usize, code: u32| ancestor(bound, finer, coarser, code);
    let spans = bound.groups.iter().map(|&level| state.cuboid.span_of(level, &dimension_of, &ancestor));
    let Some(spans) = spans.collect::<Option<Vec<GroupSpan>>>() else { return Ok(None) };
    // Codes that the cuboid has are in the dictionaries; filters and maps must know them all.
    let Some(Now { questions, maps }) = bound.now() else { return Ok(None) };
    let Some(keys) = GroupKeys::mapped(spans, maps) else { return Ok(None) };
    let mut found = Answer::new(&questions[0], keys);
    let mut answer = |question| state.cuboid.answer(question, &dimension_of, &ancestor, &mut found);
    if questions.iter().any(|question| answer(question).is_none()) {
        return Ok(None);
    }
    let version = state.version;
    drop(state);
    resident.hit(store.clock().as_ref());
    Ok(columns::batch(bound, &found, &kept.names, schema).map(|batch| (batch, version)))
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
