//! Changes of temporary tables' rows, on their way into the session.
//!
//! Invariants:
//! - What is told of a statement's rows (a key that is there, rows that are passed over) is told as of any table's.
//! - Rows that the session may not hold in memory go into files, those that are there before those that come; nothing waits for
//!   a file while the session's state is locked.
//! - A transaction that has failed takes nothing.

use crate::engine::Engine;
use crate::session::run::Run;
use crate::session::state::State;
use crate::session::transaction::own_changes::{Settled, asks, codes_of, settled};
use alluvia_catalog::TableEntry;
use alluvia_copy::temporary::{Coming, Spilled};
use alluvia_snapshot::{NewRows, RowChange};
use alluvia_space::key_code::{KeyCode, KeyCoder};
use alluvia_types::{Error, Result, TableId};
use arrow::array::RecordBatch;
use parking_lot::Mutex;
use std::sync::Arc;

/// Takes changes of one temporary table. What it does may block.
pub(crate) struct TemporaryWriter {
    engine: Arc<Engine>,
    state: Arc<Mutex<State>>,
    entry: Arc<TableEntry>,
    coder: Option<KeyCoder>,
    /// Bytes that all temporary tables of the session may hold in memory.
    most: u64,
}

impl TemporaryWriter {
    /// For a table of the statement's session.
    pub(crate) fn new(run: &Run, entry: &Arc<TableEntry>) -> TemporaryWriter {
        TemporaryWriter {
            engine: Arc::clone(run.engine()),
            state: Arc::clone(&run.scope.state),
            entry: Arc::clone(entry),
            coder: KeyCoder::new(&entry.def),
            most: run.settings.temporary_memory_bytes,
        }
    }

    fn table(&self) -> TableId {
        self.entry.def.id
    }

    /// Makes changes in their order. Gives how many rows were passed over.
    pub(crate) fn add(&self, changes: Vec<NewRows>) -> Result<u64> {
        let Settled { changes, passed_over } = self.settle(changes)?;
        for NewRows { change, batches, .. } in changes {
            batches.into_iter().try_for_each(|batch| self.put(change, batch))?;
        }
        Ok(passed_over)
    }

    fn settle(&self, changes: Vec<NewRows>) -> Result<Settled> {
        let coder = self.coder.as_ref().filter(|_| changes.iter().any(asks));
        let Some(coder) = coder else { return Ok(Settled { changes, passed_over: 0 }) };
        let codes = codes_of(coder, &changes)?;
        let is_there = {
            let state = self.state.lock();
            let has_key = |code: &KeyCode| (*code, state.temporary.has_key(self.table(), *code).unwrap_or_default());
            let asked = changes.iter().zip(&codes).filter(|(rows, _)| asks(rows));
            asked.flat_map(|(_, codes)| codes.iter().flatten()).map(has_key).collect()
        };
        settled((&self.entry, coder), changes, codes, is_there, None)
    }

    fn put(&self, change: RowChange, batch: RecordBatch) -> Result<()> {
        let codes = match (&self.coder, change) {
            (_, RowChange::DeleteRows) | (None, _) => Vec::new(),
            (Some(coder), _) => coder.codes(&batch)?,
        };
        match change {
            RowChange::Insert | RowChange::Upsert => {
                let coming = self.coming(&batch, &codes)?;
                self.state.lock().temporary_to_change()?.come(self.table(), coming)
            }
            RowChange::Delete => self.state.lock().temporary_to_change()?.delete(self.table(), &codes),
            RowChange::DeleteRows => self.state.lock().temporary_to_change()?.delete_rows(self.table(), &batch),
            RowChange::InsertNew => Err(Error::internal("rows are to come of which some may be passed over")),
        }
    }

    /// Rows where they may lie: in memory, or in a file.
    fn coming(&self, batch: &RecordBatch, codes: &[KeyCode]) -> Result<Coming> {
        let (memory, spilling) = {
            let state = self.state.lock();
            let memory = Arc::clone(state.temporary.memory());
            if let Some(coming) = Coming::in_memory(&memory, batch, codes, self.most) {
                return Ok(coming);
            }
            (memory, state.temporary.spilling())
        };
        let spool = self.engine.spool();
        let mut moved: Vec<(TableId, Spilled)> = Vec::with_capacity(spilling.len());
        for (table, name, spilling) in spilling {
            moved.push((table, spilling.write(&spool, &name)?));
        }
        {
            let mut state = self.state.lock();
            moved.into_iter().for_each(|(table, spilled)| state.temporary.spilled(table, spilled));
        }
        if let Some(coming) = Coming::in_memory(&memory, batch, codes, self.most) {
            return Ok(coming);
        }
        Coming::in_file(&memory, &spool, &self.entry.def.name, batch, codes, self.most)
    }
}
