//! Data in and out: COPY, load, result formats.
//!
//! Invariants:
//! - A COPY without `BATCH_ROWS` is one atomic batch, or joins that of the open transaction: refused, cancelled or failed, it applies
//!   nothing.
//! - Every row of the input is loaded or accounted for: by an error that names file, line, column and value, or by the rejects
//!   file, or, of standard input without one, by their number and the first of them. Nothing is skipped, wrapped, truncated or turned into
//!   NULL unasked.
//! - Memory is bounded whatever the files' size: readers, parsers and the store are joined by short channels.
//! - A file or a URL is named by a statement only where its session's [`CopyPlaces`] let it: `roots` and [`Fetch`] are the only ways out.
//! - What Parquet and Arrow decode is checked first (`arrow_message`, `parquet_check`); a panic of their readers is an error of the input.
//!
//! Text takes this way in: `files` opens and unpacks, `records` cuts into blocks of whole records, `csv_in` and `json_in` parse
//! blocks on several threads (`parallel`), `alluvia_values::{builders, parse}` turn text into values. Parquet and Arrow come through `columnar`,
//! `assign` and `alluvia_values::convert`. All arrive as `rows::Part`s, which `load` makes into batches and gives to their `destination`: a store, an open
//! transaction, or, for whoever has the files and not the table (`remote_table`), a server.

pub mod progress;
pub mod temporary;

mod arrow_frames;
mod arrow_message;
mod assign;
mod bind;
mod body;
mod caught;
mod columnar;
mod csv_in;
mod csv_out;
pub mod destination;
mod duplicates;
mod files;
mod held;
mod infer;
mod json_array;
mod json_in;
mod json_out;
mod lacking;
mod load;
mod operations;
mod output;
mod output_file;
mod parallel;
mod parquet_check;
mod peeked;
mod places;
mod records;
mod rejects;
mod remote_table;
mod roots;
mod rows;
mod sink;
mod spool;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod text_in;
mod thrift;

pub use arrow_message::MessageChecks;
pub use assign::{Assigner, BadRow, assign};
pub use bind::Wanted;
pub use body::{BodyOptions, Hints};
pub use caught::caught;

pub use destination::{CommitMixed, Destination, IntoStore, IntoTransaction, Mixed, numbered_by};
pub use held::Held;
pub use lacking::{Lacking, RowRules};

pub use infer::{Inferred, InferredColumn, infer, infer_schema};
pub use operations::{Incoming, Operations, by_name};
pub use remote_table::table_elsewhere;

pub use output::ResultWriter;
pub use peeked::{infer_stream, pipe_of};

pub use places::{CopyPlaces, Fetch, ServedPlaces};
pub use sink::{INLINE_BYTES_MAX, Sink};
pub use spool::Spool;

use crate::destination::repeated;
use crate::progress::{CancelToken, Phase, Progress};
use alluvia_catalog::TableEntry;
use alluvia_snapshot::Committed;
use alluvia_syntax::copy::options::{CopyOptions, Direction};
use alluvia_syntax::copy::statement::{Source, Target};
use alluvia_syntax::copy::streams::Streams;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use output_file::OutputFile;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// Told of a batch once it is committed.
pub type OnCommit = Arc<dyn Fn(Committed) + Send + Sync>;

/// What a COPY needs of whoever runs it.
pub struct CopyContext {
    /// Where it says how far it is.
    pub progress: Arc<Progress>,
    /// Stops it.
    pub cancel: CancelToken,
    /// Standard input and output.
    pub streams: Streams,
    /// The files and URLs that it may name.
    pub places: CopyPlaces,
    /// What is known of standard input.
    pub body: BodyOptions,
    /// What the table's definition does with rows; `None` where it says nothing of them.
    pub rules: Option<Arc<dyn RowRules>>,
}

/// What a COPY FROM did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CopyReport {
    /// Rows loaded.
    pub rows: u64,
    /// Bad rows, which are in the rejects file, if there is one.
    pub skipped: u64,
    /// Where and what the first of them is, where no file has them.
    pub first_skipped: Option<String>,
    /// Places of bad rows that took in several lines, with what is to be known of them; the first of many.
    pub swallowed: Vec<String>,
    /// Batches committed.
    pub batches: u64,
    /// Batches that an earlier run of the same `BATCH_ROWS` load had committed.
    pub batches_repeated: u64,
    /// Rows of those.
    pub rows_repeated: u64,
    /// Where the rejected rows are, if there are any.
    pub rejects_file: Option<PathBuf>,
    /// The last batch; `None` when there was nothing to commit.
    pub committed: Option<Committed>,
}

impl CopyReport {
    /// As PostgreSQL's command tag.
    pub fn tag(&self) -> String {
        format!("COPY {}", self.rows)
    }

