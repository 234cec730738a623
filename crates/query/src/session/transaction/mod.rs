//! Transactions: BEGIN, COMMIT, ROLLBACK, what a transaction may hold, and batches on their way to the store.
//!
//! Invariants:
//! - COMMIT submits one batch, and ROLLBACK leaves nothing.
//! - Who changes rows by their keys has locked them until the transaction is over ([`row_locks`]).
//! - COMMIT takes the transaction out of the session's state before it submits: nothing commits beside a transaction.
//! - SET is undone by ROLLBACK, and SET LOCAL by the end of the transaction.

pub(crate) mod own_changes;
pub(crate) mod own_rows;
pub(crate) mod row_locks;
pub(crate) mod savepoints;
pub(crate) mod submit;
pub(crate) mod temporary;

use crate::engine::Engine;
use crate::execution::blocking::{Rows, snapshot_of};
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::state::definitions::conflict;
use crate::session::state::scope::Scope;
use crate::session::state::transaction::{OpenTransaction, Transaction};
use crate::session::state::{State, failed_transaction};
use crate::session::transaction::submit::submit_of;
use alluvia_snapshot::{Committed, NewBatch, Want};
use alluvia_syntax::Kind;
use alluvia_syntax::copy::statement::CopyStatement;
use alluvia_syntax::names::user_table;
use alluvia_syntax::statement::{Access, Discard, Isolation, Modes};
use alluvia_syntax::statements::alter::TableChange;
use alluvia_syntax::statements::schemas::SchemaStatement;
use alluvia_syntax::statements::views::ViewChange;
use alluvia_types::{Error, ErrorKind, Freshness, Result};
use std::sync::Arc;
use std::time::Duration;

/// BEGIN. A transaction whose statements all read one version pins it here.
pub(crate) async fn begin(scope: &Scope, modes: Modes) -> Result<Outcome> {
    if scope.in_transaction() {
        return begin_again(scope, modes);
    }
    scope.await_own_writes().await?;
    {
        let mut state = scope.state.lock();
        let isolation = match (modes.isolation, modes.access) {
            (Some(isolation), _) => isolation,
            // Who only reads, and says no more, is to see one state of things.
            (None, Some(Access::ReadOnly)) => state.settings.default_isolation.max(Isolation::RepeatableRead),
            (None, _) => state.settings.default_isolation,
        };
        let isolation = possible(&scope.engine, isolation);
        let open = OpenTransaction::new(isolation, state.settings.clone());
        state.transaction = Transaction::Open(Box::new(open));
        let is_read_only = modes.access.map_or(state.settings.default_read_only, |access| access == Access::ReadOnly);
        (state.settings.read_only, state.settings.isolation) = (Some(is_read_only), Some(isolation));
    }
    if let Err(error) = pin_transaction(scope).await {
        drop(rollback(scope));
        return Err(error);
    }
    Ok(Outcome::done("BEGIN"))
}

/// Where rows lie on other machines there is nobody yet who locks them: a transaction reads one version there.
fn possible(engine: &Engine, isolation: Isolation) -> Isolation {
    if engine.read().is_remote() { isolation.max(Isolation::RepeatableRead) } else { isolation }
}

/// Pins the version that all statements of the open transaction read, where that is still to be done.
pub(crate) async fn pin_transaction(scope: &Scope) -> Result<()> {
    let (freshness, at_least) = {
        let state = scope.state.lock();
        match &state.transaction {
            Transaction::Open(open) if open.wants_pin() => {}
            _ => return Ok(()),
        }
        (state.settings.freshness.unwrap_or(Freshness::Within(Duration::ZERO)), state.must_see())
    };
    let want = Want { freshness, at_least, exactly: None, tables: Vec::new() };
    let snapshot = snapshot_of(scope.engine.read(), want, Rows::Later).await?;
    let mut state = scope.state.lock();
    state.has_read(snapshot.version);
    if let Transaction::Open(open) = &mut state.transaction {
        open.pin(snapshot.pin);
    }
    Ok(())
}

/// BEGIN within a transaction, as some drivers say it before each of their own steps: it is told, and nothing begins.
fn begin_again(scope: &Scope, modes: Modes) -> Result<Outcome> {
    scope.check_usable()?;
    // What is said of access now and then, as by drivers before each of their own steps, does not widen what was said.
    let access = modes.access.filter(|access| *access == Access::ReadOnly);
    set_modes(&scope.engine, &mut scope.state.lock(), Modes { access, ..modes })?;
    Ok(Outcome::done("BEGIN").with_notice("there is already a transaction in progress: transactions do not nest"))
}

