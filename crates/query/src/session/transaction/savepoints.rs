//! SAVEPOINT, ROLLBACK TO, RELEASE.
//!
//! Savepoints nest as in PostgreSQL: of two with one name the later is meant, until it is released. ROLLBACK TO also
//! takes a transaction that has failed, and makes the transaction usable again.

use crate::session::run::outcome::Outcome;
use crate::session::state::scope::Scope;
use crate::session::state::transaction::Transaction;
use alluvia_types::{Error, ErrorKind, Result};

fn outside(command: &str) -> Error {
    Error::new(ErrorKind::Transaction, format!("{command} is for transactions, and none is open"))
        .with_hint("BEGIN opens one")
}

/// SAVEPOINT name.
pub(crate) fn savepoint(scope: &Scope, name: String) -> Result<Outcome> {
    let mut state = scope.state.lock();
    let (settings, temporary) = (state.settings.clone(), state.temporary.mark());
    let Transaction::Open(open) = &mut state.transaction else { return Err(outside("SAVEPOINT")) };
    open.save(name, settings, scope.cursors.declared(), temporary)?;
    Ok(Outcome::done("SAVEPOINT"))
}

/// ROLLBACK TO name: as if nothing had been since the savepoint, its SETs and cursors included.
pub(crate) fn rollback_to(scope: &Scope, name: &str) -> Result<Outcome> {
    let mut state = scope.state.lock();
    let restored = match &mut state.transaction {
        Transaction::None => return Err(outside("ROLLBACK TO")),
        Transaction::Open(open) | Transaction::Failed(open) => open.roll_back_to(name)?,
    };
    state.transaction = match std::mem::take(&mut state.transaction) {
        Transaction::Failed(open) => Transaction::Open(open),
        other => other,
    };
    state.temporary.take_back(restored.temporary);
    state.settings = restored.settings;
    scope.cursors.undo_since(restored.cursors);
    Ok(Outcome::done("ROLLBACK"))
}

/// RELEASE name.
pub(crate) fn release(scope: &Scope, name: &str) -> Result<Outcome> {
    let mut state = scope.state.lock();
    let Transaction::Open(open) = &mut state.transaction else { return Err(outside("RELEASE")) };
    open.release(name)?;
    Ok(Outcome::done("RELEASE"))
}
