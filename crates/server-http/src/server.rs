//! The server: listens, serves connections, and stops.
//!
//! Invariants:
//! - Connections are bounded, and who has a request under way makes no room for others: see [`alluvia_access::OpenConnections`].
//! - Stopping: connections without a request end at once; statements have a time to finish, are then cancelled, and are waited for.

use crate::connection::connect;
use crate::routes::router;
use crate::server_options::ServerOptions;
use crate::shared::Shared;
use alluvia_access::{Listener, Stopping};
use alluvia_query::Engine;
use alluvia_types::Result;
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
        let shared = Shared::new(options, engine, stopping, at_work)?;
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
                let slot = shared.connections.admit(shared.options.connections_max, shared.now(), |slot| slot);
                if let Some(slot) = slot {
                    let span = tracing::info_span!(parent: None, "connection", protocol = "http", %peer);
                    tasks.spawn(connect(stream, peer, slot, Arc::clone(&shared), router.clone()).instrument(span));
                } else if shared.options.tls.is_none() {
                    tasks.spawn(async move {
                        let told = async { stream.write_all(NO_ROOM).await };
                        let _ = timeout(Duration::from_secs(1), told).await;
                    });
                }
            }
            drop(listener);
            let all = async { while tasks.join_next().await.is_some() {} };
            let end_idle = || shared.connections.close_idle(Duration::MAX);
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
