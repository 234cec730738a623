//! Trust in servers' certificates.
//!
//! Invariant: a server is trusted whose certificate is the only one that was given, or signed by one that was given, for the host that
//! was asked for; no other.

use alluvia_types::{Error, ErrorKind, Result};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{self, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// TLS to servers whose certificate is in this PEM, or signed by one that is.
pub fn trusting(pem: &[u8]) -> Result<ClientConfig> {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| wrong(&error))?;
    let mut roots = RootCertStore::empty();
    // A machine's list has some that are of no use here.
    let (added, _) = roots.add_parsable_certificates(certificates.iter().cloned());
    if added == 0 {
        return Err(wrong(&"there is none among them"));
    }
    let provider = Arc::new(default_provider());
    let signed = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
    let known = Known { certificates, signed: signed.map_err(|error| wrong(&error))? };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(known))
        .with_no_client_auth();
    Ok(config)
}

/// A host as certificates name it.
pub fn server_name(host: &str) -> Result<ServerName<'static>> {
    match host.parse::<IpAddr>() {
        Ok(address) => Ok(ServerName::from(address)),
        Err(_) => ServerName::try_from(host.to_owned()).map_err(|_| {
            Error::new(ErrorKind::InvalidSetting, format!("{host:?} is no host that a certificate could be for"))
        }),
    }
}

fn wrong(error: &dyn fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidSetting, format!("the certificates cannot be used for TLS: {error}"))
        .with_hint("they are PEM: the server's certificate, or the one that signed it")
}

/// Takes the certificate that was given, or one that one of several has signed for the host. A certificate that signs itself is an authority to
/// most tools that make one, and would not do as a server's otherwise.
#[derive(Debug)]
struct Known {
    certificates: Vec<CertificateDer<'static>>,
    signed: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Known {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // One that was given alone is meant, whatever host it names; of several each is for its own.
        match matches!(self.certificates.as_slice(), [only] if only == certificate) {
            true => Ok(ServerCertVerified::assertion()),
            false => self.signed.verify_server_cert(certificate, between, name, ocsp, now),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signed.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signed.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTIFICATE: &[u8] = include_bytes!("../../server-flight/tests/flight/certificate.pem");

    #[test]
    fn certificates_are_pem_and_at_least_one() {
        assert!(trusting(CERTIFICATE).is_ok());
        for wrong in [&b""[..], b"no certificate", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            let error = trusting(wrong).unwrap_err();
            assert_eq!((error.kind(), error.hint().is_some()), (ErrorKind::InvalidSetting, true), "{error}");
        }
    }

    #[test]
    fn hosts_are_names_or_addresses() {
        assert!(matches!(server_name("127.0.0.1").unwrap(), ServerName::IpAddress(_)));
        assert!(matches!(server_name("::1").unwrap(), ServerName::IpAddress(_)));
        assert!(matches!(server_name("db.example.com").unwrap(), ServerName::DnsName(_)));
        assert!(server_name("no host").is_err());
    }
}
