//! Rows that a client sends as a body: one format, one table, one batch.
//!
//! Invariants:
//! - A body is one atomic batch, as a COPY without `BATCH_ROWS` is, and goes the same way.
//! - Of two batches with one key for one table the second is acknowledged as the first was, and not applied, for seven days.

use crate::rights::INSERT;
use crate::session::core::{Run, Session};
use crate::session::outcome::Outcome;
use alluvia_copy::{BodyOptions, Hints, copy_from};
use alluvia_snapshot::BatchKey;
use alluvia_syntax::copy::options::{CopyOptions, Direction};
use alluvia_syntax::copy::statement::Source;
use alluvia_syntax::copy::streams::Streams;
use alluvia_types::{Error, ErrorKind, Result, Version};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::io::Read;
use std::sync::Arc;

/// What a body is, and where its rows go.
#[derive(Clone, Debug)]
pub struct Ingest {
    /// The table, by its exact name.
    pub table: String,
    /// The columns that the fields go to; none: as in COPY.
    pub columns: Vec<String>,
    /// Format and dialect.
    pub options: CopyOptions,
    /// JSON comes as one array of objects rather than an object a line.
    pub is_array: bool,
    /// The client's key.
    pub key: Option<String>,
    /// What messages call the body.
    pub name: String,
    /// The most that it may unpack to.
    pub bytes_max: u64,
    /// What hints say.
    pub hints: Hints,
}

/// What became of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ingested {
    /// Rows of the batch.
    pub rows: u64,
    /// Its version; `None` for a body without rows.
    pub version: Option<Version>,
    /// Whether a batch with this key, or this number, was there before.
    pub duplicate: bool,
}

impl Ingest {
    fn key(&self, session: &Session) -> Result<Option<BatchKey>> {
        let entry = session.table_for(INSERT, &self.table)?;
        Ok(self.key.as_ref().map(|key| BatchKey::new(entry.def.id, key)))
    }
}

impl Session {
    /// The batch that had this key before; its body need not be looked at. Refuses what can be refused without the body.
    pub fn ingested_before(&self, ingest: &Ingest) -> Result<Option<Ingested>> {
        ingest.options.check(Direction::From, None)?;
        self.check_writable("INSERT")?;
        let Some(key) = ingest.key(self)? else { return Ok(None) };
        if self.state.lock().settings.producer_mark().is_some() {
            return Err(Error::new(
                ErrorKind::InvalidSetting,
                "a batch has a key or a producer's number, and not both",
            ));
        }
        let known = self.engine.ingest().keyed(key);
        Ok(known.map(|known| Ingested { rows: known.rows, version: Some(known.version), duplicate: true }))
    }

    /// Takes a body's rows as one batch. Dropping the future stops it, and nothing is applied.
    pub fn ingest(&self, ingest: Ingest, body: Box<dyn Read + Send>) -> BoxFuture<'_, Result<Ingested>> {
        Box::pin(async move {
            let text = format!("INGEST INTO {}", ingest.table);
            let done = Mutex::new(None);
            let place = &done;
            self.run(&text, |run| async move {
                *place.lock() = Some(self.ingest_here(&run, ingest, body).await?);
                Ok(Outcome::done("INGEST"))
            })
            .await?;
            done.into_inner().ok_or_else(|| Error::internal("a body was taken without an answer"))
        })
    }

    async fn ingest_here(&self, run: &Arc<Run>, ingest: Ingest, body: Box<dyn Read + Send>) -> Result<Ingested> {
        self.check_outside("a body of rows")?;
        self.check_writable("INSERT")?;
        let key = ingest.key(self)?;
        let entry = self.table_for(INSERT, &ingest.table)?;
        let streams = Mutex::new(Streams { stdin: Some(body), stdout: None });
        let mut context = self.copy_context(run, &streams);
        let (name, is_array, hints) = (ingest.name, ingest.is_array, ingest.hints);
        context.body = BodyOptions { name, bytes_max: Some(ingest.bytes_max), is_kept: true, is_array, hints };
        let destination = Box::new(self.store_of(run, &entry, key));
        let report = copy_from(context, entry, ingest.columns, Source::Stdin, ingest.options, destination).await?;
        let committed = match report.committed {
            Some(committed) => Some(committed),
            None => self.submit_empty(run).await?,
        };
        let (rows, version) = (report.rows, committed.map(|committed| committed.version));
        match committed {
            Some(committed) if committed.duplicate => {
                let known = key.and_then(|key| self.engine.ingest().keyed(key));
                let rows = known.map_or(report.rows_repeated, |known| known.rows);
                Ok(Ingested { rows, version, duplicate: true })
            }
            _ => Ok(Ingested { rows, version, duplicate: false }),
        }
    }
}
