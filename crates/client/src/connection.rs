//! Connections, and how sessions begin.
//!
//! Invariants:
//! - A socket that is lost is made anew by the next call; sessions are the server's, and outlive it.
//! - A connection that answers nothing is given up after [`KEEP_ALIVE_EVERY`] and [`KEEP_ALIVE_WITHIN`], so nobody waits for ever.
//! - Answers that nobody reads do not stop others: what the server may send ahead is bounded for each, and not for all together.

use crate::failure::{not_understood, of_status, unreachable};
use crate::session::{Session, authorization};
use crate::socket::Sockets;
use alluvia_types::{Error, ErrorKind, Result};
use arrow_flight::HandshakeRequest;
use arrow_flight::flight_service_client::FlightServiceClient;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

/// How often a silent server is asked whether it is there, and what it has to answer.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(30);
const KEEP_ALIVE_WITHIN: Duration = Duration::from_secs(20);
/// What of one answer may wait here for its reader; what is longer waits at the server, for as long as that waits.
const ANSWER_BYTES: u32 = 16 << 20;
/// The same of all answers together: as much as HTTP/2 can say.
const ANSWERS_BYTES: u32 = (1 << 31) - 1;
const SPEAKS_TLS: &str = "is it alluvia serve that listens there? With a certificate it speaks TLS alone: grpc+tls://";
const AGENT: &str = concat!("alluvia-client/", env!("CARGO_PKG_VERSION"));

/// A server, and who connects.
#[derive(Clone, Default)]
pub struct Target {
    /// Name or address.
    pub host: String,
    /// Where it listens to Flight SQL.
    pub port: u16,
    /// Name and password; `None` where the server trusts.
    pub user: Option<(String, String)>,
    /// With it all goes within TLS: PEM of the server's certificate, or of those that may have signed it.
    pub trusted: Option<Vec<u8>>,
    /// What the server gets to answer first; zero is no bound.
    pub timeout: Duration,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("host", &self.host).field("port", &self.port).finish_non_exhaustive()
    }
}

impl Target {
    /// As it is written before a path.
    fn place(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// A connection to a server.
pub struct Connection {
    client: FlightServiceClient<Channel>,
    credentials: Option<AsciiMetadataValue>,
    timeout: Duration,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection(...)")
    }
}

impl Connection {
    /// Connects; nobody has logged in yet.
    pub async fn open(target: &Target) -> Result<Connection> {
        let place = target.place();
        let sockets = Sockets::new(&target.host, target.port, target.trusted.as_deref(), target.user.is_some())?;
        let credentials = target.user.as_ref().map(|(user, password)| credentials(user, password)).transpose()?;
        // Whether it is encrypted is the socket's affair, of which the URI says nothing.
        let endpoint = Endpoint::from_shared(format!("http://{place}")).and_then(|endpoint| endpoint.user_agent(AGENT));
        let endpoint = endpoint.map_err(|_| {
            Error::new(ErrorKind::InvalidSetting, format!("{place:?} is no address of a server"))
                .with_hint("write HOST:PORT, such as db.example.com:50051 or [::1]:50051")
        })?;
        let endpoint = endpoint
            .http2_keep_alive_interval(KEEP_ALIVE_EVERY)
            .keep_alive_timeout(KEEP_ALIVE_WITHIN)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(ANSWER_BYTES)
            .initial_connection_window_size(ANSWERS_BYTES);
        let connecting = endpoint.connect_with_connector(sockets);
        let channel =
            within(target.timeout, &place, async { connecting.await.map_err(|error| unreachable(&place, &error)) });
        let channel = channel.await?;
        let client = FlightServiceClient::new(channel)
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX);
        Ok(Connection { client, credentials, timeout: target.timeout })
    }

    /// A new session: a token for the user's password.
    pub async fn session(&self) -> Result<Arc<Session>> {
        let handshake = HandshakeRequest { protocol_version: 0, payload: Default::default() };
        let mut request = Request::new(futures::stream::iter([handshake]));
        if let Some(credentials) = &self.credentials {
            request.metadata_mut().insert("authorization", credentials.clone());
        }
        let mut client = self.client.clone();
        let token = within(self.timeout, "the server", async {
            let response = client.handshake(request).await.map_err(|status| unfriendly(&status))?;
            let answer = response.into_inner().message().await.map_err(|status| unfriendly(&status))?;
            answer.map(|answer| answer.payload).ok_or_else(|| not_understood("a handshake gave no token"))
        });
        let token = token.await?;
        let token = std::str::from_utf8(&token).map_err(|_| not_understood("a token is no text"))?;
        Ok(Session::begin(self.client.clone(), authorization(&format!("Bearer {token}"))?))
    }
}

/// The error of a handshake, before which nothing was asked for.
fn unfriendly(status: &Status) -> Error {
    let error = of_status(status);
    match error.kind() {
        ErrorKind::Io => error.with_hint(SPEAKS_TLS),
        _ => error,
    }
}

/// What shows a user's password.
fn credentials(user: &str, password: &str) -> Result<AsciiMetadataValue> {
    if user.contains(':') {
        return Err(Error::new(ErrorKind::InvalidSetting, format!("{user:?} is no name of a user: it has a colon")));
    }
    authorization(&format!("Basic {}", BASE64.encode(format!("{user}:{password}"))))
}

/// Gives up after `timeout`.
async fn within<T>(timeout: Duration, place: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    if timeout.is_zero() {
        return work.await;
    }
    match tokio::time::timeout(timeout, work).await {
        Ok(result) => result,
        Err(_) => {
            Err(Error::new(ErrorKind::Io, format!("{place} does not answer within {timeout:?}")).with_hint(SPEAKS_TLS))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_version_six_are_in_brackets() {
        let place = |host: &str| Target { host: host.to_owned(), port: 7, ..Target::default() }.place();
        assert_eq!([place("::1"), place("db")], ["[::1]:7", "db:7"]);
    }

    #[test]
    fn passwords_are_shown_as_http_has_them_and_to_nobody_else() {
        assert_eq!(credentials("me", "a:b").unwrap().to_str().unwrap(), "Basic bWU6YTpi");
        assert!(credentials("me", "a:b").unwrap().is_sensitive());
        assert!(credentials("m:e", "").is_err());
        let target = Target { user: Some(("me".to_owned(), "secret".to_owned())), ..Target::default() };
        assert!(!format!("{target:?}").contains("secret"));
    }
}
