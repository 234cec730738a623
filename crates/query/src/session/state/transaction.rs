//! A session's transaction: one snapshot to read, one batch to write.
//!
//! Invariants:
//! - Everything between BEGIN and COMMIT reads the version that BEGIN pinned, and the transaction's own rows above it,
//!   by its own definitions.
//! - COMMIT submits one batch; until then nobody else sees anything of it, and ROLLBACK leaves nothing.
//! - After an error the transaction only ends, or goes back to a savepoint: what it read or wrote since no longer means
//!   what its client thinks.
//! - ROLLBACK TO leaves exactly what SAVEPOINT found: rows, definitions, settings, savepoints before it, and itself.
//! - Rows wait as they came. ALTER TABLE after them leaves them so, and they are read and committed by the definition
//!   that it makes.
//! - Rows that change others wait unseen: a table that has such is not read again before COMMIT.
//! - What waits is bounded: rows, the columns that they get when they are read, and definitions.

use crate::rights::Authoriser;
use crate::session::state::definitions::{Definer, PendingDefinitions, in_log};
use crate::settings::Settings;
use alluvia_catalog::{Catalog, Change, TableEntry};
use alluvia_snapshot::{NewBatch, NewRows, Pin, RowChange};
use alluvia_types::{ColumnId, Error, ErrorKind, Result, TableId, Version};
use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where a session stands.
#[derive(Debug, Default)]
pub(crate) enum Transaction {
    /// Each statement is a transaction of its own.
    #[default]
    None,
    /// Between BEGIN and COMMIT.
    Open(Box<OpenTransaction>),
    /// An error came; only ROLLBACK (or COMMIT, which then rolls back) and ROLLBACK TO are taken. It holds what
    /// ROLLBACK TO can go back to.
    Failed(Box<OpenTransaction>),
}

/// An open transaction.
#[derive(Debug)]
pub(crate) struct OpenTransaction {
    /// What it reads.
    pub(crate) version: Version,
    /// Keeps that version readable.
    pin: Arc<Pin>,
    /// The session's settings at BEGIN: SET is undone by ROLLBACK.
    pub(crate) settings_before: Settings,
    /// Settings that SET LOCAL changed, with what they were.
    pub(crate) locals: Vec<(&'static str, Settings)>,
    tables: BTreeMap<TableId, PendingRows>,
    definitions: PendingDefinitions,
    /// What is taken of the sequences of tables that it makes.
    sequences: BTreeMap<(TableId, ColumnId), Change>,
    bytes: u64,
    savepoints: Vec<Savepoint>,
    /// Nobody went on with it in time: its COMMIT is an error.
    pub(crate) is_abandoned: bool,
    /// It has held more than words about itself: from then on it cannot be made one that writes.
    pub(crate) has_run: bool,
}

/// A place in a transaction. Rows and changes are only ever added, so how many there were says which.
#[derive(Debug)]
struct Savepoint {
    name: String,
    /// How many batches of rows waited, and by which definition.
    tables: BTreeMap<TableId, (usize, Arc<TableEntry>)>,
    definitions: usize,
    bytes: u64,
    outside: Outside,
}

/// What a savepoint restores beside rows.
#[derive(Clone, Debug)]
pub(crate) struct Outside {
    /// The session's settings.
    pub(crate) settings: Settings,
    /// What SET LOCAL had changed by then.
    pub(crate) locals: Vec<(&'static str, Settings)>,
    /// How many cursors the session had ever declared.
    pub(crate) cursors: u64,
}

/// Savepoints that a transaction may have. Some drivers make one before each statement and never release them.
const SAVEPOINTS_MAX: usize = 1 << 16;

/// What a column of a definition that waits is taken to hold: it is kept with each change, and among what the
/// transaction sees.
const COLUMN_BYTES: u64 = 256;

/// Rows of one table that wait for COMMIT.
#[derive(Debug)]
struct PendingRows {
    /// The definition that they are read by: the one they were checked against, or what the transaction has made of it
    /// since.
    entry: Arc<TableEntry>,
    batches: Vec<WaitingRows>,
}

/// Rows that wait, and what they do to those that are there.
#[derive(Debug)]
struct WaitingRows {
    rows: RecordBatch,
    change: RowChange,
    computed_at: Option<Version>,
}

impl OpenTransaction {
    /// A transaction that reads the version that is pinned.
    pub(crate) fn new(pin: Arc<Pin>, settings_before: Settings) -> OpenTransaction {
        OpenTransaction {
            version: pin.version(),
            pin,
            settings_before,
            locals: Vec::new(),
            tables: BTreeMap::new(),
            definitions: PendingDefinitions::default(),
            sequences: BTreeMap::new(),
            bytes: 0,
            savepoints: Vec::new(),
            is_abandoned: false,
            has_run: false,
        }
    }

