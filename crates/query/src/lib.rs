//! Sessions, and how they answer queries: tables as DataFusion scans them, aggregates in plans, samples, rights, system tables.
//!
//! Folders stand one above another (`cargo xtask tidy` holds their order): `session` is the highest, `by_key` the lowest. Below them
//! all is `alluvia_answer`: answers from the index.
//!
//! Invariants:
//! - [`Session::execute`] is the only entrance for command line, servers and Python.
//! - A statement is parsed once and never printed and parsed again.
//! - A statement reads all its tables at one version; table providers hold no snapshot.
//! - No table is resolved, and nothing done, before the rights of whoever asks allow it (`rights`).
//! - A statement that is not supported is refused by name; nothing is silently ignored.

mod audit;
mod clients;
mod execution;
mod namespace;

mod by_key;
mod engine;
mod point;
mod report;
mod result_names;
mod rights;
mod rule;
mod sample;
mod session;
mod system;
mod table;

use alluvia_answer as answer;
use alluvia_answer::{members, used};

pub use alluvia_access::LogIn;
pub use alluvia_pg_catalog::SettingRow;
pub use alluvia_space::RowPolicy;
pub use datafusion::scalar::ScalarValue;

pub use engine::{Engine, EngineOptions, empty_spill_dir};

pub use audit::is_audit_line;

pub(crate) use alluvia_errors as errors;
pub use alluvia_errors::from_datafusion;
pub use clients::Client;
pub use report::Report;
pub use session::{
    Answer, Appended, BOUND_OF, BOUND_SIDE, BatchBuilder, Bounds, Described, DescribedBy, Ingest, Ingested,
    IntervalKind, Origin, Outcome, Prepared, Refinement, Refinements, Refining, Session, TransactionStatus,
};
pub use system::{Figures, LATENCY_SECONDS, QueryLog, QueryRow, StageFigures, StatementFigures};
pub use used::{SampleUsed, Used, UsedCounters};

/// The memos that are kept beside the data ([`alluvia_snapshot::Admin::memorise`]).
pub const MEMOS: [alluvia_snapshot::Memo; 2] = [answer::CUBOIDS_MEMO, alluvia_skipping::PREDICATES_MEMO];

/// Whether the content of one of the [`MEMOS`] can be read; an error says what is wrong with it. What another version of the planner has
/// learnt is not taken over, and not wrong.
pub fn check_memo(memo: &alluvia_snapshot::Memo, content: &[u8]) -> alluvia_types::Result<()> {
    if memo.name == answer::CUBOIDS_MEMO.name {
        answer::check_cuboids_memo(content)
    } else {
        alluvia_skipping::check_predicates_memo(content)
    }
}
