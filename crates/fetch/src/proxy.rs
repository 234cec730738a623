//! Hosts that are asked through somebody else.
//!
//! Invariants:
//! - Nobody is asked through a proxy unless the rules name one: variables of the process are not looked at.
//! - Under rules a proxy is asked for a way to an address that was looked up and checked here, never for one to a name: who answers for the
//!   name to the proxy cannot lead it elsewhere. Without rules there is nothing to check, and the proxy looks the name up, which in many
//!   networks it alone can.
//! - A way is a tunnel (CONNECT), for http as for https: the proxy sees where it leads, and of https nothing else.
//!
//! The proxy itself may be anywhere: whoever runs the server has named it.

use crate::connection::{Stream, failed, silent};
use crate::fetcher::{Fetcher, shown};
use crate::hosts::{Allowed, Hosts};
use alluvia_types::{Error, ErrorKind, Result};
use bytes::Bytes;
use http_body_util::Empty;
use hyper::Request;
use hyper::client::conn::http1;
use hyper::header::{HOST, USER_AGENT};
use hyper_util::rt::TokioIo;
use std::fmt;
use tokio::time::timeout;
use url::{Host, Url};

/// Through whom hosts are asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proxy {
    host: Host<String>,
    port: u16,
    /// The hosts that are asked directly.
    except: Hosts,
}

impl Proxy {
    /// Reads `http://proxy.example.org:3128`; `except` are asked directly.
    pub fn parse(text: &str, except: Hosts) -> Result<Proxy> {
        let wrong = |what: &str| {
            Error::new(ErrorKind::InvalidSetting, format!("copy_proxy cannot be used: {what}"))
                .with_hint("write http://host:port")
        };
        let url = Url::parse(text.trim()).map_err(|error| wrong(&error.to_string()))?;
        if url.scheme() != "http" {
            return Err(wrong(
                "a proxy is spoken to over http; what goes through it to https is encrypted all the way",
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("it has a user or a password in it, and proxies that ask for one are not supported"));
        }
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("there is something after its port"));
        }
        match (url.host(), url.port_or_known_default()) {
            (Some(host), Some(port)) => Ok(Proxy { host: host.to_owned(), port, except }),
            _ => Err(wrong("it has no host")),
        }
    }

    /// Whether the host of a URL is asked through it.
    pub(crate) fn is_for(&self, url: &Url) -> bool {
        self.except.allowed(url).is_none()
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "proxy {}:{}", self.host, self.port)
    }
}

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
            .header(USER_AGENT, crate::connection::NAME)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_an_address_over_http_and_nothing_more() {
        let proxy = Proxy::parse(" http://proxy.example.org:3128/ ", Hosts::default()).unwrap();
        assert_eq!(proxy.to_string(), "proxy proxy.example.org:3128");
        assert_eq!(Proxy::parse("http://[fd00::7]", Hosts::default()).unwrap().to_string(), "proxy [fd00::7]:80");
        for wrong in [
            "proxy.example.org:3128",
            "https://proxy.example.org",
            "socks5://proxy.example.org",
            "http://me:secret@proxy.example.org",
            "http://proxy.example.org/path",
            "http://proxy.example.org?x",
            "",
        ] {
            let error = Proxy::parse(wrong, Hosts::default()).unwrap_err();
            assert!(
                error.kind() == ErrorKind::InvalidSetting && !error.to_string().contains("secret"),
                "{wrong}: {error}"
            );
            assert!(error.message().contains("copy_proxy"), "{wrong}: {error}");
        }
    }

    #[test]
    fn the_exceptions_are_hosts_with_their_ports() {
        let except =
            Hosts::of_setting("copy_proxy_except", &["*.inner.org".to_owned(), "10.1.2.3:81".to_owned()]).unwrap();
        let proxy = Proxy::parse("http://p:1", except).unwrap();
        for (url, is_for) in [
            ("https://a.inner.org/x", false),
            ("https://a.inner.org:444/x", true),
            ("https://inner.org/x", true),
            ("http://10.1.2.3:81/", false),
            ("http://10.1.2.3/", true),
        ] {
            assert_eq!(proxy.is_for(&Url::parse(url).unwrap()), is_for, "{url}");
        }
        let error = Hosts::of_setting("copy_proxy_except", &["a b".to_owned()]).unwrap_err();
        assert!(error.message().contains("copy_proxy_except"), "{error}");
    }
}
