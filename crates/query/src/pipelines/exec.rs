//! An operator whose rows are counted.
//!
//! Invariants:
//! - To whoever looks at the plan it is the operator itself: name, text, children, metrics, and what it is downcast to are the operator's,
//!   so that `EXPLAIN ANALYZE` shows the plan as it was planned.
//! - It holds nothing that the operator would not hold, and is dropped with the plan: what a join keeps of its table counts as long as
//!   its operator lives.

use super::meter::{Meter, MeteredRows};
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{
    ChildStats, ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements,
    PlanProperties, ReplaceChildrenOptions, StatisticsArgs,
};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The operator, whose rows go through the meter.
#[derive(Debug)]
pub(super) struct MeteredExec {
    operator: Arc<dyn ExecutionPlan>,
    meter: Arc<Meter>,
}

impl MeteredExec {
    pub(super) fn new(operator: Arc<dyn ExecutionPlan>, meter: Arc<Meter>) -> MeteredExec {
        MeteredExec { operator, meter }
    }

    fn of(&self, operator: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(MeteredExec { operator, meter: Arc::clone(&self.meter) })
    }
}

impl DisplayAs for MeteredExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.operator.fmt_as(format, f)
    }
}

impl ExecutionPlan for MeteredExec {
    fn name(&self) -> &str {
        self.operator.name()
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.operator.as_ref())
    }

    fn schema(&self) -> SchemaRef {
        self.operator.schema()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.operator.properties()
    }

    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.operator.dynamic_expressions_produced()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.operator.input_distribution_requirements()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.operator.maintains_input_order()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.operator.children()
    }

    fn apply_expressions(
        &self,
        each: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.operator.apply_expressions(each)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.of(Arc::clone(&self.operator).replace_children(children, options)?))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.of(Arc::clone(&self.operator).reset_state()?))
    }

    fn with_new_state(&self, state: Arc<dyn Any + Send + Sync>) -> Option<Arc<dyn ExecutionPlan>> {
        self.operator.with_new_state(state).map(|operator| self.of(operator))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.operator.execute(partition, context)?;
        Ok(Box::pin(MeteredRows::new(rows, Arc::clone(&self.meter))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.operator.metrics()
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.operator.child_stats_requests(partition)
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        self.operator.statistics_from_inputs(inputs, args)
    }

    fn fetch(&self) -> Option<usize> {
        self.operator.fetch()
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.operator.cardinality_effect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Schema;
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::{displayable, replace_children_if_necessary};

    #[test]
    fn a_metered_operator_is_the_operator_to_whoever_looks() {
        let empty: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
        let plain: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(Arc::clone(&empty)));
        let metered: Arc<dyn ExecutionPlan> = Arc::new(MeteredExec::new(Arc::clone(&plain), Meter::new(1)));
        assert!(metered.is::<CoalescePartitionsExec>() && !metered.is::<MeteredExec>());
        assert_eq!(metered.name(), "CoalescePartitionsExec");
        let text = |plan: &Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(true).to_string();
        assert_eq!(text(&metered), text(&plain));
        assert!(Arc::ptr_eq(metered.properties(), plain.properties()));
        let other: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(empty.schema()));
        let again = replace_children_if_necessary(metered, vec![other]).expect("one child");
        assert_eq!(text(&again), text(&plain));
    }
}
