//! The request for a file: it is sent to the host of a URL, over TLS where the URL says so, through a proxy where the rules say so.
//!
//! Invariant: TLS is for the name in the URL, whatever the address.

use crate::certificates::connector;
use crate::connection::{NAME, Stream, failed, silent};
use crate::fetcher::Fetcher;
use crate::hosts::Allowed;
use crate::partial_download::PartialDownload;
use crate::url_text::shown;
use alluvia_types::{Error, ErrorKind, Result};
use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, CONNECTION, HOST, USER_AGENT};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::net::IpAddr;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;
use url::{Host, Position, Url};

impl Fetcher {
    /// Asks for what a URL names, as far as it has not come; gives the head of the answer, and the body to come.
    pub(crate) async fn ask(
        &self,
        url: &Url,
        allowed: Allowed,
        partial: &PartialDownload,
    ) -> Result<Response<Incoming>> {
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
        let request = partial.ask(request).body(Empty::<Bytes>::new()).map_err(|error| failed(url, &error))?;
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
