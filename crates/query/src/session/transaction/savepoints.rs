//! Savepoints: SAVEPOINT, ROLLBACK TO, RELEASE.
//!
//! They nest as in PostgreSQL: of two with one name the later is meant, until it is released. ROLLBACK TO also takes a transaction
//! that has failed, and makes it usable again.

use crate::session::door::Session;
use crate::session::run::outcome::Outcome;
use crate::session::state::transaction::Transaction;
use alluvia_types::{Error, ErrorKind, Result};

fn outside(command: &str) -> Error {
    Error::new(ErrorKind::Transaction, format!("{command} is for transactions, and none is open"))
        .with_hint("BEGIN opens one")
}

impl Session {
    /// SAVEPOINT name.
    pub(crate) fn savepoint(&self, name: String) -> Result<Outcome> {
        let mut state = self.state.lock();
        let settings = state.settings.clone();
        let Transaction::Open(open) = &mut state.transaction else { return Err(outside("SAVEPOINT")) };
        open.save(name, settings, self.cursors.declared())?;
        Ok(Outcome::done("SAVEPOINT"))
    }

    /// ROLLBACK TO name: as if nothing had been since the savepoint, its SETs and cursors included.
    pub(crate) fn rollback_to(&self, name: &str) -> Result<Outcome> {
        let mut state = self.state.lock();
        let restored = match &mut state.transaction {
            Transaction::None => return Err(outside("ROLLBACK TO")),
            Transaction::Open(open) | Transaction::Failed(open) => open.roll_back_to(name)?,
        };
        state.transaction = match std::mem::take(&mut state.transaction) {
            Transaction::Failed(open) => Transaction::Open(open),
            other => other,
        };
        state.settings = restored.settings;
        self.cursors.undo_since(restored.cursors);
        Ok(Outcome::done("ROLLBACK"))
    }

    /// Savepoints that the open transaction has, whether or not it has failed.
    pub fn savepoints(&self) -> usize {
        match &self.state.lock().transaction {
            Transaction::None => 0,
            Transaction::Open(open) | Transaction::Failed(open) => open.savepoints(),
        }
    }

    /// RELEASE name.
    pub(crate) fn release(&self, name: &str) -> Result<Outcome> {
        let mut state = self.state.lock();
        let Transaction::Open(open) = &mut state.transaction else { return Err(outside("RELEASE")) };
        open.release(name)?;
        Ok(Outcome::done("RELEASE"))
    }
}
