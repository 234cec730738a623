//! Batches of texts that refer to their own rows, where operators give them that take rows out of many others.
//!
//! Invariant: a batch that a sort or a join gives refers to few buffers, unless its rows share texts that would be more if they were copied.
//!
//! An array of views has a list of buffers. What DataFusion 55.2's sorts and joins take out of all they hold has the list of all buffers that
//! they hold, for each batch that they give; whoever holds these batches in turn, and gives of them, has the product. Three joins over a
//! thousand batches each are a thousand million entries for a batch, counted to no memory and made within one poll, which nothing ends.
//!
//! Mends apache/datafusion#16206 (in 55.2).

pub use alluvia_functions::view_arrays::{bytes_of, compact, emptied};
pub(crate) use alluvia_functions::view_arrays::{bytes_of_views, has_views};

use crate::wrapped_operator::{WrappedOperator, WrappedOperatorExec};
use alluvia_functions::view_arrays::buffers_of;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec, SymmetricHashJoinExec,
};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use std::sync::Arc;

/// Buffers that a batch may have of a column: lists as short as those of scans are left alone.
const BUFFERS_MAX: usize = 8;

/// The rule. It must be the last one: others put joins in the place of joins.
#[derive(Debug)]
pub struct CompactTexts;

impl PhysicalOptimizerRule for CompactTexts {
    fn name(&self) -> &str {
        "compact_texts"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let compact = |plan: Arc<dyn ExecutionPlan>| {
            let has_texts = plan.schema().fields().iter().any(|field| has_views(field.data_type()));
            Ok(if has_texts && takes_out_of_many(&plan) {
                Transformed::yes(Arc::new(WrappedOperatorExec::new(plan, Compact)) as Arc<dyn ExecutionPlan>)
            } else {
                Transformed::no(plan)
            })
        };
        plan.transform_up(compact).data()
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn takes_out_of_many(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_hashed = plan.is::<HashJoinExec>() || plan.is::<SymmetricHashJoinExec>();
    let is_sorted = plan.is::<SortExec>() || plan.is::<SortMergeJoinExec>() || plan.is::<PiecewiseMergeJoinExec>();
    is_hashed || is_sorted || plan.is::<NestedLoopJoinExec>() || plan.is::<CrossJoinExec>()
}

/// The operator's texts are compact.
#[derive(Debug)]
struct Compact;

impl WrappedOperator for Compact {
    fn of(&self, _operator: &Arc<dyn ExecutionPlan>) -> Result<Compact> {
        Ok(Compact)
    }

    fn execute(
        &self,
        operator: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let batches = operator.execute(partition, context)?;
        let batches = batches.map(|batch| batch.and_then(compacted));
        Ok(Box::pin(RecordBatchStreamAdapter::new(operator.schema(), batches)))
    }
}

fn compacted(batch: RecordBatch) -> Result<RecordBatch> {
    if batch.columns().iter().all(|column| buffers_of(column) <= BUFFERS_MAX) {
        return Ok(batch);
    }
    let (schema, columns, rows) = batch.into_parts();
    let short = |column: ArrayRef| if buffers_of(&column) <= BUFFERS_MAX { Ok(column) } else { compact(&column) };
    let columns = columns.into_iter().map(short).collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringViewArray;
    use arrow::compute::concat_batches;
    use datafusion::datasource::MemTable;
    use datafusion::physical_plan::{collect, displayable};
    use datafusion::prelude::{SessionConfig, SessionContext};

    fn long(row: usize) -> String {
        format!("a text that does not fit into its view, {row:0>9}")
    }

    #[tokio::test]
    async fn joins_over_joins_and_sorts_do_not_multiply_lists_of_buffers() {
        let config = SessionConfig::new().with_batch_size(2).with_target_partitions(1);
        let context = SessionContext::new_with_config(config);
        let batches = (0..40).map(|at| {
            let texts = Arc::new(StringViewArray::from_iter_values((2 * at..2 * at + 2).map(long))) as ArrayRef;
            RecordBatch::try_from_iter([("t", texts)]).expect("one column")
        });
        let batches: Vec<RecordBatch> = batches.collect();
        let table = MemTable::try_new(batches[0].schema(), vec![batches]).expect("batches of the schema");
        context.register_table("r", Arc::new(table)).expect("a table");
        for sql in [
            "SELECT * FROM (SELECT a.t, b.t AS u, c.t AS v FROM r a JOIN r b ON a.t = b.t JOIN r c ON c.t = b.t) ORDER BY u DESC",
            "SELECT a.t, b.t AS u, c.t AS v FROM r a LEFT JOIN r b ON a.t = b.t FULL JOIN r c ON b.t = c.t AND b.t > a.t || 'x'",
            "SELECT a.t, b.t AS u FROM (SELECT * FROM r ORDER BY t DESC LIMIT 70) a JOIN r b ON a.t <= b.t WHERE b.t < a.t || 'x'",
            "SELECT a.t, b.t AS u FROM (SELECT * FROM r ORDER BY t LIMIT 9) a CROSS JOIN (SELECT * FROM r ORDER BY t LIMIT 9) b",
        ] {
            let planned =
                async || context.sql(sql).await.expect("a query").create_physical_plan().await.expect("a plan");
            let plan = planned().await;
            let text = |plan: &Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(true).to_string();
            // Of a plan of its own: plans may share their lowest joins, and a join runs once.
            let compact = CompactTexts.optimize(planned().await, &ConfigOptions::default()).expect("the plan");
            assert_eq!(text(&compact), text(&plan));
            let whole = |batches: &[RecordBatch]| concat_batches(&plan.schema(), batches).expect("batches of the plan");
            let found = collect(compact, context.task_ctx()).await.expect("rows");
            assert_eq!(whole(&found), whole(&collect(Arc::clone(&plan), context.task_ctx()).await.expect("rows")));
            let most = found.iter().flat_map(RecordBatch::columns).map(buffers_of).max();
            assert!(most.is_some_and(|most| most <= BUFFERS_MAX), "{most:?} buffers: {sql}");
        }
    }
}
