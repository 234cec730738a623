//! TRUNCATE: all rows of its tables go, in one batch.
//!
//! Invariant: sequences begin anew once the rows are gone, and never where they stay.

use crate::execution::blocking::blocking;
use crate::session::change::existing::telling_rows;
use crate::session::change::reading::Reading;
use crate::session::change::written::Written;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::state::temporary::is_temporary;
use crate::session::state::transaction::Transaction;
use crate::session::transaction::submit::change;
use alluvia_catalog::authoriser::Need;
use alluvia_catalog::rights::Privilege;
use alluvia_catalog::{Change, TableEntry};
use alluvia_change::delete_query;
use alluvia_syntax::statements::changes::Delete;
use alluvia_types::{ColumnId, Error, Result};
use arrow::array::RecordBatch;
use datafusion::sql::sqlparser::ast::Query;
use std::sync::Arc;

/// TRUNCATE of at least one table.
pub(super) async fn truncate(run: &Run, tables: &[Delete]) -> Result<Outcome> {
    let [first, others @ ..] = tables else { return Err(Error::internal("a TRUNCATE names no table")) };
    for other in others {
        run.scope.table_for(Need::Privilege(Privilege::Truncate), &other.table)?;
    }
    // All of them by one snapshot.
    let queries: Vec<&Query> = tables.iter().map(|delete| &*delete.query).collect();
    let begun = Reading::begin(run, &first.table, &[Privilege::Truncate], &queries).await?;
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
        let reading = Reading { snapshot, entry, time_zone: run.settings.time_zone.clone() };
        let (query, gone, _) = delete_query(&reading.entry.def, delete, false)?;
        let read = reading.read(run, query, [reading.target(gone)]).await?;
        let (change, rows) = telling_rows(&reading, gone, &read, 0)?;
        count += rows.iter().map(|rows: &RecordBatch| rows.num_rows() as u64).sum::<u64>();
        all.push(Written::nothing(&reading).and(change, Some(reading.snapshot.version), rows));
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
