//! Sessions and queries: the only room that knows DataFusion.
//!
//! Invariants:
//! - [`Session::execute`] is the only entrance for command line, servers and Python.
//! - A statement is parsed once and never printed and parsed again.
//! - A statement reads all its tables at one version; table providers hold no snapshot.
//! - A statement that is not supported is refused by name; nothing is silently ignored.

mod answer;
pub mod copy;
mod dialect;
mod engine;
mod pg_catalog;
mod session;
mod system;
mod table;

pub use datafusion::scalar::ScalarValue;
pub use dialect::{Command, Statement};
pub use engine::{Engine, EngineOptions};
pub use session::progress::{CancelHandle, CancelToken, Phase, Progress};
pub use session::{BatchBuilder, Described, Ingested, Outcome, Prepared, Session, TransactionStatus, from_datafusion};
pub use system::{QueryLog, QueryRow, SettingRow};
pub use table::{Used, UsedCounters};
