//! The interceptor: lets a call in by its headers, before anything else of the call is read.
//!
//! Invariants:
//! - A call that shows no password and no token is answered by its headers alone: no byte of its message is waited for, decoded or
//!   kept, however long it says that it is. The service behind sees calls that were let in, each with its [`Caller`].
//! - A message of which nothing more comes for `transfer_timeout` is refused: a call that waits for it would keep its connection.
//! - A message that its client breaks off ends with an error, and never as if it were whole.
//! - A handshake has nobody yet. It goes on to the service, which asks its headers, too, and never reads its messages.

use crate::auth;
use crate::caller::Caller;
use crate::failure::status;
use crate::shared::Shared;
use alluvia_types::{Error, ErrorKind};
use futures::stream;
use http_body::Body as _;
use http_body_util::{BodyExt, StreamBody};
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{BoxFuture, Service};
use tonic::server::NamedService;
use tonic::{Code, Extensions, Status};

/// The one call that makes callers.
const HANDSHAKE: &str = "/arrow.flight.protocol.FlightService/Handshake";

/// Lets calls in to the gRPC service behind.
#[derive(Clone)]
pub(crate) struct AuthInterceptor<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S> AuthInterceptor<S> {
    /// An interceptor before this service.
    pub(crate) fn new(inner: S, shared: Arc<Shared>) -> AuthInterceptor<S> {
        AuthInterceptor { inner, shared }
    }
}

impl<S: NamedService> NamedService for AuthInterceptor<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for AuthInterceptor<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The one that was polled is the one that is ready.
        let ready = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, ready);
        if request.uri().path() == HANDSHAKE {
            return Box::pin(inner.call(request));
        }
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            match auth::caller(&shared, &parts.headers, &parts.extensions).await {
                Ok(caller) => {
                    parts.extensions.insert(caller);
                    let body = coming(body, shared.options.transfer_timeout);
                    inner.call(Request::from_parts(parts, body)).await
                }
                Err(error) => Ok(status(&error).into_http()),
            }
        })
    }
}

/// A body that ends with an error once nothing of it comes for so long, and where the client breaks it off: of a call that was cancelled
/// tonic says that its messages have ended, and hyper of one that was reset with NO_ERROR.
fn coming(body: Body, wait: Duration) -> Body {
    let broken_off = || Status::aborted("the client broke off its message");
    let frames = stream::unfold(Some(body), move |body| async move {
        let mut body = body?;
        match timeout(wait, body.frame()).await {
            Ok(Some(Ok(frame))) => Some((Ok(frame), Some(body))),
            Ok(Some(Err(error))) if error.code() != Code::Cancelled => Some((Err(error), None)),
            Ok(Some(Err(_))) => Some((Err(broken_off()), None)),
            Ok(None) if !body.is_end_stream() => Some((Err(broken_off()), None)),
            Ok(None) => None,
            Err(_) => {
                let message = format!("nothing more of the message came for {} seconds", wait.as_secs());
                Some((Err(status(&Error::new(ErrorKind::Timeout, message))), None))
            }
        }
    });
    Body::new(StreamBody::new(frames))
}

/// Who was let in.
pub(crate) fn entered(extensions: &Extensions) -> Result<Arc<Caller>, Status> {
    extensions
        .get::<Arc<Caller>>()
        .cloned()
        .ok_or_else(|| status(&Error::internal("a call has passed by the interceptor")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use futures::StreamExt;
    use http_body::Frame;
    use http_body_util::Full;

    /// What comes of frames: the bytes, and how it ends.
    async fn comes(body: Body) -> (usize, Option<Code>) {
        let (mut body, mut bytes) = (coming(body, Duration::from_millis(50)), 0);
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => bytes += frame.into_data().map_or(0, |data| data.len()),
                Err(error) => return (bytes, Some(error.code())),
            }
        }
        (bytes, None)
    }

    fn frames(frames: Vec<Result<&'static [u8], Status>>) -> Body {
        let frames = frames.into_iter().map(|frame| frame.map(|bytes| Frame::data(Bytes::from_static(bytes))));
        Body::new(StreamBody::new(stream::iter(frames)))
    }

    #[tokio::test]
    async fn half_of_a_message_is_never_taken_for_all() {
        assert_eq!(comes(Body::new(Full::new(Bytes::from_static(b"whole")))).await, (5, None));
        assert_eq!(comes(Body::empty()).await, (0, None));
        let cancelled = frames(vec![Ok(b"half"), Err(Status::cancelled("h2 protocol error"))]);
        assert_eq!(comes(cancelled).await, (4, Some(Code::Aborted)));
        // Such a body does not say that it has come to its end.
        assert_eq!(comes(frames(vec![Ok(b"half")])).await, (4, Some(Code::Aborted)));
        let refused = frames(vec![Ok(b"half"), Err(Status::resource_exhausted("too long"))]);
        assert_eq!(comes(refused).await, (4, Some(Code::ResourceExhausted)));
        let rests = stream::iter([Ok::<_, Status>(Frame::data(Bytes::from_static(b"half")))]).chain(stream::pending());
        assert_eq!(
            comes(Body::new(StreamBody::new(rests))).await.1,
            Some(status(&Error::new(ErrorKind::Timeout, "")).code())
        );
    }
}
