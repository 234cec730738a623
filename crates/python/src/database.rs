//! An open database, of this process or at a server, and what must happen when it is closed.
//!
//! Invariants:
//! - Closing ends every session and result of the database, waits for statements under way (which are cancelled), and returns when the
//!   directory can be opened again, or the server knows that the sessions have ended.
//! - What is not closed is closed when the last object that uses it goes.
//! - A forked process has copies of the objects, and not the threads: it may drop them, and nothing else.

use crate::backend::Backend;
use crate::errors::{OrRaise, misuse, to_py};
use crate::session::{Session, SessionInner};
use crate::waiting::droppable;
use alluvia_client::{Connection, Target};
use alluvia_node::{Database as Node, DatabaseOptions, parse_bytes};
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
use tokio::task::JoinHandle;

/// Stack of the runtime's threads: deep plans recurse.
const STACK_BYTES: usize = 8 << 20;
/// How long closing waits for statements that are cancelled.
const CLOSE_WAIT: Duration = Duration::from_secs(30);
const CLOSE_LOOK: Duration = Duration::from_millis(1);
/// Threads that carry bytes to and from a server; calls themselves run on the threads that make them.
const CLIENT_THREADS: usize = 2;
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
    /// Tells a server that it will not be used any more, once.
    fn leave(&self) -> Option<JoinHandle<()>> {
        None
    }
}

enum Engine {
    Embedded(Node),
    Remote(Arc<Connection>),
}

/// A session that begins: here at once, there by a question.
enum Beginning {
    Here(Backend),
    There(Arc<Connection>),
}

impl Engine {
    fn begin(&self) -> Beginning {
        match self {
            Engine::Embedded(node) => Beginning::Here(Backend::Embedded(Arc::new(node.session()))),
            Engine::Remote(connection) => Beginning::There(Arc::clone(connection)),
        }
    }
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
    /// What tells a server of sessions that nobody holds any more.
    goodbyes: Mutex<Vec<JoinHandle<()>>>,
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

    /// A server is being told of a session that ends; closing waits for it.
    pub(crate) fn leaving(&self, goodbye: JoinHandle<()>) {
        let mut goodbyes = self.goodbyes.lock();
        goodbyes.retain(|before| !before.is_finished());
        goodbyes.push(goodbye);
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
        let calls_ended = wait_until(|| {
            users.iter().for_each(|user| user.stop());
            self.busy.load(Ordering::SeqCst) == 0
        });
        let ended = calls_ended
            && match engine {
                Engine::Embedded(node) => {
                    drop(users);
                    let core = Arc::downgrade(node.core());
                    drop(node);
                    wait_until(|| core.strong_count() == 0)
                }
                Engine::Remote(connection) => {
                    // All at once: each gives up by itself.
                    users.iter().filter_map(|user| user.leave()).for_each(|goodbye| self.leaving(goodbye));
                    let goodbyes = std::mem::take(&mut *self.goodbyes.lock());
                    runtime.block_on(futures::future::join_all(goodbyes));
                    drop((users, connection));
                    true
                }
            };
        if ended {
            runtime.shutdown_background();
            return Ok(());
        }
        // A call that does not end must find it.
        std::mem::forget(runtime);
        Err(Error::new(ErrorKind::Busy, "a statement of another thread does not end; what was opened is still in use"))
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

impl Database {
    fn of(open: Open) -> Database {
        let shared = Shared {
            process: std::process::id(),
            open: Mutex::new(Some(open)),
            busy: AtomicUsize::new(0),
            users: Mutex::default(),
            goodbyes: Mutex::default(),
            prepared: Mutex::default(),
        };
        Database { shared: Arc::new(shared) }
    }
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
            Ok(Open { engine: Engine::Embedded(Node::open_with(&path, options)?), runtime })
        });
        Ok(Database::of(open.or_raise(py)?))
    }

    /// Connects to a server. With `trusted`, PEM of certificates, within TLS. `timeout` is in seconds; 0 waits for ever.
    #[staticmethod]
    #[pyo3(signature = (host, port, user=None, password=None, trusted=None, timeout=10.0))]
    fn connect(
        py: Python<'_>,
        host: String,
        port: u16,
        user: Option<String>,
        password: Option<String>,
        trusted: Option<Vec<u8>>,
        timeout: f64,
    ) -> PyResult<Database> {
        let timeout = Duration::try_from_secs_f64(timeout)
            .map_err(|_| Error::new(ErrorKind::InvalidSetting, "timeout is a number of seconds, from 0"))
            .or_raise(py)?;
        let user = user.map(|user| (user, password.unwrap_or_default()));
        let target = Target { host, port, user, trusted, timeout };
        let runtime = py.detach(|| {
            Builder::new_multi_thread()
                .enable_all()
                .worker_threads(CLIENT_THREADS)
                .thread_name("alluvia-client")
                .build()
                .map_err(|error| Error::new(ErrorKind::Busy, format!("the machine refuses threads: {error}")))
        });
        let runtime = runtime.or_raise(py)?;
        let connected = droppable(py, runtime.handle(), &mut |_| Ok(()), Connection::open(&target));
        match connected.and_then(|connected| connected.or_raise(py)) {
            Ok(connection) => Ok(Database::of(Open { engine: Engine::Remote(Arc::new(connection)), runtime })),
            Err(error) => {
                // Whatever still looks up a name is not waited for.
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    /// A new session.
    fn session(&self, py: Python<'_>) -> PyResult<Session> {
        let _busy = self.shared.enter().or_raise(py)?;
        let begun = {
            let open = self.shared.open.lock();
            open.as_ref().map(|open| (Handle::clone(open.runtime.handle()), open.engine.begin()))
        };
        let Some((runtime, begun)) = begun else { return Err(to_py(py, &closed())) };
        let backend = match begun {
            Beginning::Here(backend) => backend,
            Beginning::There(connection) => {
                let session = droppable(py, &runtime, &mut |_| Ok(()), connection.session())?;
                Backend::Remote(session.or_raise(py)?)
            }
        };
        let inner = Arc::new(SessionInner::new(Arc::clone(&self.shared), runtime, backend));
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
