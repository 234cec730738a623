//! The start of a connection: TLS, authentication, and the settings that the client asks for.
//!
//! Invariants:
//! - Nothing of the database is told, and no session made, before a client has logged in; what it sends until then is short.
//! - Who gives wrong passwords waits, longer each time, and is refused after many: guessing is slow, whatever the number of
//!   connections.
//! - Settings of the start are as SET takes them: one that is not known ends the connection.
//! - There is one database. Who asks for another is told so, once they have logged in.

use crate::connection::Connection;
use crate::io::{Io, Socket, is_gone};
use crate::shared::{LoggedIn, Shared};
use crate::wire::{First, Message, PROTOCOL_3, Severity};
use alluvia_access::{Access, Exchange, LogIn, MECHANISM};
use alluvia_query::Client;
use alluvia_syntax::names::DATABASE_NAME;
use alluvia_types::{Error, ErrorKind, Result};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// What sessions and the audit log call it.
const PROTOCOL: &str = "postgresql";
/// The database that many tools ask for when nobody has told them another.
const USUAL_DATABASE: &str = "postgres";
/// Codes of the authentication message.
const OK: u32 = 0;
const SASL: u32 = 10;
const SASL_CONTINUE: u32 = 11;
const SASL_FINAL: u32 = 12;

/// Starts a connection; `None` if it is over, and the client was told why.
pub(crate) async fn start(mut io: Io, peer: SocketAddr, shared: Arc<Shared>) -> Option<(Connection, LoggedIn)> {
    match begin(&mut io, peer.ip(), &shared).await {
        Ok(None) => None,
        Ok(Some(parameters)) => {
            let Some(logged_in) = shared.log_in() else {
                let error = Error::new(
                    ErrorKind::Busy,
                    format!("{} connections are open, and no more are allowed", shared.options.connections_max),
                );
                io.out.error(Severity::Fatal, &error.with_hint("close some, or raise connections_max of the server"));
                let _ = io.flush().await;
                return None;
            };
            io.logged_in(shared.options.message_bytes_max);
            let connection = open(io, parameters, peer, &shared).await?;
            Some((connection, logged_in))
        }
        Err(error) => {
            if !is_gone(&error) {
                io.out.error(Severity::Fatal, &error);
                let _ = io.flush().await;
            }
            None
        }
    }
}

/// Up to the end of authentication; gives the startup message's parameters, or `None` for a connection that is done.
async fn begin(io: &mut Io, peer: IpAddr, shared: &Arc<Shared>) -> Result<Option<Vec<(String, String)>>> {
    let mut is_tls = false;
    let (version, parameters) = loop {
        match io.first().await? {
            First::Cancel { process, secret } => {
                shared.cancels.cancel(process, secret);
                return Ok(None);
            }
            First::Ssl if !is_tls && shared.options.tls.is_some() => {
                is_tls = true;
                encrypt(io, shared).await?;
            }
            First::Ssl | First::Gss => {
                let sent = io.socket.write_all(b"N").await;
                sent.map_err(|error| {
                    Error::new(ErrorKind::Io, format!("the connection to the client failed: {error}"))
                })?;
            }
            First::Startup { version, parameters } => break (version, parameters),
        }
    };
    let (major, minor) = (version >> 16, version & 0xffff);
    if major != PROTOCOL_3 >> 16 {
        return Err(Error::new(ErrorKind::NotSupported, format!("protocol {major}.{minor} is not supported"))
            .with_hint("this server speaks PostgreSQL's protocol 3.0"));
    }
    let unknown: Vec<&str> =
        parameters.iter().map(|(name, _)| name.as_str()).filter(|name| name.starts_with("_pq_.")).collect();
    if minor > 0 || !unknown.is_empty() {
        io.out.negotiate_version(0, &unknown);
    }
    let user = parameters.iter().find(|(name, _)| name == "user").map(|(_, user)| user.as_str());
    let Some(user) = user.filter(|user| !user.is_empty()) else {
        return Err(Error::new(ErrorKind::Authentication, "the client does not say which user it is"));
    };
    if let Access::Passwords(_) = &shared.options.access {
        if shared.options.tls.is_some() && !is_tls && !peer.is_loopback() {
            return Err(Error::new(ErrorKind::Authentication, "the connection is not encrypted")
                .with_hint("connect with sslmode=require"));
        }
        log_in(io, user, peer, shared).await?;
    }
    io.out.authentication(OK, &[]);
    let database = parameters.iter().find(|(name, _)| name == "database").map_or("", |(_, database)| database.as_str());
    check_database(database, user)?;
    Ok(Some(parameters))
}

