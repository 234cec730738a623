//! Rows on their way into the open transaction, or into a temporary table.
//!
//! Invariants:
//! - What a statement is told is what it sees: a key that is there, in the snapshot or among what the transaction has
//!   changed, is refused or passed over, and counted, by the statement itself, as in PostgreSQL.
//! - Whether it is so when the transaction commits, the store decides: a key that came meanwhile is 23505 at COMMIT, and
//!   40001 where what the statement did depends on that it was not there.
//! - What a key's statement has settled stays so: its row is locked first ([`super::row_locks`]).
//! - Nothing is added before all of a statement's changes are settled.

use crate::execution::blocking::blocking;
use crate::session::run::Run;
use crate::session::state::failed_transaction;
use crate::session::state::temporary::is_temporary;
use crate::session::state::transaction::Transaction;
use crate::session::transaction::own_rows::rows_of_keys;
use crate::session::transaction::row_locks::lock_changes;
use crate::session::transaction::temporary::TemporaryWriter;
use alluvia_catalog::TableEntry;
use alluvia_constraints::Event;
use alluvia_constraints::events::{of_parents, of_rows, referred};
use alluvia_constraints::settle::joined;
use alluvia_snapshot::{NewRows, RowChange, Want};
use alluvia_space::TableDef;
use alluvia_space::key_code::{KeyCode, KeyCoder};
use alluvia_types::{Error, ErrorKind, Freshness, Result, TableId, Version};
use arrow::array::{BooleanArray, RecordBatch, UInt64Array};
use arrow::compute::{filter_record_batch, take_record_batch};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// What is known of changes beside their rows, for what constraints are to look at.
#[derive(Clone, Debug, Default)]
pub(crate) struct How {
    /// The columns that change, by their places; `None` where it may be any.
    pub(crate) set: Option<Vec<usize>>,
    /// The rows of the first change go, and those of the second are what they become, row by row.
    pub(crate) paired: bool,
}

/// Adds changes of one table to the open transaction, in their order. Gives how many rows were passed over.
pub(crate) async fn add(run: &Run, entry: &Arc<TableEntry>, changes: Vec<NewRows>) -> Result<u64> {
    add_as(run, entry, changes, How::default()).await
}

/// The same, where more is known of them.
pub(crate) async fn add_as(run: &Run, entry: &Arc<TableEntry>, changes: Vec<NewRows>, how: How) -> Result<u64> {
    if is_temporary(entry.def.id) {
        let writer = TemporaryWriter::new(run, entry);
        return blocking(move || writer.add(changes)).await;
    }
    let are_locked = lock_changes(run, entry, &changes).await?;
    // Nothing that changes what is locked, or settled here, is newer.
    let newest = run.engine().read().required(Freshness::Within(Duration::ZERO), Version(0));
    let version = match &run.state().transaction {
        Transaction::Open(open) => open.version(),
        _ => return Err(failed_transaction()),
    };
    let Settled { mut changes, passed_over } = settle(run, entry, version, changes).await?;
    if are_locked && version.is_none() {
        // What they were computed from nobody changes until COMMIT, and nobody keeps the version readable.
        changes.iter_mut().for_each(|rows| rows.computed_at = None);
    }
    let bytes_max = run.scope.pending_bytes_max();
    let events = events_of(run, entry, &changes, &how).await?;
    match &mut run.state().transaction {
        Transaction::Open(open) => {
            open.push(entry, changes, bytes_max)?;
            open.note(events, bytes_max)?;
            open.reads_from(newest);
        }
        _ => return Err(failed_transaction()),
    }
    Ok(passed_over)
}

