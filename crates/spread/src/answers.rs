//! What parts of plans answer, as an operator of the plan that they are parts of.
//!
//! Invariants:
//! - Rows have the operator's types, or it fails: what another build of the program answers is taken for nothing else.
//! - Who takes no more rows ends the asking at the next answer.

use crate::values::Made;
use alluvia_snapshot::{AskedPart, Read, Uses, own_bytes};
use alluvia_types::{Error, ErrorKind, TableId, Version};
use alluvia_values::errors::wrap;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, ReplaceChildrenOptions,
};
use std::fmt;
use std::sync::Arc;

/// Batches that wait to be taken.
const BATCHES_AHEAD: usize = 4;

/// A table that is asked, at a version.
#[derive(Clone, Debug)]
pub struct Source {
    /// Reaches it.
    pub store: Arc<dyn Read>,
    /// Which table.
    pub table: TableId,
    /// What it is called.
    pub name: String,
    /// At which version.
    pub version: Version,
    /// What may answer it there.
    pub uses: Uses,
}

/// What a part gives, for all parts of a table.
#[derive(Debug)]
pub struct AnswersExec {
    source: Source,
    part: AskedPart,
    /// After so many columns that are taken as they are, what the others are made of; `None` where all are taken.
    made: Option<(usize, Arc<[Made]>)>,
    /// What is asked, for people.
    shown: String,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl AnswersExec {
    /// Rows of this schema.
    pub fn rows(source: Source, part: AskedPart, schema: SchemaRef, shown: String) -> AnswersExec {
        AnswersExec::new(source, part, None, schema, shown)
    }

    pub(crate) fn new(
        source: Source,
        part: AskedPart,
        made: Option<(usize, Arc<[Made]>)>,
        schema: SchemaRef,
        shown: String,
    ) -> AnswersExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let (properties, metrics) = (Arc::new(properties), ExecutionPlanMetricsSet::new());
        AnswersExec { source, part, made, shown, properties, metrics }
    }
}

impl DisplayAs for AnswersExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "AnswersExec: table={}, {}", self.source.name, self.shown)
            }
            DisplayFormatType::TreeRender => write!(f, "table={}\n{}", self.source.name, self.shown),
        }
    }
}

impl ExecutionPlan for AnswersExec {
    fn name(&self) -> &str {
        "AnswersExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _each: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return Err(DataFusionError::Internal(format!("answers have no partition {partition}")));
        }
        let (source, part, made, schema) = (self.source.clone(), self.part.clone(), self.made.clone(), self.schema());
        let rows = MetricBuilder::new(&self.metrics).output_rows(0);
        let bytes = MetricBuilder::new(&self.metrics).counter("bytes_received", 0);
        let parts = MetricBuilder::new(&self.metrics).counter("shards_asked", 0);
        let mut taken = RecordBatchReceiverStream::builder(self.schema(), BATCHES_AHEAD);
        let sender = taken.tx();
        taken.spawn_blocking(move || {
            let mut each = |answer: Vec<RecordBatch>| {
                parts.add(1);
                for batch in answer {
                    bytes.add(own_bytes(&batch));
                    rows.add(batch.num_rows());
                    let batch = fitted(&batch, made.as_ref(), &schema)?;
                    sender.blocking_send(Ok(batch)).map_err(|_| gone())?;
                }
                Ok(())
            };
            source.store.ask(source.table, source.version, &part, &mut each).map_err(wrap)
        });
        Ok(taken.build())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Nobody hears it.
fn gone() -> Error {
    Error::new(ErrorKind::Cancelled, "nobody takes the rows any more")
}

/// An answer as the operator gives it.
fn fitted(
    batch: &RecordBatch,
    made: Option<&(usize, Arc<[Made]>)>,
    schema: &SchemaRef,
) -> std::result::Result<RecordBatch, Error> {
    let unfit = |what: &dyn fmt::Display| {
        Error::new(ErrorKind::Protocol, format!("a part of a plan was answered otherwise than it was asked: {what}"))
            .with_hint("all nodes of a cluster run the same version of Alluvia")
    };
    let columns: Vec<ArrayRef> = match made {
        None => batch.columns().to_vec(),
        Some((taken, made)) if batch.num_columns() >= *taken => {
            let (groups, values) = batch.columns().split_at(*taken);
            let types = schema.fields()[(*taken).min(schema.fields().len())..].iter();
            let made = made.iter().zip(types).map(|(made, field)| {
                made.column(values, field.data_type(), batch.num_rows()).map_err(|error| unfit(&error))
            });
            groups.iter().cloned().map(Ok).chain(made).collect::<std::result::Result<_, _>>()?
        }
        Some(_) => return Err(unfit(&"columns are missing")),
    };
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(|error| unfit(&error))
}
