//! What is known of a scan of segments while it runs, beside the rows that it gives.
//!
//! A scan whose conditions are evaluated while it reads gives few rows of many, so what it has given does not tell how much it has read.
//! Its reader counts the rows of a part when it opens it. Of these at most one part of each partition is not read to its end.

use crate::table::parts_of;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use std::sync::Arc;

/// The counter of rows of parts that were opened, which the reader of segments adds to.
const OPENED: &str = "rows_read";

/// The parts of segments that a scan reads.
#[derive(Debug)]
pub(super) struct Parts {
    rows: u64,
    /// Rows that may be opened and not read: the largest part for each partition.
    in_hand: u64,
    metrics: ExecutionPlanMetricsSet,
}

impl Parts {
    /// Of a source; `None` if it reads no segments.
    pub(super) fn of(source: &Arc<dyn ExecutionPlan>) -> Option<Parts> {
        let scan = source.downcast_ref::<DataSourceExec>()?;
        let parts = parts_of(scan)?;
        let partitions = source.output_partitioning().partition_count() as u64;
        let (rows, largest) = parts.fold((0, 0), |(rows, largest): (u64, u64), part| (rows + part, largest.max(part)));
        // The source's own counters are held, and not the plan, which would hold what it reads.
        Some(Parts { rows, in_hand: largest.saturating_mul(partitions), metrics: scan.data_source().metrics() })
    }

    /// Rows of all parts.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows of parts that surely were read to their end, or, of a scan that is over, of all that were opened.
    pub(super) fn rows_done(&self, is_over: bool) -> u64 {
        let opened = self.metrics.clone_inner().sum_by_name(OPENED).map_or(0, |rows| rows.as_usize() as u64);
        let in_hand = if is_over { 0 } else { self.in_hand };
        opened.saturating_sub(in_hand).min(self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::testing::{Fixture, table};
    use alluvia_space::DataType;
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use arrow::datatypes::Schema;
    use datafusion::physical_plan::collect;
    use datafusion::physical_plan::empty::EmptyExec;

    fn leaf(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        plan.children().first().map_or_else(|| Arc::clone(plan), |child| leaf(child))
    }

    #[tokio::test]
    async fn rows_that_a_condition_leaves_out_were_read_when_their_parts_were() {
        let def = table("t", &[("n", DataType::Int64)]);
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..20_000));
        let rows = RecordBatch::try_new(def.storage_schema(), vec![numbers]).expect("one column");
        let mut fixture = Fixture::new(def, "number(n: linear 0..20000)", &rows);
        fixture.add_segment(&rows);
        let (session, _) = fixture.session(&rows);
        let frame = session.sql("SELECT n FROM t WHERE n % 1000 = 7").await.expect("is planned");
        let plan = frame.create_physical_plan().await.expect("is planned");
        let parts = Parts::of(&leaf(&plan)).expect("a scan of a segment");
        assert!(parts.rows() > 20);
        assert_eq!((parts.rows_done(false), parts.rows_done(true)), (0, 0));
        let found = collect(plan, session.task_ctx()).await.expect("runs");
        assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 20);
        assert!(parts.rows_done(false) < parts.rows(), "as long as it is not over, parts may be in hand");
        assert_eq!(parts.rows_done(true), parts.rows());
        let empty: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
        assert!(Parts::of(&empty).is_none());
    }
}
