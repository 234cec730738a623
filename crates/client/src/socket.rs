//! The socket to a server, with TLS or without.
//!
//! Invariant: who has a password to show gets no socket without TLS to another machine.

use crate::tls;
use alluvia_types::{Error, ErrorKind, Result};
use futures::future::BoxFuture;
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::{fmt, io};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tonic::transport::Uri;
use tower_service::Service;

/// HTTP/2, by the name under which TLS agrees on it.
const H2: &[u8] = b"h2";

/// What bytes go through.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// Makes sockets to one server, the first and those after it was lost.
#[derive(Clone)]
pub(crate) struct Sockets {
    host: Arc<str>,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    has_password: bool,
}

impl fmt::Debug for Sockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sockets").field("host", &self.host).field("port", &self.port).finish_non_exhaustive()
    }
}

impl Sockets {
    /// To a server; with certificates to trust, within TLS.
    pub(crate) fn new(host: &str, port: u16, trusted: Option<&[u8]>, has_password: bool) -> Result<Sockets> {
        let tls = match trusted {
            None => None,
            Some(pem) => {
                let mut config = tls::trusting(pem)?;
                config.alpn_protocols = vec![H2.to_vec()];
                Some((TlsConnector::from(Arc::new(config)), tls::server_name(host)?))
            }
        };
        Ok(Sockets { host: host.into(), port, tls, has_password })
    }

    async fn connect(self) -> io::Result<Box<dyn Wire>> {
        let stream = TcpStream::connect((self.host.as_ref(), self.port)).await?;
        // Calls are small, and waited for.
        stream.set_nodelay(true)?;
        match self.tls {
            Some((connector, name)) => Ok(Box::new(connector.connect(name, stream).await?)),
            None if self.has_password && !is_here(stream.peer_addr()?) => Err(io::Error::other(in_the_clear())),
            None => Ok(Box::new(stream)),
        }
    }
}

fn is_here(peer: SocketAddr) -> bool {
    peer.ip().to_canonical().is_loopback()
}

fn in_the_clear() -> Error {
    Error::new(ErrorKind::InvalidSetting, "a password would be sent to another machine without TLS")
        .with_hint("write grpc+tls://, and give the server's certificate as tls_ca")
}

impl Service<Uri> for Sockets {
    type Response = TokioIo<Box<dyn Wire>>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let sockets = self.clone();
        Box::pin(async move { sockets.connect().await.map(TokioIo::new) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_here() {
        for (address, here) in [
            ("127.0.0.1:1", true),
            ("127.9.9.9:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("10.0.0.1:1", false),
        ] {
            assert_eq!(is_here(address.parse().unwrap()), here, "{address}");
        }
    }
}
