//! The messages of PostgreSQL's protocol, version 3: what clients send, what the server answers.
//!
//! Invariants:
//! - A message's length is checked against a bound before anything is allocated for it, and then no more than follows from what has
//!   come of it; every count within it is checked against the bytes that are there.
//! - Text that is not UTF-8 is an error, never something else.
//! - Nothing here does I/O or knows a session.

mod backend;
mod frontend;
mod input;

pub(crate) use backend::{CHANGED_COLUMNS, Field, Out, Severity};
pub(crate) use frontend::{Bind, Describe, First, Message, STRANGER_BYTES_MAX, Target};
pub(crate) use input::Input;

/// The version that clients ask for: 3.0.
pub(crate) const PROTOCOL_3: u32 = 3 << 16;
