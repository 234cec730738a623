//! COPY at a server, of files and standard streams that are here.
//!
//! Files are read here, by the readers of every COPY, into the columns of the server's table, and their rows are sent by bulk ingest over
//! Flight SQL. A server that was sent the bytes instead would have to be told their dialect, to give bad rows back in the midst of them,
//! and to say where a load in batches goes on of files that it does not see. So all that is of files stays here, in the same words as in
//! a directory; over the network go rows of known types, which servers take already, and the work of reading is not theirs.
//!
//! Invariants:
//! - A batch is one ingest: what is broken off, refused or stopped applies nothing, and is told to the server before the next statement.
//! - Batches of BATCH_ROWS have numbers, so one whose answer was lost is not applied again by the next run.
//! - What is written to files is exact, as in a directory, whatever the session's `max_error` is.
//! - Whatever ends a COPY with an error fails the session's transaction, as in a directory: also what the server would not have heard of.

use super::connection::GOODBYE;
use super::statement::Answer;
use crate::quoting::{exactly, literal};
use alluvia_client::{IngestOptions, Ingested, Number, Session};
use alluvia_copy::progress::{CancelToken, Phase, Progress};
use alluvia_copy::{
    BodyOptions, CopyContext, CopyPlaces, Destination, by_name, copy_from, copy_to, numbered_by, table_elsewhere,
};
use alluvia_snapshot::Committed;
use alluvia_syntax::copy::here::CopyHere;
use alluvia_syntax::copy::options::CopyOptions;
use alluvia_syntax::copy::statement::Source;
use alluvia_syntax::copy::streams::Streams;
use alluvia_syntax::names::RelationName;
use alluvia_types::{Error, ErrorKind, ProducerMark, Result, TableId, Version};
use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use futures::{Stream, TryStreamExt, future, stream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;

/// Pieces of rows that wait to be sent.
const PIECES_AHEAD: usize = 4;

/// How a COPY is watched and stopped.
#[derive(Clone, Default)]
pub struct Watched {
    pub progress: Arc<Progress>,
    pub cancel: CancelToken,
}

/// Runs one.
pub async fn run(session: &Arc<Session>, watched: Watched, copy: CopyHere, streams: Streams) -> Result<Answer> {
    let Watched { progress, cancel } = watched;
    let places = CopyPlaces::files_of_process()?;
    let context = CopyContext { progress, cancel, streams, places, body: BodyOptions::default(), rules: None };
    match copy {
        CopyHere::From { table, columns, source, options } => {
            let has_begun = Arc::new(AtomicBool::new(false));
            let into = IntoServer::new(session, &table, &options, &context, &has_begun);
            let copied = copy_in(session, context, into, columns, source, options).await;
            if let Err(error) = &copied
                && !has_begun.load(Ordering::SeqCst)
            {
                // Nothing is applied by it, and an open transaction is failed by it.
                let broken = stream::once(future::ready(Err(error.clone())));
                let said = IngestOptions { schema: table.schema.clone(), ..IngestOptions::default() };
                drop(timeout(GOODBYE, session.ingest_with(&table.name, None, &said, broken)).await);
            }
            copied
        }
        CopyHere::To { query, target, options } => {
            let answer = session.execute_exactly(&query).await?;
            let (told, schema) = (answer.told(), Arc::clone(answer.schema()));
            let rows = copy_to(context, schema, answer.into_rows(), target, options).await?;
            let notices = told.lock().notices.clone();
            Ok(Answer::done(format!("COPY {rows}"), notices))
        }
    }
}

async fn copy_in(
    session: &Session,
    context: CopyContext,
    mut into: IntoServer,
    columns: Vec<String>,
    source: Source,
    options: CopyOptions,
) -> Result<Answer> {
    let unknown = || Error::new(ErrorKind::Protocol, "the server does not say what its table is");
    let created = first_row(session, &format!("SHOW CREATE TABLE {}", exactly(&into.table))).await?;
    let created = created.get(1).ok_or_else(unknown)?;
    let is_in_batches = options.batch_rows.is_some();
    let schema = table_elsewhere(created, TableId(0), Version(0))?.def.schema.clone();
    let (id, changed_at) = match is_in_batches {
        false => (TableId(0), Version(0)),
        true => {
            let identity = format!(
                "SELECT /*+ freshness('0s') */ table_id, changed_at FROM alluvia.tables \
                 WHERE table_schema = {} AND table_name = {}",
                literal(&schema),
                literal(&into.table.name)
            );
            let identity = first_row(session, &identity).await?;
            let [Ok(id), Ok(changed_at)] = [0, 1].map(|at| identity.get(at).map_or("", String::as_str).parse::<u64>())
            else {
                return Err(unknown());
            };
            (TableId(u32::try_from(id).map_err(|_| unknown())?), Version(changed_at))
        }
    };
    let table = table_elsewhere(created, id, changed_at)?;
    into.columns = table.def.columns.len();
    let report = copy_from(context, table, columns, source, options, Box::new(into)).await?;
    Ok(Answer::done(report.tag(), report.notices(!is_in_batches)))
}

/// The values of a query's first row, as texts; none if it has no row.
async fn first_row(session: &Session, sql: &str) -> Result<Vec<String>> {
    let batches: Vec<RecordBatch> = session.execute_plainly(sql).await?.into_rows().try_collect().await?;
    let Some(batch) = batches.iter().find(|batch| batch.num_rows() > 0) else { return Ok(Vec::new()) };
    let text = |column: &ArrayRef| {
        let texts = cast(column, &DataType::Utf8)
            .map_err(|error| Error::new(ErrorKind::Protocol, format!("the server was not understood: {error}")))?;
        Ok(texts.as_string::<i32>().value(0).to_owned())
    };
    batch.columns().iter().map(text).collect()
}

/// Sends rows to a table of the server's.
struct IntoServer {
    session: Arc<Session>,
    table: RelationName,
    /// How many columns the table has.
    columns: usize,
    /// What is said of all rows.
    said: IngestOptions,
    runtime: Handle,
    progress: Arc<Progress>,
    cancel: CancelToken,
    /// Whether the server has heard of rows.
    has_begun: Arc<AtomicBool>,
    batch: Option<Sending>,
}

/// A batch on its way.
struct Sending {
    pieces: mpsc::Sender<Piece>,
    done: JoinHandle<Result<Ingested>>,
    /// Rows that were sent.
    rows: u64,
}

/// What follows in a batch. Without an end it is not complete.
enum Piece {
    Rows(RecordBatch),
    End,
}

impl IntoServer {
    /// To be used on a thread that may block.
    fn new(
        session: &Arc<Session>,
        table: &RelationName,
        options: &CopyOptions,
        context: &CopyContext,
        has_begun: &Arc<AtomicBool>,
    ) -> IntoServer {
        let policy = options.policy;
        let said = IngestOptions {
            schema: table.schema.clone(),
            number: None,
            on_conflict: policy.on_conflict.map(|on_conflict| on_conflict.name().to_owned()),
            op: policy.op.map(|op| op.name().to_owned()),
        };
        IntoServer {
            session: Arc::clone(session),
            table: table.clone(),
            columns: usize::MAX,
            said,
            runtime: Handle::current(),
            progress: Arc::clone(&context.progress),
            cancel: context.cancel.clone(),
            has_begun: Arc::clone(has_begun),
            batch: None,
        }
    }

    fn send(&mut self, rows: &RecordBatch) -> Result<()> {
        let rows = plain(rows)?;
        let Sending { pieces, done, .. } = self.batch.as_mut().ok_or_else(none_begun)?;
        let cancel = &self.cancel;
        let ended = self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err(cancel.error()),
                // The server has refused them: who sends the rest may wait for ever.
                ended = &mut *done => Ok(Some(ended)),
                sent = pieces.send(Piece::Rows(rows)) => match sent {
                    Ok(()) => Ok(None),
                    Err(_) => Ok(Some((&mut *done).await)),
                },
            }
        })?;
        let Some(ended) = ended else { return Ok(()) };
        self.batch = None;
        outcome(ended)?;
        Err(Error::new(ErrorKind::Protocol, "the server was not understood: it has taken a batch that is not complete"))
    }
}

