//! Sessions: settings, transactions, statements.
//!
//! [`core`] is the session and the frame that every statement runs in; one file each for what statements do; [`guard`] and
//! [`supervise`] keep a statement from harming anything but itself.

mod auditing;
mod body;
mod bounded;
mod calls;
pub(crate) mod client_settings;
mod committing;
mod computed;
mod control;
mod copying;
mod core;
mod cuboids;
mod cursor;
mod ddl;
mod describe;
mod errors;
mod execution;
mod explain;
mod guard;
mod indexed;
mod ingest;
mod insert;
mod memory_pool;
mod namespace;
mod outcome;
mod outlined;
mod pending;
pub(crate) mod planning;
mod prepared;
mod refine;
mod registry;
mod report;
mod roles;
mod savepoint;
mod select;
pub(crate) mod settings;
mod shown_names;
mod sibling;
mod signatures;
mod stream_in;
mod supervise;
mod transaction;
mod values;
mod verify;

pub use body::{Ingest, Ingested};
pub use bounded::{Answer, BOUND_OF, BOUND_SIDE};
pub use core::{Session, TransactionStatus};
pub use describe::Described;
pub use errors::from_datafusion;
pub use ingest::BatchBuilder;
pub use outcome::Outcome;
pub use prepared::Prepared;
pub use refine::{Bounds, IntervalKind, Refinement, Refinements, Refining};
pub use registry::Client;
pub use report::Report;
pub use stream_in::Appended;

pub(crate) use crate::session::errors::error_of;
pub(crate) use core::blocking;
pub(crate) use execution::Executor;
pub(crate) use memory_pool::{QueryMemory, TotalMemory};
pub(crate) use pending::{is_waiting, waiting};

pub(crate) use registry::{Entry, Sessions};
