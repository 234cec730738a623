//! Where the rows of a COPY FROM go: to the store of this process, into an open transaction of its session, or to whatever whoever reads
//! the files has for a table, such as one at a server.
//!
//! Invariants:
//! - Rows that were appended since [`Destination::begin`] are applied together by [`Destination::commit`], or not at all. A destination
//!   that is dropped before leaves nothing of them.
//! - A stopped load commits nothing more: the token is looked at after [`Phase::Committing`] is set, see `session::progress`.

use crate::OnCommit;
use crate::held::Held;
use crate::progress::{CancelToken, Phase, Progress};
use crate::sink::Sink;
use alluvia_catalog::TableEntry;
use alluvia_snapshot::{BatchKey, Committed, Durability, Heeds, Ingest, NewBatch, RowChange};
use alluvia_types::{Error, ErrorKind, ProducerMark, Result, Version};
use alluvia_values::compact::compact;
use arrow::array::RecordBatch;
use parking_lot::Mutex;
use std::sync::Arc;
use tracing::info_span;

/// Takes the rows of one COPY FROM, on the one thread that runs it: every call may block.
pub trait Destination: Send {
    /// The number of the last batch of this producer that is committed; 0 if none is. Refused where batches cannot have numbers of
    /// their own.
    fn resume(&mut self, producer: &str) -> Result<u64>;

    /// Begins a batch, which has this number.
    fn begin(&mut self, number: Option<ProducerMark>) -> Result<()>;

    /// Adds rows to it, in the table's storage schema, text as plain or dictionary. Rows that say what they do have more
    /// columns behind ([`Operations`](crate::Operations)).
    fn append(&mut self, rows: RecordBatch) -> Result<()>;

    /// Commits it; `None` if it waits for the COMMIT of a transaction.
    fn commit(&mut self) -> Result<Option<Committed>>;

    /// All rows have come, and all batches that were begun are committed: fails only if none was.
    fn end(&mut self) -> Result<()>;
}

/// The error for batches with numbers of their own where this producer numbers those of the session.
pub fn numbered_by(producer: &str) -> Error {
    let message =
        format!("COPY option BATCH_ROWS is not supported while producer '{producer}' numbers the session's batches");
    Error::new(ErrorKind::NotSupported, message)
        .with_hint("BATCH_ROWS numbers its own batches: RESET producer first, or leave the option out")
}

/// The table is of this process.
pub struct IntoStore {
    /// Where batches are committed.
    pub ingest: Arc<dyn Ingest>,
    /// The catalog entry of the table that takes the rows.
    pub entry: Arc<TableEntry>,
    /// When batches are acknowledged.
    pub durability: Durability,
    /// Counts and phase of the COPY, which others watch.
    pub progress: Arc<Progress>,
    /// Stops the COPY: a batch that is not yet submitted is discarded.
    pub cancel: CancelToken,
    /// Called for each batch, also where the load fails later or its future is dropped.
    pub on_commit: OnCommit,
    /// The number of the session's producer, for a load that is one batch.
    pub mark: Option<ProducerMark>,
    /// The client's key of it.
    pub key: Option<BatchKey>,
    /// Whose locks of rows refuse it.
    pub heeds: Option<Heeds>,
    /// Rows beyond this are staged.
    pub inline_bytes_max: usize,
    /// What rows do to those that are there, of rows that merely come.
    pub change: RowChange,
    /// What takes rows that do various things; none where they are refused.
    pub mixed: Option<Mixed>,
    /// The batch under way, and its number.
    pub batch: Option<(Sink, Option<ProducerMark>)>,
}

/// Commits rows that say what they do.
pub trait CommitMixed: Send + Sync {
    /// Commits these rows in their order, as one batch that is numbered as `batch` is, and has nothing else. Blocks.
    fn commit(&self, rows: &[RecordBatch], batch: NewBatch) -> Result<Committed>;
}

/// Rows that say what they do, in memory until their batch is complete.
pub struct Mixed {
    /// The rows of the batch under way; none before the first such row.
    pub held: Option<Held>,
    /// What they may come to.
    pub bytes_max: u64,
    /// Who commits them.
    pub commit: Arc<dyn CommitMixed>,
}

