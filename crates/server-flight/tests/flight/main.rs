//! The server as its clients see it: with the Flight SQL client of arrow-flight, and with calls that no client makes.

mod access;
mod ingest;
mod limits;
mod metadata;
mod own;
mod query;
mod support;
mod transactions;
