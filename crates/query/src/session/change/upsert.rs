//! INSERT with ON CONFLICT, or with RETURNING.
//!
//! Invariants:
//! - The rows that come are those of the same INSERT without these clauses: each value has been assigned to its column
//!   before anything is said of keys.
//! - A key comes once in what DO UPDATE writes.

use crate::session::change::reading::{Read, Reading, misfit, too_many};
use crate::session::change::returning::Returned;
use crate::session::change::written::Written;
use crate::session::constraints::without_conflicts;
use crate::session::insert::computed::refuse_of_rows;
use crate::session::insert::rows::{inserted, write};
use crate::session::insert::{insert as insert_plain, rows_of};
use crate::session::rules::rules_of;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::transaction::own_changes::new_ones;
use alluvia_catalog::TableEntry;
use alluvia_catalog::authoriser::{INSERT, Need};
use alluvia_catalog::rights::Privilege;
use alluvia_change::conflict::Arbiter;
use alluvia_change::{Resolved, Seen, insert_or_update, resolve};
use alluvia_snapshot::RowChange;
use alluvia_syntax::Hints;
use alluvia_syntax::statement::{Insert, InsertSource};
use alluvia_syntax::statements::changes::ConflictAction;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{AsArray, RecordBatch};
use arrow::compute::{filter_record_batch, not};
use datafusion::sql::sqlparser::ast::{Expr, Ident, Query};
use std::sync::Arc;

/// INSERT with one of these clauses.
pub(super) async fn insert(run: &Arc<Run>, statement: &Insert, hints: &Hints) -> Result<Outcome> {
    let entry = run.scope.table_for(INSERT, &statement.table)?;
    let resolved = statement.conflict.as_deref().map(|conflict| resolve(&entry.def, conflict)).transpose()?;
    let unique = match &resolved {
        Some(Resolved::Nothing(Arbiter::Any)) if entry.def.unique_indexes().next().is_some() => Some(None),
        Some(Resolved::Nothing(Arbiter::Index(name))) => Some(Some(name.as_str())),
        _ => None,
    };
    let change = match &resolved {
        None => RowChange::of_table(&entry.def),
        Some(Resolved::Nothing(Arbiter::Index(_))) => RowChange::Insert,
        Some(Resolved::Nothing(_)) if entry.def.key.is_none() => RowChange::Insert,
        Some(Resolved::Nothing(_)) => RowChange::InsertNew,
        Some(Resolved::Replace | Resolved::Compute { .. }) => RowChange::Upsert,
    };
    match &resolved {
        Some(Resolved::Compute { alias, values, query }) => {
            let reading = begin(run, statement, &[Privilege::Insert, Privilege::Update]).await?;
            check_same(&entry, &reading)?;
            return insert_or_set(run, reading, statement, (alias, values, query), hints).await;
        }
        // It is the table's way, which takes any number of rows.
        Some(Resolved::Nothing(_))
            if unique.is_none() && change == RowChange::of_table(&entry.def) && statement.returning.is_none() =>
        {
            let plain = Insert { conflict: None, ..statement.clone() };
            return insert_plain(run, plain, hints).await;
        }
        Some(Resolved::Replace) => {
            run.scope.table_for(Need::Privilege(Privilege::Update), &statement.table)?;
        }
        _ => {}
    }
    if statement.returning.is_some() {
        return insert_returning(run, statement, change, unique, hints).await;
    }
    let (mut rows, used) = rows_of(run, &entry, statement, hints).await.map_err(too_many)?;
    if let Some(named) = unique {
        rows = without_conflicts(run, &entry, named, rows).await?;
    }
    if change == RowChange::Upsert {
        refuse_repeated(&entry, &rows)?;
    }
    let outcome = write(run, &entry, change, rows).await?;
    Ok(match used {
        Some(used) => outcome.with_used(used),
        None => outcome,
    })
}

/// INSERT ... RETURNING of rows that come as `change` says.
async fn insert_returning(
    run: &Arc<Run>,
    statement: &Insert,
    change: RowChange,
    unique: Option<Option<&str>>,
    hints: &Hints,
) -> Result<Outcome> {
    let reading = begin(run, statement, &[Privilege::Insert]).await?;
    let (mut rows, _) = rows_of(run, &reading.entry, statement, hints).await.map_err(too_many)?;
    if let Some(named) = unique {
        rows = without_conflicts(run, &reading.entry, named, rows).await?;
    }
    if change == RowChange::Upsert && statement.conflict.is_some() {
        refuse_repeated(&reading.entry, &rows)?;
    }
    let (change, computed_at, rows) = match change {
        // Which ones come must be known for what is returned: another that has come meanwhile is a conflict.
        RowChange::InsertNew => {
            let version = reading.snapshot.version;
            (RowChange::Insert, Some(version), new_ones(run, &reading.entry, version, rows).await?)
        }
        _ => (change, None, rows),
    };
    let returned = Returned::of(run, &reading, statement.returning.as_deref(), &rows).await?;
    let count: usize = rows.iter().map(RecordBatch::num_rows).sum();
    Written::nothing(&reading).and(change, computed_at, rows).commit(run, reading).await?;
    run.progress.add_rows(count as u64);
    Ok(returned.outcome(inserted(count as u64).tag))
}

