//! One statement on its way: what it works with, who watches it, what it gives back.
//!
//! Invariants:
//! - One statement of a session at a time; a second one waits ([`runner`]).
//! - A statement that is committing is not dropped by a cancel: whether it committed must be known.
//! - Whatever ends a statement (error, cancel, timeout, panic), an open transaction is failed by it.
//! - A statement reads one snapshot, which its first look pins ([`Run::pinned`]); it holds none while its batch
//!   commits.
//! - [`supervise`] keeps a statement from harming anything but itself, from its start until its last row.

pub(crate) mod auditing;
pub(crate) mod called;
pub(crate) mod described_plan;
pub(crate) mod outcome;
pub(crate) mod refinement;
pub(crate) mod runner;
pub(crate) mod supervise;

use crate::answer::{Accuracy, CachedStatement};
use crate::engine::Engine;
use crate::session::run::called::HeldByCall;
use crate::session::run::described_plan::DescribedPlan;
use crate::session::run::outcome::Outcome;
use crate::session::run::refinement::RefinementSlot;
use crate::session::state::State;
use crate::session::state::definitions::Definer;
use crate::session::state::scope::Scope;
use alluvia_constraints::Decided;
use alluvia_copy::progress::{CancelToken, Progress};
use alluvia_settings::Settings;
use alluvia_snapshot::Snapshot;
use alluvia_syntax::{Kind, ResultNames};
use alluvia_types::{Result, TableId, Version};
use datafusion::common::ScalarValue;
use futures::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// Runs CALL and DO with values of their parameters: what does stands above what dispatches statements.
pub(crate) type Calls = fn(Arc<Run>, Kind, Vec<ScalarValue>) -> BoxFuture<'static, Result<Outcome>>;

/// One statement on its way.
pub(crate) struct Run {
    pub(crate) scope: Arc<Scope>,
    pub(crate) token: CancelToken,
    pub(crate) progress: Arc<Progress>,
    /// The settings it runs with, whatever it changes.
    pub(crate) settings: Settings,
    /// How exact its answer must be; `None` is exact.
    pub(crate) accuracy: Option<Accuracy>,
    /// Its text.
    pub(crate) text: Arc<str>,
    /// What the columns of its answer are called, where it is not what planning calls them.
    pub(crate) names: OnceLock<Arc<ResultNames>>,
    /// Its place in `alluvia.queries`; 0 of what has none.
    pub(crate) query_id: u64,
    /// What is known of the statement from its last answer by the index, and then what is from this one.
    pub(crate) cached: Mutex<Option<Arc<CachedStatement>>>,
    /// Set if its answer is to be refined.
    pub(crate) refining: OnceLock<Arc<RefinementSlot>>,
    /// The plan that describing it has made.
    pub(crate) described: Mutex<Option<Arc<DescribedPlan>>>,
    /// What it reads, from its first look on.
    pinned: Mutex<Option<Arc<Snapshot>>>,
    /// The relations that it has named, and was allowed to read.
    named: Mutex<Arc<BTreeSet<TableId>>>,
    /// What runs procedures.
    pub(crate) calls: Calls,
    /// What procedures that it runs hold.
    pub(crate) held_by_call: Arc<HeldByCall>,
    /// Set to the version that its batch had before, if its producer had sent it before.
    pub(crate) repeated: Arc<OnceLock<Version>>,
    /// For which tables it is known whether constraints concern it: rows of others came by a way that nobody looks at.
    pub(crate) decided: Mutex<Decided>,
}

impl Run {
    /// A statement with the settings of its session, which are taken here.
    pub(crate) fn new(scope: &Arc<Scope>, token: CancelToken, text: Arc<str>, calls: Calls) -> Run {
        let settings = scope.state().settings.clone();
        Run {
            scope: Arc::clone(scope),
            token,
            progress: Arc::default(),
            accuracy: settings.accuracy(),
            settings,
            text,
            names: OnceLock::new(),
            query_id: 0,
            cached: Mutex::default(),
            refining: OnceLock::new(),
            described: Mutex::default(),
            pinned: Mutex::default(),
            named: Mutex::default(),
            calls,
            held_by_call: Arc::default(),
            repeated: Arc::default(),
            decided: Mutex::default(),
        }
    }

    /// A statement within this one: of a procedure that it runs. What it tells is not estimated.
    pub(crate) fn within(&self, text: Arc<str>) -> Run {
        let run = Run::new(&self.scope, self.token.clone(), text, self.calls);
        Run { accuracy: None, query_id: self.query_id, held_by_call: Arc::clone(&self.held_by_call), ..run }
    }

    /// What all sessions share.
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.scope.engine
    }

    /// The state of its session, locked.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.scope.state.lock()
    }

    /// The snapshot that the statement has pinned, if any part of it has looked.
    pub(crate) fn pinned(&self) -> Option<Arc<Snapshot>> {
        self.pinned.lock().clone()
    }

    /// All further looks of the statement are at this snapshot.
    pub(crate) fn pin(&self, snapshot: &Arc<Snapshot>) {
        *self.pinned.lock() = Some(Arc::clone(snapshot));
    }

    /// The relations that the statement has named, and was allowed to read.
    pub(crate) fn named(&self) -> Arc<BTreeSet<TableId>> {
        Arc::clone(&self.named.lock())
    }

    /// It may read these by their names.
    pub(crate) fn may_name(&self, relations: &[TableId]) {
        let mut named = self.named.lock();
        if relations.iter().any(|id| !named.contains(id)) {
            Arc::make_mut(&mut named).extend(relations);
        }
    }

    /// The statement reads nothing more: a batch may have to wait until what statements hold is given back, and must
    /// not wait for its own.
    pub(crate) fn unpin(&self) {
        *self.pinned.lock() = None;
    }

    /// A number for a temporary table or view of the session; refused where it has as many as it may.
    pub(crate) fn new_temporary_id(&self) -> Result<TableId> {
        self.state().temporary.new_id(|| self.engine().next_temporary())
    }

    /// The statement as what changes definitions.
    pub(crate) fn definer(&self) -> Definer {
        Definer { text: Arc::clone(&self.text), acting: Arc::clone(&self.settings.role) }
    }
}