    /// What is left of a transaction that nobody went on with: the way back to the settings before it.
    pub(crate) fn abandoned(self) -> OpenTransaction {
        OpenTransaction { is_abandoned: true, ..OpenTransaction::new(self.pin, self.settings_before) }
    }

    /// Adds rows of one table, which come as `change` says. `bytes_max` bounds the whole transaction.
    pub(crate) fn push(
        &mut self,
        entry: &Arc<TableEntry>,
        change: RowChange,
        batches: Vec<RecordBatch>,
        bytes_max: u64,
    ) -> Result<()> {
        if change == RowChange::InsertNew {
            // How many of them are passed over is known at COMMIT, and their statement would have to tell it.
            return Err(Error::new(
                ErrorKind::NotSupported,
                "ON CONFLICT DO NOTHING inside a transaction is not supported",
            )
            .with_hint("COMMIT first; a table's on_conflict = 'nothing' is the same"));
        }
        self.push_all(
            entry,
            vec![NewRows { change, ..NewRows::insert(entry.def.id, entry.changed_at, batches) }],
            bytes_max,
        )
    }

    /// Adds all that a statement changes of one table.
    pub(crate) fn push_all(&mut self, entry: &Arc<TableEntry>, changes: Vec<NewRows>, bytes_max: u64) -> Result<()> {
        let batches = changes.iter().flat_map(|rows| &rows.batches);
        let added: usize = batches.map(RecordBatch::get_array_memory_size).sum();
        let bytes = self.grown(added as u64, bytes_max)?;
        let pending = self
            .tables
            .entry(entry.def.id)
            .or_insert_with(|| PendingRows { entry: Arc::clone(entry), batches: Vec::new() });
        if pending.entry.changed_at != entry.changed_at {
            return Err(changed(&entry.def.name));
        }
        for NewRows { batches, change, computed_at, .. } in changes {
            pending.batches.extend(batches.into_iter().map(|rows| WaitingRows { rows, change, computed_at }));
        }
        self.bytes = bytes;
        Ok(())
    }

    /// What it holds with so many bytes more, if it may.
    fn grown(&self, added: u64, bytes_max: u64) -> Result<u64> {
        let bytes = self.bytes.saturating_add(added);
        if bytes <= bytes_max {
            return Ok(bytes);
        }
        Err(Error::new(
            ErrorKind::OutOfMemory,
            format!("the transaction holds {bytes} bytes of rows and definitions, and {bytes_max} is the most"),
        )
        .with_hint("commit more often, or load files with COPY outside of a transaction"))
    }

    /// The rows that a statement of the transaction sees beside the snapshot, of the tables that it reads.
    pub(crate) fn pending(
        &self,
        catalog: &Catalog,
        reads: impl Fn(&TableId) -> bool,
    ) -> Result<BTreeMap<TableId, Vec<RecordBatch>>> {
        self.check_current(catalog)?;
        let read = self.kept().filter(|kept| reads(kept.0));
        read.map(|(table, rows)| Ok((*table, rows.readable()?))).collect()
    }

    /// Whether rows of the table wait.
    pub(crate) fn has_rows(&self, catalog: &Catalog, table: TableId) -> Result<bool> {
        self.check_current(catalog)?;
        Ok(self.kept().any(|(known, _)| *known == table))
    }

    /// Refuses where another session has changed a table that rows wait for.
    fn check_current(&self, catalog: &Catalog) -> Result<()> {
        let is_other = |(table, rows): &(&TableId, &PendingRows)| {
            catalog.by_id(**table).is_none_or(|entry| entry.changed_at != rows.entry.changed_at)
        };
        match self.kept().find(is_other) {
            Some((_, rows)) => Err(changed(&rows.entry.def.name)),
            None => Ok(()),
        }
    }

    /// Rows of the tables that the transaction has not dropped.
    fn kept(&self) -> impl Iterator<Item = (&TableId, &PendingRows)> {
        self.tables.iter().filter(|(table, _)| !self.definitions.has_dropped(**table))
    }

    /// The definitions that the transaction sees; `newest` are the newest visible ones.
    pub(crate) fn definitions(&mut self, newest: &Arc<Catalog>) -> Result<Arc<Catalog>> {
        self.definitions.over(newest)
    }

    /// Whether it has changed any.
    pub(crate) fn has_own_definitions(&self) -> bool {
        self.definitions.len() > 0
    }

