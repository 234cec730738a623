//! A session's transaction: what it reads, and one batch to write.
//!
//! Invariants:
//! - At READ COMMITTED each statement reads the newest visible version that it asks for. At the other levels everything between
//!   BEGIN and COMMIT reads the version that BEGIN pinned. Above that it reads the transaction's own rows, by its own definitions.
//! - COMMIT submits one batch; until then nobody else sees anything of it, and ROLLBACK leaves nothing.
//! - After an error the transaction only ends, or goes back to a savepoint: what it read or wrote since no longer means
//!   what its client thinks.
//! - ROLLBACK TO leaves exactly what SAVEPOINT found: rows, definitions, settings, savepoints before it, and itself.
//! - A statement sees what those before it have changed ([`alluvia_rows`]), and nothing that COMMIT would not make.
//! - A table that it has read and drops has no row that it has not read, or its COMMIT is refused.
//! - What waits is bounded: rows, what is known of their keys, the columns that they get when they are read, definitions, and events.

use crate::engine::sequences::SharedBlock;
use crate::session::state::definitions::{Definer, PendingDefinitions};
use alluvia_catalog::authoriser::Authoriser;
use alluvia_catalog::{Catalog, Change, TableEntry};
use alluvia_constraints::{Event, Events};
use alluvia_rows::{Killed, PendingRows};
use alluvia_settings::Settings;
use alluvia_snapshot::{NewBatch, NewRows, Pin};
use alluvia_space::key_code::KeyCode;
use alluvia_syntax::statement::Isolation;
use alluvia_types::{ColumnId, Error, ErrorKind, Result, TableId, Version};
use arrow::record_batch::RecordBatch;
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
    /// What it sees of others.
    isolation: Isolation,
    /// Keeps the version readable that all its statements read; `None` where each has its own, or none has run.
    pin: Option<Arc<Pin>>,
    /// No statement reads below: what it has changed was settled by what was there then.
    least: Version,
    /// The session's settings at BEGIN: SET is undone by ROLLBACK.
    pub(crate) settings_before: Settings,
    /// Settings that SET LOCAL changed, with what they were.
    pub(crate) locals: Vec<(&'static str, Settings)>,
    tables: BTreeMap<TableId, PendingRows>,
    /// The tables of which its statements have read rows, and the version at which the first of them did.
    read: BTreeMap<TableId, Version>,
    /// Tables of which no row may have been written since, so that constraints hold.
    unwritten: BTreeMap<TableId, Version>,
    /// What its constraints are still to look at.
    pub(crate) events: Events,
    /// It is of one statement, which is outside of a transaction for everybody else.
    pub(crate) is_alone: bool,
    definitions: PendingDefinitions,
    /// What is taken of the sequences of tables that it makes, and of columns that it has numbered.
    sequences: BTreeMap<(TableId, ColumnId), Change>,
    /// Sequences that it has begun anew, as far as they are given: its own until COMMIT.
    restarted: BTreeMap<(TableId, ColumnId), SharedBlock>,
    bytes: u64,
    savepoints: Vec<Savepoint>,
    /// Nobody went on with it in time: its COMMIT is an error.
    pub(crate) is_abandoned: bool,
    /// It has held more than words about itself: from then on it cannot be made one that writes.
    pub(crate) has_run: bool,
}

/// A place in a transaction. Rows and changes are only ever added, so how many there were says which; events are taken, too.
#[derive(Debug)]
struct Savepoint {
    name: String,
    /// How many changes of rows waited, and by which definition.
    tables: BTreeMap<TableId, (usize, Arc<TableEntry>)>,
    definitions: usize,
    events: Events,
    bytes: u64,
    outside: Outside,
}

/// What a savepoint finds beside the transaction's changes.
#[derive(Debug)]
pub(crate) struct Found {
    /// As [`Outside::settings`].
    pub(crate) settings: Settings,
    /// As [`Outside::cursors`].
    pub(crate) cursors: u64,
    /// As [`Outside::temporary`].
    pub(crate) temporary: usize,
    /// As [`Outside::locks`].
    pub(crate) locks: usize,
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
    /// How many changes of temporary tables there were.
    pub(crate) temporary: usize,
    /// How many locks the transaction held.
    pub(crate) locks: usize,
}

