//! The rows of a COPY FROM into a temporary table, which takes them as they come.
//!
//! Invariant: what a COPY has brought that fails is taken back with its statement.

use crate::session::transaction::temporary::TemporaryWriter;
use alluvia_catalog::TableEntry;
use alluvia_copy::{Destination, Held};
use alluvia_snapshot::{Committed, NewRows, RowChange};
use alluvia_types::{ProducerMark, Result};
use alluvia_values::compact::compact;
use alluvia_values::errors::not_supported;
use arrow::array::RecordBatch;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Into a temporary table of the session.
pub(super) struct IntoTemporary {
    pub(super) writer: TemporaryWriter,
    pub(super) entry: Arc<TableEntry>,
    /// What rows do to those that are there, of rows that merely come.
    pub(super) change: RowChange,
    /// How many rows were passed over.
    pub(super) passed_over: Arc<AtomicU64>,
    /// Rows that say what they do, and all behind the first of them: for who has the statement.
    pub(super) held: Arc<Mutex<Held>>,
}

impl Destination for IntoTemporary {
    fn resume(&mut self, _producer: &str) -> Result<u64> {
        Err(not_supported("COPY option BATCH_ROWS into a temporary table")
            .with_hint("leave it out: nothing of the table outlasts its session"))
    }

    fn begin(&mut self, _number: Option<ProducerMark>) -> Result<()> {
        Ok(())
    }

    fn append(&mut self, rows: RecordBatch) -> Result<()> {
        let rows = compact(&rows)?;
        let mut held = self.held.lock();
        if rows.num_columns() > self.entry.def.columns.len() || !held.batches.is_empty() {
            return held.push(rows);
        }
        drop(held);
        let rows = NewRows::insert(self.entry.def.id, self.entry.changed_at, vec![rows]);
        let passed_over = self.writer.add(vec![NewRows { change: self.change, ..rows }])?;
        self.passed_over.fetch_add(passed_over, Ordering::Relaxed);
        Ok(())
    }

    fn commit(&mut self) -> Result<Option<Committed>> {
        Ok(None)
    }

    fn end(&mut self) -> Result<()> {
        Ok(())
    }
}
