//! TLS: certificates of a server, and the addresses on which a server may listen without TLS.

use crate::passwords::Access;
use alluvia_types::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::net::SocketAddr;
use std::sync::Arc;
use std::{fmt, io};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::server::TlsStream;

/// A certificate with its key; can be replaced while servers run.
#[derive(Clone)]
pub struct Tls {
    config: Arc<Mutex<Arc<ServerConfig>>>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(...)")
    }
}

impl Tls {
    /// Of a chain of certificates and a private key, both in PEM.
    pub fn new(certificates: &[u8], key: &[u8]) -> Result<Tls> {
        Ok(Tls { config: Arc::new(Mutex::new(tls_config(certificates, key)?)) })
    }

    /// Connections that begin from now on get this certificate.
    pub fn replace(&self, certificates: &[u8], key: &[u8]) -> Result<()> {
        *self.config.lock() = tls_config(certificates, key)?;
        Ok(())
    }

    /// Agrees on TLS over a connection that begins now, and on one of these protocols by name if there are any. Waits for the client as
    /// long as the caller does.
    pub async fn accept(&self, stream: TcpStream, protocols: &[&[u8]]) -> io::Result<TlsStream<TcpStream>> {
        let mut config = Arc::clone(&self.config.lock());
        if !protocols.is_empty() {
            Arc::make_mut(&mut config).alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        }
        TlsAcceptor::from(config).accept(stream).await
    }
}

fn tls_config(certificates: &[u8], key: &[u8]) -> Result<Arc<ServerConfig>> {
    let wrong = |what: &str, error: &dyn fmt::Display| {
        Error::new(ErrorKind::InvalidSetting, format!("the TLS {what} cannot be used: {error}"))
            .with_hint("certificate and key are files in PEM, the server's own certificate first")
    };
    let chain = CertificateDer::pem_slice_iter(certificates).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| wrong("certificate", &error))?;
    if chain.is_empty() {
        return Err(wrong("certificate", &"there is none in the file"));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| wrong("key", &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong("configuration", &error))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| wrong("certificate", &error))?;
    Ok(Arc::new(config))
}

/// Refuses an address that other machines can reach, unless clients must log in, over TLS.
pub fn check_address(address: SocketAddr, access: &Access, tls: Option<&Tls>) -> Result<()> {
    let lacks = match (access, tls) {
        _ if address.ip().is_loopback() => return Ok(()),
        (Access::Trust, _) => "password",
        (_, None) => "TLS",
        _ => return Ok(()),
    };
    Err(Error::new(
        ErrorKind::InvalidSetting,
        format!("{address} can be reached from other machines, and the server asks for no {lacks}"),
    )
    .with_hint("give it a certificate and a key, and let it ask for passwords; or listen on 127.0.0.1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passwords::Passwords;

    #[test]
    fn other_machines_need_a_password_at_least() {
        let everywhere: SocketAddr = "0.0.0.0:1".parse().unwrap();
        assert!(check_address("[::1]:1".parse().unwrap(), &Access::Trust, None).is_ok());
        assert!(check_address(everywhere, &Access::Trust, None).is_err());
        assert!(check_address(everywhere, &Access::Passwords(Passwords::default()), None).is_err());
    }
}