/// Savepoints that a transaction may have. Some drivers make one before each statement and never release them.
const SAVEPOINTS_MAX: usize = 1 << 16;

/// What a column of a definition that waits is taken to hold: it is kept with each change, and among what the
/// transaction sees.
const COLUMN_BYTES: u64 = 256;

impl OpenTransaction {
    /// A transaction that has read nothing.
    pub(crate) fn new(isolation: Isolation, settings_before: Settings) -> OpenTransaction {
        OpenTransaction {
            isolation,
            pin: None,
            least: Version(0),
            settings_before,
            locals: Vec::new(),
            tables: BTreeMap::new(),
            read: BTreeMap::new(),
            unwritten: BTreeMap::new(),
            events: Events::default(),
            is_alone: false,
            definitions: PendingDefinitions::default(),
            sequences: BTreeMap::new(),
            restarted: BTreeMap::new(),
            bytes: 0,
            savepoints: Vec::new(),
            is_abandoned: false,
            has_run: false,
        }
    }

    /// What is left of a transaction that nobody went on with: the way back to the settings before it.
    pub(crate) fn abandoned(self) -> OpenTransaction {
        OpenTransaction { is_abandoned: true, ..OpenTransaction::new(self.isolation, self.settings_before) }
    }

    /// What it sees of others.
    pub(crate) fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// It is to see so much of others; nothing of it has run.
    pub(crate) fn isolate(&mut self, isolation: Isolation) {
        (self.isolation, self.pin) = (isolation, None);
    }

    /// The version that all its statements read; `None` where each has its own.
    pub(crate) fn version(&self) -> Option<Version> {
        self.pin.as_ref().map(|pin| pin.version())
    }

    /// From now on its statements read at least this version.
    pub(crate) fn reads_from(&mut self, version: Version) {
        self.least = self.least.max(version);
    }

    /// What its statements read at least.
    pub(crate) fn least(&self) -> Version {
        self.least
    }

    /// Whether each of its statements sees what others have committed before it.
    pub(crate) fn sees_commits(&self) -> bool {
        self.isolation == Isolation::ReadCommitted
    }

    /// Whether a version is to be pinned for all its statements.
    pub(crate) fn wants_pin(&self) -> bool {
        self.isolation > Isolation::ReadCommitted && self.pin.is_none()
    }

    /// All its statements read this version.
    pub(crate) fn pin(&mut self, pin: Arc<Pin>) {
        self.pin = Some(pin);
    }

    /// Adds what a statement changes of one table, for which it is settled which of its rows come. `bytes_max` bounds the
    /// whole transaction.
    pub(crate) fn push(&mut self, entry: &Arc<TableEntry>, changes: Vec<NewRows>, bytes_max: u64) -> Result<()> {
        let new = || PendingRows::new(Arc::clone(entry));
        let (bytes, added) = {
            let pending = self.tables.entry(entry.def.id).or_insert_with(new);
            if pending.entry.changed_at != entry.changed_at {
                return Err(changed(&entry.def.name));
            }
            let added = pending.added(changes)?;
            (self.grown(added.bytes, bytes_max)?, added)
        };
        if let Some(pending) = self.tables.get_mut(&entry.def.id) {
            pending.push(added);
            self.bytes = bytes;
        }
        Ok(())
    }

    /// Its constraints are to look at more.
    pub(crate) fn note(&mut self, events: Vec<Event>, bytes_max: u64) -> Result<()> {
        self.events.extend(events);
        self.grown(0, bytes_max).map(|_| ())
    }

    /// What it holds beside events with so many bytes more, if it may.
    fn grown(&self, added: u64, bytes_max: u64) -> Result<u64> {
        let held = self.bytes.saturating_add(added);
        let bytes = held.saturating_add(self.events.bytes());
        if bytes <= bytes_max {
            return Ok(held);
        }
        Err(Error::new(
            ErrorKind::OutOfMemory,
            format!("the transaction holds {bytes} bytes of rows and definitions, and {bytes_max} is the most"),
        )
        .with_hint("commit more often, or load files with COPY outside of a transaction"))
    }

