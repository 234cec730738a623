//! What a node answers, on a socket.

use crate::accept::accept;
use crate::certificates::{Security, elsewhere};
use crate::greeting::Wire;
use crate::wire::{Answer, Question, encode_answer};
use crate::{MESSAGE_BYTES_MAX, METHOD, SECRET_HEADER};
use alluvia_types::{Error, ErrorKind, Result};
use bytes::{Buf, BufMut, Bytes};
use futures::future::BoxFuture;
use futures::stream::poll_fn;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::channel;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::Server;
use tonic::transport::server::Connected;
use tonic::{Request, Response, Status};

/// Who is linked is asked so often whether it is still there, and has so long to say so.
const ALIVE: Duration = Duration::from_secs(20);

/// Answers questions. Calls block, and come from many threads at once.
pub trait Handler: Send + Sync + 'static {
    /// Answers one.
    fn answer(&self, asked: Question) -> Result<Answer>;
}

/// A socket that is served; dropping it ends that.
#[derive(Debug)]
pub struct Serving {
    /// Where.
    pub address: SocketAddr,
    /// Its threads; they are not waited for.
    runtime: Option<Runtime>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Serves a node on a socket, for those who belong to its cluster.
///
/// Errors: `NotSupported` where the address is not of loopback and there are no certificates. Others: the address is taken.
pub fn serve(address: SocketAddr, security: &Security, handler: Arc<dyn Handler>) -> Result<Serving> {
    let secret = match security {
        Security::Certificates(_) => None,
        Security::Secret(_) if !address.ip().is_loopback() => return Err(elsewhere(&address.to_string())),
        Security::Secret(secret) => Some(Arc::from(secret.as_str())),
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().thread_name("alluvia-link").build();
    let runtime = runtime.map_err(|error| Error::internal(format!("no threads to serve nodes: {error}")))?;
    let taken = |error: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Io, format!("cannot listen on {address}: {error}")).with_hint("give another address")
    };
    let listener = runtime.block_on(TcpListener::bind(address)).map_err(|error| taken(&error))?;
    let address = listener.local_addr().map_err(|error| taken(&error))?;
    let service = Service { handler, secret, told: Arc::default() };
    let (wires, mut let_in) = channel(1);
    runtime.spawn(accept(listener, security.clone(), wires));
    let incoming = poll_fn(move |context| let_in.poll_recv(context).map(|wire| wire.map(Ok::<Wire, Infallible>)));
    let server = Server::builder().http2_keepalive_interval(Some(ALIVE)).http2_keepalive_timeout(Some(ALIVE));
    runtime.spawn(async move {
        let mut server = server;
        if let Err(error) = server.add_service(service).serve_with_incoming(incoming).await {
            tracing::error!(%error, "the socket for other nodes is not served any more");
        }
    });
    Ok(Serving { address, runtime: Some(runtime) })
}

impl Connected for Wire {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

#[derive(Clone)]
struct Service {
    handler: Arc<dyn Handler>,
    /// What else who is let in has to know.
    secret: Option<Arc<str>>,
    /// Whether it was logged that somebody does not.
    told: Arc<AtomicBool>,
}

impl NamedService for Service {
    const NAME: &'static str = "alluvia.Link";
}

impl tower_service::Service<http::Request<Body>> for Service {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, std::result::Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::result::Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            if request.uri().path() != METHOD {
                let what = format!("this node speaks {METHOD}, and was asked {}", request.uri().path());
                return Ok(Status::unimplemented(what).into_http());
            }
            let given = request.headers().get(SECRET_HEADER).map(|given| given.as_bytes());
            if let Some(secret) = &service.secret
                && !given.is_some_and(|given| is_same(given, secret.as_bytes()))
            {
                if !service.told.swap(true, Ordering::Relaxed) {
                    tracing::warn!("a node with another secret was refused; others are not told of");
                }
                return Ok(Status::unauthenticated("the secret of this cluster is another").into_http());
            }
            let mut grpc = Grpc::new(Raw)
                .max_decoding_message_size(MESSAGE_BYTES_MAX)
                .max_encoding_message_size(MESSAGE_BYTES_MAX);
            Ok(grpc.unary(Unary(service.handler), request).await)
        })
    }
}

/// Compares in a time that says nothing of where they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
}

struct Unary(Arc<dyn Handler>);

impl UnaryService<Bytes> for Unary {
    type Response = Bytes;
    type Future = BoxFuture<'static, std::result::Result<Response<Bytes>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let handler = Arc::clone(&self.0);
        Box::pin(async move {
            let answered = tokio::task::spawn_blocking(move || {
                let answer = Question::decode(request.get_ref()).and_then(|asked| handler.answer(asked));
                encode_answer(answer)
            });
            match answered.await {
                Ok(Ok(bytes)) => Ok(Response::new(bytes)),
                Ok(Err(error)) => Err(Status::internal(error.to_string())),
                Err(error) => Err(Status::internal(format!("a task failed: {error}"))),
            }
        })
    }
}

/// Messages as they are: the one before and behind has made them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, into: &mut EncodeBuf<'_>) -> std::result::Result<(), Status> {
        into.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> std::result::Result<Option<Bytes>, Status> {
        let len = from.remaining();
        Ok(Some(from.copy_to_bytes(len)))
    }
}
