//! COPY, and rows that programs and servers hand in: names become tables, queries become streams; files and formats are
//! the room `copy`'s.
//!
//! Invariants:
//! - A session has the standard input and output that its caller hands in with a statement, and no other.
//! - Which files and URLs it may name is decided by whose session it is, here and nowhere else.
//! - What a COPY commits, the session has written from that moment on, also when the COPY then fails, is cancelled or
//!   dropped.
//! - A COPY that is one batch has the number of the session's producer, as any other batch of the session.
//! - What rows do by key, whoever sends them says for all of them (`RowPolicy`), or each row says it itself ([`mixed`]).
//! - Within a transaction the rows of a COPY FROM are the transaction's, and wait in memory for its COMMIT.

pub(crate) mod append;
pub(crate) mod body;
mod into_temporary;
pub(crate) mod mixed;
pub(crate) mod stream_in;

use crate::errors::from_datafusion;
use crate::session::constraints::check_decided;
use crate::session::copy::into_temporary::IntoTemporary;
use crate::session::copy::mixed::{MixedWriter, change_of, check_rights, hold_mixed};
use crate::session::rules::{Rules, rules_of};
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::planning::plan;
use crate::session::select::shown_names::named_rows;
use crate::session::state::scope::Scope;
use crate::session::state::temporary::is_temporary;
use crate::session::transaction::check_transaction;
use crate::session::transaction::row_locks::heeds;
use crate::session::transaction::submit::submit_empty;
use crate::session::transaction::temporary::TemporaryWriter;
use alluvia_catalog::authoriser::{INSERT, Need};
use alluvia_catalog::{RelationName, TableEntry, ViewColumn};
use alluvia_copy::progress::Phase;
use alluvia_copy::{
    BodyOptions, CopyContext, CopyPlaces, CopyReport, Destination, INLINE_BYTES_MAX, IntoStore, IntoTransaction, Mixed,
    RowRules, copy_from, copy_to,
};
use alluvia_snapshot::{BatchKey, Committed};
use alluvia_space::{Column, OP_COLUMN, RowPolicy};
use alluvia_syntax::copy::statement::{CopyStatement, CopyWhat};
use alluvia_syntax::copy::streams::Streams;
use alluvia_syntax::names::{name_of, user_table};
use alluvia_syntax::statements::views::type_of_column;
use alluvia_syntax::{Hints, Kind, Statement, query_of_table};
use alluvia_types::{Error, Result};
use arrow::datatypes::{DataType, Field, Schema};
use futures::StreamExt;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The columns of a table, which are everybody's to know.
pub(crate) fn table_schema(scope: &Scope, table: &RelationName) -> Result<Schema> {
    if let Some(view) = scope.view(table)? {
        let field = |column: &ViewColumn| Field::new(&column.name, type_of_column(&column.sql_type).to_arrow(), true);
        return Ok(Schema::new(view.def.columns.iter().map(field).collect::<Vec<_>>()));
    }
    let entry = scope.table_for(Need::Definition, table)?;
    Ok(Schema::new(entry.def.columns.iter().map(Column::to_field).collect::<Vec<_>>()))
}

/// The columns that the fields of a COPY FROM go to, in their order.
pub(crate) fn copied_columns(scope: &Scope, statement: &Statement) -> Result<Vec<Field>> {
    let Kind::Copy(copy) = &statement.kind else {
        return Err(Error::internal("a statement that is no COPY was taken for one"));
    };
    let CopyStatement::From { table, columns, options, .. } = copy.as_ref() else {
        return Err(Error::internal("a COPY TO has no columns of a table"));
    };
    check_transaction(scope, &statement.kind)?;
    let entry = scope.table_for(INSERT, &user_table(table)?)?;
    options.policy.check(&entry.def)?;
    check_rights(scope, &entry, options.policy)?;
    if columns.is_empty() {
        return Ok(entry.def.columns.iter().map(Column::to_field).collect());
    }
    let named = |name: String| match entry.def.column(&name) {
        Ok(column) => Ok(column.to_field()),
        // What each row does is no column of the table.
        Err(_) if name == OP_COLUMN && entry.def.key.is_some() => Ok(Field::new(name, DataType::Utf8View, true)),
        Err(error) => Err(error),
    };
    columns.iter().map(|column| named(name_of(column))).collect()
}