/// COMMIT: one batch. After an error, it is a ROLLBACK that says so.
pub(crate) async fn commit(run: &Arc<Run>) -> Result<Outcome> {
    let transaction = {
        let mut state = run.state();
        (state.settings.read_only, state.settings.isolation) = (None, None);
        std::mem::take(&mut state.transaction)
    };
    run.scope.cursors.end_transaction();
    match transaction {
        Transaction::None => {
            Err(Error::new(ErrorKind::Transaction, "there is no transaction to commit").with_hint("BEGIN opens one"))
        }
        Transaction::Failed(failed) if failed.is_abandoned => {
            end_failed(run, *failed);
            Err(Error::new(
                ErrorKind::FailedTransaction,
                "the transaction was not used for too long, and has been rolled back",
            )
            .with_hint("begin another; the server's transaction_idle_timeout says how long it may wait"))
        }
        Transaction::Failed(failed) => {
            end_failed(run, *failed);
            Ok(Outcome::done("ROLLBACK").with_notice("the transaction had failed, and was rolled back"))
        }
        Transaction::Open(mut open) => {
            let locals = std::mem::take(&mut open.locals);
            let settings_before = open.settings_before.clone();
            let result = commit_open(run, *open).await;
            let mut state = run.state();
            match result {
                Ok(()) => {
                    for (name, before) in locals {
                        state.settings.copy(name, &before);
                    }
                    Ok(Outcome::done("COMMIT"))
                }
                Err(error) => {
                    // Nothing of it was committed: the transaction is over.
                    state.settings = settings_before;
                    Err(error)
                }
            }
        }
    }
}

/// What a transaction that has failed leaves: settings as they were before it, and temporary tables.
fn end_failed(run: &Run, failed: OpenTransaction) {
    let mut state = run.state();
    state.settings = failed.settings_before;
    state.temporary.take_back(0);
}

/// Opens a transaction for one statement that has none.
pub(crate) fn begin_alone(run: &Run) {
    let mut open = OpenTransaction::new(Isolation::ReadCommitted, run.settings.clone());
    (open.is_alone, open.has_run) = (true, true);
    run.state().transaction = Transaction::Open(Box::new(open));
}

/// Commits the transaction of one statement, under what `mark` says of its batch.
pub(crate) async fn commit_alone(run: &Run, mark: NewBatch) -> Result<Option<Committed>> {
    let open = match std::mem::take(&mut run.state().transaction) {
        Transaction::Open(open) if open.is_alone => open,
        _ => return Err(failed_transaction()),
    };
    let (batch, definers) = open.into_batch()?;
    if batch.rows.is_empty() && batch.changes.is_empty() {
        return Ok(None);
    }
    submit_of(run, NewBatch { key: mark.key, ..batch }, &definers).await.map(Some)
}

/// Commits what there is in a transaction.
async fn commit_open(run: &Run, open: OpenTransaction) -> Result<()> {
    open.check_rights(&run.scope.authoriser())?;
    let restarted = open.restarts();
    let (batch, definers) = open.into_batch()?;
    if batch.rows.is_empty() && batch.changes.is_empty() {
        return Ok(());
    }
    submit_of(run, batch, &definers).await.map_err(conflict)?;
    restarted.into_iter().for_each(|(table, column)| run.engine().sequences().forget(table, column));
    Ok(())
}

/// ROLLBACK: as if the transaction had not been, its SETs included.
pub(crate) fn rollback(scope: &Scope) -> Result<Outcome> {
    scope.cursors.end_transaction();
    let mut state = scope.state.lock();
    match std::mem::take(&mut state.transaction) {
        Transaction::None => {
            Err(Error::new(ErrorKind::Transaction, "there is no transaction to roll back").with_hint("BEGIN opens one"))
        }
        Transaction::Open(open) | Transaction::Failed(open) => {
            state.settings = open.settings_before;
            state.temporary.take_back(0);
            Ok(Outcome::done("ROLLBACK"))
        }
    }
}

/// Rolls back a transaction that nobody goes on with. It can only be ended then, and its COMMIT is an error: whoever
/// comes back to it is told, and nothing that was meant for it is committed by itself.
pub(crate) fn abandon(scope: &Scope) {
    scope.cursors.end_transaction();
    let mut state = scope.state.lock();
    let open = match std::mem::take(&mut state.transaction) {
        Transaction::None => return,
        Transaction::Open(open) | Transaction::Failed(open) => open,
    };
    state.settings = open.settings_before.clone();
    state.temporary.take_back(0);
    state.transaction = Transaction::Failed(Box::new(open.abandoned()));
    scope.engine.sessions().locks().release_after(scope.id, 0);
}

