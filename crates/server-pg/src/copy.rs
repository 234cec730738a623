//! COPY over the wire.
//!
//! Invariants:
//! - COPY FROM STDIN is one batch: a client that fails it, or goes in the middle, has loaded nothing.
//! - Memory is bounded: a client that sends faster than rows are taken, or reads slower than they come, waits.
//! - In PostgreSQL's own formats and in CSV each row goes out as a message of its own; some drivers take a message for a row.

use crate::connection::Connection;
use crate::portal::ToRun;
use crate::types::{BinaryAsText, RowForm, Rows};
use crate::wire::Message;
use alluvia_copy::ResultWriter;
use alluvia_query::from_datafusion;
use alluvia_syntax::Statement;
use alluvia_syntax::copy::options::{CopyOptions, Format, Header};
use alluvia_syntax::copy::streams::Streams;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::{Buf, Bytes};
use futures::StreamExt;
use parking_lot::Mutex;
use std::io::{self, Read, Write};
use std::sync::Arc;
use tokio::sync::mpsc::{Receiver, channel};

/// Messages from the client that wait to be taken.
const WAITING: usize = 8;
/// Rows written at a time before the buffer is looked at.
const ROWS_AT_A_TIME: usize = 64;

/// What the client's side tells the loader's; without `Done` the input is not complete.
enum Part {
    Data(Bytes),
    Done,
    Failed(String),
}

/// Standard input of a COPY: what the client sends.
struct FromClient {
    parts: Receiver<Part>,
    current: Bytes,
    done: bool,
    binary: Option<BinaryAsText>,
}

impl FromClient {
    fn take(&mut self, part: Option<Part>) -> io::Result<()> {
        match part {
            Some(Part::Data(bytes)) => {
                self.current = match &mut self.binary {
                    Some(binary) => binary.take(&bytes).map_err(io::Error::other)?,
                    None => bytes,
                }
            }
            Some(Part::Done) => {
                self.done = true;
                if let Some(binary) = &self.binary {
                    binary.finish().map_err(io::Error::other)?;
                }
            }
            Some(Part::Failed(why)) => {
                let error = Error::new(ErrorKind::Cancelled, format!("the client ended the COPY: {why}"));
                return Err(io::Error::other(error));
            }
            None => return Err(io::Error::other(crate::io::gone())),
        }
        Ok(())
    }
}

impl Read for FromClient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() && !self.done {
            let part = self.parts.blocking_recv();
            self.take(part)?;
        }
        let count = self.current.len().min(buffer.len());
        self.current.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}

/// What a writer of some format has written.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How rows become CopyData.
enum Writer {
    Rows(RowForm),
    Bytes(Box<ResultWriter<Written>>, Written),
}

impl Writer {
    fn new(options: &CopyOptions, schema: &SchemaRef) -> Result<Writer> {
        let (delimiter, null) = (options.delimiter, options.null.clone());
        let quote = options.quote.unwrap_or(b'"');
        Ok(match options.format {
            None | Some(Format::Text) => Writer::Rows(RowForm::Text {
                delimiter: delimiter.unwrap_or(b'\t'),
                null: null.unwrap_or_else(|| "\\N".to_owned()).into_bytes(),
            }),
            Some(Format::Csv) => Writer::Rows(RowForm::Csv {
                delimiter: delimiter.unwrap_or(b','),
                quote,
                escape: options.escape.unwrap_or(quote),
                null: null.unwrap_or_default().into_bytes(),
            }),
            Some(Format::Binary) => Writer::Rows(RowForm::Binary { begun: false }),
            Some(format) => {
                let written = Written::default();
                let writer = ResultWriter::new(format, Arc::clone(schema), options, written.clone())?;
                Writer::Bytes(Box::new(writer), written)
            }
        })
    }
}

