//! Authentication of calls: whose a call is, and whether its user may log in.
//!
//! Invariants:
//! - No rows and no names are told, no session made and no message read ([`crate::interceptor`]) before a call has shown its user's password,
//!   or a token that was given for one.
//! - Wrong passwords are slowed down with those of all other protocols.
//! - A call with a token is of the token's login; one with a password, or where none is needed, of its connection's,
//!   while its user's name is the same role's ([`crate::connection`]).
//! - Either is let in by what holds now: a password is compared with each call, and so is what a token was given for ([`crate::tokens`]).

use crate::caller::Caller;
use crate::connection::Connection;
use crate::login::Login;
use crate::shared::Shared;
use crate::tokens::Entrance;
use alluvia_access::{Access, Busy, LogIn, Verifier};
use alluvia_query::Client;
use alluvia_types::{Error, ErrorKind, Result};
use std::sync::Arc;
use tonic::Extensions;
use tonic::codegen::http::HeaderMap;

/// What sessions and the audit log call it.
pub(crate) const PROTOCOL: &str = "flight";
/// The user of calls that need no password.
const NOBODY: &str = "anonymous";
const AUTHORIZATION: &str = "authorization";

/// What a call shows.
#[derive(Debug, PartialEq, Eq)]
enum Shown {
    Nothing,
    Token(String),
    Password(String, String),
}

/// The connection that a call came on.
fn connection(extensions: &Extensions) -> Result<Arc<Connection>> {
    extensions.get::<Arc<Connection>>().cloned().ok_or_else(|| Error::internal("a call from nowhere"))
}

/// Who calls, if they may.
pub(crate) async fn caller(shared: &Arc<Shared>, headers: &HeaderMap, extensions: &Extensions) -> Result<Arc<Caller>> {
    let connection = connection(extensions)?;
    let there = Arc::clone(shared);
    let busy = Busy::new(Arc::clone(&connection.slot), move || there.now());
    let login = match shown(headers)? {
        Shown::Token(token) => shared.tokens.login(&token, shared.now(), &shared.options)?,
        shown => {
            let user = user(shared, &connection, shown, LogIn::Request).await?;
            connection.login(&user, || login(shared, &connection, user.clone()))?
        }
    };
    connection.slot.known();
    Ok(Caller::new(shared, login, busy))
}

/// A handshake: a token for a user's password.
pub(crate) async fn handshake(shared: &Arc<Shared>, headers: &HeaderMap, extensions: &Extensions) -> Result<String> {
    let connection = connection(extensions)?;
    let there = Arc::clone(shared);
    let _busy = Busy::new(Arc::clone(&connection.slot), move || there.now());
    let shown = match shown(headers)? {
        Shown::Token(_) => return Err(unreadable("a token gives no other token")),
        shown => shown,
    };
    // Before the password is looked at: if it is changed meanwhile, the token is of the one that was.
    let known = known_of(shared, &shown);
    let user = user(shared, &connection, shown, LogIn::Lasting).await?;
    connection.slot.known();
    let login = login(shared, &connection, user.clone())?;
    shared.tokens.add(login, Entrance { user, known }, shared.now(), &shared.options)
}

/// What is known of the password of whom a call is from; `None` where none is asked for.
fn known_of(shared: &Shared, shown: &Shown) -> Option<Verifier> {
    match (&shared.options.access, shown) {
        (Access::Passwords(passwords), Shown::Password(user, _)) => passwords.verifier(user),
        _ => None,
    }
}

/// Rows of a batch, unless the client sets another number: each is a message, which costs clients more than plans gain by small ones.
const BATCH_ROWS: &str = "32768";

fn login(shared: &Arc<Shared>, connection: &Connection, user: String) -> Result<Arc<Login>> {
    let session = shared.engine.session();
    session.start_with("batch_size", BATCH_ROWS)?;
    session.limit_statements(shared.options.statement_timeout);
    session.introduce(Client { user, protocol: PROTOCOL, address: connection.peer.to_string() });
    Ok(Login::new(session, shared.now()))
}

/// The user whose password is shown, or who needs none.
async fn user(shared: &Arc<Shared>, connection: &Connection, shown: Shown, kind: LogIn) -> Result<String> {
    let peer = connection.peer.ip();
    let Access::Passwords(passwords) = &shared.options.access else {
        let user = match shown {
            Shown::Password(user, _) if !user.is_empty() => user,
            _ => NOBODY.to_owned(),
        };
        shared.engine.trusted(&user, PROTOCOL, peer, kind).await;
        return Ok(user);
    };
    let Shown::Password(user, password) = shown else {
        return Err(Error::new(ErrorKind::Authentication, "the call shows no token and no password")
            .with_hint("give the client a user name and a password"));
    };
    let attempt = alluvia_access::LogInAttempt { user: &user, password: &password, protocol: PROTOCOL, peer, kind };
    let now = || shared.now();
    let let_in = shared.password_login.let_in(passwords, &shared.options.attempts, attempt, &now).await;
    let_in.map_err(|rejected| rejected.error)?;
    Ok(user)
}

fn unreadable(what: &str) -> Error {
    Error::new(ErrorKind::Authentication, format!("the header authorization cannot be read: {what}"))
        .with_hint("it is Bearer and a token of this server, or Basic and the base64 of user:password in UTF-8")
}

/// What the header of a call says.
fn shown(headers: &HeaderMap) -> Result<Shown> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(Shown::Nothing) };
    let text = value.to_str().map_err(|_| unreadable("it is no text"))?;
    let (scheme, rest) = text.split_once(' ').ok_or_else(|| unreadable("it names no scheme"))?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Ok(Shown::Token(rest.trim().to_owned()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(unreadable("its scheme is not known"));
    }
    let (user, password) = alluvia_access::credentials(rest).map_err(unreadable)?;
    Ok(Shown::Password(user, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_and_passwords_are_told_apart() {
        let password = |user: &str, password: &str| Some(Shown::Password(user.to_owned(), password.to_owned()));
        for (header, wanted) in [
            ("Basic bWU6YTpi", password("me", "a:b")),
            ("basic bWU6", password("me", "")),
            // Some clients leave the end of base64 out.
            ("Basic bWU6YQ", password("me", "a")),
            ("Bearer bWU6YTpi", Some(Shown::Token("bWU6YTpi".to_owned()))),
            ("Basic bWU", None),
            ("Digest bWU6YTpi", None),
            ("Basic", None),
            ("Basic /////w==", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, header.parse().unwrap());
            assert_eq!(shown(&headers).ok(), wanted, "{header}");
        }
        assert_eq!(shown(&HeaderMap::new()).unwrap(), Shown::Nothing);
    }
}
