//! A batch on its way to its version: what can be made ready before it has one, and what it is once it has.
//!
//! Invariants:
//! - Live batches and those of the log are prepared alike, so what is replayed is what was published.
//! - What costs time by the row is done before there is a version, so outside of the sequencer's lock; but for the hidden columns, two
//!   numbers a row.

use crate::decide::{Head, Numbered};
use alluvia_catalog::{Catalog, TableEntry};
use alluvia_snapshot::{BatchInfo, NewBatch, NewRows, Published, RowChange, TailRoom};
use alluvia_types::{Error, Result, TableId, Version};
use arrow::array::{ArrayRef, AsArray, UInt64Array};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Schema};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use std::sync::Arc;

/// A batch as far as it can be made ready without a version, so outside of the sequencer's lock.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Without its rows.
    pub(crate) batch: NewBatch,
    runs: Vec<Run>,
    /// By which definitions rows were checked, also those that only say which go.
    checked: Vec<(TableId, Version)>,
    tables: Vec<TableId>,
    rows: u64,
    bytes: u64,
    room: Option<TailRoom>,
}

impl Prepared {
    /// `bytes` is the length of its body in the log, `room` what its rows have in the tail until they are visible.
    pub(crate) fn new(mut batch: NewBatch, bytes: u64, room: Option<TailRoom>) -> Result<Prepared> {
        let in_log = batch.rows.iter().flat_map(|rows| &rows.batches).map(|rows| rows.num_rows() as u64).sum::<u64>();
        let staged = batch.loads.iter().map(|load| load.rows).sum::<u64>();
        let mut tables: Vec<TableId> =
            batch.rows.iter().map(|rows| rows.table).chain(batch.loads.iter().map(|load| load.table)).collect();
        tables.sort();
        tables.dedup();
        let has_rows = |rows: &&NewRows| rows.batches.iter().any(|batch| batch.num_rows() > 0);
        let checked = batch.rows.iter().filter(has_rows).map(|rows| (rows.table, rows.checked_at));
        let loads = batch.loads.iter().map(|load| (load.table, load.checked_at));
        let checked = checked.chain(loads).collect();
        let tail_bytes = tail_bytes(&batch.rows, bytes);
        let runs = runs(std::mem::take(&mut batch.rows), tail_bytes)?;
        Ok(Prepared { batch, runs, checked, tables, rows: in_log + staged, bytes, room })
    }

    /// What is known of it without its rows.
    pub(crate) fn head(&self) -> Head<'_> {
        let NewBatch { changes, producer, key, unwritten, .. } = &self.batch;
        Head { changes, producer: producer.as_ref(), key: *key, checked: &self.checked, unwritten }
    }

    /// What it is at its place. `before` are the definitions before it, `passed_over` of its rows change nothing.
    pub(crate) fn published(self, place: &Numbered, before: &Arc<Catalog>, passed_over: u64) -> Result<Published> {
        let Numbered { version, commit_micros, changed } = place.clone();
        let current = Arc::clone(changed.as_ref().unwrap_or(before));
        let Prepared { batch, runs, tables, rows, bytes, room, .. } = self;
        let NewBatch { changes, loads, producer, key, .. } = batch;
        let rows = rows - passed_over;
        let info = BatchInfo { version, commit_micros, rows, tables, changes: changes.len(), bytes, producer, key };
        let versioned = |run: Run| {
            let entry = current.by_id(run.table).ok_or_else(|| Error::internal("a batch has rows of no table"))?;
            run.versioned(version, entry)
        };
        let rows = runs.into_iter().map(versioned).collect::<Result<_>>()?;
        Ok(Published { info, catalog: changed, rows, keys: Vec::new(), loads, room })
    }
}

/// Of each row what the hidden columns take.
const HIDDEN_BYTES: u64 = 16;

/// What rows count as while they wait in memory: the length of their body in the log, or of their texts where that is more, since views
/// may have one text many times, and tail and dictionaries have as many copies of it; and their hidden columns.
pub(crate) fn tail_bytes(rows: &[NewRows], body_bytes: u64) -> u64 {
    let text = |column: &ArrayRef| -> u64 {
        match column.data_type() {
            DataType::Utf8View => column.as_string_view().lengths().map(u64::from).sum(),
            DataType::BinaryView => column.as_binary_view().lengths().map(u64::from).sum(),
            _ => 0,
        }
    };
    let texts = rows.iter().flat_map(|rows| &rows.batches).flat_map(|batch| batch.columns()).map(text).sum();
    let count = rows.iter().flat_map(|rows| &rows.batches).map(|batch| batch.num_rows() as u64).sum::<u64>();
    body_bytes.max(texts) + HIDDEN_BYTES * count
}

