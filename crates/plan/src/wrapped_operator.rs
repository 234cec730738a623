//! Operators that stand in for others.
//!
//! Invariants:
//! - To whoever looks at the plan it is the operator itself: name, text, children, properties, and what it is downcast to are the operator's,
//!   so that `EXPLAIN ANALYZE` shows the plan as it was planned. So are its metrics, but where what is done in its place has measured.
//! - It holds no rows, and is dropped with the plan: what a join keeps of its table counts as long as its operator lives.

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{OrderingRequirements, PhysicalExpr};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{
    ChildStats, ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements,
    PlanProperties, ReplaceChildrenOptions, StatisticsArgs,
};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// What is done in an operator's place.
pub(crate) trait WrappedOperator: fmt::Debug + Send + Sync + Sized + 'static {
    /// The same in the place of another form of the operator.
    fn of(&self, operator: &Arc<dyn ExecutionPlan>) -> Result<Self>;

    /// The operator's rows.
    fn execute(
        &self,
        operator: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream>;

    /// What was measured.
    fn metrics(&self, operator: &Arc<dyn ExecutionPlan>) -> Option<MetricsSet> {
        operator.metrics()
    }
}

/// The operator, in whose place something is done.
#[derive(Debug)]
pub(crate) struct WrappedOperatorExec<P> {
    operator: Arc<dyn ExecutionPlan>,
    in_place: P,
}

impl<P: WrappedOperator> WrappedOperatorExec<P> {
    /// In the place of `operator`.
    pub fn new(operator: Arc<dyn ExecutionPlan>, in_place: P) -> WrappedOperatorExec<P> {
        WrappedOperatorExec { operator, in_place }
    }

    fn of(&self, operator: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let in_place = self.in_place.of(&operator)?;
        Ok(Arc::new(WrappedOperatorExec { operator, in_place }))
    }
}

impl<P: WrappedOperator> DisplayAs for WrappedOperatorExec<P> {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.operator.fmt_as(format, f)
    }
}

impl<P: WrappedOperator> ExecutionPlan for WrappedOperatorExec<P> {
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

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.operator.required_input_ordering()
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
        self.of(Arc::clone(&self.operator).replace_children(children, options)?)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        self.of(Arc::clone(&self.operator).reset_state()?)
    }

    fn with_new_state(&self, state: Arc<dyn Any + Send + Sync>) -> Option<Arc<dyn ExecutionPlan>> {
        self.of(self.operator.with_new_state(state)?).ok()
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.in_place.execute(&self.operator, partition, context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.in_place.metrics(&self.operator)
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
