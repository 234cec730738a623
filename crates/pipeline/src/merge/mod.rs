//! Merging: sorted segments become merged ones, partition by partition.
//!
//! Invariants:
//! - M1: a merge reads whole segments of the sorted stage and the buffer, but only whole *runs* of a partition; each row of
//!   its inputs is in exactly one of its outputs (P2).
//! - M2: outputs of one partition are independent of those of another, so workers make them in parallel.
//! - M3: the manifest changes once, at the end; a merge whose table was dropped meanwhile leaves nothing behind.

mod plan;
mod stream;

use crate::pipeline::Pipeline;
use crate::workers::scatter;
use alluvia_snapshot::{Partition, Space, TableBase};
use alluvia_space::TableDef;
use alluvia_tree::{Segment, TreeContext};
use alluvia_types::{Result, SegmentId, TableId};
use plan::{MergePlan, Output, plan};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stream::merge_runs;

/// One output of a merge, as a worker makes it.
struct Task {
    at: usize,
    output: Output,
    def: Arc<TableDef>,
    space: Arc<Space>,
}

impl Pipeline {
    /// Merges one table's sorted segments, if it has any. Returns whether it had.
    pub fn merge(&self, table: TableId) -> Result<bool> {
        let _one = self.merging.lock();
        let base = self.views.base();
        let (Some(files), Some(entry)) = (base.tables.get(&table), self.views.catalog().by_id(table).cloned()) else {
            return Ok(false);
        };
        if files.sorted.is_empty() {
            return Ok(false);
        }
        let space = self.views.spaces().get(&entry.def)?;
        let def = Arc::new(crate::chunk::fixed(&entry.def, &space, &[]));
        let plan = plan(&def, files, &self.options)?;
        let outputs = self.write_outputs(&plan, &def, &space)?;
        self.replace(table, &plan, outputs)?;
        Ok(true)
    }

    /// Tables with sorted segments that are worth merging now: many of them, or `hurry`.
    pub fn tables_to_merge(&self, hurry: bool) -> Vec<TableId> {
        let base = self.views.base();
        let due = |files: &TableBase| match files.sorted.len() {
            0 => false,
            segments => hurry || segments >= self.options.merge_segments,
        };
        base.tables.iter().filter(|(_, files)| due(files)).map(|(&table, _)| table).collect()
    }

    fn write_outputs(
        &self,
        plan: &MergePlan,
        def: &Arc<TableDef>,
        space: &Arc<Space>,
    ) -> Result<Vec<(usize, Arc<Segment>)>> {
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
            merge_runs(&tree, new_id, &task.def, &task.space, runs, &options).map(|segment| (task.at, segment))
        });
        let failed = results.iter().any(Result::is_err);
        let mut outputs = Vec::with_capacity(results.len());
        let mut failure = None;
        for result in results {
            match result {
                Ok(output) if !failed => outputs.push(output),
                Ok((_, segment)) => segment.retire(),
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(outputs), Err)
    }

    /// M3: swaps inputs for outputs.
    fn replace(&self, table: TableId, plan: &MergePlan, outputs: Vec<(usize, Arc<Segment>)>) -> Result<()> {
        let rows = |segments: &mut dyn Iterator<Item = &Arc<Segment>>| segments.map(|s| s.meta().rows).sum::<u64>();
        let taken = rows(&mut plan.consumed.iter());
        let given = rows(&mut outputs.iter().map(|(_, segment)| segment).chain(&plan.promoted));
        assert_eq!(taken, given, "P2: a merge keeps every row");
        let written: Vec<Arc<Segment>> = outputs.iter().map(|(_, segment)| Arc::clone(segment)).collect();
        self.edit(None, written.clone(), |base| {
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
            let promoted: BTreeSet<SegmentId> = plan.promoted.iter().map(|segment| segment.meta().id).collect();
            plan.consumed.iter().filter(|segment| !promoted.contains(&segment.meta().id)).cloned().collect()
        })
    }
}
