//! Rows of a part of a plan that has begun before the rest is planned: what it has given, and whoever gives what is left.
//!
//! Invariants:
//! - The part runs once. Where something of it is left, the rows are for the first who takes them, and nobody else.
//! - What it has given counts as memory of the statement as long as somebody may take it.
//! - Its columns are known by their places: their names are of this table alone.

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::datasource::TableType;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::common::compute_record_batch_statistics;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

/// The rows, as a table of a plan.
#[derive(Clone, Debug)]
pub struct BegunRows(Arc<Begun>);

struct Begun {
    schema: SchemaRef,
    given: Mutex<Vec<RecordBatch>>,
    /// Who gives the rest, until somebody takes it; `None` where nothing is left.
    rest: Option<Mutex<Option<SendableRecordBatchStream>>>,
    statistics: Arc<Statistics>,
    memory: MemoryReservation,
}

impl fmt::Debug for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Begun").field("is_whole", &self.rest.is_none()).finish_non_exhaustive()
    }
}

impl BegunRows {
    /// Takes rows as long as there are no more than `rows_max`, and `memory` has room. `foreseen` is what is known of all of them.
    ///
    /// # Errors
    /// Those of the rows.
    pub async fn begin(
        mut rows: SendableRecordBatchStream,
        rows_max: usize,
        foreseen: &Statistics,
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<BegunRows> {
        let memory = MemoryConsumer::new("rows that a statement is joined with").register(memory);
        let field = |(at, field): (usize, &Arc<Field>)| field.as_ref().clone().with_name(format!("column{}", at + 1));
        let fields: Vec<Field> = rows.schema().fields().iter().enumerate().map(field).collect();
        let schema = Arc::new(Schema::new(fields));
        let (mut given, mut count, mut is_whole) = (Vec::new(), 0, true);
        while let Some(batch) = rows.next().await {
            let batch = renamed(&batch?, &schema)?;
            count += batch.num_rows();
            is_whole = count <= rows_max && memory.try_grow(batch.get_array_memory_size()).is_ok();
            given.push(batch);
            if !is_whole {
                break;
            }
        }
        let statistics = match is_whole {
            true => compute_record_batch_statistics(std::slice::from_ref(&given), &schema, None),
            false => foreseen.clone().to_inexact(),
        };
        let rest = (!is_whole).then(|| Mutex::new(Some(rows)));
        let (given, statistics) = (Mutex::new(given), Arc::new(statistics));
        Ok(BegunRows(Arc::new(Begun { schema, given, rest, statistics, memory })))
    }

    /// All of them, if nothing is left.
    pub fn whole(&self) -> Option<Vec<RecordBatch>> {
        self.0.rest.is_none().then(|| self.0.given.lock().clone())
    }
}

fn renamed(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &options)?)
}

#[async_trait::async_trait]
impl TableProvider for BegunRows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0.schema)
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
        let all = Arc::new(BegunRowsExec::new(self.clone()));
        let Some(projection) = projection else { return Ok(all) };
        let schema = &self.0.schema;
        let column = |&at: &usize| {
            let name = schema.field(at).name();
            let column = datafusion::physical_expr::expressions::Column::new(name, at);
            (Arc::new(column) as Arc<dyn PhysicalExpr>, name.clone())
        };
        let columns: Vec<_> = projection.iter().map(column).collect();
        Ok(Arc::new(ProjectionExec::try_new(columns, all)?))
    }
}

/// Gives the rows.
#[derive(Debug)]
struct BegunRowsExec {
    rows: BegunRows,
    properties: Arc<PlanProperties>,
}

impl BegunRowsExec {
    fn new(rows: BegunRows) -> BegunRowsExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&rows.0.schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        BegunRowsExec { rows, properties: Arc::new(properties) }
    }
}

impl DisplayAs for BegunRowsExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BegunRowsExec")
    }
}

