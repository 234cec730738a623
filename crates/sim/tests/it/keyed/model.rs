//! The model: of each table the rows at every version, in a map. It is meant to be obviously right, and is not fast.
//!
//! A row is known by the version that brought it and its place among all rows that came to its table then. That is the
//! order of the ordinals that the engine gives, which the model learns when it first sees them, and which never change.

use super::tables::KeyKind;
use alluvia_sim::rows::{FoundRow, Row};
use alluvia_space::OnConflict;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// A version, and the place among the rows that it brought to the table.
pub type RowId = (u64, u64);

/// What rows of a batch do, with what each needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    Insert(Vec<Row>),
    InsertNew(Vec<Row>),
    Upsert(Vec<Row>),
    /// The values of the key's columns.
    Delete(Vec<Row>),
    /// Versions and ordinals.
    DeleteRows(Vec<(u64, u64)>),
    /// A staged load, which does what the definition says.
    Load(Vec<Row>),
}

/// One part of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// By its place among the tables.
    pub table: usize,
    pub change: Change,
    pub computed_at: Option<u64>,
}

impl Part {
    pub fn new(table: usize, change: Change) -> Part {
        Part { table, change, computed_at: None }
    }
}

/// Why a batch may not be applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Refusal {
    /// A key is there.
    pub is_duplicate: bool,
    /// A key was written since what the rows were computed from.
    pub is_conflict: bool,
}

/// What becomes of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    Applied {
        /// Rows that changed nothing.
        passed_over: u64,
    },
    Refused(Refusal),
}

/// The rows of a table at one version, and where keys are.
#[derive(Clone, Debug, Default)]
struct State {
    rows: BTreeMap<RowId, Arc<Row>>,
    keys: BTreeMap<Row, RowId>,
    /// The version that wrote each key last.
    written: BTreeMap<Row, u64>,
}

/// One table through all versions.
#[derive(Clone, Debug)]
pub struct TableModel {
    pub kind: KeyKind,
    pub on_conflict: OnConflict,
    /// By version.
    states: Vec<Arc<State>>,
    ordinals: HashMap<RowId, u64>,
}

/// All tables through all versions.
#[derive(Clone, Debug)]
pub struct Model {
    pub tables: Vec<TableModel>,
}

/// What a batch is about to make of a table.
struct Pending {
    state: State,
    /// Rows that have come to the table with this batch.
    came: u64,
    version: u64,
}

impl Model {
    /// Tables that are made by one batch, which is version 1.
    pub fn new(tables: &[(KeyKind, OnConflict)]) -> Model {
        let table = |&(kind, on_conflict): &(KeyKind, OnConflict)| TableModel {
            kind,
            on_conflict,
            states: vec![Arc::default(); 2],
            ordinals: HashMap::new(),
        };
        Model { tables: tables.iter().map(table).collect() }
    }

    /// The newest version that has been given out.
    pub fn version(&self) -> u64 {
        self.tables[0].states.len() as u64 - 1
    }

    /// Applies a batch whole, or refuses it and stays as it is.
    pub fn apply(&mut self, parts: &[Part]) -> Outcome {
        let version = self.version() + 1;
        let pending = |(at, table): (usize, &TableModel)| {
            let is_written = parts.iter().any(|part| part.table == at);
            let state = if is_written { State::clone(table.newest()) } else { State::default() };
            Pending { state, came: 0, version }
        };
        let mut pending: Vec<Pending> = self.tables.iter().enumerate().map(pending).collect();
        let (mut refusal, mut passed_over) = (Refusal::default(), 0);
        for part in parts {
            let table = &self.tables[part.table];
            refusal.is_conflict |= part.computed_at.is_some_and(|at| table.is_written_since(&part.change, at));
            match pending[part.table].apply(table, &part.change) {
                Ok(count) => passed_over += count,
                Err(Duplicate) => refusal.is_duplicate = true,
            }
        }
        if refusal != Refusal::default() {
            return Outcome::Refused(refusal);
        }
        for (at, (table, pending)) in self.tables.iter_mut().zip(pending).enumerate() {
            let is_written = parts.iter().any(|part| part.table == at);
            let same = || Arc::clone(&table.states[table.states.len() - 1]);
            let state = if is_written { Arc::new(pending.state) } else { same() };
            table.states.push(state);
        }
        Outcome::Applied { passed_over }
    }

    /// Forgets versions above one, which were never durable.
    pub fn take_back(&mut self, above: u64) {
        for table in &mut self.tables {
            table.states.truncate(above as usize + 1);
            table.ordinals.retain(|row, _| row.0 <= above);
        }
    }
}

struct Duplicate;

impl Pending {
    /// Applies one part, and tells how many of its rows change nothing.
    fn apply(&mut self, table: &TableModel, change: &Change) -> Result<u64, Duplicate> {
        let mut passed_over = 0;
        match change {
            Change::Insert(rows) => self.insert(table, rows, OnConflict::Error, &mut passed_over)?,
            Change::InsertNew(rows) => self.insert(table, rows, OnConflict::Nothing, &mut passed_over)?,
            Change::Upsert(rows) => self.insert(table, rows, OnConflict::Replace, &mut passed_over)?,
            Change::Load(rows) => self.insert(table, rows, table.on_conflict, &mut passed_over)?,
            Change::Delete(keys) => {
                for key in keys {
                    match self.state.keys.remove(key) {
                        Some(row) => {
                            self.state.rows.remove(&row);
                            self.state.written.insert(key.clone(), self.version);
                        }
                        None => passed_over += 1,
                    }
                }
            }
            Change::DeleteRows(identities) => {
                for identity in identities {
                    let row = table.row_of(*identity);
                    match row.and_then(|row| self.state.rows.remove(&row)) {
                        Some(row) => {
                            if let Some(key) = table.key_of(&row) {
                                self.state.keys.remove(&key);
                                self.state.written.insert(key, self.version);
                            }
                        }
                        None => passed_over += 1,
                    }
                }
            }
        }
        Ok(passed_over)
    }

