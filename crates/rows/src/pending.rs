//! What the open transaction has changed of one table: changes that wait for COMMIT, and what they come to.
//!
//! Invariants:
//! - Changes are only ever added, and taken back from the end: how many there were says which a savepoint has found.
//! - What a statement reads is what COMMIT makes of the same changes on the transaction's snapshot: own rows that are
//!   left come beside the snapshot's ([`PendingRows::readable`]), and rows of the snapshot that are gone are left out of
//!   it ([`crate::leave_out`]).
//! - Changes of a table with a key wait as they were asked for, by key: COMMIT makes them in their order. In a table
//!   without one, rows of the snapshot go by their identities; own rows, which have none yet, go by their numbers, and
//!   are not submitted.
//! - Rows wait as they came. ALTER TABLE after them leaves them so, and they are read and committed by the definition
//!   that it makes.

use crate::fitted::{filtered, fitted, width};
use crate::overlay::{KEY_BYTES, Overlay};
use crate::view::Killed;
use crate::waiting::in_log;
use alluvia_catalog::TableEntry;
use alluvia_snapshot::{NewRows, RowChange, identities_of};
use alluvia_space::key_code::{KeyCode, KeyCoder};
use alluvia_types::{Error, Result, TableId, Version};
use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use std::sync::Arc;

/// The version that rows stand under which have none yet; their ordinals count the rows that a statement reads of them.
pub const PENDING_VERSION: Version = Version(u64::MAX);

/// What waits of one table.
#[derive(Debug)]
pub struct PendingRows {
    /// The definition that rows are read by: the one that they were checked against, or what the transaction has made of
    /// it since.
    pub entry: Arc<TableEntry>,
    changes: Vec<Waiting>,
    overlay: Overlay,
}

/// A change that waits.
#[derive(Debug)]
enum Waiting {
    /// Rows, and what they do to those that are there.
    Rows(WaitingRows),
    /// Own rows with these numbers are gone.
    OwnGone(Vec<usize>),
}

/// Rows that wait.
#[derive(Debug)]
struct WaitingRows {
    rows: RecordBatch,
    change: RowChange,
    computed_at: Option<Version>,
    /// Of the rows' keys, in a table that has one.
    codes: Vec<KeyCode>,
}

impl WaitingRows {
    /// Own rows that it brings.
    fn brought(&self) -> usize {
        match self.change {
            RowChange::Insert | RowChange::Upsert => self.rows.num_rows(),
            RowChange::InsertNew | RowChange::Delete | RowChange::DeleteRows => 0,
        }
    }
}

/// Changes on their way to what waits.
pub struct Added {
    changes: Vec<Waiting>,
    /// What they take in memory.
    pub bytes: u64,
}

impl PendingRows {
    /// Nothing, of a table.
    pub fn new(entry: Arc<TableEntry>) -> PendingRows {
        PendingRows { entry, changes: Vec::new(), overlay: Overlay::default() }
    }

    /// How many changes wait.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// No fewer than the rows that have come and the keys that were changed, without looking at them.
    pub fn touched(&self) -> usize {
        self.overlay.touched()
    }

    /// What changes of one statement are, which has seen what waits now. Rows of it that have no version yet are told by
    /// where they stand among the own rows that are left.
    ///
    /// # Errors
    /// Those of [`KeyCoder::codes`]; `Internal` for rows that are told by what no row has, and for those of which it is not
    /// settled yet which come.
    pub fn added(&self, changes: Vec<NewRows>) -> Result<Added> {
        let coder = KeyCoder::new(&self.entry.def);
        let mut added = Added { changes: Vec::new(), bytes: 0 };
        for NewRows { batches, change, computed_at, .. } in changes {
            if change == RowChange::InsertNew {
                return Err(Error::internal("rows are to wait of which some may be passed over"));
            }
            for rows in batches {
                let (mut rows, mut codes) = (rows, Vec::new());
                if change == RowChange::DeleteRows {
                    if let Some(own) = self.own_of(&rows)? {
                        rows = filtered(&rows, &own.others)?;
                        added.bytes += (own.numbers.len() * size_of::<usize>()) as u64;
                        added.changes.push(Waiting::OwnGone(own.numbers));
                    }
                } else if let Some(coder) = &coder {
                    codes = coder.codes(&rows)?;
                    added.bytes += codes.len() as u64 * KEY_BYTES;
                }
                if rows.num_rows() > 0 {
                    added.bytes += rows.get_array_memory_size() as u64;
                    added.changes.push(Waiting::Rows(WaitingRows { rows, change, computed_at, codes }));
                }
            }
        }
        Ok(added)
    }

    /// The own rows among rows that are told by version and ordinal; `None` if there are none.
    fn own_of(&self, rows: &RecordBatch) -> Result<Option<OwnOf>> {
        let identities = identities_of(rows)?;
        let own = identities.iter().filter(|(version, _)| *version == PENDING_VERSION);
        let places: Vec<u64> = own.map(|(_, place)| *place).collect();
        if places.is_empty() {
            return Ok(None);
        }
        let others = identities.iter().map(|(version, _)| *version != PENDING_VERSION).collect();
        Ok(Some(OwnOf { numbers: self.overlay.numbers(&places)?, others }))
    }

    /// Adds changes to what waits.
    pub fn push(&mut self, added: Added) {
        added.changes.iter().for_each(|change| apply(&mut self.overlay, change));
        self.changes.extend(added.changes);
    }

