//! Statements about few rows, which were compiled ([`alluvia_points`]): without a plan.
//!
//! Invariants:
//! - Such a statement differs from no other: rights, rules, locks and the open transaction's own rows are asked as ever, and what it reads
//!   is counted.
//! - Every doubt is the general way's: `None` has changed nothing but locks of rows that the statement names.

use crate::by_key::LookupCost;
use crate::execution::blocking::blocking;
use crate::session::change::heap::{find_by_keys, find_by_query, heaps_of};
use crate::session::constraints::set_places;
use crate::session::rules::rules_of;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::origins::origin;
use crate::session::select::pin::{pin_point, read_of};
use crate::session::state::scope::Scope;
use crate::session::state::temporary::is_temporary;
use crate::session::state::transaction::Transaction;
use crate::session::transaction::own_changes::{How, add_as};
use crate::session::transaction::pin_transaction;
use crate::session::transaction::row_locks::{KeyedRows, Patience, lock_rows, was_written, written_since};
use crate::session::transaction::submit::submit;
use crate::table::sql_schema;
use crate::used::UsedCounters;
use alluvia_catalog::authoriser::Need;
use alluvia_catalog::rights::Privilege;
use alluvia_catalog::{RelationName, TableEntry};
use alluvia_constraints::{Doing, concerns};
use alluvia_locks::Mode;
use alluvia_points::{FoundRows, PointKind, PointLock, PointStatement, point_tables};
use alluvia_snapshot::{HeapSnapshot, NewBatch, NewRows, RowChange, Snapshot, SnapshotRow};
use alluvia_space::key_code::KeyCode;
use alluvia_syntax::{Hints, Kind, Statement};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::common::ScalarValue;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use std::sync::Arc;

/// How often rows are looked for anew that others have changed, before the general way goes on.
const TRIES_MAX: u32 = 4;

/// Compiles a statement with parameters, if it is one about rows that it names.
pub(crate) fn compiled(scope: &Scope, statement: &Statement) -> Option<PointStatement> {
    if statement.hints != Hints::default() {
        return None;
    }
    let entry = |table: &RelationName| {
        let entry = scope.table_for(Need::Definition, table).ok()?;
        let is_everybodys = !is_temporary(entry.def.id) && !alluvia_rows::is_waiting(entry.changed_at);
        is_everybodys.then_some(entry)
    };
    let entries = point_tables(&statement.kind)?.iter().map(entry).collect::<Option<Vec<_>>>()?;
    if concerns_constraints(scope, statement, entries.first()?)? {
        return None;
    }
    PointStatement::recognise(&statement.kind, &entries)
}

/// Whether constraints are to look at the rows of a statement that changes some: such go the general way. A table that refers to another is
/// made without that one being told.
fn concerns_constraints(scope: &Scope, statement: &Statement, entry: &Arc<TableEntry>) -> Option<bool> {
    let set = match &statement.kind {
        Kind::Update(update) => Some(set_places(entry, update)?),
        Kind::Delete(_) => None,
        _ => return Some(false),
    };
    let doing = set.as_deref().map_or(Doing::Deletes, Doing::Sets);
    Some(concerns(scope.resolver().ok()?.catalog(), &entry.def, doing))
}

/// Runs a compiled statement, whose answer has a schema, if that is known; `None` where the general way must.
pub(crate) async fn run_point(
    run: &Arc<Run>,
    statement: &Statement,
    point: &PointStatement,
    values: &[ScalarValue],
    schema: Option<SchemaRef>,
) -> Result<Option<Outcome>> {
    let named = point.codes(values);
    let is_known = match point.query() {
        Some(query) => schema.is_some() || !query.is_computed(),
        None => named.is_some(),
    };
    if !is_known || !may_run(run, statement, point) {
        return Ok(None);
    }
    let schema = point.query().and(schema.or_else(|| shown_schema(point)));
    let asked = PointArguments { keys: named.as_ref().map(|(keys, codes)| (keys, codes.as_slice())), values, schema };
    pin_transaction(&run.scope).await?;
    run.scope.await_own_writes().await?;
    let repeats = match &mut run.state().transaction {
        Transaction::Open(open) => {
            open.has_run = true;
            open.sees_commits()
        }
        _ => true,
    };
    for _ in 0..TRIES_MAX {
        match try_once(run, point, &asked).await {
            Err(error) if error.kind() == ErrorKind::Conflict && repeats => run.unpin(),
            done => return done,
        }
        run.token.check()?;
    }
    Ok(None)
}

