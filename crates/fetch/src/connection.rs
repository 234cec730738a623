//! A connection to the host of a URL, at an address that was checked.
//!
//! Invariant: the name is looked up once, what comes of it is checked, and only an address that passed is connected to. TLS is for the name
//! in the URL, whatever the address.

use crate::address::is_public;
use crate::certificates::connector;
use crate::fetcher::{Fetcher, shown};
use crate::hosts::Allowed;
use alluvia_types::{Error, ErrorKind, Result};
use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, CONNECTION, HOST, USER_AGENT};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;
use url::{Host, Position, Url};

/// Addresses of one name that are tried.
const ADDRESSES_TRIED: usize = 4;

impl Fetcher {
    /// Asks for what a URL names; gives the head of the answer, and the body to come.
    pub(crate) async fn ask(&self, url: &Url, allowed: Allowed) -> Result<Response<Incoming>> {
        let addresses = self.addresses(url, allowed).await?;
        let stream = self.connect(url, &addresses).await?;
        let request = Request::get(&url[Position::BeforePath..Position::AfterQuery])
            .header(HOST, &url[Position::BeforeHost..Position::AfterPort])
            .header(USER_AGENT, concat!("alluvia/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, "*/*")
            // A file is wanted as it is there.
            .header(ACCEPT_ENCODING, "identity")
            .header(CONNECTION, "close")
            .body(Empty::<Bytes>::new())
            .map_err(|error| failed(url, &error))?;
        if url.scheme() != "https" {
            return self.send(url, stream, request).await;
        }
        let name = match url.host() {
            Some(Host::Domain(name)) => {
                ServerName::try_from(name.trim_end_matches('.').to_owned()).map_err(|error| failed(url, &error))?
            }
            Some(Host::Ipv4(address)) => ServerName::from(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => ServerName::from(IpAddr::V6(address)),
            None => return Err(failed(url, &"it has no host")),
        };
        let connector = connector(&self.rules.certificates)?;
        let secured = timeout(self.rules.waits.connect, connector.connect(name, stream)).await;
        let stream = secured.map_err(|_| silent(url))?.map_err(|error| {
            Error::new(ErrorKind::Io, format!("there is no TLS with {}: {error}", shown(url)))
                .with_hint("copy_ca_file names a file with the authorities that are believed")
        })?;
        self.send(url, stream, request).await
    }

    /// The addresses of a URL's host that may be connected to; at least one.
    async fn addresses(&self, url: &Url, allowed: Allowed) -> Result<Vec<SocketAddr>> {
        let port = url.port_or_known_default().ok_or_else(|| failed(url, &"it has no port"))?;
        let found = match url.host() {
            Some(Host::Ipv4(address)) => vec![SocketAddr::new(IpAddr::V4(address), port)],
            Some(Host::Ipv6(address)) => vec![SocketAddr::new(IpAddr::V6(address), port)],
            Some(Host::Domain(name)) => {
                let (name, resolve) = (name.to_owned(), Arc::clone(&self.resolve));
                let looked_up = tokio::task::spawn_blocking(move || resolve(&name, port));
                let found = timeout(self.rules.waits.connect, looked_up).await.map_err(|_| silent(url))?;
                let found = found.map_err(|error| failed(url, &error))?;
                found.map_err(|error| {
                    let host = url.host_str().unwrap_or_default();
                    Error::new(ErrorKind::Io, format!("host {host} of {} is not found: {error}", shown(url)))
                })?
            }
            None => return Err(failed(url, &"it has no host")),
        };
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

    async fn connect(&self, url: &Url, addresses: &[SocketAddr]) -> Result<TcpStream> {
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

    async fn send<S>(&self, url: &Url, stream: S, request: Request<Empty<Bytes>>) -> Result<Response<Incoming>>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let answered = async {
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            // Ends with the runtime of this fetch; what goes wrong with it is told to whoever reads the answer.
            tokio::spawn(connection);
            sender.send_request(request).await
        };
        let answered = timeout(self.rules.waits.head, answered).await.map_err(|_| silent(url))?;
        answered.map_err(|error| failed(url, &error))
    }
}

fn failed(url: &Url, error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, format!("{} cannot be read: {error}", shown(url)))
}

fn silent(url: &Url) -> Error {
    Error::new(ErrorKind::Io, format!("the host of {} does not answer", shown(url)))
}
