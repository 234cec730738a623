//! The PostgreSQL wire protocol, version 3, over [`alluvia_query::Session`].
//!
//! Invariants:
//! - This room only translates: it never touches storage, and one connection is one session.
//! - What a client sends is bounded before memory is spent on it: message length, connections, time to log in, wrong passwords; so is
//!   what is kept for it, and what waits for it to be sent.
//! - A statement that fails is told with its SQLSTATE, and ReadyForQuery says where the session's transaction stands.
//! - A client that goes away, or stops, cancels what runs for it; a batch that is committing is waited for.
//!
//! The protocol is written here rather than taken from a crate: docs/DEPENDENCIES.md says why.

mod bounded_map;
mod cancel;
mod connection;
mod copy;
mod extended;
mod io;
mod message_loop;
mod pending_logins;
mod portal;
mod recent;
mod report;
mod sending;
mod server;
mod server_options;
mod shared;
mod simple;
mod startup;
mod types;
mod wire;

pub use server::Server;
pub use server_options::ServerOptions;
