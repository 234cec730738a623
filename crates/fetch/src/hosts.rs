//! The hosts that URLs may name.
//!
//! Invariants:
//! - A host is compared as a URL means it: without regard to case, international names in their ASCII form, addresses as addresses in
//!   whatever notation.
//! - A host is its usual ports alone (80 for http, 443 for https), unless another is written with it.
//! - Who writes an address allows that address, also a private one; a name allows only public ones.

use alluvia_types::{Error, ErrorKind, Result};
use std::net::{IpAddr, Ipv6Addr};
use url::{Host, Url};

/// A list of hosts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hosts {
    patterns: Vec<Pattern>,
    /// As they were written, for messages.
    written: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Pattern {
    name: Name,
    /// `None` for the usual one.
    port: Option<u16>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Name {
    /// Every host.
    Any,
    /// This one.
    Exact(String),
    /// All below this one, and not itself.
    Below(String),
    Address(IpAddr),
}

/// How a host is allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Allowed {
    /// By its name: at public addresses.
    Named,
    /// By its address: there.
    ByAddress,
}

impl Hosts {
    /// Reads `data.example.org`, `*.example.org`, `example.org:8443`, `10.1.2.3`, `[fd00::7]:8080`, `*`.
    pub fn parse(hosts: &[String]) -> Result<Hosts> {
        Hosts::of_setting("copy_hosts", hosts)
    }

    /// Likewise, of another setting than `copy_hosts`, which errors name.
    pub fn of_setting(setting: &str, hosts: &[String]) -> Result<Hosts> {
        let patterns = hosts.iter().map(|text| pattern(setting, text)).collect::<Result<_>>()?;
        Ok(Hosts { patterns, written: hosts.to_vec() })
    }

    /// How the host of a URL is allowed, if it is.
    pub(crate) fn allowed(&self, url: &Url) -> Option<Allowed> {
        let (host, port) = (url.host()?, url.port_or_known_default()?);
        let usual = if url.scheme() == "https" { 443 } else { 80 };
        let of_port = self.patterns.iter().filter(|pattern| pattern.port.unwrap_or(usual) == port);
        let mut allowed = None;
        for pattern in of_port {
            match (&pattern.name, &host) {
                (Name::Address(known), Host::Ipv4(address)) if *known == IpAddr::V4(*address) => {
                    return Some(Allowed::ByAddress);
                }
                (Name::Address(known), Host::Ipv6(address)) if *known == IpAddr::V6(*address).to_canonical() => {
                    return Some(Allowed::ByAddress);
                }
                (Name::Any, _) => allowed = Some(Allowed::Named),
                (Name::Exact(known), Host::Domain(name)) if known == name.trim_end_matches('.') => {
                    allowed = Some(Allowed::Named);
                }
                (Name::Below(known), Host::Domain(name)) if is_below(name.trim_end_matches('.'), known) => {
                    allowed = Some(Allowed::Named);
                }
                _ => {}
            }
        }
        allowed
    }

    /// What to do about a host that is not allowed.
    pub(crate) fn hint(&self) -> String {
        match self.written.as_slice() {
            [] => "the server's setting copy_hosts names the hosts that URLs may name, and names none".to_owned(),
            written => format!(
                "the server's setting copy_hosts names the hosts that URLs may name, at their usual ports unless one is stated: {}",
                written.join(", ")
            ),
        }
    }
}

fn is_below(name: &str, known: &str) -> bool {
    name.strip_suffix(known).is_some_and(|front| front.len() > 1 && front.ends_with('.'))
}

