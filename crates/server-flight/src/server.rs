//! The server: listens, serves connections, and stops.
//!
//! Invariants:
//! - Whatever a client opens and leaves is closed in time: see [`crate::connection`], [`crate::socket`], [`crate::login`], [`crate::tokens`].
//! - Stopping: new calls are refused; statements have a time to finish, are then cancelled, and are waited for.

use crate::connection::Connection;
use crate::interceptor::AuthInterceptor;
use crate::server_options::ServerOptions;
use crate::service::Service;
use crate::shared::Shared;
use crate::socket::{Socket, Wire};
use alluvia_access::{Listener, Stopping};
use alluvia_query::Engine;
use alluvia_types::Result;
use arrow_flight::flight_service_server::FlightServiceServer;
use futures::future::BoxFuture;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};
use tonic::transport::Server as GrpcServer;

/// What statements that were cancelled get before the server ends without them.
const LAST_WAIT: Duration = Duration::from_secs(10);
/// Calls that a connection may have under way.
const STREAMS_MAX: u32 = 100;
/// The longest headers of a call.
const HEADERS_BYTES_MAX: u32 = 32 << 10;
/// What a client may have sent before it is read, on one stream and on a connection.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// How often a silent connection is asked whether it is there, and what it has to answer.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(60);
const KEEP_ALIVE_WITHIN: Duration = Duration::from_secs(20);
/// What clients get to close connections without calls by themselves when the server stops.
const GOODBYE: Duration = Duration::from_millis(500);
/// How often it is looked for what has waited too long.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// HTTP/2, by the name under which TLS agrees on it. Clients of gRPC insist.
const H2: &[u8] = b"h2";

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
            let (give, mut given) = mpsc::channel::<io::Result<Socket>>(16);
            let service = FlightServiceServer::new(Service::new(Arc::clone(&shared)))
                .max_decoding_message_size(shared.options.message_bytes_max)
                .max_encoding_message_size(usize::MAX);
            let service = AuthInterceptor::new(service, Arc::clone(&shared));
            let mut stopping = shared.stop.clone();
            let serving = GrpcServer::builder()
                .max_concurrent_streams(STREAMS_MAX)
                .http2_max_header_list_size(HEADERS_BYTES_MAX)
                .initial_stream_window_size(STREAM_WINDOW_BYTES)
                .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
                .http2_keepalive_interval(Some(KEEP_ALIVE_EVERY))
                .http2_keepalive_timeout(Some(KEEP_ALIVE_WITHIN))
                .add_service(service)
                .serve_with_incoming_shutdown(
                    futures::stream::poll_fn(move |context| given.poll_recv(context)),
                    async move { alluvia_access::reached(&mut stopping, Stopping::Idle).await },
                );
            let mut serving = tokio::spawn(serving);
            let mut starting = JoinSet::new();
            let mut sweeps = interval(SWEEP_EVERY);
            loop {
                let (stream, peer) = tokio::select! {
                    () = &mut stop => break,
                    _ = sweeps.tick() => {
                        shared.sweep();
                        continue;
                    }
                    Some(_) = starting.join_next() => continue,
                    accepted = listener.accept() => accepted,
                };
                // Who finds no room is closed at once: before its first call there is no way to say why.
                let connections_max = shared.options.connections_max;
                let admitted =
                    shared.connections.admit(connections_max, shared.now(), |slot| Connection::new(slot, peer));
                if let Some(connection) = admitted {
                    let (shared, give) = (Arc::clone(&shared), give.clone());
                    starting.spawn(async move {
                        match encrypted(stream, &connection, &shared).await {
                            Some(wire) => drop(give.send(Ok(Socket::new(wire, connection, shared))).await),
                            None => shared.connections.ended(&connection.slot),
                        }
                    });
                }
            }
            drop(listener);
            starting.shutdown().await;
            drop(give);
            signal.send_replace(Stopping::Idle);
            let waits = (shared.options.stop_wait, LAST_WAIT);
            if timeout(GOODBYE.min(waits.0), &mut serving).await.is_err() {
                let end_idle = || shared.connections.close_idle(shared.now());
                alluvia_access::stop(&signal, waits, end_idle, async { drop((&mut serving).await) }).await;
            }
            signal.send_replace(Stopping::All);
            serving.abort();
            drop(shared);
            let _ = timeout(LAST_WAIT, work_ended.recv()).await;
        })
    }
}

/// The stream as bytes of HTTP/2 go through it; `None` if the client fails to agree on TLS in time, or has to make room.
async fn encrypted(stream: TcpStream, connection: &Connection, shared: &Shared) -> Option<Wire> {
    let Some(tls) = &shared.options.tls else { return Some(Wire::Plain(stream)) };
    tokio::select! {
        accepted = timeout(shared.options.authentication_timeout, tls.accept(stream, &[H2])) => {
            accepted.ok()?.ok().map(|stream| Wire::Tls(Box::new(stream)))
        }
        () = connection.slot.closing() => None,
    }
}
