//! UPDATE, DELETE and TRUNCATE.
//!
//! Invariants:
//! - A row is changed once, however often the tables beside it give it.
//! - In a table with a key, rows that keep their keys are written over those that are there; rows that get others go
//!   before their successors come. In a table without one, rows go by what they are known by.

use crate::errors::not_supported;
use crate::execution::blocking::blocking;
use crate::session::change::reading::{Read, Reading, misfit};
use crate::session::change::returning::Returned;
use crate::session::change::written::{Written, check_open};
use crate::session::insert::computed::refuse_of_rows;
use crate::session::rules::rules_of;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use alluvia_catalog::TableEntry;
use alluvia_catalog::rights::Privilege;
use alluvia_change::{Gone, Seen, UpdateQuery, delete_query, update_query};
use alluvia_snapshot::RowChange;
use alluvia_space::{IdentityKind, ORDINAL_COLUMN, TableDef, VERSION_COLUMN};
use alluvia_syntax::names::name_of;
use alluvia_syntax::statements::changes::{Delete, Update};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::RecordBatch;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{Ident, SelectItem, SetExpr};
use std::sync::Arc;

/// UPDATE.
pub(super) async fn update(run: &Run, update: &Update) -> Result<Outcome> {
    if let SetExpr::Select(select) = update.query.body.as_ref() {
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr) = item {
                refuse_of_rows(expr, "SET", run.engine().functions())?;
            }
        }
    }
    let reading = Reading::begin(run, &update.table, &[Privilege::Update], &[&update.query]).await?;
    check_open(run, &reading, "UPDATE")?;
    let def = &reading.entry.def;
    refuse_numbered(def, &update.columns)?;
    let UpdateQuery { query, gone, may_repeat } = update_query(def, update)?;
    let mut read = reading.read(run, query, [reading.target(gone)]).await?;
    let columns = def.columns.len();
    if may_repeat {
        let known = match gone {
            Gone::Replaced => reading.key_places()?,
            Gone::Keys | Gone::Identities => (columns..read.schema.fields().len()).collect(),
        };
        once_each(&mut read, &known)?;
    }
    let rows = reading.assigned(&read, 0, &read.batches)?;
    if let Some(rules) = rules_of(run, &reading.entry).await? {
        rules.check(&rows)?;
    }
    let returned = Returned::of(run, &reading, update.returning.as_deref(), &rows).await?;
    let count: usize = rows.iter().map(RecordBatch::num_rows).sum();
    let computed_at = Some(reading.snapshot.version);
    let written = Written::nothing(&reading);
    let written = match gone {
        Gone::Replaced => written.and(RowChange::Upsert, computed_at, rows),
        Gone::Keys | Gone::Identities => {
            let (change, telling) = telling_rows(&reading, gone, &read, columns)?;
            // Whether new keys are free, the store knows: what was there of old is of no account.
            written.and(change, computed_at, telling).and(RowChange::Insert, None, rows)
        }
    };
    written.commit(run).await?;
    run.progress.add_rows(count as u64);
    Ok(returned.outcome(format!("UPDATE {count}")).with_used(read.used))
}

/// Refuses to set a column that is always numbered.
fn refuse_numbered(def: &TableDef, columns: &[Ident]) -> Result<()> {
    for ident in columns {
        let column = def.column(&name_of(ident))?;
        if def.identity_of(column.id).is_some_and(|identity| identity.kind == IdentityKind::Always) {
            let message = format!("column \"{}\" can only be updated to DEFAULT", column.name);
            return Err(Error::new(ErrorKind::GeneratedAlways, message).with_hint(
                "it is an identity column defined as GENERATED ALWAYS: DELETE the row, and INSERT it anew",
            ));
        }
    }
    Ok(())
}

