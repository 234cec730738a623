//! Asking the index in the middle of a plan.
//!
//! Invariants:
//! - The first child is the aggregate itself: it runs if the index refuses, and only then. Its schema is the node's.
//! - The other children give the keys. They narrow what is asked; where there are too many, nothing is narrowed.

use super::node::Question;
use crate::answer::{Bound, Values, run};
use crate::table::external;
use alluvia_tree::Counters;
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options, concat, filter, is_not_null};
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, Partitioning,
    PlanProperties, ReplaceChildrenOptions, StatisticsArgs,
};
use futures::{StreamExt, TryStreamExt, stream};
use std::fmt;
use std::sync::Arc;

/// Rows of a small table beyond which its keys narrow nothing.
const KEY_ROWS_MAX: usize = 100_000;

/// The index's answer, or else the aggregate's.
#[derive(Debug)]
pub(super) struct IndexAnswerExec {
    question: Arc<Question>,
    /// The aggregate, then what gives the keys.
    children: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl IndexAnswerExec {
    pub(super) fn try_new(question: Arc<Question>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<IndexAnswerExec> {
        let Some(aggregate) = children.first().filter(|_| children.len() == 1 + question.key_columns.len()) else {
            return Err(DataFusionError::Internal("an index answer was given other children".to_owned()));
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(aggregate.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(IndexAnswerExec { question, children, properties: Arc::new(properties), metrics })
    }
}

impl DisplayAs for IndexAnswerExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "IndexAnswerExec: {}", self.question.bound.describe())?;
                match self.question.key_columns.as_slice() {
                    [] => Ok(()),
                    columns => write!(f, ", keys=[{}]", columns.join(", ")),
                }
            }
            DisplayFormatType::TreeRender => write!(f, "{}", self.question.bound.describe()),
        }
    }
}

impl ExecutionPlan for IndexAnswerExec {
    fn name(&self) -> &str {
        "IndexAnswerExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition; self.children.len()])
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.children.iter().collect()
    }

    fn apply_expressions(
        &self,
        _each: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(IndexAnswerExec::try_new(Arc::clone(&self.question), children)?))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(IndexAnswerExec::try_new(Arc::clone(&self.question), children)?))
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return Err(DataFusionError::Internal(format!("an index answer has no partition {partition}")));
        }
        let asking = Asking {
            question: Arc::clone(&self.question),
            children: self.children.clone(),
            schema: self.schema(),
            metrics: self.metrics.clone(),
        };
        let rows = stream::once(asking.rows(task)).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, _partition: Option<usize>) -> Vec<ChildStats> {
        let mut requests = vec![ChildStats::Skip; self.children.len()];
        requests[0] = ChildStats::At(None);
        requests
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let statistics = inputs[0].as_ref().clone();
        // Keys leave out groups of the aggregate.
        Ok(Arc::new(if self.children.len() > 1 { statistics.to_inexact() } else { statistics }))
    }
}

/// One run.
struct Asking {
    question: Arc<Question>,
    children: Vec<Arc<dyn ExecutionPlan>>,
    schema: SchemaRef,
    metrics: ExecutionPlanMetricsSet,
}

impl Asking {
    async fn rows(self, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut values = Vec::with_capacity(self.question.key_columns.len());
        for (column, plan) in self.question.key_columns.iter().zip(&self.children[1..]) {
            if let Some(keys) = self.values(column, plan, &task).await? {
                values.push((column.clone(), keys));
            }
        }
        let Some(batch) = self.ask(values).await? else {
            self.count("refused", 1);
            return self.children[0].execute(0, task);
        };
        MetricBuilder::new(&self.metrics).output_rows(0).add(batch.num_rows());
        let size = task.session_config().batch_size().max(1);
        let pieces: Vec<Result<RecordBatch>> = (0..batch.num_rows())
            .step_by(size)
            .map(|start| Ok(batch.slice(start, size.min(batch.num_rows() - start))))
            .collect();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema, stream::iter(pieces))))
    }

    /// The values of a key, if they are few.
    async fn values(
        &self,
        column: &str,
        plan: &Arc<dyn ExecutionPlan>,
        task: &Arc<TaskContext>,
    ) -> Result<Option<Values>> {
        let mut rows = plan.execute(0, Arc::clone(task))?;
        let mut columns: Vec<ArrayRef> = Vec::new();
        let mut count = 0;
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            count += batch.num_rows();
            if count > KEY_ROWS_MAX {
                return Ok(None);
            }
            columns.push(Arc::clone(batch.column(0)));
        }
        self.count("keys", count as u64);
        let def = &self.question.read.entry.def;
        let Some(own) = def.columns.iter().find(|own| own.name == column) else { return Ok(None) };
        let to = own.data_type.to_arrow();
        let all: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
        let all = if all.is_empty() { arrow::array::new_empty_array(&to) } else { concat(&all)? };
        // A number that is too large for the column is equal to none of its values.
        let cast = cast_with_options(&all, &to, &CastOptions { safe: true, ..CastOptions::default() })?;
        Ok(Some(Values(filter(&cast, &is_not_null(&cast)?)?)))
    }

    /// The index's answer; `None` if it has none.
    async fn ask(&self, values: Vec<(String, Values)>) -> Result<Option<RecordBatch>> {
        let (question, schema) = (Arc::clone(&self.question), Arc::clone(&self.schema));
        let asked = SpawnedTask::spawn_blocking(move || {
            let bound = if values.is_empty() { Arc::clone(&question.bound) } else { question.among(values) };
            asked(&question, &bound, &schema)
        });
        let asked = asked.join().await.map_err(|error| DataFusionError::External(Box::new(error)))?;
        let Some((batch, counters, by_cuboid)) = asked.map_err(external)? else { return Ok(None) };
        let Counters { disjoint, covered, cut, rows_filtered, blocks_skipped, tail_rows, .. } = counters;
        self.count("cuboid", u64::from(by_cuboid));
        if !by_cuboid {
            self.count("covered", covered);
            self.count("disjoint", disjoint);
            self.count("cut", cut);
            self.count("rows_filtered", rows_filtered);
            self.count("blocks_skipped", blocks_skipped);
            self.count("tail_rows", tail_rows);
        }
        // What pruning has left out was counted when the aggregate was planned.
        let used = &self.question.context.used;
        used.add_blocks(cut, 0);
        used.add_rows(rows_filtered);
        used.add_tail_rows(tail_rows);
        Ok(Some(batch))
    }

    fn count(&self, name: &'static str, value: u64) {
        MetricBuilder::new(&self.metrics).global_counter(name).add(value as usize);
    }
}

/// The answer of a cuboid, or else of the tree and the tail, at the statement's version.
fn asked(
    question: &Question,
    bound: &Bound,
    schema: &SchemaRef,
) -> alluvia_types::Result<Option<(RecordBatch, Counters, bool)>> {
    let Question { context, read, .. } = question;
    let (snapshot, kept) = (&context.snapshot, &context.index.kept);
    if context.index.cuboids {
        // Whatever else the statement reads is of that version, too.
        let answered = context.cuboids.answer(bound, snapshot, read, true, context.store.as_ref(), kept, schema)?;
        if let Some((batch, _)) = answered {
            return Ok(Some((batch, Counters::default(), true)));
        }
    }
    let found = run(bound, read, snapshot.version, kept, context.index.threads, schema)?;
    Ok(found.map(|(batch, counters)| (batch, counters, false)))
}
