//! Tunnels: connections to hosts through an HTTP proxy.
//!
//! Invariants:
//! - Nobody is asked through a proxy unless the rules name one: variables of the process are not looked at.
//! - Under rules a proxy is asked for a way to an address that was looked up and checked here, never for one to a name: who answers for the
//!   name to the proxy cannot lead it elsewhere. Without rules there is nothing to check, and the proxy looks the name up, which in many
//!   networks it alone can.
//! - A way is a tunnel (CONNECT), for http as for https: the proxy sees where it leads, and of https nothing else.

use crate::connection::{NAME, Stream, failed, silent};
use crate::fetcher::Fetcher;
use crate::hosts::Allowed;
use crate::proxy::Proxy;
use crate::url_text::shown;
use alluvia_types::{Error, ErrorKind, Result};
use bytes::Bytes;
use http_body_util::Empty;
use hyper::Request;
use hyper::client::conn::http1;
use hyper::header::{HOST, USER_AGENT};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use url::{Host, Url};

impl Fetcher {
    /// A connection to the host of a URL through a proxy.
    pub(crate) async fn through(&self, proxy: &Proxy, url: &Url, allowed: Allowed) -> Result<Box<dyn Stream>> {
        let ways: Vec<String> = match &self.rules.hosts {
            Some(_) => self.addresses(url, allowed).await?.iter().map(ToString::to_string).collect(),
            None => {
                let port = url.port_or_known_default().ok_or_else(|| failed(url, &"it has no port"))?;
                vec![format!("{}:{port}", url.host_str().unwrap_or_default())]
            }
        };
        let mut last = silent(url);
        for way in &ways {
            match self.way(proxy, url, way).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error.at(proxy),
            }
        }
        Err(last)
    }

    async fn way(&self, proxy: &Proxy, url: &Url, to: &str) -> Result<Box<dyn Stream>> {
        let host = match &proxy.host {
            Host::Domain(name) => Host::Domain(name.as_str()),
            Host::Ipv4(address) => Host::Ipv4(*address),
            Host::Ipv6(address) => Host::Ipv6(*address),
        };
        let addresses = self.look_up(host, proxy.port, url).await?;
        let stream = self.connect(url, &addresses).await?;
        let request = Request::connect(to)
            .header(HOST, to)
            .header(USER_AGENT, NAME)
            .body(Empty::<Bytes>::new())
            .map_err(|error| failed(url, &error))?;
        let opened = async {
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection.with_upgrades());
            let answer = sender.send_request(request).await?;
            let status = answer.status();
            if !status.is_success() {
                return Ok(Err(status));
            }
            hyper::upgrade::on(answer).await.map(Ok)
        };
        let opened = timeout(self.rules.waits.head, opened).await.map_err(|_| silent(url))?;
        match opened.map_err(|error: hyper::Error| failed(url, &error))? {
            Ok(stream) => Ok(Box::new(TokioIo::new(stream))),
            Err(status) => {
                let message = format!("{} cannot be read: it answers {status} when asked for {to}", shown(url));
                Err(Error::new(ErrorKind::Io, message)
                    .with_hint("let the proxy lead there, or name the host in copy_proxy_except to ask it directly"))
            }
        }
    }
}
