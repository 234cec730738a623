//! Messages between the nodes of a cluster, over HTTP/2 (gRPC, by tonic).
//!
//! | Module | What it is for |
//! |---|---|
//! | `wire` | messages as bytes: a head in JSON, and bodies and rows behind it as they are |
//! | `serve` | what a node answers, on a socket |
//! | `reach` | how a node asks others: one connection to each, made again when it breaks |
//!
//! Invariants:
//! - A node answers those alone who know the cluster's secret, and only on loopback: messages are not encrypted.
//! - A message of another version of this protocol is refused by name, on both sides.
//! - Who gets no answer is told so, and does not know whether it was done.

mod reach;
mod serve;
mod wire;

pub use reach::Links;
pub use serve::{Handler, Serving, serve};
pub use wire::{Answer, Question};

/// The path of the one method; the number is the version of the protocol.
const METHOD: &str = "/alluvia.Link/Ask1";
/// The header that has the cluster's secret.
const SECRET_HEADER: &str = "alluvia-secret";
/// Messages have at most so many bytes.
const MESSAGE_BYTES_MAX: usize = 1 << 30;
