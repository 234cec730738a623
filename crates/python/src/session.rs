//! One session: a thread of statements, with its settings and its transaction.
//!
//! Invariants:
//! - Statements of a session take turns; what stops one, stops no other session's.
//! - Rows that a program sends are a whole batch or none: they are complete when the program says so, not when it falls silent.

use crate::backend::{Backend, Stopper, Taken};
use crate::database::{Closing, Shared, closed};
use crate::errors::OrRaise;
use crate::from_python;
use crate::progress::{ProgressRow, Stopwatch};
use crate::refinements::Refinements;
use crate::rows::Rows;
use crate::source::Source;
use crate::waiting::{droppable, end, finish, look_of};
use alluvia_query::ScalarValue;
use alluvia_space::{RowOp, RowPolicy};
use alluvia_syntax::names::{RelationName, name_in_text};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::RecordBatch;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Batches that wait between the program's thread and the engine's.
const BATCHES_WAITING: usize = 2;

/// What a server gets to hear that a session ends.
const GOODBYE: Duration = Duration::from_secs(2);

/// What a program sends: rows, and in the end the word that they are complete.
enum Sent {
    Rows(RecordBatch),
    Complete,
}

/// What the objects of one session share.
pub(crate) struct SessionInner {
    shared: Arc<Shared>,
    runtime: Handle,
    stopper: Stopper,
    backend: Mutex<Option<Backend>>,
    has_left: AtomicBool,
}

impl SessionInner {
    pub(crate) fn new(shared: Arc<Shared>, runtime: Handle, backend: Backend) -> SessionInner {
        let stopper = backend.stopper(&runtime);
        SessionInner { shared, runtime, stopper, backend: Mutex::new(Some(backend)), has_left: AtomicBool::new(false) }
    }

    fn backend(&self) -> Result<Backend> {
        self.shared.check_process()?;
        self.backend.lock().clone().ok_or_else(closed)
    }
}

impl Closing for SessionInner {
    fn stop(&self) {
        self.stopper.cancel();
    }

    fn close(&self) {
        drop(self.backend.lock().take());
    }

    fn leave(&self) -> Option<JoinHandle<()>> {
        let Stopper::Remote { session, runtime, .. } = &self.stopper else { return None };
        if self.has_left.swap(true, Ordering::SeqCst) || session.is_lost() {
            return None;
        }
        let session = Arc::clone(session);
        Some(runtime.spawn(async move {
            // A server that does not hear it ends the session when it has been idle for long enough.
            let goodbye = async {
                session.cancel().await?;
                session.close().await
            };
            let _ = timeout(GOODBYE, goodbye).await;
        }))
    }
}

impl Drop for SessionInner {
    fn drop(&mut self) {
        if self.shared.check_process().is_ok()
            && let Some(goodbye) = self.leave()
        {
            self.shared.leaving(goodbye);
        }
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
        let backend = self.inner.backend().or_raise(py)?;
        let values = values_of(parameters.as_deref())?;
        let mut look = look_of(&look);
        let Inner { runtime, cancel, shared } = self.inner.parts();
        let time = Stopwatch::begin();
        let work = backend.run(shared, sql, &values);
        let answer = finish(py, runtime, cancel, &mut look, work)?;
        Ok(Rows::of(shared, runtime, answer, time))
    }

    /// Begins one statement, with a value for each of its parameters, whose answer is wanted as far as it is known.
    #[pyo3(signature = (sql, parameters=None))]
    fn refine(&self, py: Python<'_>, sql: &str, parameters: Option<Vec<Bound<'_, PyAny>>>) -> PyResult<Refinements> {
        let _busy = self.inner.shared.enter().or_raise(py)?;
        let backend = self.inner.backend().or_raise(py)?;
        let values = values_of(parameters.as_deref())?;
        let Inner { runtime, cancel, shared } = self.inner.parts();
        let work = backend.refine(shared, sql, &values);
        let refining = finish(py, runtime, cancel, &mut |_| Ok(()), work)?;
        Ok(Refinements::new(shared, runtime, refining))
    }

