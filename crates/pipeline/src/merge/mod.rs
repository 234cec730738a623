//! Merging: sorted segments become merged ones, partition by partition; and merged ones of which half is dead are written anew.
//!
//! Invariants:
//! - M1: a merge reads whole segments of the sorted stage and the buffer, but only whole *runs* of a partition; each row of
//!   its inputs is in exactly one of its outputs, or was dead for everybody (P2).
//! - M2: outputs of one partition are independent of those of another, so workers make them in parallel.
//! - M3: the manifest changes once for each of both, at its end, and once for each part of a merge of more than memory
//!   holds; a merge whose table was dropped meanwhile leaves nothing behind.

mod budget;
mod plan;
mod rewrite;
mod stream;

use crate::handover::{Edited, Handover, Unnoted, is_noted};
use crate::pipeline::Pipeline;
use crate::workers::scatter;
use alluvia_snapshot::{Moves, Partition, Space, TableBase};
use alluvia_space::TableDef;
use alluvia_tree::{Segment, TreeContext};
use alluvia_types::{Result, SegmentId, TableId, Version, planted};
use budget::fitting;
use plan::{MergePlan, Output, plan};
pub use rewrite::Rewritten;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stream::{DeadInputs, Merged, merge_runs};

/// One output of a merge, as a worker makes it.
struct Task {
    at: usize,
    output: Output,
    def: Arc<TableDef>,
    space: Arc<Space>,
}

impl Pipeline {
    /// Writes some of one table's segments anew of which half is dead, and merges its sorted segments: those that it had when this was
    /// called, and of those that come meanwhile what is taken along. So it ends however many come. Returns whether it had any of either.
    ///
    /// # Errors
    /// Those of reading and writing segments and the manifest.
    pub fn merge(&self, table: TableId) -> Result<bool> {
        let _one = self.merging.lock();
        let mut was_any = self.rewrite_half_dead(table)?;
        let mut notes_all = false;
        let sorted = || {
            let base = self.views.base();
            let files = base.tables.get(&table).into_iter().flat_map(|files| &files.sorted);
            files.map(|segment| segment.meta().id).collect::<BTreeSet<SegmentId>>()
        };
        let there = sorted();
        loop {
            match self.merge_once(table, notes_all)? {
                None => return Ok(was_any),
                Some((Edited::Done, false)) => return Ok(true),
                // The lock is others', too: what is left has come since, and waits for the next merge.
                Some((Edited::Done, true)) if there.is_disjoint(&sorted()) && !planted("merge without end") => {
                    return Ok(true);
                }
                Some((Edited::Done, true)) => (was_any, notes_all) = (true, false),
                Some((Edited::Again, _)) => notes_all = true,
            }
        }
    }

    /// Merges as many sorted segments as fit, and says whether others were left; `None` if there is nothing to merge.
    fn merge_once(&self, table: TableId, notes_all: bool) -> Result<Option<(Edited, bool)>> {
        // In this order: what is dead for everybody by then is dead in the base, or comes to be killed there.
        let horizon = self.views.horizon();
        let base = self.views.base();
        let kills = self.views.kills_of(table);
        let (Some(files), Some(entry)) = (base.tables.get(&table), self.views.catalog().by_id(table).cloned()) else {
            return Ok(None);
        };
        if files.sorted.is_empty() {
            return Ok(None);
        }
        let space = self.views.spaces().get(&entry.def)?;
        let def = Arc::new(crate::chunk::fixed(&entry.def, &space, &[]));
        let (files, is_some_left) = fitting(files, &def, &self.options)?;
        let plan = plan(&def, &files, &self.options)?;
        let is_noted = notes_all || is_noted(&def, Some(&kills));
        let dead = is_noted.then(|| Arc::new(DeadInputs { kills, horizon }));
        let outputs = self.write_outputs(&plan, &def, &space, dead)?;
        let edited = self.replace(table, &plan, outputs, is_noted)?;
        Ok(Some((edited, is_some_left)))
    }

    /// Tables with sorted segments that are worth merging now: many of them, or `hurry`. Then also those that have segments of
    /// which half is dead, and these come first.
    pub fn tables_to_merge(&self, hurry: bool) -> Vec<TableId> {
        // Kills by the horizon are kills of the base, or of one that comes.
        let horizon = self.views.horizon();
        let base = self.views.base();
        let due = |files: &TableBase| match files.sorted.len() {
            0 => false,
            segments => hurry || segments >= self.options.merge_segments,
        };
        let is_open = |table: &TableId| !base.closed.contains_key(table);
        let is_half_dead = |table: TableId, files: &TableBase| hurry && self.has_half_dead(table, files, horizon);
        let (half_dead, others): (Vec<_>, Vec<_>) = base
            .tables
            .iter()
            .filter(|(table, _)| is_open(table))
            .partition(|&(&table, files)| is_half_dead(table, files));
        let others = others.into_iter().filter(|(_, files)| due(files));
        half_dead.into_iter().chain(others).map(|(&table, _)| table).collect()
    }

