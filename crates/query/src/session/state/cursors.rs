//! The open cursors of a session.
//!
//! Invariants:
//! - Without WITH HOLD a cursor ends with its transaction, and with what ROLLBACK TO undoes.
//! - Cursors are numbered in the order of their declarations, so that a savepoint says by a number which it has found.

use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Cursors that a session may have open.
const CURSORS_MAX: usize = 64;

/// A session's open cursors.
#[derive(Default)]
pub(crate) struct Cursors {
    open: Mutex<BTreeMap<String, Cursor>>,
    /// Cursors that were ever declared.
    declared: AtomicU64,
}

impl fmt::Debug for Cursors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.open.lock().keys()).finish()
    }
}

/// A query whose rows are fetched piece by piece.
pub(crate) struct Cursor {
    /// How many were declared before it.
    number: u64,
    pub(crate) schema: SchemaRef,
    /// `None` once all rows have come.
    pub(crate) rows: Option<SendableRecordBatchStream>,
    /// Rows that came and were not asked for yet.
    pub(crate) rest: Option<RecordBatch>,
    hold: bool,
}

impl Cursors {
    /// Refuses a name that is taken, and one cursor too many.
    pub(crate) fn check_new(&self, name: &str) -> Result<()> {
        let open = self.open.lock();
        if open.contains_key(name) {
            return Err(Error::new(ErrorKind::DuplicateCursor, format!("there is a cursor {name} already")));
        }
        if open.len() >= CURSORS_MAX {
            return Err(Error::new(ErrorKind::Busy, format!("{CURSORS_MAX} cursors are open"))
                .with_hint("CLOSE those that are done with"));
        }
        Ok(())
    }

    /// Adds a cursor over these rows.
    pub(crate) fn declare(&self, name: String, rows: SendableRecordBatchStream, hold: bool) {
        let number = self.declared.fetch_add(1, Ordering::Relaxed);
        let cursor = Cursor { number, schema: rows.schema(), rows: Some(rows), rest: None, hold };
        self.open.lock().insert(name, cursor);
    }

    /// Takes a cursor out.
    pub(crate) fn take(&self, name: &str) -> Result<Cursor> {
        self.open.lock().remove(name).ok_or_else(|| unknown(name))
    }

    /// Puts a cursor back that was taken out.
    pub(crate) fn put_back(&self, name: &str, cursor: Cursor) {
        self.open.lock().insert(name.to_owned(), cursor);
    }

    /// The columns of a cursor.
    pub(crate) fn schema(&self, name: &str) -> Result<SchemaRef> {
        self.open.lock().get(name).map(|cursor| cursor.schema.clone()).ok_or_else(|| unknown(name))
    }

    /// A transaction is over.
    pub(crate) fn end_transaction(&self) {
        self.open.lock().retain(|_, cursor| cursor.hold);
    }

    /// How many were ever declared.
    pub(crate) fn declared(&self) -> u64 {
        self.declared.load(Ordering::Relaxed)
    }

    /// Closes those that were declared when so many had been.
    pub(crate) fn undo_since(&self, declared: u64) {
        self.open.lock().retain(|_, cursor| cursor.number < declared);
    }

    /// Closes all.
    pub(crate) fn clear(&self) {
        self.open.lock().clear();
    }
}

fn unknown(name: &str) -> Error {
    Error::new(ErrorKind::UndefinedCursor, format!("there is no cursor {name}"))
        .with_hint("a cursor without WITH HOLD ends with its transaction")
}
