//! Rows of which a plan is told less than is known.
//!
//! Invariant: the rows are those of the input, in its partitions; what is still told of them is true.
//!
//! For mends of what DataFusion concludes wrongly: see [`super::grouping_sets`] and [`super::join_sides`].

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::equivalence::{EquivalenceClass, EquivalenceGroup};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use std::fmt;
use std::sync::Arc;

/// What is still known of the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StillKnown {
    /// In how many partitions they come.
    Nothing,
    /// How they are partitioned, how many there are, and which columns are equal; but not what any expression of them is, nor their order.
    EqualColumns,
    /// All but their order.
    AllButOrder,
}

/// Its input's rows.
#[derive(Debug)]
pub(crate) struct LessKnownExec {
    input: Arc<dyn ExecutionPlan>,
    known: StillKnown,
    properties: Arc<PlanProperties>,
}

impl LessKnownExec {
    /// The rows of a plan.
    pub fn over(input: &Arc<dyn ExecutionPlan>, known: StillKnown) -> Arc<dyn ExecutionPlan> {
        let (equivalences, partitioning) = match known {
            StillKnown::Nothing => {
                let partitions = input.output_partitioning().partition_count();
                (EquivalenceProperties::new(input.schema()), Partitioning::UnknownPartitioning(partitions))
            }
            StillKnown::EqualColumns => {
                (of_columns(input.equivalence_properties()), input.output_partitioning().clone())
            }
            StillKnown::AllButOrder => {
                let mut all = input.equivalence_properties().clone();
                all.clear_orderings();
                (all, input.output_partitioning().clone())
            }
        };
        let properties =
            PlanProperties::new(equivalences, partitioning, input.pipeline_behavior(), input.boundedness());
        Arc::new(LessKnownExec { input: Arc::clone(input), known, properties: Arc::new(properties) })
    }
}

/// Whether the rows have a known order.
pub(crate) fn has_order(of: &EquivalenceProperties) -> bool {
    of.oeq_class().iter().next().is_some()
}

/// Whether more is known of rows than which columns are equal, and their order.
pub(crate) fn is_known_by_value(of: &EquivalenceProperties) -> bool {
    !of.constants().is_empty() || of.eq_group().iter().any(|class| class.iter().any(|equal| !is_column(equal)))
}

fn is_column(of: &Arc<dyn PhysicalExpr>) -> bool {
    of.downcast_ref::<Column>().is_some()
}

/// Which columns are equal.
fn of_columns(all: &EquivalenceProperties) -> EquivalenceProperties {
    let columns = |class: &EquivalenceClass| EquivalenceClass::new(class.iter().filter(|of| is_column(of)).cloned());
    let classes = all.eq_group().iter().map(columns).filter(|class| !class.is_trivial());
    let mut known = EquivalenceProperties::new(Arc::clone(all.schema()));
    // It cannot fail where there is no order; less would be known then, which is allowed.
    let _ = known.add_equivalence_group(EquivalenceGroup::new(classes));
    known
}

impl DisplayAs for LessKnownExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(t, DisplayFormatType::TreeRender) { Ok(()) } else { f.write_str(self.name()) }
    }
}

impl ExecutionPlan for LessKnownExec {
    fn name(&self) -> &'static str {
        match self.known {
            StillKnown::Nothing => "UnknownRowsExec",
            StillKnown::EqualColumns => "UnknownValuesExec",
            StillKnown::AllButOrder => "UnknownOrderExec",
        }
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
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
        Ok(LessKnownExec::over(&input, self.known))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        match self.known {
            StillKnown::Nothing => vec![ChildStats::Skip],
            StillKnown::EqualColumns | StillKnown::AllButOrder => vec![ChildStats::At(partition)],
        }
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        match (self.known, inputs) {
            (StillKnown::EqualColumns | StillKnown::AllButOrder, [input]) => Ok(Arc::clone(input)),
            _ => Ok(Arc::new(Statistics::new_unknown(&self.schema()))),
        }
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        above: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(above, &self.children())
    }

    fn handle_child_pushdown_result(
        &self,
        _phase: FilterPushdownPhase,
        pushed: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::if_all(pushed))
    }
}
