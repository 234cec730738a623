//! Files of URLs over HTTP/1.1, from the hosts that may be asked and no others.
//!
//! Invariants:
//! - With rules, no byte is sent to a host that they do not name, nor to an address that is not the public internet's unless they say so.
//! - A name is looked up once for a connection, and the connection made to the very address that was checked: who answers for the name
//!   cannot give a harmless address to the check and another to the connection. A proxy is asked for that address, too.
//! - Where an answer leads elsewhere, that is checked as the first URL was; never from https to http, and not for ever.
//! - A body that ends early is gone on with from where it was cut, where its host lets the rest be known to be of the same file
//!   (`partial_download`), a few times; else it is an error, as is a file that has changed meanwhile. A body whose end cannot be told from its
//!   being cut is not taken.
//! - Nothing waits for ever: connecting, the head of an answer and every silence within a body have their time, and whoever waits here can
//!   be stopped.
//!
//! Cookies, credentials and HTTP/2 are left out. What never began is not tried again: who wants that repeats the statement.

mod address;
mod answer;
mod certificates;
mod connection;
mod fetcher;
mod hosts;
mod partial_download;
mod proxy;
mod request;
mod rules;
mod tunnel;
mod url_text;
mod whole_file;

pub use address::is_public;
pub use certificates::SYSTEM_CERTIFICATES;
pub use fetcher::{Fetcher, Resolve};
pub use hosts::Hosts;
pub use proxy::Proxy;
pub use rules::{Again, Rules, Waits};
