//! The server as its clients see it: with the Flight SQL client of arrow-flight, and with calls that no client makes.

mod access;
mod extensions;
mod fuzz;
mod ingest;
mod limits;
mod metadata;
mod options;
mod poll;
mod query;
#[path = "../../../access/tests/support/random.rs"]
mod random;
mod refinements;
mod support;
mod transactions;
