//! Connections of the shell, in which statements run: a database that is open in this process, or a server.
//!
//! Invariants:
//! - The shell does the same with both. Files that COPY names are the server's, which is said; those of `\copy` and standard streams are
//!   this machine's (`copying`).
//! - A stop reaches the statement that it was meant for: the next one waits until the server has answered to it, unless that takes too long.
//! - A session that its server does not know any more is never replaced in silence: its settings and its transaction are gone.

use super::client_copy::{self, Watched};
use super::interrupt;
use super::output_settings::Sink;
use super::statement::{Answer, Bounded, Refining, Statement};
use crate::target::{ServerArgs, is_url};
use crate::{OpenArgs, note};
use alluvia_client::Target;
use alluvia_copy::progress::Progress;
use alluvia_node::Database;
use alluvia_syntax::copy::streams::Streams;
use alluvia_syntax::{Command, script};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::time_zone::Zone;
use clap::Args;
use futures::FutureExt;
use futures::future::BoxFuture;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

/// How often whoever was asked to stop is asked again: the first time the statement may not have begun.
const STOP_EVERY: Duration = Duration::from_millis(250);
/// The place of a database that is gone when the shell ends, as other shells name it.
const MEMORY: &str = ":memory:";
/// Files in memory, on Linux.
const SHARED_MEMORY: &str = "/dev/shm";
/// What a server gets to hear that a session ends, or that a statement was to be stopped.
pub(super) const GOODBYE: Duration = Duration::from_secs(2);
/// How often a server is asked how far a statement is.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Where statements run, and how.
#[derive(Args)]
pub struct PlaceArgs {
    /// The data directory, created if it does not exist; `:memory:` for one that is gone at the end; or the URL of a server.
    #[arg(value_name = "DIR", required_unless_present = "host", conflicts_with = "host")]
    place: Option<PathBuf>,
    #[command(flatten)]
    how: HowArgs,
}

/// How a database is opened, or a server connected to.
#[derive(Args)]
pub struct HowArgs {
    /// Memory to use in all, such as 4GB [default: three quarters of the machine's].
    #[arg(long, value_name = "SIZE")]
    memory_limit: Option<String>,
    /// Threads [default: one per core].
    #[arg(long)]
    threads: Option<usize>,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// A session of the shell's, and where it is.
pub enum Connection {
    Embedded {
        db: Arc<Database>,
        session: Box<alluvia_query::Session>,
        /// The folder of a database in memory, which goes with its last connection.
        memory: Option<Arc<TempDir>>,
    },
    Remote(Remote),
}

/// Settings of a session at a server that the shell goes by.
#[derive(Clone)]
struct Known {
    is_progressive: bool,
    time_zone: Zone,
}

/// A session at a server.
pub struct Remote {
    connection: Arc<alluvia_client::Connection>,
    session: Mutex<Arc<alluvia_client::Session>>,
    place: String,
    /// What is known of the session's settings; `None` where it has to be asked.
    known: Mutex<Option<Known>>,
    /// Whether it was said whose files COPY means.
    has_told_of_files: AtomicBool,
    /// Whether the last statement may have set something while its rows came.
    has_set: AtomicBool,
    /// The COPY that is done here, or the last one.
    copying: Mutex<Watched>,
}

impl PlaceArgs {
    /// Opens the directory, or connects to the server.
    pub async fn open(self) -> Result<Connection> {
        self.how.open(self.place).await
    }
}

impl HowArgs {
    /// Opens the directory, or connects to the server: the one of the options, or else the one whose URL the place is.
    pub async fn open(self, place: Option<PathBuf>) -> Result<Connection> {
        let url = place.as_ref().and_then(|place| place.to_str()).filter(|place| is_url(place));
        let Some(server) = self.server.host.as_deref().or(url) else {
            if self.server.user.is_some() || self.server.tls_ca.is_some() {
                return Err(Error::new(
                    ErrorKind::InvalidSetting,
                    "--user and --tls-ca are of a server, and a directory is given",
                )
                .with_hint("state the server with --host HOST:PORT"));
            }
            let HowArgs { memory_limit, threads, .. } = self;
            let dir = place.ok_or_else(|| Error::internal("neither a directory nor a server is given"))?;
            let memory = is_memory(&dir).then(in_memory).transpose()?;
            let dir = memory.as_ref().map_or(dir, |folder| folder.path().join("memory"));
            let is_new = memory.is_none() && !dir.join("manifest").exists();
            let db = Arc::new(OpenArgs { dir, memory_limit, threads }.open()?);
            if is_new {
                note(format_args!("NOTICE: created {}: there was no database", db.core().dir().display()));
            }
            let session = Box::new(db.session());
            return Ok(Connection::Embedded { db, session, memory: memory.map(Arc::new) });
        };
        for (name, is_given) in [("--memory-limit", self.memory_limit.is_some()), ("--threads", self.threads.is_some())]
        {
            if is_given {
                return Err(Error::new(
                    ErrorKind::InvalidSetting,
                    format!("{name} is of a database that is opened here"),
                )
                .with_hint("a server has its own; SET memory_limit and SET threads are the session's"));
            }
        }
        Ok(Connection::Remote(Remote::open(&self.server.target(server)?).await?))
    }
}

/// Whether a place is a database that is gone when the shell ends.
fn is_memory(place: &Path) -> bool {
    place.as_os_str() == MEMORY
}

/// A folder that lies in memory where the system has one, else among temporary files.
fn in_memory() -> Result<TempDir> {
    let shared = Path::new(SHARED_MEMORY);
    let made = if shared.is_dir() { TempDir::new_in(shared) } else { TempDir::new() };
    made.map_err(|error| Error::io(shared, "making a folder in", &error))
}

impl Remote {
    async fn open(target: &Target) -> Result<Remote> {
        let connection = Arc::new(alluvia_client::Connection::open(target).await?);
        let place = match target.host.contains(':') {
            true => format!("[{}]:{}", target.host, target.port),
            false => format!("{}:{}", target.host, target.port),
        };
        Remote::begin(connection, place).await
    }

