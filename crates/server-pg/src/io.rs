//! The socket of a connection, with or without TLS, and messages in and out of it.
//!
//! Invariants:
//! - A client that takes nothing of what it is sent for `transfer_timeout` is gone, whatever waits for it to be sent.
//! - Until a client has logged in its messages are short.
//! - What was sent is not sent again, wherever sending was left off.

use crate::wire::{First, Input, Message, Out, STRANGER_BYTES_MAX};
use alluvia_access::WriteTimeout;
use alluvia_types::{Error, ErrorKind, Result};
use bytes::{Buf, BytesMut};
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// What waits to be sent is sent when it is this long.
pub(crate) const SEND_BYTES: usize = 64 << 10;
/// What is read ahead of use while a statement runs.
const AHEAD_BYTES_MAX: usize = 256 << 10;
/// What waits to be sent is in a buffer that is given back when it is empty, if it grew beyond this.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// A socket.
pub(crate) enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    /// Between the two.
    None(tokio::io::Empty),
}

impl Socket {
    fn inner(&mut self) -> Pin<&mut dyn ReadWrite> {
        match self {
            Socket::Plain(stream) => Pin::new(stream),
            Socket::Tls(stream) => Pin::new(stream.as_mut()),
            Socket::None(none) => Pin::new(none),
        }
    }
}

trait ReadWrite: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> ReadWrite for T {}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.inner().poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_shutdown(cx)
    }
}

/// Messages in and out of a socket.
pub(crate) struct Io {
    pub(crate) socket: WriteTimeout<Socket>,
    input: Input,
    pub(crate) out: Out,
    message_bytes_max: usize,
}

/// The error of a client that is not there any more.
pub(crate) fn gone() -> Error {
    Error::new(ErrorKind::Io, format!("{CONNECTION} was closed"))
}

/// The error of a client that does not take what its statement gives.
pub(crate) fn stalled() -> Error {
    Error::new(ErrorKind::Io, format!("{CONNECTION} took nothing for as long as its statement may take"))
}

/// Whether an error says that there is nobody to tell it to.
pub(crate) fn is_gone(error: &Error) -> bool {
    error.kind() == ErrorKind::Io && error.message().starts_with(CONNECTION)
}

const CONNECTION: &str = "the connection to the client";

fn failed(error: io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("{CONNECTION} failed: {error}"))
}

impl Io {
    /// Of a client that has not logged in. It is gone if it takes nothing for `transfer_timeout`.
    pub(crate) fn new(socket: Socket, transfer_timeout: Duration) -> Io {
        let socket = WriteTimeout::new(socket, transfer_timeout);
        Io { socket, input: Input::new(), out: Out::default(), message_bytes_max: STRANGER_BYTES_MAX }
    }

    /// The client has logged in, and may send messages of so many bytes.
    pub(crate) fn logged_in(&mut self, message_bytes_max: usize) {
        self.message_bytes_max = message_bytes_max;
    }

    /// Bytes that came and were not read: before TLS begins there may be none.
    pub(crate) fn has_unread(&self) -> bool {
        !self.input.is_empty()
    }

    /// The socket itself, if it is in the clear.
    pub(crate) fn take_plain(&mut self) -> Option<TcpStream> {
        let socket = self.socket.inner_mut();
        match std::mem::replace(socket, Socket::None(tokio::io::empty())) {
            Socket::Plain(stream) => Some(stream),
            other => {
                *socket = other;
                None
            }
        }
    }

    /// The first message of the connection.
    pub(crate) async fn first(&mut self) -> Result<First> {
        loop {
            if let Some(first) = self.input.first()? {
                return Ok(first);
            }
            self.fill().await?;
        }
    }

    /// The next message. Everything that waits to be sent is sent before it is waited for.
    pub(crate) async fn next(&mut self) -> Result<Message> {
        loop {
            if let Some(message) = self.input.next(self.message_bytes_max)? {
                return Ok(message);
            }
            self.flush().await?;
            self.fill().await?;
        }
    }

    /// A message that is already here. Does not send, so it can be dropped at any time.
    pub(crate) async fn receive(&mut self) -> Result<Message> {
        loop {
            if let Some(message) = self.input.next(self.message_bytes_max)? {
                return Ok(message);
            }
            self.fill().await?;
        }
    }

    /// The kind of the next message, if its first byte is here.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.input.peek()
    }

    async fn fill(&mut self) -> Result<()> {
        match self.socket.read_buf(self.input.room()).await {
            Ok(0) => Err(gone()),
            Ok(_) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }

    /// Sends what waits.
    pub(crate) async fn flush(&mut self) -> Result<()> {
        if self.out.bytes.is_empty() {
            return Ok(());
        }
        // Looked at first: what was taken does not count any more.
        let is_large = self.out.bytes.capacity() > KEPT_BYTES_MAX;
        self.socket.write_all_buf(&mut self.out.bytes).await.map_err(failed)?;
        self.socket.flush().await.map_err(failed)?;
        if is_large {
            self.out.bytes = BytesMut::new();
        }
        Ok(())
    }

    /// Sends what waits if it is much.
    pub(crate) async fn flush_if_long(&mut self) -> Result<()> {
        if self.is_long() { self.flush().await } else { Ok(()) }
    }

    /// Whether much waits to be sent.
    pub(crate) fn is_long(&self) -> bool {
        self.out.bytes.len() >= SEND_BYTES
    }

    /// Completes when the client has gone; what it sends meanwhile is kept, up to a bound.
    pub(crate) async fn closed(&mut self) {
        poll_fn(|context| self.poll_closed(context)).await;
    }

    /// As [`Io::closed`]; meanwhile what waits to be sent is sent, as far as the client takes it. May be dropped at any time.
    pub(crate) async fn attended(&mut self) {
        poll_fn(|context| {
            // Who takes nothing because they have gone is noticed by reading.
            let _ = self.poll_send(context);
            self.poll_closed(context)
        })
        .await;
    }

    fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.input.len() < AHEAD_BYTES_MAX {
            // What was read is in the input at once: nothing of it is kept in the future.
            let filled = pin!(self.fill()).poll(context);
            match filled {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Pending
    }

    /// Sends what waits, as far as the client takes it now. May be dropped at any time.
    pub(crate) async fn send_some(&mut self) {
        poll_fn(|context| {
            // Whether it has gone, or takes nothing, is noticed when it is read from, or when all has to be sent.
            let _ = self.poll_send(context);
            Poll::Ready(())
        })
        .await;
    }

    /// Ready when nothing is left to be sent, or nobody to take it.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while !self.out.bytes.is_empty() {
            // What is taken is told at once: nothing of it is kept in the future.
            let sent = pin!(self.socket.write(&self.out.bytes)).poll(context);
            match sent {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(count)) => self.out.bytes.advance(count),
                Poll::Pending => return Poll::Pending,
            }
        }
        pin!(self.socket.flush()).poll(context).map(|_| ())
    }
}