    /// Takes rows into a table, from whatever [`Source`] knows. Gives how many, and the version of their batch if they are one. With
    /// `create`, a table that does not exist is created with columns like those of the first rows. `on_conflict` and `op` say what rows do
    /// by key.
    #[pyo3(signature = (table, rows, create=false, on_conflict=None, op=None, look=None, schema=None))]
    #[allow(clippy::too_many_arguments)] // they are Python's
    fn ingest<'py>(
        &self,
        py: Python<'py>,
        table: &str,
        rows: &Bound<'py, PyAny>,
        create: bool,
        on_conflict: Option<&str>,
        op: Option<&str>,
        look: Option<Bound<'py, PyAny>>,
        schema: Option<String>,
    ) -> PyResult<Taken> {
        let table = match schema {
            Some(schema) => RelationName::in_schema(schema, table),
            None => name_in_text(table),
        };
        let policy = RowPolicy::of_options(on_conflict, op).or_raise(py)?;
        let _busy = self.inner.shared.enter().or_raise(py)?;
        let backend = self.inner.backend().or_raise(py)?;
        let mut look = look_of(&look);
        let Inner { runtime, cancel, .. } = self.inner.parts();
        let mut source = Source::of(rows)?;
        if policy.op == Some(RowOp::Patch) {
            source = source.of_patches();
        }
        let mut first = None;
        let mut created = None;
        if create {
            created = source.schema();
            if created.is_none() {
                first = source.next(py)?;
                created = first.as_ref().map(RecordBatch::schema);
            }
        }
        let (sender, receiver) = mpsc::channel(BATCHES_WAITING);
        droppable(py, runtime, &mut look, cancel.heard())?;
        let taken = runtime.spawn(backend.append(table, created, policy, received(receiver)));
        let sent = send(py, runtime, &mut look, first, source, sender);
        let ended = async {
            match taken.await {
                Ok(taken) => taken,
                Err(error) => Err(Error::internal(format!("rows were not taken: {error}"))),
            }
        };
        match sent {
            Ok(()) => finish(py, runtime, cancel, &mut look, ended),
            // What was sent is not complete, so nothing is applied.
            Err(raised) => {
                end(py, runtime, cancel, ended)?;
                Err(raised)
            }
        }
    }

    /// Stops the running statement, from whatever thread.
    fn cancel(&self) {
        if self.inner.shared.check_process().is_ok() {
            self.inner.stopper.cancel();
        }
    }

    /// How far the running statement is, or the last one.
    fn progress(&self, py: Python<'_>) -> PyResult<ProgressRow> {
        let _busy = self.inner.shared.enter().or_raise(py)?;
        let backend = self.inner.backend().or_raise(py)?;
        droppable(py, &self.inner.runtime, &mut |_| Ok(()), backend.progress())?.or_raise(py)
    }

    /// `idle`, `open` or `failed`.
    #[getter]
    fn transaction(&self, py: Python<'_>) -> PyResult<String> {
        let _busy = self.inner.shared.enter().or_raise(py)?;
        let backend = self.inner.backend().or_raise(py)?;
        droppable(py, &self.inner.runtime, &mut |_| Ok(()), backend.transaction())?.or_raise(py)
    }

    /// The session's time zone, by its name.
    #[getter]
    fn time_zone(&self, py: Python<'_>) -> PyResult<String> {
        let _busy = self.inner.shared.enter().or_raise(py)?;
        let backend = self.inner.backend().or_raise(py)?;
        droppable(py, &self.inner.runtime, &mut |_| Ok(()), backend.time_zone())?.or_raise(py)
    }

    /// Whether its server does not know it any more: nothing can be done with it.
    #[getter]
    fn lost(&self) -> bool {
        self.inner.backend.lock().as_ref().is_some_and(Backend::is_lost)
    }

    /// Stops what runs, and rolls back what is open. Does nothing the second time. Ctrl-C leaves a server to hear of it by itself.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.inner.shared.check_process().is_err() {
            return Ok(());
        }
        py.detach(|| {
            self.inner.stop();
            self.inner.close();
        });
        if let Ok(_busy) = self.inner.shared.enter()
            && let Some(left) = self.inner.leave()
        {
            drop(droppable(py, &self.inner.runtime, &mut |_| Ok(()), left)?);
        }
        Ok(())
    }
}

/// What waiting needs of a session.
struct Inner<'a> {
    shared: &'a Arc<Shared>,
    runtime: &'a Handle,
    cancel: &'a Stopper,
}

impl SessionInner {
    fn parts(&self) -> Inner<'_> {
        Inner { shared: &self.shared, runtime: &self.runtime, cancel: &self.stopper }
    }
}

fn values_of(parameters: Option<&[Bound<'_, PyAny>]>) -> PyResult<Vec<ScalarValue>> {
    let parameters = parameters.unwrap_or_default().iter().enumerate();
    parameters.map(|(at, value)| from_python::parameter(value, at + 1)).collect()
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