impl ExecutionPlan for BegunRowsExec {
    fn name(&self) -> &str {
        "BegunRowsExec"
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

    fn statistics_from_inputs(&self, _inputs: &[Arc<Statistics>], _args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&self.rows.0.statistics))
    }

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("rows that have begun have no partition {partition}");
        }
        let rows = &self.rows.0;
        let schema = Arc::clone(&rows.schema);
        let Some(rest) = &rows.rest else {
            let given = rows.given.lock().clone();
            let given = stream::iter(given.into_iter().map(Ok));
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, given)));
        };
        let Some(rest) = rest.lock().take() else {
            return internal_err!("rows that have begun are taken a second time");
        };
        let given = std::mem::take(&mut *rows.given.lock());
        rows.memory.free();
        let of = Arc::clone(&schema);
        let rest = rest.map(move |batch| renamed(&batch?, &of));
        let all = stream::iter(given.into_iter().map(Ok::<_, DataFusionError>)).chain(rest);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, all)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};
    use datafusion::prelude::SessionContext;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
    }

    /// Three batches, of two columns of one name.
    async fn begun(rows_max: usize, memory: Arc<dyn MemoryPool>) -> BegunRows {
        let batch = |first: i64| {
            let column = |values: [Option<i64>; 2]| Arc::new(values.into_iter().collect::<Int64Array>()) as ArrayRef;
            let columns = [("a", column([Some(first), Some(first + 10)])), ("a", column([None, Some(first)]))];
            let columns = columns.map(|(name, values)| (name, values, true));
            RecordBatch::try_from_iter_with_nullable(columns).expect("rows")
        };
        let batches = [1, 2, 3].map(batch);
        let schema = batches[0].schema();
        let rows = stream::iter(batches.into_iter().map(Ok));
        let rows = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), rows));
        BegunRows::begin(rows, rows_max, &Statistics::new_unknown(&schema), &memory).await.expect("rows")
    }

    async fn rows(context: &SessionContext, sql: &str) -> Result<Vec<Vec<Option<i64>>>> {
        let mut rows = Vec::new();
        for batch in context.sql(sql).await?.collect().await? {
            for row in 0..batch.num_rows() {
                let columns = batch.columns().iter().map(|column| column.as_primitive::<Int64Type>());
                rows.push(columns.map(|column| column.is_valid(row).then(|| column.value(row))).collect());
            }
        }
        Ok(rows)
    }

    #[test]
    fn rows_that_are_all_there_are_given_as_often_as_they_are_asked_for() {
        runtime().block_on(async {
            let memory: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
            let all = begun(6, Arc::clone(&memory)).await;
            assert_eq!(all.whole().map(|batches| batches.len()), Some(3));
            assert!(memory.reserved() > 0);
            let context = SessionContext::new();
            context.register_table("t", Arc::new(all)).expect("a table");
            for _ in 0..2 {
                let sums = rows(&context, "SELECT count(*), sum(column1), sum(column2) FROM t").await.expect("rows");
                assert_eq!(sums, [[Some(6), Some(42), Some(6)]]);
            }
            drop(context);
            assert_eq!(memory.reserved(), 0);
        });
    }

    #[test]
    fn what_is_left_comes_behind_what_was_given_and_once() {
        let (large, small) = (UnboundedMemoryPool::default(), GreedyMemoryPool::new(1));
        let pools: [(usize, Arc<dyn MemoryPool>); 2] = [(3, Arc::new(large)), (100, Arc::new(small))];
        runtime().block_on(async {
            for (rows_max, memory) in pools {
                let some = begun(rows_max, Arc::clone(&memory)).await;
                assert!(some.whole().is_none());
                let context = SessionContext::new();
                context.register_table("t", Arc::new(some)).expect("a table");
                let sql = "SELECT column2, column1 FROM t";
                let all = rows(&context, sql).await.expect("rows");
                let wanted = [(1, None), (11, Some(1)), (2, None), (12, Some(2)), (3, None), (13, Some(3))];
                assert_eq!(all, wanted.map(|(a, b)| vec![b, Some(a)]));
                assert_eq!(memory.reserved(), 0);
                let again = rows(&context, sql).await.expect_err("is gone").to_string();
                assert!(again.contains("a second time"), "{again}");
            }
        });
    }
}
