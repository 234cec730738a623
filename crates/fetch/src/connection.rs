//! A connection to the host of a URL, at an address that was checked.
//!
//! Invariant: the name is looked up once, what comes of it is checked, and only an address that passed is connected to, here or by a proxy
//! ([`crate::tunnel`]).

use crate::address::is_public;
use crate::fetcher::Fetcher;
use crate::hosts::Allowed;
use crate::url_text::shown;
use alluvia_types::{Error, ErrorKind, Result};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::{Host, Url};

/// Addresses of one name that are tried.
const ADDRESSES_TRIED: usize = 4;
/// What hosts are told of who asks.
pub(crate) const NAME: &str = concat!("alluvia/", env!("CARGO_PKG_VERSION"));

/// A connection, whatever it goes through.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Fetcher {
    /// The addresses of a host, for a URL.
    pub(crate) async fn look_up(&self, host: Host<&str>, port: u16, url: &Url) -> Result<Vec<SocketAddr>> {
        let name = match host {
            Host::Ipv4(address) => return Ok(vec![SocketAddr::new(IpAddr::V4(address), port)]),
            Host::Ipv6(address) => return Ok(vec![SocketAddr::new(IpAddr::V6(address), port)]),
            Host::Domain(name) => name.to_owned(),
        };
        let resolve = Arc::clone(&self.resolve);
        let asked = name.clone();
        let looked_up = tokio::task::spawn_blocking(move || resolve(&asked, port));
        let found = timeout(self.rules.waits.connect, looked_up).await.map_err(|_| silent(url))?;
        found
            .map_err(|error| failed(url, &error))?
            .map_err(|error| Error::new(ErrorKind::Io, format!("host {name} of {} is not found: {error}", shown(url))))
    }

    /// The addresses of a URL's host that may be connected to; at least one.
    pub(crate) async fn addresses(&self, url: &Url, allowed: Allowed) -> Result<Vec<SocketAddr>> {
        let port = url.port_or_known_default().ok_or_else(|| failed(url, &"it has no port"))?;
        let host = url.host().ok_or_else(|| failed(url, &"it has no host"))?;
        let found = self.look_up(host, port, url).await?;
        let is_free = self.rules.hosts.is_none() || self.rules.private_addresses || allowed == Allowed::ByAddress;
        let mut may: Vec<SocketAddr> =
            found.iter().copied().filter(|address| is_free || is_public(address.ip())).collect();
        if may.is_empty() {
            let host = url.host_str().unwrap_or_default();
            return Err(match found.as_slice() {
                [] => Error::new(ErrorKind::Io, format!("host {host} of {} has no address", shown(url))),
                [first, ..] => Error::new(
                    ErrorKind::Forbidden,
                    format!("{} may not be read: {host} is at {}, which is not public", shown(url), first.ip()),
                )
                .with_hint("a private address is allowed where copy_hosts names it as an address, or copy_private_addresses is on"),
            });
        }
        may.truncate(ADDRESSES_TRIED);
        Ok(may)
    }

    /// Connects to the first of the addresses that answers.
    pub(crate) async fn connect(&self, url: &Url, addresses: &[SocketAddr]) -> Result<TcpStream> {
        let mut last = silent(url);
        for address in addresses {
            match timeout(self.rules.waits.connect, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = failed(url, &error),
                Err(_) => last = silent(url),
            }
        }
        Err(last)
    }
}

pub(crate) fn failed(url: &Url, error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, format!("{} cannot be read: {error}", shown(url)))
}

pub(crate) fn silent(url: &Url) -> Error {
    Error::new(ErrorKind::Io, format!("the host of {} does not answer", shown(url)))
}
