//! The rows of a shard in a snapshot, for whoever gathers or copies them.
//!
//! Invariant: rows have the columns of the shard's definition, in its types, and then `_version` and `_ordinal`: whatever they are encoded
//! as in segments or in the tail does not leave the worker.

use alluvia_snapshot::{Snapshot, TableRead};
use alluvia_space::{ORDINAL_COLUMN, VERSION_COLUMN};
use alluvia_tree::{BLOCK_ROWS, SegmentCursor, SegmentRows};
use alluvia_types::{Error, Result, TableId};
use arrow::array::{AsArray, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::UInt64Type;
use std::ops::Range;
use std::sync::Arc;

/// Rows of a segment that are read at a time.
const CHUNK_ROWS: usize = 8_192;

/// Hands out all rows of a shard, in any order. An error of `each` ends it.
pub fn each_batch(snapshot: &Snapshot, shard: TableId, each: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
    let Some(read) = snapshot.tables.get(&shard) else { return Ok(()) };
    for part in &read.segments {
        of_segment(read, part, 0..part.segment.meta().rows, each)?;
    }
    for run in &read.tail {
        each(as_defined(read, &run.rows)?)?;
    }
    Ok(())
}

/// Some rows of a shard, from one on, and from which one on the next are. Rows are counted as they lie in this snapshot, those that do not
/// count among them.
pub(super) fn rows_from(snapshot: &Snapshot, shard: TableId, from: u64) -> Result<(Vec<RecordBatch>, Option<u64>)> {
    let Some(read) = snapshot.tables.get(&shard) else { return Ok((Vec::new(), None)) };
    let mut rows = Vec::new();
    let mut first = 0;
    for part in &read.segments {
        let (own, start) = (part.segment.meta().rows, first);
        first += own;
        if from < first {
            let end = (from - start + copied_at_once(part)).min(own);
            of_segment(read, part, from - start..end, &mut |batch| {
                rows.push(batch);
                Ok(())
            })?;
            return Ok((rows, Some(start + end)));
        }
    }
    for run in &read.tail {
        let own = run.rows.num_rows() as u64;
        if from <= first {
            rows.push(as_defined(read, &run.rows)?);
        }
        first += own;
        if rows.iter().map(RecordBatch::num_rows).sum::<usize>() as u64 >= COPIED_ROWS_MAX {
            return Ok((rows, Some(first)));
        }
    }
    Ok((rows, None))
}

/// A number of how the rows of a shard lie in a snapshot: where it is the same, so is what [`rows_from`] counts.
pub(super) fn layout(snapshot: &Snapshot, shard: TableId) -> u32 {
    let Some(read) = snapshot.tables.get(&shard) else { return 0 };
    let segments = read.segments.iter().flat_map(|part| [part.segment.meta().id.0, part.segment.meta().rows]);
    let runs = read.tail.iter().map(|run| run.rows.num_rows() as u64);
    segments.chain(runs).fold(1, |crc, number| crc32c::crc32c_append(crc, &number.to_le_bytes()))
}

/// Rows that are copied at once, at most, and bytes of files that they may take; blocks are whole.
const COPIED_ROWS_MAX: u64 = 1 << 16;
const COPIED_BYTES_MAX: u64 = 8 << 20;

fn copied_at_once(part: &SegmentRows) -> u64 {
    let meta = part.segment.meta();
    let rows = COPIED_BYTES_MAX * meta.rows.max(1) / meta.parquet_bytes.max(1);
    rows.min(COPIED_ROWS_MAX).next_multiple_of(BLOCK_ROWS as u64).max(BLOCK_ROWS as u64)
}

fn of_segment(
    read: &TableRead,
    part: &SegmentRows,
    rows: Range<u64>,
    each: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let def = &read.entry.def;
    let missing = || Error::internal(format!("table '{}' has segments and no dictionaries", def.name));
    let dictionaries = read.dictionaries.as_ref().ok_or_else(missing)?;
    let mut number = rows.start;
    let mut cursor = SegmentCursor::new(&part.segment, def, dictionaries, rows, CHUNK_ROWS)?;
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
