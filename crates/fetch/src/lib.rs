//! What a URL names, over HTTP/1.1, from the hosts that may be asked and no others.
//!
//! Invariants:
//! - With rules, no byte is sent to a host that they do not name, nor to an address that is not the public internet's unless they say so.
//! - A name is looked up once for a connection, and the connection made to the very address that was checked: who answers for the name
//!   cannot give a harmless address to the check and another to the connection.
//! - Where an answer leads elsewhere, that is checked as the first URL was; never from https to http, and not for ever.
//! - A body that ends early is an error. One whose end cannot be told from its being cut is not taken.
//! - Nothing waits for ever: connecting, the head of an answer and every silence within a body have their time, and whoever waits here can
//!   be stopped.
//!
//! Proxies, cookies, credentials and HTTP/2 are left out. A URL is asked once: who wants another try repeats the statement.

mod address;
mod answer;
mod certificates;
mod connection;
mod fetcher;
mod hosts;

pub use address::is_public;
pub use certificates::SYSTEM_CERTIFICATES;
pub use fetcher::{Fetcher, Resolve, Rules, Waits};
pub use hosts::Hosts;
