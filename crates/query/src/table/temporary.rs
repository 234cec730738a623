//! Rows of a session's temporary table, as a source of DataFusion's.
//!
//! Invariants:
//! - The rows are those of the moment in which the statement was planned, whatever it changes of the table itself.
//! - Rows in files are read chunk by chunk, as they are asked for, and never whole.

use super::columns::Projected;
use super::traced::ScanSpan;
use crate::used::UsedCounters;
use alluvia_copy::temporary::{Part, TemporaryRead};
use alluvia_values::errors::wrap;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics, stats::Precision};
use datafusion::datasource::source::DataSource;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayFormatType, Partitioning};
use futures::stream;
use std::fmt;
use std::sync::Arc;

/// A partition has at least this many rows, unless there are fewer in all.
const PARTITION_ROWS_MIN: u64 = 32_768;

/// Some columns of a temporary table's rows.
#[derive(Clone, Debug)]
pub(super) struct TemporarySource {
    projected: Projected,
    identified: bool,
    read: TemporaryRead,
    parts: Vec<Part>,
    fetch: Option<usize>,
    metrics: ExecutionPlanMetricsSet,
    used: Arc<UsedCounters>,
    span: Option<Arc<ScanSpan>>,
}

impl TemporarySource {
    /// In at most so many partitions. `projected` has what rows are known by behind its columns where `identified`.
    pub(super) fn new(
        projected: Projected,
        identified: bool,
        read: TemporaryRead,
        partitions_max: usize,
        used: Arc<UsedCounters>,
    ) -> TemporarySource {
        used.plan_rows(read.rows());
        let most = (read.rows() / PARTITION_ROWS_MIN).clamp(1, partitions_max.max(1) as u64);
        let parts = read.parts(most as usize);
        let metrics = ExecutionPlanMetricsSet::new();
        TemporarySource { projected, identified, read, parts, fetch: None, metrics, used, span: None }
    }

    /// The scan's metrics.
    pub(super) fn metrics_set(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    /// Counts for the scan's span, too; returns at most so many rows.
    pub(super) fn with(self, span: Option<Arc<ScanSpan>>, fetch: Option<usize>) -> TemporarySource {
        TemporarySource { span, fetch, ..self }
    }
}

impl DataSource for TemporarySource {
    fn open(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let part = self.parts.get(partition).cloned().unwrap_or(0..0);
        let output_rows = MetricBuilder::new(&self.metrics).output_rows(partition);
        let (used, span, projected) = (Arc::clone(&self.used), self.span.clone(), self.projected.clone());
        let columns =
            projected.indices.iter().map(|&index| projected.file_schema.field(index).name().clone()).collect();
        let batches = self.read.batches(part, columns, self.identified);
        let mut left = self.fetch.unwrap_or(usize::MAX);
        let rows = batches.map_while(move |batch| {
            if left == 0 {
                return None;
            }
            let batch = match batch.map_err(wrap).and_then(|batch| projected.adapt(&batch)) {
                Ok(batch) => batch,
                Err(error) => return Some(Err(error)),
            };
            let batch = batch.slice(0, left.min(batch.num_rows()));
            left -= batch.num_rows();
            output_rows.add(batch.num_rows());
            used.add_rows(batch.num_rows() as u64);
            if let Some(span) = &span {
                span.add_part(0, batch.num_rows() as u64);
            }
            Some(Ok::<_, DataFusionError>(batch))
        });
        let stream = RecordBatchStreamAdapter::new(Arc::clone(&self.projected.schema), stream::iter(rows));
        Ok(Box::pin(cooperative(stream)))
    }

    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "temporary, rows={}, partitions={}", self.read.rows(), self.parts.len())?;
                self.fetch.map_or(Ok(()), |limit| write!(f, ", limit={limit}"))
            }
            DisplayFormatType::TreeRender => writeln!(f, "format=temporary\nrows={}", self.read.rows()),
        }
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.parts.len())
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        EquivalenceProperties::new(Arc::clone(&self.projected.schema))
    }

    fn scheduling_type(&self) -> SchedulingType {
        SchedulingType::Cooperative
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let rows = match partition {
            None => self.read.rows(),
            Some(at) => self.parts.get(at).map_or(0, |part| self.read.rows_of(part)),
        };
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        let num_rows = match self.fetch {
            None => Precision::Exact(rows),
            Some(limit) => Precision::Inexact(rows.min(limit)),
        };
        let schema: &SchemaRef = &self.projected.schema;
        let mut statistics = Statistics::default().with_num_rows(num_rows);
        statistics.column_statistics = Statistics::unknown_column(schema);
        statistics.calculate_total_byte_size(schema);
        Ok(Arc::new(statistics))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        Some(Arc::new(TemporarySource { fetch: limit, ..self.clone() }))
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
