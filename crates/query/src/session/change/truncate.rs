//! TRUNCATE: all rows of its tables go, in one batch.

use crate::rights::Need;
use crate::session::change::existing::telling_rows;
use crate::session::change::reading::Reading;
use crate::session::change::written::Written;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use alluvia_catalog::rights::Privilege;
use alluvia_change::delete_query;
use alluvia_syntax::statements::changes::Delete;
use alluvia_types::{Error, Result};
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
    for delete in tables {
        let snapshot = Arc::clone(&begun.snapshot);
        let entry = Arc::clone(snapshot.catalog.table(&delete.table)?);
        let reading = Reading { snapshot, entry };
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
    run.progress.add_rows(count.saturating_sub(passed_over));
    let outcome = Outcome::done("TRUNCATE TABLE");
    Ok(match used {
        Some(used) => outcome.with_used(used),
        None => outcome,
    })
}
