//! Dispatches a statement to the part of the session that does it.
//!
//! Invariant: nothing is done before the transaction can hold it and the session may do it.

use crate::execution::blocking::blocking;
use crate::rights::of_statement;
use crate::session::change::locking::locking;
use crate::session::change::{Change, change};
use crate::session::constraints::{concern_statement, constrained, set_constraints, settle_due};
use crate::session::copy::copy;
use crate::session::define::alter::alter_table;
use crate::session::define::comments::{comment, idle};
use crate::session::define::constraints::{create_index, drop_index};
use crate::session::define::procedures::call;
use crate::session::define::roles::role_statement;
use crate::session::define::routines::routine_statement;
use crate::session::define::schemas::schema_statement;
use crate::session::define::show::{describe_table, show_create, show_tables};
use crate::session::define::tables::{create_table, drop_none, drop_tables};
use crate::session::define::views::{alter_view, create_view, drop_views};
use crate::session::insert::insert;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::cursor::{close_cursor, declare, fetch};
use crate::session::select::shown_names::{answer, explain, named};
use crate::session::settings::{discard, setting};
use crate::session::state::transaction::Transaction;
use crate::session::transaction::savepoints::{release, rollback_to, savepoint};
use crate::session::transaction::{begin, check_transaction, commit, pin_transaction, rollback};
use alluvia_catalog::Catalog;
use alluvia_snapshot::NewBatch;
use alluvia_syntax::parameters::missing;
use alluvia_syntax::{Hints, Kind, Statement};
use alluvia_types::{Error, ErrorKind, Result};
use std::sync::Arc;

/// Does what a statement asks for.
pub(crate) async fn dispatch(run: &Arc<Run>, statement: Statement) -> Result<Outcome> {
    let Statement { kind, hints, text: _, parameters, tokens: _, names_catalog: _, names } = statement;
    if let Some(names) = names {
        // A statement that was begun again has the same.
        let _ = run.names.set(names);
    }
    let scope = &run.scope;
    check_transaction(scope, &kind)?;
    if !kind.is_about_session() {
        pin_transaction(scope).await?;
    }
    if goes_by_definitions(&kind) && run.engine().read().is_remote() {
        learn_definitions(run, &run.engine().read().catalog()).await?;
    }
    of_statement(&scope.authoriser(), &kind)?;
    if let Transaction::Open(open) = &mut run.state().transaction {
        open.has_run |= !kind.is_about_session();
    }
    if parameters > 0 {
        return Err(missing(1));
    }
    let is_shown = matches!(
        kind,
        Kind::Query(_) | Kind::Locking(_) | Kind::Insert(_) | Kind::Update(_) | Kind::Delete(_) | Kind::Merge(_)
    );
    let known = run.engine().read().catalog();
    let again = (run.engine().read().is_remote() && writes_rows(&kind)).then(|| kind.clone());
    let outcome = match (done(run, kind, hints.clone()).await, again) {
        // What it names may have been defined elsewhere a moment ago.
        (Err(error), Some(kind)) if is_unknown(error.kind()) && learn_definitions(run, &known).await? => {
            done(run, kind, hints).await?
        }
        (outcome, _) => outcome?,
    };
    Ok(if is_shown { named(run, outcome) } else { outcome })
}

/// Learns what others have defined. Whether there is more than what was known.
pub(crate) async fn learn_definitions(run: &Run, known: &Arc<Catalog>) -> Result<bool> {
    let (store, known) = (Arc::clone(run.engine().read()), Arc::clone(known));
    blocking(move || {
        store.learn_definitions()?;
        Ok(!Arc::ptr_eq(&known, &store.catalog()))
    })
    .await
}

/// Whether it writes rows, and can be begun again where it has failed before it wrote any.
fn writes_rows(kind: &Kind) -> bool {
    matches!(kind, Kind::Insert(_) | Kind::Update(_) | Kind::Delete(_) | Kind::Merge(_) | Kind::Truncate(_))
}

/// Whether something that a statement names is not there.
fn is_unknown(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::UndefinedTable | ErrorKind::UndefinedColumn)
}

/// Whether it is about definitions, and pins no snapshot that would tell of the newest.
fn goes_by_definitions(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::CreateTable(_)
            | Kind::DropTable { .. }
            | Kind::CreateView(_)
            | Kind::DropView { .. }
            | Kind::AlterView(_)
            | Kind::DropNone { .. }
            | Kind::CreateIndex(_)
            | Kind::DropIndex(_)
            | Kind::Comment(_)
            | Kind::AlterTable(_)
            | Kind::Describe(_)
            | Kind::ShowTables
            | Kind::ShowCreate(_)
            | Kind::Role(_)
            | Kind::Schema(_)
            | Kind::Routine(_)
    )
}

