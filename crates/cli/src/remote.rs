//! A connection to a server that runs, over PostgreSQL's protocol.
//!
//! Invariant: a password goes over the network only within TLS, and to a server whose certificate the given file holds or signs.

use alluvia_client::tls;
use alluvia_types::{Error, ErrorKind, Result};
use clap::Args;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{ChannelBinding, TlsConnect};
use tokio_postgres::{Client, Config, NoTls};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

/// The variable that holds the password.
pub const PASSWORD: &str = "ALLUVIA_PASSWORD";
/// What a server has to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Args)]
pub struct RemoteArgs {
    /// Where the server listens to PostgreSQL's clients.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:5432")]
    server: String,
    /// The user. A password is read from the variable ALLUVIA_PASSWORD.
    #[arg(long, default_value = "alluvia")]
    user: String,
    /// Speaks TLS: a file in PEM with the server's certificate, or the one that signed it.
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
}

/// Connects and logs in.
pub async fn connect(args: &RemoteArgs) -> Result<Client> {
    match timeout(CONNECT_TIMEOUT, connected(args)).await {
        Ok(connected) => connected,
        Err(_) => Err(Error::new(ErrorKind::Io, format!("the server at {} does not answer", args.server))),
    }
}

async fn connected(args: &RemoteArgs) -> Result<Client> {
    let host = args.server.rsplit_once(':').map(|(host, _)| host.trim_matches(['[', ']'])).ok_or_else(|| {
        Error::new(ErrorKind::InvalidSetting, format!("{:?} is no address of a server", args.server))
            .with_hint("write --server HOST:PORT, such as 127.0.0.1:5432 or [::1]:5432")
    })?;
    let stream = TcpStream::connect(&args.server).await.map_err(|error| {
        Error::new(ErrorKind::Io, format!("there is no connection to {}: {error}", args.server))
            .with_hint("alluvia serve says where it listens; state it with --server HOST:PORT")
    })?;
    let is_local = stream.peer_addr().is_ok_and(|peer| peer.ip().is_loopback());
    let mut config = Config::new();
    config.user(&args.user).dbname("alluvia").application_name("alluvia");
    if let Ok(password) = std::env::var(PASSWORD) {
        if args.tls_ca.is_none() && !is_local {
            return Err(Error::new(
                ErrorKind::InvalidSetting,
                format!("a password for {} would be sent without TLS", args.server),
            )
            .with_hint("state the server's certificate with --tls-ca FILE"));
        }
        config.password(password);
    }
    match &args.tls_ca {
        None => {
            config.ssl_mode(SslMode::Disable);
            let (client, connection) = config.connect_raw(stream, NoTls).await.map_err(|error| told(&error))?;
            tokio::spawn(connection);
            Ok(client)
        }
        Some(file) => {
            config.ssl_mode(SslMode::Require);
            let tls = Rustls::new(file, host)?;
            let (client, connection) = config.connect_raw(stream, tls).await.map_err(|error| told(&error))?;
            tokio::spawn(connection);
            Ok(client)
        }
    }
}

/// What the server said, as our own errors say it.
pub fn told(error: &tokio_postgres::Error) -> Error {
    let Some(said) = error.as_db_error() else {
        let cause =
            std::error::Error::source(error).map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
        return Error::new(ErrorKind::Protocol, format!("the server was not understood: {cause}"));
    };
    let kind = ErrorKind::ALL.into_iter().find(|kind| kind.sqlstate() == said.code().code());
    let told = Error::new(kind.unwrap_or(ErrorKind::Internal), said.message());
    let told = match said.detail() {
        Some(detail) => told.with_detail(detail),
        None => told,
    };
    match said.hint() {
        Some(hint) => told.with_hint(hint),
        None => told,
    }
}

/// Makes TLS of a connection.
struct Rustls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Rustls {
    fn new(file: &Path, host: &str) -> Result<Rustls> {
        let pem = std::fs::read(file).map_err(|error| Error::io(file, "reading", &error))?;
        let config = tls::trusting(&pem).map_err(|error| error.at(file.display()))?;
        Ok(Rustls { connector: TlsConnector::from(Arc::new(config)), name: tls::server_name(host)? })
    }
}

impl TlsConnect<TcpStream> for Rustls {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;

    fn connect(self, stream: TcpStream) -> Self::Future {
        Box::pin(async move { self.connector.connect(self.name, stream).await.map(Encrypted) })
    }
}

/// A connection within TLS.
struct Encrypted(tokio_rustls::client::TlsStream<TcpStream>);

impl tokio_postgres::tls::TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
