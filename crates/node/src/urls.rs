//! The port `Fetch` of COPY, implemented by the room `fetch` under the database's options.
//!
//! Invariant: sessions of the process itself may read from any host, sessions of servers' clients only from the hosts
//! that the options name.

use crate::options::ServedOptions;
use alluvia_copy::{Fetch, ServedPlaces};
use alluvia_fetch::{Fetcher, Hosts, Proxy, Rules, SYSTEM_CERTIFICATES};
use alluvia_types::Result;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug)]
struct Urls(Fetcher);

impl Fetch for Urls {
    fn check(&self, url: &str) -> Result<()> {
        self.0.check(url)
    }

    fn fetch(&self, url: &str, into: &mut dyn Write, stopped: &dyn Fn() -> bool) -> Result<u64> {
        self.0.get(url, into, stopped)
    }
}

/// What sessions of the process itself read URLs with.
pub(crate) fn process_fetch(options: &ServedOptions) -> Result<Arc<dyn Fetch>> {
    let rules = Rules { certificates: certificates(options), proxy: proxy(options)?, ..Rules::free() };
    Ok(Arc::new(Urls(Fetcher::new(rules))))
}

/// The places that sessions of servers' clients may name in COPY.
pub(crate) fn served_places(options: &ServedOptions) -> Result<ServedPlaces> {
    let rules = Rules {
        private_addresses: options.copy_private_addresses,
        certificates: certificates(options),
        proxy: proxy(options)?,
        ..Rules::only(Hosts::parse(&options.copy_hosts)?, options.copy_url_bytes_max)
    };
    Ok(ServedPlaces {
        roots: options.copy_roots.clone(),
        fetch: Some(Arc::new(Urls(Fetcher::new(rules)))),
        unpacked_bytes_max: Some(options.copy_unpacked_bytes_max),
    })
}

fn proxy(options: &ServedOptions) -> Result<Option<Proxy>> {
    let except = Hosts::of_setting("copy_proxy_except", &options.copy_proxy_except)?;
    options.copy_proxy.as_deref().map(|proxy| Proxy::parse(proxy, except)).transpose()
}

fn certificates(options: &ServedOptions) -> PathBuf {
    options.copy_ca_file.clone().unwrap_or_else(|| PathBuf::from(SYSTEM_CERTIFICATES))
}
