//! Plans that can be stopped, and let others run: all operators ([`super::stoppable_polls`]), and joins above all.
//!
//! Invariants:
//! - A join's filter is evaluated as it was, and asks before each batch whether the statement still wants rows.
//! - A join gives way to other statements as often as a scan does.
//! - A filter that leaves no rows for long hands its thread's other work to another thread ([`PAIRS_HELD`]).
//!
//! A nested loop join (and a hash join with many rows of one key) holds each batch of one side against all of the other within one poll, and
//! gives way only when it has rows to give: where its filter leaves none, that may take hours (DataFusion 55.2), as it does for most of
//! `a.x < b.x` between sorted tables. Where it has rows, it never gives way by itself: one batch that was read may make thousands, and whoever
//! aggregates them asks for the next at once.
//!
//! Mends apache/datafusion#19358 (in 55.2).

use crate::physical::stoppable_polls::asking;
use crate::rules::StopCheck;
use crate::wrapped_operator::{WrappedOperator, WrappedOperatorExec};
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, PiecewiseMergeJoinExec,
    SortMergeJoinExec,
};
use std::cell::Cell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};

/// Pairs of rows that a thread compares before it hands over what else it has to do: some tenths of a second.
const PAIRS_HELD: usize = 1 << 25;
/// How long another thread has to take it.
const HANDED_OVER: Duration = Duration::from_millis(1);

thread_local! {
    /// Pairs that this thread has compared since it handed over.
    static PAIRS: Cell<usize> = const { Cell::new(0) };
}

/// The rule. It must come after those that look into filters.
#[derive(Debug)]
pub struct StoppableJoins {
    /// What the statement that this thread plans is asked.
    pub running: fn() -> Option<StopCheck>,
}

impl PhysicalOptimizerRule for StoppableJoins {
    fn name(&self) -> &str {
        "stoppable_joins"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(stop) = (self.running)() else { return Ok(plan) };
        let asking_filter = |filter: &JoinFilter| {
            let expression = Asking { stop: stop.clone(), inner: Arc::clone(filter.expression()) };
            JoinFilter::new(Arc::new(expression), filter.column_indices().to_vec(), Arc::clone(filter.schema()))
        };
        let stoppable = plan.transform_up(|plan| {
            if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>()
                && let Some(filter) = join.filter()
            {
                let join = NestedLoopJoinExecBuilder::from(join).with_filter(Some(asking_filter(filter))).build()?;
                return Ok(Transformed::yes(giving_way(Arc::new(join))));
            }
            if let Some(join) = plan.downcast_ref::<HashJoinExec>()
                && let Some(filter) = join.filter()
            {
                let join = join.builder().with_filter(Some(asking_filter(filter))).build_exec()?;
                return Ok(Transformed::yes(giving_way(join)));
            }
            Ok(if makes_many(&plan) { Transformed::yes(giving_way(plan)) } else { Transformed::no(plan) })
        })?;
        asking(&stoppable.data, &stop)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether one batch that it reads may become any number of others.
fn makes_many(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_join = plan.is::<HashJoinExec>() || plan.is::<NestedLoopJoinExec>() || plan.is::<CrossJoinExec>();
    is_join || plan.is::<SortMergeJoinExec>() || plan.is::<PiecewiseMergeJoinExec>()
}

fn giving_way(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Arc::new(WrappedOperatorExec::new(plan, GivingWay))
}

/// The operator gives way after so many batches as a scan does.
#[derive(Clone, Debug)]
struct GivingWay;

impl WrappedOperator for GivingWay {
    fn of(&self, _operator: &Arc<dyn ExecutionPlan>) -> Result<GivingWay> {
        Ok(GivingWay)
    }

    fn execute(
        &self,
        operator: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        Ok(make_cooperative(operator.execute(partition, context)?))
    }
}

/// An expression that fails once its statement is stopped.
#[derive(Debug)]
struct Asking {
    stop: StopCheck,
    inner: Arc<dyn PhysicalExpr>,
}

impl PartialEq for Asking {
    fn eq(&self, other: &Asking) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for Asking {}

impl Hash for Asking {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl fmt::Display for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

impl PhysicalExpr for Asking {
    fn data_type(&self, input: &Schema) -> Result<DataType> {
        self.inner.data_type(input)
    }

    fn nullable(&self, input: &Schema) -> Result<bool> {
        self.inner.nullable(input)
    }

    fn return_field(&self, input: &Schema) -> Result<FieldRef> {
        self.inner.return_field(input)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.stop.check()?;
        let pairs = PAIRS.get() + batch.num_rows();
        PAIRS.set(if pairs < PAIRS_HELD { pairs } else { 0 });
        if pairs >= PAIRS_HELD {
            hand_over();
        }
        self.inner.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let inner = children.into_iter().next().unwrap_or_else(|| Arc::clone(&self.inner));
        Ok(Arc::new(Asking { stop: self.stop.clone(), inner }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}

/// Lets another thread have what waits for this one. The poll that is under way goes on here, beside it.
fn hand_over() {
    if Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread) {
        // Who comes back before the other thread woke up takes everything back.
        tokio::task::block_in_place(|| std::thread::sleep(HANDED_OVER));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int32Array;
    use datafusion::common::exec_err;
    use datafusion::physical_expr::expressions::col;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_filter_fails_once_its_statement_is_stopped() {
        let numbers = Arc::new(Int32Array::from(vec![1, 2])) as _;
        let batch = RecordBatch::try_from_iter([("a", numbers)]).expect("one column");
        let stopped = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stopped);
        let stop = StopCheck::new(move || if seen.load(Ordering::SeqCst) { exec_err!("stopped") } else { Ok(()) });
        let inner = col("a", &batch.schema()).expect("a column");
        let asking = Asking { stop, inner: Arc::clone(&inner) };
        assert_eq!(asking.to_string(), inner.to_string());
        assert!(asking.evaluate(&batch).is_ok());
        stopped.store(true, Ordering::SeqCst);
        let error = asking.evaluate(&batch).expect_err("is stopped");
        assert!(error.to_string().contains("stopped"), "{error}");
    }

    #[test]
    fn a_filter_that_leaves_no_rows_lets_others_run() {
        let numbers = Arc::new(Int32Array::from(vec![1; 1 << 16])) as _;
        let batch = RecordBatch::try_from_iter([("a", numbers)]).expect("one column");
        let inner = col("a", &batch.schema()).expect("a column");
        let asking = Asking { stop: StopCheck::new(|| Ok(())), inner };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a thread");
        let ran = Arc::new(AtomicBool::new(false));
        let ran_since = Arc::clone(&ran);
        let hog = runtime.spawn(async move {
            // As a join does within one poll.
            let other = tokio::spawn(async move { ran_since.store(true, Ordering::SeqCst) });
            let tried = (0..200 * PAIRS_HELD / batch.num_rows())
                .take_while(|_| asking.evaluate(&batch).is_ok() && !ran.load(Ordering::SeqCst));
            let _ = tried.count();
            let has_run = ran.load(Ordering::SeqCst);
            other.await.expect("ends");
            has_run
        });
        assert!(runtime.block_on(hog).expect("ends"));
    }
}