    /// Takes back what came after so many changes.
    pub fn truncate(&mut self, changes: usize) {
        if changes < self.changes.len() {
            self.changes.truncate(changes);
            self.overlay = Overlay::default();
            self.changes.iter().for_each(|change| apply(&mut self.overlay, change));
        }
    }

    /// Whether a row has a key by what waits; `None` if nothing was changed under it.
    pub fn has_key(&self, code: KeyCode) -> Option<bool> {
        self.overlay.has_key(code)
    }

    /// The own row that has a key, in the storage schema of the definition that it is read by; inside, `None` if none has. `None` if
    /// nothing was changed under it.
    ///
    /// # Errors
    /// `Internal` if rows that wait do not fit their definition.
    pub fn row(&self, code: KeyCode) -> Result<Option<Option<RecordBatch>>> {
        let Some(number) = self.overlay.row(code) else { return Ok(None) };
        let Some(number) = number else { return Ok(Some(None)) };
        let mut first = 0;
        for waiting in self.rows().filter(|waiting| waiting.brought() > 0) {
            if number < first + waiting.brought() {
                let row = waiting.rows.slice(number - first, 1);
                return fitted(&row, self.entry.storage_schema()).map(|row| Some(Some(row)));
            }
            first += waiting.brought();
        }
        Err(Error::internal("a key's row is not among those that wait"))
    }

    /// The rows of the snapshot that are gone; `None` if there are none.
    pub fn killed(&self) -> Result<Option<Killed>> {
        if self.entry.def.key.is_some() {
            let keys = self.overlay.killed();
            return Ok((!keys.is_empty()).then_some(Killed::Keys(keys)));
        }
        let mut identities = Vec::new();
        for rows in self.rows().filter(|rows| rows.change == RowChange::DeleteRows) {
            identities.extend(identities_of(&rows.rows)?);
        }
        Ok((!identities.is_empty()).then_some(Killed::Rows(identities)))
    }

    fn rows(&self) -> impl Iterator<Item = &WaitingRows> {
        self.changes.iter().filter_map(|change| match change {
            Waiting::Rows(rows) => Some(rows),
            Waiting::OwnGone(_) => None,
        })
    }

    /// What the columns that these rows do not have yet come to, all of them NULL, in the batches that a statement
    /// reads.
    pub fn bytes_added(&self, schema: &Schema) -> u64 {
        let known = self.entry.storage_schema();
        let added = schema.fields().iter().filter(|field| known.column_with_name(field.name()).is_none());
        let width: u64 = added.map(|field| width(field.data_type())).sum();
        let rows: u64 = self.rows().map(|waiting| waiting.brought() as u64).sum();
        rows.saturating_mul(width)
    }

    /// The own rows that are left, in the order in which they came, in the storage schema of the definition that they are
    /// read by.
    pub fn readable(&self) -> Result<Vec<RecordBatch>> {
        let (mut all, mut first) = (Vec::new(), 0);
        for waiting in self.rows().filter(|waiting| waiting.brought() > 0) {
            let left = self.left(waiting, first)?;
            first += waiting.brought();
            all.extend(left);
        }
        Ok(all)
    }

    /// The rows of a change that are left, of which the first has this number.
    fn left(&self, waiting: &WaitingRows, first: usize) -> Result<Option<RecordBatch>> {
        let rows = fitted(&waiting.rows, self.entry.storage_schema())?;
        let Some(is_left) = self.overlay.left_of(first..first + waiting.brought()) else { return Ok(Some(rows)) };
        match is_left.contains(&true) {
            true => filtered(&rows, is_left).map(Some),
            false => Ok(None),
        }
    }

    /// What COMMIT submits of the table: rows that do the same together, in the order in which they came.
    pub fn new_rows(&self, table: TableId) -> Result<Vec<NewRows>> {
        let checked_at = in_log(self.entry.changed_at);
        let has_key = self.entry.def.key.is_some();
        let mut all: Vec<NewRows> = Vec::new();
        let mut first = 0;
        for waiting in self.rows() {
            let &WaitingRows { change, computed_at, .. } = waiting;
            let rows = match waiting.brought() {
                // What tells rows that go has a schema of its own.
                0 => Some(waiting.rows.clone()),
                // By key all is said in its order, also of own rows that go.
                _ if has_key => Some(fitted(&waiting.rows, self.entry.storage_schema())?),
                brought => {
                    let left = self.left(waiting, first)?;
                    first += brought;
                    left
                }
            };
            let Some(rows) = rows else { continue };
            match all.last_mut().filter(|last| (last.change, last.computed_at) == (change, computed_at)) {
                Some(last) => last.batches.push(rows),
                None => all.push(NewRows { change, computed_at, ..NewRows::insert(table, checked_at, vec![rows]) }),
            }
        }
        Ok(all)
    }
}

/// Own rows among those that go.
struct OwnOf {
    numbers: Vec<usize>,
    /// Which of the rows are others.
    others: Vec<bool>,
}

fn apply(overlay: &mut Overlay, change: &Waiting) {
    let WaitingRows { rows, change, codes, .. } = match change {
        Waiting::OwnGone(numbers) => return overlay.delete_own(numbers),
        Waiting::Rows(rows) => rows,
    };
    match change {
        RowChange::Insert if codes.is_empty() => overlay.come(rows.num_rows()),
        RowChange::Insert => codes.iter().for_each(|&code| overlay.insert(code)),
        RowChange::Upsert => codes.iter().for_each(|&code| overlay.replace(code)),
        RowChange::Delete => codes.iter().for_each(|&code| overlay.delete(code)),
        RowChange::DeleteRows | RowChange::InsertNew => {}
    }
}

#[cfg(test)]
mod tests;
