//! A lane: one session in which the statements of a login, or of one of its transactions, run in turn.
//!
//! Invariants:
//! - At most one statement runs in a lane; who waits for a turn in a lane that ends gets an error.
//! - A lane of a named transaction begins that transaction with its first statement.

use alluvia_query::Session;
use alluvia_types::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::MutexGuard;

/// A session, and whose turn it is in it.
pub(crate) struct Lane {
    pub(crate) session: Session,
    /// Of a transaction that the client has named; else each statement is on its own, or as SQL has it.
    is_transaction: bool,
    has_ended: AtomicBool,
    /// Held by whoever's turn it is; whether the transaction has begun.
    turn: tokio::sync::Mutex<bool>,
    /// When something was last asked of it, or came to its end.
    used: Mutex<Duration>,
}

impl Lane {
    /// A lane of this session.
    pub(crate) fn new(session: Session, is_transaction: bool, now: Duration) -> Arc<Lane> {
        Arc::new(Lane {
            session,
            is_transaction,
            has_ended: AtomicBool::new(false),
            turn: tokio::sync::Mutex::new(false),
            used: Mutex::new(now),
        })
    }

    /// A transaction beside this lane.
    pub(crate) fn transaction(&self, now: Duration) -> Result<Arc<Lane>> {
        Ok(Lane::new(self.session.sibling()?, true, now))
    }

    /// Something begins or ends here.
    pub(crate) fn used(&self, now: Duration) {
        *self.used.lock() = now;
    }

    /// Ends it if nothing was asked of it since `before`, and it has nobody's turn; whether it has.
    pub(crate) fn end_if_idle(&self, before: Duration) -> bool {
        let Ok(_turn) = self.turn.try_lock() else { return false };
        let is_idle = *self.used.lock() <= before;
        if is_idle {
            self.end();
        }
        is_idle
    }

    /// Whether statements here are part of a transaction.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.is_transaction || self.session.in_transaction()
    }

    /// Whether its transaction is the client's to end by its name.
    pub(crate) fn is_named(&self) -> bool {
        self.is_transaction
    }

    /// Waits until nothing else begins here.
    pub(crate) async fn turn(&self) -> Result<MutexGuard<'_, bool>> {
        let turn = self.turn.lock().await;
        match self.has_ended() {
            true => Err(ended()),
            false => Ok(turn),
        }
    }

    /// The turn in this lane, if nobody has it.
    pub(crate) fn free_turn(&self) -> Option<MutexGuard<'_, bool>> {
        self.turn.try_lock().ok()
    }

    /// Whether nothing was asked of this lane for longer than `idle`.
    pub(crate) fn is_unused_for(&self, idle: Duration, now: Duration) -> bool {
        now.saturating_sub(*self.used.lock()) > idle
    }

    /// Begins the transaction, if it is one and has not.
    pub(crate) async fn begin(&self, has_begun: &mut bool) -> Result<()> {
        if self.is_transaction && !*has_begun {
            self.session.sql("BEGIN").await?;
            *has_begun = true;
        }
        Ok(())
    }

    /// Nothing begins here any more.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
    }

    /// Whether nothing begins here any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }
}

fn ended() -> Error {
    Error::new(ErrorKind::Transaction, "the transaction has ended").with_hint("begin another")
}