/// COPY FROM, COPY TO.
pub(crate) async fn copy(run: &Arc<Run>, copy: CopyStatement, hints: &Hints) -> Result<Outcome> {
    match copy {
        CopyStatement::From { table, columns, source, mut options, streams } => {
            options.time_zone = run.settings.time_zone.clone();
            let entry = run.scope.table_for(INSERT, &user_table(&table)?)?;
            check_decided(run, &entry)?;
            let policy = options.policy;
            policy.check(&entry.def)?;
            check_rights(&run.scope, &entry, policy)?;
            let columns = columns.iter().map(name_of).collect();
            let mut context = copy_context(run, &streams);
            let rules = rules_of(run, &entry).await?;
            context.rules = for_copy(&rules);
            let is_held = run.state().is_held(entry.def.id)?;
            let held = is_held.then(|| Arc::new(Mutex::new(run.scope.held())));
            // COMMIT numbers the batch of a transaction.
            let numbered = held.is_none() && run.settings.producer_mark().is_some();
            let passed_over = Arc::new(AtomicU64::new(0));
            let destination: Box<dyn Destination> = match &held {
                Some(held) if is_temporary(entry.def.id) => Box::new(IntoTemporary {
                    writer: TemporaryWriter::new(run, &entry),
                    entry: Arc::clone(&entry),
                    change: change_of(&entry.def, policy),
                    passed_over: Arc::clone(&passed_over),
                    held: Arc::clone(held),
                }),
                Some(held) => Box::new(IntoTransaction(Arc::clone(held))),
                None => Box::new(store_of(run, &entry, policy, rules, None)),
            };
            let mut report = copy_from(context, Arc::clone(&entry), columns, source, options, destination).await?;
            if let Some(held) = held {
                let rows = std::mem::take(&mut held.lock().batches);
                let passed_over = passed_over.load(Ordering::Relaxed) + hold_mixed(run, &entry, policy, rows).await?;
                report.rows = report.rows.saturating_sub(passed_over);
            }
            if numbered && report.committed.is_some() {
                run.state().next_producer_sequence();
            } else if numbered {
                submit_empty(run).await?;
            }
            Ok(loaded(&report, numbered))
        }
        CopyStatement::To { what, target, mut options, streams } => {
            options.time_zone = run.settings.time_zone.clone();
            let query = match what {
                CopyWhat::Query(query) => query,
                CopyWhat::Table { name, columns } => query_of_table(&name, &columns)?,
            };
            let planned = plan(run, query, hints).await?;
            let context = copy_context(run, &streams);
            run.progress.set_phase(Phase::Running);
            let rows = named_rows(run, planned.execute()?);
            let schema = rows.schema();
            let rows = rows.map(|batch| batch.map_err(from_datafusion)).boxed();
            let rows = copy_to(context, schema, rows, target, options).await?;
            Ok(Outcome::done(format!("COPY {rows}")).with_used(planned.used()))
        }
    }
}

/// Sessions of servers' clients may name what the server was told; those of the process what the process may.
fn copy_places(scope: &Scope) -> CopyPlaces {
    let is_served = scope.state().is_served;
    scope.engine.copy_places(is_served)
}

/// What a COPY of this statement works with.
pub(crate) fn copy_context(run: &Run, streams: &Mutex<Streams>) -> CopyContext {
    CopyContext {
        progress: Arc::clone(&run.progress),
        cancel: run.token.clone(),
        streams: std::mem::take(&mut *streams.lock()),
        places: copy_places(&run.scope),
        body: BodyOptions::default(),
        rules: None,
    }
}

/// What a table's definition does with the rows of a COPY.
pub(crate) fn for_copy(rules: &Option<Arc<Rules>>) -> Option<Arc<dyn RowRules>> {
    rules.clone().map(|rules| rules as Arc<dyn RowRules>)
}

/// Where the rows of a COPY go that is no part of a transaction. `key` is the client's, of its one batch.
pub(crate) fn store_of(
    run: &Run,
    entry: &Arc<TableEntry>,
    policy: RowPolicy,
    rules: Option<Arc<Rules>>,
    key: Option<BatchKey>,
) -> IntoStore {
    let (state, durability) = (Arc::clone(&run.scope.state), run.settings.durability);
    IntoStore {
        ingest: Arc::clone(run.engine().ingest()),
        entry: Arc::clone(entry),
        durability,
        progress: Arc::clone(&run.progress),
        cancel: run.token.clone(),
        on_commit: Arc::new(move |committed: Committed| state.lock().wrote(committed.version, durability)),
        mark: run.settings.producer_mark(),
        key,
        heeds: heeds(&run.scope),
        inline_bytes_max: INLINE_BYTES_MAX,
        change: change_of(&entry.def, policy),
        mixed: Some(Mixed {
            held: None,
            bytes_max: run.scope.pending_bytes_max(),
            commit: Arc::new(MixedWriter::new(run, entry, policy, rules)),
        }),
        batch: None,
    }
}

/// The answer of a COPY FROM. `numbered`: the session's producer numbered its batch.
fn loaded(report: &CopyReport, numbered: bool) -> Outcome {
    let notices = report.notices(numbered);
    notices.into_iter().fold(Outcome::done(report.tag()), |outcome, notice| outcome.with_notice(notice))
}
