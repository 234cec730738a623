//! SELECT ... FOR UPDATE and FOR SHARE.
//!
//! Invariants:
//! - What is answered was read after its rows were locked, or was not written between the two.
//! - Rows are locked that the answer is made of, and those that an earlier try of the statement has found.
//! - Rows that are passed over (SKIP LOCKED) count for no LIMIT.

use crate::errors::{error_of, from_datafusion};
use crate::namespace::GivenTables;
use crate::session::change::reading::misfit;
use crate::session::change::{TRIES_LOCKED_MAX, refuse_inexact};
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::pin::pin_newest;
use crate::session::select::planning::{Planned, plan_given};
use crate::session::select::shown_names::{either, instead};
use crate::session::state::temporary::is_temporary;
use crate::session::state::transaction::Transaction;
use crate::session::transaction::row_locks::{KeyedRows, Patience, ROWS_MAX, lock_rows, was_written, written_since};
use alluvia_catalog::TableEntry;
use alluvia_catalog::authoriser::Need;
use alluvia_catalog::rights::Privilege;
use alluvia_change::{LockingQuery, locking_query};
use alluvia_copy::progress::Phase;
use alluvia_locks::Mode;
use alluvia_snapshot::Snapshot;
use alluvia_space::TableDef;
use alluvia_space::key_code::KeyCoder;
use alluvia_syntax::Hints;
use alluvia_syntax::statements::locking::{LockWait, Locking, RowLock};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::compact::tight_batch;
use alluvia_values::errors::not_supported;
use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast::{self, Query};
use futures::StreamExt;
use std::sync::Arc;

/// A table whose rows are locked.
struct Locked<'a> {
    lock: &'a RowLock,
    entry: Arc<TableEntry>,
    coder: KeyCoder,
}

impl Locked<'_> {
    fn mode(&self) -> Mode {
        if self.lock.is_shared { Mode::Shared } else { Mode::Exclusive }
    }

    /// Temporary tables are their session's own.
    fn is_everybodys(&self) -> bool {
        !is_temporary(self.entry.def.id)
    }
}

/// Answers a query, of whose rows are locked what it says.
pub(crate) async fn locking(run: &Arc<Run>, statement: Locking, hints: &Hints) -> Result<Outcome> {
    refuse_inexact(run, hints)?;
    if run.engine().read().is_remote() {
        return Err(not_supported(format!("{} on a database of several machines", statement.name())).with_hint(
            "its transactions read one version: change the rows, and run the transaction again where COMMIT refuses it",
        ));
    }
    let tables = tables_of(run, &statement)?;
    let defs: Vec<&TableDef> = tables.iter().map(|(_, entry)| entry.def.as_ref()).collect();
    let asked = locking_query(&statement, &defs)?;
    let tables = tables.into_iter().map(|(lock, entry)| {
        let coder = KeyCoder::new(&entry.def);
        let coder = coder.ok_or_else(|| Error::internal("rows of a table without a key are locked"))?;
        Ok(Locked { lock, entry, coder })
    });
    let tables = tables.collect::<Result<Vec<_>>>()?;
    let tree = Tree::Statement(Box::new(ast::Statement::Query(asked.query.clone())));
    let (references, _) = resolve_table_references(&tree, true).map_err(|error| error_of(&error))?;
    // Outside of a transaction the locks are over with the statement, and it sees what is newest.
    let sees_commits = match &run.state().transaction {
        Transaction::Open(open) => open.sees_commits(),
        _ => true,
    };
    for _ in 0..TRIES_LOCKED_MAX {
        run.scope.await_own_writes().await?;
        let snapshot = pin_newest(run, &references).await?;
        check_same(&tables, &snapshot)?;
        let planned = planned(run, &asked.query, &snapshot).await?;
        let rows = read_locked(run, &asked, &tables, &planned).await?;
        match written_of(run, &tables, &rows, &snapshot).await? {
            None => return Ok(rows.outcome(&planned)),
            Some(name) if !sees_commits => return Err(written_since(name)),
            Some(_) => run.unpin(),
        }
        run.token.check()?;
    }
    let message = format!("others have changed rows each of {TRIES_LOCKED_MAX} times that they were locked");
    Err(Error::new(ErrorKind::Conflict, message).with_hint("run it again when fewer others change these rows"))
}

