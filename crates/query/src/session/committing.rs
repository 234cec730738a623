//! Batches on their way from a session to the store, and the wait for what it wrote.
//!
//! Invariants:
//! - Whatever a session commits, but for COPY's own batches, goes through [`Session::submit`]: its audit line is written before the store
//!   hears of it.
//! - Nothing commits beside a transaction: COMMIT has taken it out of the session's state before it submits, and what belongs to one that
//!   has failed meanwhile is refused.
//! - Segments that were staged for a batch which is refused before that are removed: nothing names them, and nothing ever will.

use crate::audit::Audit;
use crate::execution::blocking::blocking;
use crate::session::auditing::{Definer, audit_ends};
use crate::session::core::{Run, Session, failed_transaction};
use crate::session::transaction::Transaction;
use alluvia_copy::progress::Phase;
use alluvia_snapshot::{Committed, Durability, Ingest, NewBatch};
use alluvia_types::{Error, Result, Version};
use std::sync::Arc;
use tracing::{Instrument, info_span};

impl Session {
    /// Commits one batch. Its producer is the session's, unless the batch names another.
    pub(crate) async fn submit(&self, run: &Run, batch: NewBatch) -> Result<Committed> {
        self.submit_of(run, batch, &[Definer::of(run)]).await
    }

    /// The same, of the statements that have changed definitions by it.
    pub(crate) async fn submit_of(&self, run: &Run, mut batch: NewBatch, definers: &[Definer]) -> Result<Committed> {
        let ingest = Arc::clone(self.engine.ingest());
        let audits = match self.before_commit(run, &batch, definers).await {
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
        let durability = run.settings.durability;
        let committed = submit(ingest, batch, durability).instrument(info_span!("commit")).await;
        run.progress.set_phase(Phase::Idle);
        audit_ends(audits, &committed).await;
        let committed = committed?;
        if committed.duplicate {
            let _ = run.repeated.set(committed.version);
        }
        self.wrote(committed.version, durability);
        if own_mark.is_some() {
            let mut state = self.state.lock();
            state.settings.producer_sequence = state.settings.producer_sequence.saturating_add(1);
        }
        Ok(committed)
    }

    /// Uses up the number of the session's producer, if it has one, by a batch of no rows: the next batch follows it.
    pub(crate) async fn submit_empty(&self, run: &Run) -> Result<Option<Committed>> {
        if run.settings.producer_mark().is_none() {
            return Ok(None);
        }
        self.submit(run, NewBatch::default()).await.map(Some)
    }

    /// What may still refuse a batch of which nothing was told to the store.
    async fn before_commit(&self, run: &Run, batch: &NewBatch, definers: &[Definer]) -> Result<Vec<Audit>> {
        self.check_alone()?;
        run.token.check()?;
        run.progress.set_phase(Phase::Committing);
        self.audit_changes(definers, batch).await
    }

    /// Refuses what would commit by itself while there is a transaction, open or failed.
    fn check_alone(&self) -> Result<()> {
        match self.state.lock().transaction {
            Transaction::None => Ok(()),
            Transaction::Open(_) | Transaction::Failed(_) => Err(failed_transaction()),
        }
    }

    /// Remembers that this session wrote `version`.
    pub(crate) fn wrote(&self, version: Version, durability: Durability) {
        let mut state = self.state.lock();
        state.seen = state.seen.max(version);
        if durability == Durability::Relaxed {
            state.unseen = state.unseen.max(Some(version));
        }
    }

    /// Waits until what this session wrote with relaxed durability is visible.
    pub(crate) async fn await_own_writes(&self) -> Result<()> {
        let Some(version) = self.state.lock().unseen else { return Ok(()) };
        let store = Arc::clone(self.engine.read());
        blocking(move || store.wait_visible(version)).await?;
        let mut state = self.state.lock();
        if state.unseen == Some(version) {
            state.unseen = None;
        }
        Ok(())
    }
}

/// Commits a batch, if it may be without holding a thread.
async fn submit(ingest: Arc<dyn Ingest>, batch: NewBatch, durability: Durability) -> Result<Committed> {
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
