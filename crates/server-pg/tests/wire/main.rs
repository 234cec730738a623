//! The server as its clients see it: over sockets, with tokio-postgres and with bare messages.

mod access;
mod bare;
mod catalog;
mod copy;
#[path = "../../../access/tests/support/descriptors.rs"]
mod descriptors;
mod extended;
mod fuzz;
mod greed;
mod limits;
mod progress;
#[path = "../../../access/tests/support/random.rs"]
mod random;
mod simple;
mod support;
mod tools;
mod untyped;