/// Does it, whatever the columns of its answer are called.
async fn done(run: &Arc<Run>, kind: Kind, hints: Hints) -> Result<Outcome> {
    if concern_statement(run, &kind)? {
        let (outcome, _) = constrained(run, NewBatch::default(), done_by_kind(run, kind, hints)).await?;
        return Ok(outcome);
    }
    done_by_kind(run, kind, hints).await
}

async fn done_by_kind(run: &Arc<Run>, kind: Kind, hints: Hints) -> Result<Outcome> {
    let scope = &run.scope;
    match kind {
        Kind::Query(query) => answer(run, query, &hints).await,
        Kind::Locking(statement) => locking(run, *statement, &hints).await,
        Kind::Explain { query, options } => explain(run, query, options, &hints).await,
        Kind::Insert(statement) if statement.conflict.is_none() && statement.returning.is_none() => {
            insert(run, statement, &hints).await
        }
        Kind::Insert(statement) => change(run, Change::Insert(statement), &hints).await,
        Kind::Update(statement) => change(run, Change::Update(statement), &hints).await,
        Kind::Delete(statement) => change(run, Change::Delete(statement), &hints).await,
        Kind::Truncate(tables) => change(run, Change::Truncate(tables), &hints).await,
        Kind::Merge(statement) => change(run, Change::Merge(statement), &hints).await,
        Kind::CreateTable(create) => create_table(run, *create, &hints).await,
        Kind::DropTable { names, if_exists, cascade } => drop_tables(run, names, if_exists, cascade).await,
        Kind::CreateView(create) => create_view(run, *create).await,
        Kind::DropView { names, if_exists, cascade } => drop_views(run, names, if_exists, cascade).await,
        Kind::AlterView(alter) => alter_view(run, alter).await,
        Kind::DropNone { command, names } => drop_none(scope, command, &names),
        Kind::Idle(statement) => idle(scope, &statement),
        Kind::CreateIndex(statement) => create_index(run, *statement).await,
        Kind::DropIndex(statement) => drop_index(run, statement).await,
        Kind::Comment(statement) => comment(run, statement).await,
        Kind::AsIs { command, notice } => {
            let done = Outcome::done(command);
            Ok(match notice {
                Some(notice) => done.with_notice(notice),
                None => done,
            })
        }
        Kind::AlterTable(alter) => alter_table(run, *alter).await,
        Kind::Describe(table) => describe_table(scope, &table),
        Kind::ShowTables => Ok(show_tables(scope)),
        Kind::ShowCreate(table) => show_create(scope, &table),
        Kind::Setting(command) => setting(scope, command),
        Kind::Role(statement) => role_statement(run, *statement).await,
        Kind::Schema(statement) => schema_statement(run, *statement).await,
        Kind::Begin(modes) => begin(scope, modes).await,
        Kind::Commit => match settle_due(run, true).await {
            Ok(()) => commit(run).await,
            Err(error) => {
                // As in PostgreSQL, who cannot commit has rolled back.
                drop(rollback(scope));
                Err(error)
            }
        },
        Kind::SetConstraints(statement) => set_constraints(run, statement).await,
        Kind::Rollback => rollback(scope),
        Kind::Savepoint(name) => savepoint(scope, name),
        Kind::RollbackTo(name) => rollback_to(scope, &name),
        Kind::Release(name) => release(scope, &name),
        Kind::Copy(statement) => copy(run, *statement, &hints).await,
        Kind::Call(procedure) => call(run, procedure).await,
        Kind::Routine(statement) => routine_statement(run, *statement).await,
        kind @ (Kind::CallProcedure(_) | Kind::Do(_)) => (run.calls)(Arc::clone(run), kind, Vec::new()).await,
        Kind::Declare(statement) => declare(run, statement, &hints).await,
        Kind::Fetch { name, count } => fetch(run, &name, count).await,
        Kind::CloseCursor(name) => close_cursor(&scope.cursors, name.as_deref()),
        Kind::Discard(what) => Ok(discard(scope, what)),
        Kind::Deallocate(name) => deallocate(name.as_deref()),
        Kind::Refused(error) => Err(error),
    }
}

/// DEALLOCATE, in a session whose caller has prepared nothing.
fn deallocate(name: Option<&str>) -> Result<Outcome> {
    match name {
        None => Ok(Outcome::done("DEALLOCATE ALL")),
        Some(name) => Err(Error::new(ErrorKind::UndefinedStatement, format!("there is no prepared statement {name}"))),
    }
}
