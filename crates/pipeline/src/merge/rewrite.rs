//! Merged segments written anew without their dead rows, for a purge: no merge would touch them until they are due.

use super::Pipeline;
use super::plan::{MergePlan, Output, whole};
use super::stream::DeadInputs;
use crate::chunk::fixed;
use alluvia_snapshot::{TableBase, TableKills};
use alluvia_tree::Segment;
use alluvia_types::{Result, TableId, Version};
use std::sync::Arc;

/// What rewriting has left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Rewritten {
    /// Segments that were written anew, or went.
    pub(crate) segments: u64,
    /// Bytes by which files are fewer or shorter.
    pub(crate) bytes: u64,
}

impl Pipeline {
    /// Writes every merged segment of a table anew that has rows which were killed by `through` and are dead for everybody,
    /// without these. As many segments as workers run at once are done in one edit.
    pub(crate) fn rewrite_dead(&self, table: TableId, through: Version) -> Result<Rewritten> {
        let _one = self.merging.lock();
        let mut done = Rewritten::default();
        loop {
            // In the order of a merge.
            let horizon = self.views.horizon();
            let base = self.views.base();
            let kills = self.views.kills_of(table);
            let (Some(files), Some(entry)) = (base.tables.get(&table), self.views.catalog().by_id(table).cloned())
            else {
                return Ok(done);
            };
            let plan = plan_dead(files, &kills, through.min(horizon), self.workers.width().max(1));
            if plan.outputs.is_empty() {
                return Ok(done);
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
            done.segments += plan.consumed.len() as u64;
            done.bytes += before.saturating_sub(after);
        }
    }
}

/// Up to `most` segments with rows that were killed by `through`; each becomes one in its own place.
fn plan_dead(files: &TableBase, kills: &TableKills, through: Version, most: usize) -> MergePlan {
    let has_dead = |segment: &&Arc<Segment>| {
        kills.of(segment.meta().id).is_some_and(|dead| dead.kills().any(|(_, killed)| killed <= through))
    };
    let buffered = files.buffer.iter().map(|segment| (None, segment));
    let homes = files.partitions.iter().flat_map(|partition| {
        partition.segments.iter().map(|segment| (Some((partition.low, partition.high)), segment))
    });
    let mut plan = MergePlan::default();
    for (partition, segment) in buffered.chain(homes).filter(|(_, segment)| has_dead(segment)).take(most) {
        plan.outputs.push(Output { partition, runs: vec![whole(segment)] });
        plan.consumed.push(Arc::clone(segment));
    }
    plan
}