/// The tables whose rows are locked, which the session must be allowed to change.
fn tables_of<'a>(run: &Run, statement: &'a Locking) -> Result<Vec<(&'a RowLock, Arc<TableEntry>)>> {
    let of_lock = |lock: &'a RowLock| {
        let catalog = run.scope.authoriser();
        if catalog.catalog().view(&lock.table, catalog.path()).is_some() {
            return Err(not_supported(format!("{} of view {}", statement.name(), lock.table))
                .with_hint("lock the rows of the tables that it reads"));
        }
        Ok((lock, run.scope.table_for(Need::Privilege(Privilege::Update), &lock.table)?))
    };
    statement.locks.iter().map(of_lock).collect()
}

async fn planned(run: &Run, query: &Query, snapshot: &Arc<Snapshot>) -> Result<Planned> {
    match plan_given(run, Box::new(query.clone()), snapshot, GivenTables::default()).await {
        Ok(planned) => Ok(planned),
        Err(error) => {
            let (distinct, error) = instead(run, query, error)?;
            let again = plan_given(run, Box::new(distinct), snapshot, GivenTables::default()).await;
            again.map_err(|again| either(error, again))
        }
    }
}

/// Refuses what was resolved by other definitions than those that are read by.
fn check_same(tables: &[Locked<'_>], snapshot: &Snapshot) -> Result<()> {
    let is_other = |locked: &&Locked<'_>| {
        let read = snapshot.catalog.by_id(locked.entry.def.id);
        read.is_none_or(|read| read.changed_at != locked.entry.changed_at)
    };
    match tables.iter().find(is_other) {
        None => Ok(()),
        Some(locked) => {
            let message = format!("table {} was changed by another session", locked.entry.def.name);
            Err(Error::new(ErrorKind::Conflict, message).with_hint("run the statement again"))
        }
    }
}

/// The table of which a row was written after the snapshot was pinned, if any was.
async fn written_of<'a>(
    run: &Run,
    tables: &'a [Locked<'_>],
    rows: &LockedRows,
    snapshot: &Snapshot,
) -> Result<Option<&'a str>> {
    let mut found = None;
    for (locked, keys) in tables.iter().zip(&rows.keys).filter(|(locked, _)| locked.is_everybodys()) {
        let codes = keys.iter().map(|keys| locked.coder.codes(keys)).collect::<Result<Vec<_>>>()?.concat();
        if was_written(run, locked.entry.def.id, codes, snapshot.version).await? {
            found = Some(locked.entry.def.name.as_str());
        }
    }
    Ok(found)
}

/// Rows whose own rows in tables are locked.
struct LockedRows {
    /// With the columns that were asked for.
    rows: Vec<RecordBatch>,
    /// The keys in each of the tables.
    keys: Vec<Vec<RecordBatch>>,
    /// How many columns were asked for.
    width: usize,
}

impl LockedRows {
    fn outcome(self, planned: &Planned) -> Outcome {
        let fields: Vec<_> = planned.schema().fields().iter().take(self.width).cloned().collect();
        let rows = futures::stream::iter(self.rows.into_iter().map(Ok));
        let rows = RecordBatchStreamAdapter::new(Arc::new(Schema::new(fields)), rows);
        Outcome::rows("SELECT", Box::pin(rows)).with_used(planned.used())
    }
}

