//! What a session remembers between statements: settings, the transaction, the versions that it has read and written,
//! cursors.
//!
//! Invariants:
//! - A session never reads below what it has read or written ([`State::seen`]).
//! - [`State`] is locked for a look or a change, and never while something is waited for.
//! - Nothing here runs statements; [`Scope`] is what all statements of one session work with.

pub(crate) mod cursors;
pub(crate) mod definitions;
pub(crate) mod scope;
pub(crate) mod sibling;
pub(crate) mod temporary;
pub(crate) mod transaction;

use crate::clients::Standing;
use crate::engine::Engine;
use crate::engine::sequences::{SharedBlock, Taker};
use crate::session::state::temporary::{Inherited, Temporary, is_temporary};
use crate::session::state::transaction::Transaction;
use alluvia_catalog::authoriser::{Authoriser, Who};
use alluvia_catalog::{Catalog, Change};
use alluvia_settings::Settings;
use alluvia_snapshot::{Durability, Snapshot, TableRead};
use alluvia_types::{ColumnId, Error, ErrorKind, Result, TableId, Version};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Where a session stands between statements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransactionStatus {
    /// Each statement is a transaction of its own.
    Idle,
    /// Between BEGIN and COMMIT.
    Open,
    /// An error came: only its end and ROLLBACK TO a savepoint are taken.
    Failed,
}

impl TransactionStatus {
    /// In small letters.
    pub fn name(self) -> &'static str {
        match self {
            TransactionStatus::Idle => "idle",
            TransactionStatus::Open => "open",
            TransactionStatus::Failed => "failed",
        }
    }
}

/// What a session remembers between statements.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) settings: Settings,
    pub(crate) defaults: Settings,
    pub(crate) transaction: Transaction,
    /// The highest version read or written.
    pub(crate) seen: Version,
    /// The highest version written with relaxed durability that may not be visible yet.
    pub(crate) unseen: Option<Version>,
    /// Who it is for.
    pub(crate) who: Who,
    /// Whether it is a server's for a client, and not the process's own.
    pub(crate) is_served: bool,
    /// What it was made with, if it is another session's sibling.
    pub(crate) inherited: Option<Box<Settings>>,
    /// Its temporary tables.
    pub(crate) temporary: Temporary,
    /// What these were like when it got them, if it is another session's sibling.
    pub(crate) inherited_temporary: Inherited,
    /// The last values that it got of sequences.
    pub(crate) sequences: HashMap<(TableId, ColumnId), i64>,
    /// The sequence that it was given a value of last.
    pub(crate) last_sequence: Option<(TableId, ColumnId)>,
}

impl State {
    /// The state of a session of the process itself, which has run nothing.
    pub(crate) fn new(engine: &Engine) -> State {
        let settings = engine.default_settings();
        State {
            defaults: settings.clone(),
            settings,
            transaction: Transaction::None,
            seen: Version(0),
            unseen: None,
            who: Who::embedded(),
            is_served: false,
            inherited: None,
            temporary: Temporary::new(engine.temporary_memory()),
            inherited_temporary: Inherited::default(),
            sequences: HashMap::new(),
            last_sequence: None,
        }
    }

    /// What the session may, by these definitions.
    pub(crate) fn authoriser(&self, catalog: Arc<Catalog>) -> Authoriser {
        Authoriser::new(self.who.clone(), Arc::clone(&self.settings.role), catalog).along(&self.settings.search_path)
    }

    /// Where the session stands.
    pub(crate) fn transaction_status(&self) -> TransactionStatus {
        match &self.transaction {
            Transaction::None => TransactionStatus::Idle,
            Transaction::Open(open) if open.is_alone => TransactionStatus::Idle,
            Transaction::Open(_) => TransactionStatus::Open,
            Transaction::Failed(_) => TransactionStatus::Failed,
        }
    }

    /// An error came: an open transaction can only end, or go back to a savepoint.
    pub(crate) fn fail_transaction(&mut self) {
        self.transaction = match std::mem::take(&mut self.transaction) {
            Transaction::Open(open) if open.is_alone => Transaction::None,
            Transaction::Open(mut open) => {
                open.drop_unsaved();
                self.temporary.take_back(open.temporary_kept());
                Transaction::Failed(open)
            }
            other => other,
        };
    }

    /// Whether rows go into an open transaction. One that has failed since the statement began is not none: it takes
    /// nothing.
    pub(crate) fn is_open(&self) -> Result<bool> {
        match self.transaction {
            Transaction::None => Ok(false),
            Transaction::Open(_) => Ok(true),
            Transaction::Failed(_) => Err(failed_transaction()),
        }
    }

    /// Savepoints that the open transaction has, whether or not it has failed.
    pub(crate) fn savepoints(&self) -> usize {
        match &self.transaction {
            Transaction::None => 0,
            Transaction::Open(open) | Transaction::Failed(open) => open.savepoints(),
        }
    }

    /// Whether what is written to a table waits in the session: for the COMMIT of its transaction, or because the table is
    /// temporary.
    pub(crate) fn is_held(&self, table: TableId) -> Result<bool> {
        Ok(self.is_open()? || is_temporary(table))
    }

    /// The temporary tables, for what changes them.
    pub(crate) fn temporary_to_change(&mut self) -> Result<&mut Temporary> {
        match self.transaction {
            Transaction::Failed(_) => Err(failed_transaction()),
            _ => Ok(&mut self.temporary),
        }
    }

