//! Polls of operators, each of which knows for which statement it works.
//!
//! Invariants:
//! - Whatever an operator does within a poll, a function of an expression or an accumulator, may ask whether the statement is to stop
//!   ([`alluvia_functions::stopping`]).
//! - A statement that is stopped makes no other batch: each operator asks before each poll, on whatever thread it is polled. So a plan is
//!   left after what one operator makes of one batch, and not when its task gives way the next time, which is a hundred batches later.
//! - An operator that found its statement stopped lets go of what it holds.
//! - A task gives way once it has run for [`TURN`], between two batches. (By itself it gives way once it has read a hundred batches, and what
//!   operators make of one may take a tenth of a second.)

use crate::wrapped_operator::{WrappedOperator, WrappedOperatorExec};
use alluvia_functions::stopping::StopCheck;
use alluvia_types::{Clock, SystemClock};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use futures::{Stream, StreamExt};
use std::cell::Cell;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Duration;

/// How long a task runs before it gives way.
const TURN: Duration = Duration::from_millis(5);

/// Whose turn it is next decides no answer, so it need not be another in a simulation.
static CLOCK: LazyLock<SystemClock> = LazyLock::new(SystemClock::default);

thread_local! {
    /// When the task that this thread polls began its turn.
    static BEGAN: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// The plan, of which each operator asks.
pub(super) fn asking(plan: &Arc<dyn ExecutionPlan>, stop: &StopCheck) -> Result<Arc<dyn ExecutionPlan>> {
    let children: Vec<_> = plan.children().into_iter().map(|child| asking(child, stop)).collect::<Result<_>>()?;
    let plan = if children.is_empty() {
        Arc::clone(plan)
    } else {
        // To whoever looks at them the children are what they were.
        Arc::clone(plan).replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))?
    };
    Ok(Arc::new(WrappedOperatorExec::new(plan, AskingPolls { stop: stop.clone() })))
}

#[derive(Clone, Debug)]
struct AskingPolls {
    stop: StopCheck,
}

impl WrappedOperator for AskingPolls {
    fn of(&self, _operator: &Arc<dyn ExecutionPlan>) -> Result<AskingPolls> {
        Ok(self.clone())
    }

    fn execute(
        &self,
        operator: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let batches = self.stop.within(|| operator.execute(partition, context))?;
        let schema = operator.schema();
        Ok(Box::pin(Asking { stop: self.stop.clone(), schema, batches: Some(batches) }))
    }
}

struct Asking {
    stop: StopCheck,
    schema: SchemaRef,
    /// `None` once they are over, or the statement was found stopped.
    batches: Option<SendableRecordBatchStream>,
}

impl Stream for Asking {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(batches) = &mut this.batches else { return Poll::Ready(None) };
        let turn = Turn::begin();
        let polled = match this.stop.check() {
            Ok(()) if turn.is_over() => {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Ok(()) => this.stop.within(|| batches.poll_next_unpin(context)),
            Err(error) => Poll::Ready(Some(Err(error))),
        };
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            this.batches = None;
        }
        polled
    }
}

/// A poll of a task's outermost operator, and of those within it.
struct Turn {
    is_outermost: bool,
    began: Duration,
    now: Duration,
}

impl Turn {
    fn begin() -> Turn {
        let now = CLOCK.monotonic();
        let (is_outermost, began) = (BEGAN.get().is_none(), BEGAN.get().unwrap_or(now));
        BEGAN.set(Some(began));
        Turn { is_outermost, began, now }
    }

    /// The outermost operator is always polled: so something is done in every turn.
    fn is_over(&self) -> bool {
        self.now - self.began > TURN
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.is_outermost {
            BEGAN.set(None);
        }
    }
}

impl RecordBatchStream for Asking {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array};
    use datafusion::common::exec_err;
    use datafusion::datasource::MemTable;
    use datafusion::prelude::SessionContext;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn numbers() -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..8));
        RecordBatch::try_from_iter([("a", column)]).expect("one column")
    }

    fn plan(context: &SessionContext, batches: usize, stop: &StopCheck) -> Arc<dyn ExecutionPlan> {
        let batch = numbers();
        let table = MemTable::try_new(batch.schema(), vec![vec![batch; batches]]).expect("a table");
        context.register_table("t", Arc::new(table)).expect("is new");
        let plan = crate::testing::runtime().block_on(async {
            context.sql("SELECT a + 1 AS b FROM t WHERE a > 3").await?.create_physical_plan().await
        });
        asking(&plan.expect("a plan"), stop).expect("asks")
    }

    #[test]
    fn operators_know_their_statement_and_make_no_batch_of_a_stopped_one() {
        let context = SessionContext::new();
        let stopped = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stopped);
        let stop = StopCheck::new(move || if seen.load(Ordering::SeqCst) { exec_err!("stopped") } else { Ok(()) });
        let plan = plan(&context, 50, &stop);
        assert!(plan.is::<datafusion::physical_plan::projection::ProjectionExec>(), "it is what it was: {plan:?}");
        crate::testing::runtime().block_on(async {
            let mut rows = plan.execute(0, context.task_ctx()).expect("begins");
            assert!(rows.next().await.expect("a batch").is_ok());
            stopped.store(true, Ordering::SeqCst);
            let error = rows.next().await.expect("an end").expect_err("is stopped");
            assert!(error.to_string().contains("stopped"), "{error}");
            assert!(rows.next().await.is_none());
        });
        assert!(alluvia_functions::stopping::current().is_none());
    }
}
