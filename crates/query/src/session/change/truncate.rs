//! TRUNCATE: all rows of its tables go, in one batch.
//!
//! Invariants:
//! - Who may not truncate a table neither locks it nor waits for its locks.
//! - What refers to the tables is locked by the definitions that their rows are deleted by.
//! - Sequences begin anew once the rows are gone, and never where they stay.

use crate::execution::blocking::blocking;
use crate::session::change::existing::telling_rows;
use crate::session::change::reading::Reading;
use crate::session::change::written::Written;
use crate::session::constraints::check_decided;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::state::temporary::is_temporary;
use crate::session::state::transaction::Transaction;
use crate::session::transaction::own_changes::How;
use crate::session::transaction::row_locks::lock_whole;
use crate::session::transaction::submit::change;
use alluvia_catalog::authoriser::Need;
use alluvia_catalog::rights::Privilege;
use alluvia_catalog::{Catalog, Change, TableEntry};
use alluvia_change::delete_query;
use alluvia_syntax::statements::changes::Delete;
use alluvia_types::{ColumnId, Error, ErrorKind, Result};
use arrow::array::RecordBatch;
use datafusion::sql::sqlparser::ast::Query;
use std::sync::Arc;

/// TRUNCATE of at least one table.
pub(super) async fn truncate(run: &Run, tables: &[Delete]) -> Result<Outcome> {
    let all = match tables.iter().any(|delete| delete.cascades) {
        true => with_children(run, tables)?,
        false => tables.to_vec(),
    };
    let tables = all.as_slice();
    let first = tables.first().ok_or_else(|| Error::internal("a TRUNCATE names no table"))?;
    let entry = |delete: &Delete| run.scope.table_for(Need::Privilege(Privilege::Truncate), &delete.table);
    let entries = tables.iter().map(entry).collect::<Result<Vec<_>>>()?;
    entries.iter().for_each(|entry| run.decided.lock().note(entry));
    let referred = referred(run.scope.resolver()?.catalog(), &entries)?;
    for entry in &referred {
        lock_whole(run, &entry.def).await?;
    }
    // All of them by one snapshot.
    let queries: Vec<&Query> = tables.iter().map(|delete| &*delete.query).collect();
    let begun = Reading::begin(run, &first.table, &[Privilege::Truncate], &queries).await?;
    let catalog = &begun.snapshot.catalog;
    let path = run.scope.path();
    let seen = tables.iter().map(|delete| catalog.relation(&delete.table, &path).cloned());
    refuse_others(&referred, &self::referred(catalog, &seen.collect::<Result<Vec<_>>>()?)?)?;
    let mut all = Vec::with_capacity(tables.len());
    let mut count = 0;
    let mut used = None;
    let mut restarted = Vec::new();
    for delete in tables {
        let snapshot = Arc::clone(&begun.snapshot);
        let entry = Arc::clone(snapshot.catalog.relation(&delete.table, &run.scope.path())?);
        if delete.restarts && !entry.def.rules.identities.is_empty() {
            restarted.push(Arc::clone(&entry));
        }
        if is_temporary(entry.def.id) {
            count += run.state().temporary_to_change()?.clear(entry.def.id)?;
            continue;
        }
        check_decided(run, &entry)?;
        let reading = Reading { snapshot, entry, time_zone: run.settings.time_zone.clone() };
        let (query, gone, _) = delete_query(&reading.entry.def, delete, false)?;
        let read = reading.read(run, query, [reading.target(gone)]).await?;
        let (change, rows) = telling_rows(&reading, gone, &read, 0)?;
        count += rows.iter().map(|rows: &RecordBatch| rows.num_rows() as u64).sum::<u64>();
        // What refers to the rows goes with them.
        let how = How { set: Some(Vec::new()), paired: false };
        all.push(Written::nothing(&reading).so(how).and(change, Some(reading.snapshot.version), rows));
        used = Some(read.used);
    }
    // A batch may have to wait until what statements hold is given back: not for its own.
    drop(begun);
    let passed_over = Written::commit_all(run, all).await?;
    for entry in restarted {
        restart(run, entry).await?;
    }
    run.progress.add_rows(count.saturating_sub(passed_over));
    let outcome = Outcome::done("TRUNCATE TABLE");
    Ok(match used {
        Some(used) => outcome.with_used(used),
        None => outcome,
    })
}