impl Connection {
    /// COPY FROM STDIN; gives its tag.
    pub(crate) async fn copy_in(&mut self, statement: Statement) -> Result<String> {
        let (statement, options) = statement.client_copy()?;
        // What can be refused is refused before the client sends anything.
        let columns = self.session.copied_columns(&statement)?;
        let binary = (options.format == Some(Format::Binary)).then(|| BinaryAsText::new(&columns));
        self.io.out.copy_begins(b'G', binary.is_some(), columns.len());
        self.io.flush().await?;
        let (send, parts) = channel(WAITING);
        let stdin = FromClient { parts, current: Bytes::new(), done: false, binary };
        let streams = Streams { stdin: Some(Box::new(stdin)), stdout: None };
        let session = Arc::clone(&self.session);
        let work = async move { session.execute_with(statement, streams).await };
        tokio::pin!(work);
        let mut sender = Some(send);
        let mut lost = None;
        self.reporter.begin_progress(&self.session, self.shared.now());
        let outcome = loop {
            let due = self.reporter.progress_due(self.shared.now());
            let message = tokio::select! {
                biased;
                result = &mut work => break result,
                message = self.io.receive(), if sender.is_some() => message,
                () = due => {
                    self.reporter.progress(&self.session, self.shared.now(), &mut self.io.out);
                    self.io.send_some().await;
                    continue;
                }
            };
            let part = match message {
                Ok(Message::CopyData(bytes)) => Part::Data(bytes),
                Ok(Message::CopyDone) => Part::Done,
                Ok(Message::CopyFail(why)) => Part::Failed(why),
                Ok(Message::Flush | Message::Sync) => continue,
                Ok(_) => Part::Failed("another message came in the middle of it".to_owned()),
                Err(error) => {
                    let why = error.message().to_owned();
                    lost = Some(error);
                    Part::Failed(why)
                }
            };
            let is_last = !matches!(part, Part::Data(_));
            if let Some(sender) = &sender {
                tokio::select! {
                    biased;
                    result = &mut work => break result,
                    // Whoever does not take it has its own error.
                    _ = sender.send(part) => {}
                }
            }
            if is_last {
                sender = None;
            }
        };
        if let Some(error) = lost {
            return Err(error);
        }
        let outcome = outcome?;
        self.reporter.outcome(&outcome, &mut self.io.out);
        Ok(outcome.tag)
    }

    /// COPY TO STDOUT; gives its tag.
    pub(crate) async fn copy_out(&mut self, statement: Statement) -> Result<String> {
        let (statement, mut options) = statement.client_copy()?;
        options.time_zone = self.session.time_zone();
        let mut outcome = self.run(ToRun::Whole(Box::new(statement.copied_query()?))).await?;
        let mut rows = outcome.rows.take().ok_or_else(|| Error::internal("a query without rows"))?;
        let schema = rows.schema();
        let mut writer = Writer::new(&options, &schema)?;
        let columns = schema.fields().len();
        self.io.out.copy_begins(b'H', options.format == Some(Format::Binary), columns);
        if let Writer::Rows(form) = &writer {
            form.begin(&schema, options.header == Header::Yes, &mut self.io.out);
        }
        let mut count = 0;
        while let Some(batch) = self.watched(async { Ok(rows.next().await) }).await? {
            let batch = batch.map_err(from_datafusion)?;
            count += batch.num_rows() as u64;
            match &mut writer {
                Writer::Rows(form) => self.copy_rows(&batch, &schema, form).await?,
                Writer::Bytes(writer, written) => {
                    writer.write(&batch)?;
                    self.copy_bytes(written).await?;
                }
            }
        }
        match writer {
            Writer::Rows(form) => form.end(&mut self.io.out),
            Writer::Bytes(writer, written) => {
                writer.finish()?;
                self.copy_bytes(&written).await?;
            }
        }
        self.io.out.plain(b'c');
        self.reporter.outcome(&outcome, &mut self.io.out);
        Ok(format!("COPY {count}"))
    }

    async fn copy_rows(&mut self, batch: &RecordBatch, schema: &SchemaRef, form: &mut RowForm) -> Result<()> {
        let rows = Rows::new(batch, schema, &vec![0; batch.num_columns()])?.in_zone(self.session.time_zone());
        for from in (0..rows.len()).step_by(ROWS_AT_A_TIME) {
            rows.copy(from, (from + ROWS_AT_A_TIME).min(rows.len()), form, &mut self.io.out)?;
            self.send_if_long(self.until).await?;
        }
        Ok(())
    }

    async fn copy_bytes(&mut self, written: &Written) -> Result<()> {
        let bytes = std::mem::take(&mut *written.0.lock());
        for chunk in bytes.chunks(crate::io::SEND_BYTES) {
            self.io.out.copy_data(chunk);
            self.send_if_long(self.until).await?;
        }
        Ok(())
    }
}
