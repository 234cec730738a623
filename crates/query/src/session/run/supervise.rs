//! Watches a statement from its start until its last row: cancel, timeout, panic, and its line in `alluvia.queries`.
//!
//! Invariants:
//! - A [`Record`] ends exactly once, also when the stream is dropped in the middle, and its span closes then.
//! - The span of the execution closes before that of its statement.

use crate::clients::{Entry, RunningNow};
use crate::engine::Engine;
use crate::errors::error_of;
use crate::execution::guard::guarded_poll;
use crate::session::state::State;
use crate::system::{Live, kind_of};
use alluvia_copy::progress::{CancelToken, Progress};
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use alluvia_values::excerpt::cut;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::DataFusionError;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use futures::Stream;
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tracing::{Span, field, info_span};

/// Completes when a statement should stop.
pub(crate) struct Stop {
    token: CancelToken,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Stop {
    /// When the token is cancelled, or after `timeout` from now on, unless that is zero.
    pub(crate) fn new(token: CancelToken, timeout: Duration) -> Stop {
        let watched = token.clone();
        // Counted from here, not from when it is first asked: rows that are taken a few at a time are of one statement.
        let too_long = (!timeout.is_zero()).then(|| tokio::time::sleep(timeout));
        let stopped = async move {
            match too_long {
                None => watched.cancelled().await,
                Some(too_long) => {
                    tokio::select! {
                        () = watched.cancelled() => {}
                        () = too_long => watched.time_out(),
                    }
                }
            }
        };
        Stop { token, stopped: Box::pin(stopped) }
    }

    /// Waits for it. Must not be called again once it has completed.
    pub(crate) fn stopped(&mut self) -> impl Future<Output = ()> {
        self.stopped.as_mut()
    }
}

/// A statement's line in `alluvia.queries`.
pub(crate) struct Record {
    engine: Arc<Engine>,
    session: Arc<Entry>,
    id: u64,
    kind: usize,
    start: Duration,
    span: Span,
    is_over: bool,
}

/// Whoever ran it did not wait for its end: it keeps no lock.
impl Drop for Record {
    fn drop(&mut self) {
        if !self.is_over {
            self.session.ended(self.id);
            self.engine.sessions().statement_ended(&self.session);
        }
    }
}

impl Record {
    /// The statement begins.
    pub(crate) fn begin(engine: &Arc<Engine>, session: &Arc<Entry>, text: &str, progress: Arc<Progress>) -> Record {
        let clock = engine.read().clock();
        let (start_micros, start) = (clock.wall_micros(), clock.monotonic());
        let user = session.client.lock().user.clone();
        let who = session.who();
        let id = engine.queries().begin((session.id, user.as_str(), who), text, start_micros, Live { start, progress });
        let sql = cut(text).to_owned();
        let span = info_span!(
            "statement",
            session = session.id,
            db.query.text = sql.as_str(),
            rows = field::Empty,
            error = field::Empty
        );
        *session.running.lock() = Some(RunningNow { query_id: id, sql, start_micros, start });
        let (engine, session, kind) = (Arc::clone(engine), Arc::clone(session), kind_of(text));
        Record { id, kind, start, session, engine, span, is_over: false }
    }

    /// Its id in the ring.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The statement's span.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// It is over.
    pub(crate) fn end(mut self, rows: u64, result: Result<(), &Error>) {
        self.is_over = true;
        self.span.record("rows", rows);
        if let Err(error) = result {
            self.span.record("error", error.message());
        }
        let duration = self.engine.read().clock().monotonic().saturating_sub(self.start);
        if self.engine.is_slow(duration)
            && let Some(now) = self.session.running.lock().clone()
        {
            let (session, user) = (self.session.id, self.session.client.lock().user.clone());
            let seconds = duration.as_secs_f64();
            let error = result.err().map(|error| error.message());
            tracing::warn!(session, user, seconds, rows, error, sql = now.sql, "a slow statement");
        }
        self.session.ended(self.id);
        self.engine.sessions().statement_ended(&self.session);
        self.engine.statements().ended(self.kind, duration, result);
        self.engine.queries().end(self.id, duration, rows, result);
    }
}

/// A query's rows, stopped when they should be.
pub(crate) struct SupervisedRows {
    schema: SchemaRef,
    /// `None` once the stream is over.
    rows: Option<SendableRecordBatchStream>,
    record: Option<Record>,
    stop: Stop,
    state: Arc<Mutex<State>>,
    count: u64,
    execution: Span,
}

impl SupervisedRows {
    pub(crate) fn new(
        rows: SendableRecordBatchStream,
        stop: Stop,
        record: Record,
        state: Arc<Mutex<State>>,
    ) -> SupervisedRows {
        let execution = info_span!(parent: record.span(), "execution");
        SupervisedRows {
            schema: rows.schema(),
            rows: Some(rows),
            record: Some(record),
            stop,
            state,
            count: 0,
            execution,
        }
    }

    fn finish(&mut self, result: Result<(), &Error>) {
        self.rows = None;
        self.execution = Span::none();
        if let Some(record) = self.record.take() {
            if result.is_err() {
                self.state.lock().fail_transaction();
            }
            record.end(self.count, result);
        }
    }
}

impl Stream for SupervisedRows {
    type Item = Result<RecordBatch, DataFusionError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(rows) = this.rows.as_mut() else { return Poll::Ready(None) };
        if this.stop.stopped.as_mut().poll(context).is_ready() {
            let error = this.stop.token.error();
            this.finish(Err(&error));
            return Poll::Ready(Some(Err(wrap(error))));
        }
        let polled = guarded_poll(|| rows.as_mut().poll_next(context));
        match &polled {
            Poll::Ready(Some(Ok(batch))) => this.count += batch.num_rows() as u64,
            Poll::Ready(Some(Err(error))) => {
                let error = error_of(error);
                this.finish(Err(&error));
            }
            Poll::Ready(None) => this.finish(Ok(())),
            Poll::Pending => {}
        }
        polled
    }
}

impl RecordBatchStream for SupervisedRows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Drop for SupervisedRows {
    fn drop(&mut self) {
        if self.rows.take().is_some() {
            self.execution = Span::none();
            // Not reading on is the client's right, and fails no transaction.
            let error = Error::new(ErrorKind::Cancelled, "the rows were not read to their end");
            if let Some(record) = self.record.take() {
                record.end(self.count, Err(&error));
            }
        }
    }
}