/// SET TRANSACTION: of the open transaction; gives what the client is told.
pub(crate) fn set_modes(engine: &Engine, state: &mut State, modes: Modes) -> Result<Option<&'static str>> {
    let Transaction::Open(open) = &mut state.transaction else {
        return Ok(Some("SET TRANSACTION has no effect outside of a transaction"));
    };
    // What it has read so far was asked for by who wanted nothing written.
    if modes.access == Some(Access::ReadWrite) && open.has_run && state.settings.is_read_only() {
        return Err(Error::new(ErrorKind::ActiveTransaction, "READ WRITE must be set before the first query")
            .with_hint("COMMIT or ROLLBACK, and BEGIN READ WRITE"));
    }
    if let Some(isolation) = modes.isolation.map(|asked| possible(engine, asked))
        && isolation != open.isolation()
    {
        if open.has_run || open.savepoints() > 0 {
            let message = "SET TRANSACTION ISOLATION LEVEL must be called before any query";
            return Err(Error::new(ErrorKind::ActiveTransaction, message)
                .with_hint(format!("BEGIN ISOLATION LEVEL {}", isolation.name().to_uppercase())));
        }
        open.isolate(isolation);
        state.settings.isolation = Some(isolation);
    }
    if let Some(access) = modes.access {
        state.settings.read_only = Some(access == Access::ReadOnly);
    }
    Ok(None)
}

/// Refuses what a transaction cannot hold, and, once it failed, everything but its end and the way back to a savepoint.
pub(crate) fn check_transaction(scope: &Scope, kind: &Kind) -> Result<()> {
    let refused = |what: &str| {
        Err(Error::new(ErrorKind::NotSupported, format!("{what} inside a transaction is not supported"))
            .with_hint("it holds queries, rows and tables' definitions; COMMIT or ROLLBACK first"))
    };
    let has_failed = matches!(scope.state().transaction, Transaction::Failed(_));
    if !has_failed
        && let Some(command) = kind.writes()
        && let Err(error) = scope.check_writable(command)
        && !writes_temporary(scope, kind)
    {
        return Err(error);
    }
    match (&scope.state().transaction, kind) {
        (Transaction::None, _) => Ok(()),
        (_, Kind::Commit | Kind::Rollback | Kind::RollbackTo(_)) => Ok(()),
        (Transaction::Failed(_), _) => Err(failed_transaction()),
        (Transaction::Open(_), Kind::AlterTable(alter)) if matches!(alter.change, TableChange::Owner(_)) => {
            refused("ALTER TABLE ... OWNER TO")
        }
        (Transaction::Open(_), Kind::AlterView(alter)) if matches!(alter.change, ViewChange::Owner(_)) => {
            refused("ALTER VIEW ... OWNER TO")
        }
        (Transaction::Open(_), Kind::Schema(schema)) if matches!(**schema, SchemaStatement::Owner { .. }) => {
            refused("ALTER SCHEMA ... OWNER TO")
        }
        (Transaction::Open(_), Kind::Role(statement)) if !statement.is_of_privileges() => refused("a change of roles"),
        (Transaction::Open(_), Kind::Call(_)) => refused("CALL"),
        (Transaction::Open(_), Kind::Discard(Discard::All)) => refused("DISCARD ALL"),
        (Transaction::Open(_), Kind::Copy(copy)) if copy.is_in_batches() => refused("COPY with BATCH_ROWS"),
        (Transaction::Open(_), _) => Ok(()),
    }
}

/// Whether a statement adds, changes or removes rows of temporary tables alone: as in PostgreSQL, who only reads may, too.
fn writes_temporary(scope: &Scope, kind: &Kind) -> bool {
    let table = match kind {
        Kind::Insert(insert) => Ok(insert.table.clone()),
        Kind::Update(update) => Ok(update.table.clone()),
        Kind::Delete(delete) => Ok(delete.table.clone()),
        Kind::Merge(merge) => Ok(merge.table.clone()),
        Kind::Copy(copy) => match copy.as_ref() {
            CopyStatement::From { table, .. } => user_table(table),
            CopyStatement::To { .. } => return false,
        },
        _ => return false,
    };
    table.is_ok_and(|table| scope.is_temporary(&table))
}

/// Refuses what is a batch of its own while a transaction is open, or has failed.
pub(crate) fn check_outside(scope: &Scope, what: &str) -> Result<()> {
    if !scope.in_transaction() {
        return Ok(());
    }
    let message = format!("{what} is a batch of its own, and a transaction is open");
    Err(Error::new(ErrorKind::Transaction, message).with_hint("COMMIT or ROLLBACK first, or use another session"))
}
