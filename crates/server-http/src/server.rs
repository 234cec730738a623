//! Listening, and the life of connections.
//!
//! Invariants:
//! - Connections are bounded, and who has a request under way makes no room for others: see [`alluvia_access::Places`].
//! - Stopping: connections without a request end at once; statements have a time to finish, are then cancelled, and are waited for.

use crate::connection::connect;
use crate::metrics::Requests;
use crate::routes::router;
use alluvia_access::{Access, Attempts, ConnectionSlot, Door, Listener, Places, Stopping, Tls};
use alluvia_query::Engine;
use alluvia_types::{Clock, Result, SystemClock};
use futures::future::BoxFuture;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::Instrument;

/// What statements that were cancelled get before the server ends without them.
const LAST_WAIT: Duration = Duration::from_secs(10);
/// What a client is told for whom there is no room.
const NO_ROOM: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\nretry-after: 1\r\n\
    content-length: 88\r\n\r\n{\"error\":{\"code\":\"53300\",\"message\":\"all connections are busy\",\"hint\":\"try again later\"}}";

/// How a server serves.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Who may ask.
    pub access: Access,
    /// Wrong passwords by address, shared with the process's other servers.
    pub attempts: Arc<Attempts>,
    /// Certificate and key; with them all connections are encrypted, without them none.
    pub tls: Option<Tls>,
    /// Connections at once.
    pub connections_max: usize,
    /// What a statement may take, unless its role or request states another limit; zero is no limit.
    pub statement_timeout: Duration,
    /// What a client has to send the head of a request, and a connection to send the next one.
    pub header_timeout: Duration,
    /// A client that sends nothing more of a body, or takes nothing of an answer, for so long is gone.
    pub transfer_timeout: Duration,
    /// The longest statement.
    pub statement_bytes_max: usize,
    /// The longest body of rows, also unpacked.
    pub body_bytes_max: u64,
    /// Whether clients of this machine read `/metrics` without a password; all others have to be superusers or in `pg_monitor`.
    pub metrics_on_loopback: bool,
    /// What running statements get to finish when the server stops.
    pub stop_wait: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            access: Access::Trust,
            attempts: Arc::default(),
            tls: None,
            connections_max: 200,
            statement_timeout: Duration::from_secs(3_600),
            header_timeout: Duration::from_secs(30),
            transfer_timeout: Duration::from_secs(60),
            statement_bytes_max: 64 << 20,
            body_bytes_max: 1 << 30,
            metrics_on_loopback: false,
            stop_wait: Duration::from_secs(10),
        }
    }
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) options: ServerOptions,
    pub(crate) engine: Arc<Engine>,
    pub(crate) door: Door,
    pub(crate) clock: SystemClock,
    pub(crate) stop: watch::Receiver<Stopping>,
    pub(crate) places: Places<Arc<ConnectionSlot>>,
    pub(crate) requests: Requests,
    /// The server ends when the last task that holds this has: every one that runs a statement does.
    _at_work: mpsc::Sender<()>,
}

impl Shared {
    /// Time since some moment, for what is counted by time.
    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }
}

/// A server that listens.
pub struct Server {
    listener: Listener,
    shared: Arc<Shared>,
    stop: watch::Sender<Stopping>,
    work_ended: mpsc::Receiver<()>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("listener", &self.listener).finish_non_exhaustive()
    }
}

impl Server {
    /// Listens. Refuses an address that others can reach unless clients must log in, over TLS.
    pub async fn bind(address: SocketAddr, options: ServerOptions, engine: Arc<Engine>) -> Result<Server> {
        let listener = Listener::bind(address, &options.access, options.tls.as_ref()).await?;
        let listener = listener.patient_for(options.transfer_timeout);
        let (stop, stopping) = watch::channel(Stopping::No);
        let (at_work, work_ended) = mpsc::channel(1);
        let shared = Shared {
            options,
            engine,
            door: Door::new()?,
            clock: SystemClock::default(),
            stop: stopping,
            places: Places::default(),
            requests: Requests::default(),
            _at_work: at_work,
        };
        Ok(Server { listener, shared: Arc::new(shared), stop, work_ended })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` completes; returns when all statements have ended.
    pub fn run<'a>(self, stop: impl Future<Output = ()> + Send + 'a) -> BoxFuture<'a, ()> {
        self.run_until(Box::pin(stop))
    }

    // Boxed, so that whoever runs a server does not compile it anew.
    fn run_until(self, mut stop: BoxFuture<'_, ()>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Server { listener, shared, stop: signal, mut work_ended } = self;
            let router = router(Arc::clone(&shared));
            let mut tasks = JoinSet::new();
            loop {
                let (mut stream, peer) = tokio::select! {
                    () = &mut stop => break,
                    Some(_) = tasks.join_next() => continue,
                    accepted = listener.accept() => accepted,
                };
                let place = shared.places.admit(shared.options.connections_max, shared.now(), |place| place);
                if let Some(place) = place {
                    let span = tracing::info_span!(parent: None, "connection", protocol = "http", %peer);
                    tasks.spawn(connect(stream, peer, place, Arc::clone(&shared), router.clone()).instrument(span));
                } else if shared.options.tls.is_none() {
                    tasks.spawn(async move {
                        let told = async { stream.write_all(NO_ROOM).await };
                        let _ = timeout(Duration::from_secs(1), told).await;
                    });
                }
            }
            drop(listener);
            let all = async { while tasks.join_next().await.is_some() {} };
            let end_idle = || shared.places.close_idle(Duration::MAX);
            alluvia_access::stop(&signal, (shared.options.stop_wait, LAST_WAIT), end_idle, all).await;
            tasks.shutdown().await;
            drop(router);
            drop(shared);
            let _ = timeout(LAST_WAIT, work_ended.recv()).await;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_without_room_is_told_is_as_long_as_it_says() {
        let text = std::str::from_utf8(NO_ROOM).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
    }
}
