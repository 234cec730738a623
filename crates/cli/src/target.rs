//! The target of a connection: which server, and how it is spoken to: over Flight SQL, by what `alluvia.connect` of Python takes, too.
//!
//! Invariants:
//! - A host without a scheme is spoken to within TLS, unless it is this machine itself: `alluvia serve` listens to other machines with
//!   TLS alone.
//! - A password is never shown.

use crate::remote::PASSWORD;
use alluvia_client::Target;
use alluvia_types::{Error, ErrorKind, Result};
use clap::Args;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where servers listen to Flight SQL.
const PORT: u16 = 50_051;
/// What a server gets to answer first.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Whom this machine trusts.
const SYSTEM_CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Whether a scheme is with TLS.
const SCHEMES: [(&str, bool); 3] = [("grpc", false), ("grpc+tcp", false), ("grpc+tls", true)];
const HOW: &str =
    "write HOST, HOST:PORT, or grpc+tls://USER@HOST:PORT, with the password in the variable ALLUVIA_PASSWORD";

#[derive(Args, Clone, Default)]
pub struct ServerArgs {
    /// A server that runs, over Flight SQL: HOST, HOST:PORT, or grpc://USER@HOST:PORT (grpc+tls:// within TLS).
    #[arg(long, value_name = "HOST[:PORT]")]
    pub host: Option<String>,
    /// The user at the server. A password is read from the variable ALLUVIA_PASSWORD.
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Speaks TLS with the server: a file in PEM with its certificate, or the one that signed it [default: what this machine trusts].
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
}

impl ServerArgs {
    /// The server that a text names.
    pub fn target(&self, text: &str) -> Result<Target> {
        let named = Named::parse(text)?;
        let user = self.user.clone().or(named.user);
        let password = named.password.or_else(|| std::env::var(PASSWORD).ok());
        let is_encrypted = match (named.is_encrypted, &self.tls_ca) {
            (Some(false), Some(_)) => {
                return Err(wrong(text, "--tls-ca is given, and grpc:// is without TLS; write grpc+tls://"));
            }
            (Some(is_encrypted), _) => is_encrypted,
            (None, given) => given.is_some() || !is_here(&named.host),
        };
        let trusted = is_encrypted.then(|| certificates(self.tls_ca.as_deref())).transpose()?;
        Ok(Target {
            host: named.host,
            port: named.port.unwrap_or(PORT),
            user: user.map(|user| (user, password.unwrap_or_default())),
            trusted,
            timeout: CONNECT_TIMEOUT,
        })
    }
}

/// Whether a text names a server where a directory could stand.
pub fn is_url(text: &str) -> bool {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
    })
}

/// The parts of a text that names a server.
#[derive(PartialEq, Debug)]
struct Named {
    host: String,
    port: Option<u16>,
    user: Option<String>,
    password: Option<String>,
    /// `None` where no scheme says it.
    is_encrypted: Option<bool>,
}

impl Named {
    fn parse(text: &str) -> Result<Named> {
        let (is_encrypted, rest) = match text.split_once("://") {
            None => (None, text),
            Some((scheme, rest)) => {
                let known = SCHEMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(scheme));
                let (_, is_encrypted) = known.ok_or_else(|| {
                    let message = format!("{scheme}:// is no scheme of this command");
                    Error::new(ErrorKind::NotSupported, message).with_hint(
                        "it speaks Flight SQL: write grpc://HOST:PORT or grpc+tls://HOST:PORT; psql speaks PostgreSQL's protocol",
                    )
                })?;
                (Some(*is_encrypted), rest.strip_suffix('/').unwrap_or(rest))
            }
        };
        if rest.contains(['/', '?', '#']) {
            return Err(wrong(text, "it has more than a host and a port"));
        }
        let (who, place) = match rest.rsplit_once('@') {
            None => (None, rest),
            Some((who, place)) => (Some(who), place),
        };
        let (user, password) =
            match who.map(|who| who.split_once(':').map_or((who, None), |(user, password)| (user, Some(password)))) {
                None => (None, None),
                Some((user, password)) => {
                    (Some(decoded(text, user)?), password.map(|given| decoded(text, given)).transpose()?)
                }
            };
        if user.as_ref().is_some_and(String::is_empty) {
            return Err(wrong(text, "there is an @, and no user before it"));
        }
        let (host, port) = match place.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').unwrap_or(port))),
            // An address of version six has several colons, and no port without brackets.
            None if place.matches(':').count() > 1 => (place, None),
            None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
        };
        if host.is_empty() {
            return Err(wrong(text, "it names no host"));
        }
        let number = |port: &str| port.parse::<u16>().map_err(|_| wrong(text, &format!("{port:?} is no port")));
        let port = port.map(number).transpose()?;
        Ok(Named { host: host.to_owned(), port, user, password, is_encrypted })
    }
}

