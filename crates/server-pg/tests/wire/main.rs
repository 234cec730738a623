//! The server as its clients see it: over sockets, with tokio-postgres and with bare messages.

mod access;
mod bare;
mod catalog;
mod copy;
mod extended;
mod fuzz;
mod simple;
mod support;
