//! What opening a database had to bring back, because the process before it did not stop cleanly.
//!
//! Invariant: a database whose log was ended by a clean stop, or that nothing was written to since it was opened, has
//! nothing to tell: the log says which ([`LogEnd::is_closed`](alluvia_log::LogEnd)). A process that died as it had begun
//! another file of the log, and written nothing into it, passes for one that had stopped.

use alluvia_log::TornEnd;
use alluvia_types::Version;
use std::time::Duration;

/// What was brought back from the log after a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recovery {
    /// Batches that were read again: those that no manifest covers.
    pub batches: u64,
    /// Their rows.
    pub rows: u64,
    /// The newest of them: everything through it is there.
    pub through: Version,
    /// What was cut off the log's end: batches whose writing was broken off, which nobody was told are there; or damage to the last
    /// groups since, which looks the same.
    pub torn: Option<TornEnd>,
    /// How long reading them again took.
    pub elapsed: Duration,
}
