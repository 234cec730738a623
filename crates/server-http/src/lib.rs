//! HTTP/1.1 over [`alluvia_query::Session`]: queries, ingest, health, metrics.
//!
//! Invariants:
//! - This room only translates: it never touches storage, and one request is one session.
//! - What a client sends is bounded before memory is spent on it: headers, bodies, connections, time without a byte.
//! - A request that another program could read as another one is refused (RFC 9112, RFC 6454).
//! - An answer that fails half-way ends its body without the end that HTTP asks for, so that nobody takes it for the whole.
//! - A client that goes away cancels what runs for it; a batch that is committing is waited for.
//! - An ingested body is one batch: all of it, or nothing.
//!
//! The routes and their answers are described in `docs/openapi.yaml`, which is served, and which the tests walk.

mod answer;
mod auth;
mod cancellation;
mod connection;
mod error_body;
mod events;
mod failure;
mod ingest;
mod media;
mod metrics;
mod query;
mod request;
mod request_counts;
mod request_framer;
mod request_head;
mod routes;
mod server;
mod server_options;
mod shared;
mod statement;
mod statuses;

pub use server::Server;
pub use server_options::ServerOptions;
pub use statuses::statuses_of;
