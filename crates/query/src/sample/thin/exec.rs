//! Reads rungs until one holds enough, and gives the rows that weigh least.

use super::lowest::Lowest;
use crate::table::Part;
use arrow::array::{ArrayRef, Float64Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    ReplaceChildrenOptions, execute_stream,
};
use futures::{StreamExt, TryStreamExt, stream};
use std::fmt;
use std::sync::Arc;

/// 2^64.
const ALL_WEIGHTS: f64 = 18_446_744_073_709_551_616.0;

/// What one input reads.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::sample) struct Level {
    /// Of which segments. What has no ladder is read once, first; the others in several levels, one of which is enough.
    pub part: Part,
    /// The weights that it has rows of; `None` is all.
    pub below: Option<u64>,
}

/// A column of the result.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::sample) enum Shown {
    /// A column of the inputs.
    Column(usize),
    /// The limit.
    Limit,
}

/// Makes the input of a level when it is asked for.
#[derive(Clone)]
pub(in crate::sample) struct LevelScan(Arc<dyn Fn(Level) -> Result<Arc<dyn ExecutionPlan>> + Send + Sync>);

impl LevelScan {
    /// Made so.
    pub(in crate::sample) fn new(
        scan: impl Fn(Level) -> Result<Arc<dyn ExecutionPlan>> + Send + Sync + 'static,
    ) -> LevelScan {
        LevelScan(Arc::new(scan))
    }
}

impl fmt::Debug for LevelScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LevelScan")
    }
}

/// The rows of least weight among its inputs', which end with their weights.
#[derive(Debug)]
pub(in crate::sample) struct ThinExec {
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    /// Makes the inputs, where there are none yet.
    scan: Option<LevelScan>,
    reading: Reading,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// What is known at planning.
#[derive(Clone, Debug)]
struct Reading {
    levels: Vec<Level>,
    shown: Vec<Shown>,
    schema: SchemaRef,
    rows: u64,
    /// The limit where all rows fit.
    fraction: f64,
}

impl ThinExec {
    /// At most `rows` rows. Input i is level i; `shown` are the columns of `schema`.
    pub(super) fn new(
        inputs: Vec<Arc<dyn ExecutionPlan>>,
        levels: Vec<Level>,
        shown: Vec<Shown>,
        schema: SchemaRef,
        rows: u64,
        fraction: f64,
    ) -> Result<ThinExec> {
        assert_eq!(inputs.len(), levels.len(), "an input a level");
        Ok(ThinExec::of(inputs, None, Reading { levels, shown, schema, rows, fraction }))
    }

    /// The same, whose inputs are made when they are read.
    pub(in crate::sample) fn asking(
        scan: LevelScan,
        levels: Vec<Level>,
        shown: Vec<Shown>,
        schema: SchemaRef,
        rows: u64,
        fraction: f64,
    ) -> ThinExec {
        ThinExec::of(Vec::new(), Some(scan), Reading { levels, shown, schema, rows, fraction })
    }

    fn of(inputs: Vec<Arc<dyn ExecutionPlan>>, scan: Option<LevelScan>, reading: Reading) -> ThinExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&reading.schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        ThinExec { inputs, scan, reading, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl DisplayAs for ThinExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reading { levels, rows, .. } = &self.reading;
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "ThinExec: max_rows={rows}, levels={}", levels.len())
            }
            DisplayFormatType::TreeRender => writeln!(f, "max_rows={rows}"),
        }
    }
}

