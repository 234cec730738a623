//! An open database, and what must happen when it is closed.
//!
//! Invariants:
//! - Closing ends every session and result of the database, waits for statements under way (which are cancelled), and returns when the
//!   directory can be opened again.
//! - What is not closed is closed when the last object that uses it goes.
//! - A forked process has copies of the objects, and not the threads: it may drop them, and nothing else.

use crate::errors::{OrRaise, misuse, to_py};
use crate::session::{Session, SessionInner};
use alluvia_node::{Database as Engine, DatabaseOptions, parse_bytes};
use alluvia_query::Prepared;
use alluvia_types::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};

/// Stack of the runtime's threads: deep plans recurse.
const STACK_BYTES: usize = 8 << 20;
/// How long closing waits for statements that are cancelled.
const CLOSE_WAIT: Duration = Duration::from_secs(30);
const CLOSE_LOOK: Duration = Duration::from_millis(1);
/// Statements that are kept parsed.
const PREPARED_MAX: usize = 256;
/// Longer texts are not kept.
const PREPARED_BYTES_MAX: usize = 16 << 10;

/// Something that uses a database until it is closed.
pub(crate) trait Closing: Send + Sync {
    /// Stops what runs.
    fn stop(&self);
    /// Lets go of the engine.
    fn close(&self);
}

struct Open {
    engine: Engine,
    runtime: Runtime,
}

/// What the objects of one database share.
pub(crate) struct Shared {
    process: u32,
    open: Mutex<Option<Open>>,
    /// Calls that use the runtime.
    busy: AtomicUsize,
    users: Mutex<Vec<Weak<dyn Closing>>>,
    prepared: Mutex<HashMap<String, Prepared>>,
}

impl Shared {
    /// Refuses the use of a parent's database.
    pub(crate) fn check_process(&self) -> Result<()> {
        if std::process::id() == self.process {
            return Ok(());
        }
        Err(misuse("the database was opened by the process that this one was forked off").with_hint(
            "open it in one process, and give the others their data; with multiprocessing use the start method 'spawn'",
        ))
    }

    /// Begins a call that uses the runtime, which is there until the call ends.
    pub(crate) fn enter(&self) -> Result<Busy<'_>> {
        self.check_process()?;
        self.busy.fetch_add(1, Ordering::SeqCst);
        let busy = Busy(&self.busy);
        // After it was counted: a close that comes now waits for it.
        if self.open.lock().is_none() { Err(closed()) } else { Ok(busy) }
    }

    /// Closes `user` with the database.
    pub(crate) fn register(&self, user: Weak<dyn Closing>) {
        let mut users = self.users.lock();
        if users.len() == users.capacity() {
            users.retain(|known| known.strong_count() > 0);
        }
        users.push(user);
    }

    /// A statement that was parsed before.
    pub(crate) fn prepared(&self, sql: &str) -> Option<Prepared> {
        self.prepared.lock().get(sql).cloned()
    }

    /// Keeps a parsed statement.
    pub(crate) fn keep_prepared(&self, sql: &str, prepared: &Prepared) {
        if sql.len() > PREPARED_BYTES_MAX {
            return;
        }
        let mut kept = self.prepared.lock();
        if kept.len() >= PREPARED_MAX {
            kept.clear();
        }
        kept.insert(sql.to_owned(), prepared.clone());
    }

    fn close(&self) -> Result<()> {
        let Some(open) = self.open.lock().take() else { return Ok(()) };
        let users: Vec<Arc<dyn Closing>> = self.users.lock().drain(..).filter_map(|user| user.upgrade()).collect();
        users.iter().for_each(|user| user.close());
        self.prepared.lock().clear();
        let Open { engine, runtime } = open;
        // First the calls, which need the engine's threads; a script may begin its next statement meanwhile.
        let mut ended = wait_until(|| {
            users.iter().for_each(|user| user.stop());
            self.busy.load(Ordering::SeqCst) == 0
        });
        drop(users);
        let core = Arc::downgrade(engine.core());
        drop(engine);
        ended = ended && wait_until(|| core.strong_count() == 0);
        if ended {
            runtime.shutdown_background();
            return Ok(());
        }
        // A call that does not end must find it.
        std::mem::forget(runtime);
        Err(Error::new(ErrorKind::Busy, "a statement of another thread does not end; the directory is still in use"))
    }
}

