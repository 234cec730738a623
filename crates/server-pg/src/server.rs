//! The server: listens, serves connections, and stops.
//!
//! Invariants:
//! - Connections that have not logged in are few ([`crate::pending_logins`]): however many are opened and left, who logs in at once gets in, and who
//!   is logged in is not touched.
//! - Stopping: idle connections end at once; statements have a time to finish, are then cancelled, and are waited for.

use crate::io::{Io, Socket};
use crate::server_options::ServerOptions;
use crate::shared::Shared;
use crate::startup::start;
use alluvia_access::{Listener, Stopping};
use alluvia_query::Session;
use alluvia_types::Result;
use futures::future::BoxFuture;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::Instrument;

/// What a statement that was cancelled, and a client that does not read, get before the server ends without them.
const LAST_WAIT: Duration = Duration::from_secs(5);

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
        let shared = Shared::new(options, sessions, stopping)?;
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
                shared.pending_logins.begin(number, || tasks.spawn(connected));
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
    shared.pending_logins.ended(number);
    if let Ok(Some((connection, logged_in))) = started {
        connection.serve(LAST_WAIT).await;
        drop(logged_in);
    }
}
