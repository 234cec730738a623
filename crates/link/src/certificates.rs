//! What a node shows other nodes, and whom it trusts.
//!
//! Invariants:
//! - TLS 1.3 alone, and both sides show a certificate of the cluster's authority: who has one belongs to the cluster.
//! - A server's certificate is for the host at which it was asked.
//! - No session is taken up again: each connection is judged anew.
//! - Keys are shown by nothing.

use crate::address::{announced, parts};
use alluvia_types::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, TrustAnchor, UnixTime};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{
    Resumption, WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor, verify_server_name,
};
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, ServerConfig,
    SignatureScheme,
};

/// A certificate that expires within this is told of when a node starts.
const SOON: Duration = Duration::from_secs(30 * 24 * 3600);

/// How nodes of a cluster know one another.
#[derive(Clone)]
pub enum Security {
    /// By a secret, letters and digits; on loopback alone, for it is not encrypted.
    Secret(String),
    /// By certificates, over TLS.
    Certificates(Certificates),
}

impl Security {
    /// Where others reach a node that listens on an address: there, or at what is given.
    ///
    /// Errors: others cannot reach it there, or would refuse what it shows; without certificates it is not of loopback.
    pub fn announced(&self, listen: SocketAddr, given: Option<&str>) -> Result<String> {
        match self {
            Security::Secret(_) if !listen.ip().is_loopback() => Err(elsewhere(&listen.to_string())),
            Security::Secret(_) => announced(listen, given),
            Security::Certificates(certificates) => {
                let address = announced(listen, given)?;
                certificates.check_host(parts(&address)?.0)?;
                Ok(address)
            }
        }
    }
}

/// What nodes on other machines are refused with where there are no certificates.
pub(crate) fn elsewhere(address: &str) -> Error {
    let what =
        format!("{address} is no address of loopback, and without certificates nodes are linked on this machine alone");
    Error::new(ErrorKind::NotSupported, what).with_hint(
        "make certificates with `alluvia cluster init` and `alluvia cluster certificate`, and start each node with --certificates",
    )
}

impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Security::Secret(_) => f.write_str("Secret(...)"),
            Security::Certificates(certificates) => write!(f, "Certificates({})", certificates.own()),
        }
    }
}

/// Whom a certificate is of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subject {
    /// The node's name, or that of an authority's cluster.
    pub name: String,
    /// The name of a node's cluster.
    pub cluster: Option<String>,
    /// The number of the cluster's authority.
    pub number: String,
}

/// The cluster, as messages name it.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cluster = self.cluster.as_ref().unwrap_or(&self.name);
        write!(f, "cluster {cluster:?} ({})", self.number)
    }
}

impl Subject {
    pub(crate) fn of_anchor(anchor: &TrustAnchor<'_>) -> Subject {
        const COMMON_NAME: u8 = 3;
        const ORGANIZATION: u8 = 10;
        const UNIT: u8 = 11;
        let part = |attribute| attribute_of(&anchor.subject, attribute);
        // What comes from elsewhere is shown: a number has digits and letters alone.
        let number = part(UNIT).unwrap_or_default().chars().filter(char::is_ascii_alphanumeric).collect();
        Subject { name: part(COMMON_NAME).unwrap_or_default(), cluster: part(ORGANIZATION), number }
    }

    fn of(certificate: &CertificateDer<'_>) -> Option<Subject> {
        let mut store = RootCertStore::empty();
        store.add(certificate.clone().into_owned()).ok()?;
        store.roots.first().map(Subject::of_anchor)
    }
}

/// An attribute of a name in DER: behind the number of the attribute (2.5.4.n) a text, short ones alone.
fn attribute_of(name: &[u8], attribute: u8) -> Option<String> {
    let number = [6, 3, 0x55, 4, attribute];
    let at = name.windows(number.len()).position(|window| window == number)? + number.len();
    let len = usize::from(*name.get(at + 1)?);
    let text = name.get(at + 2..at + 2 + len).filter(|_| len < 128)?;
    String::from_utf8(text.to_vec()).ok()
}

/// What a node shows, and whom it trusts; can be replaced while it runs. A copy is the same one.
#[derive(Clone)]
pub struct Certificates(Arc<Mutex<Arc<Inner>>>);

struct Inner {
    own: Subject,
    chain: Vec<CertificateDer<'static>>,
    server: Arc<ServerConfig>,
    client: ClientConfig,
    judge: Arc<WebPkiServerVerifier>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = self.own();
        write!(f, "Certificates({:?} of {own})", own.name)
    }
}

fn wrong(what: &str, error: &dyn fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidSetting, format!("{what} cannot be used: {error}"))
        .with_hint("`alluvia cluster certificate` makes the files of a node: authority.pem, node.pem and node.key")
}

fn certificates_of(what: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let found =
        CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>().map_err(|error| wrong(what, &error))?;
    match found.is_empty() {
        true => Err(wrong(what, &"there is no certificate in it")),
        false => Ok(found),
    }
}

fn roots(authority: &[u8]) -> Result<RootCertStore> {
    let what = "the authority's certificate";
    let mut store = RootCertStore::empty();
    for certificate in certificates_of(what, authority)? {
        store.add(certificate).map_err(|error| wrong(what, &error))?;
    }
    Ok(store)
}

/// Whom the certificates of an authority, in PEM, make trusted; one at least.
pub(crate) fn anchors(authority: &[u8]) -> Result<Vec<TrustAnchor<'static>>> {
    Ok(roots(authority)?.roots)
}

/// Whose authority a certificate in PEM is.
pub fn authority_subject(certificate: &[u8]) -> Result<Subject> {
    Ok(Subject::of_anchor(&anchors(certificate)?[0]))
}

