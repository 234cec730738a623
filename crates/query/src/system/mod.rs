//! `alluvia.*`: the database described by tables.
//!
//! Invariants:
//! - A system table is made when it is scanned, from the store and the engine as they are then; of definitions it shows
//!   the statement's snapshot. It holds nothing, and it cannot be written to.
//! - Counts and sizes are BIGINT, durations are seconds as DOUBLE, times are TIMESTAMP WITH TIME ZONE.

pub(crate) mod audit;

mod activity;
mod build;
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
pub(crate) use provider::SystemTable;
pub use provider::{TABLE_NAMES, schema_of};

pub use queries::{QueryLog, QueryRow};

/// One setting, as `alluvia.settings` and SHOW ALL show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingRow {
    /// Its name.
    pub name: String,
    /// Its value now, as SHOW prints it.
    pub value: String,
    /// Its value after RESET.
    pub default_value: String,
    /// `session`, `client` or `database`.
    pub scope: &'static str,
    /// What it does, in one sentence.
    pub description: String,
}

/// Where `alluvia.settings` gets the session's settings from.
pub trait SettingsView: Send + Sync + std::fmt::Debug {
    /// All settings, in name order.
    fn settings(&self) -> Vec<SettingRow>;
}
