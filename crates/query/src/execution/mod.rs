//! Threads that compute what plans say, apart from those that talk to clients.
//!
//! Invariants:
//! - Whoever takes a plan's rows never computes them: a poll of an operator may take seconds, and delays neither other connections nor the
//!   end of the statement it is for.
//! - A plan whose rows nobody takes any more is let go at its next pause. It is at most a few batches ahead of who takes them.
//! - A statement that finds no memory because others have it begins again when it is its turn, for as long as `memory_wait_timeout` says.
//! - A hash join whose table does not fit a statement's memory is done again by sorting, which spills.
//! - Neither is done once a row was given.

pub(crate) mod blocking;
pub(crate) mod guard;
pub(crate) mod planning;

use crate::errors::error_of;
use crate::execution::guard::guarded_poll;
use crate::execution::planning::plan_apart;
use crate::rule::is_index_answer;
use crate::table::part_rows;
use crate::used::UsedCounters;
use alluvia_copy::progress::CancelToken;
use alluvia_memory::{Admission, Waiter};
use alluvia_plan::pipelines::KnownOperators;
pub(crate) use alluvia_plan::threads::Threads as Executor;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::wrap;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::DataFusionError;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::{FutureExt, Stream};
use parking_lot::Mutex;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tracing::Instrument;

/// Operators that plans have beside DataFusion's, as the estimate of a statement's progress knows them.
pub(crate) const KNOWN_OPERATORS: KnownOperators = KnownOperators { answers_alone: is_index_answer, part_rows };

/// Stack of one poll of a stream: plans that are deep recurse through their operators.
const POLL_STACK_BYTES: usize = 16 << 20;
const POLL_RED_ZONE_BYTES: usize = 512 << 10;
/// Batches that wait to be taken.
const BATCHES_AHEAD: usize = 4;

/// The plan that runs, for who looks at its metrics when it has run.
#[derive(Clone, Default)]
pub(crate) struct Watched(Arc<Mutex<Option<Arc<dyn ExecutionPlan>>>>);

impl Watched {
    /// The plan that ran last.
    pub(crate) fn plan(&self) -> Option<Arc<dyn ExecutionPlan>> {
        self.0.lock().clone()
    }

    fn set(&self, plan: Option<&Arc<dyn ExecutionPlan>>) {
        // What is let go may be large, and is not dropped under the lock.
        let last = std::mem::replace(&mut *self.0.lock(), plan.cloned());
        drop(last);
    }
}

/// A plan, ready to run.
#[derive(Clone)]
pub(crate) struct Execution {
    pub(crate) executor: Arc<Executor>,
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) task: Arc<TaskContext>,
    /// To begin it again.
    pub(crate) again: Option<Arc<Again>>,
}

/// What a plan was made of.
pub(crate) struct Again {
    /// Its rules have been gone through.
    pub(crate) plan: LogicalPlan,
    pub(crate) state: SessionState,
    pub(crate) token: CancelToken,
    pub(crate) used: Arc<UsedCounters>,
    has_hash_join: bool,
    patience: Patience,
}

/// How a statement waits for memory.
#[derive(Clone)]
pub(crate) struct Patience {
    pub(crate) admission: Arc<Admission>,
    pub(crate) most: Duration,
}