    async fn begin(connection: Arc<alluvia_client::Connection>, place: String) -> Result<Remote> {
        let session = Mutex::new(connection.session().await?);
        Ok(Remote {
            connection,
            session,
            place,
            known: Mutex::default(),
            has_told_of_files: AtomicBool::default(),
            has_set: AtomicBool::default(),
            copying: Mutex::default(),
        })
    }

    fn session(&self) -> Arc<alluvia_client::Session> {
        Arc::clone(&self.session.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Option<Known>> {
        self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The session's settings; `None` where it does not answer: whatever is wrong with it, the statement itself will say.
    async fn asked(&self) -> Option<Known> {
        let known = self.known().clone();
        if known.is_some() {
            return known;
        }
        let Ok(Ok(state)) = timeout(GOODBYE, self.session().state()).await else { return None };
        // An older server does not say in which zone it is.
        let time_zone = Zone::of_setting(&state.time_zone).unwrap_or_default();
        let asked = Known { is_progressive: state.is_progressive, time_zone };
        *self.known() = Some(asked.clone());
        Some(asked)
    }

    fn copying(&self) -> std::sync::MutexGuard<'_, Watched> {
        self.copying.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Says what differs of a statement that is about to run.
    fn tell(&self, statement: &Statement) {
        if statement.is_copy() && !self.has_told_of_files.swap(true, Ordering::Relaxed) {
            note(format_args!(
                "NOTICE: files that COPY names are those of the server at {}; \\copy names this machine's",
                self.place
            ));
        }
        // What a statement does beside its rows may be to set something, or to take back what was set.
        let is_known =
            matches!(statement.command(), Command::Query | Command::Show | Command::Insert | Command::Change);
        // `set_config` sets while its rows come: what was asked meanwhile may be of before.
        let sets = statement.text.to_ascii_lowercase().contains("set_config");
        if self.has_set.swap(sets, Ordering::Relaxed) || sets || !is_known {
            *self.known() = None;
        }
    }
}

impl Connection {
    /// Another session at the same place.
    pub async fn another(&self) -> Result<Connection> {
        Ok(match self {
            Connection::Embedded { db, memory, .. } => {
                Connection::Embedded { db: Arc::clone(db), session: Box::new(db.session()), memory: memory.clone() }
            }
            Connection::Remote(remote) => {
                Connection::Remote(Remote::begin(Arc::clone(&remote.connection), remote.place.clone()).await?)
            }
        })
    }

    /// What the prompt calls it.
    pub fn name(&self) -> String {
        match self {
            Connection::Embedded { db, .. } => {
                let name = db.core().dir().file_name();
                name.map_or_else(|| "alluvia".into(), |name| name.to_string_lossy().into_owned())
            }
            Connection::Remote(remote) => remote.place.clone(),
        }
    }

    /// Where it is, in words.
    pub fn told(&self) -> String {
        match self {
            Connection::Embedded { memory: Some(_), .. } => "of this process, in memory".to_owned(),
            Connection::Embedded { db, .. } => format!("of this process in {}", db.core().dir().display()),
            Connection::Remote(remote) => format!("at the server {}", remote.place),
        }
    }

    /// The statements of a text. What a server is to be asked and cannot be parsed here goes to it as it is.
    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        match self {
            Connection::Embedded { session, .. } => {
                let parsed = session.parse(sql)?.into_iter();
                Ok(parsed.map(|parsed| Statement::of(parsed.sql().to_owned(), Some(parsed))).collect())
            }
            Connection::Remote(_) => Ok(match script(sql) {
                Ok(all) => all.into_iter().map(|(parsed, text)| Statement::of(text, Some(parsed))).collect(),
                Err(_) => vec![Statement::of(sql.to_owned(), None)],
            }),
        }
    }

    /// Runs a statement; returns when its rows begin to come.
    pub async fn execute(&self, statement: Statement) -> Result<Answer> {
        self.execute_to(statement, Sink::Out).await
    }

    /// The same; what `STDOUT` means goes there.
    pub async fn execute_to(&self, statement: Statement, sink: Sink) -> Result<Answer> {
        let streams = Streams { stdout: Some(Box::new(sink)), ..Streams::of_process() };
        self.execute_with(statement, streams).await
    }

    /// The same, with what `STDIN` and `STDOUT` are to it.
    pub async fn execute_with(&self, statement: Statement, streams: Streams) -> Result<Answer> {
        match self {
            Connection::Embedded { session, .. } => Ok(session.execute_with(parsed(statement)?, streams).await?.into()),
            Connection::Remote(remote) => match statement.copy_here()? {
                Some(copy) => {
                    let watched = Watched::default();
                    *remote.copying() = watched.clone();
                    client_copy::run(&remote.session(), watched, copy, streams).await
                }
                None => {
                    remote.tell(&statement);
                    Ok(remote.session().execute_plainly(&statement.text).await?.into())
                }
            },
        }
    }

    /// Runs a query; what of it is estimated comes with its bounds.
    pub async fn bounded(&self, statement: Statement) -> Result<Bounded> {
        match self {
            Connection::Embedded { session, .. } => Bounded::of(session.answer_statement(parsed(statement)?).await?),
            Connection::Remote(remote) => {
                remote.tell(&statement);
                Bounded::of_server(remote.session().execute(&statement.text).await?).await
            }
        }
    }

    /// Runs a statement whose answer is wanted as far as it is known.
    pub async fn refine(&self, statement: Statement) -> Result<Refining> {
        match self {
            Connection::Embedded { session, .. } => Ok(session.refine_statement(parsed(statement)?).await?.into()),
            Connection::Remote(remote) => {
                remote.tell(&statement);
                Ok(remote.session().refine(&statement.text).await?.into())
            }
        }
    }

    /// Runs one statement of the shell's own.
    pub async fn sql(&self, sql: &str) -> Result<Answer> {
        let statement = self.parse(sql)?.pop().ok_or_else(|| Error::internal("a statement was parsed to nothing"))?;
        self.execute(statement).await
    }

    /// In which moments are shown: the session's time zone.
    pub async fn time_zone(&self) -> Zone {
        match self {
            Connection::Embedded { session, .. } => session.time_zone(),
            Connection::Remote(remote) => remote.asked().await.map_or_else(Zone::utc, |known| known.time_zone),
        }
    }

    /// Whether queries are to be refined: the session's setting `progressive`.
    pub async fn is_progressive(&self) -> bool {
        match self {
            Connection::Embedded { session, .. } => session.is_progressive(),
            Connection::Remote(remote) => remote.asked().await.is_some_and(|known| known.is_progressive),
        }
    }

    /// How far the COPY is that runs, or the last one.
    pub fn copied(&self) -> Arc<Progress> {
        match self {
            Connection::Embedded { session, .. } => session.progress(),
            Connection::Remote(remote) => Arc::clone(&remote.copying().progress),
        }
    }

    /// Tells how far the running statement is, for as long as it is held.
    pub fn watch(&self) -> Watch<'_> {
        match self {
            Connection::Embedded { session, .. } => Watch::Embedded(session),
            Connection::Remote(remote) => {
                let told = Arc::new(AtomicU64::new(0f64.to_bits()));
                let (session, tell) = (remote.session(), Arc::clone(&told));
                let asking = tokio::spawn(async move {
                    while let Ok(state) = session.state().await {
                        tell.store(state.fraction.unwrap_or(0.0).to_bits(), Ordering::Relaxed);
                        sleep(LOOK_EVERY).await;
                    }
                });
                Watch::Remote { told, asking }
            }
        }
    }

    /// Does what a statement asks; Ctrl-C stops it, also where it was pressed just before.
    pub async fn cancellable<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        if interrupt::was_pressed() {
            return Err(Error::new(ErrorKind::Cancelled, "the statement was cancelled"));
        }
        tokio::pin!(work);
        let mut again = interval(STOP_EVERY);
        again.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut is_stopping, mut asked) = (false, None::<BoxFuture<'static, ()>>);
        loop {
            tokio::select! {
                result = &mut work => {
                    if let Some(asked) = asked {
                        let _ = timeout(GOODBYE, asked).await;
                    }
                    return result;
                }
                () = answered(&mut asked) => asked = None,
                () = interrupt::pressed() => {
                    is_stopping = true;
                    again.reset_immediately();
                }
                _ = again.tick(), if is_stopping && asked.is_none() => asked = Some(self.stop()),
            }
        }
    }

