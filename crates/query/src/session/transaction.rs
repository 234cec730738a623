//! A session's transaction: one snapshot to read, one batch to write.
//!
//! Invariants:
//! - Everything between BEGIN and COMMIT reads the version that BEGIN pinned, and the transaction's own rows above it.
//! - COMMIT submits one batch; until then nobody else sees anything of it, and ROLLBACK leaves nothing.
//! - After an error the transaction only ends: what it read or wrote no longer means what its client thinks.

use crate::session::settings::Settings;
use alluvia_catalog::{Catalog, TableEntry};
use alluvia_snapshot::NewRows;
use alluvia_types::{Error, ErrorKind, Result, TableId, Version};
use arrow::record_batch::RecordBatch;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where a session stands.
#[derive(Debug, Default)]
pub(crate) enum Transaction {
    /// Each statement is a transaction of its own.
    #[default]
    None,
    /// Between BEGIN and COMMIT.
    Open(Box<OpenTransaction>),
    /// An error came; only ROLLBACK (or COMMIT, which then rolls back) is taken.
    Failed(Box<Settings>),
}

/// An open transaction.
#[derive(Debug)]
pub(crate) struct OpenTransaction {
    /// What it reads.
    pub(crate) version: Version,
    /// The session's settings at BEGIN: SET is undone by ROLLBACK.
    pub(crate) settings_before: Settings,
    /// Settings that SET LOCAL changed, with what they were.
    pub(crate) locals: Vec<(&'static str, Settings)>,
    tables: BTreeMap<TableId, PendingRows>,
    bytes: u64,
}

/// Rows of one table that wait for COMMIT.
#[derive(Debug)]
struct PendingRows {
    entry: Arc<TableEntry>,
    batches: Vec<RecordBatch>,
}

impl OpenTransaction {
    /// A transaction that reads `version`.
    pub(crate) fn new(version: Version, settings_before: Settings) -> OpenTransaction {
        OpenTransaction { version, settings_before, locals: Vec::new(), tables: BTreeMap::new(), bytes: 0 }
    }

    /// Adds rows, in the table's storage schema. `bytes_max` bounds the whole transaction.
    pub(crate) fn push(&mut self, entry: &Arc<TableEntry>, batches: Vec<RecordBatch>, bytes_max: u64) -> Result<()> {
        let added: usize = batches.iter().map(RecordBatch::get_array_memory_size).sum();
        let bytes = self.bytes + added as u64;
        if bytes > bytes_max {
            return Err(Error::new(
                ErrorKind::OutOfMemory,
                format!("the transaction holds {bytes} bytes of rows, and {bytes_max} is the most"),
            )
            .with_hint("commit more often, or load files with COPY outside of a transaction"));
        }
        let pending = self
            .tables
            .entry(entry.def.id)
            .or_insert_with(|| PendingRows { entry: Arc::clone(entry), batches: Vec::new() });
        if pending.entry.changed_at != entry.changed_at {
            return Err(changed(&entry.def.name));
        }
        pending.batches.extend(batches);
        self.bytes = bytes;
        Ok(())
    }

    /// The rows that statements of the transaction see beside the snapshot.
    pub(crate) fn pending(&self, catalog: &Catalog) -> Result<BTreeMap<TableId, Vec<RecordBatch>>> {
        let current = |(id, rows): (&TableId, &PendingRows)| match catalog.by_id(*id) {
            Some(entry) if entry.changed_at == rows.entry.changed_at => Ok((*id, rows.batches.clone())),
            _ => Err(changed(&rows.entry.def.name)),
        };
        self.tables.iter().map(current).collect()
    }

    /// What COMMIT submits.
    pub(crate) fn into_rows(self) -> Vec<NewRows> {
        let rows = self.tables.into_iter().map(|(table, pending)| NewRows {
            table,
            checked_at: pending.entry.changed_at,
            batches: pending.batches,
        });
        rows.collect()
    }
}

fn changed(table: &str) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!("table {table} was changed by another session since this transaction wrote to it"),
    )
    .with_hint("roll back and try again")
}
