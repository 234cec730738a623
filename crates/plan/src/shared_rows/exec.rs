//! What runs.

use arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, Partitioning, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::{StreamExt, TryStreamExt, stream};
use std::fmt;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Rows of one plan.
#[derive(Debug, Default)]
pub struct Shared(OnceCell<Held>);

#[derive(Debug)]
struct Held {
    batches: Vec<RecordBatch>,
    _memory: MemoryReservation,
}

impl Shared {
    /// The rows, which the first who asks computes, while others wait.
    async fn batches(&self, input: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Result<Vec<RecordBatch>> {
        let compute = async || {
            let memory = MemoryConsumer::new("rows of a query in WITH").register(context.memory_pool());
            let mut rows = input.execute(0, Arc::clone(context))?;
            let mut batches = Vec::new();
            while let Some(batch) = rows.next().await {
                let batch = batch?;
                memory.try_grow(batch.get_array_memory_size())?;
                batches.push(batch);
            }
            Ok::<_, DataFusionError>(Held { batches, _memory: memory })
        };
        Ok(self.0.get_or_try_init(compute).await?.batches.clone())
    }
}

/// A reader of shared rows. Its input runs if it comes first.
#[derive(Debug)]
pub struct SharedRowsExec {
    input: Arc<dyn ExecutionPlan>,
    shared: Arc<Shared>,
    properties: Arc<PlanProperties>,
}

impl SharedRowsExec {
    /// A reader of the rows of `input`, which `shared` holds for all readers.
    pub fn new(input: Arc<dyn ExecutionPlan>, shared: Arc<Shared>) -> SharedRowsExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        SharedRowsExec { input, shared, properties: Arc::new(properties) }
    }

    fn of(&self, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = <[Arc<dyn ExecutionPlan>; 1]>::try_from(children)
            .or_else(|_| internal_err!("shared rows have one input"))?;
        Ok(Arc::new(SharedRowsExec::new(input, Arc::clone(&self.shared))))
    }
}

impl DisplayAs for SharedRowsExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedRowsExec")
    }
}

impl ExecutionPlan for SharedRowsExec {
    fn name(&self) -> &str {
        "SharedRowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
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
        self.of(children)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.of(children)
    }

    /// The same rows, as often as it runs.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("shared rows have no partition {partition}");
        }
        let (input, shared) = (Arc::clone(&self.input), Arc::clone(&self.shared));
        let rows = stream::once(async move {
            let batches = shared.batches(&input, &context).await?;
            Ok::<_, DataFusionError>(stream::iter(batches.into_iter().map(Ok)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows.try_flatten())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_rows::SharedRows;
    use crate::testing::{context, runtime, table};
    use datafusion::physical_plan::collect;

    #[test]
    fn all_readers_have_the_rows_of_the_one_that_came_first() {
        let context = context();
        let rows = table(["a"], &[[Some(1)], [Some(2)]]);
        runtime().block_on(async {
            context.register_batch("t", rows).expect("a table");
            let random = context.sql("SELECT random() AS r FROM t").await.expect("planned");
            let plan = random.create_physical_plan().await.expect("planned");
            let plan = crate::testing::coalesced(plan);
            let shared = Arc::new(Shared::default());
            let reader = || Arc::new(SharedRowsExec::new(Arc::clone(&plan), Arc::clone(&shared)));
            let first = collect(reader(), context.task_ctx()).await.expect("rows");
            let second = collect(reader(), context.task_ctx()).await.expect("rows");
            assert_eq!(first, second);
            assert_eq!(first.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
            let other = Arc::new(SharedRowsExec::new(plan, Arc::default()));
            assert_ne!(first, collect(other, context.task_ctx()).await.expect("rows"));
        });
    }

    #[test]
    fn rows_that_do_not_fit_fail() {
        use datafusion::execution::memory_pool::GreedyMemoryPool;
        use datafusion::execution::runtime_env::RuntimeEnvBuilder;
        let context = context();
        runtime().block_on(async {
            let sql = "SELECT value FROM generate_series(1, 100000) t(value)";
            let plan = context.sql(sql).await.expect("planned").create_physical_plan().await.expect("planned");
            let reader = Arc::new(SharedRowsExec::new(crate::testing::coalesced(plan), Arc::default()));
            let small = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(10_000)));
            let small = small.build_arc().expect("a runtime");
            let task = Arc::new(TaskContext::from(&context.state()).with_runtime(small));
            let error = collect(reader, task).await.expect_err("does not fit").to_string();
            assert!(error.contains("rows of a query in WITH"), "{error}");
        });
    }

    #[test]
    fn readers_are_told_apart_by_their_rows() {
        let context = context();
        let plan = runtime().block_on(context.sql("SELECT 1 AS a")).expect("planned").into_unoptimized_plan();
        let (one, other) = (SharedRows::of(plan.clone()).unwrap(), SharedRows::of(plan).unwrap());
        assert_eq!(one, one.clone());
        assert_ne!(one, other);
    }
}
