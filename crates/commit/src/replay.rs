//! From log records back to published batches, when a database is opened.

use crate::codec::decode;
use crate::committer::Committer;
use alluvia_catalog::Catalog;
use alluvia_log::Record;
use alluvia_snapshot::{NewBatch, NewRows, Published, Spaces};
use alluvia_space::{ORDINAL_COLUMN, VERSION_COLUMN};
use alluvia_types::{Error, Result, TableId, Version};
use arrow::array::{ArrayRef, UInt64Array};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema};
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
        Committer::recovered(record.version, record.commit_micros, batch, changed, record.body.len() as u64)
    }
}

/// Joins each table's rows into one run and adds `_version` and `_ordinal`. `bytes` is the batch's size in the log,
/// shared out by rows.
pub(crate) fn with_hidden_columns(
    version: Version,
    rows: Vec<NewRows>,
    bytes: u64,
) -> Result<Vec<(TableId, RecordBatch, u64)>> {
    let total: u64 = rows.iter().flat_map(|rows| &rows.batches).map(|batch| batch.num_rows() as u64).sum();
    let mut published = Vec::with_capacity(rows.len());
    for NewRows { table, batches, .. } in rows {
        let Some(first) = batches.first() else { continue };
        let internal = |error: arrow::error::ArrowError| Error::internal(format!("rows of one batch: {error}"));
        let batch = match batches.as_slice() {
            [one] => one.clone(),
            many => concat_batches(&first.schema(), many).map_err(internal)?,
        };
        let count = batch.num_rows();
        if count == 0 {
            continue;
        }
        let mut fields = batch.schema().fields().to_vec();
        fields.push(Arc::new(Field::new(VERSION_COLUMN, DataType::UInt64, true)));
        fields.push(Arc::new(Field::new(ORDINAL_COLUMN, DataType::UInt64, false)));
        let mut columns = batch.columns().to_vec();
        columns.push(Arc::new(UInt64Array::from_value(version.0, count)) as ArrayRef);
        columns.push(Arc::new(UInt64Array::from_iter_values(0..count as u64)));
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(internal)?;
        // The hidden columns take 16 bytes a row.
        let share = bytes * count as u64 / total.max(1) + 16 * count as u64;
        published.push((table, batch, share));
    }
    Ok(published)
}