    /// Outside of a transaction a statement begins: what one has left that did not come to its end goes.
    pub(crate) fn begin_statement(&mut self) {
        if matches!(&self.transaction, Transaction::Open(open) if open.is_alone) {
            self.transaction = Transaction::None;
        }
        if let Transaction::None = self.transaction {
            self.temporary.take_back(0);
        }
    }

    /// Outside of a transaction a statement has come to its end: what it has changed of temporary tables stays, or goes.
    pub(crate) fn end_statement(&mut self, is_kept: bool) {
        match self.transaction {
            Transaction::None if is_kept => self.temporary.keep(),
            Transaction::None => self.temporary.take_back(0),
            _ => {}
        }
    }

    /// The definitions that the session sees; `newest` are the newest visible ones.
    pub(crate) fn definitions(&mut self, newest: &Arc<Catalog>) -> Result<Arc<Catalog>> {
        let seen = match &mut self.transaction {
            Transaction::Open(open) => open.definitions(newest)?,
            _ => Arc::clone(newest),
        };
        Ok(self.temporary.over(&seen))
    }

    /// Whether the open transaction has changed definitions. What is kept between statements is then of no use: it is
    /// of others.
    pub(crate) fn has_own_definitions(&self) -> bool {
        matches!(&self.transaction, Transaction::Open(open) if open.has_own_definitions())
    }

    /// Puts what the open transaction has changed, and temporary tables, into a snapshot of these tables. Those that only the
    /// session knows are empty.
    pub(crate) fn add_own_definitions(&mut self, snapshot: &mut Snapshot, tables: &[TableId]) -> Result<()> {
        if !self.has_own_definitions() && self.temporary.is_empty() {
            return Ok(());
        }
        let seen = self.definitions(&snapshot.catalog)?;
        for table in tables {
            let Some(entry) = seen.by_id(*table) else {
                snapshot.tables.remove(table);
                continue;
            };
            let new = || TableRead::empty(Arc::clone(entry));
            snapshot.tables.entry(*table).or_insert_with(new).entry = Arc::clone(entry);
        }
        snapshot.catalog = seen;
        Ok(())
    }

    /// A statement is answered at this version or a later one (VOLAP, III-H).
    pub(crate) fn must_see(&self) -> Version {
        if self.settings.is_serial { self.seen } else { Version(0) }
    }

    /// The session has read this version.
    pub(crate) fn has_read(&mut self, version: Version) {
        self.seen = self.seen.max(version);
    }

    /// The session has written this version.
    pub(crate) fn wrote(&mut self, version: Version, durability: Durability) {
        self.seen = self.seen.max(version);
        if durability == Durability::Relaxed {
            self.unseen = self.unseen.max(Some(version));
        }
    }

    /// The session's producer has numbered a batch.
    pub(crate) fn next_producer_sequence(&mut self) {
        self.settings.producer_sequence = self.settings.producer_sequence.saturating_add(1);
    }

    /// Limits statements, unless a role or the client states another limit later: RESET goes back to this one.
    pub(crate) fn limit_statements(&mut self, statement_timeout: Duration) {
        self.settings.statement_timeout = statement_timeout;
        self.defaults.statement_timeout = statement_timeout;
    }
}

impl Taker for Mutex<State> {
    fn own_block(&self, sequence: (TableId, ColumnId)) -> Option<SharedBlock> {
        if let Transaction::Open(open) = &self.lock().transaction
            && let Some(block) = open.restarted_block(sequence)
        {
            return Some(block);
        }
        is_temporary(sequence.0).then(|| self.lock().temporary.sequence(sequence)).flatten()
    }

    fn has_taken(&self, sequence: (TableId, ColumnId), last: i64) {
        let mut state = self.lock();
        state.sequences.insert(sequence, last);
        state.last_sequence = Some(sequence);
    }

    fn take_with_commit(&self, change: Change) -> Result<()> {
        match &mut self.lock().transaction {
            Transaction::Open(open) => {
                open.take_sequence(change);
                Ok(())
            }
            _ => Err(failed_transaction()),
        }
    }
}

impl Standing for Mutex<State> {
    fn who(&self) -> Who {
        self.lock().who.clone()
    }

    fn idle(&self) -> &'static str {
        match self.lock().transaction {
            Transaction::None => "idle",
            Transaction::Open(_) => "idle in transaction",
            Transaction::Failed(_) => "failed transaction",
        }
    }

    fn reads(&self) -> Option<Version> {
        match &self.lock().transaction {
            Transaction::None => None,
            Transaction::Open(open) | Transaction::Failed(open) => open.version(),
        }
    }

    fn keeps_locks(&self) -> Option<usize> {
        match &self.lock().transaction {
            Transaction::None => Some(0),
            // Its statement has not come to its end.
            Transaction::Open(open) if open.is_alone => Some(0),
            Transaction::Open(_) => None,
            Transaction::Failed(failed) => Some(failed.locks_saved()),
        }
    }
}

/// What a statement is told while the transaction has failed.
pub(crate) fn failed_transaction() -> Error {
    Error::new(ErrorKind::FailedTransaction, "the transaction has failed: statements are refused until it ends")
        .with_hint("ROLLBACK ends it, and ROLLBACK TO goes back to a savepoint")
}
