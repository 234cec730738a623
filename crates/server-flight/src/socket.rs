//! A connection's socket, with TLS or without.
//!
//! Invariants:
//! - A client that takes nothing of what it is sent for `transfer_timeout` is gone.
//! - A connection none of whose calls was let in within `authentication_timeout` is closed.
//! - What [`alluvia_access::ConnectionSlot::close`] asks for happens without waiting for the client.

use crate::connection::Connection;
use crate::shared::Shared;
use alluvia_access::WriteTimeout;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

/// What bytes go through.
pub(crate) enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Wire {
    fn inner(&mut self) -> Pin<&mut dyn ReadWrite> {
        match self {
            Wire::Plain(stream) => Pin::new(stream),
            Wire::Tls(stream) => Pin::new(stream.as_mut()),
        }
    }
}

trait ReadWrite: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> ReadWrite for T {}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.inner().poll_read(context, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.inner().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.inner().poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Wire::Plain(stream) => stream.is_write_vectored(),
            Wire::Tls(stream) => stream.is_write_vectored(),
        }
    }
}

/// One client's.
pub(crate) struct Socket {
    wire: WriteTimeout<Wire>,
    connection: Arc<Connection>,
    shared: Arc<Shared>,
    /// When it has to be known; `None` once it is.
    known_by: Option<Pin<Box<Sleep>>>,
}

impl Socket {
    /// Serves from now on.
    pub(crate) fn new(wire: Wire, connection: Arc<Connection>, shared: Arc<Shared>) -> Socket {
        let known_by = Some(Box::pin(sleep(shared.options.authentication_timeout)));
        let wire = WriteTimeout::new(wire, shared.options.transfer_timeout);
        Socket { wire, connection, shared, known_by }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.shared.connections.ended(&self.connection.slot);
    }
}

impl Connected for Socket {
    type ConnectInfo = Arc<Connection>;

    fn connect_info(&self) -> Arc<Connection> {
        Arc::clone(&self.connection)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.connection.slot.poll_closing(context).is_ready() {
            return Poll::Ready(Err(io::Error::new(ErrorKind::ConnectionAborted, "the server closes the connection")));
        }
        if self.known_by.is_some() && self.connection.slot.is_known() {
            self.known_by = None;
        }
        if let Some(known_by) = &mut self.known_by
            && known_by.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Err(io::Error::new(ErrorKind::TimedOut, "the client has not logged in")));
        }
        Pin::new(&mut self.wire).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }
}
