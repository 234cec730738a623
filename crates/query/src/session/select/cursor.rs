//! Cursors: DECLARE, FETCH, CLOSE.
//!
//! Invariants:
//! - A cursor reads the snapshot of its DECLARE, however long it lives: its stream has pinned it.
//! - Rows come in order and once; there is no way back.

use crate::errors::from_datafusion;
use crate::execution::guard::LargeStack;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::shown_names::{answer, named};
use crate::session::state::cursors::Cursors;
use crate::session::state::transaction::Transaction;
use alluvia_syntax::Hints;
use alluvia_syntax::statement::{Declare, FetchCount};
use alluvia_types::{Error, ErrorKind, Result};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

/// DECLARE name CURSOR FOR query.
pub(crate) async fn declare(run: &Run, declare: Declare, hints: &Hints) -> Result<Outcome> {
    let Declare { name, hold, query } = declare;
    if !hold && !matches!(run.state().transaction, Transaction::Open(_)) {
        return Err(Error::new(ErrorKind::Transaction, format!("cursor {name} would end at once"))
            .with_hint("declare it after BEGIN, or WITH HOLD"));
    }
    run.scope.cursors.check_new(&name)?;
    let outcome = named(run, answer(run, query, hints).await?);
    let rows = outcome.rows.ok_or_else(|| Error::internal("a query without rows"))?;
    run.scope.cursors.declare(name, rows, hold);
    Ok(Outcome::done("DECLARE CURSOR"))
}

/// FETCH [count] FROM name.
pub(crate) async fn fetch(run: &Run, name: &str, count: FetchCount) -> Result<Outcome> {
    // Taken out while it is read: a fetch that fails or is cancelled has lost rows, so its cursor is gone.
    let mut cursor = run.scope.cursors.take(name)?;
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
    run.scope.cursors.put_back(name, cursor);
    let rows = futures::stream::iter(batches.into_iter().map(Ok));
    Ok(Outcome::rows("FETCH", Box::pin(RecordBatchStreamAdapter::new(schema, rows))))
}

/// CLOSE name, or CLOSE ALL.
pub(crate) fn close_cursor(cursors: &Cursors, name: Option<&str>) -> Result<Outcome> {
    match name {
        None => cursors.clear(),
        Some(name) => drop(cursors.take(name)?),
    }
    Ok(Outcome::done("CLOSE CURSOR"))
}
