//! What a statement changes on its way into the open transaction, or into a batch of its own.

use crate::session::change::reading::Reading;
use crate::session::run::Run;
use crate::session::transaction::own_changes::add;
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
}

impl Written {
    pub(super) fn nothing(reading: &Reading) -> Written {
        Written { entry: Arc::clone(&reading.entry), changes: Vec::new() }
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

    /// Hands the changes over, which were computed from what was read, and gives how many rows changed nothing.
    pub(super) async fn commit(self, run: &Run, reading: Reading) -> Result<u64> {
        // A batch may have to wait until what statements hold is given back: not for its own.
        drop(reading);
        let Written { entry, changes } = self;
        let is_open = run.state().is_open()?;
        match (is_open, changes.is_empty()) {
            (true, true) => Ok(0),
            (true, false) => add(run, &entry, changes).await,
            (false, true) => submit_empty(run).await.map(|_| 0),
            (false, false) => {
                let committed = submit(run, NewBatch { rows: changes, ..NewBatch::default() }).await?;
                Ok(committed.passed_over)
            }
        }
    }
}
