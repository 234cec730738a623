//! Rows in memory, as a source of DataFusion's: the tail, what the open transaction has inserted, and what was found by its
//! keys.
//!
//! Invariants:
//! - Rows come as they are: filters stay above, for which the optimizer sees to it that they do.
//! - Batches are handed out without copying, except runs of tiny ones, which are joined: 10,000 one-row inserts in a
//!   transaction must not cost 10,000 trips through every operator.

use super::columns::Projected;
use super::traced::ScanSpan;
use crate::by_key::LookupCost;
use crate::used::UsedCounters;
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, DataFusionError, Result, Statistics, stats::Precision};
use datafusion::datasource::source::DataSource;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayFormatType, Partitioning};
use futures::{StreamExt, stream};
use std::fmt;
use std::sync::Arc;

/// Batches below this many rows are joined.
const TINY_ROWS: usize = 512;
/// Up to this many.
const JOINED_ROWS: usize = 8_192;
/// A partition has at least this many rows, unless there are fewer in all.
const PARTITION_ROWS_MIN: usize = 32_768;

/// Tail runs and pending rows, projected.
#[derive(Clone, Debug)]
pub(crate) struct TailSource {
    schema: SchemaRef,
    partitions: Vec<Vec<RecordBatch>>,
    rows: usize,
    columns: Vec<ColumnStatistics>,
    fetch: Option<usize>,
    metrics: ExecutionPlanMetricsSet,
    used: Arc<UsedCounters>,
    span: Option<Arc<ScanSpan>>,
    /// Of rows that were found by their keys.
    lookup: Option<Lookup>,
}

/// How rows were found by their keys.
#[derive(Clone, Copy, Debug)]
struct Lookup {
    /// How many; `None` of those between two.
    keys: Option<usize>,
    cost: LookupCost,
}

impl TailSource {
    /// The rows of `runs`, in at most `partitions_max` partitions. `columns` are estimates of the projected columns, one
    /// for each, or none at all.
    pub(crate) fn new<'a>(
        projected: &Projected,
        runs: impl Iterator<Item = &'a RecordBatch>,
        partitions_max: usize,
        columns: Option<Vec<ColumnStatistics>>,
        used: Arc<UsedCounters>,
    ) -> Result<TailSource> {
        let batches = runs.map(|run| projected.adapt(run)).collect::<Result<Vec<_>>>()?;
        let batches = join_tiny(&projected.schema, batches)?;
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        used.plan_rows(rows as u64);
        let columns = columns.unwrap_or_else(|| Statistics::unknown_column(&projected.schema));
        Ok(TailSource {
            schema: Arc::clone(&projected.schema),
            partitions: split(batches, rows, partitions_max),
            rows,
            columns,
            fetch: None,
            metrics: ExecutionPlanMetricsSet::new(),
            used,
            span: None,
            lookup: None,
        })
    }

    /// The rows that have some keys, under their names of storage.
    pub(crate) fn of_keys(
        projected: &Projected,
        rows: &RecordBatch,
        keys: Option<usize>,
        cost: LookupCost,
        used: Arc<UsedCounters>,
    ) -> Result<TailSource> {
        let source = TailSource::new(projected, std::iter::once(rows), 1, None, used)?;
        Ok(TailSource { lookup: Some(Lookup { keys, cost }), ..source })
    }
}