/// Whether the session, as it is, may run it so.
fn may_run(run: &Run, statement: &Statement, point: &PointStatement) -> bool {
    let privileges: &[Privilege] = match point.kind() {
        PointKind::Update | PointKind::Select(_, Some(_)) | PointKind::Query(Some(_)) => {
            &[Privilege::Update, Privilege::Select]
        }
        PointKind::Delete => &[Privilege::Delete, Privilege::Select],
        PointKind::Select(_, None) | PointKind::Query(None) => &[Privilege::Select],
    };
    let may = |privilege: &Privilege| means(&run.scope, point, Need::Privilege(*privilege));
    let may_write = statement.kind.writes().is_none_or(|command| run.scope.check_writable(command).is_ok());
    let state = run.state();
    let is_plain = run.settings.short_path
        && run.settings.sample_fraction >= 1.0
        && run.accuracy.is_none()
        && run.refining.get().is_none()
        && !state.has_own_definitions()
        && state.temporary.is_empty()
        && !matches!(state.transaction, Transaction::Failed(_));
    drop(state);
    let is_plain = is_plain && concerns_constraints(&run.scope, statement, point.entry()) == Some(false);
    is_plain && may_write && !run.engine().read().is_remote() && privileges.iter().all(may)
}

/// Whether the names of a statement mean the tables that it was compiled for, and the session may use them for this.
pub(crate) fn means(scope: &Scope, point: &PointStatement, need: Need) -> bool {
    let tables = point.tables();
    tables.iter().all(|(name, known)| scope.table_for(need, name).is_ok_and(|entry| is_same(&entry, known)))
}

fn is_same(entry: &TableEntry, other: &TableEntry) -> bool {
    entry.def.id == other.def.id && entry.changed_at == other.changed_at
}

/// What a statement asks for.
struct PointArguments<'a> {
    /// The keys that it names, and their codes.
    keys: Option<(&'a RecordBatch, &'a [KeyCode])>,
    values: &'a [ScalarValue],
    /// Of what a query answers.
    schema: Option<SchemaRef>,
}

/// Rows that were found.
struct Found {
    rows: RecordBatch,
    /// The keys of the rows.
    keys: RecordBatch,
    answer: Option<RecordBatch>,
    cost: LookupCost,
}

async fn try_once(run: &Arc<Run>, point: &PointStatement, asked: &PointArguments<'_>) -> Result<Option<Outcome>> {
    let values = asked.values;
    let heaps = heaps_of(run, point)?;
    let snapshot = match &heaps {
        Some(heaps) => Arc::new(heaps.snapshot.clone()),
        None if point.query().is_some() => return Ok(None),
        None => {
            let reads_alone = matches!(point.kind(), PointKind::Select(_, None));
            let snapshot = Arc::new(pin_point(run, point.table(), !reads_alone).await?);
            match read_of(&snapshot, point.table(), &run.scope.path()) {
                Some(read) if is_same(&read.entry, point.entry()) && !read.is_elsewhere => {}
                _ => return Ok(None),
            }
            snapshot
        }
    };
    let version = snapshot.version;
    let used = UsedCounters::new(&snapshot);
    run.engine().queries().reads(run.query_id, &used);
    let columns: Vec<usize> = match point.kind() {
        PointKind::Select(shown, _) => shown.iter().map(|(at, _)| *at).collect(),
        PointKind::Update => (0..point.entry().def.columns.len()).collect(),
        PointKind::Delete | PointKind::Query(_) => Vec::new(),
    };
    let found = match (asked.keys, &heaps) {
        (Some(named), _) => find(run, point, (snapshot, heaps.as_ref()), named, columns).await?,
        (None, Some(heaps)) => queried(run, point, heaps, asked, &columns)?,
        (None, None) => None,
    };
    let Some(Found { rows, keys: there, answer: answered, cost }) = found else { return Ok(None) };
    run.engine().point_plans().count();
    if heaps.is_some() {
        run.engine().point_plans().count_heap();
    }
    cost.count_planned(&used);
    cost.count_read(&used);
    let entry = point.entry();
    let (tag, changed) = match point.kind() {
        PointKind::Select(shown, lock) => {
            if let Some(lock) = lock {
                lock_found(run, point, &there, *lock, version).await?;
            }
            return Ok(Some(answer(point, shown, rows)?.with_used(used)));
        }
        PointKind::Query(lock) => {
            if let Some(lock) = lock {
                lock_found(run, point, &there, *lock, version).await?;
            }
            return Ok(answered.map(|rows| query_answer(point, rows).with_used(used)));
        }
        PointKind::Update => {
            let Some(rows) = point.updated(&rows, values) else { return Ok(None) };
            if let Some(rules) = rules_of(run, entry).await? {
                rules.check([&rows])?;
            }
            ("UPDATE", (RowChange::Upsert, rows))
        }
        PointKind::Delete => ("DELETE", (RowChange::Delete, there)),
    };
    let (change, rows) = changed;
    let count = rows.num_rows();
    if count == 0 {
        // The general way numbers the batch of a producer that changes nothing.
        return Ok(run.settings.producer_mark().is_none().then(|| Outcome::done(format!("{tag} 0")).with_used(used)));
    }
    let rows = NewRows::insert(entry.def.id, entry.changed_at, vec![rows]);
    let rows = NewRows { change, computed_at: Some(version), ..rows };
    run.decided.lock().note(entry);
    let is_open = run.state().is_open()?;
    match is_open {
        true => drop(add_as(run, entry, vec![rows], How { set: Some(Vec::new()), paired: false }).await?),
        false => drop(submit(run, NewBatch { rows: vec![rows], ..NewBatch::default() }).await?),
    }
    run.progress.add_rows(count as u64);
    Ok(Some(Outcome::done(format!("{tag} {count}")).with_used(used)))
}