/// Refuses a database that is not here. What clients ask for when nobody named one is the database that is: nothing, the name of their
/// user, or PostgreSQL's own.
fn check_database(database: &str, user: &str) -> Result<()> {
    if database.is_empty() || [DATABASE_NAME, USUAL_DATABASE, user].contains(&database) {
        return Ok(());
    }
    let shown: String = database.chars().take(60).collect();
    Err(Error::new(
        ErrorKind::UndefinedDatabase,
        format!("there is no database {shown:?}: the one here is {DATABASE_NAME}"),
    )
    .with_hint(format!("connect with dbname={DATABASE_NAME}")))
}

/// Goes over to TLS.
async fn encrypt(io: &mut Io, shared: &Arc<Shared>) -> Result<()> {
    let failed =
        |error: std::io::Error| Error::new(ErrorKind::Io, format!("the connection to the client failed: {error}"));
    if io.has_unread() {
        // Somebody in between may have put it there, to be taken for what came encrypted.
        return Err(Error::new(ErrorKind::Protocol, "something was sent in the clear after TLS was asked for"));
    }
    let Some(tls) = &shared.options.tls else { return Ok(()) };
    io.socket.write_all(b"S").await.map_err(failed)?;
    io.encrypt(|stream| async move { tls.accept(stream, &[]).await.map_err(failed) }).await
}

/// SCRAM-SHA-256.
async fn log_in(io: &mut Io, user: &str, peer: IpAddr, shared: &Arc<Shared>) -> Result<()> {
    shared.options.attempts.check(peer, shared.now())?;
    let Access::Passwords(passwords) = &shared.options.access else { return Ok(()) };
    let broken =
        |what: &str| Error::new(ErrorKind::Protocol, format!("the client's password message cannot be read: {what}"));
    io.out.authentication(SASL, format!("{MECHANISM}\0\0").as_bytes());
    let first = password(io).await?;
    let mechanism_end = first.iter().position(|byte| *byte == 0).ok_or_else(|| broken("it names no mechanism"))?;
    let (mechanism, rest) = first.split_at(mechanism_end);
    if mechanism != MECHANISM.as_bytes() || rest.len() < 5 {
        return Err(broken(&format!("the only mechanism is {MECHANISM}")));
    }
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| broken("it is not UTF-8"));
    let verifier = passwords.verifier(user).unwrap_or_else(|| shared.decoys.verifier(user));
    let (exchange, answer) = Exchange::begin(&text(&rest[5..])?, verifier)?;
    io.out.authentication(SASL_CONTINUE, answer.as_bytes());
    let last = password(io).await?;
    let proof = text(&last)?;
    // Counted before it is looked at: however many connections guess at once, no more than the bound are told.
    let wait = shared.options.attempts.admit(peer, user, shared.now())?;
    match exchange.finish(&proof)? {
        Some(answer) => {
            shared.options.attempts.right(peer, user);
            // Waits for the audit log, so where a thread may.
            let (passwords, user) = (passwords.clone(), user.to_owned());
            let admitted = spawn_blocking(move || passwords.admit(&user, PROTOCOL, peer, LogIn::Lasting)).await;
            admitted.unwrap_or_else(|error| Err(Error::internal(format!("a log-in failed: {error}"))))?;
            io.out.authentication(SASL_FINAL, answer.as_bytes());
            Ok(())
        }
        None => {
            tracing::warn!(%peer, user, "a wrong password");
            let (passwords, name) = (passwords.clone(), user.to_owned());
            drop(spawn_blocking(move || passwords.refused(&name, PROTOCOL, peer, "wrong password")).await);
            sleep(wait).await;
            Err(Error::new(ErrorKind::Authentication, format!("password authentication failed for user {user:?}")))
        }
    }
}

async fn password(io: &mut Io) -> Result<bytes::Bytes> {
    match io.next().await? {
        Message::Password(bytes) => Ok(bytes),
        _ => Err(Error::new(ErrorKind::Protocol, "a password is asked for, and another message comes")),
    }
}

