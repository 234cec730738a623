//! The server as its clients see it: over sockets, with tokio-postgres and with raw messages.

mod access;
mod catalog;
mod clients;
mod copy;
#[path = "../../../access/tests/support/descriptors.rs"]
mod descriptors;
mod extended;
mod fuzz;
mod limits;
mod procedures;
mod progress;
#[path = "../../../access/tests/support/random.rs"]
mod random;
mod raw_messages;
mod resource_limits;
mod simple;
mod support;
mod temporary;
mod tools;
mod untyped;
mod views;
mod zones;