/// A part of a URL as it is meant: %40 is an @.
fn decoded(text: &str, part: &str) -> Result<String> {
    let unreadable = || wrong(text, "a % is followed by no two hexadecimal digits, or by bytes that are no text");
    let (mut bytes, mut rest) = (Vec::with_capacity(part.len()), part.as_bytes());
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or_else(unreadable)?;
        let digit = |byte: u8| char::from(byte).to_digit(16).ok_or_else(unreadable);
        bytes.push((digit(digits[0])? * 16 + digit(digits[1])?) as u8);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| unreadable())
}

fn is_here(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// PEM of what is to be trusted.
fn certificates(file: Option<&Path>) -> Result<Vec<u8>> {
    let Some(file) = file else {
        return std::fs::read(SYSTEM_CERTIFICATES).map_err(|error| {
            Error::io(SYSTEM_CERTIFICATES, "reading", &error)
                .with_hint("this machine has no list of certificates to trust: state the server's with --tls-ca FILE")
        });
    };
    std::fs::read(file).map_err(|error| Error::io(file, "reading", &error))
}

/// As it was given, without a password: whatever is between a colon and an @ may be one.
pub fn shown(text: &str) -> String {
    let Some((who, place)) = text.rsplit_once('@') else { return text.to_owned() };
    let start = who.find("://").map_or(0, |at| at + 3);
    let end = who[start..].find(':').map_or(who.len(), |at| start + at);
    format!("{}@{place}", &who[..end])
}

fn wrong(text: &str, what: &str) -> Error {
    Error::new(ErrorKind::InvalidSetting, format!("{:?} names no server: {what}", shown(text))).with_hint(HOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(host: &str, port: Option<u16>, is_encrypted: Option<bool>) -> Named {
        Named { host: host.to_owned(), port, user: None, password: None, is_encrypted }
    }

    #[test]
    fn servers_are_named_by_hosts_and_urls() {
        for (text, wanted) in [
            ("db.example.com", named("db.example.com", None, None)),
            ("db.example.com:7000", named("db.example.com", Some(7000), None)),
            ("::1", named("::1", None, None)),
            ("[::1]:7000", named("::1", Some(7000), None)),
            ("grpc://[::1]/", named("::1", None, Some(false))),
            ("GRPC+TLS://db:1", named("db", Some(1), Some(true))),
        ] {
            assert_eq!(Named::parse(text).unwrap(), wanted, "{text}");
        }
        let named = Named::parse("grpc+tls://ada:p%40s%3As@db:7000").unwrap();
        assert_eq!((named.user.as_deref(), named.password.as_deref()), (Some("ada"), Some("p@s:s")));
        assert_eq!(Named::parse("ada@db").unwrap().user.as_deref(), Some("ada"));
    }

    #[test]
    fn what_names_no_server_is_refused_without_showing_a_password() {
        for text in [
            "",
            "host:port",
            "grpc://",
            "grpc://me:secret@h/x",
            "me:secret%zz@h",
            "me:secret@:7",
            "@h",
            "grpc://h:70000",
        ] {
            let error = Named::parse(text).unwrap_err();
            assert!(error.hint().is_some() && !error.to_string().contains("secret"), "{text}: {error}");
        }
        assert_eq!(Named::parse("postgresql://localhost").unwrap_err().kind(), ErrorKind::NotSupported);
        assert!(is_url("grpc+tls://h") && is_url("postgres://h"));
        assert!(!is_url("data/shop") && !is_url("://x") && !is_url("/a b://x"));
    }

    #[test]
    fn other_machines_are_spoken_to_within_tls() {
        let plain = ServerArgs::default();
        for (text, is_encrypted) in
            [("localhost", false), ("127.0.0.1:1", false), ("[::1]", false), ("grpc://db", false)]
        {
            assert_eq!(plain.target(text).unwrap().trusted.is_some(), is_encrypted, "{text}");
        }
        assert!(!is_here("db.example.com") && !is_here("10.0.0.1") && is_here("::ffff:127.0.0.1"));
        let trusting = ServerArgs { tls_ca: Some("Cargo.toml".into()), ..ServerArgs::default() };
        assert!(trusting.target("localhost").unwrap().trusted.is_some());
        assert!(trusting.target("grpc://localhost").is_err());
        let user = ServerArgs { user: Some("bo".to_owned()), ..ServerArgs::default() };
        assert_eq!(user.target("ada:x@localhost").unwrap().user, Some(("bo".to_owned(), "x".to_owned())));
        assert_eq!(user.target("localhost").unwrap().port, PORT);
    }
}