/// What a query finds in heaps.
fn queried(
    run: &Run,
    point: &PointStatement,
    heaps: &HeapSnapshot,
    asked: &PointArguments<'_>,
    columns: &[usize],
) -> Result<Option<Found>> {
    let key = point.entry().def.key_columns().unwrap_or_default();
    let wanted: Vec<usize> = columns.iter().chain(&key).copied().collect();
    let found = find_by_query(run, point, heaps, asked.values, asked.schema.as_ref(), &wanted)?;
    let Some(FoundRows { answer, rows, looked_at }) = found else { return Ok(None) };
    let part = |places: std::ops::Range<usize>| rows.project(&Vec::from_iter(places)).map_err(|error| misfit(&error));
    let (keys, rows) = (part(columns.len()..wanted.len())?, part(0..columns.len())?);
    let cost = LookupCost { rows: looked_at as u64, ..LookupCost::default() };
    Ok(Some(Found { rows, keys, answer, cost }))
}

/// The rows that have the keys: the open transaction's own, and those of a snapshot whose keys it has left alone, in the heap, if there is
/// one; `None` where that has gone since.
async fn find(
    run: &Run,
    point: &PointStatement,
    (snapshot, heaps): (Arc<Snapshot>, Option<&HeapSnapshot>),
    (keys, codes): (&RecordBatch, &[KeyCode]),
    columns: Vec<usize>,
) -> Result<Option<Found>> {
    let table = point.entry().def.id;
    let mut own: Vec<Option<RecordBatch>> = vec![None; codes.len()];
    let mut untouched: Vec<usize> = Vec::with_capacity(codes.len());
    {
        let state = run.state();
        if let Transaction::Open(open) = &state.transaction {
            // Refuses where another session has changed the definition of what waits.
            open.has_changes(&snapshot.catalog, table)?;
        }
        for (at, code) in codes.iter().enumerate() {
            let changed = match &state.transaction {
                Transaction::Open(open) => open.own_row(table, *code)?,
                _ => None,
            };
            match changed {
                Some(row) => own[at] = row,
                None => untouched.push(at),
            }
        }
    }
    let mut are_there: Vec<bool> = own.iter().map(Option::is_some).collect();
    let asked: Vec<KeyCode> = untouched.iter().map(|&at| codes[at]).collect();
    let in_heap = match heaps {
        Some(heaps) => find_by_keys(heaps, &asked, &columns)?,
        None => None,
    };
    let (rows, found, cost) = match in_heap {
        Some((rows, found)) => {
            let cost = LookupCost { rows: rows.num_rows() as u64, ..LookupCost::default() };
            (rows, found, cost)
        }
        None if heaps.is_some() => return Ok(None),
        None => {
            let (store, coder) = (Arc::clone(run.engine().read()), point.coder().clone());
            let read_columns = columns.clone();
            // It may wait for files, and for writers of the table.
            let found = blocking(move || {
                let read = snapshot.tables.get(&table);
                let read = read.ok_or_else(|| Error::internal("a table has left its snapshot"))?;
                let found = store.find_keys(snapshot.version, read, &coder, &asked)?;
                let rows: Vec<SnapshotRow> = found.iter().copied().flatten().collect();
                let cost = LookupCost::of(&rows, read);
                Ok((read.rows_at(&rows, &read_columns)?, found.iter().map(Option::is_some).collect::<Vec<_>>(), cost))
            });
            found.await?
        }
    };
    for (at, found) in untouched.into_iter().zip(found) {
        are_there[at] = found;
    }
    let own: Vec<RecordBatch> = own.into_iter().flatten().collect();
    let rows = match own.is_empty() {
        true => rows,
        false => {
            let own = own.iter().map(|row| row.project(&columns));
            let own = own.collect::<Result<Vec<_>, _>>().map_err(|error| misfit(&error))?;
            let schema = own[0].schema();
            let read = RecordBatch::try_new(Arc::clone(&schema), rows.columns().to_vec());
            let read = if rows.num_columns() == 0 { Ok(rows) } else { read };
            let all: Vec<RecordBatch> = std::iter::once(read.map_err(|error| misfit(&error))?).chain(own).collect();
            concat_batches(&schema, &all).map_err(|error| misfit(&error))?
        }
    };
    let keys = filter_record_batch(keys, &BooleanArray::from(are_there)).map_err(|error| misfit(&error))?;
    Ok(Some(Found { rows, keys, answer: None, cost }))
}

