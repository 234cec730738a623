//! The fetcher: rules, and how names are looked up.

use crate::hosts::Allowed;
use crate::rules::Rules;
use crate::url_text::shown;
use alluvia_types::{Error, ErrorKind, Result};
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use url::{Position, Url};

/// The addresses of a name, with a port. Blocks.
pub type Resolve = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// Gets what URLs name.
#[derive(Clone)]
pub struct Fetcher {
    pub(crate) rules: Rules,
    pub(crate) resolve: Resolve,
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl Fetcher {
    /// By rules, with names as the system knows them.
    pub fn new(rules: Rules) -> Fetcher {
        Fetcher::with_resolver(rules, Arc::new(|name, port| Ok((name, port).to_socket_addrs()?.collect())))
    }

    /// By rules, with names as somebody else knows them.
    pub fn with_resolver(rules: Rules, resolve: Resolve) -> Fetcher {
        Fetcher { rules, resolve }
    }

    /// By what a URL may be fetched; refuses one that may not.
    pub(crate) fn allowed(&self, url: &Url) -> Result<Allowed> {
        let Some(hosts) = &self.rules.hosts else { return Ok(Allowed::ByAddress) };
        hosts.allowed(url).ok_or_else(|| {
            let host = &url[Position::BeforeHost..Position::AfterPort];
            Error::new(
                ErrorKind::Forbidden,
                format!("permission denied to read {}: {host} is not among the hosts that may be read", shown(url)),
            )
            .with_hint(hosts.hint())
        })
    }
}
