//! Merged segments written anew without their dead rows, where new rows would not take them along for long: for a purge,
//! because half of their rows are dead, or because some have been dead for as long as their table lets them.
//!
//! Invariants:
//! - What goes is dead for everybody (K5), whoever asks for it.
//! - Of a segment that is half dead at least as many rows go as are written. So all of that together writes no more rows
//!   than were ever killed, however often rows are.
//! - Of several that are due, what was killed first goes first; and where it is one at a time, the table that was served last comes last. So
//!   none waits for ever, whatever else is deleted meanwhile.
//! - A segment all of whose rows are dead goes, and is neither read nor written.

use super::Pipeline;
use super::plan::{MergePlan, Output, whole};
use super::stream::{DeadInputs, is_all_dead};
use crate::chunk::fixed;
use alluvia_snapshot::{TableBase, TableKills};
use alluvia_tree::{Dead, Segment};
use alluvia_types::{Result, TableId, Version};
use std::sync::Arc;

/// What rewriting has left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rewritten {
    /// Segments that were written anew, or went.
    pub segments: u64,
    /// Bytes by which files are fewer or shorter.
    pub bytes: u64,
}

impl Pipeline {
    /// Writes every merged segment of a table anew that has rows which were killed by `through` and are dead for everybody,
    /// without these. As many segments as workers run at once are done in one edit; before each edit `go_on` is asked,
    /// and other merges may come between.
    pub(crate) fn rewrite_dead(
        &self,
        table: TableId,
        through: Version,
        go_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Rewritten> {
        let mut done = Rewritten::default();
        loop {
            go_on()?;
            let _one = self.merging.lock();
            let some = self.rewrite(table, self.workers.width().max(1), &|_, dead, horizon| {
                dead.first_kill().is_some_and(|first| first <= through.min(horizon))
            })?;
            if some == Rewritten::default() {
                return Ok(done);
            }
            done.segments += some.segments;
            done.bytes += some.bytes;
        }
    }

    /// Writes one segment anew that has rows which were killed by the version beside its table, without its dead rows; and lets go
    /// of those of its table that are dead as a whole. Returns of which table, if there is any: it is the last of them the next time.
    ///
    /// # Errors
    /// As a merge.
    pub fn rewrite_old(&self, old: &[(TableId, Version)]) -> Result<Option<(TableId, Rewritten)>> {
        let _one = self.merging.lock();
        let served = *self.served_last.lock();
        let first = old.iter().position(|(table, _)| Some(*table) == served).map_or(0, |at| at + 1);
        for &(table, through) in old[first..].iter().chain(&old[..first]) {
            let some = self.rewrite(table, 1, &|_, dead, horizon| {
                dead.first_kill().is_some_and(|first| first <= through.min(horizon))
            })?;
            if some != Rewritten::default() {
                *self.served_last.lock() = Some(table);
                return Ok(Some((table, some)));
            }
        }
        Ok(None)
    }

    /// Writes segments of a table anew that are half dead: as many as workers run at once. Returns whether there were any.
    /// Called by a merge, under its lock.
    pub(super) fn rewrite_half_dead(&self, table: TableId) -> Result<bool> {
        let some = self.rewrite(table, self.workers.width().max(1), &is_half_dead)?;
        Ok(some != Rewritten::default())
    }

    /// Whether a merged segment of a table is half dead.
    pub(super) fn has_half_dead(&self, table: TableId, files: &TableBase, horizon: Version) -> bool {
        let kills = self.views.kills_of(table);
        let dead =
            |segment: &Arc<Segment>| kills.of(segment.meta().id).is_some_and(|d| is_half_dead(segment, d, horizon));
        files.merged().any(dead)
    }

    /// Writes up to `most` segments anew that are `due`, in one edit. Called under the lock of merges.
    fn rewrite(&self, table: TableId, most: usize, due: Due<'_>) -> Result<Rewritten> {
        // In the order of a merge.
        let horizon = self.views.horizon();
        let base = self.views.base();
        let kills = self.views.kills_of(table);
        let (Some(files), Some(entry)) = (base.tables.get(&table), self.views.catalog().by_id(table).cloned()) else {
            return Ok(Rewritten::default());
        };
        let plan = plan_dead(files, &kills, horizon, most, due);
        if plan.outputs.is_empty() {
            return Ok(Rewritten::default());
        }
        let space = self.views.spaces().get(&entry.def)?;
        let def = Arc::new(fixed(&entry.def, &space, &[]));
        let dead = Some(Arc::new(DeadInputs { kills, horizon }));
        let outputs = self.write_outputs(&plan, &def, &space, dead)?;
        let before: u64 = plan.consumed.iter().map(|segment| segment.meta().bytes()).sum();
        let written = outputs.iter().filter_map(|(_, merged)| merged.segment.as_ref());
        let after: u64 = written.map(|segment| segment.meta().bytes()).sum();
        // All moves are noted: it is done at once.
        self.replace(table, &plan, outputs, true)?;
        Ok(Rewritten { segments: plan.consumed.len() as u64, bytes: before.saturating_sub(after) })
    }
}

/// Whether a segment with these dead rows is to be written anew, of which those killed by a version are dead for everybody.
type Due<'a> = &'a dyn Fn(&Segment, &Dead, Version) -> bool;

fn is_half_dead(segment: &Segment, dead: &Dead, horizon: Version) -> bool {
    let rows = segment.meta().rows;
    // What all versions have killed is known without counting.
    dead.rows() * 2 >= rows && dead.rows_by(horizon) * 2 >= rows
}

/// Up to `most` segments that are due, and all of those that have only dead rows; each becomes one in its own place.
fn plan_dead(files: &TableBase, kills: &TableKills, horizon: Version, most: usize, due: Due<'_>) -> MergePlan {
    let buffered = files.buffer.iter().map(|segment| (None, segment));
    let homes = files.partitions.iter().flat_map(|partition| {
        partition.segments.iter().map(move |segment| (Some((partition.low, partition.high)), segment))
    });
    let of_segment = |(partition, segment): (_, &Arc<Segment>)| {
        let dead = kills.of(segment.meta().id).filter(|dead| due(segment, dead, horizon))?;
        Some((dead, partition, Arc::clone(segment)))
    };
    let mut all: Vec<_> = buffered.chain(homes).filter_map(of_segment).collect();
    all.sort_by_key(|(dead, ..)| dead.first_kill());
    let mut left = most;
    let mut plan = MergePlan::default();
    for (dead, partition, segment) in &all {
        if !is_all_dead(segment, dead, horizon) {
            if left == 0 {
                continue;
            }
            left -= 1;
        }
        plan.outputs.push(Output { partition: *partition, runs: vec![whole(segment)] });
        plan.consumed.push(Arc::clone(segment));
    }
    plan
}
