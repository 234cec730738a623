//! Asking the index in the middle of a plan.
//!
//! Invariants:
//! - The first child is the aggregate itself, or what stands for it: it runs if the index refuses, and only then. Its schema is the node's.
//! - The other children are small tables. Keys narrow what is asked, and where there are too many, nothing is narrowed; of joins all
//!   rows are needed, and where they are too many, or a key comes twice that must not, the first child runs.

use super::node::{ColumnOf, Purpose, Question};
use super::small::{JOINED_ROWS_MAX, KEY_ROWS_MAX, SmallRows, read};
use crate::answer::{Asking, Bound, Side, Values, WhyExact, run, run_within};
use crate::table::{describe_snapshot, tell};
use crate::used::SampleUsed;
use alluvia_tree::Counters;
use alluvia_values::errors::wrap;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType as ArrowType, Field, Schema, SchemaRef, UInt32Type};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, Time};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, Partitioning,
    PlanProperties, ReplaceChildrenOptions, StatisticsArgs,
};
use futures::{TryStreamExt, stream};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The index's answer, or else the aggregate's.
#[derive(Debug)]
pub(super) struct IndexAnswerExec {
    question: Arc<Question>,
    /// The aggregate, then the small tables.
    children: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl IndexAnswerExec {
    /// What is asked of the index.
    pub(super) fn question(&self) -> &Question {
        &self.question
    }

    pub(super) fn try_new(question: Arc<Question>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<IndexAnswerExec> {
        let Some(aggregate) = children.first().filter(|_| children.len() == 1 + question.smalls.len()) else {
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
                write!(f, "IndexAnswerExec: {}", self.question.describe())
            }
            DisplayFormatType::TreeRender => write!(f, "{}", self.question.describe()),
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
        let run = Run {
            answering: MetricBuilder::new(&self.metrics).elapsed_compute(0),
            question: Arc::clone(&self.question),
            children: self.children.clone(),
            schema: self.schema(),
            metrics: self.metrics.clone(),
        };
        let rows = stream::once(run.rows(task)).try_flatten();
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
struct Run {
    question: Arc<Question>,
    children: Vec<Arc<dyn ExecutionPlan>>,
    schema: SchemaRef,
    metrics: ExecutionPlanMetricsSet,
    /// How long the index was asked, without small tables.
    answering: Time,
}

/// The index's answer, and how it came.
struct IndexAnswered {
    batch: RecordBatch,
    counters: Counters,
    by_cuboid: bool,
    /// The sample that it is from, if it is from one.
    sample: Option<SampleUsed>,
    /// Why it is from none, where it might have been.
    exact: Option<WhyExact>,
}

/// How many groups each small table makes, by the column that it is joined by.
type GroupsOf = Vec<(String, u32)>;

/// A small table that is being read.
type Reading = SpawnedTask<Result<Option<SmallRows>>>;

/// What a task gives.
async fn finished<T: Send + 'static>(task: SpawnedTask<Result<T>>) -> Result<T> {
    task.join().await.map_err(|error| DataFusionError::External(Box::new(error)))?
}

impl Run {
    async fn rows(self, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let answer = match &self.question.columns {
            None => self.narrowed(&task).await?,
            Some(columns) => self.joined(columns, &task).await?,
        };
        let Some(batch) = answer else {
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

    /// The answer of the rows that may be needed, by what keys were few.
    async fn narrowed(&self, task: &Arc<TaskContext>) -> Result<Option<RecordBatch>> {
        let mut values = Vec::with_capacity(self.question.smalls.len());
        for (place, (column, _)) in self.question.smalls.iter().enumerate() {
            if let Some(rows) = finished(self.reading(place, KEY_ROWS_MAX, task)).await? {
                self.count("keys", rows.keys.len() as u64);
                values.push((column.clone(), Values(rows.keys)));
            }
        }
        let (question, schema) = (Arc::clone(&self.question), Arc::clone(&self.schema));
        let answering = self.answering.clone();
        let asked = SpawnedTask::spawn_blocking(move || {
            let _timer = answering.timer();
            let bound = if values.is_empty() { Arc::clone(&question.bound) } else { question.among(values) };
            asked(&question, &bound, &schema)
        });
        self.told(finished(asked).await?)
    }

    /// The answer of the rows that have keys of all small tables, with what those are grouped by.
    async fn joined(&self, columns: &[ColumnOf], task: &Arc<TaskContext>) -> Result<Option<RecordBatch>> {
        // All at once, each on a thread of its own if there is one.
        let reading: Vec<Reading> =
            (0..self.question.smalls.len()).map(|place| self.reading(place, JOINED_ROWS_MAX, task)).collect();
        let mut smalls = Vec::with_capacity(reading.len());
        for small in reading {
            // What is grouped by may fail for rows that nothing joins: the plan looks at those alone that something does. Whatever
            // else has failed fails there again.
            let Ok(Some(rows)) = finished(small).await else { return Ok(None) };
            smalls.push(rows);
        }
        for ((column, _), rows) in self.question.smalls.iter().zip(&smalls) {
            self.count(format!("{column}_keys"), rows.keys.len() as u64);
        }
        let (question, schema, columns) = (Arc::clone(&self.question), Arc::clone(&self.schema), columns.to_vec());
        let answering = self.answering.clone();
        let joined = SpawnedTask::spawn_blocking(move || {
            let _timer = answering.timer();
            joined(&question, smalls, &columns, &schema)
        });
        let Some((asked, groups)) = finished(joined).await? else { return Ok(None) };
        for (column, count) in groups {
            self.count(format!("{column}_groups"), count.into());
        }
        self.told(Some(asked))
    }

    /// Reads a small table's rows, if they are few.
    fn reading(&self, place: usize, rows_max: usize, task: &Arc<TaskContext>) -> Reading {
        let (column, _) = &self.question.smalls[place];
        let def = &self.question.read.entry.def;
        let to = def.columns.iter().find(|own| own.name == *column).map(|own| own.data_type.to_arrow());
        let (plan, task) = (Arc::clone(&self.children[1 + place]), Arc::clone(task));
        SpawnedTask::spawn(async move {
            match to {
                Some(to) => read(plan, to, rows_max, task).await,
                None => Ok(None),
            }
        })
    }

    /// The rows of an answer, when its figures have been told.
    fn told(&self, asked: Option<IndexAnswered>) -> Result<Option<RecordBatch>> {
        let Some(IndexAnswered { batch, counters, by_cuboid, sample, exact }) = asked else { return Ok(None) };
        if let Some(why) = exact {
            tell(&self.metrics, "exact", why.text().to_owned(), 0);
        }
        let Counters { disjoint, covered, cut, rows_filtered, blocks_skipped, tail_rows, .. } = counters;
        self.count("cuboid", u64::from(by_cuboid));
        if !by_cuboid {
            self.count("covered", covered);
            self.count("disjoint", disjoint);
            // Nodes that values are estimated of were cut, too, but not read.
            self.count("cut", cut + sample.map_or(0, |sample| sample.nodes_drawn));
            self.count("rows_filtered", rows_filtered);
            self.count("blocks_skipped", blocks_skipped);
            self.count("tail_rows", tail_rows);
        }
        // What pruning has left out was counted when the aggregate was planned.
        let used = &self.question.context.used;
        describe_snapshot(&self.metrics, &self.question.context.snapshot);
        match sample {
            None => tell(&self.metrics, "interval", "exact".to_owned(), 0),
            Some(sample) => {
                self.count("drawn_from", sample.nodes_drawn);
                self.count("rows_drawn", sample.rows_drawn);
                tell(&self.metrics, "interval", sample.interval(), sample.look.into());
                tell(&self.metrics, "rungs", sample.rungs(), sample.rungs.into());
                used.set_sample(sample);
            }
        }
        used.add_blocks(cut, 0);
        used.add_rows(rows_filtered);
        used.add_tail_rows(tail_rows);
        Ok(Some(batch))
    }

    fn count(&self, name: impl Into<Cow<'static, str>>, value: u64) {
        MetricBuilder::new(&self.metrics).global_counter(name).add(value as usize);
    }
}

/// The aggregate's rows, made of the index's answer and of what small tables are grouped by; and by how many groups of each.
fn joined(
    question: &Question,
    smalls: Vec<SmallRows>,
    columns: &[ColumnOf],
    schema: &SchemaRef,
) -> Result<Option<(IndexAnswered, GroupsOf)>> {
    let is_item = |column: &&ColumnOf| matches!(column, ColumnOf::Item(_));
    let items = columns.iter().filter(is_item).count();
    let mut fields: Vec<Field> = columns
        .iter()
        .zip(schema.fields())
        .filter(|(column, _)| is_item(column))
        .map(|(_, field)| field.as_ref().clone())
        .collect();
    // For each small table its place among the ordinals in the index's answer, and what the ordinals stand for.
    let mut attributes: Vec<(usize, Vec<ArrayRef>)> = Vec::with_capacity(smalls.len());
    let (mut sides, mut groups, mut held) = (Vec::new(), Vec::new(), Vec::new());
    for ((column, purpose), rows) in question.smalls.iter().zip(smalls) {
        let level = question.bound.key_level(column);
        let codes = level.map_or(0, |level| question.bound.members(level) as usize);
        // The map and the filter's bits and runs.
        if rows.held.try_grow(codes * 5 + rows.keys.len() * 24).is_err() {
            return Ok(None);
        }
        let mut of_groups = None;
        attributes.push((items + groups.len(), Vec::new()));
        if !rows.attributes.is_empty() {
            let Some((ordinals, distinct)) = rows.tuples()? else { return Ok(None) };
            if let Some((_, own)) = attributes.last_mut() {
                *own = distinct;
            }
            fields.push(Field::new(format!("__group_{}", groups.len()), ArrowType::UInt32, false));
            groups.push((column.clone(), ordinals.count));
            of_groups = Some(ordinals);
        }
        let may_repeat = matches!(purpose, Purpose::Join { may_repeat: true });
        sides.push(Side { column: column.clone(), keys: rows.keys, groups: of_groups, may_repeat });
        held.push(rows.held);
    }
    let Some(bound) = question.joined(sides) else { return Ok(None) };
    let Some(found) = asked(question, &bound, &Arc::new(Schema::new(fields)))? else { return Ok(None) };
    let mut made = Vec::with_capacity(columns.len());
    for (column, field) in columns.iter().zip(schema.fields()) {
        let values = match *column {
            ColumnOf::Item(item) => Arc::clone(found.batch.column(item)),
            ColumnOf::Small { small, place } => {
                let (at, attributes) = &attributes[small];
                let ordinals = found.batch.column(*at).as_primitive::<UInt32Type>().values();
                // No row is of ordinal 0: it is that of codes which the filter leaves out.
                let places: UInt32Array = ordinals.iter().map(|ordinal| ordinal.checked_sub(1)).collect();
                if places.null_count() > 0 {
                    return Err(DataFusionError::Internal("a row of no key is in the answer".to_owned()));
                }
                cast(&take(&attributes[place], &places, None)?, field.data_type())?
            }
        };
        if values.null_count() > 0 && !field.is_nullable() {
            return Ok(None);
        }
        made.push(values);
    }
    let batch = RecordBatch::try_new(Arc::clone(schema), made)?;
    Ok(Some((IndexAnswered { batch, ..found }, groups)))
}

fn answered(
    batch: RecordBatch,
    counters: Counters,
    sample: Option<SampleUsed>,
    exact: Option<WhyExact>,
) -> IndexAnswered {
    IndexAnswered { batch, counters, by_cuboid: false, sample, exact }
}

/// The answer of a cuboid, or else of the tree, samples if they may, and the tail, at the statement's version.
fn asked(question: &Question, bound: &Bound, schema: &SchemaRef) -> Result<Option<IndexAnswered>> {
    let Question { context, read, .. } = question;
    let (snapshot, kept) = (&context.snapshot, &context.index.kept);
    if context.index.cuboids {
        // Whatever else the statement reads is of that version, too.
        let store = context.store.as_ref();
        let answered = context.cuboids.answer(bound, snapshot, read, true, store, kept, schema).map_err(wrap)?;
        if let Some((batch, _)) = answered {
            let counters = Counters::default();
            let exact = question.accuracy.map(|_| WhyExact::Cuboid);
            return Ok(Some(IndexAnswered { batch, counters, by_cuboid: true, sample: None, exact }));
        }
    }
    let asking = Asking { bound, read, version: snapshot.version, kept, threads: context.index.threads };
    let found = match &question.accuracy {
        Some(accuracy) => run_within(&asking, schema, accuracy),
        None => {
            let found = run(&asking, schema).map_err(wrap)?;
            return Ok(found.map(|(batch, counters)| answered(batch, counters, None, None)));
        }
    };
    let found = found.map_err(wrap)?;
    Ok(found.map(|(batch, counters, sample)| answered(batch, counters, sample.ok(), sample.err())))
}
