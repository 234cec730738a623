//! What a statement's tables know of the lengths of their texts, before the statement is planned.
//!
//! Invariants:
//! - Of a table that is scanned the longest of its segments, and of its rows in memory, are told: a batch may be of these alone.
//! - Rows that are found by their keys are not asked for: they are few, and no footer is read for them.

use super::context::StatementContext;
use super::provider::AlluviaTable;
use alluvia_snapshot::TableRead;
use alluvia_space::Column;
use alluvia_tree::{Segment, value_bytes};
use alluvia_values::errors::wrap;
use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::TableScan;

/// Bytes of a value in columns of a scan's table, by their places in its schema; 0 of what is not known.
pub(crate) fn lengths(context: &StatementContext, scan: &TableScan, places: &[usize]) -> Result<Vec<u64>> {
    let unknown = || vec![0; places.len()];
    let Ok(provider) = source_as_provider(&scan.source) else { return Ok(unknown()) };
    let Some(table) = provider.downcast_ref::<AlluviaTable>() else { return Ok(unknown()) };
    let def = &table.entry().def;
    let Some(read) = context.snapshot.tables.get(&def.id) else { return Ok(unknown()) };
    let is_elsewhere = read.is_elsewhere || context.temporary.contains_key(&def.id);
    if is_elsewhere || table.is_found(&scan.filters, context.sample_fraction) {
        return Ok(unknown());
    }
    let columns: Vec<&Column> = places.iter().filter_map(|&place| def.columns.get(place)).collect();
    if columns.len() < places.len() {
        return Ok(unknown());
    }
    let segments: Vec<&Segment> = read.segments.iter().map(|read| read.segment.as_ref()).collect();
    let in_segments = context.scans.lengths().longest(def.id, &segments, &columns).map_err(wrap)?;
    let in_memory = columns.iter().map(|column| in_memory(context, read, column));
    Ok(in_segments.into_iter().zip(in_memory).map(|(one, other)| one.max(other)).collect())
}

/// Bytes of a value in the tail, and in what the open transaction has written.
fn in_memory(context: &StatementContext, read: &TableRead, column: &Column) -> u64 {
    let tail = read.tail.iter().map(|run| &run.rows);
    let pending = context.pending.get(&read.entry.def.id).into_iter().flatten();
    value_bytes(tail.chain(pending).filter_map(|rows: &RecordBatch| rows.column_by_name(&column.storage_name)))
}