/// Refuses what was resolved by another definition than the one that is read by, so that it is resolved again.
fn check_same(entry: &TableEntry, reading: &Reading) -> Result<()> {
    if entry.changed_at == reading.entry.changed_at {
        return Ok(());
    }
    let message = format!("table {} was changed by another session", entry.def.name);
    Err(Error::new(ErrorKind::Conflict, message).with_hint("run the statement again"))
}

/// ON CONFLICT DO UPDATE of rows that must be read: what the statement calls the table, what it sets, and the query that
/// the values are of.
async fn insert_or_set(
    run: &Arc<Run>,
    reading: Reading,
    statement: &Insert,
    (alias, values, query): (&Ident, &[Option<Expr>], &Query),
    hints: &Hints,
) -> Result<Outcome> {
    for value in values.iter().flatten() {
        refuse_of_rows(value, "SET", run.engine().functions())?;
    }
    let (came, _) = rows_of(run, &reading.entry, statement, hints).await.map_err(too_many)?;
    refuse_repeated(&reading.entry, &came)?;
    let query = insert_or_update(&reading.entry.def, alias, values, query)?;
    let (target, cost) = reading.target_of(run, &came).await?;
    let read = reading.read(run, query, [target, reading.rows(&came)?]).await?;
    cost.count_planned(&read.used);
    cost.count_read(&read.used);
    let rows = written_rows(&reading, &read)?;
    if let Some(rules) = rules_of(run, &reading.entry).await? {
        rules.check(&rows)?;
    }
    let returned = Returned::of(run, &reading, statement.returning.as_deref(), &rows).await?;
    let count: usize = rows.iter().map(RecordBatch::num_rows).sum();
    let written = Written::nothing(&reading).and(RowChange::Upsert, Some(reading.snapshot.version), rows);
    written.commit(run, reading).await?;
    run.progress.add_rows(count as u64);
    Ok(returned.outcome(inserted(count as u64).tag).with_used(read.used))
}

/// Rows that came where there were none, and those that are to be in the place of those that were there.
fn written_rows(reading: &Reading, read: &Read) -> Result<Vec<RecordBatch>> {
    let mut rows = Vec::new();
    let mut set = Vec::new();
    for batch in &read.batches {
        let Some(was_there) = batch.columns().first().and_then(|column| column.as_boolean_opt()) else {
            return Err(Error::internal("whether rows were there is no truth"));
        };
        let new = filter_record_batch(batch, &not(was_there).map_err(misfit)?).map_err(misfit)?;
        if new.num_rows() > 0 {
            rows.push(reading.as_stored(&new, 1)?);
        }
        set.push(filter_record_batch(batch, was_there).map_err(misfit)?);
    }
    rows.extend(reading.assigned(read, 1 + reading.entry.def.columns.len(), &set)?);
    Ok(rows)
}

async fn begin(run: &Run, statement: &Insert, privileges: &[Privilege]) -> Result<Reading> {
    let source = match &statement.source {
        InsertSource::Query(query) => Some(query.as_ref()),
        InsertSource::Literals(_) => None,
    };
    let set = statement.conflict.as_deref().and_then(|conflict| match &conflict.action {
        ConflictAction::Update { query, .. } => Some(query.as_ref()),
        ConflictAction::Nothing => None,
    });
    let queries: Vec<&Query> = source.into_iter().chain(set).chain(statement.returning.as_deref()).collect();
    Reading::begin(run, &statement.table, privileges, &queries).await
}

/// Refuses a key that comes twice.
fn refuse_repeated(entry: &TableEntry, rows: &[RecordBatch]) -> Result<()> {
    let Some(key) = entry.def.key_columns() else { return Ok(()) };
    let mut seen = Seen::default();
    for batch in rows {
        let known: Vec<_> = key.iter().map(|&at| Arc::clone(batch.column(at))).collect();
        if seen.are_new(&known)?.false_count() > 0 {
            let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
            return Err(Error::new(ErrorKind::TooManyRows, message).with_hint(
                "a key may come once in a statement: leave out what comes twice, as by SELECT DISTINCT ON",
            ));
        }
    }
    Ok(())
}
