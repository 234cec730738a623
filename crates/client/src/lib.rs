//! A client of `alluvia serve`, over Flight SQL.
//!
//! Invariants:
//! - A [`Connection`] is one socket at a time, shared by its [`Session`]s. A session is a login of the server's: settings, own writes and
//!   an open transaction are there, and are kept alive while the session is.
//! - A password goes over the network only within TLS, or not at all.
//! - Rows that are sent are complete when their stream ends well. One that breaks is told to the server, which then applies nothing.
//! - An answer that was cut is never taken for a whole one.
//! - What the server says of a failure (SQLSTATE, message, hint) is the error that is given.
//!
//! What the server offers beside Flight SQL, to any client that asks for it, is in `docs/OPERATIONS.md`: bounds of estimates as columns,
//! refinements, versions and numbers of batches, the state of a session, cancelling what it runs.

mod answer;
mod connection;
mod failure;
mod ingest;
mod prepared;
mod prepared_handles;
mod refine;
mod session;
mod socket;
mod statement_status;

/// Trust in servers' certificates.
pub mod tls;

pub use answer::{Answer, Bounds, Estimate};
pub use connection::{Connection, Target};
pub use ingest::{IngestOptions, Ingested, Number};
pub use refine::{Refinement, Refinements, Refining};
pub use session::{Session, State};
pub use statement_status::{StatementStatus, Used};
