//! A window over runs of its input, in the place of the window.

use super::feed::Feed;
use super::shape::Shape;
use crate::wrapped_operator::{WrappedOperator, WrappedOperatorExec};
use arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::{TryStreamExt, stream};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

/// A window, whose runs end with the partition in which they reach `run_bytes`; any other operator is given back as it is.
pub fn in_runs(operator: Arc<dyn ExecutionPlan>, run_bytes: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(shape) = Shape::of(&operator) else { return Ok(operator) };
    let in_runs = InRuns { shape, run_bytes, over_run: Arc::new(OverRun::of(&operator)?) };
    Ok(Arc::new(WrappedOperatorExec::new(operator, in_runs)))
}

/// The operator is begun anew with each run.
#[derive(Debug)]
struct InRuns {
    shape: Shape,
    run_bytes: usize,
    over_run: Arc<OverRun>,
}

impl WrappedOperator for InRuns {
    fn of(&self, window: &Arc<dyn ExecutionPlan>) -> Result<InRuns> {
        let shape = Shape::of(window).ok_or_else(|| DataFusionError::Internal("a window became none".into()))?;
        Ok(InRuns { shape, run_bytes: self.run_bytes, over_run: Arc::new(OverRun::of(window)?) })
    }

    fn execute(
        &self,
        window: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = window.children().first().map(|input| input.execute(partition, Arc::clone(&context)));
        let input = input.unwrap_or_else(|| Err(DataFusionError::Internal("a window has no input".into())))?;
        let memory = MemoryConsumer::new(format!("{}[{partition}]", window.name())).register(context.memory_pool());
        let feed = Arc::new(Mutex::new(Feed::new(self.shape.clone(), input, self.run_bytes, memory)));
        let rows = context.session_config().batch_size().div_ceil(2);
        let runs = Runs { feed, partition, context, rows, over_run: Arc::clone(&self.over_run), made: None, run: None };
        let batches = stream::try_unfold(runs, |mut runs| async { Ok(runs.next().await?.map(|batch| (batch, runs))) });
        Ok(Box::pin(RecordBatchStreamAdapter::new(window.schema(), batches)))
    }

    fn metrics(&self, _window: &Arc<dyn ExecutionPlan>) -> Option<MetricsSet> {
        self.over_run.window.metrics()
    }
}

/// One partition of the plan while it runs.
struct Runs {
    feed: Arc<Mutex<Feed>>,
    over_run: Arc<OverRun>,
    partition: usize,
    context: Arc<TaskContext>,
    /// Rows that a batch has at least, where as many are there.
    rows: usize,
    run: Option<SendableRecordBatchStream>,
    /// What the operator has given and we have not.
    made: Option<RecordBatch>,
}

impl Runs {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(made) = self.made.take() {
                let (batch, rest) = self.feed.lock().take(&made, self.rows)?;
                self.made = rest;
                return Ok(Some(batch));
            }
            let run = match &mut self.run {
                Some(run) => run,
                None if !self.feed.lock().begin_run()? => return Ok(None),
                None => self.run.insert(self.over_run.begin(&self.feed, self.partition, &self.context)?),
            };
            match run.try_next().await? {
                Some(made) => self.made = Some(made).filter(|made| made.num_rows() > 0),
                None => self.run = None,
            }
        }
    }
}

/// The operator over a run.
#[derive(Debug)]
struct OverRun {
    window: Arc<dyn ExecutionPlan>,
    input: Arc<HandedExec>,
}

impl OverRun {
    fn of(window: &Arc<dyn ExecutionPlan>) -> Result<OverRun> {
        let properties = window.children().first().map(|input| Arc::clone(input.properties()));
        let properties = properties.ok_or_else(|| DataFusionError::Internal("a window has no input".into()))?;
        let input = Arc::new(HandedExec { properties, handed: Mutex::default(), turn: Mutex::default() });
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        let window = Arc::clone(window).replace_children(vec![Arc::clone(&input) as _], options)?;
        Ok(OverRun { window, input })
    }

    fn begin(
        &self,
        feed: &Arc<Mutex<Feed>>,
        partition: usize,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let feed = Arc::clone(feed);
        let batches = stream::poll_fn(move |cx| feed.lock().poll_given(cx));
        let batches = Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), batches));
        // A plan may be executed more than once: each takes what is its own.
        let _turn = self.input.turn.lock();
        *self.input.handed.lock() = Some(batches);
        self.window.execute(partition, Arc::clone(context))
    }
}

/// The input of the operator over a run: what is handed to it.
struct HandedExec {
    properties: Arc<PlanProperties>,
    /// For the operator that is executed next, by whoever has the turn.
    handed: Mutex<Option<SendableRecordBatchStream>>,
    turn: Mutex<()>,
}

impl fmt::Debug for HandedExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl DisplayAs for HandedExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for HandedExec {
    fn name(&self) -> &str {
        "HandedExec"
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

    fn with_new_children(self: Arc<Self>, _children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let handed = self.handed.lock().take();
        handed.ok_or_else(|| DataFusionError::Internal(format!("no run of partition {partition}")))
    }
}