    /// Stops what runs.
    fn stop(&self) -> BoxFuture<'static, ()> {
        match self {
            Connection::Embedded { session, .. } => {
                session.cancel_handle().cancel();
                futures::future::ready(()).boxed()
            }
            Connection::Remote(remote) => {
                remote.copying().cancel.cancel();
                let session = remote.session();
                // A server that does not hear it has ended the statement, or is away.
                async move { drop(session.cancel().await) }.boxed()
            }
        }
    }

    /// After an error: what has become of a server's session, and another one where it is gone. `None` where all is well.
    pub async fn recover(&self) -> Option<String> {
        let Connection::Remote(remote) = self else { return None };
        let session = remote.session();
        if !session.is_lost() {
            match timeout(GOODBYE, session.state()).await {
                Ok(Ok(_)) => return None,
                _ if session.is_lost() => {}
                _ => {
                    return Some(format!(
                        "there is no connection to {} now; the next statement tries again",
                        remote.place
                    ));
                }
            }
        }
        match timeout(GOODBYE, remote.connection.session()).await {
            Ok(Ok(begun)) => {
                *remote.session.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = begun;
                *remote.known() = None;
                Some(format!(
                    "a new session has begun at {}: what SET and BEGIN had done in the one before is gone",
                    remote.place
                ))
            }
            Ok(Err(error)) => Some(format!("{} gives no new session: {}", remote.place, error.message())),
            Err(_) => Some(format!("{} does not answer; the next statement tries again", remote.place)),
        }
    }

