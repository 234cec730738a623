//! What one statement carries from its session to its scans.
//!
//! Invariants:
//! - A table provider holds no snapshot: it finds the statement's one in the session configuration's extensions, so all
//!   tables of a statement are read at one version.
//! - Counters are added to while the statement runs and are complete once its stream has ended.

use super::statistics::ScanCache;
use crate::answer::{Accuracy, Cuboids, Kept};
use crate::used::UsedCounters;
use alluvia_copy::temporary::TemporaryRead;
use alluvia_skipping::PredicateCache;
use alluvia_snapshot::{Read, Snapshot, Uses};
use alluvia_types::TableId;
use arrow::record_batch::RecordBatch;
use datafusion::catalog::Session;
use datafusion::common::DataFusionError;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One statement's view of the database; put into `SessionConfig` with `set_extension`.
#[derive(Debug)]
pub struct StatementContext {
    /// What the statement reads.
    pub snapshot: Arc<Snapshot>,
    /// Where it finds rows by their keys, and cuboids what was killed.
    pub(crate) store: Arc<dyn Read>,
    /// What it has read so far.
    pub used: Arc<UsedCounters>,
    /// Rows of the open transaction, in the storage schema of the table's definition in `snapshot`, without the hidden
    /// columns; empty outside one. Has every table of which the transaction has changed rows, also if none came.
    pub pending: BTreeMap<TableId, Vec<RecordBatch>>,
    /// Rows of the session's temporary tables that the statement reads, by table.
    pub(crate) temporary: BTreeMap<TableId, TemporaryRead>,
    /// The share of every table's rows that the statement reads; 1 is all.
    pub sample_fraction: f64,
    /// Resident cuboids.
    pub(crate) cuboids: Arc<Cuboids>,
    /// Predicates and the blocks they match nowhere, if the statement's scans use them.
    pub(crate) skipping: Option<Arc<PredicateCache>>,
    /// Statistics of segments, kept between statements.
    pub scans: Arc<ScanCache>,
    /// What the index may do for the statement.
    pub(crate) index: IndexUse,
}

/// What the index may do for a statement beside pruning its scans.
#[derive(Clone, Debug)]
pub(crate) struct IndexUse {
    /// Whether it may answer aggregates inside the plan.
    pub(crate) rule: bool,
    /// Whether resident cuboids may.
    pub(crate) cuboids: bool,
    /// How exact its values must be, where they are an aggregate's; `None` is exact.
    pub(crate) accuracy: Option<Accuracy>,
    /// Threads that one answer may take.
    pub(crate) threads: usize,
    /// What is kept of tables between statements.
    pub(crate) kept: Arc<Kept>,
}

impl StatementContext {
    /// What may answer parts of it on other machines.
    pub(crate) fn uses(&self) -> Uses {
        Uses { index: self.index.rule, cuboids: self.index.cuboids, predicates: self.skipping.is_some() }
    }

    /// The context of the statement that is being planned.
    pub(crate) fn of(session: &dyn Session) -> Result<Arc<StatementContext>, DataFusionError> {
        session.config().get_extension::<StatementContext>().ok_or_else(|| {
            DataFusionError::Internal("a table of Alluvia was planned outside Session::execute".to_owned())
        })
    }
}