impl Again {
    /// Of a plan.
    pub(crate) fn of(
        plan: LogicalPlan,
        state: &SessionState,
        token: &CancelToken,
        physical: &Arc<dyn ExecutionPlan>,
        used: &Arc<UsedCounters>,
        patience: &Patience,
    ) -> Arc<Again> {
        let mut has_join = false;
        let looked = physical.apply(|plan| {
            has_join |= plan.downcast_ref::<HashJoinExec>().is_some();
            Ok(if has_join { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        });
        let (state, token, used) = (state.clone(), token.clone(), Arc::clone(used));
        let has_hash_join = looked.is_ok() && has_join;
        Arc::new(Again { plan, state, token, used, has_hash_join, patience: patience.clone() })
    }

    /// The same rows anew, by joins that sort if these are `sorted`.
    async fn rows(
        &self,
        sorted: bool,
        task: &Arc<TaskContext>,
        watched: Option<&Watched>,
    ) -> Result<SendableRecordBatchStream> {
        let (plan, mut state) = (self.plan.clone(), self.state.clone());
        if sorted {
            let options = state.config_mut().options_mut();
            options.optimizer.prefer_hash_join = false;
            // DataFusion 55.2 sorts only where there are several partitions.
            options.execution.target_partitions = options.execution.target_partitions.max(2);
        }
        let (used, memory) = (Arc::clone(&self.used), Arc::clone(task.memory_pool()));
        let planned = plan_apart(self.token.clone(), async move {
            let planner = Arc::clone(state.query_planner());
            let plan = planner.create_physical_plan(&plan, &state).await.map_err(|error| error_of(&error))?;
            Ok(used.pipelines().meter(plan, &memory, &KNOWN_OPERATORS))
        });
        let plan = planned.await?;
        if let Some(watched) = watched {
            watched.set(Some(&plan));
        }
        execute_stream(plan, Arc::clone(task)).map_err(|error| error_of(&error))
    }
}

impl Execution {
    /// Starts it.
    pub(crate) fn start(&self) -> Result<SendableRecordBatchStream> {
        self.begin(None)
    }

    /// Starts it for somebody who looks at the plan afterwards.
    pub(crate) fn start_watched(self) -> Result<(SendableRecordBatchStream, Watched)> {
        let watched = Watched::default();
        watched.set(Some(&self.plan));
        Ok((self.begin(Some(watched.clone()))?, watched))
    }

    fn begin(&self, watched: Option<Watched>) -> Result<SendableRecordBatchStream> {
        let refused = |error| Error::internal(format!("the machine refuses threads: {error}"));
        let lane = self.executor.lane().map_err(refused)?;
        let handle = lane.handle().clone();
        // What its plan keeps of rows that are there already.
        let kept = self.task.memory_pool().reserved();
        let rows = {
            // Operators begin tasks of their own.
            let _inside = handle.enter();
            execute_stream(Arc::clone(&self.plan), Arc::clone(&self.task)).map_err(|error| error_of(&error))?
        };
        let schema = rows.schema();
        let (sender, receiver) = mpsc::channel(BATCHES_AHEAD);
        let last = sender.clone();
        // The plan itself is not held, but for who looks at it: what it keeps of a join's table counts as long as it lives.
        let run = run(rows, sender, (Arc::clone(&self.task), kept), self.again.clone(), watched);
        let run = AssertUnwindSafe(run).catch_unwind();
        let running = handle.spawn(
            async move {
                let _lane = lane;
                if run.await.is_err() {
                    let _ = last.send(Err(wrap(Error::internal("the statement panicked")))).await;
                }
            }
            .in_current_span(),
        );
        let running = running.abort_handle();
        Ok(Box::pin(Apart { schema, rows: receiver, running }))
    }
}

async fn run(
    rows: SendableRecordBatchStream,
    sender: mpsc::Sender<Taken>,
    (task, kept): (Arc<TaskContext>, usize),
    again: Option<Arc<Again>>,
    watched: Option<Watched>,
) {
    // The whole of it is waited for where it is refused memory.
    let patience = again.as_ref().map(|again| again.patience.clone());
    let waiter = patience.as_ref().map(|own| Waiter::new(&own.admission, task.memory_pool(), kept, own.most));
    let mut attempt = Attempt { again, is_sorted: false, waiter };
    let mut rows = rows;
    while let Some(taken) = next(&mut rows).await {
        match taken {
            Ok(batch) => {
                // Once rows are out there is no way back, and the turn is another's: who takes rows may take his time.
                if batch.num_rows() > 0 {
                    (attempt.again, attempt.waiter) = (None, None);
                }
                if sender.send(Ok(batch)).await.is_err() {
                    return;
                }
            }
            Err(error) if error_of(&error).kind() == ErrorKind::OutOfMemory && attempt.again.is_some() => {
                drop(rows);
                if let Some(watched) = &watched {
                    watched.set(None);
                }
                match attempt.next(error, &task, watched.as_ref()).await {
                    Ok(anew) => rows = anew,
                    Err(error) => {
                        let _ = sender.send(Err(wrap(error))).await;
                        return;
                    }
                }
            }
            Err(error) => {
                let _ = sender.send(Err(error)).await;
                return;
            }
        }
    }
}

/// Where a statement is that was refused memory.
struct Attempt<'a> {
    /// To begin it again; `None` once it has given rows.
    again: Option<Arc<Again>>,
    /// Whether its joins are done by sorting.
    is_sorted: bool,
    waiter: Option<Waiter<'a>>,
}

impl Attempt<'_> {
    /// Its rows anew, or that there is no other way: it has let go of what it held.
    async fn next(
        &mut self,
        error: DataFusionError,
        task: &Arc<TaskContext>,
        watched: Option<&Watched>,
    ) -> Result<SendableRecordBatchStream> {
        let (Some(again), Some(waiter)) = (self.again.clone(), &mut self.waiter) else { return Err(error_of(&error)) };
        let is_for_others = waiter.is_for_others(&error);
        waiter.given_back().await;
        if is_for_others {
            tracing::debug!(%error, "a statement found no memory: it waits for its turn");
            again.used.waits_for_memory(true);
            let has_turn = waiter.turn().await;
            again.used.waits_for_memory(false);
            if !has_turn {
                let waited = again.patience.most.as_secs_f64();
                let hint = format!("others have the memory; it was waited for {waited} seconds (memory_wait_timeout)");
                return Err(error_of(&error).with_hint(hint));
            }
        } else if again.has_hash_join && !self.is_sorted {
            tracing::debug!(%error, "a plan with hash joins did not fit: its joins are done by sorting");
            self.is_sorted = true;
        } else {
            return Err(error_of(&error));
        }
        again.rows(self.is_sorted, task, watched).await
    }
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
