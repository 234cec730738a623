//! Listening: what servers of every protocol do alike.
//!
//! Invariants:
//! - No socket is opened at an address that [`check_address`] refuses.
//! - A connection that cannot be accepted (no file descriptors are left, or the like) does not end the server.

use crate::{Access, Tls, check_address};
use alluvia_types::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// A socket that takes connections.
#[derive(Debug)]
pub struct Listener {
    inner: TcpListener,
}

impl Listener {
    /// Listens. Refuses an address that others can reach unless clients must log in, over TLS. [`ErrorKind::Locked`] if somebody
    /// else listens there.
    pub async fn bind(address: SocketAddr, access: &Access, tls: Option<&Tls>) -> Result<Listener> {
        check_address(address, access, tls)?;
        let inner = TcpListener::bind(address).await.map_err(|error| {
            let kind = if error.kind() == std::io::ErrorKind::AddrInUse { ErrorKind::Locked } else { ErrorKind::Io };
            Error::new(kind, format!("cannot listen on {address}: {error}"))
        })?;
        Ok(Listener { inner })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        self.inner.local_addr().map_err(|error| Error::new(ErrorKind::Io, format!("the listening socket: {error}")))
    }

    /// The next connection. May be dropped while it waits.
    pub async fn accept(&self) -> (TcpStream, SocketAddr) {
        loop {
            match self.inner.accept().await {
                Ok((stream, peer)) => {
                    // Answers are small, and waited for.
                    let _ = stream.set_nodelay(true);
                    return (stream, peer);
                }
                Err(error) => {
                    // Those that end give their descriptors back.
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }
}