    fn write_outputs(
        &self,
        plan: &MergePlan,
        def: &Arc<TableDef>,
        space: &Arc<Space>,
        dead: Option<Arc<DeadInputs>>,
    ) -> Result<Vec<(usize, Merged)>> {
        let task = |(at, output): (usize, &Output)| Task {
            at,
            output: output.clone(),
            def: Arc::clone(def),
            space: Arc::clone(space),
        };
        let tasks: Vec<Task> = plan.outputs.iter().enumerate().filter(|(_, o)| !o.runs.is_empty()).map(task).collect();
        let tree: TreeContext = self.tree().clone();
        let (ids, options) = (Arc::clone(&self.next_segment), self.options.clone());
        let results = scatter(self.workers.as_ref(), tasks, move |task| {
            let runs = &task.output.runs;
            let new_id = || SegmentId(ids.fetch_add(1, Ordering::Relaxed));
            let merged = merge_runs(&tree, new_id, &task.def, &task.space, runs, &options, dead.as_deref());
            merged.map(|merged| (task.at, merged))
        });
        let failed = results.iter().any(Result::is_err);
        let mut outputs = Vec::with_capacity(results.len());
        let mut failure = None;
        for result in results {
            match result {
                Ok(output) if !failed => outputs.push(output),
                Ok((_, merged)) => merged.segment.iter().for_each(|segment| segment.retire()),
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(outputs), Err)
    }

    /// M3: swaps inputs for outputs.
    fn replace(
        &self,
        table: TableId,
        plan: &MergePlan,
        merged: Vec<(usize, Merged)>,
        is_noted: bool,
    ) -> Result<Edited> {
        let rows = |segments: &mut dyn Iterator<Item = &Arc<Segment>>| segments.map(|s| s.meta().rows).sum::<u64>();
        let taken = rows(&mut plan.consumed.iter());
        let gone: u64 = merged.iter().map(|(_, merged)| merged.gone).sum();
        let mut handover = Handover::default();
        let promoted: BTreeSet<SegmentId> = plan.promoted.iter().map(|segment| segment.meta().id).collect();
        let inputs = plan.consumed.iter().map(|segment| segment.meta()).filter(|meta| !promoted.contains(&meta.id));
        let mut moves = Moves::new(table, Version(0));
        match is_noted {
            true => inputs.for_each(|meta| moves.add_input(meta.id, meta.rows)),
            false => handover.unnoted.push(Unnoted {
                table,
                segments: inputs.map(|meta| meta.id).collect(),
                tail_through: Version(0),
            }),
        }
        let mut outputs: Vec<(usize, Arc<Segment>)> = Vec::with_capacity(merged.len());
        for (at, Merged { segment, from, codes, .. }) in merged {
            // One all of whose rows were dead leaves no segment.
            let Some(segment) = segment else { continue };
            moves.add_output(segment.meta().id, &from, codes);
            outputs.push((at, segment));
        }
        moves.add_gone(gone);
        if is_noted {
            handover.moves.push(moves);
        }
        let given = rows(&mut outputs.iter().map(|(_, segment)| segment).chain(&plan.promoted));
        assert_eq!(taken, given + gone, "P2: a merge keeps every row but the dead");
        let written: Vec<Arc<Segment>> = outputs.iter().map(|(_, segment)| Arc::clone(segment)).collect();
        self.edit(None, written.clone(), &handover, |base| {
            let Some(files) = base.tables.get_mut(&table) else { return written };
            let consumed: BTreeSet<SegmentId> = plan.consumed.iter().map(|segment| segment.meta().id).collect();
            let kept = |segment: &Arc<Segment>| !consumed.contains(&segment.meta().id);
            files.sorted.retain(kept);
            files.buffer.retain(kept);
            for partition in &mut files.partitions {
                partition.segments.retain(kept);
            }
            // A partition that was cut gives way to its parts; each keeps the runs that lie in it.
            for (range, parts) in &plan.cuts {
                files.partitions.retain(|partition| (partition.low, partition.high) != *range);
                let part = |&(low, high): &(u128, u128)| Partition { low, high, segments: Vec::new() };
                files.partitions.extend(parts.iter().map(part));
            }
            files.partitions.sort_by_key(|partition| partition.low);
            for (at, segment) in &outputs {
                let output = &plan.outputs[*at];
                match output.partition {
                    None => files.buffer.push(Arc::clone(segment)),
                    Some(range) => {
                        let home = files.partitions.iter_mut().find(|home| (home.low, home.high) == range);
                        home.expect("an output's partition exists").segments.push(Arc::clone(segment));
                    }
                }
            }
            for segment in &plan.promoted {
                let home = files.partitions.first_mut().expect("a table that promotes has its one partition");
                home.segments.push(Arc::clone(segment));
            }
            plan.consumed.iter().filter(|segment| !promoted.contains(&segment.meta().id)).cloned().collect()
        })
    }
}
