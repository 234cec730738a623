//! How a node comes to another: its name is looked up, and it is greeted, each time a connection is made.
//!
//! Invariants:
//! - Without certificates only addresses of loopback are asked: what is said is not encrypted.
//! - That the other side is not of this cluster is logged once, until it changes.

use crate::address::parts;
use crate::certificates::{Certificates, Security, Subject, elsewhere, host_name};
use crate::greeting::{GREETING, GREETING_TIME, Refused, TLS_ALERT, Wire, leave, why};
use alluvia_types::Result;
use futures::future::BoxFuture;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls_pki_types::ServerName;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tonic::codegen::http::Uri;

/// A connection to one address of a host is tried for so long.
const CONNECTING: Duration = Duration::from_secs(1);

/// Makes connections to one node. A copy is the same one.
#[derive(Clone)]
pub(crate) struct Connector(Arc<Node>);

struct Node {
    address: String,
    port: u16,
    host: String,
    /// The host as certificates name it.
    name: ServerName<'static>,
    security: Security,
    /// Why the node was not linked, as it was logged last.
    told: Mutex<Option<String>>,
}

impl Connector {
    /// To a node at an address.
    pub(crate) fn to(address: &str, security: Security) -> Result<Connector> {
        let (host, port) = parts(address)?;
        let is_elsewhere = host.parse::<IpAddr>().is_ok_and(|ip| !ip.is_loopback());
        if matches!(security, Security::Secret(_)) && is_elsewhere {
            return Err(elsewhere(address));
        }
        let (name, host) = (host_name(host)?, host.to_owned());
        Ok(Connector(Arc::new(Node {
            address: address.to_owned(),
            port,
            host,
            name,
            security,
            told: Mutex::default(),
        })))
    }
}

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<Wire>;
    type Error = Refused;
    type Future = BoxFuture<'static, Result<TokioIo<Wire>, Refused>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Refused>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let node = Arc::clone(&self.0);
        Box::pin(async move { node.connect().await.map(TokioIo::new) })
    }
}

impl Node {
    async fn connect(&self) -> Result<Wire, Refused> {
        let stream = self.reach().await?;
        let greeted = match timeout(GREETING_TIME, self.greeted(stream)).await {
            Ok(greeted) => greeted,
            Err(_) => Err(format!("it does not answer within {} s", GREETING_TIME.as_secs())),
        };
        let mut told = self.told.lock();
        match greeted {
            Ok(wire) => {
                *told = None;
                Ok(wire)
            }
            Err(why) => {
                if told.as_ref() != Some(&why) {
                    tracing::warn!("the node at {} is not linked: {why}", self.address);
                    *told = Some(why.clone());
                }
                Err(Refused(format!("the node at {} is not linked: {why}", self.address)))
            }
        }
    }

    /// A socket to the host, whose name is looked up now.
    async fn reach(&self) -> Result<TcpStream, Refused> {
        let found = lookup_host((self.host.as_str(), self.port)).await;
        let found = found.map_err(|error| Refused(format!("the name {} is not known: {error}", self.host)))?;
        let mut refused = Refused(format!("the name {} has no address", self.host));
        for address in found {
            if matches!(self.security, Security::Secret(_)) && !address.ip().is_loopback() {
                let error = elsewhere(&self.address);
                return Err(Refused(format!("{error}; {}", error.hint().unwrap_or_default())));
            }
            match timeout(CONNECTING, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // Said by a socket that has ended: then what follows says so, too.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => refused = Refused(format!("{}: {error}", self.address)),
                Err(_) => {
                    refused = Refused(format!("{}: no answer within {} s", self.address, CONNECTING.as_secs()));
                }
            }
        }
        Err(refused)
    }

    async fn greeted(&self, stream: TcpStream) -> Result<Wire, String> {
        match &self.security {
            Security::Certificates(own) => self.tls(stream, own).await,
            Security::Secret(_) => plain(stream).await,
        }
    }

    async fn tls(&self, stream: TcpStream, own: &Certificates) -> Result<Wire, String> {
        let noted: Arc<OnceLock<Subject>> = Arc::default();
        let connector = TlsConnector::from(own.client(&noted));
        let mut stream = match connector.connect(self.name.clone(), stream).into_fallible().await {
            Ok(stream) => stream,
            Err((error, stream)) => {
                tokio::spawn(leave(stream));
                return Err(why(&error, own, noted.get()));
            }
        };
        // The handshake ends here before the other side has judged this node's certificate.
        match stream.read_u8().await {
            Ok(GREETING) => Ok(Box::new(stream)),
            Ok(_) => Err("it is no node of Alluvia, or of another version".to_owned()),
            Err(error) => Err(why(&error, own, noted.get())),
        }
    }
}

async fn plain(mut stream: TcpStream) -> Result<Wire, String> {
    let answered = async {
        stream.write_u8(GREETING).await?;
        stream.read_u8().await
    };
    match answered.await {
        Ok(GREETING) => Ok(Box::new(stream)),
        Ok(TLS_ALERT) => {
            Err("it speaks TLS, and this node has no certificates: start it with --certificates".to_owned())
        }
        Ok(_) => Err("it is no node of Alluvia, or of another version".to_owned()),
        Err(error) => Err(format!("it ended the connection: {error}")),
    }
}