/// A table's rows of one batch as one run, ready for their version.
#[derive(Debug)]
struct Run {
    table: TableId,
    rows: RecordBatch,
    ordinals: ArrayRef,
    bytes: u64,
}

/// Rows of one table that come.
struct Coming {
    table: TableId,
    batches: Vec<RecordBatch>,
    /// Where they are given.
    ordinals: Vec<UInt64Array>,
}

/// Joins each table's rows that come into one run, in order. `bytes` is what all rows count as, shared out by rows. Tables
/// to which no rows come are passed over.
fn runs(rows: Vec<NewRows>, bytes: u64) -> Result<Vec<Run>> {
    let total: u64 = rows.iter().flat_map(|rows| &rows.batches).map(|batch| batch.num_rows() as u64).sum();
    let mut coming: Vec<Coming> = Vec::with_capacity(rows.len());
    for NewRows { table, batches, change, ordinals, .. } in rows {
        if matches!(change, RowChange::Delete | RowChange::DeleteRows) {
            continue;
        }
        match coming.iter_mut().find(|known| known.table == table) {
            Some(known) => {
                known.batches.extend(batches);
                known.ordinals.extend(ordinals);
            }
            None => coming.push(Coming { table, batches, ordinals: Vec::from_iter(ordinals) }),
        }
    }
    let mut runs = Vec::with_capacity(coming.len());
    for Coming { table, batches, ordinals } in coming {
        let rows = match batches.as_slice() {
            [] => continue,
            [one] => one.clone(),
            [first, ..] => concat_batches(first.schema_ref(), &batches).map_err(unfit)?,
        };
        let count = rows.num_rows() as u64;
        if count == 0 {
            continue;
        }
        let ordinals = match ordinals.as_slice() {
            [] => UInt64Array::from_iter_values(0..count),
            [one] => one.clone(),
            parts => UInt64Array::from_iter_values(parts.iter().flat_map(|part| part.values().iter().copied())),
        };
        if ordinals.len() as u64 != count || !ordinals.values().is_sorted_by(|one, next| one < next) {
            return Err(Error::internal("ordinals of a part of a batch do not ascend with its rows"));
        }
        let ordinals: ArrayRef = Arc::new(ordinals);
        runs.push(Run { table, rows, ordinals, bytes: bytes * count / total.max(1) });
    }
    Ok(runs)
}

impl Run {
    /// The rows with `_version` and `_ordinal`.
    fn versioned(self, version: Version, entry: &TableEntry) -> Result<(TableId, RecordBatch, u64)> {
        let Run { table, rows, ordinals, bytes, .. } = self;
        let versions: ArrayRef = Arc::new(UInt64Array::from_value(version.0, rows.num_rows()));
        // Text may come as a dictionary; then the schema is the rows' own.
        let schema = if rows.schema_ref() == entry.storage_schema() {
            Arc::clone(entry.versioned_schema())
        } else {
            let hidden = &entry.versioned_schema().fields()[entry.storage_schema().fields().len()..];
            Arc::new(Schema::new(rows.schema_ref().fields().iter().chain(hidden).cloned().collect::<Vec<_>>()))
        };
        let (_, mut columns, _) = rows.into_parts();
        columns.extend([versions, ordinals]);
        Ok((table, RecordBatch::try_new(schema, columns).map_err(unfit)?, bytes))
    }
}

fn unfit(error: ArrowError) -> Error {
    Error::internal(format!("rows of one batch: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{StringViewArray, UInt32Array};
    use arrow::compute::take;

    #[test]
    fn texts_that_share_memory_count_as_often_as_rows_have_them() {
        let text: ArrayRef = Arc::new(StringViewArray::from_iter_values(["a text that no view holds itself"]));
        let shared = take(&text, &UInt32Array::from(vec![0; 1_000]), None).expect("a row that is there");
        let batches = vec![RecordBatch::try_from_iter([("t", shared)]).expect("one column")];
        let rows = [NewRows::insert(TableId(1), Version(1), batches)];
        let hidden = 1_000 * HIDDEN_BYTES;
        assert_eq!(tail_bytes(&rows, 17_000), 1_000 * text.as_string_view().value(0).len() as u64 + hidden);
        assert_eq!(tail_bytes(&rows, 70_000), 70_000 + hidden);
    }
}
