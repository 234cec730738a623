//! A connection: a socket, and the requests that come on it in turn.
//!
//! Invariants:
//! - A client that takes nothing of its answer for `transfer_timeout` is gone, and what runs for it is cancelled.
//! - hyper has no head that was not looked at: see [`crate::request_head`].

use crate::auth::Peer;
use crate::error_body::ErrorBodySocket;
use crate::request_counts::route_of;
use crate::request_framer::HEAD_BYTES_MAX;
use crate::shared::Shared;
use alluvia_access::{Busy, ConnectionSlot, Stopping, WriteTimeout, reached};
use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower_service::Service;
use tracing::{Instrument, Span, field, info_span};

const HEADERS_MAX: usize = 100;

/// Serves a connection to its end, or until its slot is needed.
pub(crate) async fn connect(
    stream: TcpStream,
    peer: SocketAddr,
    slot: Arc<ConnectionSlot>,
    shared: Arc<Shared>,
    router: Router,
) {
    let held = Held { shared: Arc::clone(&shared), slot: Arc::clone(&slot) };
    let served = async {
        match &shared.options.tls {
            None => serve(stream, peer, &slot, &shared, router).await,
            Some(tls) => {
                let accepted = timeout(shared.options.header_timeout, tls.accept(stream, &[])).await;
                if let Ok(Ok(stream)) = accepted {
                    serve(stream, peer, &slot, &shared, router).await;
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = slot.closing() => {}
        () = served => {}
    }
    drop(held);
}

/// Gives the slot of the connection back, however the connection ends.
struct Held {
    shared: Arc<Shared>,
    slot: Arc<ConnectionSlot>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.connections.ended(&self.slot);
    }
}

async fn serve<S>(stream: S, peer: SocketAddr, slot: &Arc<ConnectionSlot>, shared: &Arc<Shared>, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(ErrorBodySocket::new(WriteTimeout::new(stream, shared.options.transfer_timeout)));
    let (shared_there, slot) = (Arc::clone(shared), Arc::clone(slot));
    let service = service_fn(move |mut request: Request<Incoming>| {
        let shared = Arc::clone(&shared_there);
        let clock = Arc::clone(&shared_there);
        let busy = Busy::new(Arc::clone(&slot), move || clock.now());
        let span = span_of(&request);
        request.extensions_mut().insert(Peer(peer));
        let route = route_of(request.uri().path());
        let mut router = router.clone();
        async move {
            let response = router.call(request.map(Body::new)).instrument(span.clone()).await;
            response.map(|response| {
                shared.requests.answered(route, response.status());
                span.record("http.response.status_code", response.status().as_u16());
                response.map(|body| Kept { body, _busy: busy, _span: span })
            })
        }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(shared.options.header_timeout)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    let connection = builder.serve_connection(io, service);
    tokio::pin!(connection);
    let mut stop = shared.stop.clone();
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = reached(&mut stop, Stopping::Idle) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "a connection ended early");
    }
}

/// The span of a request: the first of a trace, or part of the client's.
fn span_of(request: &Request<Incoming>) -> Span {
    let traceparent = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
    info_span!(
        parent: None,
        "request",
        kind = "server",
        traceparent,
        http.request.method = request.method().as_str(),
        http.route = route_of(request.uri().path()),
        http.response.status_code = field::Empty
    )
}

/// An answer's body: its connection is idle again, and its request's span over, once it is sent.
struct Kept {
    body: Body,
    _busy: Busy,
    _span: Span,
}

impl HttpBody for Kept {
    type Data = bytes::Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