impl ExecutionPlan for ThinExec {
    fn name(&self) -> &str {
        "ThinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition; self.inputs.len()]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.inputs.len()]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(ThinExec::of(children, self.scan.clone(), self.reading.clone())))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return Err(DataFusionError::Internal(format!("ThinExec has no partition {partition}")));
        }
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let run = Run {
            inputs: self.inputs.clone(),
            scan: self.scan.clone(),
            reading: self.reading.clone(),
            held: MemoryConsumer::new("ThinExec").register(context.memory_pool()),
            levels_read: MetricBuilder::new(&self.metrics).counter("levels_read", partition),
            rows_thinned: MetricBuilder::new(&self.metrics).counter("rows_thinned", partition),
            context,
        };
        let batches = stream::once(run.run()).map_ok(|(batches, held)| {
            // What the batches take is accounted for until they are gone.
            stream::iter(batches.into_iter().map(move |batch| {
                let _held = &held;
                Ok(batch)
            }))
        });
        let counted = batches.try_flatten().map(move |batch: Result<RecordBatch>| {
            if let Ok(batch) = &batch {
                baseline.record_output(batch.num_rows());
            }
            batch
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.reading.schema), counted)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// One run.
struct Run {
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    scan: Option<LevelScan>,
    reading: Reading,
    context: Arc<TaskContext>,
    held: MemoryReservation,
    levels_read: Count,
    rows_thinned: Count,
}

impl Run {
    async fn run(self) -> Result<(Vec<RecordBatch>, MemoryReservation)> {
        let rows = usize::try_from(self.reading.rows).unwrap_or(usize::MAX - 1);
        let levels = self.reading.levels.iter().copied().enumerate();
        let (loose, laddered): (Vec<_>, Vec<_>) = levels.partition(|(_, level)| level.part == Part::Loose);
        // One more than fit: its weight is the limit.
        let mut base = Lowest::new(rows + 1);
        for (place, level) in loose {
            self.read(place, level, &mut base, 0).await?;
        }
        let base_bytes = base.bytes();
        let last = laddered.len().saturating_sub(1);
        let mut found = base.clone();
        for (at, (place, level)) in laddered.into_iter().enumerate() {
            found = base.clone();
            self.read(place, level, &mut found, base_bytes).await?;
            // What is heavier than the level may be in what was not read.
            let next = found.weight_after(rows);
            if at == last || next.zip(level.below).is_some_and(|(next, below)| next < below) {
                break;
            }
        }
        drop(base);
        let (limit, below) = match found.weight_after(rows) {
            Some(next) => {
                let limit = floor(next);
                (limit / ALL_WEIGHTS, Some(limit as u64))
            }
            None => (self.reading.fraction, None),
        };
        // The rows are gathered beside what was found.
        self.held.try_resize(2 * found.bytes())?;
        let batches = found.rows_below(below, self.context.session_config().batch_size())?;
        let shown = batches.iter().map(|batch| self.show(batch, limit)).collect::<Result<Vec<_>>>()?;
        self.held.try_resize(shown.iter().map(RecordBatch::get_array_memory_size).sum())?;
        Ok((shown, self.held))
    }

    /// Reads a level's input to its end.
    async fn read(&self, place: usize, level: Level, into: &mut Lowest, beside_bytes: usize) -> Result<()> {
        self.levels_read.add(1);
        let input = match &self.scan {
            None => Arc::clone(&self.inputs[place]),
            Some(LevelScan(scan)) => {
                let scan = Arc::clone(scan);
                // Blocks are chosen by summaries, which may have to be read.
                let made = SpawnedTask::spawn_blocking(move || scan(level)).join().await;
                made.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??
            }
        };
        let mut batches = execute_stream(input, Arc::clone(&self.context))?;
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            self.rows_thinned.add(batch.num_rows());
            into.push(batch)?;
            self.held.try_resize(into.bytes() + beside_bytes)?;
        }
        Ok(())
    }

    fn show(&self, batch: &RecordBatch, limit: f64) -> Result<RecordBatch> {
        let column = |shown: &Shown| -> ArrayRef {
            match shown {
                Shown::Column(at) => Arc::clone(batch.column(*at)),
                Shown::Limit => Arc::new(Float64Array::from_value(limit, batch.num_rows())),
            }
        };
        let columns = self.reading.shown.iter().map(column).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.reading.schema), columns, &options)?)
    }
}

/// The largest double that is not above a weight: so the limit can be given as a number and taken back as the same.
fn floor(weight: u64) -> f64 {
    let nearest = weight as f64;
    if nearest as u128 > u128::from(weight) { nearest.next_down() } else { nearest }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_space::weight::weight_limit;

    #[test]
    fn a_limit_is_taken_back_as_it_was_given() {
        for weight in [0, 1, 5, (1 << 53) + 1, 1 << 61, (1 << 61) - 1, u64::MAX / 3, u64::MAX - 5, u64::MAX] {
            let limit = floor(weight);
            assert!(limit as u128 <= u128::from(weight), "{weight}");
            assert_eq!(weight_limit(limit / ALL_WEIGHTS), Some(limit as u64), "{weight}");
            assert!(weight - limit as u64 <= 1 << 11, "{weight}");
        }
    }
}
