//! Windows whose memory is bounded by their largest partition, and counted.
//!
//! Invariants:
//! - Rows and their order are what DataFusion's operator gives for the whole input.
//! - The operator sees *runs*: whole partitions, one after another. It is begun anew where a run ends, and so holds a run at most.
//! - What a run may hold of its input is counted to the query's memory before it is held.
//! - Texts are *compact*, as they go in and as they come out: an array has the buffers of its own rows, and no others.
//! - Texts that no window reads do not go through the operator. They wait beside it for their rows.
//!
//! DataFusion 55.2's operators count nothing to a pool. `WindowAggExec` takes in all of its input, for all partitions, before it gives a row.
//! `BoundedWindowAggExec` appends each batch to what waits, which keeps the buffers of texts that were given long ago as long as anything
//! waits (with the frame of `OVER (ORDER BY ...)`, always); and what it gives refers to all of them, so that each window over a window
//! multiplies the list of buffers.
//!
//! Mends apache/datafusion#22946, #23207 (in 55.2).

mod exec;
mod feed;
mod shape;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use exec::in_runs;
use std::sync::Arc;

/// Bytes that a run may hold before it ends with its partition. Large enough that beginning anew costs nothing beside it.
const RUN_BYTES: usize = 16 << 20;

/// The rule. It must come once, after those that look at windows and what is below them.
#[derive(Debug)]
pub struct WindowsInRuns {
    run_bytes: usize,
}

impl Default for WindowsInRuns {
    fn default() -> WindowsInRuns {
        WindowsInRuns { run_bytes: RUN_BYTES }
    }
}

impl PhysicalOptimizerRule for WindowsInRuns {
    fn name(&self) -> &str {
        "windows_in_runs"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| in_runs(plan, self.run_bytes).map(Transformed::yes)).data()
    }

    fn schema_check(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
