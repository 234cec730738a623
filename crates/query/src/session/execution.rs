//! Threads that compute what plans say, apart from those that talk to clients.
//!
//! Invariants:
//! - Whoever takes a plan's rows never computes them: a poll of an operator may take seconds, and delays neither other connections nor the
//!   end of the statement it is for.
//! - A plan whose rows nobody takes any more is let go at its next pause. It is at most a few batches ahead of who takes them.
//! - A hash join whose table does not fit a statement's memory is done again by sorting, which spills, if no row was given before.

use super::errors::error_of;
use super::guard::guarded_poll;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::DataFusionError;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::Stream;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tracing::Instrument;

/// Stack of one poll of a stream: plans that are deep recurse through their operators.
const POLL_STACK_BYTES: usize = 16 << 20;
const POLL_RED_ZONE_BYTES: usize = 512 << 10;
/// Stack of a thread.
const THREAD_STACK_BYTES: usize = 8 << 20;
/// Batches that wait to be taken.
const BATCHES_AHEAD: usize = 2;

/// The threads; begun with the first plan.
#[derive(Debug)]
pub(crate) struct Executor {
    threads: usize,
    runtime: OnceLock<Runtime>,
}

impl Executor {
    /// So many threads.
    pub(crate) fn new(threads: usize) -> Arc<Executor> {
        Arc::new(Executor { threads: threads.max(1), runtime: OnceLock::new() })
    }

    fn handle(&self) -> Result<&Handle> {
        if let Some(runtime) = self.runtime.get() {
            return Ok(runtime.handle());
        }
        let runtime = Builder::new_multi_thread()
            .worker_threads(self.threads)
            .thread_stack_size(THREAD_STACK_BYTES)
            .thread_name("alluvia-plan")
            .enable_all()
            .build()
            .map_err(|error| Error::internal(format!("the machine refuses threads: {error}")))?;
        // Of two that began at a time one is let go, which must not wait for itself.
        if let Err(late) = self.runtime.set(runtime) {
            late.shutdown_background();
        }
        self.runtime.get().map(Runtime::handle).ok_or_else(|| Error::internal("there are no threads for plans"))
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        // A runtime that is dropped waits for its threads, which no asynchronous caller may.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A plan, ready to run.
#[derive(Clone)]
pub(crate) struct Execution {
    pub(crate) executor: Arc<Executor>,
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) task: Arc<TaskContext>,
    /// To plan it by other joins.
    pub(crate) again: Option<Arc<Again>>,
}

/// What a plan was made of.
pub(crate) struct Again {
    pub(crate) plan: LogicalPlan,
    pub(crate) state: SessionState,
}

impl Again {
    /// Of a plan that has hash joins.
    pub(crate) fn of(plan: LogicalPlan, state: &SessionState, physical: &Arc<dyn ExecutionPlan>) -> Option<Arc<Again>> {
        let mut has_join = false;
        let looked = physical.apply(|plan| {
            has_join |= plan.downcast_ref::<HashJoinExec>().is_some();
            Ok(if has_join { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        });
        (looked.is_ok() && has_join).then(|| Arc::new(Again { plan, state: state.clone() }))
    }

    /// The same rows by joins that sort.
    async fn sorted(&self) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        let mut state = self.state.clone();
        state.config_mut().options_mut().optimizer.prefer_hash_join = false;
        state.create_physical_plan(&self.plan).await
    }
}

impl Execution {
    /// Starts it.
    pub(crate) fn start(&self) -> Result<SendableRecordBatchStream> {
        let handle = self.executor.handle()?;
        let rows = {
            // Operators begin tasks of their own.
            let _inside = handle.enter();
            execute_stream(Arc::clone(&self.plan), Arc::clone(&self.task)).map_err(|error| error_of(&error))?
        };
        let schema = rows.schema();
        let (sender, receiver) = mpsc::channel(BATCHES_AHEAD);
        let run = self.clone().run(rows, sender);
        let running = handle.spawn(run.in_current_span()).abort_handle();
        Ok(Box::pin(Apart { schema, rows: receiver, running }))
    }

    async fn run(self, rows: SendableRecordBatchStream, sender: mpsc::Sender<Taken>) {
        let mut rows = rows;
        let mut is_begun = false;
        while let Some(taken) = next(&mut rows).await {
            match taken {
                Ok(batch) => {
                    is_begun |= batch.num_rows() > 0;
                    if sender.send(Ok(batch)).await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    let Some(again) = self.again.as_ref().filter(|_| !is_begun && is_too_large(&error)) else {
                        let _ = sender.send(Err(error)).await;
                        return;
                    };
                    // What it held must be free for what comes.
                    drop(rows);
                    tracing::debug!(%error, "a hash join did not fit: it is done by sorting");
                    let sorted = again.sorted().await;
                    match sorted.and_then(|plan| execute_stream(plan, Arc::clone(&self.task))) {
                        Ok(sorted) => rows = sorted,
                        Err(error) => {
                            let _ = sender.send(Err(error)).await;
                            return;
                        }
                    }
                    is_begun = true;
                }
            }
        }
    }
}

/// Whether a hash join's table took more memory than there is.
fn is_too_large(error: &DataFusionError) -> bool {
    let error = error_of(error);
    error.kind() == ErrorKind::OutOfMemory && error.message().contains("HashJoinInput")
}

type Taken = Result<RecordBatch, DataFusionError>;

async fn next(rows: &mut SendableRecordBatchStream) -> Option<Taken> {
    poll_fn(|context| {
        stacker::maybe_grow(POLL_RED_ZONE_BYTES, POLL_STACK_BYTES, || guarded_poll(|| rows.as_mut().poll_next(context)))
    })
    .await
}

/// Rows that are computed elsewhere.
struct Apart {
    schema: SchemaRef,
    rows: mpsc::Receiver<Taken>,
    running: AbortHandle,
}

impl Stream for Apart {
    type Item = Taken;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Taken>> {
        self.rows.poll_recv(context)
    }
}

impl RecordBatchStream for Apart {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        self.running.abort();
    }
}