    fn insert(
        &mut self,
        table: &TableModel,
        rows: &[Row],
        on_conflict: OnConflict,
        passed_over: &mut u64,
    ) -> Result<(), Duplicate> {
        for row in rows {
            let id = (self.version, self.came);
            self.came += 1;
            if let Some(key) = table.key_of(row) {
                match (self.state.keys.get(&key), on_conflict) {
                    (Some(_), OnConflict::Error) => return Err(Duplicate),
                    (Some(_), OnConflict::Nothing) => {
                        *passed_over += 1;
                        continue;
                    }
                    (Some(other), OnConflict::Replace) => {
                        self.state.rows.remove(other);
                    }
                    (None, _) => {}
                }
                self.state.keys.insert(key.clone(), id);
                self.state.written.insert(key, self.version);
            }
            self.state.rows.insert(id, Arc::new(row.clone()));
        }
        Ok(())
    }
}

impl TableModel {
    /// Takes the rows that came at a version for seen, with their places for ordinals: so they are given to the rows of
    /// a batch that were not staged.
    pub fn take_places_for_ordinals(&mut self, version: u64) {
        let came = self.states[version as usize].rows.range((version, 0)..).map(|(row, _)| (*row, row.1));
        self.ordinals.extend(came);
    }

    /// The values of a row's key; `None` in a table without one.
    pub fn key_of(&self, row: &Row) -> Option<Row> {
        (self.kind != KeyKind::None).then(|| row[..self.kind.columns()].to_vec())
    }

    /// The rows at a version, in the order in which they came.
    pub fn rows(&self, version: u64) -> impl Iterator<Item = &Row> {
        self.states[version as usize].rows.values().map(Arc::as_ref)
    }

    /// The rows at a version in the order of their values: what two databases have in common.
    pub fn contents(&self, version: u64) -> Vec<Row> {
        let mut rows: Vec<Row> = self.rows(version).cloned().collect();
        rows.sort();
        rows
    }

    /// Whether a key is there at a version.
    pub fn has_key(&self, version: u64, key: &Row) -> bool {
        self.states[version as usize].keys.contains_key(key)
    }

    /// The row with a key at a version.
    pub fn row_with(&self, version: u64, key: &Row) -> Option<&Row> {
        let state = &self.states[version as usize];
        state.keys.get(key).and_then(|row| state.rows.get(row)).map(Arc::as_ref)
    }

    /// Identities of rows that were ever seen.
    pub fn known(&self) -> Vec<(u64, u64)> {
        let mut known: Vec<(u64, u64)> = self.ordinals.iter().map(|(row, &ordinal)| (row.0, ordinal)).collect();
        known.sort_unstable();
        known
    }

    fn newest(&self) -> &State {
        &self.states[self.states.len() - 1]
    }

    /// The newest version above one and through another at which a row went.
    pub fn killed_between(&self, above: u64, through: u64) -> Option<u64> {
        let rows = |version: u64| &self.states[version as usize].rows;
        let is_killed = |version: &u64| rows(version - 1).keys().any(|row| !rows(*version).contains_key(row));
        (above + 1..=through).rev().find(is_killed)
    }

    fn row_of(&self, identity: (u64, u64)) -> Option<RowId> {
        self.ordinals.iter().find(|(row, ordinal)| (row.0, **ordinal) == identity).map(|(row, _)| *row)
    }

    fn is_written_since(&self, change: &Change, at: u64) -> bool {
        let keys: Vec<Row> = match change {
            Change::Insert(rows) | Change::InsertNew(rows) | Change::Upsert(rows) => {
                rows.iter().filter_map(|row| self.key_of(row)).collect()
            }
            Change::Delete(keys) => keys.clone(),
            // Whoever has computed rows from one that is gone must look again.
            Change::DeleteRows(identities) => {
                let is_live = |row: RowId| self.newest().rows.contains_key(&row);
                return identities.iter().any(|identity| !self.row_of(*identity).is_some_and(is_live));
            }
            Change::Load(_) => Vec::new(),
        };
        keys.iter().any(|key| self.newest().written.get(key).is_some_and(|written| *written > at))
    }

    /// Compares what a snapshot of a version has with the rows of then: values, versions, and ordinals, which never
    /// change once they were seen. Says what differs.
    pub fn compare(&mut self, version: u64, found: &[FoundRow]) -> Result<(), String> {
        let state = Arc::clone(&self.states[version as usize]);
        if self.kind != KeyKind::None {
            // K1.
            let mut keys = HashSet::new();
            if let Some(row) = found.iter().find(|row| !keys.insert(self.key_of(&row.row))) {
                return Err(format!("version {version} has a key twice: {row:?}"));
            }
        }
        let mut expected = state.rows.iter();
        let mut found = found.iter();
        loop {
            match (expected.next(), found.next()) {
                (None, None) => return Ok(()),
                (Some((id, row)), Some(found)) if id.0 == found.version && **row == found.row => {
                    let ordinal = *self.ordinals.entry(*id).or_insert(found.ordinal);
                    if ordinal != found.ordinal {
                        return Err(format!("version {version}: {found:?} had the ordinal {ordinal}"));
                    }
                }
                (expected, found) => {
                    return Err(format!("version {version} has {found:?} in the place of {expected:?}"));
                }
            }
        }
    }
}
