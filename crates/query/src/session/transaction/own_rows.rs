//! Rows by their keys, as the open transaction sees them now: its own, and those of the newest version whose keys it has left alone.

use crate::execution::blocking::blocking;
use crate::session::run::Run;
use crate::session::state::transaction::Transaction;
use alluvia_catalog::TableEntry;
use alluvia_snapshot::Want;
use alluvia_space::key_code::{KeyCode, KeyCoder};
use alluvia_types::{Error, Freshness, Result, Version};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::concat_batches;
use arrow::error::ArrowError;
use std::sync::Arc;
use std::time::Duration;

/// The rows that have these keys, in the storage schema of `entry`, and of each which of the keys it has; and the version that those which
/// others have committed are of.
pub(crate) async fn rows_of_keys(
    run: &Run,
    entry: &Arc<TableEntry>,
    coder: &KeyCoder,
    codes: &[KeyCode],
) -> Result<(Vec<usize>, RecordBatch, Version)> {
    let table = entry.def.id;
    let (mut places, mut batches, mut untouched) = (Vec::new(), Vec::new(), Vec::new());
    let (exactly, at_least) = {
        let state = run.state();
        let Transaction::Open(open) = &state.transaction else {
            return Err(Error::internal("rows of no transaction are asked for"));
        };
        for (at, code) in codes.iter().enumerate() {
            match open.own_row(table, *code)? {
                Some(Some(row)) => {
                    places.push(at);
                    batches.push(row);
                }
                Some(None) => {}
                None => untouched.push(at),
            }
        }
        (open.version(), state.must_see().max(open.least()))
    };
    let asked: Vec<KeyCode> = untouched.iter().map(|at| codes[*at]).collect();
    let (store, coder, wanted) = (Arc::clone(run.engine().read()), coder.clone(), Arc::clone(entry));
    let found = blocking(move || {
        let freshness = Freshness::Within(Duration::ZERO);
        let snapshot = store.snapshot(&Want { freshness, at_least, exactly, tables: vec![table] })?;
        // A table that only the transaction knows has no rows but the transaction's.
        let Some(read) = snapshot.tables.get(&table) else { return Ok((Vec::new(), None, snapshot.version)) };
        let found = store.find_keys(snapshot.version, read, &coder, &asked)?;
        let mut at = Vec::new();
        let mut rows = Vec::new();
        for (place, row) in untouched.into_iter().zip(found) {
            if let Some(row) = row {
                at.push(place);
                rows.push(row);
            }
        }
        let columns: Vec<usize> = (0..read.entry.def.columns.len()).collect();
        let rows = read.rows_at(&rows, &columns)?;
        Ok((at, Some(by_definition(&read.entry, &wanted, &rows)?), snapshot.version))
    });
    let (at, rows, version) = found.await?;
    if let Transaction::Open(open) = &mut run.state().transaction
        && open.version().is_some()
    {
        // What it reads is not what is newest: that nothing came since, COMMIT finds out.
        open.rests_on(table, version);
    }
    // What was found first, and then the own.
    let mut all: Vec<RecordBatch> = rows.into_iter().collect();
    let places = at.into_iter().chain(places).collect();
    for row in batches {
        all.push(RecordBatch::try_new(Arc::clone(entry.storage_schema()), row.columns().to_vec()).map_err(misfit)?);
    }
    Ok((places, concat_batches(entry.storage_schema(), &all).map_err(misfit)?, version))
}

/// Rows of one definition as those of another, whose further columns are NULL.
fn by_definition(of: &TableEntry, wanted: &TableEntry, rows: &RecordBatch) -> Result<RecordBatch> {
    let column = |column: &alluvia_space::Column| -> ArrayRef {
        match of.def.columns.iter().position(|known| known.id == column.id) {
            Some(place) => Arc::clone(rows.column(place)),
            None => new_null_array(&column.data_type.to_arrow(), rows.num_rows()),
        }
    };
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    let columns = wanted.def.columns.iter().map(column).collect();
    RecordBatch::try_new_with_options(Arc::clone(wanted.storage_schema()), columns, &options).map_err(misfit)
}

fn misfit(error: ArrowError) -> Error {
    Error::internal(format!("rows of keys do not fit together: {error}"))
}
