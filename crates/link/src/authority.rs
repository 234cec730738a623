//! The authority of a cluster, and the certificates that it gives to nodes.
//!
//! ```text
//! authority   CN = the cluster's name, OU = its number
//! node        CN = the node's name, O = the cluster's name, OU = its number; the hosts at which it is reached
//! ```
//!
//! Invariants:
//! - Two authorities have different numbers, also where their clusters are called the same: so a certificate of another one is told by name.
//! - An authority signs certificates of nodes alone, no other authority.

use crate::certificates::{Subject, anchors, host_name};
use alluvia_types::{Error, ErrorKind, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData,
};
use std::time::SystemTime;

/// A name has at most so many characters; the standard's bound.
const NAME_MAX: usize = 64;

/// A certificate and its key, in PEM.
pub struct Pair {
    /// What is shown.
    pub certificate: String,
    /// What nobody else may read.
    pub key: String,
}

/// When a certificate is valid.
#[derive(Clone, Copy, Debug)]
pub struct Validity {
    /// From when on.
    pub from: SystemTime,
    /// Until when.
    pub until: SystemTime,
}

/// The authority of a cluster, with its key.
pub struct Authority {
    subject: Subject,
    key: KeyPair,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Authority({})", self.subject)
    }
}

fn checked<'a>(what: &str, name: &'a str) -> Result<&'a str> {
    match name.trim() {
        "" => Err(Error::new(ErrorKind::InvalidSetting, format!("a {what} without a name"))),
        name if name.chars().count() > NAME_MAX || name.chars().any(char::is_control) => {
            let message =
                format!("{name:?} cannot be the name of a {what}: at most {NAME_MAX} characters, all printable");
            Err(Error::new(ErrorKind::InvalidSetting, message))
        }
        name => Ok(name),
    }
}

fn not_made(error: rcgen::Error) -> Error {
    Error::internal(format!("a certificate was not made: {error}"))
}

impl Authority {
    /// Makes the authority of a new cluster.
    pub fn new(cluster: &str, validity: Validity) -> Result<(Authority, Pair)> {
        let cluster = checked("cluster", cluster)?;
        let key = KeyPair::generate().map_err(not_made)?;
        // What is random in the key makes the number.
        let number: String = key.public_key_raw().iter().rev().take(8).map(|byte| format!("{byte:02x}")).collect();
        let subject = Subject { name: cluster.to_owned(), cluster: None, number };
        let mut params = CertificateParams::new([]).map_err(not_made)?;
        params.distinguished_name = distinguished(&subject);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        (params.not_before, params.not_after) = (validity.from.into(), validity.until.into());
        let certificate = params.self_signed(&key).map_err(not_made)?.pem();
        let pair = Pair { certificate, key: key.serialize_pem() };
        Ok((Authority { subject, key }, pair))
    }

    /// An authority that was made before.
    ///
    /// Errors: these are no certificate and key; the key is another authority's.
    pub fn read(certificate: &[u8], key: &[u8]) -> Result<Authority> {
        let wrong = |what: String| Error::new(ErrorKind::InvalidSetting, what);
        let anchors = anchors(certificate)?;
        let [anchor] = anchors.as_slice() else {
            return Err(wrong("an authority that signs has one certificate, and here are several".to_owned()));
        };
        let subject = Subject::of_anchor(anchor);
        let key = std::str::from_utf8(key).ok().and_then(|key| KeyPair::from_pem(key).ok());
        let key = key.ok_or_else(|| wrong(format!("the key of the authority of {subject} cannot be read")))?;
        if !key.subject_public_key_info().ends_with(&anchor.subject_public_key_info) {
            return Err(wrong(format!("the key is not that of the authority of {subject}: it is another cluster's"))
                .with_hint("authority.pem and authority.key are of one `alluvia cluster init`"));
        }
        Ok(Authority { subject, key })
    }

    /// Whose authority it is.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// A certificate for a node that is reached at these hosts, as server and as client.
    pub fn certificate(&self, node: &str, hosts: &[String], validity: Validity) -> Result<Pair> {
        let node = checked("node", node)?;
        if hosts.is_empty() {
            return Err(Error::new(ErrorKind::InvalidSetting, format!("node {node:?} without an address"))
                .with_hint("name the hosts at which others reach it: --address node-1.example.com,10.0.0.1"));
        }
        for host in hosts {
            host_name(host)?;
        }
        let key = KeyPair::generate().map_err(not_made)?;
        let mut params = CertificateParams::new(hosts).map_err(not_made)?;
        let (name, cluster) = (node.to_owned(), Some(self.subject.name.clone()));
        params.distinguished_name = distinguished(&Subject { name, cluster, number: self.subject.number.clone() });
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = (validity.from.into(), validity.until.into());
        let mut issuer = CertificateParams::new([]).map_err(not_made)?;
        issuer.distinguished_name = distinguished(&self.subject);
        issuer.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = Issuer::from_params(&issuer, &self.key);
        let certificate = params.signed_by(&key, &issuer).map_err(not_made)?.pem();
        Ok(Pair { certificate, key: key.serialize_pem() })
    }
}

fn distinguished(subject: &Subject) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, subject.name.as_str());
    if let Some(cluster) = &subject.cluster {
        name.push(DnType::OrganizationName, cluster.as_str());
    }
    name.push(DnType::OrganizationalUnitName, subject.number.as_str());
    name
}