    /// Ends the session: what is open is rolled back.
    pub async fn close(&self) {
        let Connection::Remote(remote) = self else { return };
        let session = remote.session();
        if !session.is_lost() {
            // A server that does not hear it ends the session when it has been idle for long enough.
            let _ = timeout(GOODBYE, session.close()).await;
        }
    }
}

fn parsed(statement: Statement) -> Result<alluvia_syntax::Statement> {
    statement.parsed.ok_or_else(|| Error::internal("a statement is to run here, and was not parsed"))
}

/// Completes when a question that is under way is answered.
async fn answered(asked: &mut Option<BoxFuture<'static, ()>>) {
    match asked {
        Some(asked) => asked.await,
        None => std::future::pending().await,
    }
}

/// How far a statement is.
pub enum Watch<'a> {
    Embedded(&'a alluvia_query::Session),
    Remote { told: Arc<AtomicU64>, asking: JoinHandle<()> },
}

impl Watch<'_> {
    /// From 0 to 1; 0 where nobody knows.
    pub fn fraction(&self) -> f64 {
        match self {
            Watch::Embedded(session) => session.report().and_then(|report| report.fraction).unwrap_or(0.0),
            Watch::Remote { told, .. } => f64::from_bits(told.load(Ordering::Relaxed)),
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if let Watch::Remote { asking, .. } = self {
            asking.abort();
        }
    }
}