/// Runs a planned query, and locks what its rows are made of.
async fn read_locked(run: &Run, asked: &LockingQuery, tables: &[Locked<'_>], planned: &Planned) -> Result<LockedRows> {
    let width = planned.schema().fields().len().checked_sub(asked.hidden);
    let width = width.ok_or_else(|| Error::internal("a query does not give the keys of its rows"))?;
    let skips = tables.iter().any(|locked| locked.lock.wait == LockWait::Skip);
    let window = asked.window.clone().unwrap_or(0..usize::MAX);
    let mut stream = planned.execute()?;
    let mut held = run.scope.held();
    let mut passed = 0;
    run.progress.set_phase(Phase::Running);
    while passed < window.end
        && let Some(next) = stream.next().await
    {
        run.token.check()?;
        let mut batch = tight_batch(next.map_err(from_datafusion)?);
        if skips {
            batch = free_of(run, tables, &batch, width, window.end - passed)?;
        }
        let first = window.start.saturating_sub(passed).min(batch.num_rows());
        passed += batch.num_rows();
        held.push(batch.slice(first, batch.num_rows() - first))?;
    }
    drop(stream);
    let mut all = LockedRows { rows: Vec::new(), keys: vec![Vec::new(); tables.len()], width };
    for batch in held.batches.into_iter().filter(|batch| batch.num_rows() > 0) {
        for (known, keys) in all.keys.iter_mut().zip(keys_of(tables, &batch, width)?) {
            known.push(keys);
        }
        all.rows.push(batch.project(&(0..width).collect::<Vec<_>>()).map_err(misfit)?);
    }
    for (locked, keys) in tables.iter().zip(&all.keys).filter(|(locked, _)| locked.is_everybodys()) {
        let keyed = KeyedRows::new(&locked.entry, &locked.coder, keys.iter().collect())?;
        let count: usize = keyed.codes.iter().map(Vec::len).sum();
        if count > ROWS_MAX {
            let message =
                format!("{count} rows of table {} were to be locked, and {ROWS_MAX} are the most", keyed.name);
            return Err(Error::new(ErrorKind::OutOfMemory, message)
                .with_hint("lock fewer rows in one statement: LIMIT, or a condition"));
        }
        let patience = if locked.lock.wait == LockWait::Refuse { Patience::None } else { Patience::Waits };
        lock_rows(run, &keyed, locked.mode(), patience).await?;
    }
    Ok(all)
}

/// The keys of rows in each of the tables.
fn keys_of(tables: &[Locked<'_>], batch: &RecordBatch, width: usize) -> Result<Vec<RecordBatch>> {
    let mut first = width;
    let of_table = |locked: &Locked<'_>| {
        let places = locked.entry.def.key_columns().unwrap_or_default();
        let schema = locked.entry.storage_schema().project(&places).map_err(misfit)?;
        let columns = batch.columns()[first..first + places.len()].to_vec();
        first += places.len();
        RecordBatch::try_new(Arc::new(schema), columns).map_err(misfit)
    };
    tables.iter().map(of_table).collect()
}

/// The first so many rows that nobody else has locked, of tables of which such rows are passed over; they are locked.
fn free_of(run: &Run, tables: &[Locked<'_>], batch: &RecordBatch, width: usize, most: usize) -> Result<RecordBatch> {
    let locks = run.engine().sessions().locks();
    let keys = keys_of(tables, batch, width)?;
    let codes = tables.iter().zip(&keys).map(|(locked, keys)| locked.coder.codes(keys));
    let codes = codes.collect::<Result<Vec<_>>>()?;
    let (mut free, mut count) = (Vec::with_capacity(batch.num_rows()), 0);
    for row in 0..batch.num_rows() {
        let mut is_free = count < most;
        let held = locks.in_transaction(run.scope.id);
        for (locked, codes) in tables.iter().zip(&codes) {
            if is_free && locked.lock.wait == LockWait::Skip && locked.is_everybodys() {
                is_free = locks.try_rows(run.scope.id, locked.entry.def.id, &[codes[row]], locked.mode())? == 1;
            }
        }
        if !is_free {
            locks.release_after(run.scope.id, held);
        }
        count += usize::from(is_free);
        free.push(is_free);
    }
    arrow::compute::filter_record_batch(batch, &free.into()).map_err(misfit)
}
