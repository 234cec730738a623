//! Proxies: the setting of an HTTP proxy through which hosts are asked.
//!
//! The proxy itself may be anywhere: whoever runs the server has named it.

use crate::hosts::Hosts;
use alluvia_types::{Error, ErrorKind, Result};
use std::fmt;
use url::{Host, Url};

/// Through whom hosts are asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proxy {
    pub(crate) host: Host<String>,
    pub(crate) port: u16,
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
