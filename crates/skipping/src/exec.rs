//! The filter of a scan: evaluates a predicate on what its source reads, and sees which blocks hold no match.
//!
//! To the planner it is a `FilterExec`, which it asks for estimates and properties. It differs in that the conditions were already
//! used to choose blocks, so they are not handed down to the source again, and in how parts are evaluated ([`crate::predicate`]).

use crate::observe::{Observation, Observer};
use crate::predicate::Predicate;
use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Int64Type, Schema, SchemaRef, UInt32Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::CastExpr;
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use datafusion::physical_plan::coalesce::{LimitedBatchCoalescer, PushBatchStatus};
use datafusion::physical_plan::execution_plan::{CardinalityEffect, apply_expression_roots};
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::Stream;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Who watches, and where rows say what they are.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Who is told.
    pub observer: Arc<Observer>,
    /// The column that has the number of the row's segment, `UInt32`.
    pub segment: usize,
    /// The column that has the row's number in its segment, `Int64`.
    pub number: usize,
}

/// The filter of a scan.
#[derive(Debug)]
pub struct ScanFilterExec {
    predicate: Predicate,
    watch: Option<Watch>,
    /// The same filter in the planner's words, or less of it; it has the input, and which columns are left of it.
    filter: FilterExec,
    fetch: Option<usize>,
    metrics: ExecutionPlanMetricsSet,
}

impl ScanFilterExec {
    /// Filters the rows of `input`, of which the first `columns` columns are left.
    pub fn new(
        predicate: Predicate,
        watch: Option<Watch>,
        input: Arc<dyn ExecutionPlan>,
        columns: usize,
    ) -> Result<ScanFilterExec> {
        let schema = input.schema();
        let foreseen = predicate.parts().iter().filter(|part| !cuts_values(part, &schema)).cloned();
        let filter = FilterExecBuilder::new(conjunction(foreseen), input);
        let filter = filter.apply_projection(Some((0..columns).collect()))?.build()?;
        Ok(ScanFilterExec { predicate, watch, filter, fetch: None, metrics: ExecutionPlanMetricsSet::new() })
    }
}

/// Whether a condition is of values of which a cast cuts something off. DataFusion 55.2 takes the bounds of what is left for wider than those
/// of what there was (of `ts::date <= d`, whole days), and refuses to plan what has more than all rows: it foresees without them.
fn cuts_values(condition: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let cuts = |expr: &Arc<dyn PhysicalExpr>| {
        let Some(cast) = expr.downcast_ref::<CastExpr>() else { return Ok(false) };
        let (from, to) = (cast.expr().data_type(schema)?, cast.cast_type());
        Ok(match (&from, to) {
            (DataType::Timestamp(from, _), DataType::Timestamp(to, _)) => from != to,
            (DataType::Timestamp(..), _) => true,
            (DataType::Decimal128(_, from), DataType::Decimal128(_, to) | DataType::Decimal256(_, to)) => from > to,
            (DataType::Decimal128(..) | DataType::Decimal256(..), _) => !to.is_floating(),
            (from, to) => from.is_floating() && (!to.is_floating() || to.primitive_width() < from.primitive_width()),
        })
    };
    // What has no type is foreseen by as little.
    condition.exists(cuts).unwrap_or(true)
}

impl DisplayAs for ScanFilterExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(t, DisplayFormatType::TreeRender) {
            return self.filter.fmt_as(t, f);
        }
        write!(f, "ScanFilterExec: {}", self.predicate.whole())?;
        let columns: Vec<String> = self.schema().fields().iter().map(|field| field.name().clone()).collect();
        write!(f, ", projection=[{}]", columns.join(", "))?;
        self.fetch.map_or(Ok(()), |fetch| write!(f, ", fetch={fetch}"))
    }
}

