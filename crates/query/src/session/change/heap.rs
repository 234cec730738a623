//! Rows of compiled statements, found in the heaps of their tables.
//!
//! Invariants:
//! - A statement reads all its heaps at one version, which it has pinned: that of its transaction, or the newest.
//! - A table that has no heap gets one, on another thread; until it is there `None` is answered, and the statement goes another way.

use crate::session::run::Run;
use crate::session::state::transaction::Transaction;
use alluvia_catalog::TableEntry;
use alluvia_heap::HeapView;
use alluvia_points::{FoundRows, OwnRows, PointStatement};
use alluvia_rows::Killed;
use alluvia_snapshot::HeapSnapshot;
use alluvia_space::key_code::KeyCode;
use alluvia_types::{Result, TableId, Version};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use std::collections::HashSet;
use std::sync::Arc;

/// Rows that a transaction has written, and keys that it has changed, that one statement looks through at most.
const OWN_ROWS_MAX: usize = 1 << 12;

/// The heaps of a statement's tables, at the version that it reads.
pub(crate) fn heaps_of(run: &Run, point: &PointStatement) -> Result<Option<HeapSnapshot>> {
    let tables: Vec<TableId> = point.tables().iter().map(|(_, entry)| entry.def.id).collect();
    let (exactly, at_least) = {
        let state = run.state();
        match &state.transaction {
            Transaction::Open(open) => (open.version(), state.must_see().max(open.least())),
            _ => (None, state.must_see()),
        }
    };
    let store = run.engine().read();
    let Some(found) = store.rows_in_memory(&tables, exactly) else {
        tables.into_iter().for_each(|table| begin(run, table));
        return Ok(None);
    };
    let is_known = |(heap, (_, entry)): (&Arc<alluvia_heap::Heap>, (_, &Arc<TableEntry>))| {
        heap.entry().changed_at == entry.changed_at && heap.entry().def.id == entry.def.id
    };
    // A transaction may read an older version than the heap begins with.
    if found.rows().is_none() {
        return Ok(None);
    }
    let is_newer = exactly.is_some() || found.snapshot.version >= at_least;
    if !is_newer || !found.heaps().iter().zip(point.tables()).all(is_known) {
        return Ok(None);
    }
    let mut state = run.state();
    let version = found.snapshot.version;
    state.has_read(version);
    if let Transaction::Open(open) = &mut state.transaction {
        open.has_read(&tables, version);
        for &table in &tables {
            // Refuses where another session has changed the definition of what waits.
            open.has_changes(&found.snapshot.catalog, table)?;
        }
    }
    drop(state);
    run.may_name(&tables);
    Ok(Some(found))
}

/// Begins a table's heap, if it may have one.
fn begin(run: &Run, table: TableId) {
    if let Some(load) = run.engine().read().begin_heap(table) {
        drop(tokio::task::spawn_blocking(move || {
            if let Err(error) = load.run() {
                tracing::warn!(%error, %table, "rows of a table cannot be kept in memory");
            }
        }));
    }
}

/// What the open transaction has changed of each table of a statement; `None` of more than is looked through.
fn own_rows(run: &Run, point: &PointStatement, heaps: &HeapSnapshot) -> Result<Option<Vec<OwnRows>>> {
    let state = run.state();
    let Transaction::Open(open) = &state.transaction else {
        return Ok(Some(point.tables().iter().map(|_| OwnRows::default()).collect()));
    };
    let mut all = Vec::with_capacity(heaps.heaps().len());
    for heap in heaps.heaps() {
        let table = heap.entry().def.id;
        let pending = match open.has_changes(&heaps.snapshot.catalog, table)? {
            true => open.kept().find(|(of, _)| **of == table),
            false => None,
        };
        let Some((_, pending)) = pending else {
            all.push(OwnRows::default());
            continue;
        };
        if pending.touched() > OWN_ROWS_MAX {
            return Ok(None);
        }
        let changed = match pending.killed()? {
            None => HashSet::new(),
            Some(Killed::Keys(keys)) => keys.into_iter().collect(),
            Some(Killed::Rows(_)) => return Ok(None),
        };
        all.push(OwnRows::new(heap.layout(), heap.coder(), changed, &pending.readable()?)?);
    }
    Ok(Some(all))
}

/// What a statement's query finds, with these columns of its first table; `None` where it must be planned.
pub(crate) fn find_by_query(
    run: &Run,
    point: &PointStatement,
    heaps: &HeapSnapshot,
    values: &[ScalarValue],
    schema: Option<&SchemaRef>,
    columns: &[usize],
) -> Result<Option<FoundRows>> {
    let Some(query) = point.query() else { return Ok(None) };
    let Some(own) = own_rows(run, point, heaps)? else { return Ok(None) };
    let Some(views) = heaps.rows() else { return Ok(None) };
    Ok(query.run((&views, &own), heaps.snapshot.version, values, schema, columns))
}

/// The rows of keys of a statement's only table, with some columns, and which of the keys have one; `None` where the heap is gone.
pub(crate) fn find_by_keys(
    heaps: &HeapSnapshot,
    codes: &[KeyCode],
    columns: &[usize],
) -> Result<Option<(RecordBatch, Vec<bool>)>> {
    let version: Version = heaps.snapshot.version;
    let Some(views) = heaps.rows() else { return Ok(None) };
    let Some(view): Option<&HeapView<'_>> = views.first() else { return Ok(None) };
    let rows: Vec<_> = codes.iter().map(|&code| view.by_code(code, version)).collect();
    let are_there = rows.iter().map(Option::is_some).collect();
    let rows: Vec<_> = rows.into_iter().flatten().collect();
    Ok(Some((view.heap().layout().decoded(&rows, columns)?, are_there)))
}
