//! The rows of a shard in a snapshot, for whoever gathers them.
//!
//! Invariant: rows have the columns of the shard's definition, in its types, and then `_version` and `_ordinal`: whatever they are encoded
//! as in segments or in the tail does not leave the worker.

use alluvia_snapshot::{Snapshot, TableRead};
use alluvia_space::{ORDINAL_COLUMN, VERSION_COLUMN};
use alluvia_tree::{SegmentCursor, SegmentRows};
use alluvia_types::{Error, Result, TableId};
use arrow::array::{AsArray, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::UInt64Type;
use std::sync::Arc;

/// Rows of a segment that are read at a time.
const CHUNK_ROWS: usize = 8_192;

/// Hands out all rows of a shard, in any order. An error of `each` ends it.
pub fn each_batch(snapshot: &Snapshot, shard: TableId, each: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
    let Some(read) = snapshot.tables.get(&shard) else { return Ok(()) };
    for part in &read.segments {
        of_segment(read, part, each)?;
    }
    for run in &read.tail {
        each(as_defined(read, &run.rows)?)?;
    }
    Ok(())
}

fn of_segment(read: &TableRead, part: &SegmentRows, each: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
    let def = &read.entry.def;
    let missing = || Error::internal(format!("table '{}' has segments and no dictionaries", def.name));
    let dictionaries = read.dictionaries.as_ref().ok_or_else(missing)?;
    let mut cursor = SegmentCursor::new(&part.segment, def, dictionaries, 0..part.segment.meta().rows, CHUNK_ROWS)?;
    let mut number = 0;
    while let Some(chunk) = cursor.next_ordered()? {
        let rows = as_defined(read, &chunk.rows().whole()?)?;
        let versions = rows.column(rows.num_columns() - 2).as_primitive::<UInt64Type>().values();
        let counts = |(at, version): (usize, &u64)| {
            let is_dead = part.dead.as_ref().is_some_and(|dead| dead.contains(number + at as u64));
            let is_above = part.above.is_none_or(|above| *version > above.0);
            let is_through = part.through.is_none_or(|through| *version <= through.0);
            Some(is_above && is_through && !is_dead)
        };
        let counting: BooleanArray = versions.iter().enumerate().map(counts).collect();
        number += rows.num_rows() as u64;
        let rows = if counting.true_count() == rows.num_rows() {
            rows
        } else {
            filter_record_batch(&rows, &counting).map_err(unfit)?
        };
        if rows.num_rows() > 0 {
            each(rows)?;
        }
    }
    Ok(())
}

/// Rows with the definition's columns, and the hidden ones.
fn as_defined(read: &TableRead, rows: &RecordBatch) -> Result<RecordBatch> {
    let schema = read.entry.versioned_schema();
    let column = |field: &Arc<arrow::datatypes::Field>| match rows.column_by_name(field.name()) {
        Some(column) if column.data_type() == field.data_type() => Ok(Arc::clone(column)),
        Some(column) => cast(column, field.data_type()).map_err(unfit),
        None if field.name() == VERSION_COLUMN || field.name() == ORDINAL_COLUMN => {
            Err(Error::internal(format!("rows have no {}", field.name())))
        }
        None => Ok(new_null_array(field.data_type(), rows.num_rows())),
    };
    let columns = schema.fields().iter().map(column).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(unfit)
}

fn unfit(error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("rows of a shard: {error}"))
}
