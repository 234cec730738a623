//! From log records back to published batches, when a database is opened.

use crate::codec::decode;
use crate::committer::{Committer, Prepared};
use alluvia_catalog::{Catalog, TableEntry};
use alluvia_log::Record;
use alluvia_snapshot::{NewBatch, NewRows, Published, Spaces};
use alluvia_types::{Error, Result, TableId, Version};
use arrow::array::{ArrayRef, UInt64Array};
use arrow::compute::concat_batches;
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use std::sync::Arc;

impl Committer {
    /// What a recovered record published. `catalog` is the newest definitions before it; what its staged loads need of
    /// dictionaries is noted in `spaces`.
    pub fn replay(record: &Record<'_>, catalog: &Arc<Catalog>, spaces: &Spaces) -> Result<Published> {
        let body = decode(record.body).map_err(|error| error.at(format_args!("version {}", record.version)))?;
        let changed = match body.changes.as_slice() {
            [] => None,
            changes => Some(Arc::new(catalog.apply(record.version, changes)?)),
        };
        let rows = body.rows(changed.as_ref().unwrap_or(catalog))?;
        for load in &body.loads {
            let ranges = (!load.ranges.is_empty()).then_some(load.ranges.as_slice());
            spaces.require(load.table, Some(&load.dictionary), ranges);
        }
        let (changes, loads) = (body.changes, body.loads);
        let batch = NewBatch { changes, rows, loads, producer: body.producer, key: body.key };
        let current = changed.as_ref().unwrap_or(catalog);
        let prepared = Prepared::new(batch, record.body.len() as u64)?;
        prepared.published(record.version, record.commit_micros, current, changed.clone())
    }
}

/// A table's rows of one batch as one run, ready for their version.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) table: TableId,
    pub(crate) checked_at: Version,
    rows: RecordBatch,
    ordinals: ArrayRef,
    bytes: u64,
}

/// Joins each table's rows into one run. `bytes` is the batch's size in the log, shared out by rows. Tables without rows are passed
/// over.
pub(crate) fn runs(rows: Vec<NewRows>, bytes: u64) -> Result<Vec<Run>> {
    let total: u64 = rows.iter().flat_map(|rows| &rows.batches).map(|batch| batch.num_rows() as u64).sum();
    let mut runs = Vec::with_capacity(rows.len());
    for NewRows { table, checked_at, batches } in rows {
        let rows = match batches.as_slice() {
            [] => continue,
            [one] => one.clone(),
            [first, ..] => concat_batches(first.schema_ref(), &batches).map_err(unfit)?,
        };
        let count = rows.num_rows() as u64;
        if count == 0 {
            continue;
        }
        let ordinals: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..count));
        // The hidden columns take 16 bytes a row.
        runs.push(Run { table, checked_at, rows, ordinals, bytes: bytes * count / total.max(1) + 16 * count });
    }
    Ok(runs)
}

impl Run {
    /// The rows with `_version` and `_ordinal`.
    pub(crate) fn versioned(self, version: Version, entry: &TableEntry) -> Result<(TableId, RecordBatch, u64)> {
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