impl TailSource {
    /// The scan's metrics.
    pub(crate) fn metrics_set(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    /// Counts for the scan's span, too.
    pub(crate) fn traced(self, span: Option<Arc<ScanSpan>>) -> TailSource {
        TailSource { span, ..self }
    }

    /// Returns at most so many rows.
    pub(crate) fn limited(self, fetch: Option<usize>) -> TailSource {
        TailSource { fetch, ..self }
    }
}

/// Joins neighbours of few rows, keeping the order.
fn join_tiny(schema: &SchemaRef, batches: Vec<RecordBatch>) -> Result<Vec<RecordBatch>> {
    let mut joined = Vec::with_capacity(batches.len());
    let mut tiny: Vec<RecordBatch> = Vec::new();
    let mut tiny_rows = 0;
    let mut flush = |tiny: &mut Vec<RecordBatch>| -> Result<()> {
        match tiny.len() {
            0 => {}
            1 => joined.append(tiny),
            _ => joined.push(concat_batches(schema, std::mem::take(tiny).iter())?),
        }
        Ok(())
    };
    for batch in batches {
        if batch.num_rows() >= TINY_ROWS || tiny_rows + batch.num_rows() > JOINED_ROWS {
            flush(&mut tiny)?;
            tiny_rows = 0;
        }
        tiny_rows += batch.num_rows();
        let is_tiny = batch.num_rows() < TINY_ROWS;
        tiny.push(batch);
        if !is_tiny {
            flush(&mut tiny)?;
            tiny_rows = 0;
        }
    }
    flush(&mut tiny)?;
    Ok(joined)
}

/// Cuts the batches into runs of about equal numbers of rows; always at least one partition.
fn split(batches: Vec<RecordBatch>, rows: usize, partitions_max: usize) -> Vec<Vec<RecordBatch>> {
    let count = (rows / PARTITION_ROWS_MIN).clamp(1, partitions_max.max(1));
    let target = rows.div_ceil(count).max(1);
    let mut partitions = vec![Vec::new(); count];
    let mut before = 0;
    for batch in batches {
        let mut from = 0;
        while from < batch.num_rows() {
            let partition = (before / target).min(count - 1);
            let room = if partition == count - 1 { usize::MAX } else { (partition + 1) * target - before };
            let taken = room.min(batch.num_rows() - from);
            partitions[partition].push(batch.slice(from, taken));
            from += taken;
            before += taken;
        }
    }
    partitions
}

impl DataSource for TailSource {
    fn open(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batches = self.partitions.get(partition).cloned().unwrap_or_default();
        let output_rows = MetricBuilder::new(&self.metrics).output_rows(partition);
        let (used, span) = (Arc::clone(&self.used), self.span.clone());
        let is_tail = self.lookup.is_none();
        if let Some(Lookup { cost, .. }) = &self.lookup {
            cost.count_read(&used);
            if let Some(span) = &span {
                span.add_part(cost.blocks, cost.rows);
                span.add_tail_rows(cost.tail_rows);
            }
        }
        let mut left = self.fetch.unwrap_or(usize::MAX);
        let batches = batches.into_iter().map_while(move |batch| {
            let taken = left.min(batch.num_rows());
            let out_of_limit = left == 0;
            left -= taken;
            (!out_of_limit).then(|| batch.slice(0, taken))
        });
        let counted = stream::iter(batches).map(move |batch| {
            output_rows.add(batch.num_rows());
            if is_tail {
                used.add_tail_rows(batch.num_rows() as u64);
            }
            if let Some(span) = span.as_ref().filter(|_| is_tail) {
                span.add_tail_rows(batch.num_rows() as u64);
            }
            Ok::<_, DataFusionError>(batch)
        });
        let stream = RecordBatchStreamAdapter::new(Arc::clone(&self.schema), counted);
        Ok(Box::pin(cooperative(stream)))
    }

    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (t, &self.lookup) {
            (DisplayFormatType::Default | DisplayFormatType::Verbose, Some(lookup)) => {
                match lookup.keys {
                    Some(keys) => write!(f, "key lookup, keys={keys}, rows={}", self.rows)?,
                    None => write!(f, "key range, rows={}", self.rows)?,
                }
                self.fetch.map_or(Ok(()), |limit| write!(f, ", limit={limit}"))
            }
            (DisplayFormatType::TreeRender, Some(lookup)) => match lookup.keys {
                Some(keys) => writeln!(f, "format=key lookup\nkeys={keys}\nrows={}", self.rows),
                None => writeln!(f, "format=key range\nrows={}", self.rows),
            },
            (DisplayFormatType::Default | DisplayFormatType::Verbose, None) => {
                write!(f, "tail, rows={}, partitions={}", self.rows, self.partitions.len())?;
                self.fetch.map_or(Ok(()), |limit| write!(f, ", limit={limit}"))
            }
            (DisplayFormatType::TreeRender, None) => writeln!(f, "format=tail\nrows={}", self.rows),
        }
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.partitions.len())
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        EquivalenceProperties::new(Arc::clone(&self.schema))
    }

    fn scheduling_type(&self) -> SchedulingType {
        SchedulingType::Cooperative
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let rows = match partition {
            None => self.rows,
            Some(at) => {
                self.partitions.get(at).iter().flat_map(|batches| batches.iter()).map(RecordBatch::num_rows).sum()
            }
        };
        let num_rows = match self.fetch {
            None => Precision::Exact(rows),
            Some(limit) => Precision::Inexact(rows.min(limit)),
        };
        let mut statistics = Statistics::default().with_num_rows(num_rows);
        statistics.column_statistics = self.columns.clone();
        statistics.calculate_total_byte_size(&self.schema);
        Ok(Arc::new(statistics))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        Some(Arc::new(TailSource { fetch: limit, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.metrics.clone()
    }

    fn try_swapping_with_projection(&self, _projection: &ProjectionExprs) -> Result<Option<Arc<dyn DataSource>>> {
        Ok(None)
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};
    use proptest::prelude::*;

    fn batches(sizes: &[usize]) -> (SchemaRef, Vec<RecordBatch>) {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        let mut next = 0;
        let batch = |size: &usize| {
            let values = Int64Array::from_iter_values(next..next + *size as i64);
            next += *size as i64;
            RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(values)]).expect("one column")
        };
        let batches = sizes.iter().map(batch).collect();
        (schema, batches)
    }

    proptest! {
        #[test]
        fn joining_and_splitting_keep_rows_and_order(
            sizes in prop::collection::vec(prop_oneof![5 => 0usize..20, 2 => 400usize..700, 1 => 8_000usize..60_000], 0..40),
            partitions_max in 1usize..5,
        ) {
            let (schema, before) = batches(&sizes);
            let joined = join_tiny(&schema, before).expect("joins");
            let rows = joined.iter().map(RecordBatch::num_rows).sum();
            prop_assert_eq!(rows, sizes.iter().sum::<usize>());
            let partitions = split(joined, rows, partitions_max);
            prop_assert!((1..=partitions_max).contains(&partitions.len()));
            let values: Vec<i64> = partitions
                .iter()
                .flatten()
                .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec())
                .collect();
            prop_assert_eq!(values, (0..rows as i64).collect::<Vec<_>>());
            let largest = partitions.iter().map(|part| part.iter().map(RecordBatch::num_rows).sum::<usize>()).max();
            prop_assert!(largest.unwrap_or(0) <= rows.div_ceil(partitions.len()).max(1));
        }
    }

    #[test]
    fn many_one_row_batches_become_few() {
        let (schema, before) = batches(&vec![1; 20_000]);
        assert_eq!(join_tiny(&schema, before).expect("joins").len(), 3);
    }
}
