//! What a statement changes on its way into the open transaction, or into a batch of its own.

use crate::session::change::reading::Reading;
use crate::session::run::Run;
use crate::session::transaction::own_changes::{How, add_as};
use crate::session::transaction::submit::{submit, submit_empty};
use alluvia_catalog::TableEntry;
use alluvia_snapshot::{NewBatch, NewRows, RowChange};
use alluvia_types::{Result, Version};
use arrow::array::RecordBatch;
use std::sync::Arc;

/// Changes of rows of one table, in the order in which they are made.
pub(super) struct Written {
    entry: Arc<TableEntry>,
    changes: Vec<NewRows>,
    how: How,
}

impl Written {
    pub(super) fn nothing(reading: &Reading) -> Written {
        Written { entry: Arc::clone(&reading.entry), changes: Vec::new(), how: How::default() }
    }

    /// And these rows. `computed_at` is the version that they were computed from, where it matters that they are as they were then.
    pub(super) fn and(mut self, change: RowChange, computed_at: Option<Version>, rows: Vec<RecordBatch>) -> Self {
        let batches: Vec<RecordBatch> = rows.into_iter().filter(|batch| batch.num_rows() > 0).collect();
        if !batches.is_empty() {
            let rows = NewRows::insert(self.entry.def.id, self.entry.changed_at, batches);
            self.changes.push(NewRows { change, computed_at, ..rows });
        }
        self
    }

    /// What is known of the changes beside their rows.
    pub(super) fn so(mut self, how: How) -> Self {
        self.how = how;
        self
    }

    /// Hands the changes over, which were computed from what was read, and gives how many rows changed nothing.
    pub(super) async fn commit(self, run: &Run, reading: Reading) -> Result<u64> {
        // A batch may have to wait until what statements hold is given back: not for its own.
        drop(reading);
        Written::commit_all(run, vec![self]).await
    }

    /// The same of several tables, which change together.
    pub(super) async fn commit_all(run: &Run, all: Vec<Written>) -> Result<u64> {
        let (mut rows, mut passed_over, mut are_held) = (Vec::new(), 0, true);
        for Written { entry, changes, how } in all {
            if !run.state().is_held(entry.def.id)? {
                are_held = false;
                rows.extend(changes);
            } else if !changes.is_empty() {
                passed_over += add_as(run, &entry, changes, how).await?;
            }
        }
        if are_held {
            return Ok(passed_over);
        }
        if rows.is_empty() {
            submit_empty(run).await?;
            return Ok(passed_over);
        }
        let committed = submit(run, NewBatch { rows, ..NewBatch::default() }).await?;
        Ok(passed_over + committed.passed_over)
    }
}