fn pattern(setting: &str, text: &str) -> Result<Pattern> {
    let wrong = || {
        Error::new(ErrorKind::InvalidSetting, format!("{setting} cannot hold '{text}'"))
            .with_hint("write a host, with a port if it is not the usual one: data.example.org, *.example.org, 10.1.2.3, [fd00::7]:8080")
    };
    let bare = text.trim();
    let (host, port) = match bare.parse::<Ipv6Addr>() {
        // An address of its own has colons, too.
        Ok(_) => (bare, None),
        Err(_) => match bare.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse().map_err(|_| wrong())?)),
            _ => (bare, None),
        },
    };
    let name = if host == "*" {
        Name::Any
    } else if let Some(domain) = host.strip_prefix("*.") {
        match Host::parse(domain.trim_end_matches('.')) {
            Ok(Host::Domain(domain)) if !domain.contains('*') => Name::Below(domain),
            _ => return Err(wrong()),
        }
    } else if let Ok(address) = host.parse::<IpAddr>() {
        Name::Address(address.to_canonical())
    } else {
        match Host::parse(host.trim_end_matches('.')) {
            Ok(Host::Domain(domain)) if !domain.contains('*') => Name::Exact(domain),
            Ok(Host::Ipv4(address)) => Name::Address(IpAddr::V4(address)),
            Ok(Host::Ipv6(address)) => Name::Address(IpAddr::V6(address).to_canonical()),
            _ => return Err(wrong()),
        }
    };
    Ok(Pattern { name, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(written: &[&str]) -> Hosts {
        Hosts::parse(&written.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    fn allowed(written: &[&str], url: &str) -> Option<Allowed> {
        hosts(written).allowed(&Url::parse(url).unwrap())
    }

    #[test]
    fn hosts_are_compared_as_urls_mean_them() {
        for url in ["https://data.example.org/x", "http://DATA.example.org/x", "https://data.example.org./x"] {
            assert_eq!(allowed(&["Data.Example.org"], url), Some(Allowed::Named), "{url}");
        }
        for url in [
            "https://example.org/",
            "https://xdata.example.org/",
            "https://data.example.org.evil.net/",
            "https://data.example.org:8443/",
            "https://a.data.example.org/",
            "https://data.example.org@evil.net/",
            "http://data.example.org:443/",
        ] {
            assert_eq!(allowed(&["data.example.org"], url), None, "{url}");
        }
        assert_eq!(allowed(&["bücher.example"], "https://xn--bcher-kva.example/"), Some(Allowed::Named));
    }

    #[test]
    fn a_star_is_for_what_is_below() {
        for url in ["https://a.example.org/", "https://a.b.example.org/"] {
            assert_eq!(allowed(&["*.example.org"], url), Some(Allowed::Named), "{url}");
        }
        for url in ["https://example.org/", "https://badexample.org/", "https://.example.org/", "https://10.0.0.1/"] {
            assert_eq!(Url::parse(url).ok().and_then(|url| hosts(&["*.example.org"]).allowed(&url)), None, "{url}");
        }
        assert_eq!(allowed(&["*"], "https://10.0.0.1/"), Some(Allowed::Named), "any host, at public addresses");
        assert_eq!(allowed(&["*", "10.0.0.1"], "https://10.0.0.1/"), Some(Allowed::ByAddress));
    }

    #[test]
    fn addresses_are_addresses_in_whatever_notation() {
        for url in ["http://127.0.0.1/", "http://127.1/", "http://0x7f000001/", "http://[::ffff:127.0.0.1]/"] {
            assert_eq!(allowed(&["127.0.0.1"], url), Some(Allowed::ByAddress), "{url}");
            assert_eq!(allowed(&["127.0.0.2", "localhost"], url), None, "{url}");
        }
        for written in ["fd00::7", "[fd00::7]", "[FD00:0::7]"] {
            assert_eq!(allowed(&[written], "http://[fd00::7]/"), Some(Allowed::ByAddress), "{written}");
        }
        assert_eq!(allowed(&["[fd00::7]:8080"], "http://[fd00::7]:8080/"), Some(Allowed::ByAddress));
        assert_eq!(allowed(&["[fd00::7]:8080"], "http://[fd00::7]/"), None);
    }

    #[test]
    fn ports_are_the_usual_ones_or_stated() {
        assert_eq!(allowed(&["a.org:8443"], "https://a.org:8443/"), Some(Allowed::Named));
        assert_eq!(allowed(&["a.org:8443"], "https://a.org/"), None);
        assert_eq!(allowed(&["a.org"], "http://a.org:80/"), Some(Allowed::Named));
        assert_eq!(allowed(&["a.org"], "http://a.org:8080/"), None);
    }

    #[test]
    fn what_is_no_host_is_refused_by_name() {
        for text in ["", "a b", "https://a.org", "a.org/x", "*a.org", "a.*.org", "a.org:", "a.org:99999", "*.10.0.0.1"]
        {
            let error = Hosts::parse(&[text.to_owned()]).unwrap_err();
            assert!(error.kind() == ErrorKind::InvalidSetting && error.message().contains(text), "{text}");
        }
        assert!(hosts(&[]).hint().contains("names none"));
        assert!(hosts(&["a.org"]).hint().ends_with("a.org"));
    }
}
