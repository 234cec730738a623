//! `alluvia.*`: the database described by tables.
//!
//! Invariants:
//! - A system table is made when it is scanned, from the store and the engine as they are then; of definitions it shows
//!   the statement's snapshot. It holds nothing, and it cannot be written to.
//! - Counts and sizes are BIGINT, durations are seconds as DOUBLE, times are TIMESTAMP WITH TIME ZONE.

pub(crate) mod audit;

mod activity;
mod build;
mod cluster;
mod context;
mod definitions;
mod figures;
mod provider;
mod queries;
mod storage;

pub(crate) use build::{Cell, Kind};
pub(crate) use context::SystemContext;
pub use figures::{Figures, LATENCY_SECONDS, StageFigures, StatementFigures};
pub(crate) use figures::{Statements, kind_of};
pub(crate) use provider::{SystemTable, listed};
pub use provider::{TABLE_NAMES, schema_of};

pub(crate) use queries::Live;
pub use queries::{QueryLog, QueryRow};