impl Destination for IntoServer {
    fn resume(&mut self, producer: &str) -> Result<u64> {
        self.runtime.block_on(async {
            let own = first_row(&self.session, "SHOW producer").await?;
            if let Some(own) = own.first().filter(|own| !own.is_empty()) {
                return Err(numbered_by(own));
            }
            Ok(self.session.last_of(producer).await?.map_or(0, |last| last.sequence))
        })
    }

    fn begin(&mut self, number: Option<ProducerMark>) -> Result<()> {
        self.has_begun.store(true, Ordering::SeqCst);
        let (pieces, receive) = mpsc::channel(PIECES_AHEAD);
        let (session, table) = (Arc::clone(&self.session), self.table.clone());
        let number = number.map(|ProducerMark { name, epoch, sequence }| Number { producer: name, epoch, sequence });
        let said = IngestOptions { number, ..self.said.clone() };
        let done =
            self.runtime.spawn(async move { session.ingest_with(&table.name, None, &said, rows(receive)).await });
        self.batch = Some(Sending { pieces, done, rows: 0 });
        Ok(())
    }

    fn append(&mut self, rows: RecordBatch) -> Result<()> {
        by_name(&rows, self.columns)?.iter().try_for_each(|rows| self.send(rows))?;
        if let Some(batch) = &mut self.batch {
            batch.rows += rows.num_rows() as u64;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<Option<Committed>> {
        // In this order, as of every batch: whoever stops the COPY finds it committing, or the token is found set here.
        self.progress.set_phase(Phase::Committing);
        self.cancel.check()?;
        let Sending { pieces, mut done, rows: sent } = self.batch.take().ok_or_else(none_begun)?;
        let ended = self.runtime.block_on(async move {
            tokio::select! {
                biased;
                ended = &mut done => return ended,
                // Where nobody takes it, the batch has ended, and says why.
                _ = pieces.send(Piece::End) => {}
            }
            done.await
        });
        let Ingested { rows, version, duplicate } = outcome(ended)?;
        let passed_over = sent.saturating_sub(rows);
        Ok(version.map(|version| Committed { version: Version(version), duplicate, passed_over }))
    }

    fn end(&mut self) -> Result<()> {
        if self.has_begun.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        // No rows at all: whether they might have come is the server's to say.
        let said = IngestOptions { schema: self.table.schema.clone(), ..IngestOptions::default() };
        let none = self.session.ingest_with(&self.table.name, None, &said, stream::empty());
        self.runtime.block_on(none).map(|_| ())
    }
}

impl Drop for IntoServer {
    fn drop(&mut self) {
        let Some(Sending { pieces, done, .. }) = self.batch.take() else { return };
        drop(pieces);
        // The next statement comes after the server has given these rows up.
        let given_up = async { timeout(GOODBYE, done).await };
        drop(self.runtime.block_on(given_up));
    }
}

fn none_begun() -> Error {
    Error::internal("rows came to a batch that was not begun")
}

/// What became of a batch.
fn outcome(ended: Result<Result<Ingested>, JoinError>) -> Result<Ingested> {
    ended.unwrap_or_else(|error| Err(Error::internal(format!("what sends rows has stopped: {error}"))))
}

/// The rows of a batch, which fail if they end without their end.
fn rows(receive: mpsc::Receiver<Piece>) -> impl Stream<Item = Result<RecordBatch>> + Send + 'static {
    stream::unfold(Some(receive), |receive| async move {
        let mut receive = receive?;
        match receive.recv().await {
            Some(Piece::Rows(rows)) => Some((Ok(rows), Some(receive))),
            Some(Piece::End) => None,
            None => Some((Err(Error::new(ErrorKind::Cancelled, "the rows are not complete")), None)),
        }
    })
}

/// Rows in types that are sent as what they hold: views, and slices of dictionaries, bring along all that they were cut from.
fn plain(rows: &RecordBatch) -> Result<RecordBatch> {
    let unsent = |error: ArrowError| Error::internal(format!("rows cannot be sent: {error}"));
    let (mut fields, mut columns): (Vec<Field>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
    for (field, column) in rows.schema_ref().fields().iter().zip(rows.columns()) {
        let held = match column.data_type() {
            DataType::Dictionary(_, values) => values.as_ref(),
            other => other,
        };
        let wanted = match held {
            DataType::Utf8View => DataType::Utf8,
            DataType::BinaryView => DataType::Binary,
            other => other.clone(),
        };
        columns.push(cast(column, &wanted).map_err(unsent)?);
        fields.push(Field::new(field.name(), wanted, field.is_nullable()));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).map_err(unsent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{DictionaryArray, StringViewArray};
    use arrow::datatypes::Int32Type;
    use futures::{FutureExt, StreamExt};

    fn texts(texts: &[&str]) -> RecordBatch {
        let views: ArrayRef = Arc::new(StringViewArray::from(texts.to_vec()));
        let codes: ArrayRef = Arc::new(texts.iter().copied().collect::<DictionaryArray<Int32Type>>());
        RecordBatch::try_from_iter([("a", views), ("b", codes)]).unwrap()
    }

    #[test]
    fn what_is_sent_is_no_more_than_its_rows() {
        let long = "a text that is too long to lie in a view itself";
        let sent = plain(&texts(&[long; 100]).slice(40, 2)).unwrap();
        let columns = sent.columns();
        assert!(columns.iter().all(|column| column.as_string::<i32>().iter().all(|text| text == Some(long))));
        assert!(columns.iter().all(|column| column.to_data().get_slice_memory_size().unwrap() < 3 * long.len()));
        assert_eq!(sent.num_rows(), 2);
    }

    #[test]
    fn rows_without_their_end_are_not_complete() {
        for is_complete in [true, false] {
            let (send, receive) = mpsc::channel(2);
            send.try_send(Piece::Rows(texts(&["x"]))).unwrap();
            if is_complete {
                send.try_send(Piece::End).unwrap();
            }
            drop(send);
            let all: Vec<Result<RecordBatch>> = rows(receive).collect().now_or_never().unwrap();
            assert_eq!(
                all.iter().map(Result::is_ok).collect::<Vec<_>>(),
                if is_complete { vec![true] } else { vec![true, false] }
            );
        }
    }
}
