//! Listening, and the life of connections.
//!
//! Invariants:
//! - Connections that have not logged in are few ([`Starting`]): however many are opened and left, who logs in at once gets in, and who
//!   is logged in is not touched.
//! - Stopping: idle connections end at once; statements have a time to finish, are then cancelled, and are waited for.

use crate::cancel::Cancels;
use crate::io::{Io, Socket};
use crate::starting::Starting;
use crate::startup::start;
use alluvia_access::{Access, Attempts, Decoys, Listener, Stopping, Tls};
use alluvia_query::Session;
use alluvia_types::{Clock, Result, SystemClock};
use futures::future::BoxFuture;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::Instrument;

/// Connections that may be logging in at once.
const STARTING_MAX: usize = 256;
/// What a statement that was cancelled, and a client that does not read, get before the server ends without them.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// How a server serves.
#[derive(Clone)]
pub struct ServerOptions {
    /// Who may connect.
    pub access: Access,
    /// Wrong passwords by address, shared with the process's other servers.
    pub attempts: Arc<Attempts>,
    /// Certificate and key; without, connections are in the clear.
    pub tls: Option<Tls>,
    /// Connections that may be logged in at once.
    pub connections_max: usize,
    /// What a client has to log in.
    pub authentication_timeout: Duration,
    /// What a statement may take, unless its role or client sets another limit; zero is no limit.
    pub statement_timeout: Duration,
    /// A connection that sends nothing for so long between statements is ended; zero never does.
    pub idle_timeout: Duration,
    /// Likewise one with an open transaction, or with a statement whose rows were not taken to their end.
    pub transaction_idle_timeout: Duration,
    /// A client that takes nothing of what it is sent for so long is gone.
    pub transfer_timeout: Duration,
    /// The longest message of a client that has logged in.
    pub message_bytes_max: usize,
    /// What running statements get to finish when the server stops.
    pub stop_wait: Duration,
}

impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions")
            .field("access", &self.access)
            .field("tls", &self.tls.is_some())
            .field("connections_max", &self.connections_max)
            .finish_non_exhaustive()
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            access: Access::Trust,
            attempts: Arc::default(),
            tls: None,
            connections_max: 200,
            authentication_timeout: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(3_600),
            idle_timeout: Duration::from_secs(8 * 3_600),
            transaction_idle_timeout: Duration::from_secs(600),
            transfer_timeout: Duration::from_secs(60),
            message_bytes_max: 64 << 20,
            stop_wait: Duration::from_secs(10),
        }
    }
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) options: ServerOptions,
    pub(crate) sessions: Box<dyn Fn() -> Session + Send + Sync>,
    pub(crate) cancels: Arc<Cancels>,
    pub(crate) decoys: Decoys,
    pub(crate) clock: SystemClock,
    pub(crate) stop: watch::Receiver<Stopping>,
    pub(crate) logged_in: AtomicUsize,
    starting: Starting,
}

impl Shared {
    /// Counts a connection that logs in; `None` if there are enough.
    pub(crate) fn log_in(self: &Arc<Shared>) -> Option<LoggedIn> {
        let count = self.logged_in.fetch_add(1, Ordering::SeqCst);
        let place = LoggedIn(Arc::clone(self));
        (count < self.options.connections_max).then_some(place)
    }
}

/// A place among the connections that are logged in.
pub(crate) struct LoggedIn(Arc<Shared>);

impl Drop for LoggedIn {
    fn drop(&mut self) {
        self.0.logged_in.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A server that listens.
pub struct Server {
    listener: Listener,
    shared: Arc<Shared>,
    stop: watch::Sender<Stopping>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("listener", &self.listener).finish_non_exhaustive()
    }
}

impl Server {
    /// Listens. Refuses an address that others can reach unless clients must log in, over TLS. `sessions` gives each connection its
    /// session.
    pub async fn bind(
        address: SocketAddr,
        options: ServerOptions,
        sessions: impl Fn() -> Session + Send + Sync + 'static,
    ) -> Result<Server> {
        let listener = Listener::bind(address, &options.access, options.tls.as_ref()).await?;
        let listener = listener.patient_for(options.transfer_timeout);
        let (stop, stopping) = watch::channel(Stopping::No);
        let shared = Shared {
            options,
            sessions: Box::new(sessions),
            cancels: Arc::default(),
            decoys: Decoys::new()?,
            clock: SystemClock::default(),
            stop: stopping,
            logged_in: AtomicUsize::new(0),
            starting: Starting::new(STARTING_MAX),
        };
        Ok(Server { listener, shared: Arc::new(shared), stop })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` completes; returns when all connections have ended.
    pub fn run<'a>(self, stop: impl Future<Output = ()> + Send + 'a) -> BoxFuture<'a, ()> {
        self.run_until(Box::pin(stop))
    }

    // Boxed, so that whoever runs a server does not compile it anew.
    fn run_until(self, mut stop: BoxFuture<'_, ()>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Server { listener, shared, stop: signal } = self;
            let mut tasks = JoinSet::new();
            let mut number = 0;
            loop {
                let (stream, peer) = tokio::select! {
                    () = &mut stop => break,
                    Some(_) = tasks.join_next() => continue,
                    accepted = listener.accept() => accepted,
                };
                number += 1;
                let span = tracing::info_span!(parent: None, "connection", protocol = "postgresql", %peer);
                let connected = connect(stream, peer, number, Arc::clone(&shared)).instrument(span);
                shared.starting.begin(number, || tasks.spawn(connected));
            }
            drop(listener);
            let waits = (shared.options.stop_wait, LAST_WAIT + LAST_WAIT);
            let all = async { while tasks.join_next().await.is_some() {} };
            alluvia_access::stop(&signal, waits, || (), all).await;
            tasks.shutdown().await;
        })
    }
}

/// One connection from its first byte to its last.
async fn connect(stream: TcpStream, peer: SocketAddr, number: u64, shared: Arc<Shared>) {
    let io = Io::new(Socket::Plain(stream), shared.options.transfer_timeout);
    let limit = shared.options.authentication_timeout;
    let started = timeout(limit, start(io, peer, Arc::clone(&shared))).await;
    shared.starting.ended(number);
    if let Ok(Some((connection, place))) = started {
        connection.serve(LAST_WAIT).await;
        drop(place);
    }
}

impl Shared {
    /// Time since some moment, for what is counted by time.
    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }
}
