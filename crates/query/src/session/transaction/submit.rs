//! Batches on their way from a session to the store.
//!
//! Invariants:
//! - Whatever a session commits, but for COPY's own batches, goes through [`submit`]: its audit line is written before
//!   the store hears of it.
//! - Nothing commits beside a transaction: COMMIT has taken it out of the session's state before it submits, and what
//!   belongs to one that has failed meanwhile is refused.
//! - Segments that were staged for a batch which is refused before that are removed: nothing names them, and nothing
//!   ever will.

use crate::audit::Audit;
use crate::execution::blocking::blocking;
use crate::session::run::Run;
use crate::session::run::auditing::{audit_changes, audit_ends};
use crate::session::state::definitions::Definer;
use crate::session::state::failed_transaction;
use crate::session::state::temporary::of_temporary;
use crate::session::state::transaction::Transaction;
use crate::session::transaction::row_locks::{heeds, lock_batch, wait_for_taken};
use alluvia_catalog::{Change, TableEntry};
use alluvia_constraints::{Doing, concerns};
use alluvia_copy::progress::Phase;
use alluvia_snapshot::{Committed, Durability, Ingest, NewBatch};
use alluvia_types::{Error, ErrorKind, Result, TableId, Version};
use alluvia_values::errors::not_supported;
use std::sync::Arc;
use tracing::{Instrument, info_span};

/// Changes definitions: in the open transaction, or as a batch of its own; those of temporary tables in the session.
pub(crate) async fn change(run: &Run, changes: Vec<Change>) -> Result<()> {
    change_unwritten(run, changes, Vec::new()).await
}

/// The same, if of none of these tables a row was written since a version.
pub(crate) async fn change_unwritten(
    run: &Run,
    changes: Vec<Change>,
    unwritten: Vec<(TableId, Version)>,
) -> Result<()> {
    let (temporary, changes): (Vec<_>, Vec<_>) = changes.into_iter().partition(of_temporary);
    if !temporary.is_empty() {
        let mut state = run.state();
        let tables = state.temporary_to_change()?;
        temporary.into_iter().try_for_each(|change| tables.define(change, run.engine().waiting_version()))?;
    }
    if changes.is_empty() {
        return Ok(());
    }
    {
        let newest = run.engine().read().catalog();
        let mut state = run.state();
        match &mut state.transaction {
            Transaction::None => {}
            Transaction::Open(open) => {
                let bytes_max = run.scope.pending_bytes_max();
                unwritten.into_iter().for_each(|(table, version)| open.rests_on(table, version));
                return open.change(&newest, run.engine().waiting_version(), changes, run.definer(), bytes_max);
            }
            Transaction::Failed(_) => return Err(failed_transaction()),
        }
    }
    submit(run, NewBatch { changes, unwritten, ..NewBatch::default() }).await.map(|_| ())
}

/// Commits one batch. Its producer is the session's, unless the batch names another.
pub(crate) async fn submit(run: &Run, batch: NewBatch) -> Result<Committed> {
    submit_of(run, batch, &[run.definer()]).await
}

/// The same, of the statements that have changed definitions by it.
pub(crate) async fn submit_of(run: &Run, mut batch: NewBatch, definers: &[Definer]) -> Result<Committed> {
    run.unpin();
    let ingest = Arc::clone(run.engine().ingest());
    let durability = durability_of(run, &batch);
    refuse_unlooked(run, &batch)?;
    let audits = match before_commit(run, &batch, definers).await {
        Ok(audits) => audits,
        Err(error) => {
            if !batch.loads.is_empty() {
                let discarded = blocking(move || {
                    ingest.discard(batch);
                    Ok(())
                });
                drop(discarded.await);
            }
            return Err(error);
        }
    };
    let own_mark = batch.producer.is_none().then(|| run.settings.producer_mark()).flatten();
    batch.producer = batch.producer.or_else(|| own_mark.clone());
    batch.heeds = heeds(&run.scope);
    let committed = hand_over_unlocked(run, ingest, batch, durability).instrument(info_span!("commit")).await;
    run.progress.set_phase(Phase::Idle);
    audit_ends(audits, &committed).await;
    let committed = committed?;
    if committed.duplicate {
        let _ = run.repeated.set(committed.version);
    }
    run.state().wrote(committed.version, durability);
    if own_mark.is_some() {
        run.state().next_producer_sequence();
    }
    Ok(committed)
}

/// Who has waited for a value that a constraint is of looks at what is visible: so what was written under its lock is, when it is given
/// back.
fn durability_of(run: &Run, batch: &NewBatch) -> Durability {
    let is_relaxed = run.settings.durability == Durability::Relaxed;
    if is_relaxed && concerned(run, batch, |_, _| true).is_none() { Durability::Relaxed } else { Durability::Sync }
}

