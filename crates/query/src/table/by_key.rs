//! Scans of rows that filters name by their keys: the rows are found and read where the scan is planned, which may wait for
//! files.
//!
//! Invariants:
//! - Such a scan is a scan as any other: the filters are evaluated on what was found, and the open transaction's rows stand
//!   beside it.
//! - What it tells of its rows is exact, for they are there.

use super::metrics::{count, describe};
use super::scan::{Scan, Sieve, Skipped};
use super::tail::TailSource;
use crate::by_key::{FoundRows, NamedKeys};
use alluvia_values::errors::wrap;
use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;
use std::sync::Arc;

impl Scan<'_> {
    /// The scan, where only rows with these keys pass its filters, and all rows are asked for.
    pub(super) fn plan_by_keys(self, keys: &NamedKeys) -> Result<Arc<dyn ExecutionPlan>> {
        let (context, read) = (self.context, self.read);
        let found = keys.find(context.store.as_ref(), context.snapshot.version, read).map_err(wrap)?;
        self.plan_of_found(&found, Some(keys.count()))
    }

    /// The scan, where no others than these rows pass its filters, and all rows are asked for. They were found by so many keys, or lie
    /// between two.
    pub(super) fn plan_of_found(self, found: &FoundRows, keys: Option<usize>) -> Result<Arc<dyn ExecutionPlan>> {
        let (context, read) = (self.context, self.read);
        let rows = read.rows_at(found.rows(), &self.projected.indices).map_err(wrap)?;
        let cost = found.cost(read);
        cost.count_planned(&context.used);
        let source = TailSource::of_keys(&self.projected, &rows, keys, cost, Arc::clone(&context.used))?;
        let skipped = [("segments_skipped", cost.segments_skipped), ("blocks_skipped", cost.blocks_skipped)];
        describe(source.metrics_set(), &self.entry.def, &context.snapshot, false, &skipped);
        if let Some(keys) = keys {
            count(source.metrics_set(), "keys", keys as u64);
        }
        let source = source.traced(self.span.clone());
        let found = self.sift(DataSourceExec::from_data_source(source), &Sieve::OPEN, None, None)?;
        let pending = context.pending.get(&self.entry.def.id);
        let pending: Vec<&RecordBatch> = pending.into_iter().flatten().filter(|rows| rows.num_rows() > 0).collect();
        if pending.is_empty() {
            return Ok(found);
        }
        let pending = self.tail(std::iter::empty(), &pending, None, Skipped::default())?;
        UnionExec::try_new(vec![found, pending])
    }
}
