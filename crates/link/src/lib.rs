//! Messages between the nodes of a cluster, over HTTP/2 (gRPC, by tonic).
//!
//! | Module | What it is for |
//! |---|---|
//! | `wire` | messages as bytes: a head in JSON, and bodies and rows behind it as they are |
//! | `serve` | what a node answers, on a socket |
//! | `accept` | whom it lets in |
//! | `reach` | how a node asks others: one connection to each, made again when it breaks |
//! | `connect` | how such a connection is made |
//! | `greeting` | how a connection begins, on both sides |
//! | `certificates` | what a node shows, and whom it trusts |
//! | `authority` | who gives certificates to nodes |
//! | `address` | where nodes are |
//!
//! Invariants:
//! - A node answers those alone who have a certificate of its cluster's authority, over TLS; or who know the cluster's secret, and those on
//!   loopback alone, for then messages are not encrypted.
//! - A message of another version of this protocol is refused by name, on both sides.
//! - Who gets no answer is told so, and does not know whether it was done.

mod accept;
mod address;
mod authority;
mod certificates;
mod connect;
mod greeting;
mod reach;
mod serve;
mod wire;

pub use authority::{Authority, Pair, Validity};
pub use certificates::{Certificates, Security, Subject, authority_subject};
pub use reach::Links;
pub use serve::{Handler, Serving, serve};
pub use wire::{Answer, Question};

/// The path of the one method; the number is the version of the protocol.
const METHOD: &str = "/alluvia.Link/Ask1";
/// The header that has the cluster's secret.
const SECRET_HEADER: &str = "alluvia-secret";
/// Messages have at most so many bytes.
const MESSAGE_BYTES_MAX: usize = 1 << 30;