/// Whether it came to be within [`CLOSE_WAIT`].
fn wait_until(mut holds: impl FnMut() -> bool) -> bool {
    let mut waited = Duration::ZERO;
    while !holds() {
        if waited >= CLOSE_WAIT {
            return false;
        }
        std::thread::sleep(CLOSE_LOOK);
        waited += CLOSE_LOOK;
    }
    true
}

/// A call that uses the runtime.
pub(crate) struct Busy<'a>(&'a AtomicUsize);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if std::process::id() != self.process {
            std::mem::forget(self.open.get_mut().take());
            return;
        }
        // Nobody is left to be told. The engine's threads may have to wait for the interpreter, which is not held while they are awaited.
        if Python::try_attach(|py| py.detach(|| drop(self.close()))).is_none() {
            let _ = self.close();
        }
    }
}

/// One open database.
#[pyclass(frozen, module = "alluvia._alluvia")]
pub(crate) struct Database {
    shared: Arc<Shared>,
}

#[pymethods]
impl Database {
    /// Opens the database in a directory, creating it if there is none.
    #[new]
    #[pyo3(signature = (path, memory_limit=None, threads=None, spill_limit=None))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        memory_limit: Option<&str>,
        threads: Option<usize>,
        spill_limit: Option<&str>,
    ) -> PyResult<Database> {
        let options = options(memory_limit, threads, spill_limit).or_raise(py)?;
        let open = py.detach(|| -> Result<Open> {
            let runtime = Builder::new_multi_thread()
                .enable_all()
                .worker_threads(options.threads)
                .thread_name("alluvia-query")
                .thread_stack_size(STACK_BYTES)
                .build()
                .map_err(|error| Error::new(ErrorKind::Busy, format!("the machine refuses threads: {error}")))?;
            Ok(Open { engine: Engine::open_with(&path, options)?, runtime })
        });
        let shared = Shared {
            process: std::process::id(),
            open: Mutex::new(Some(open.or_raise(py)?)),
            busy: AtomicUsize::new(0),
            users: Mutex::default(),
            prepared: Mutex::default(),
        };
        Ok(Database { shared: Arc::new(shared) })
    }

    /// A new session.
    fn session(&self, py: Python<'_>) -> PyResult<Session> {
        self.shared.check_process().or_raise(py)?;
        let made = {
            let open = self.shared.open.lock();
            open.as_ref().map(|open| (open.engine.session(), Handle::clone(open.runtime.handle())))
        };
        let Some((session, runtime)) = made else { return Err(to_py(py, &closed())) };
        let inner = Arc::new(SessionInner::new(Arc::clone(&self.shared), runtime, session));
        let user: Weak<dyn Closing> = Arc::downgrade(&inner) as Weak<dyn Closing>;
        self.shared.register(user);
        Ok(Session::new(inner))
    }

    /// Ends sessions and results, and releases the directory. Does nothing the second time.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.shared.check_process().is_err() {
            return Ok(());
        }
        py.detach(|| self.shared.close()).or_raise(py)
    }

    /// Whether it is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.shared.open.lock().is_none()
    }
}

/// The error of using what is closed.
pub(crate) fn closed() -> Error {
    misuse("the database is closed")
}

fn options(memory_limit: Option<&str>, threads: Option<usize>, spill_limit: Option<&str>) -> Result<DatabaseOptions> {
    let mut options = DatabaseOptions::default();
    if let Some(limit) = memory_limit {
        options.memory_limit_bytes = parse_bytes(limit).map_err(|error| error.at("memory_limit"))?;
    }
    if let Some(limit) = spill_limit {
        options.spill_bytes_max = parse_bytes(limit).map_err(|error| error.at("spill_limit"))?;
    }
    match threads {
        Some(0) => return Err(Error::new(ErrorKind::InvalidSetting, "threads must be at least 1")),
        Some(threads) => options.threads = threads,
        None => {}
    }
    Ok(options)
}
