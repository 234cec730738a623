//! The server as its clients see it: over sockets, with a client of its own that also sends what no library sends.

mod access;
mod client;
mod dashboard;
#[path = "../../../access/tests/support/descriptors.rs"]
mod descriptors;
mod fuzz;
mod ingest;
mod limits;
mod openapi;
mod query;
#[path = "../../../access/tests/support/random.rs"]
mod random;
mod sessions;
mod strict;
mod support;
mod uploads;
