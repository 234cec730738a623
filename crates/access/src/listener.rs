//! The listening socket of a server, whatever its protocol.
//!
//! Invariants:
//! - No socket is opened at an address that [`check_address`] refuses.
//! - A connection that cannot be accepted (no file descriptors are left, or the like) does not end the server.
//! - A connection whose other end is not there any more (its machine lost power, its network was cut) ends by itself, though nothing
//!   says so, whether something is under way to it or not.

use crate::{Access, Tls, check_address};
use alluvia_types::{Error, ErrorKind, Result};
use socket2::{SockRef, TcpKeepalive};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// A connection on which nothing comes is asked after for the first time after so long,
const ALIVE_AFTER: Duration = Duration::from_secs(60);
/// and then every so often,
const ALIVE_EVERY: Duration = Duration::from_secs(10);
/// until so many were not answered.
const ALIVE_PROBES: u32 = 6;
/// What all of that takes.
const DEAD_AFTER: Duration = Duration::from_secs(ALIVE_AFTER.as_secs() + ALIVE_PROBES as u64 * ALIVE_EVERY.as_secs());

/// A socket that takes connections.
#[derive(Debug)]
pub struct Listener {
    inner: TcpListener,
    /// How long what is under way to a client may be without an answer.
    unanswered_max: Duration,
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
        Ok(Listener { inner, unanswered_max: DEAD_AFTER })
    }

    /// For servers that let a client take nothing for so long. To the system such a client looks like one that is not there: it must
    /// not end the connection sooner.
    #[must_use]
    pub fn patient_for(mut self, transfer_timeout: Duration) -> Listener {
        self.unanswered_max = DEAD_AFTER.max(transfer_timeout.saturating_add(ALIVE_AFTER));
        self
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
                    self.end_with_its_client(&stream, peer);
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

    /// Has the system ask whether the client is still there.
    fn end_with_its_client(&self, stream: &TcpStream, peer: SocketAddr) {
        let socket = SockRef::from(stream);
        let asked = TcpKeepalive::new().with_time(ALIVE_AFTER).with_interval(ALIVE_EVERY).with_retries(ALIVE_PROBES);
        let set = socket.set_tcp_keepalive(&asked);
        // While something is under way nothing is asked: what is sent again and again, for a quarter of an hour, says as much.
        #[cfg(target_os = "linux")]
        let set = set.and_then(|()| socket.set_tcp_user_timeout(Some(self.unanswered_max)));
        if let Err(error) = set {
            tracing::warn!(%peer, %error, "a client that loses its network will be noticed late");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn clients_are_asked_whether_they_are_there() {
        let address = "127.0.0.1:0".parse().unwrap();
        for (transfer_timeout, unanswered_max) in [(1, 120), (60, 120), (600, 660)] {
            let listener = Listener::bind(address, &Access::Trust, None).await.unwrap();
            let listener = listener.patient_for(Duration::from_secs(transfer_timeout));
            let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (stream, peer) = listener.accept().await;
            assert_eq!(peer, client.local_addr().unwrap());
            let socket = SockRef::from(&stream);
            assert!(socket.keepalive().unwrap());
            assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(60));
            assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(10));
            assert_eq!(socket.tcp_keepalive_retries().unwrap(), 6);
            #[cfg(target_os = "linux")]
            assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(unanswered_max)));
        }
    }
}
