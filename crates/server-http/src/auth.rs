//! Authentication of requests: whose a request is, and whether its user may log in.
//!
//! Invariants:
//! - No rows and no names are told, no session made and no body read before a request has shown its user's password.
//! - Wrong passwords are slowed down with those of all other protocols.
//! - Pages of other origins cannot ask through somebody's browser: a request that says it comes from one is refused, and where no
//!   password is asked for, so is one for a name that is not this machine's own.

use crate::failure::Failure;
use crate::shared::Shared;
use crate::statuses::Refusal;
use alluvia_access::{Access, LogIn, LogInAttempt, Rejected};
use alluvia_types::{Error, ErrorKind};
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// What sessions and the audit log call it.
pub(crate) const PROTOCOL: &str = "http";
/// The user of requests that need no password.
const NOBODY: &str = "anonymous";

/// The client of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// The user that a request is from.
pub(crate) async fn user(shared: &Arc<Shared>, headers: &HeaderMap, peer: Peer) -> Result<String, Failure> {
    refuse_other_origins(headers)?;
    let Access::Passwords(passwords) = &shared.options.access else {
        refuse_other_names(headers)?;
        let user = credentials(headers).ok().flatten().map_or_else(|| NOBODY.to_owned(), |(user, _)| user);
        shared.engine.trusted(&user, PROTOCOL, peer.0.ip(), LogIn::Request).await;
        return Ok(user);
    };
    let peer: IpAddr = peer.0.ip();
    let Some((user, password)) = credentials(headers)? else {
        return Err(Failure::from(Error::new(ErrorKind::Authentication, "the request has no user and password"))
            .of("header Authorization")
            .with_hint("send Authorization: Basic, or Bearer with the same base64 of user:password"));
    };
    let attempt = LogInAttempt { user: &user, password: &password, protocol: PROTOCOL, peer, kind: LogIn::Request };
    match shared.password_login.let_in(passwords, &shared.options.attempts, attempt, &|| shared.now()).await {
        Ok(()) => Ok(user),
        Err(Rejected { error, is_for_many: true }) => Err(Failure::from(error).with_refusal(Refusal::Guessing)),
        Err(Rejected { error, .. }) => Err(Failure::from(error).of("header Authorization")),
    }
}

/// User and password, if the request has any.
fn credentials(headers: &HeaderMap) -> Result<Option<(String, String)>, Failure> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let unreadable = || {
        Failure::from(Error::new(ErrorKind::Authentication, "the header Authorization cannot be read"))
            .of("header Authorization")
            .with_hint("it is Basic or Bearer, and the base64 of user:password in UTF-8")
    };
    let text = value.to_str().map_err(|_| unreadable())?;
    let (scheme, coded) = text.split_once(' ').ok_or_else(unreadable)?;
    let is_known = scheme.eq_ignore_ascii_case("basic") || scheme.eq_ignore_ascii_case("bearer");
    if !is_known {
        return Err(unreadable());
    }
    alluvia_access::credentials(coded).map(Some).map_err(|_| unreadable())
}

/// Refuses whoever may not read what the server counts.
pub(crate) async fn watcher(shared: &Arc<Shared>, headers: &HeaderMap, peer: Peer) -> Result<(), Failure> {
    if shared.options.metrics_on_loopback && peer.0.ip().to_canonical().is_loopback() {
        refuse_other_origins(headers)?;
        // Without a password, as where none is asked for at all.
        return refuse_other_names(headers);
    }
    let user = user(shared, headers, peer).await?;
    Ok(shared.engine.may_watch(&user)?)
}

fn forbidden(place: &str, message: &str) -> Failure {
    Failure::from(Error::new(ErrorKind::Authentication, message)).of(place).with_refusal(Refusal::Origin)
}

fn refuse_other_origins(headers: &HeaderMap) -> Result<(), Failure> {
    let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or_default();
    let authority = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    match (authority, headers.get(HOST).and_then(|host| host.to_str().ok())) {
        (Some(authority), Some(host)) if authority.eq_ignore_ascii_case(host) => Ok(()),
        _ => Err(forbidden("header Origin", "pages of other origins may not ask this server")),
    }
}

/// Whoever makes a name point at this machine could otherwise ask as a page of that name.
fn refuse_other_names(headers: &HeaderMap) -> Result<(), Failure> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(host, |(name, _)| name);
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let is_own = name.is_empty() || name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok();
    if is_own {
        Ok(())
    } else {
        Err(forbidden("header Host", "without passwords the server is asked as localhost or by its address"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(pairs: &[(axum::http::HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn basic_and_bearer_carry_the_same() {
        for (header, wanted) in [
            ("Basic bWU6YTpi", Some(("me", "a:b"))),
            ("bearer bWU6YTpi", Some(("me", "a:b"))),
            ("Basic bWU6", Some(("me", ""))),
            ("Basic bWU", None),
            ("Digest bWU6YTpi", None),
            ("Basic", None),
            ("Basic /////w==", None),
        ] {
            let found = credentials(&headers(&[(AUTHORIZATION, header)])).ok().flatten();
            let wanted = wanted.map(|(user, password)| (user.to_owned(), password.to_owned()));
            assert_eq!(found, wanted, "{header}");
        }
        assert!(credentials(&HeaderMap::new()).unwrap().is_none());
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        for (origin, host, allowed) in [
            ("http://localhost:8080", "localhost:8080", true),
            ("https://evil.example", "localhost:8080", false),
            ("null", "localhost:8080", false),
            ("http://localhost:8081", "localhost:8080", false),
        ] {
            assert_eq!(refuse_other_origins(&headers(&[(ORIGIN, origin), (HOST, host)])).is_ok(), allowed, "{origin}");
        }
        for (host, allowed) in
            [("localhost", true), ("127.0.0.1:8080", true), ("[::1]:8080", true), ("evil.example:8080", false)]
        {
            assert_eq!(refuse_other_names(&headers(&[(HOST, host)])).is_ok(), allowed, "{host}");
        }
    }
}