impl ExecutionPlan for ScanFilterExec {
    fn name(&self) -> &'static str {
        "ScanFilterExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.filter.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.filter.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.predicate.parts(), f)
    }

    /// Rows come in the order that the properties say, which is the input's. This asks something else: whether a sort that is wanted above may be
    /// done below, of rows that the filter drops as well, whose keys may fail. DataFusion 55.2 knows of `FilterExec` by name that it may not.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    /// Rows are spread over partitions above, where they are fewer.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let filter = Arc::new(self.filter.clone()).replace_children(children, options)?;
        let Some(filter) = filter.downcast_ref::<FilterExec>() else {
            return Err(DataFusionError::Internal("a filter of another input is no filter".to_owned()));
        };
        Ok(Arc::new(ScanFilterExec {
            predicate: self.predicate.clone(),
            watch: self.watch.clone(),
            filter: filter.clone(),
            fetch: self.fetch,
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batch_size = context.session_config().batch_size();
        let projection = self.filter.projection().as_ref().map(|projection| projection.to_vec());
        Ok(Box::pin(FilterStream {
            schema: self.schema(),
            predicate: self.predicate.clone(),
            projection: projection.unwrap_or_default(),
            watch: self.watch.clone().map(|watch| (Observation::new(&watch.observer), watch)),
            coalescer: LimitedBatchCoalescer::new(self.schema(), batch_size, self.fetch),
            input: Some(self.filter.input().execute(partition, context)?),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.filter.child_stats_requests(partition)
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        self.filter.statistics_from_inputs(inputs, args)
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::LowerEqual
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(ScanFilterExec {
            predicate: self.predicate.clone(),
            watch: self.watch.clone(),
            filter: self.filter.clone(),
            fetch,
            metrics: self.metrics.clone(),
        }))
    }

    /// What is above may hand its conditions, dynamic ones for the most part, down to the source.
    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(parent_filters, &self.children())
    }
}

struct FilterStream {
    schema: SchemaRef,
    predicate: Predicate,
    projection: Vec<usize>,
    watch: Option<(Observation, Watch)>,
    coalescer: LimitedBatchCoalescer,
    /// `None` once nothing more is wanted of it.
    input: Option<SendableRecordBatchStream>,
    metrics: BaselineMetrics,
}

impl FilterStream {
    /// Takes in a batch; gives whether more is wanted.
    fn take(&mut self, batch: &RecordBatch) -> Result<bool> {
        let mask = match &mut self.watch {
            None => self.predicate.evaluate(batch, |_, _| {})?,
            Some((observation, watch)) => {
                let segments = batch.column(watch.segment).as_primitive_opt::<UInt32Type>();
                let numbers = batch.column(watch.number).as_primitive_opt::<Int64Type>();
                let (Some(segments), Some(numbers)) = (segments, numbers) else {
                    return Err(DataFusionError::Internal("rows do not say where they are from".to_owned()));
                };
                // A batch is of one part of one segment.
                let first = segments.values().first().copied();
                let of_one = first.filter(|first| segments.values().iter().all(|segment| segment == first));
                let mut tell = |form: usize, mask: &BooleanArray| {
                    if let Some(segment) = of_one {
                        observation.tell(segment, numbers, form, mask);
                    }
                };
                self.predicate.evaluate(batch, &mut tell)?
            }
        };
        let batch = filter_record_batch(&batch.project(&self.projection)?, &mask)?;
        Ok(self.coalescer.push_batch(batch)? == PushBatchStatus::Continue)
    }

    fn end(&mut self) -> Result<()> {
        self.input = None;
        // The stream may be held long after its end.
        self.watch = None;
        self.coalescer.finish()
    }
}

impl Stream for FilterStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(batch) = this.coalescer.next_completed_batch() {
                return this.metrics.record_poll(Poll::Ready(Some(Ok(batch))));
            }
            let Some(input) = &mut this.input else { return this.metrics.record_poll(Poll::Ready(None)) };
            let step = match ready!(input.as_mut().poll_next(context)) {
                None => this.end(),
                Some(Err(error)) => Err(error),
                Some(Ok(batch)) => {
                    let elapsed = this.metrics.elapsed_compute().clone();
                    let _timer = elapsed.timer();
                    match this.take(&batch) {
                        Ok(true) => Ok(()),
                        Ok(false) => this.end(),
                        Err(error) => Err(error),
                    }
                }
            };
            if let Err(error) = step {
                // What was seen before an error was seen all the same.
                (this.input, this.watch) = (None, None);
                return this.metrics.record_poll(Poll::Ready(Some(Err(error))));
            }
        }
    }
}

impl RecordBatchStream for FilterStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
