//! What is known of a scan of segments while it runs, beside the rows that it gives.
//!
//! A scan whose conditions are evaluated while it reads gives few rows of many, so what it has given does not tell how much it has read.
//! Its reader counts the rows of a part when it opens it. Of these at most one part of each partition is not read to its end.

use super::KnownOperators;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use std::sync::Arc;

/// The counter of rows of parts that were opened, which the reader of segments adds to.
const OPENED: &str = "rows_read";

/// The parts of segments that a scan reads.
#[derive(Debug)]
pub struct ScannedParts {
    rows: u64,
    /// Rows that may be opened and not read: the largest part for each partition.
    in_hand: u64,
    metrics: ExecutionPlanMetricsSet,
}

impl ScannedParts {
    /// Of a source; `None` if it reads no segments.
    pub fn of(source: &Arc<dyn ExecutionPlan>, known: &KnownOperators) -> Option<ScannedParts> {
        let scan = source.downcast_ref::<DataSourceExec>()?;
        let parts = (known.part_rows)(scan)?;
        let partitions = source.output_partitioning().partition_count() as u64;
        let (rows, largest) =
            parts.iter().fold((0, 0), |(rows, largest): (u64, u64), &part| (rows + part, largest.max(part)));
        // The source's own counters are held, and not the plan, which would hold what it reads.
        Some(ScannedParts { rows, in_hand: largest.saturating_mul(partitions), metrics: scan.data_source().metrics() })
    }

    /// Rows of all parts.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows of parts that surely were read to their end, or, of a scan that is over, of all that were opened.
    pub fn rows_done(&self, is_over: bool) -> u64 {
        let opened = self.metrics.clone_inner().sum_by_name(OPENED).map_or(0, |rows| rows.as_usize() as u64);
        let in_hand = if is_over { 0 } else { self.in_hand };
        opened.saturating_sub(in_hand).min(self.rows)
    }
}
