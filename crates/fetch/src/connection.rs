//! A connection to the host of a URL, at an address that was checked.
//!
//! Invariant: the name is looked up once, what comes of it is checked, and only an address that passed is connected to, here or by a proxy
//! ([`crate::proxy`]). TLS is for the name in the URL, whatever the address.

use crate::address::is_public;
use crate::certificates::connector;
use crate::fetcher::{Fetcher, shown};
use crate::hosts::Allowed;
use crate::so_far::SoFar;
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
/// What hosts are told of who asks.
pub(crate) const NAME: &str = concat!("alluvia/", env!("CARGO_PKG_VERSION"));

/// A connection, whatever it goes through.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Fetcher {
    /// Asks for what a URL names, as far as it has not come; gives the head of the answer, and the body to come.
    pub(crate) async fn ask(&self, url: &Url, allowed: Allowed, so_far: &SoFar) -> Result<Response<Incoming>> {
        let stream: Box<dyn Stream> = match self.rules.proxy.as_ref().filter(|proxy| proxy.is_for(url)) {
            Some(proxy) => self.through(proxy, url, allowed).await?,
            None => Box::new(self.connect(url, &self.addresses(url, allowed).await?).await?),
        };
        let request = Request::get(&url[Position::BeforePath..Position::AfterQuery])
            .header(HOST, &url[Position::BeforeHost..Position::AfterPort])
            .header(USER_AGENT, NAME)
            .header(ACCEPT, "*/*")
            // A file is wanted as it is there.
            .header(ACCEPT_ENCODING, "identity")
            .header(CONNECTION, "close");
        let request = so_far.ask(request).body(Empty::<Bytes>::new()).map_err(|error| failed(url, &error))?;
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

pub(crate) fn failed(url: &Url, error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, format!("{} cannot be read: {error}", shown(url)))
}

pub(crate) fn silent(url: &Url) -> Error {
    Error::new(ErrorKind::Io, format!("the host of {} does not answer", shown(url)))
}
