//! Grouping sets of rows of which nothing is known.
//!
//! Invariant: what a plan says of an aggregate's order, constants and partitions is true of every one of its grouping sets.
//!
//! DataFusion 55.2 takes over for all sets what it knows of the rows below: after `WHERE k = 1` it has `k` for a constant although it is
//! NULL in the total of `ROLLUP (k)`. So `ORDER BY k LIMIT 1` gave any row, and groups were told as ended that were not
//! (apache/datafusion#24421 is the half of it that concerns order). Here nothing is known of the rows below such an aggregate.

use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PlanProperties, ReplaceChildrenOptions,
};
use std::fmt;
use std::sync::Arc;

/// The rule. It must be the first that looks at a plan.
#[derive(Debug)]
pub(crate) struct GroupingSetsOfUnknownRows;

impl PhysicalOptimizerRule for GroupingSetsOfUnknownRows {
    fn name(&self) -> &str {
        "grouping_sets_of_unknown_rows"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let unknown = plan.transform_up(|plan| {
            let has_sets = plan.downcast_ref::<AggregateExec>().is_some_and(|of| of.group_expr().has_grouping_set());
            if !has_sets {
                return Ok(Transformed::no(plan));
            }
            let rows = plan.children().into_iter().map(|rows| UnknownRowsExec::new(rows) as Arc<dyn ExecutionPlan>);
            let rows = rows.collect();
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            plan.replace_children(rows, options).map(Transformed::yes)
        })?;
        Ok(unknown.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Its input's rows.
#[derive(Debug)]
struct UnknownRowsExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl UnknownRowsExec {
    fn new(input: &Arc<dyn ExecutionPlan>) -> Arc<UnknownRowsExec> {
        let schema: SchemaRef = input.schema();
        let partitions = input.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Arc::new(UnknownRowsExec { input: Arc::clone(input), properties: Arc::new(properties) })
    }
}

impl DisplayAs for UnknownRowsExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(t, DisplayFormatType::TreeRender) { Ok(()) } else { f.write_str("UnknownRowsExec") }
    }
}

impl ExecutionPlan for UnknownRowsExec {
    fn name(&self) -> &'static str {
        "UnknownRowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = <[_; 1]>::try_from(children)
            .map_err(|children| DataFusionError::Internal(format!("rows have one input, not {}", children.len())))?;
        Ok(UnknownRowsExec::new(&input))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