/// What constraints are to look at once these changes are made.
async fn events_of(run: &Run, entry: &Arc<TableEntry>, changes: &[NewRows], how: &How) -> Result<Vec<Event>> {
    let catalog = Arc::clone(run.scope.resolver()?.catalog());
    let come = |rows: &&NewRows| matches!(rows.change, RowChange::Insert | RowChange::InsertNew | RowChange::Upsert);
    let set = how.set.as_deref();
    let mut events = of_rows(&catalog, entry, changes.iter().filter(come).flat_map(|rows| &rows.batches), set)?;
    let referred = referred(&catalog, entry, set)?;
    let Some(coder) = KeyCoder::new(&entry.def).filter(|_| !referred.is_empty()) else { return Ok(events) };
    // What parents were, before they change.
    let is_told = |change| matches!(change, RowChange::Delete | RowChange::Upsert);
    for rows in changes.iter().filter(|rows| is_told(rows.change)) {
        let keys = joined(&rows.batches)?;
        let codes = coder.codes(&keys)?;
        let (places, old, _) = rows_of_keys(run, entry, &coder, &codes).await?;
        let new = match rows.change {
            RowChange::Upsert => Some(keys),
            _ if how.paired => Some(joined(changes.last().map_or(&[][..], |rows| &rows.batches))?),
            _ => None,
        };
        let new = new.map(|new| {
            let places: UInt64Array = places.iter().map(|place| *place as u64).collect();
            take_record_batch(&new, &places).map_err(|error| Error::internal(format!("rows of parents: {error}")))
        });
        events.extend(of_parents(entry, &referred, &old, new.transpose()?.as_ref())?);
    }
    Ok(events)
}

/// Of rows that are passed over where their keys are there, those that are not, at a version that the statement reads.
pub(crate) async fn new_ones(
    run: &Run,
    entry: &Arc<TableEntry>,
    version: Version,
    rows: Vec<RecordBatch>,
) -> Result<Vec<RecordBatch>> {
    let rows = NewRows::insert(entry.def.id, entry.changed_at, rows);
    let settled = settle(run, entry, Some(version), vec![NewRows { change: RowChange::InsertNew, ..rows }]).await?;
    Ok(settled.changes.into_iter().flat_map(|rows| rows.batches).collect())
}

/// Changes of which it is known which of their rows come.
pub(super) struct Settled {
    pub(super) changes: Vec<NewRows>,
    pub(super) passed_over: u64,
}

/// Settles which rows of a statement come, as it sees the table at a version: the newest, where none is given.
async fn settle(
    run: &Run,
    entry: &Arc<TableEntry>,
    version: Option<Version>,
    changes: Vec<NewRows>,
) -> Result<Settled> {
    let coder = KeyCoder::new(&entry.def).filter(|_| changes.iter().any(asks));
    let Some(coder) = coder else { return Ok(Settled { changes, passed_over: 0 }) };
    let codes = codes_of(&coder, &changes)?;
    let asked = changes.iter().zip(&codes).filter(|(rows, _)| asks(rows)).flat_map(|(_, codes)| codes.concat());
    let (is_there, version) = are_there(run, entry.def.id, version, &coder, asked.collect()).await?;
    settled((entry, &coder), changes, codes, is_there, version)
}

/// Whether it matters for a change which keys are there.
pub(super) fn asks(rows: &NewRows) -> bool {
    matches!(rows.change, RowChange::Insert | RowChange::InsertNew)
}

/// The codes of keys, by change and batch.
pub(super) type Codes = Vec<Vec<Vec<KeyCode>>>;

/// The codes of the keys of all changes, whose rows have them in their own columns.
pub(super) fn codes_of(coder: &KeyCoder, changes: &[NewRows]) -> Result<Codes> {
    let codes = |rows: &NewRows| rows.batches.iter().map(|batch| coder.codes(batch)).collect::<Result<Vec<_>>>();
    changes.iter().map(codes).collect()
}

