//! One connection: its socket, its requests in turn.
//!
//! Invariant: a client that takes nothing of its answer for `transfer_timeout` is gone, and what runs for it is cancelled.

use crate::auth::Peer;
use crate::bare::Told;
use crate::server::Shared;
use alluvia_access::{Stopping, Timed, reached};
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
use tokio_rustls::TlsAcceptor;
use tower_service::Service;
use tracing::{Instrument, Span, field, info_span};

/// The longest head of a request.
const HEAD_BYTES_MAX: usize = 32 << 10;
const HEADERS_MAX: usize = 100;

/// Serves it to its end.
pub(crate) async fn connect(stream: TcpStream, peer: SocketAddr, number: u64, shared: Arc<Shared>, router: Router) {
    let _place = Place { shared: Arc::clone(&shared), number };
    // Answers are small, and waited for.
    let _ = stream.set_nodelay(true);
    match &shared.options.tls {
        None => serve(stream, peer, number, &shared, router).await,
        Some(tls) => {
            let accepted = timeout(shared.options.header_timeout, TlsAcceptor::from(tls.config()).accept(stream)).await;
            if let Ok(Ok(stream)) = accepted {
                serve(stream, peer, number, &shared, router).await;
            }
        }
    }
}

/// Gives the connection's place back, however it ends.
struct Place {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.places.ended(self.number);
    }
}

async fn serve<S>(stream: S, peer: SocketAddr, number: u64, shared: &Arc<Shared>, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(Told::new(Timed::new(stream, shared.options.transfer_timeout)));
    let shared_there = Arc::clone(shared);
    let service = service_fn(move |mut request: Request<Incoming>| {
        shared_there.places.busy(number);
        let busy = Busy { shared: Arc::clone(&shared_there), number, span: span_of(&request) };
        let span = busy.span.clone();
        request.extensions_mut().insert(Peer(peer));
        let route = crate::metrics::route_of(request.uri().path());
        let mut router = router.clone();
        async move {
            let response = router.call(request.map(Body::new)).instrument(span).await;
            response.map(|response| {
                busy.shared.requests.answered(route, response.status());
                busy.span.record("http.response.status_code", response.status().as_u16());
                response.map(|body| Kept { body, _busy: busy })
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
        http.route = crate::metrics::route_of(request.uri().path()),
        http.response.status_code = field::Empty
    )
}

/// A request under way; its connection is idle again, and its span over, once its answer is sent.
struct Busy {
    shared: Arc<Shared>,
    number: u64,
    span: Span,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.shared.places.idle(self.number);
    }
}

/// An answer's body, which keeps its connection busy.
struct Kept {
    body: Body,
    _busy: Busy,
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