    /// The rows that a statement of the transaction sees beside the snapshot, of the tables that it reads and of which the
    /// transaction has changed rows.
    pub(crate) fn pending(
        &self,
        catalog: &Catalog,
        reads: impl Fn(&TableId) -> bool,
    ) -> Result<BTreeMap<TableId, Vec<RecordBatch>>> {
        self.check_current(catalog)?;
        let read = self.kept().filter(|(table, rows)| reads(table) && !rows.is_empty());
        read.map(|(table, rows)| Ok((*table, rows.readable()?))).collect()
    }

    /// The rows of the snapshot that are gone for its statements, of the tables that one reads.
    pub(crate) fn killed(&self, reads: impl Fn(&TableId) -> bool) -> Result<BTreeMap<TableId, Killed>> {
        let read = self.kept().filter(|(table, _)| reads(table));
        read.filter_map(|(table, rows)| Some(rows.killed().transpose()?.map(|killed| (*table, killed)))).collect()
    }

    /// Whether a row of a table has a key by what waits; `None` if nothing was changed under it.
    pub(crate) fn has_key(&self, table: TableId, code: KeyCode) -> Option<bool> {
        self.tables.get(&table)?.has_key(code)
    }

    /// The own row that has a key; as [`PendingRows::row`].
    pub(crate) fn own_row(&self, table: TableId, code: KeyCode) -> Result<Option<Option<RecordBatch>>> {
        self.tables.get(&table).map_or(Ok(None), |pending| pending.row(code))
    }

    /// Whether changes of the table's rows wait.
    pub(crate) fn has_changes(&self, catalog: &Catalog, table: TableId) -> Result<bool> {
        self.check_current(catalog)?;
        Ok(self.kept().any(|(known, rows)| *known == table && !rows.is_empty()))
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
    pub(crate) fn kept(&self) -> impl Iterator<Item = (&TableId, &PendingRows)> {
        self.tables.iter().filter(|(table, _)| !self.definitions.has_dropped(**table))
    }

    /// A statement of it reads these tables at a version.
    pub(crate) fn has_read(&mut self, tables: &[TableId], version: Version) {
        for table in tables {
            self.read.entry(*table).or_insert(version);
        }
    }

    /// Its COMMIT is refused where a row of a table was written since.
    pub(crate) fn rests_on(&mut self, table: TableId, version: Version) {
        self.unwritten.entry(table).or_insert(version);
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
            Change::CreateView { def } | Change::AlterView { def, .. } => {
                COLUMN_BYTES * (1 + def.columns.len() as u64) + def.sql.len() as u64
            }
            Change::DropTable { .. }
            | Change::DropView { .. }
            | Change::DropRoutine { .. }
            | Change::CreateSchema { .. }
            | Change::DropSchema { .. }
            | Change::RenameSchema { .. }
            | Change::Rights { .. }
            | Change::Sequence { .. } => COLUMN_BYTES,
            Change::PutRoutine { def, .. } => COLUMN_BYTES + def.sql.len() as u64,
            Change::Comment { text, .. } => COLUMN_BYTES + text.as_ref().map_or(0, String::len) as u64,
        }
    }

    /// Its COMMIT says what is taken of a sequence of a table that it makes; what is taken stays so.
    pub(crate) fn take_sequence(&mut self, change: Change) {
        if let Change::Sequence { table, column, .. } = change {
            self.sequences.insert((table, column), change);
        }
    }

    /// It begins a sequence anew, as one of its changes says; who takes values of it gets them from the block.
    pub(crate) fn restart(&mut self, sequence: (TableId, ColumnId)) {
        self.restarted.insert(sequence, SharedBlock::default());
    }

    /// The block of a sequence that it has begun anew, and has not taken that back.
    pub(crate) fn restarted_block(&self, sequence: (TableId, ColumnId)) -> Option<SharedBlock> {
        self.restarted.get(&sequence).filter(|_| self.definitions.has_restarted(sequence)).cloned()
    }

    /// The sequences that it has begun anew.
    pub(crate) fn restarts(&self) -> Vec<(TableId, ColumnId)> {
        self.restarted.keys().copied().filter(|sequence| self.definitions.has_restarted(*sequence)).collect()
    }

    /// Savepoints that there are.
    pub(crate) fn savepoints(&self) -> usize {
        self.savepoints.len()
    }