/// DELETE, TRUNCATE.
pub(super) async fn delete(run: &Run, delete: &Delete) -> Result<Outcome> {
    let (privilege, command) = match delete.is_truncate {
        true => (Privilege::Truncate, "TRUNCATE"),
        false => (Privilege::Delete, "DELETE"),
    };
    let reading = Reading::begin(run, &delete.table, &[privilege], &[&delete.query]).await?;
    check_open(run, &reading, command)?;
    let restarts = delete.restarts && !reading.entry.def.rules.identities.is_empty();
    if restarts && run.state().is_open()? {
        return Err(not_supported("RESTART IDENTITY inside a transaction")
            .with_hint("COMMIT first: what is taken of a sequence is not given back by ROLLBACK"));
    }
    let (query, gone, may_repeat) = delete_query(&reading.entry.def, delete, delete.returning.is_some())?;
    let mut read = reading.read(run, query, [reading.target(gone)]).await?;
    let (change, schema) = telling(&reading, gone)?;
    let known = schema.fields().len();
    if may_repeat {
        once_each(&mut read, &(0..known).collect::<Vec<_>>())?;
    }
    let rows = match delete.returning {
        Some(_) => read.batches.iter().map(|batch| reading.as_stored(batch, known)).collect::<Result<Vec<_>>>()?,
        None => Vec::new(),
    };
    let returned = Returned::of(run, &reading, delete.returning.as_deref(), &rows).await?;
    let (_, telling) = telling_rows(&reading, gone, &read, 0)?;
    let count: usize = telling.iter().map(RecordBatch::num_rows).sum();
    let written = Written::nothing(&reading).and(change, Some(reading.snapshot.version), telling);
    let passed_over = written.commit(run).await?;
    if restarts {
        restart(run, &reading.entry).await?;
    }
    let count = (count as u64).saturating_sub(passed_over);
    run.progress.add_rows(count);
    let tag = if delete.is_truncate { "TRUNCATE TABLE".to_owned() } else { format!("DELETE {count}") };
    Ok(returned.outcome(tag).with_used(read.used))
}

/// Has the sequences of a table begin anew.
async fn restart(run: &Run, entry: &Arc<TableEntry>) -> Result<()> {
    let (engine, state, entry) = (Arc::clone(run.engine()), Arc::clone(&run.scope.state), Arc::clone(entry));
    blocking(move || {
        for identity in &entry.def.rules.identities {
            engine.sequences().set(&engine, state.as_ref(), &entry, identity, None)?;
        }
        Ok(())
    })
    .await
}

/// Leaves one row of those that are alike in these columns.
fn once_each(read: &mut Read, columns: &[usize]) -> Result<()> {
    let mut seen = Seen::default();
    for batch in &mut read.batches {
        let known: Vec<_> = columns.iter().map(|&at| Arc::clone(batch.column(at))).collect();
        *batch = filter_record_batch(batch, &seen.are_new(&known)?).map_err(misfit)?;
    }
    Ok(())
}

/// How rows that go are told to the store, and in which columns.
fn telling(reading: &Reading, gone: Gone) -> Result<(RowChange, SchemaRef)> {
    match gone {
        Gone::Replaced | Gone::Keys => Ok((RowChange::Delete, reading.key_schema()?)),
        Gone::Identities => {
            let field = |name| Field::new(name, DataType::UInt64, false);
            let fields = vec![field(VERSION_COLUMN), field(ORDINAL_COLUMN)];
            Ok((RowChange::DeleteRows, Arc::new(Schema::new(fields))))
        }
    }
}

/// What tells the rows that go, which stands in a query's columns from `first` on.
fn telling_rows(reading: &Reading, gone: Gone, read: &Read, first: usize) -> Result<(RowChange, Vec<RecordBatch>)> {
    let (change, schema) = telling(reading, gone)?;
    let columns = first..first + schema.fields().len();
    let batch = |batch: &RecordBatch| {
        RecordBatch::try_new(Arc::clone(&schema), batch.columns()[columns.clone()].to_vec()).map_err(misfit)
    };
    Ok((change, read.batches.iter().map(batch).collect::<Result<_>>()?))
}
