//! Sessions: transactions and statements.
//!
//! [`core`] is the session and the frame that every statement runs in; one file each for what statements do; [`crate::execution::guard`] and
//! [`supervise`] keep a statement from harming anything but itself.

mod auditing;
mod body;
mod bounded;
mod calls;
mod committing;
mod computed;
mod control;
mod copying;
mod core;
mod cuboids;
mod cursor;
mod ddl;
mod describe;
mod explain;
mod indexed;
mod ingest;
mod insert;
mod outcome;
mod outlined;
mod pending;
mod prepared;
mod refine;
mod report;
mod roles;
mod savepoint;
mod select;
mod shown_names;
mod sibling;
mod stream_in;
mod supervise;
mod transaction;
mod values;
mod verify;

pub use body::{Ingest, Ingested};
pub use bounded::{Answer, BOUND_OF, BOUND_SIDE};
pub use core::{Session, TransactionStatus};
pub use describe::Described;

pub use ingest::BatchBuilder;
pub use outcome::Outcome;
pub use prepared::Prepared;
pub use refine::{Bounds, IntervalKind, Refinement, Refinements, Refining};

pub use report::Report;
pub use stream_in::Appended;