    /// How many locks it held at its last savepoint.
    pub(crate) fn locks_saved(&self) -> usize {
        self.savepoints.last().map_or(0, |savepoint| savepoint.outside.locks)
    }

    /// SAVEPOINT. One of the same name stays, and is found again once this one is released.
    pub(crate) fn save(&mut self, name: String, found: Found) -> Result<()> {
        if self.savepoints.len() >= SAVEPOINTS_MAX {
            return Err(Error::new(ErrorKind::Busy, format!("the transaction has {SAVEPOINTS_MAX} savepoints"))
                .with_hint("RELEASE those that are done with"));
        }
        let place = |(table, rows): (&TableId, &PendingRows)| (*table, (rows.len(), Arc::clone(&rows.entry)));
        let tables = self.tables.iter().map(place).collect();
        let Found { settings, cursors, temporary, locks } = found;
        let outside = Outside { settings, locals: self.locals.clone(), cursors, temporary, locks };
        let (definitions, events, bytes) = (self.definitions.len(), self.events.clone(), self.bytes);
        self.savepoints.push(Savepoint { name, tables, definitions, events, bytes, outside });
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
            self.events = Events::default();
            self.bytes = 0;
            return;
        };
        self.definitions.truncate(last.definitions);
        self.events = last.events.clone();
        self.tables.retain(|table, rows| match last.tables.get(table) {
            Some((changes, entry)) => {
                rows.truncate(*changes);
                rows.entry = Arc::clone(entry);
                true
            }
            None => false,
        });
        self.bytes = last.bytes;
    }

    /// How many changes of temporary tables stay if it fails now.
    pub(crate) fn temporary_kept(&self) -> usize {
        self.savepoints.last().map_or(0, |last| last.outside.temporary)
    }

    /// Refuses what may not be changed any more by who has changed it, by the rights of now.
    pub(crate) fn check_rights(&self, authoriser: &Authoriser) -> Result<()> {
        self.definitions.check_rights(authoriser)
    }

    /// What COMMIT submits, and the statements that have changed definitions.
    pub(crate) fn into_batch(self) -> Result<(NewBatch, Vec<Definer>)> {
        let new_rows = |(table, pending): (&TableId, &PendingRows)| pending.new_rows(*table);
        let rows = self.kept().map(new_rows).collect::<Result<Vec<_>>>()?.concat();
        // What it has read of a table that it drops is all that is left of it. And what a serializable one has read is as it was:
        // so it could have run whole at the moment of its COMMIT (backward validation; Haerder 1984).
        let is_serial = self.isolation == Isolation::Serializable;
        let kept = self.read.iter().filter(|(table, _)| is_serial || self.definitions.has_dropped(**table));
        let rested = self.unwritten.iter();
        let mut unwritten: Vec<(TableId, Version)> =
            kept.chain(rested).map(|(table, version)| (*table, *version)).collect();
        let given = |sequence| Some((sequence, self.restarted_block(sequence)?.lock().given()?));
        let given: Vec<_> = self.restarts().into_iter().filter_map(given).collect();
        let (mut changes, definers) = self.definitions.into_parts();
        changes.extend(given.into_iter().map(|((table, column), through)| Change::Sequence {
            table,
            column,
            through: Some(through),
            only_after: None,
        }));
        let defined = changes.iter().filter_map(|change| match change {
            Change::CreateTable { def } | Change::AlterTable { def, .. } => Some(def.id),
            _ => None,
        });
        let defined: Vec<TableId> = defined.collect();
        let made = changes.iter().filter_map(|change| match change {
            Change::CreateTable { def } => Some(def.id),
            _ => None,
        });
        let made: Vec<TableId> = made.collect();
        // Of those that it has made itself nobody knows.
        unwritten.retain(|(table, _)| !made.contains(table));
        changes.extend(
            self.sequences.into_iter().filter(|((table, _), _)| defined.contains(table)).map(|(_, change)| change),
        );
        Ok((NewBatch { changes, rows, unwritten, ..NewBatch::default() }, definers))
    }
}

fn changed(table: &str) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!("table {table} was changed by another session since this transaction wrote to it"),
    )
    .with_hint("roll back and try again")
}