/// A host as certificates name it: a name or an IP address.
pub(crate) fn host_name(host: &str) -> Result<ServerName<'static>> {
    ServerName::try_from(host.to_owned()).map_err(|_| {
        Error::new(ErrorKind::InvalidSetting, format!("{host:?} is no name of a host and no IP address"))
            .with_hint("hosts have no port here, such as node-1.example.com or 10.0.0.1")
    })
}

impl Certificates {
    /// Of an authority's certificates (several while one follows another), the node's certificate, and its key, all in PEM.
    ///
    /// Errors: they do not belong together; the node's has expired.
    pub fn new(authority: &[u8], certificate: &[u8], key: &[u8]) -> Result<Certificates> {
        const OWN: &str = "the node's certificate";
        let roots = Arc::new(roots(authority)?);
        let chain = certificates_of(OWN, certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| wrong("the node's key", &error))?;
        let no_name = || wrong(OWN, &"it does not say whose it is");
        let own = Subject::of(&chain[0]).ok_or_else(no_name)?;
        let provider = Arc::new(default_provider());
        judge_own(&chain, &roots, &own, &provider)?;

        let unfit = |error: &dyn fmt::Display| wrong(OWN, error);
        let of_clients = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
        let of_clients = of_clients.build().map_err(|error| unfit(&error))?;
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| unfit(&error))?
            .with_client_cert_verifier(of_clients)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(|error| unfit(&error))?;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let judge = WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
        let judge = judge.build().map_err(|error| unfit(&error))?;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| unfit(&error))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain.clone(), key)
            .map_err(|error| unfit(&error))?;
        client.resumption = Resumption::disabled();
        Ok(Certificates(Arc::new(Mutex::new(Arc::new(Inner { own, chain, server: Arc::new(server), client, judge })))))
    }

    fn now(&self) -> Arc<Inner> {
        Arc::clone(&self.0.lock())
    }

    /// Shows and trusts what others do, on connections that begin from now on.
    ///
    /// Errors: the new certificate is not for the address at which the node is reached.
    pub fn replace(&self, fresh: &Certificates, address: &str) -> Result<()> {
        fresh.check_host(parts(address)?.0)?;
        *self.0.lock() = fresh.now();
        Ok(())
    }

    /// Whom the node's own certificate is of.
    pub fn own(&self) -> Subject {
        self.now().own.clone()
    }

    /// Refuses a host at which others would not accept the node's certificate.
    pub(crate) fn check_host(&self, host: &str) -> Result<()> {
        let now = self.now();
        let parsed =
            ParsedCertificate::try_from(&now.chain[0]).map_err(|error| wrong("the node's certificate", &error))?;
        verify_server_name(&parsed, &host_name(host)?).map_err(|error| {
            let hosts = hosts_of(&error).unwrap_or_else(|| error.to_string());
            let what = format!("others reach this node at {host}, and its certificate is for {hosts}");
            Error::new(ErrorKind::InvalidSetting, what)
                .with_hint(format!("make one with --address {host}, or say --node-address HOST:PORT"))
        })
    }

    /// How connections of others are taken.
    pub(crate) fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.now().server)
    }

    /// How one connection to another node is made; whom that one's certificate is of is noted.
    pub(crate) fn client(&self, noted: &Arc<OnceLock<Subject>>) -> Arc<ClientConfig> {
        let now = self.now();
        let mut client = now.client.clone();
        let judge = Noting { judge: Arc::clone(&now.judge), noted: Arc::clone(noted) };
        client.dangerous().set_certificate_verifier(Arc::new(judge));
        Arc::new(client)
    }
}

/// The hosts that a certificate is for, where it is not for the one that was asked for.
pub(crate) fn hosts_of(error: &TlsError) -> Option<String> {
    let TlsError::InvalidCertificate(CertificateError::NotValidForNameContext { presented, .. }) = error else {
        return None;
    };
    // As in `DnsName("node-1")`.
    let bare =
        |name: &String| name.trim_end_matches([')', '"']).rsplit(['(', '"']).next().unwrap_or_default().to_owned();
    Some(presented.iter().map(bare).collect::<Vec<_>>().join(", "))
}

/// Refuses a node's own certificate that others would refuse.
fn judge_own(
    chain: &[CertificateDer<'static>],
    roots: &RootCertStore,
    own: &Subject,
    provider: &CryptoProvider,
) -> Result<()> {
    let parsed = ParsedCertificate::try_from(&chain[0]).map_err(|error| wrong("the node's certificate", &error))?;
    let judged = |at: UnixTime| {
        let algorithms = provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, roots, &chain[1..], at, algorithms)
    };
    let now = UnixTime::now();
    judged(now).map_err(|error| match &error {
        TlsError::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            let authority = Subject::of_anchor(&roots.roots[0]);
            let what = format!("the node's certificate is of {own}, and the authority's of {authority}");
            Error::new(ErrorKind::InvalidSetting, what).with_hint("the files of a node are of one authority")
        }
        TlsError::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            Error::new(ErrorKind::InvalidSetting, "the node's certificate has expired")
                .with_hint("make another one: alluvia cluster certificate")
        }
        _ => wrong("the node's certificate", &error),
    })?;
    if judged(UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs()) + SOON)).is_err() {
        tracing::warn!(
            "the certificate of this node expires within 30 days: make another one, and start the node again"
        );
    }
    Ok(())
}

/// Judges as the standard says, and notes who was judged.
#[derive(Debug)]
struct Noting {
    judge: Arc<WebPkiServerVerifier>,
    noted: Arc<OnceLock<Subject>>,
}

impl ServerCertVerifier for Noting {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        if let Some(subject) = Subject::of(end_entity) {
            // There is one for each connection.
            let _ = self.noted.set(subject);
        }
        self.judge.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.judge.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.judge.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.judge.supported_verify_schemes()
    }
}