/// Of tables those to which any refer, in the order in which they are locked: nobody refers to their rows from then on. Refused where what
/// refers to them keeps its rows.
fn referred(catalog: &Catalog, entries: &[Arc<TableEntry>]) -> Result<Vec<Arc<TableEntry>>> {
    let mut referred = entries.to_vec();
    referred.sort_by_key(|entry| entry.def.id);
    referred.retain(|entry| catalog.references_to(entry.def.id).next().is_some());
    for entry in &referred {
        let is_left = |child: &TableEntry| entries.iter().all(|named| named.def.id != child.def.id);
        if let Some((child, key)) = catalog.references_to(entry.def.id).find(|(child, _)| is_left(child)) {
            let message = "cannot truncate a table referenced in a foreign key constraint";
            let detail = format!("Table \"{}\" references \"{}\" by {}.", child.def.name, entry.def.name, key.name);
            return Err(Error::new(ErrorKind::NotSupported, message).with_detail(detail).with_hint(format!(
                "Truncate table \"{}\" at the same time, or use TRUNCATE ... CASCADE.",
                child.def.name
            )));
        }
    }
    Ok(referred)
}

/// Refuses tables to which others refer since those that are locked were found.
fn refuse_others(locked: &[Arc<TableEntry>], seen: &[Arc<TableEntry>]) -> Result<()> {
    let is_locked = |entry: &Arc<TableEntry>| locked.iter().any(|locked| locked.def.id == entry.def.id);
    match seen.iter().find(|entry| !is_locked(entry)) {
        None => Ok(()),
        Some(entry) => {
            let message = format!("another session has made a table refer to table {} meanwhile", entry.def.name);
            Err(Error::new(ErrorKind::Conflict, message).with_hint("run the statement again"))
        }
    }
}

/// The tables, and those that refer to them, to those, and so on: TRUNCATE ... CASCADE.
fn with_children(run: &Run, tables: &[Delete]) -> Result<Vec<Delete>> {
    let catalog = Arc::clone(run.scope.resolver()?.catalog());
    let mut all = tables.to_vec();
    let mut at = 0;
    while let Some(delete) = all.get(at).cloned() {
        let parent = run.scope.table_for(Need::Definition, &delete.table)?;
        for (child, _) in catalog.references_to(parent.def.id) {
            let known = all.iter().any(|known| {
                run.scope.table_for(Need::Definition, &known.table).is_ok_and(|entry| entry.def.id == child.def.id)
            });
            if !known {
                all.push(Delete::whole(&child.def.schema, &child.def.name, delete.restarts)?);
            }
        }
        at += 1;
    }
    Ok(all)
}

/// Has the sequences of a table begin anew: in a transaction for its own statements, and by its COMMIT for all.
async fn restart(run: &Run, entry: Arc<TableEntry>) -> Result<()> {
    let table = entry.def.id;
    if run.state().is_open()? && run.engine().read().catalog().by_id(table).is_some() {
        let columns: Vec<ColumnId> = entry.def.rules.identities.iter().map(|identity| identity.column).collect();
        let anew = |&column: &ColumnId| Change::Sequence { table, column, through: None, only_after: None };
        change(run, columns.iter().map(anew).collect()).await?;
        if let Transaction::Open(open) = &mut run.state().transaction {
            columns.into_iter().for_each(|column| open.restart((table, column)));
        }
        return Ok(());
    }
    let (engine, state) = (Arc::clone(run.engine()), Arc::clone(&run.scope.state));
    blocking(move || {
        for identity in &entry.def.rules.identities {
            engine.sequences().set(&engine, state.as_ref(), &entry, identity, None)?;
        }
        Ok(())
    })
    .await
}
