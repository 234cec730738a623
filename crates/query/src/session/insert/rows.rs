//! Rows on their way into the open transaction, or into a batch of their own.
//!
//! A batch is small (its rows travel in the log) or large (its rows are staged as segments that the log names); which,
//! is known only when the rows have come. [`Sink`] decides; it blocks while segments are written, so it is moved to a
//! blocking thread and back.
//!
//! Invariants:
//! - Rows of a statement go into the transaction that was open when the statement began; one that has failed since
//!   takes nothing.
//! - What a transaction holds in memory is bounded, and checked while rows come.

use crate::errors::from_datafusion;
use crate::execution::blocking::blocking;
use crate::session::rules::{Rules, completed, completed_now};
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::planning::Planned;
use crate::session::state::failed_transaction;
use crate::session::state::temporary::is_temporary;
use crate::session::transaction::own_changes::add;
use crate::session::transaction::submit::submit;
use alluvia_catalog::TableEntry;
use alluvia_copy::progress::{CancelToken, Phase};
use alluvia_copy::{Assigner, Sink};
use alluvia_snapshot::{NewBatch, NewRows, RowChange};
use alluvia_space::TableDef;
use alluvia_types::{Error, Result, Version};
use alluvia_values::builders::TextAs;
use alluvia_values::compact::tight_batch;
use arrow::array::RecordBatch;
use futures::StreamExt;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Rows that travel in the log; more are staged as segments.
const INLINE_BYTES_MAX: u64 = 32 << 20;

/// Rows of one table, which come as `change` says, into the open transaction, or as a batch of their own.
pub(crate) async fn write(
    run: &Arc<Run>,
    entry: &Arc<TableEntry>,
    change: RowChange,
    batches: Vec<RecordBatch>,
) -> Result<Outcome> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    run.progress.add_rows(rows as u64);
    let batches: Vec<RecordBatch> = batches.into_iter().filter(|batch| batch.num_rows() > 0).collect();
    if batches.is_empty() {
        return Ok(inserted(0));
    }
    let new_rows = NewRows { change, ..NewRows::insert(entry.def.id, entry.changed_at, batches) };
    if run.state().is_held(entry.def.id)? {
        let passed_over = add(run, entry, vec![new_rows]).await?;
        return Ok(inserted((rows as u64).saturating_sub(passed_over)));
    }
    let committed = submit(run, NewBatch { rows: vec![new_rows], ..NewBatch::default() }).await?;
    Ok(inserted((rows as u64).saturating_sub(committed.passed_over)))
}

/// The same for rows that may be too many for the log, and come as their table says.
pub(crate) async fn write_rows(run: &Arc<Run>, entry: &Arc<TableEntry>, rows: RecordBatch) -> Result<Outcome> {
    if run.state().is_held(entry.def.id)? {
        return write(run, entry, RowChange::of_table(&entry.def), vec![rows]).await;
    }
    let count = rows.num_rows() as u64;
    run.progress.add_rows(count);
    let mut sink = sink(run, &entry.def, entry.changed_at);
    let mut batch = NewBatch::default();
    let finished = blocking(move || {
        sink.append(rows)?;
        sink.finish()
    });
    finished.await?.add_to(&mut batch);
    let committed = submit(run, batch).await?;
    Ok(inserted(count.saturating_sub(committed.passed_over)))
}

/// What takes rows for a batch of their own.
pub(crate) fn sink(run: &Run, def: &Arc<TableDef>, checked_at: Version) -> Sink {
    let inline_bytes_max = INLINE_BYTES_MAX.min(run.engine().admin().info().tail_bytes_max / 8);
    let ingest = Arc::clone(run.engine().ingest());
    Sink::new(ingest, Arc::clone(def), checked_at, inline_bytes_max as usize)
}

/// Rows of one table, which come as `change` says, into the transaction that was open when their statement began. Gives how
/// many were passed over.
pub(crate) async fn hold(
    run: &Run,
    entry: &Arc<TableEntry>,
    change: RowChange,
    batches: Vec<RecordBatch>,
) -> Result<u64> {
    if !run.state().is_held(entry.def.id)? {
        return Err(failed_transaction());
    }
    let batches: Vec<RecordBatch> = batches.into_iter().filter(|batch| batch.num_rows() > 0).collect();
    if batches.is_empty() {
        return Ok(0);
    }
    let rows = NewRows { change, ..NewRows::insert(entry.def.id, entry.changed_at, batches) };
    add(run, entry, vec![rows]).await
}

