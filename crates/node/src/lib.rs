//! The composition root: one database in one process.
//!
//! [`Database::open`] takes a directory; [`Database::session`] gives what command line, servers and programs use.
//!
//! Invariants:
//! - This room alone owns threads: the sorter, the merger, the flusher, and the pipeline's workers.
//! - [`Core`] is the whole engine without threads and without SQL, so that a simulation can drive it step by step on a disk
//!   that fails and a clock that stands still.
//! - One process at a time has the directory: a lock file says so.

mod audit;
mod check;
mod core;
mod database;
mod memos;
mod options;
mod pool;
mod threads;
mod urls;

pub use check::{CheckReport, check};
pub use core::Core;
pub use database::Database;
pub use options::{DatabaseOptions, ServedOptions, parse_bytes};