    /// Adds changes of definitions by the statement of `definer`, under a version that waits. Rows follow the
    /// definition of their table. `bytes_max` bounds the whole transaction.
    pub(crate) fn change(
        &mut self,
        newest: &Arc<Catalog>,
        version: Version,
        changes: Vec<Change>,
        definer: Definer,
        bytes_max: u64,
    ) -> Result<()> {
        let bytes = self.grown(changes.iter().map(|change| self.bytes_of(change)).sum(), bytes_max)?;
        let before = self.definitions.over(newest)?;
        let after = self.definitions.push(newest, version, changes, definer)?;
        for (table, rows) in &mut self.tables {
            let Some(entry) = after.by_id(*table).filter(|entry| entry.changed_at == version) else { continue };
            if before.by_id(*table).is_none_or(|was| was.changed_at != rows.entry.changed_at) {
                return Err(changed(&rows.entry.def.name));
            }
            rows.entry = Arc::clone(entry);
        }
        self.bytes = bytes;
        Ok(())
    }

    /// What a change is taken to hold: its definition, and the columns that it adds to rows that wait.
    fn bytes_of(&self, change: &Change) -> u64 {
        match change {
            Change::CreateTable { def } => COLUMN_BYTES * (1 + def.columns.len() as u64),
            Change::AlterTable { def, .. } => {
                let of_rows = self.tables.get(&def.id).map_or(0, |rows| rows.bytes_added(&def.storage_schema()));
                of_rows.saturating_add(COLUMN_BYTES * (1 + def.columns.len() as u64))
            }
            Change::DropTable { .. } | Change::Rights { .. } | Change::Sequence { .. } => COLUMN_BYTES,
        }
    }

    /// Its COMMIT says what is taken of a sequence of a table that it makes; what is taken stays so.
    pub(crate) fn take_sequence(&mut self, change: Change) {
        if let Change::Sequence { table, column, .. } = change {
            self.sequences.insert((table, column), change);
        }
    }

    /// Savepoints that there are.
    pub(crate) fn savepoints(&self) -> usize {
        self.savepoints.len()
    }

    /// SAVEPOINT. One of the same name stays, and is found again once this one is released.
    pub(crate) fn save(&mut self, name: String, settings: Settings, cursors: u64) -> Result<()> {
        if self.savepoints.len() >= SAVEPOINTS_MAX {
            return Err(Error::new(ErrorKind::Busy, format!("the transaction has {SAVEPOINTS_MAX} savepoints"))
                .with_hint("RELEASE those that are done with"));
        }
        let place = |(table, rows): (&TableId, &PendingRows)| (*table, (rows.batches.len(), Arc::clone(&rows.entry)));
        let tables = self.tables.iter().map(place).collect();
        let outside = Outside { settings, locals: self.locals.clone(), cursors };
        let (definitions, bytes) = (self.definitions.len(), self.bytes);
        self.savepoints.push(Savepoint { name, tables, definitions, bytes, outside });
        Ok(())
    }

    /// ROLLBACK TO: what came after the savepoint is gone, later savepoints included.
    pub(crate) fn roll_back_to(&mut self, name: &str) -> Result<Outside> {
        let at = self.savepoint(name)?;
        self.savepoints.truncate(at + 1);
        self.drop_unsaved();
        let outside = self.savepoints[at].outside.clone();
        self.locals.clone_from(&outside.locals);
        Ok(outside)
    }

    /// RELEASE: the savepoint and those after it are forgotten, and what came after it stays.
    pub(crate) fn release(&mut self, name: &str) -> Result<()> {
        let at = self.savepoint(name)?;
        self.savepoints.truncate(at);
        Ok(())
    }

    fn savepoint(&self, name: &str) -> Result<usize> {
        self.savepoints.iter().rposition(|savepoint| savepoint.name == name).ok_or_else(|| {
            Error::new(ErrorKind::UndefinedSavepoint, format!("there is no savepoint {name} in the transaction"))
                .with_hint("SAVEPOINT makes one; RELEASE, and ROLLBACK TO an earlier one, end it")
        })
    }

    /// Drops the rows and definitions that no COMMIT can take any more: those after the last savepoint, or all.
    pub(crate) fn drop_unsaved(&mut self) {
        let Some(last) = self.savepoints.last() else {
            self.tables.clear();
            self.definitions.truncate(0);
            self.bytes = 0;
            return;
        };
        self.definitions.truncate(last.definitions);
        self.tables.retain(|table, rows| match last.tables.get(table) {
            Some((batches, entry)) => {
                rows.batches.truncate(*batches);
                rows.entry = Arc::clone(entry);
                true
            }
            None => false,
        });
        self.bytes = last.bytes;
    }

