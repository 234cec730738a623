//! What a statement changes on its way into the open transaction, or into a batch of its own.

use crate::execution::blocking::blocking;
use crate::session::change::reading::Reading;
use crate::session::run::Run;
use crate::session::state::failed_transaction;
use crate::session::state::transaction::Transaction;
use crate::session::transaction::submit::{submit, submit_empty};
use alluvia_catalog::TableEntry;
use alluvia_copy::progress::Phase;
use alluvia_snapshot::{NewBatch, NewRows, RowChange};
use alluvia_types::{Error, ErrorKind, Result, Version};
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
        Written::commit_all(run, vec![self]).await
    }

    /// The same of several tables, which change together.
    pub(super) async fn commit_all(run: &Run, all: Vec<Written>) -> Result<u64> {
        {
            let mut state = run.state();
            match &mut state.transaction {
                Transaction::None => {}
                Transaction::Open(open) => {
                    for Written { entry, changes } in all.into_iter().filter(|written| !written.changes.is_empty()) {
                        open.push_all(&entry, changes, run.scope.pending_bytes_max())?;
                    }
                    return Ok(0);
                }
                Transaction::Failed(_) => return Err(failed_transaction()),
            }
        }
        let is_keyless = all.iter().any(|written| written.entry.def.key.is_none());
        let rows: Vec<NewRows> = all.into_iter().flat_map(|written| written.changes).collect();
        if rows.is_empty() {
            submit_empty(run).await?;
            return Ok(0);
        }
        let committed = submit(run, NewBatch { rows, ..NewBatch::default() }).await?;
        if is_keyless {
            // Whoever has the turn next must see it, also where durability is relaxed. Who cancels the statement meanwhile
            // is told that it is done.
            let store = Arc::clone(run.engine().read());
            run.progress.set_phase(Phase::Committing);
            blocking(move || store.wait_visible(committed.version)).await?;
            run.progress.set_phase(Phase::Idle);
        }
        Ok(committed.passed_over)
    }
}

/// Refuses a statement that reads a table of which rows wait in the open transaction, or that could not be committed with it.
pub(super) fn check_open(run: &Run, reading: &Reading, command: &str) -> Result<()> {
    let state = run.state();
    let Transaction::Open(open) = &state.transaction else { return Ok(()) };
    let def = &reading.entry.def;
    let refused = |what: String, hint: &str| Err(Error::new(ErrorKind::NotSupported, what).with_hint(hint));
    if def.key.is_none() {
        let what =
            format!("{command} of table {} inside a transaction is not supported: it has no primary key", def.name);
        return refused(what, "COMMIT first, and run it alone");
    }
    if open.has_rows(&reading.snapshot.catalog, def.id)? {
        let what = format!("{command} of table {}, which the transaction has written to, is not supported", def.name);
        return refused(what, "COMMIT first, or put what it does into one statement");
    }
    Ok(())
}
