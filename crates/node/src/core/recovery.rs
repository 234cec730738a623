//! What opening a database had to bring back, because the process before it did not stop cleanly.
//!
//! Invariant: a database whose log was ended by a clean stop, or that nothing was written to since it was opened, has
//! nothing to tell: the log's mark says which ([`LogEnd::is_closed`](alluvia_log::LogEnd)).

use alluvia_log::{END_SUFFIX, TornEnd};
use alluvia_types::{Error, ErrorKind, Version};
use std::path::Path;
use std::time::Duration;

/// What is said of a log that ends so and was not stopped cleanly.
pub(crate) const BEHIND_HEADER: &str = "the log ends behind the header of a group or of a file: the process died just then, or what \
     followed was cut off since, which nothing tells apart";

/// What is said where the manifest knows of a mark that is not there.
pub(crate) fn lost_mark(log_dir: &Path) -> Error {
    let message = format!("{}{END_SUFFIX} is missing, which says how far the log goes at least", log_dir.display());
    Error::new(ErrorKind::Corrupt, message).with_hint(
        "it holds no data; if the log's last files are whole nothing is lost, and the next write makes it anew",
    )
}

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
    /// Whether the log ends behind the header of a group or of a file, as that of a process does which died just then: and as one does
    /// that was cut there, of which nothing is left to tell.
    pub is_behind_header: bool,
    /// How long reading them again took.
    pub elapsed: Duration,
}