impl IntoStore {
    fn none_begun() -> Error {
        Error::internal("rows came to a batch that was not begun")
    }
}

impl Destination for IntoStore {
    fn resume(&mut self, producer: &str) -> Result<u64> {
        match &self.mark {
            Some(mark) => Err(numbered_by(&mark.name)),
            None => Ok(self.ingest.producer(producer).map_or(0, |(mark, _)| mark.sequence)),
        }
    }

    fn begin(&mut self, number: Option<ProducerMark>) -> Result<()> {
        let (ingest, entry) = (Arc::clone(&self.ingest), &self.entry);
        let sink = Sink::new(ingest, Arc::clone(&entry.def), entry.changed_at, self.inline_bytes_max);
        let sink = sink.changing(self.change);
        self.batch = Some((sink, number.or_else(|| self.mark.clone())));
        Ok(())
    }

    fn append(&mut self, rows: RecordBatch) -> Result<()> {
        let sink = &mut self.batch.as_mut().ok_or_else(IntoStore::none_begun)?.0;
        let says = rows.num_columns() > self.entry.def.columns.len();
        let is_mixed = says || self.mixed.as_ref().is_some_and(|mixed| mixed.held.is_some());
        if !is_mixed {
            return sink.append(rows);
        }
        let Some(mixed) = &mut self.mixed else {
            return Err(Error::internal("rows say what they do, and nobody takes such"));
        };
        if mixed.held.is_none() {
            let mut held = Held::new(mixed.bytes_max);
            sink.take_held()?.into_iter().try_for_each(|rows| hold(&mut held, &rows))?;
            mixed.held = Some(held);
        }
        mixed.held.as_mut().map_or(Ok(()), |held| hold(held, &rows))
    }

    fn commit(&mut self) -> Result<Option<Committed>> {
        let (sink, producer) = self.batch.take().ok_or_else(IntoStore::none_begun)?;
        self.progress.set_phase(Phase::Finishing);
        if let Some(mixed) = &mut self.mixed
            && let Some(held) = mixed.held.take()
        {
            self.progress.set_phase(Phase::Committing);
            self.cancel.check()?;
            let batch = NewBatch { producer, key: self.key, ..NewBatch::default() };
            let committed = info_span!("commit").in_scope(|| mixed.commit.commit(&held.batches, batch))?;
            (self.on_commit)(committed);
            return Ok(Some(committed));
        }
        let done = sink.finish()?;
        let mut batch = NewBatch { producer, key: self.key, heeds: self.heeds.clone(), ..NewBatch::default() };
        done.add_to(&mut batch);
        // In this order: whoever stops the statement finds it committing and waits, or the token is found set here.
        self.progress.set_phase(Phase::Committing);
        if let Err(error) = self.cancel.check() {
            self.ingest.discard(batch);
            return Err(error);
        }
        let committed = info_span!("commit").in_scope(|| self.ingest.submit(batch, self.durability))?;
        (self.on_commit)(committed);
        Ok(Some(committed))
    }

    fn end(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The table is of this process, and a transaction of the session is open: nothing is committed here.
pub struct IntoTransaction(pub Arc<Mutex<Held>>);

impl Destination for IntoTransaction {
    fn resume(&mut self, _producer: &str) -> Result<u64> {
        Err(Error::internal("BATCH_ROWS came into a transaction"))
    }

    fn begin(&mut self, _number: Option<ProducerMark>) -> Result<()> {
        Ok(())
    }

    fn append(&mut self, rows: RecordBatch) -> Result<()> {
        // Copied, as what is committed at once is before it goes into the log.
        self.0.lock().push(compact(&rows)?)
    }

    fn commit(&mut self) -> Result<Option<Committed>> {
        Ok(None)
    }

    fn end(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Rows that say what they do are no more than their own, as those of a transaction.
fn hold(held: &mut Held, rows: &RecordBatch) -> Result<()> {
    held.push(compact(rows)?).map_err(|error| {
        error.with_hint(
            "rows that say what they do are held in memory until all have come: send fewer in a batch (COPY has BATCH_ROWS)",
        )
    })
}

/// What is told of a batch that was not applied again.
pub fn repeated(version: Version) -> String {
    format!("the producer had sent this batch before: it is version {version}, and was not applied again")
}
