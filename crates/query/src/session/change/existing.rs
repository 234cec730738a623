//! UPDATE and DELETE.
//!
//! Invariants:
//! - A row is changed once, however often the tables beside it give it.
//! - In a table with a key, rows that keep their keys are written over those that are there; rows that get others go
//!   before their successors come. In a table without one, rows go by what they are known by.
//! - Where another statement has killed such a row since, one looks again: it may have come back changed.

use crate::session::change::beside::{first_beside, returned_beside};
use crate::session::change::reading::{Read, Reading, misfit};
use crate::session::change::written::Written;
use crate::session::constraints::set_places;
use crate::session::insert::computed::refuse_of_rows;
use crate::session::rules::rules_of;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::transaction::own_changes::How;
use alluvia_catalog::rights::Privilege;
use alluvia_change::{Gone, Seen, UpdateQuery, delete_query, update_query};
use alluvia_snapshot::RowChange;
use alluvia_space::{ORDINAL_COLUMN, VERSION_COLUMN};
use alluvia_syntax::statements::changes::{Delete, Update};
use alluvia_types::Result;
use arrow::array::RecordBatch;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{Query, SelectItem, SetExpr};
use std::sync::Arc;

/// UPDATE.
pub(crate) async fn update(run: &Run, update: &Update) -> Result<Outcome> {
    refuse_columns_of_rows(run, &update.query, "SET")?;
    let queries: Vec<&Query> = std::iter::once(&*update.query).chain(update.returning.as_deref()).collect();
    let reading = Reading::begin(run, &update.table, &[Privilege::Update], &queries).await?;
    let def = &reading.entry.def;
    let UpdateQuery { query, gone, may_repeat } = update_query(def, update)?;
    let mut read = reading.read(run, query, [reading.target(gone)]).await?;
    let columns = def.columns.len();
    if may_repeat {
        let known = match gone {
            Gone::Replaced => reading.key_places()?,
            Gone::Keys | Gone::Identities => (columns..first_beside(&read)).collect(),
        };
        once_each(&mut read, &known)?;
    }
    let rows = reading.assigned(&read, 0, &read.batches)?;
    if let Some(rules) = rules_of(run, &reading.entry).await? {
        rules.check(&rows)?;
    }
    let tables = (&update.alias, update.beside.as_slice());
    let returned = returned_beside(run, &reading, update.returning.as_deref(), tables, &read, &rows).await?;
    let count: usize = rows.iter().map(RecordBatch::num_rows).sum();
    let computed_at = Some(reading.snapshot.version);
    let how = How { set: set_places(&reading.entry, update), paired: gone != Gone::Replaced };
    let written = Written::nothing(&reading).so(how);
    let written = match gone {
        Gone::Replaced => written.and(RowChange::Upsert, computed_at, rows),
        Gone::Keys | Gone::Identities => {
            let (change, telling) = telling_rows(&reading, gone, &read, columns)?;
            // Whether new keys are free, the store knows: what was there of old is of no account.
            written.and(change, computed_at, telling).and(RowChange::Insert, None, rows)
        }
    };
    written.commit(run, reading).await?;
    run.progress.add_rows(count as u64);
    Ok(returned.outcome(format!("UPDATE {count}")).with_used(read.used))
}

/// DELETE.
pub(super) async fn delete(run: &Run, delete: &Delete) -> Result<Outcome> {
    let queries: Vec<&Query> = std::iter::once(&*delete.query).chain(delete.returning.as_deref()).collect();
    let reading = Reading::begin(run, &delete.table, &[Privilege::Delete], &queries).await?;
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
    let tables = (&delete.alias, delete.beside.as_slice());
    let returned = returned_beside(run, &reading, delete.returning.as_deref(), tables, &read, &rows).await?;
    let (_, telling) = telling_rows(&reading, gone, &read, 0)?;
    let count: usize = telling.iter().map(RecordBatch::num_rows).sum();
    let written = Written::nothing(&reading).and(change, Some(reading.snapshot.version), telling);
    let passed_over = written.commit(run, reading).await?;
    let count = (count as u64).saturating_sub(passed_over);
    run.progress.add_rows(count);
    Ok(returned.outcome(format!("DELETE {count}")).with_used(read.used))
}

/// Refuses columns of a query that would make another thing of its rows in this place of a statement.
pub(crate) fn refuse_columns_of_rows(run: &Run, query: &Query, place: &str) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(()) };
    for item in &select.projection {
        if let SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr) = item {
            refuse_of_rows(expr, place, run.engine().functions())?;
        }
    }
    Ok(())
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
pub(super) fn telling(reading: &Reading, gone: Gone) -> Result<(RowChange, SchemaRef)> {
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
pub(super) fn telling_rows(
    reading: &Reading,
    gone: Gone,
    read: &Read,
    first: usize,
) -> Result<(RowChange, Vec<RecordBatch>)> {
    let (change, schema) = telling(reading, gone)?;
    let columns = first..first + schema.fields().len();
    let batch = |batch: &RecordBatch| {
        RecordBatch::try_new(Arc::clone(&schema), batch.columns()[columns.clone()].to_vec()).map_err(misfit)
    };
    Ok((change, read.batches.iter().map(batch).collect::<Result<_>>()?))
}
