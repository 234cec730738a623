//! How a connection begins, before its first message: who is not of this cluster, or speaks TLS where none is spoken, is told so.
//!
//! ```text
//! with certificates      TLS 1.3, then the server says one byte: only then has it judged the client's certificate
//! without (loopback)     the client says that byte, and the server says it back
//! ```
//!
//! Invariant: of what is not let in no byte reaches the messages' protocol.

use crate::certificates::{Certificates, Subject, hosts_of};
use std::fmt;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::rustls::{AlertDescription, CertificateError, Error as TlsError};

/// The byte; nothing of TLS or HTTP begins with it.
pub(crate) const GREETING: u8 = 0xa1;
/// The first byte of TLS: a handshake.
pub(crate) const TLS_HANDSHAKE: u8 = 0x16;
/// The first byte of TLS: an alert.
pub(crate) const TLS_ALERT: u8 = 0x15;
/// What who spoke no TLS is answered: TLS's own alert of an unexpected message.
pub(crate) const ANSWER_TO_PLAIN: &[u8] = &[TLS_ALERT, 3, 3, 0, 2, 2, 10];
/// What who spoke TLS is answered where none is spoken.
pub(crate) const ANSWER_TO_TLS: &[u8] = b"no TLS is spoken here\n";
/// A greeting may take so long.
pub(crate) const GREETING_TIME: Duration = Duration::from_secs(5);
/// Who is refused has so long to take why.
const LEAVING: Duration = Duration::from_secs(1);

/// A connection that is let in.
pub(crate) trait ReadWrite: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ReadWrite for T {}

/// What messages go through.
pub(crate) type Wire = Box<dyn ReadWrite>;

/// Why a node on the other side is not linked.
#[derive(Debug)]
pub(crate) struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// Ends a connection so that the other side reads what it was told last: a socket that is closed over bytes that nobody has read takes its own
/// words back.
pub(crate) async fn leave(mut stream: impl ReadWrite) {
    let left = async {
        stream.shutdown().await?;
        let mut rest = [0; 4096];
        while stream.read(&mut rest).await? > 0 {}
        io::Result::Ok(())
    };
    // It has ended, or never will.
    let _ = tokio::time::timeout(LEAVING, left).await;
}

/// Why a handshake failed, of the other side ("it"), in words.
pub(crate) fn why(error: &io::Error, own: &Certificates, theirs: Option<&Subject>) -> String {
    let Some(error) = error.get_ref().and_then(|error| error.downcast_ref::<TlsError>()) else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => "it ended the connection before TLS was agreed".to_owned(),
            _ => format!("TLS was not agreed: {error}"),
        };
    };
    let own = own.own();
    match error {
        TlsError::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            match theirs {
                Some(theirs) => format!("its certificate is of {theirs}, and this node's of {own}"),
                None => format!("its certificate is of another authority, and this node's of {own}"),
            }
        }
        TlsError::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "its certificate has expired".to_owned()
        }
        TlsError::InvalidCertificate(CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }) => {
            "its certificate is not valid yet; do the clocks agree?".to_owned()
        }
        TlsError::InvalidCertificate(other) => match hosts_of(error) {
            Some(hosts) => format!("its certificate is for {hosts}, and not for this address"),
            None => format!("its certificate cannot be used: {other:?}"),
        },
        TlsError::NoCertificatesPresented => "it shows no certificate".to_owned(),
        TlsError::InvalidMessage(_) => "it speaks no TLS: start it with --certificates, too".to_owned(),
        TlsError::AlertReceived(AlertDescription::UnknownCA | AlertDescription::DecryptError) => {
            format!("it does not accept this node's certificate, which is of {own}")
        }
        TlsError::AlertReceived(AlertDescription::CertificateExpired) => {
            "it says that this node's certificate has expired, or is not valid yet".to_owned()
        }
        TlsError::AlertReceived(AlertDescription::BadCertificate) => {
            "it does not accept this node's certificate: was it asked at an address that the certificate is not for?"
                .to_owned()
        }
        TlsError::AlertReceived(AlertDescription::CertificateRequired) => "it asks for a certificate".to_owned(),
        TlsError::AlertReceived(alert) => format!("it does not go on: {alert:?}"),
        other => format!("TLS was not agreed: {other}"),
    }
}
