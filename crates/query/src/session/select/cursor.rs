//! Cursors: DECLARE, FETCH, CLOSE.
//!
//! Invariants:
//! - A cursor reads the snapshot of its DECLARE, however long it lives: its stream has pinned it.
//! - Without WITH HOLD it ends with its transaction, and with what ROLLBACK TO undoes.
//! - Rows come in order and once; there is no way back.

use crate::errors::from_datafusion;
use crate::execution::guard::LargeStack;
use crate::session::door::{Run, Session};
use crate::session::run::outcome::Outcome;
use crate::session::state::transaction::Transaction;
use alluvia_syntax::Hints;
use alluvia_syntax::statement::{Declare, FetchCount};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
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

struct Cursor {
    /// How many were declared before it.
    number: u64,
    schema: SchemaRef,
    /// `None` once all rows have come.
    rows: Option<SendableRecordBatchStream>,
    /// Rows that came and were not asked for yet.
    rest: Option<RecordBatch>,
    hold: bool,
}

impl Cursors {
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

impl Session {
    /// DECLARE name CURSOR FOR query.
    pub(crate) async fn declare(&self, run: &Run, declare: Declare, hints: &Hints) -> Result<Outcome> {
        let Declare { name, hold, query } = declare;
        if !hold && !matches!(self.state.lock().transaction, Transaction::Open(_)) {
            return Err(Error::new(ErrorKind::Transaction, format!("cursor {name} would end at once"))
                .with_hint("declare it after BEGIN, or WITH HOLD"));
        }
        {
            let open = self.cursors.open.lock();
            if open.contains_key(&name) {
                return Err(Error::new(ErrorKind::DuplicateCursor, format!("there is a cursor {name} already")));
            }
            if open.len() >= CURSORS_MAX {
                return Err(Error::new(ErrorKind::Busy, format!("{CURSORS_MAX} cursors are open"))
                    .with_hint("CLOSE those that are done with"));
            }
        }
        let outcome = self.query(run, query, hints).await?;
        let rows = outcome.rows.ok_or_else(|| Error::internal("a query without rows"))?;
        let number = self.cursors.declared.fetch_add(1, Ordering::Relaxed);
        let cursor = Cursor { number, schema: rows.schema(), rows: Some(rows), rest: None, hold };
        self.cursors.open.lock().insert(name, cursor);
        Ok(Outcome::done("DECLARE CURSOR"))
    }

    /// FETCH [count] FROM name.
    pub(crate) async fn fetch(&self, run: &Run, name: &str, count: FetchCount) -> Result<Outcome> {
        // Taken out while it is read: a fetch that fails or is cancelled has lost rows, so its cursor is gone.
        let mut cursor = self.cursors.open.lock().remove(name).ok_or_else(|| unknown(name))?;
        let schema = cursor.schema.clone();
        let mut left = match count {
            FetchCount::Rows(rows) => rows,
            FetchCount::All => usize::MAX,
        };
        let mut batches = Vec::new();
        while left > 0 {
            run.token.check()?;
            let batch = match (cursor.rest.take(), cursor.rows.as_mut()) {
                (Some(rest), _) => rest,
                (None, None) => break,
                (None, Some(rows)) => match LargeStack::new(rows.next()).await {
                    Some(batch) => batch.map_err(from_datafusion)?,
                    None => {
                        cursor.rows = None;
                        break;
                    }
                },
            };
            let taken = batch.num_rows().min(left);
            if taken < batch.num_rows() {
                cursor.rest = Some(batch.slice(taken, batch.num_rows() - taken));
            }
            left -= taken;
            batches.push(batch.slice(0, taken));
        }
        self.cursors.open.lock().insert(name.to_owned(), cursor);
        let rows = futures::stream::iter(batches.into_iter().map(Ok));
        Ok(Outcome::rows("FETCH", Box::pin(RecordBatchStreamAdapter::new(schema, rows))))
    }

    /// CLOSE name, or CLOSE ALL.
    pub(crate) fn close_cursor(&self, name: Option<&str>) -> Result<Outcome> {
        match name {
            None => self.cursors.clear(),
            Some(name) => drop(self.cursors.open.lock().remove(name).ok_or_else(|| unknown(name))?),
        }
        Ok(Outcome::done("CLOSE CURSOR"))
    }

    /// The columns of a cursor.
    pub(crate) fn cursor_schema(&self, name: &str) -> Result<SchemaRef> {
        self.cursors.open.lock().get(name).map(|cursor| cursor.schema.clone()).ok_or_else(|| unknown(name))
    }
}
