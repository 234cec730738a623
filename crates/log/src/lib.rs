//! The log: durable frames of opaque bytes, group commit, recovery.
//!
//! Invariants:
//! - **Prefix.** What recovery returns is versions `1, 2, 3 ...` without a gap, through some version that is at least the
//!   last one for which [`Log::sync_through`] returned `Ok`. A record comes back whole and unchanged, or not at all.
//! - **Statement.** A group header states a position through which the log was durable when the group was written. The
//!   statement is always true, so a bad frame before a stated position is damage and is refused; a bad frame after the
//!   last stated position is what a power loss leaves, and is cut.
//! - **Order.** A group is acknowledged only after every group before it, each by its own successful fsync.
//! - **Definite refusal.** When a write fails because the disk is full, its bytes are cut off *and the cut is synced*
//!   before anyone is told, so a batch that was refused cannot come back after a crash.
//! - **Mark.** A file of its own says through which version the log goes at least, and whether somebody writes to it ([`Log::mark_end`]).
//!   A log that ends before that is refused, and what is missing named; one that somebody was writing to was not stopped cleanly, however
//!   it ends.
//! - **Poison.** After a failed fsync, or a write error other than a full disk, nothing is acknowledged until reopened.
//! - **New files are durable before they are used** (header, then name), and a file is begun only when the one before it
//!   is durable to its end, and cut there. So only the newest file can be torn, and only it has room behind its end.
//!
//! Shape: the room is synchronous and owns no threads. Whoever waits first does the I/O for all that wait
//! (leader/followers), so a simulation can run it with a manual clock and a disk that fails. `format` is the bytes,
//! `scan` reads them without changing anything, `recovery` repairs and opens, `group` is what accumulates and waits,
//! `log` is the state machine around it, `writer` the leader's I/O, `end` the mark.

mod end;
mod files;
mod format;
mod group;
mod log;
mod recovery;
mod scan;
mod writer;

pub use end::END_SUFFIX;
pub use log::{Log, LogOptions, Ticket};
pub use recovery::LogEnd;
pub use scan::{LogSummary, Record, TornEnd};
