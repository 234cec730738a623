//! Certificates of the authorities that TLS trusts, from a file in PEM.
//!
//! Invariant: without a certificate that can be used there is no TLS, rather than one that believes everybody. The file is read for each
//! fetch, so that what the system renews is known at once.
#![allow(clippy::disallowed_methods)] // the system's file, no part of the database

use alluvia_types::{Error, ErrorKind, Result};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Where most systems keep the authorities that they believe.
pub const SYSTEM_CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// What makes TLS of a connection to a server that an authority of this file vouches for.
pub(crate) fn connector(file: &Path) -> Result<TlsConnector> {
    let wrong = |what: String| {
        Error::new(
            ErrorKind::InvalidSetting,
            format!("{} does not name whom to believe over https: {what}", file.display()),
        )
        .with_hint(
            "copy_ca_file names a file of authorities in PEM; install the system's (ca-certificates), or state another",
        )
    };
    let text = fs::read(file).map_err(|error| wrong(format!("reading it failed: {error}")))?;
    let mut roots = RootCertStore::empty();
    // Bundles hold authorities that no one can read any more; the others count.
    let (known, _) = roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&text).flatten());
    if known == 0 {
        return Err(wrong("there is no certificate in it".to_owned()));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let empty = dir.path().join("empty.pem");
        fs::write(&empty, "nothing").unwrap();
        for file in [empty, dir.path().join("missing.pem")] {
            let Err(error) = connector(&file) else { panic!("{}", file.display()) };
            assert_eq!(error.kind(), ErrorKind::InvalidSetting);
            assert!(error.message().contains(".pem") && error.hint().unwrap().contains("copy_ca_file"), "{error}");
        }
    }
}
