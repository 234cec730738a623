//! One session: a thread of statements, with its settings and its transaction.
//!
//! Invariants:
//! - Statements of a session take turns; what stops one, stops no other session's.
//! - Rows that a program sends are a whole batch or none: they are complete when the program says so, not when it falls silent.

use crate::database::{Closing, Shared, closed};
use crate::errors::{OrRaise, to_py};
use crate::from_python;
use crate::refinements::{Answer, Refinements, answer};
use crate::rows::Rows;
use crate::source::Source;
use crate::waiting::{droppable, finish, look_of};
use alluvia_query::copy::infer_schema;
use alluvia_query::{
    Appended, CancelHandle, Command, Phase, Prepared, Progress, Refining, ScalarValue, Statement, TransactionStatus,
};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::RecordBatch;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// Batches that wait between the program's thread and the engine's.
const BATCHES_WAITING: usize = 2;

/// Phase, rows, bytes done, bytes in all.
type ProgressRow = (&'static str, u64, u64, u64);

/// What a program sends: rows, and in the end the word that they are complete.
enum Sent {
    Rows(RecordBatch),
    Complete,
}

/// What the objects of one session share.
pub(crate) struct SessionInner {
    shared: Arc<Shared>,
    runtime: Handle,
    cancel: CancelHandle,
    session: Mutex<Option<Arc<alluvia_query::Session>>>,
}

impl SessionInner {
    pub(crate) fn new(shared: Arc<Shared>, runtime: Handle, session: alluvia_query::Session) -> SessionInner {
        let cancel = session.cancel_handle();
        SessionInner { shared, runtime, cancel, session: Mutex::new(Some(Arc::new(session))) }
    }

    fn session(&self) -> Result<Arc<alluvia_query::Session>> {
        self.shared.check_process()?;
        self.session.lock().clone().ok_or_else(closed)
    }
}

impl Closing for SessionInner {
    fn stop(&self) {
        self.cancel.cancel();
    }

    fn close(&self) {
        drop(self.session.lock().take());
    }
}

/// A session. Threads may share one; their statements take turns.
#[pyclass(frozen, module = "alluvia._alluvia")]
pub(crate) struct Session {
    inner: Arc<SessionInner>,
}

impl Session {
    pub(crate) fn new(inner: Arc<SessionInner>) -> Session {
        Session { inner }
    }
}

#[pymethods]
impl Session {
    /// Runs a statement, with a value for each of its parameters; or several statements without parameters, of which the last one's
    /// answer is given. `look` is called while it runs.
    #[pyo3(signature = (sql, parameters=None, look=None))]
    fn execute(
        &self,
        py: Python<'_>,
        sql: &str,
        parameters: Option<Vec<Bound<'_, PyAny>>>,
        look: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Rows> {
        let _busy = self.inner.shared.enter().or_raise(py)?;
        let session = self.inner.session().or_raise(py)?;
        let values = values_of(parameters.as_deref())?;
        let mut look = look_of(&look);
        let Inner { runtime, cancel, shared } = self.inner.parts();
        let work = run(&session, shared, sql, &values);
        let answer = finish(py, runtime, cancel, &mut look, work)?;
        Ok(Rows::of(shared, runtime, answer))
    }

    /// Begins one statement, with a value for each of its parameters, whose answer is wanted as far as it is known.
    #[pyo3(signature = (sql, parameters=None))]
    fn refine(&self, py: Python<'_>, sql: &str, parameters: Option<Vec<Bound<'_, PyAny>>>) -> PyResult<Refinements> {
        let _busy = self.inner.shared.enter().or_raise(py)?;
        let session = self.inner.session().or_raise(py)?;
        let values = values_of(parameters.as_deref())?;
        let Inner { runtime, cancel, shared } = self.inner.parts();
        let work = refine(&session, shared, sql, &values);
        let refining = finish(py, runtime, cancel, &mut |_| Ok(()), work)?;
        Ok(Refinements::new(shared, runtime, refining))
    }

    /// Takes rows into a table, from whatever [`Source`] knows. Gives how many, and the version of their batch if they are one. With
    /// `create`, a table that does not exist is created with columns like those of the first rows.
    #[pyo3(signature = (table, rows, create=false, look=None))]
    fn ingest<'py>(
        &self,
        py: Python<'py>,
        table: &str,
        rows: &Bound<'py, PyAny>,
        create: bool,
        look: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(u64, Option<u64>)> {
        let _busy = self.inner.shared.enter().or_raise(py)?;
        let session = self.inner.session().or_raise(py)?;
        let mut look = look_of(&look);
        let Inner { runtime, cancel, .. } = self.inner.parts();
        let mut source = Source::of(rows)?;
        let mut first = None;
        let mut created = false;
        if create {
            let schema = match source.schema() {
                Some(schema) => Some(schema),
                None => {
                    first = source.next(py)?;
                    first.as_ref().map(RecordBatch::schema)
                }
            };
            if let Some(schema) = schema {
                let sql = infer_schema(&schema, "the data").or_raise(py)?.create_table(table);
                created = match py.detach(|| runtime.block_on(session.sql(&sql))) {
                    Ok(_) => true,
                    Err(error) if error.kind() == ErrorKind::DuplicateTable => false,
                    Err(error) => return Err(to_py(py, &error)),
                };
            }
        }
        let (sender, receiver) = mpsc::channel(BATCHES_WAITING);
        let taken = {
            let (session, table) = (Arc::clone(&session), table.to_owned());
            runtime.spawn(async move { session.append_stream(&table, Box::pin(received(receiver))).await })
        };
        let sent = send(py, runtime, &mut look, first, source, sender);
        let ended = async {
            match taken.await {
                Ok(taken) => taken,
                Err(error) => Err(Error::internal(format!("rows were not taken: {error}"))),
            }
        };
        let taken: PyResult<Appended> = match sent {
            Ok(()) => finish(py, runtime, cancel, &mut look, ended),
            // What was sent is not complete, so nothing is applied.
            Err(raised) => {
                py.detach(|| drop(runtime.block_on(ended)));
                Err(raised)
            }
        };
        if taken.is_err() && created {
            let quoted = format!("\"{}\"", table.replace('"', "\"\""));
            drop(py.detach(|| runtime.block_on(session.sql(&format!("DROP TABLE {quoted}")))));
        }
        taken.map(|taken| (taken.rows, taken.committed.map(|committed| committed.version.0)))
    }

    /// Stops the running statement, from whatever thread.
    fn cancel(&self) {
        self.inner.cancel.cancel();
    }

    /// How far the running statement is, or the last one.
    fn progress(&self, py: Python<'_>) -> PyResult<ProgressRow> {
        let session = self.inner.session().or_raise(py)?;
        Ok(progress_row(&session.progress()))
    }

    /// `idle`, `open` or `failed`.
    #[getter]
    fn transaction(&self, py: Python<'_>) -> PyResult<&'static str> {
        let session = self.inner.session().or_raise(py)?;
        Ok(match session.transaction_status() {
            TransactionStatus::Idle => "idle",
            TransactionStatus::Open => "open",
            TransactionStatus::Failed => "failed",
        })
    }

    /// Stops what runs, and rolls back what is open. Does nothing the second time.
    fn close(&self, py: Python<'_>) {
        if self.inner.shared.check_process().is_ok() {
            py.detach(|| {
                self.inner.stop();
                self.inner.close();
            });
        }
    }
}

/// What waiting needs of a session.
struct Inner<'a> {
    shared: &'a Arc<Shared>,
    runtime: &'a Handle,
    cancel: &'a CancelHandle,
}

impl SessionInner {
    fn parts(&self) -> Inner<'_> {
        Inner { shared: &self.shared, runtime: &self.runtime, cancel: &self.cancel }
    }
}

fn values_of(parameters: Option<&[Bound<'_, PyAny>]>) -> PyResult<Vec<ScalarValue>> {
    let parameters = parameters.unwrap_or_default().iter().enumerate();
    parameters.map(|(at, value)| from_python::parameter(value, at + 1)).collect()
}

/// Whether a statement is kept parsed.
fn is_kept(statement: &Statement) -> bool {
    statement.parameters() > 0 || statement.command() == Command::Query
}

fn prepare(session: &alluvia_query::Session, shared: &Shared, sql: &str) -> Result<Prepared> {
    if let Some(prepared) = shared.prepared(sql) {
        return Ok(prepared);
    }
    let prepared = session.prepare(sql)?;
    if is_kept(prepared.statement()) {
        shared.keep_prepared(sql, &prepared);
    }
    Ok(prepared)
}

async fn refine(
    session: &alluvia_query::Session,
    shared: &Shared,
    sql: &str,
    values: &[ScalarValue],
) -> Result<Refining> {
    session.refine_prepared(&prepare(session, shared, sql)?, values).await
}

async fn run(session: &alluvia_query::Session, shared: &Shared, sql: &str, values: &[ScalarValue]) -> Result<Answer> {
    if let Some(prepared) = shared.prepared(sql) {
        return answer(session, &prepared, values).await;
    }
    let statements = session.parse(sql)?;
    if let [statement] = statements.as_slice()
        && is_kept(statement)
    {
        return answer(session, &prepare(session, shared, sql)?, values).await;
    }
    if !values.is_empty() {
        let (count, given) = (statements.len(), values.len());
        let what = if count == 1 {
            "the statement has no parameters".to_owned()
        } else {
            format!("{count} statements take no parameters")
        };
        return Err(Error::new(ErrorKind::Syntax, format!("{what}, and {given} values are given")));
    }
    let mut last = None;
    for statement in statements {
        // Rows of those before the last one are not asked for.
        last = Some(session.execute(statement).await?);
    }
    last.map(Answer::Rows).ok_or_else(|| Error::new(ErrorKind::Syntax, "there is no statement to run"))
}

/// Batches as they come; an end without the word that it is one is an error.
fn received(receiver: mpsc::Receiver<Sent>) -> impl futures::Stream<Item = Result<RecordBatch>> + Send {
    futures::stream::unfold(Some(receiver), |receiver| async move {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Sent::Rows(batch)) => Some((Ok(batch), Some(receiver))),
            Some(Sent::Complete) => None,
            None => Some((Err(Error::new(ErrorKind::Cancelled, "the program stopped sending rows")), None)),
        }
    })
}

/// Sends all rows. An error of the receiver's is left to whoever awaits it.
fn send<'py>(
    py: Python<'py>,
    runtime: &Handle,
    look: &mut dyn FnMut(Python<'_>) -> PyResult<()>,
    first: Option<RecordBatch>,
    mut source: Source<'py>,
    sender: mpsc::Sender<Sent>,
) -> PyResult<()> {
    let mut next = match first {
        Some(first) => Some(first),
        None => source.next(py)?,
    };
    while let Some(batch) = next {
        py.check_signals()?;
        if droppable(py, runtime, look, sender.send(Sent::Rows(batch)))?.is_err() {
            return Ok(());
        }
        next = source.next(py)?;
    }
    droppable(py, runtime, look, sender.send(Sent::Complete)).map(drop)
}

fn progress_row(progress: &Progress) -> ProgressRow {
    let phase = match progress.phase() {
        Phase::Idle => "idle",
        Phase::Running => "running",
        Phase::Finishing => "finishing",
        Phase::Committing => "committing",
    };
    (phase, progress.rows(), progress.bytes_done(), progress.bytes_total())
}