/// Settles which rows come, where it is known which keys are there. Those that do not come were computed from what is there
/// at `version`.
pub(super) fn settled(
    (entry, coder): (&TableEntry, &KeyCoder),
    changes: Vec<NewRows>,
    codes: Codes,
    mut is_there: HashMap<KeyCode, bool>,
    version: Option<Version>,
) -> Result<Settled> {
    let mut passed_over = 0;
    let mut settled = Vec::with_capacity(changes.len());
    for (rows, codes) in changes.into_iter().zip(codes) {
        match rows.change {
            RowChange::Insert => {
                for (batch, codes) in rows.batches.iter().zip(&codes) {
                    for (row, &code) in codes.iter().enumerate() {
                        if is_there.insert(code, true) == Some(true) {
                            return Err(duplicate(&entry.def, &coder.show(batch, row)));
                        }
                    }
                }
                settled.push(rows);
            }
            RowChange::InsertNew => {
                let mut batches = Vec::with_capacity(rows.batches.len());
                for (batch, codes) in rows.batches.iter().zip(&codes) {
                    let is_new: Vec<bool> =
                        codes.iter().map(|&code| is_there.insert(code, true) != Some(true)).collect();
                    let new = filter_record_batch(batch, &BooleanArray::from(is_new))
                        .map_err(|error| Error::internal(format!("rows that are passed over: {error}")))?;
                    passed_over += (batch.num_rows() - new.num_rows()) as u64;
                    batches.extend((new.num_rows() > 0).then_some(new));
                }
                // That nobody has them is what was read.
                settled.push(NewRows { change: RowChange::Insert, computed_at: version, batches, ..rows });
            }
            RowChange::Upsert | RowChange::Delete => {
                let comes = rows.change == RowChange::Upsert;
                is_there.extend(codes.concat().into_iter().map(|code| (code, comes)));
                settled.push(rows);
            }
            RowChange::DeleteRows => settled.push(rows),
        }
    }
    settled.retain(|rows| !rows.batches.is_empty());
    Ok(Settled { changes: settled, passed_over })
}

/// Whether rows have these keys, at a version and by what the open transaction has changed. Also the version at which that was looked
/// up, if any was.
async fn are_there(
    run: &Run,
    table: TableId,
    version: Option<Version>,
    coder: &KeyCoder,
    codes: Vec<KeyCode>,
) -> Result<(HashMap<KeyCode, bool>, Option<Version>)> {
    let (mut is_there, mut unknown) = (HashMap::with_capacity(codes.len()), Vec::new());
    {
        let state = run.state();
        let changed = |code| match &state.transaction {
            _ if is_temporary(table) => state.temporary.has_key(table, code),
            Transaction::Open(open) => open.has_key(table, code),
            _ => None,
        };
        for code in codes {
            match changed(code) {
                Some(has_key) => {
                    is_there.insert(code, has_key);
                }
                None => unknown.push(code),
            }
        }
    }
    if unknown.is_empty() {
        return Ok((is_there, version));
    }
    if let Some((found, version)) = in_heap(run, table, version, &unknown) {
        is_there.extend(unknown.into_iter().zip(found));
        return Ok((is_there, Some(version)));
    }
    let at_least = version.unwrap_or_else(|| run.state().must_see());
    let (store, coder) = (Arc::clone(run.engine().read()), coder.clone());
    let found = blocking(move || {
        let freshness = Freshness::Within(Duration::ZERO);
        let want = Want { freshness, at_least, exactly: version, tables: vec![table] };
        let snapshot = store.snapshot(&want)?;
        // A table that only the transaction knows has no rows but the transaction's.
        let Some(read) = snapshot.tables.get(&table) else { return Ok((Vec::new(), snapshot.version)) };
        let found = store.find_keys(snapshot.version, read, &coder, &unknown)?;
        let found = unknown.into_iter().zip(found).map(|(code, row)| (code, row.is_some())).collect::<Vec<_>>();
        Ok((found, snapshot.version))
    });
    let (found, version) = found.await?;
    is_there.extend(found);
    Ok((is_there, Some(version)))
}

/// Whether keys have rows in a table's heap, if it has one, and the version at which.
fn in_heap(run: &Run, table: TableId, version: Option<Version>, codes: &[KeyCode]) -> Option<(Vec<bool>, Version)> {
    let heaps = run.engine().read().rows_in_memory(&[table], version)?;
    let version = heaps.snapshot.version;
    if version < run.state().must_see() {
        return None;
    }
    let views = heaps.rows()?;
    let view = views.first()?;
    Some((codes.iter().map(|&code| view.by_code(code, version).is_some()).collect(), version))
}

/// As the store refuses it.
fn duplicate(def: &TableDef, key: &str) -> Error {
    let name = &def.name;
    Error::new(
        ErrorKind::UniqueViolation,
        format!("duplicate key value violates unique constraint \"{name}_pkey\": key {key} already exists"),
    )
    .with_hint("ON CONFLICT DO NOTHING passes such rows over, ON CONFLICT DO UPDATE replaces the row that is there")
}
