//! What one statement carries from its session to system tables.

use super::QueryLog;
use crate::answer::Cuboids;
use crate::clients::Sessions;
use crate::used::UsedCounters;
use alluvia_catalog::authoriser::Authoriser;
use alluvia_pg_catalog::SettingsView;
use alluvia_skipping::PredicateCache;
use alluvia_snapshot::{Admin, Snapshot};
use alluvia_types::Clock;
use datafusion::catalog::Session;
use datafusion::common::DataFusionError;
use std::sync::Arc;

/// The database as a statement's system tables describe it; put into `SessionConfig` with `set_extension`.
#[derive(Debug)]
pub(crate) struct SystemContext {
    /// What the statement reads.
    pub(crate) snapshot: Arc<Snapshot>,
    /// What it has read so far.
    pub(crate) used: Arc<UsedCounters>,
    /// What the database tells of its batches, stages, segments and audit log.
    pub(crate) admin: Arc<dyn Admin>,
    /// Tells how long running queries have taken.
    pub(crate) clock: Arc<dyn Clock>,
    /// Recent queries, for `alluvia.queries`.
    pub(crate) queries: Arc<QueryLog>,
    /// Open sessions, for `alluvia.sessions`.
    pub(crate) sessions: Arc<Sessions>,
    /// Resident cuboids, for `alluvia.cuboids`.
    pub(crate) cuboids: Arc<Cuboids>,
    /// Predicates and the blocks they match nowhere, for `alluvia.predicate_cache`.
    pub(crate) predicates: Arc<PredicateCache>,
    /// The session's settings, for `alluvia.settings`.
    pub(crate) settings: Arc<dyn SettingsView>,
    /// What the session may, for tables whose rows are not everybody's.
    pub(crate) authoriser: Authoriser,
}

impl SystemContext {
    /// The context of the statement that is being planned.
    pub(crate) fn of(session: &dyn Session) -> Result<Arc<SystemContext>, DataFusionError> {
        session
            .config()
            .get_extension::<SystemContext>()
            .ok_or_else(|| DataFusionError::Internal("a system table was planned outside Session::execute".to_owned()))
    }
}
