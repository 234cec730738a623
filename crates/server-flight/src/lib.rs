//! Flight SQL over [`alluvia_query::Session`]: what the ADBC driver, and other clients of Arrow Flight, talk to.
//!
//! Invariants:
//! - This room only translates: it never touches storage, and one `login` is one session (and one more for each transaction).
//! - What a client sends, and what is kept for it, is bounded: messages, connections, streams of a connection, tokens, transactions,
//!   prepared statements, answers that wait to be fetched; and all of it ends by itself.
//! - An answer is not held whole: rows are made as the client takes them.
//! - A client that goes away cancels what runs for it; a batch that is committing is waited for.
//! - Rows that are ingested are one batch: all of them, or nothing.
//!
//! A statement begins when its FlightInfo is asked for, so that its columns are known, and so that what it reads is fixed, before
//! rows are fetched; its ticket can be used once, by the same login. A statement without rows has ended by then, and has no ticket.

mod actions;
mod answer;
mod auth;
mod caller;
mod catalog;
mod connection;
mod extensions;
mod failure;
mod incoming_rows;
mod info;
mod ingest;
mod interceptor;
mod lane;
mod lane_task;
mod login;
mod messages;
mod parameters;
mod plain_types;
mod poll;
mod polled_statement;
mod prepared;
mod refinements;
mod sending;
mod server;
mod server_options;
mod service;
mod session_options;
mod shared;
mod socket;
mod statement;
mod tokens;

pub use server::Server;
pub use server_options::ServerOptions;