/// Makes the session and tells the client of it.
async fn open(io: Io, parameters: Vec<(String, String)>, peer: SocketAddr, shared: &Arc<Shared>) -> Option<Connection> {
    let session = Arc::new((shared.sessions)());
    let user = parameters.iter().find(|(name, _)| name == "user").map(|(_, user)| user.clone());
    session.limit_statements(shared.options.statement_timeout);
    session.introduce(Client { user: user.unwrap_or_default(), protocol: PROTOCOL, address: peer.to_string() });
    if let Access::Trust = &shared.options.access {
        session.trusted(peer.ip(), LogIn::Lasting).await;
    }
    let registered = shared.cancels.register(session.cancel_handle(), session.id());
    let (process, secret) = (registered.process, registered.secret);
    let mut connection = match Connection::new(io, session, Arc::clone(shared), registered) {
        Ok(connection) => connection,
        Err(error) => {
            tracing::error!(%error, "a session could not be made");
            return None;
        }
    };
    match settings(&mut connection, &parameters) {
        Ok(()) => {
            connection.reporter.settings(&connection.session, &mut connection.io.out);
            connection.io.out.backend_key(process, secret);
            Some(connection)
        }
        Err(error) => {
            connection.io.out.error(Severity::Fatal, &error);
            let _ = connection.io.flush().await;
            None
        }
    }
}

/// Sets what the client asks for.
fn settings(connection: &mut Connection, parameters: &[(String, String)]) -> Result<()> {
    let mut wanted: Vec<(String, String)> = Vec::new();
    for (name, value) in parameters {
        match name.as_str() {
            "user" | "database" => {}
            "replication" if matches!(value.as_str(), "false" | "off" | "no" | "0") => {}
            "replication" => return Err(Error::new(ErrorKind::NotSupported, "replication is not supported")),
            "options" => wanted.extend(command_line(value)?),
            name if name.starts_with("_pq_.") => {}
            // asyncpg sends it in quotes, as SET would have it.
            "client_encoding" => wanted.push((name.clone(), value.trim_matches('\'').to_owned())),
            name => wanted.push((name.to_owned(), value.clone())),
        }
    }
    wanted.iter().try_for_each(|(name, value)| connection.session.start_with(name, value))
}

/// Settings out of `-c name=value --name=value`, with backslashes before spaces that belong to a value.
fn command_line(text: &str) -> Result<Vec<(String, String)>> {
    let wrong = |word: &str| {
        Error::new(ErrorKind::InvalidSetting, format!("the connection option {word} cannot be read"))
            .with_hint("write options as -c name=value")
    };
    let mut words = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, words.last_mut()) {
            ('\\', Some(word)) => word.extend(chars.next()),
            (c, _) if c.is_whitespace() => words.push(String::new()),
            (c, Some(word)) => word.push(c),
            (_, None) => {}
        }
    }
    let mut settings = Vec::new();
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    while let Some(word) = words.next() {
        let pair = if word == "-c" {
            words.next().ok_or_else(|| wrong(&word))?
        } else if let Some(pair) = word.strip_prefix("--").or_else(|| word.strip_prefix("-c")) {
            pair.to_owned()
        } else {
            return Err(wrong(&word));
        };
        let (name, value) = pair.split_once('=').ok_or_else(|| wrong(&pair))?;
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

impl Io {
    /// Puts the socket under TLS.
    async fn encrypt<F, Fut>(&mut self, accept: F) -> Result<()>
    where
        F: FnOnce(tokio::net::TcpStream) -> Fut,
        Fut: Future<Output = Result<tokio_rustls::server::TlsStream<tokio::net::TcpStream>>>,
    {
        let Some(stream) = self.take_plain() else { return Err(Error::internal("TLS within TLS")) };
        *self.socket.inner_mut() = Socket::Tls(Box::new(accept(stream).await?));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_is_not_here_is_refused_and_the_usual_names_are_the_one_that_is() {
        for (database, is_here) in [
            ("", true),
            ("alluvia", true),
            ("postgres", true),
            ("me", true),
            ("you", false),
            ("Alluvia", false),
            ("alluvia ", false),
        ] {
            let checked = check_database(database, "me");
            assert_eq!(checked.is_ok(), is_here, "{database}");
            if let Err(error) = checked {
                assert_eq!((error.kind(), error.kind().sqlstate()), (ErrorKind::UndefinedDatabase, "3D000"));
                assert!(error.message().contains(database) && error.message().contains("alluvia"), "{error}");
            }
        }
    }

    #[test]
    fn options_are_read_as_postgresql_reads_them() {
        let settings = command_line(r"-c freshness=5s  -cmax=1 --work-mem=4MB -c application_name=a\ b\\").unwrap();
        let settings: Vec<(&str, &str)> =
            settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(settings, [("freshness", "5s"), ("max", "1"), ("work_mem", "4MB"), ("application_name", "a b\\")]);
        for wrong in ["-c", "-c freshness", "freshness=5s"] {
            assert!(command_line(wrong).is_err(), "{wrong}");
        }
    }
}
