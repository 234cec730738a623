//! The gap of an outline: a table that takes no filters, whose scan has no rows until it is filled.
//!
//! Invariants:
//! - Nothing is known of its rows but their columns, so nothing around it is planned for certain rows.
//! - It has one partition, filled or not, and the same properties, so that what is around it need not be planned anew.

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::TableType;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PlanProperties, ReplaceChildrenOptions,
};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// A table of these columns, to be planned around.
#[derive(Debug)]
pub(in crate::sample) struct GapTable {
    schema: SchemaRef,
}

impl GapTable {
    /// In the place of a table of these columns.
    pub(in crate::sample) fn new(schema: SchemaRef) -> GapTable {
        GapTable { schema }
    }
}

#[async_trait]
impl TableProvider for GapTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let wanted = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        Ok(Arc::new(GapExec::new(Arc::new(self.schema.project(&wanted)?), wanted)))
    }
}

/// The gap in a plan.
#[derive(Debug)]
pub(super) struct GapExec {
    schema: SchemaRef,
    wanted: Vec<usize>,
    source: Option<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
}

impl GapExec {
    fn new(schema: SchemaRef, wanted: Vec<usize>) -> GapExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        // As the scans are that it is filled with.
        let properties = properties.with_scheduling_type(SchedulingType::Cooperative);
        GapExec { schema, wanted, source: None, properties: Arc::new(properties) }
    }

    /// The columns of the table that it gives.
    pub(super) fn wanted(&self) -> &[usize] {
        &self.wanted
    }

    /// The same with rows, of these columns in this order.
    pub(super) fn filled(&self, source: Arc<dyn ExecutionPlan>) -> GapExec {
        let source: Arc<dyn ExecutionPlan> = match source.output_partitioning().partition_count() {
            1 => source,
            _ => Arc::new(CoalescePartitionsExec::new(source)),
        };
        GapExec {
            schema: Arc::clone(&self.schema),
            wanted: self.wanted.clone(),
            source: Some(source),
            properties: Arc::clone(&self.properties),
        }
    }
}

impl DisplayAs for GapExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => write!(f, "GapExec: columns={:?}", self.wanted),
            DisplayFormatType::TreeRender => writeln!(f, "columns={:?}", self.wanted),
        }
    }
}

impl ExecutionPlan for GapExec {
    fn name(&self) -> &str {
        "GapExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    /// What it is filled with is none: that is scanned as it is.
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
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

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (Some(source), 0) = (&self.source, partition) else {
            return Err(DataFusionError::Internal(format!("partition {partition} of a gap has no rows")));
        };
        let schema = Arc::clone(&self.schema);
        let named = source.execute(0, context)?.map(move |batch| {
            let batch = batch?;
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            Ok(RecordBatch::try_new_with_options(Arc::clone(&schema), batch.columns().to_vec(), &options)?)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), named)))
    }
}