/// Locks rows that were read at a version.
async fn lock_found(
    run: &Run,
    point: &PointStatement,
    there: &RecordBatch,
    lock: PointLock,
    version: alluvia_types::Version,
) -> Result<()> {
    let entry = point.entry();
    let rows = KeyedRows::new(entry, point.coder(), vec![there])?;
    let mode = if lock.is_shared { Mode::Shared } else { Mode::Exclusive };
    let patience = if lock.refuses { Patience::None } else { Patience::Waits };
    lock_rows(run, &rows, mode, patience).await?;
    match was_written(run, entry.def.id, rows.codes.concat(), version).await? {
        true => Err(written_since(&entry.def.name)),
        false => Ok(()),
    }
}

fn answer(point: &PointStatement, shown: &[(usize, String)], rows: RecordBatch) -> Result<Outcome> {
    let sql = sql_schema(&point.entry().def);
    let field = |(at, name): &(usize, String)| sql.field(*at).clone().with_name(name);
    let schema = Arc::new(Schema::new(shown.iter().map(field).collect::<Vec<Field>>()));
    let rows = RecordBatch::try_new(Arc::clone(&schema), rows.columns().to_vec()).map_err(|error| misfit(&error))?;
    let rows = futures::stream::iter((rows.num_rows() > 0).then_some(Ok(rows)));
    let origins = shown.iter().map(|(at, _)| origin(&point.entry().def, *at)).collect();
    Ok(Outcome::rows("SELECT", Box::pin(RecordBatchStreamAdapter::new(schema, rows))).with_origins(origins))
}

/// The schema of the columns that a query shows as they are; `None` of what is computed.
fn shown_schema(point: &PointStatement) -> Option<SchemaRef> {
    let query = point.query().filter(|query| !query.is_computed())?;
    let field = |(place, name): (Option<(usize, usize)>, &str)| {
        let (table, column) = place?;
        Some(sql_schema(&query.entries().get(table)?.def).field(column).clone().with_name(name))
    };
    Some(Arc::new(Schema::new(query.shown().map(field).collect::<Option<Vec<Field>>>()?)))
}

fn query_answer(point: &PointStatement, rows: RecordBatch) -> Outcome {
    let origins = point.query().map(|query| {
        let of = |(place, _): (Option<(usize, usize)>, &str)| {
            let (table, column) = place?;
            origin(&query.entries().get(table)?.def, column)
        };
        query.shown().map(of).collect()
    });
    let schema = rows.schema();
    let rows = futures::stream::iter((rows.num_rows() > 0).then_some(Ok(rows)));
    let rows = Outcome::rows("SELECT", Box::pin(RecordBatchStreamAdapter::new(schema, rows)));
    rows.with_origins(origins.unwrap_or_default())
}

fn misfit(error: &ArrowError) -> Error {
    Error::internal(format!("rows of a point statement do not fit together: {error}"))
}
