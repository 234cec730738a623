//! The server as its clients see it: over sockets, with a client of its own that also sends what no library sends.

mod access;
mod client;
mod dashboard;
mod fuzz;
mod ingest;
mod limits;
mod openapi;
mod query;
mod sessions;
mod support;