/// A query's rows, cast to a table's columns, as what a batch takes. Gives the number of rows.
pub(crate) async fn stream_into(
    run: &Arc<Run>,
    planned: &Planned,
    (def, checked_at): (&Arc<TableDef>, Version),
    mapping: &[Option<usize>],
    rules: &Option<Arc<Rules>>,
    batch: &mut NewBatch,
) -> Result<u64> {
    let mut sink = Apart { sink: Some(sink(run, def, checked_at)), token: run.token.clone() };
    let assigner = Assigner::new(&planned.schema(), def, mapping, TextAs::Plain)?;
    let assigner = assigner.of_query().in_zone(&run.settings.time_zone);
    let mut stream = planned.execute()?;
    let mut rows = 0;
    run.progress.set_phase(Phase::Running);
    while let Some(next) = stream.next().await {
        run.token.check()?;
        let next = tight_batch(assigner.assign(&next.map_err(from_datafusion)?)?);
        rows += next.num_rows() as u64;
        run.progress.add_rows(next.num_rows() as u64);
        let (rules, lacking) = (rules.clone(), assigner.lacking().clone());
        sink = blocking(move || match completed_now(&rules, next, &lacking).and_then(|next| sink.append(next)) {
            Ok(()) => Ok(sink),
            Err(error) => {
                // Here what it staged may be waited for.
                drop(sink.take());
                Err(error)
            }
        })
        .await?;
    }
    run.progress.set_phase(Phase::Finishing);
    blocking(move || sink.take()?.finish()).await?.add_to(batch);
    Ok(rows)
}

/// A query's rows, cast to a table's columns, in memory: for an open transaction, whose bound is checked on the way.
pub(crate) async fn read_all(
    run: &Run,
    planned: &Planned,
    def: &TableDef,
    mapping: &[Option<usize>],
    rules: &Option<Arc<Rules>>,
) -> Result<Vec<RecordBatch>> {
    let assigner = Assigner::new(&planned.schema(), def, mapping, TextAs::Plain)?;
    let assigner = assigner.of_query().in_zone(&run.settings.time_zone);
    let mut stream = planned.execute()?;
    let mut held = run.scope.held();
    while let Some(next) = stream.next().await {
        run.token.check()?;
        let next = tight_batch(assigner.assign(&next.map_err(from_datafusion)?)?);
        held.push(completed(rules, next, assigner.lacking().clone()).await?)?;
    }
    Ok(held.batches)
}

/// A query's rows into the open transaction, or into a temporary table, which takes them as they come. Gives how many there
/// were, and how many of them were passed over.
pub(crate) async fn hold_query(
    run: &Arc<Run>,
    planned: &Planned,
    entry: &Arc<TableEntry>,
    change: RowChange,
    mapping: &[Option<usize>],
    rules: &Option<Arc<Rules>>,
) -> Result<(u64, u64)> {
    if !is_temporary(entry.def.id) {
        let batches = read_all(run, planned, &entry.def, mapping, rules).await?;
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        run.progress.add_rows(rows);
        return Ok((rows, hold(run, entry, change, batches).await?));
    }
    let assigner = Assigner::new(&planned.schema(), &entry.def, mapping, TextAs::Plain)?.of_query();
    let mut stream = planned.execute()?;
    let (mut rows, mut passed_over) = (0, 0);
    run.progress.set_phase(Phase::Running);
    while let Some(next) = stream.next().await {
        run.token.check()?;
        let next = tight_batch(assigner.assign(&next.map_err(from_datafusion)?)?);
        let next = completed(rules, next, assigner.lacking().clone()).await?;
        rows += next.num_rows() as u64;
        run.progress.add_rows(next.num_rows() as u64);
        passed_over += hold(run, entry, change, vec![next]).await?;
    }
    Ok((rows, passed_over))
}

/// What takes a query's rows. Dropped, a sink waits for what it stages, and removes it: if that is because the
/// statement was stopped, on a thread that may wait, since whoever stopped it is told at once.
struct Apart {
    /// `None` at its end.
    sink: Option<Sink>,
    token: CancelToken,
}

impl Apart {
    fn append(&mut self, rows: RecordBatch) -> Result<()> {
        self.token.check()?;
        self.sink.as_mut().ok_or_else(ended)?.append(rows)
    }

    fn take(&mut self) -> Result<Sink> {
        self.sink.take().ok_or_else(ended)
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        let Some(sink) = self.sink.take() else { return };
        if let (true, Ok(runtime)) = (self.token.is_cancelled(), Handle::try_current()) {
            drop(runtime.spawn_blocking(move || drop(sink)));
        }
    }
}

fn ended() -> Error {
    Error::internal("a sink is used after its end")
}

/// The answer of an INSERT.
pub(crate) fn inserted(rows: u64) -> Outcome {
    Outcome::done(format!("INSERT 0 {rows}"))
}

/// For each column of the table the index of its source.
pub(crate) fn mapping(def: &TableDef, targets: &[usize]) -> Vec<Option<usize>> {
    (0..def.columns.len()).map(|column| targets.iter().position(|target| *target == column)).collect()
}