    /// Things to know of it. `numbered`: the session's producer numbered its batch.
    pub fn notices(&self, numbered: bool) -> Vec<String> {
        let mut notices = Vec::new();
        if self.skipped > 0 {
            let (rows, they) = match self.skipped {
                1 => ("1 bad row was".to_owned(), "it is"),
                many => (format!("{many} bad rows were"), "they are"),
            };
            let place = match (&self.rejects_file, &self.first_skipped) {
                (Some(file), _) => format!("; {they} in {}", file.display()),
                (None, Some(one)) if self.skipped == 1 => format!("; {one}"),
                (None, Some(first)) => format!("; the first: {first}"),
                (None, None) => String::new(),
            };
            notices.push(format!("{rows} skipped{place}"));
            notices.extend_from_slice(&self.swallowed);
        }
        match self.committed {
            Some(Committed { version, duplicate: true, .. }) if numbered => notices.push(repeated(version)),
            _ if self.batches_repeated == 1 => {
                notices.push("1 batch had been loaded before, and was left out".to_owned());
            }
            _ if self.batches_repeated > 0 => {
                notices.push(format!("{} batches had been loaded before, and were left out", self.batches_repeated));
            }
            _ => {}
        }
        notices
    }
}

/// Loads files into a table, by way of `destination`. `columns` are those that the statement lists, in its order: fields of CSV files go to them by
/// position, of other formats by name. With none, all columns are meant: by position in CSV without a header, else by name.
///
/// Dropping the future stops the load, and nothing of the batch under way is applied.
pub fn copy_from(
    context: CopyContext,
    table: Arc<TableEntry>,
    columns: Vec<String>,
    source: Source,
    options: CopyOptions,
    destination: Box<dyn Destination>,
) -> BoxFuture<'static, Result<CopyReport>> {
    Box::pin(async move {
        let mut stop = StopWhenDropped(Some(context.cancel.clone()));
        let progress = context.progress.clone();
        let job = load::LoadJob {
            progress: context.progress,
            cancel: context.cancel,
            stdin: context.streams.stdin,
            body: context.body,
            places: context.places,
            rules: context.rules,
            entry: table,
            columns,
            source,
            options,
            read_as: None,
        };
        let span = tracing::Span::current();
        let done = tokio::task::spawn_blocking(move || span.in_scope(|| job.run(destination))).await;
        stop.0 = None;
        // Not by the job: a cancel between its commit and this would pass for one that came before the commit.
        progress.set_phase(Phase::Idle);
        done.map_err(defect)?
    })
}

/// Writes rows to a file or to standard output; gives their number. A file appears when it is complete; dropping the future
/// leaves none.
pub fn copy_to(
    context: CopyContext,
    schema: SchemaRef,
    mut rows: BoxStream<'_, Result<RecordBatch>>,
    target: Target,
    options: CopyOptions,
) -> BoxFuture<'_, Result<u64>> {
    Box::pin(async move {
        let CopyContext { progress, cancel, places, streams, .. } = context;
        progress.set_phase(Phase::Running);
        let (send, receive) = tokio::sync::mpsc::channel::<Message>(2);
        let writing = Writing { receive, progress: progress.clone(), cancel };
        let writer = tokio::task::spawn_blocking(move || match target {
            Target::File(path) => {
                let name = path.display().to_string();
                options.check(Direction::To, Some(&name))?;
                let (format, file) = (options.format_of(Some(&name))?, OutputFile::create(&path, &places.roots)?);
                let (rows, file) = writing.run(ResultWriter::for_file(format, schema, &options, &name, file)?)?;
                file.finish()?;
                Ok(rows)
            }
            Target::Stdout => {
                options.check(Direction::To, None)?;
                let out = streams.stdout.ok_or_else(|| {
                    Error::new(ErrorKind::NotSupported, "there is no standard output here to copy to").with_hint(
                        "COPY ... TO STDOUT works in alluvia sql; in a program name a file, or hand in Streams",
                    )
                })?;
                let format = options.format_of(None)?;
                Ok(writing.run(ResultWriter::new(format, schema, &options, out)?)?.0)
            }
        });
        let failed = pump(&mut rows, &send).await;
        drop(send);
        let written = writer.await.map_err(defect)?;
        progress.set_phase(Phase::Idle);
        failed.and(written)
    })
}

/// Sends all rows, then the end. A closed channel means that the writer has failed; its own error says why.
async fn pump(rows: &mut BoxStream<'_, Result<RecordBatch>>, send: &tokio::sync::mpsc::Sender<Message>) -> Result<()> {
    while let Some(batch) = rows.next().await {
        if send.send(Message::Rows(batch?)).await.is_err() {
            return Ok(());
        }
    }
    let _ = send.send(Message::End).await;
    Ok(())
}

/// What the rows' side tells the writer's; without `End` the result is not complete.
enum Message {
    Rows(RecordBatch),
    End,
}

/// The blocking half of [`copy_to`].
struct Writing {
    receive: tokio::sync::mpsc::Receiver<Message>,
    progress: Arc<Progress>,
    cancel: CancelToken,
}

impl Writing {
    fn run<W: Write + Send>(mut self, mut writer: ResultWriter<W>) -> Result<(u64, W)> {
        loop {
            let message = self.receive.blocking_recv();
            self.cancel.check()?;
            match message {
                Some(Message::Rows(batch)) => {
                    writer.write(&batch)?;
                    self.progress.add_rows(batch.num_rows() as u64);
                }
                Some(Message::End) => return writer.finish(),
                None => return Err(Error::new(ErrorKind::Cancelled, "the rows to write ended early")),
            }
        }
    }
}

/// Stops a load's threads when its future is dropped before it is done.
struct StopWhenDropped(Option<CancelToken>);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        if let Some(cancel) = &self.0 {
            cancel.cancel();
        }
    }
}

fn defect(error: tokio::task::JoinError) -> Error {
    Error::internal(format!("a COPY thread stopped: {error}"))
}