    /// Refuses what may not be changed any more by who has changed it, by the rights of now.
    pub(crate) fn check_rights(&self, authoriser: &Authoriser) -> Result<()> {
        self.definitions.check_rights(authoriser)
    }

    /// What COMMIT submits, and the statements that have changed definitions.
    pub(crate) fn into_batch(self) -> Result<(NewBatch, Vec<Definer>)> {
        let new_rows = |(table, pending): (&TableId, &PendingRows)| pending.new_rows(*table);
        let rows = self.kept().map(new_rows).collect::<Result<Vec<_>>>()?.concat();
        let (mut changes, definers) = self.definitions.into_parts();
        let made = changes.iter().filter_map(|change| match change {
            Change::CreateTable { def } => Some(def.id),
            _ => None,
        });
        let made: Vec<TableId> = made.collect();
        changes.extend(
            self.sequences.into_iter().filter(|((table, _), _)| made.contains(table)).map(|(_, change)| change),
        );
        Ok((NewBatch { changes, rows, ..NewBatch::default() }, definers))
    }
}

impl PendingRows {
    /// What the columns that these rows do not have yet come to, all of them NULL, in the batches that a statement
    /// reads.
    fn bytes_added(&self, schema: &Schema) -> u64 {
        let known = self.entry.storage_schema();
        let added = schema.fields().iter().filter(|field| known.column_with_name(field.name()).is_none());
        let width: u64 = added.map(|field| width(field.data_type())).sum();
        let rows: u64 = self.batches.iter().map(|batch| batch.rows.num_rows() as u64).sum();
        rows.saturating_mul(width)
    }

    /// The rows in the storage schema of the definition that they are read by, if nothing but them is read otherwise.
    fn readable(&self) -> Result<Vec<RecordBatch>> {
        if self.batches.iter().any(|waiting| waiting.change != RowChange::Insert) {
            let message = format!(
                "reading table {}, whose rows the transaction has changed, is not supported",
                self.entry.def.name
            );
            return Err(
                Error::new(ErrorKind::NotSupported, message).with_hint("COMMIT first, or read it before it is changed")
            );
        }
        self.batches.iter().map(|waiting| self.fitted(waiting)).collect()
    }

    /// What COMMIT submits of the table: rows that do the same together, in the order in which they came.
    fn new_rows(&self, table: TableId) -> Result<Vec<NewRows>> {
        let checked_at = in_log(self.entry.changed_at);
        let mut all: Vec<NewRows> = Vec::new();
        for waiting in &self.batches {
            let &WaitingRows { change, computed_at, .. } = waiting;
            let rows = self.fitted(waiting)?;
            match all.last_mut().filter(|last| (last.change, last.computed_at) == (change, computed_at)) {
                Some(last) => last.batches.push(rows),
                None => all.push(NewRows { change, computed_at, ..NewRows::insert(table, checked_at, vec![rows]) }),
            }
        }
        Ok(all)
    }

    /// Rows in the storage schema of the definition that they are read by. What tells rows that go has its own.
    fn fitted(&self, waiting: &WaitingRows) -> Result<RecordBatch> {
        match waiting.change {
            RowChange::Insert | RowChange::InsertNew | RowChange::Upsert => {
                fitted(&waiting.rows, self.entry.storage_schema())
            }
            RowChange::Delete | RowChange::DeleteRows => Ok(waiting.rows.clone()),
        }
    }
}

/// Rows with the columns of `schema`: those that were added since they came are NULL, and those that were dropped are
/// gone. A storage name stands for one column for ever.
fn fitted(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let (known, wanted) = (batch.schema_ref().fields(), schema.fields());
    if known.len() == wanted.len() && known.iter().zip(wanted).all(|(known, wanted)| known.name() == wanted.name()) {
        return Ok(batch.clone());
    }
    let column = |field: &FieldRef| match batch.schema_ref().column_with_name(field.name()) {
        Some((at, known)) => (Arc::new(known.clone()), Arc::clone(batch.column(at))),
        None => (Arc::clone(field), new_null_array(field.data_type(), batch.num_rows())),
    };
    let (fields, columns): (Vec<FieldRef>, Vec<ArrayRef>) = wanted.iter().map(column).unzip();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .map_err(|error| Error::internal(format!("rows that wait for COMMIT: {error}")))
}

/// Bytes of a NULL in a column: a value's, or a view's, and what says that it is none.
fn width(data_type: &DataType) -> u64 {
    match data_type {
        DataType::Boolean => 1,
        other => 1 + other.primitive_width().unwrap_or(size_of::<u128>()) as u64,
    }
}

fn changed(table: &str) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!("table {table} was changed by another session since this transaction wrote to it"),
    )
    .with_hint("roll back and try again")
}