/// A table of a batch that has constraints, or to which others refer, among those that are asked about: with the definition that its rows
/// were checked against.
fn concerned(run: &Run, batch: &NewBatch, is_asked: impl Fn(TableId, Version) -> bool) -> Option<Arc<TableEntry>> {
    let tables = batch.rows.iter().map(|rows| (rows.table, rows.checked_at));
    let mut tables = tables.chain(batch.loads.iter().map(|load| (load.table, load.checked_at)));
    let catalog = run.engine().read().catalog();
    tables.find_map(|(table, checked_at)| {
        let entry = catalog.by_id(table).filter(|_| is_asked(table, checked_at))?;
        concerns(&catalog, &entry.def, Doing::Any).then(|| Arc::clone(entry))
    })
}

/// Refuses rows that nobody has looked at for constraints: those of a definition for which it was not decided whether they concern them.
fn refuse_unlooked(run: &Run, batch: &NewBatch) -> Result<()> {
    let decided = run.decided.lock();
    let unknown = concerned(run, batch, |table, checked_at| !decided.knows(table, checked_at));
    let Some(entry) = unknown else { return Ok(()) };
    let name = &entry.def.name;
    match decided.names(entry.def.id) {
        true => Err(Error::new(ErrorKind::Conflict, format!("table {name} was changed by another session"))
            .with_hint("run the statement again")),
        false => {
            Err(not_supported(format!("this way into table {name}, which has unique constraints or foreign keys"))
                .with_hint("use INSERT, UPDATE, DELETE or COPY"))
        }
    }
}

/// Uses up the number of the session's producer, if it has one, by a batch of no rows: the next batch follows it.
pub(crate) async fn submit_empty(run: &Run) -> Result<Option<Committed>> {
    if run.settings.producer_mark().is_none() {
        return Ok(None);
    }
    submit(run, NewBatch::default()).await.map(Some)
}

/// What may still refuse a batch of which nothing was told to the store.
async fn before_commit(run: &Run, batch: &NewBatch, definers: &[Definer]) -> Result<Vec<Audit>> {
    check_alone(run)?;
    lock_batch(run, &batch.rows, &run.engine().read().catalog()).await?;
    run.token.check()?;
    run.progress.set_phase(Phase::Committing);
    audit_changes(&run.scope, definers, batch).await
}

/// Refuses what would commit by itself while there is a transaction, open or failed.
fn check_alone(run: &Run) -> Result<()> {
    match run.state().transaction {
        Transaction::None => Ok(()),
        Transaction::Open(_) | Transaction::Failed(_) => Err(failed_transaction()),
    }
}

/// Hands a batch to the store, again where others have locked rows of it meanwhile, as soon as they have not.
async fn hand_over_unlocked(
    run: &Run,
    ingest: Arc<dyn Ingest>,
    mut batch: NewBatch,
    durability: Durability,
) -> Result<Committed> {
    // What is staged is removed with a batch that is refused.
    while batch.loads.is_empty() && !batch.rows.is_empty() {
        let NewBatch { changes, rows, producer, key, unwritten, heeds, loads: _ } = &batch;
        let (changes, rows, unwritten) = (changes.clone(), rows.clone(), unwritten.clone());
        let (producer, key, heeds) = (producer.clone(), *key, heeds.clone());
        let again = NewBatch { changes, rows, producer, key, unwritten, heeds, ..NewBatch::default() };
        match hand_over(Arc::clone(&ingest), batch, durability).await {
            Err(error) if error.kind() == ErrorKind::LockNotAvailable => {}
            done => return done,
        }
        // Who waits can be stopped.
        run.progress.set_phase(Phase::Running);
        wait_for_taken(run, &again.rows, &run.engine().read().catalog()).await?;
        run.token.check()?;
        run.progress.set_phase(Phase::Committing);
        batch = again;
    }
    hand_over(ingest, batch, durability).await
}

/// Hands a batch to the store, if it may be without holding a thread.
async fn hand_over(ingest: Arc<dyn Ingest>, batch: NewBatch, durability: Durability) -> Result<Committed> {
    if durability == Durability::Relaxed {
        return blocking(move || ingest.submit(batch, durability)).await;
    }
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // A receiver that is gone was dropped with its session; the batch is committed or refused all the same.
    let done = Box::new(move |result| drop(sender.send(result)));
    match ingest.submit_then(batch, done) {
        Some((batch, _)) => blocking(move || ingest.submit(batch, durability)).await,
        None => match receiver.await {
            Ok(result) => result,
            Err(_) => Err(Error::internal("a batch was dropped on its way into the log")),
        },
    }
}
