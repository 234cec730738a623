//! Where nodes are: `HOST:PORT`, as others are told of it.

use alluvia_types::{Error, ErrorKind, Result};
use std::net::{IpAddr, SocketAddr};

/// The host of an address, without the brackets of an IPv6 address, and the port.
pub(crate) fn parts(address: &str) -> Result<(&str, u16)> {
    let found = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let bare = |host: &'_ str| -> bool {
        let is_bracketed = host.starts_with('[') && host.ends_with(']');
        !host.is_empty() && (is_bracketed || !host.contains([':', '/', '@', ' ']))
    };
    match found {
        Some((host, port)) if bare(host) => Ok((host.trim_start_matches('[').trim_end_matches(']'), port)),
        _ => Err(Error::new(ErrorKind::InvalidSetting, format!("{address:?} is no address of a node"))
            .with_hint("an address is HOST:PORT, such as node-1.example.com:7400, 10.0.0.1:7400 or [fd00::1]:7400")),
    }
}

/// Where others reach a node that listens on an address: there, or at what is given.
///
/// Errors: nobody can reach it there.
pub(crate) fn announced(listen: SocketAddr, given: Option<&str>) -> Result<String> {
    let nowhere = |what: String| {
        Err(Error::new(ErrorKind::InvalidSetting, what)
            .with_hint("say where other nodes reach this one: --node-address HOST:PORT"))
    };
    let Some(given) = given else {
        return match listen.ip().is_unspecified() {
            true => nowhere(format!("a node that listens on {listen}, which is no address that others can reach")),
            false => Ok(listen.to_string()),
        };
    };
    let (host, port) = parts(given)?;
    match host.parse::<IpAddr>() {
        Ok(ip) if ip.is_unspecified() => nowhere(format!("{given} is no address that others can reach")),
        _ if port == 0 => nowhere(format!("{given} has no port")),
        _ => Ok(given.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_announced_can_be_reached() {
        let (here, everywhere) = ("10.0.0.1:7400".parse().unwrap(), "0.0.0.0:7400".parse().unwrap());
        assert_eq!(announced(here, None).unwrap(), "10.0.0.1:7400");
        assert_eq!(announced(everywhere, Some("node-1:7400")).unwrap(), "node-1:7400");
        assert_eq!(announced(everywhere, Some("[fd00::1]:7400")).unwrap(), "[fd00::1]:7400");
        for (listen, given) in [
            (everywhere, None),
            (everywhere, Some("0.0.0.0:7400")),
            (everywhere, Some("[::]:7400")),
            (here, Some("node-1:0")),
            (here, Some("node-1")),
            (here, Some(":7400")),
            (here, Some("fd00::1:7400")),
            (here, Some("http://node-1:7400")),
        ] {
            assert!(announced(listen, given).is_err(), "{listen} {given:?}");
        }
    }
}
