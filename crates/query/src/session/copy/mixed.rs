//! Rows that say what they do: into one batch, in their order.
//!
//! Invariants:
//! - Rows of one key do what they say one after the other (`alluvia_change::fold`). All of a batch is applied, or nothing.
//! - A patch is computed from the newest visible row of its key. Where others have written that key since, the store
//!   refuses the batch, and it is computed again. In a transaction it is computed from what the transaction sees, and
//!   refused at its COMMIT.
//! - Rows that say what they do are in memory until their batch is complete. What merely comes is not.
//! - What a role may not do by a statement, it may not do by rows.
//! - Conditions of the table hold for the rows that are made. What rows lack that come whole they were given before
//!   ([`rules`](crate::session::rules)); a row that a patch makes has NULL there.

use crate::execution::blocking::blocking;
use crate::session::insert::rows::hold;
use crate::session::rules::{Rules, rules_of};
use crate::session::run::Run;
use crate::session::state::failed_transaction;
use crate::session::state::scope::Scope;
use crate::session::state::temporary::is_temporary;
use crate::session::state::transaction::Transaction;
use crate::session::transaction::own_changes::add;
use crate::session::transaction::row_locks::heeds;
use crate::session::transaction::submit::submit;
use alluvia_catalog::TableEntry;
use alluvia_catalog::authoriser::Need;
use alluvia_catalog::rights::Privilege;
use alluvia_change::{MixedRows, OldRows, RunKind, fold, patched_keys};
use alluvia_copy::{CommitMixed, Incoming};
use alluvia_rows::{fitted, is_waiting};
use alluvia_snapshot::{Committed, Durability, NewBatch, NewRows, RowChange, Want};
use alluvia_space::{KeyCode, KeyCoder, OnConflict, RowOp, RowPolicy, TableDef};
use alluvia_types::{Error, ErrorKind, Freshness, Result, Version};
use alluvia_values::errors::not_supported;
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::{cast, concat, filter_record_batch};
use arrow::datatypes::{Field, Schema};
use arrow::error::ArrowError;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// How often a batch is computed while others are in its way.
const TRIES_MAX: u32 = 10;
/// What is waited before the second try; before each further one it is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(1);

/// What rows that merely come do to those that are there.
pub(crate) fn change_of(def: &TableDef, policy: RowPolicy) -> RowChange {
    match policy.op {
        Some(RowOp::Upsert) => RowChange::Upsert,
        _ => RowChange::of(policy.on_conflict_in(def)),
    }
}

/// Refuses a session what its statements might not do, beside inserting.
pub(crate) fn check_rights(scope: &Scope, entry: &TableEntry, policy: RowPolicy) -> Result<()> {
    if policy.on_conflict == Some(OnConflict::Replace) {
        scope.resolver()?.table(Need::Privilege(Privilege::Update), entry)?;
    }
    policy.op.map_or(Ok(()), |op| check_right(scope, entry, op))
}

fn check_right(scope: &Scope, entry: &TableEntry, op: RowOp) -> Result<()> {
    let privilege = match op {
        RowOp::Insert => return Ok(()),
        RowOp::Upsert | RowOp::Patch => Privilege::Update,
        RowOp::Delete => Privilege::Delete,
    };
    scope.resolver()?.table(Need::Privilege(privilege), entry)
}

/// Makes batches of rows that say what they do.
pub(crate) struct MixedWriter {
    scope: Arc<Scope>,
    entry: Arc<TableEntry>,
    policy: RowPolicy,
    rules: Option<Arc<Rules>>,
    durability: Durability,
}

/// The rows that are there, of keys that are patched.
struct Old {
    /// The version that they are of.
    version: Option<Version>,
    rows: RecordBatch,
    /// Which of them has a key.
    places: HashMap<KeyCode, usize>,
}

impl MixedWriter {
    /// For rows of a table, of which this is said.
    pub(crate) fn new(run: &Run, entry: &Arc<TableEntry>, policy: RowPolicy, rules: Option<Arc<Rules>>) -> MixedWriter {
        let (scope, entry) = (Arc::clone(&run.scope), Arc::clone(entry));
        MixedWriter { scope, entry, policy, rules, durability: run.settings.durability }
    }

    /// What the rows do, in the order in which it is applied. Blocks.
    fn runs(&self, batches: &[RecordBatch]) -> Result<Vec<NewRows>> {
        let def = &self.entry.def;
        let operations = Incoming::new(def, self.policy)?.operations;
        let (Some(operations), Some(coder)) = (operations, KeyCoder::new(def)) else {
            return Err(Error::internal("rows of a table without a key say what they do"));
        };
        let mut said = Vec::new();
        for batch in batches {
            said.extend(operations.of_rows(batch)?);
        }
        let (ops, given): (Vec<RowOp>, Vec<Option<String>>) = said.into_iter().unzip();
        for op in [RowOp::Upsert, RowOp::Patch, RowOp::Delete] {
            if ops.contains(&op) {
                check_right(&self.scope, &self.entry, op)?;
            }
        }
        let rows = joined(&self.entry, batches)?;
        let codes = coder.codes(&rows)?;
        let given: Vec<Option<&[u8]>> = given.iter().map(|given| given.as_deref().map(str::as_bytes)).collect();
        let on_conflict = self.policy.on_conflict_in(def);
        let mixed = MixedRows { def, on_conflict, rows: &rows, ops: &ops, given: &given, codes: &codes };
        let old = self.old_rows(&coder, &patched_keys(&ops, &codes))?;
        let runs = fold(&mixed, &OldRows { rows: &old.rows, places: &old.places })?;
        if let Some(rules) = &self.rules {
            let made = runs.iter().filter(|run| run.kind != RunKind::Delete);
            rules.check(made.map(|run| &run.rows))?;
        }
        let new_rows = runs.into_iter().filter(|run| run.rows.num_rows() > 0).map(|run| {
            let (change, computed_at) = match run.kind {
                RunKind::Insert => (RowChange::of(on_conflict), None),
                RunKind::Upsert => (RowChange::Upsert, None),
                RunKind::Computed => (RowChange::Upsert, old.version),
                RunKind::Delete => (RowChange::Delete, None),
            };
            NewRows { change, computed_at, ..NewRows::insert(def.id, self.entry.changed_at, vec![run.rows]) }
        });
        Ok(new_rows.collect())
    }

    /// The rows that have these keys now, and which version that is.
    fn old_rows(&self, coder: &KeyCoder, keys: &[KeyCode]) -> Result<Old> {
        if keys.is_empty() {
            return Ok(Old { version: None, rows: self.no_rows(), places: HashMap::new() });
        }
        if is_temporary(self.entry.def.id) {
            return self.old_rows_of_temporary(coder, keys);
        }
        if self.scope.in_transaction() {
            return self.old_rows_of_own(coder, keys);
        }
        let (unseen, at_least) = {
            let state = self.scope.state();
            (state.unseen, state.seen)
        };
        // What the session wrote with relaxed durability is read, too.
        if let Some(version) = unseen {
            self.scope.engine.read().wait_visible(version)?;
        }
        self.found(at_least, None, coder, keys)
    }

    /// The same in the open transaction: its own rows, and those of its snapshot whose keys it has left alone.
    fn old_rows_of_own(&self, coder: &KeyCoder, keys: &[KeyCode]) -> Result<Old> {
        let table = self.entry.def.id;
        let resolver = self.scope.resolver()?;
        let (version, own, untouched) = {
            let state = self.scope.state();
            let Transaction::Open(open) = &state.transaction else { return Err(failed_transaction()) };
            let mut own = open.pending(resolver.catalog(), |read| *read == table)?;
            let is_untouched = |code: &KeyCode| open.has_key(table, *code).is_none();
            let untouched: Vec<KeyCode> = keys.iter().copied().filter(is_untouched).collect();
            (open.version(), own.remove(&table).unwrap_or_default(), untouched)
        };
        let at_least = version.unwrap_or_else(|| self.scope.state().seen);
        let found = self.found(at_least, version, coder, &untouched)?;
        if own.is_empty() {
            return Ok(found);
        }
        let own = joined(&self.entry, &own)?;
        let mut places: HashMap<KeyCode, usize> = coder.codes(&own)?.into_iter().zip(0..).collect();
        let first = own.num_rows();
        places.extend(found.places.into_iter().map(|(code, place)| (code, first + place)));
        Ok(Old { version: found.version, rows: joined(&self.entry, &[own, found.rows])?, places })
    }

    /// The same of a temporary table.
    fn old_rows_of_temporary(&self, coder: &KeyCoder, keys: &[KeyCode]) -> Result<Old> {
        let wanted: HashSet<KeyCode> = keys.iter().copied().collect();
        let read = self.scope.state().temporary.read(self.entry.def.id).unwrap_or_default();
        let columns = self.entry.def.columns.iter().map(|column| column.storage_name.clone()).collect();
        let mut found = Vec::new();
        for batch in read.batches(read.whole(), columns, false) {
            let batch = fitted(&batch?, self.entry.storage_schema())?;
            let is_wanted =
                coder.codes(&batch)?.iter().map(|code| Some(wanted.contains(code))).collect::<BooleanArray>();
            if is_wanted.true_count() > 0 {
                found.push(filter_record_batch(&batch, &is_wanted).map_err(misfit)?);
            }
        }
        if found.is_empty() {
            return Ok(Old { version: None, rows: self.no_rows(), places: HashMap::new() });
        }
        let rows = joined(&self.entry, &found)?;
        let places = coder.codes(&rows)?.into_iter().zip(0..).collect();
        Ok(Old { version: None, rows, places })
    }

    /// The rows that have these keys in a snapshot: of exactly this version, or of the newest, which has `at_least`.
    fn found(&self, at_least: Version, exactly: Option<Version>, coder: &KeyCoder, keys: &[KeyCode]) -> Result<Old> {
        let def = &self.entry.def;
        let read = self.scope.engine.read();
        let freshness = Freshness::Within(Duration::ZERO);
        let snapshot = read.snapshot(&Want { freshness, at_least, exactly, tables: vec![def.id] })?;
        let table = match snapshot.tables.get(&def.id) {
            Some(table) if table.entry.changed_at == self.entry.changed_at => table,
            // The transaction has made it.
            None if is_waiting(self.entry.changed_at) => {
                return Ok(Old { version: exactly, rows: self.no_rows(), places: HashMap::new() });
            }
            Some(_) if is_waiting(self.entry.changed_at) => {
                return Err(not_supported("op = 'patch' of a table that the transaction has altered")
                    .with_hint("COMMIT first, or send the rows before the table is altered"));
            }
            _ => {
                let message = format!("table {} was changed by another session", def.name);
                return Err(Error::new(ErrorKind::Conflict, message).with_hint("send the rows again"));
            }
        };
        let found = read.find_keys(snapshot.version, table, coder, keys)?;
        let mut places = HashMap::new();
        let mut rows = Vec::new();
        for (code, row) in keys.iter().zip(found) {
            if let Some(row) = row {
                places.insert(*code, rows.len());
                rows.push(row);
            }
        }
        let columns: Vec<usize> = (0..def.columns.len()).collect();
        Ok(Old { version: Some(snapshot.version), rows: table.rows_at(&rows, &columns)?, places })
    }

    fn no_rows(&self) -> RecordBatch {
        RecordBatch::new_empty(Arc::clone(self.entry.storage_schema()))
    }

    fn submit(&self, rows: &[RecordBatch], batch: &NewBatch) -> Result<Committed> {
        let rows = self.runs(rows)?;
        let (producer, heeds) = (batch.producer.clone(), heeds(&self.scope));
        let batch = NewBatch { rows, producer, key: batch.key, heeds, ..NewBatch::default() };
        self.scope.engine.ingest().submit(batch, self.durability)
    }
}

impl CommitMixed for MixedWriter {
    fn commit(&self, rows: &[RecordBatch], batch: NewBatch) -> Result<Committed> {
        let mut wait = FIRST_WAIT;
        // Of several that are in each other's way, one goes on.
        let mut turn = None;
        for _ in 1..TRIES_MAX {
            match self.submit(rows, &batch) {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                done => return done,
            }
            if turn.is_none() {
                turn = Some(self.scope.engine.change_turn(self.entry.def.id).blocking_lock());
            }
            std::thread::sleep(wait);
            wait *= 2;
        }
        self.submit(rows, &batch)
    }
}

/// Commits rows of a statement that say what they do, as a batch of their own.
pub(crate) async fn submit_mixed(
    run: &Run,
    writer: MixedWriter,
    rows: Vec<RecordBatch>,
    batch: &NewBatch,
) -> Result<Committed> {
    let table = writer.entry.def.id;
    let (writer, rows) = (Arc::new(writer), Arc::new(rows));
    let mut wait = FIRST_WAIT;
    let mut tries = 1;
    // Of several that are in each other's way, one goes on.
    let mut turn = None;
    loop {
        let (of_try, rows_of_try) = (Arc::clone(&writer), Arc::clone(&rows));
        let runs = blocking(move || of_try.runs(&rows_of_try)).await?;
        let next = NewBatch { rows: runs, producer: batch.producer.clone(), key: batch.key, ..NewBatch::default() };
        match submit(run, next).await {
            Err(error) if error.kind() == ErrorKind::Conflict && tries < TRIES_MAX => {}
            done => return done,
        }
        if turn.is_none() {
            turn = Some(run.engine().change_turn(table).lock().await);
        }
        tokio::time::sleep(wait).await;
        run.token.check()?;
        (wait, tries) = (wait * 2, tries + 1);
    }
}

/// Rows into the open transaction: as they come, or as they say. Gives how many were passed over.
pub(crate) async fn hold_mixed(
    run: &Run,
    entry: &Arc<TableEntry>,
    policy: RowPolicy,
    rows: Vec<RecordBatch>,
) -> Result<u64> {
    if rows.iter().all(|rows| rows.num_columns() == entry.def.columns.len()) {
        return hold(run, entry, change_of(&entry.def, policy), rows).await;
    }
    let writer = MixedWriter::new(run, entry, policy, rules_of(run, entry).await?);
    let runs = blocking(move || writer.runs(&rows)).await?;
    add(run, entry, runs).await
}

/// All rows as one batch of the table's own columns, in its storage types.
fn joined(entry: &TableEntry, batches: &[RecordBatch]) -> Result<RecordBatch> {
    let column = |at: usize| {
        let data_type = entry.def.columns[at].data_type.to_arrow();
        let parts = batches.iter().map(|batch| cast(batch.column(at), &data_type)).collect::<Result<Vec<_>, _>>();
        let parts: Vec<ArrayRef> = parts.map_err(misfit)?;
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        concat(&parts).map_err(misfit)
    };
    let columns = (0..entry.def.columns.len()).map(column).collect::<Result<Vec<ArrayRef>>>()?;
    let fields = entry.storage_schema().fields().iter();
    // Rows that go, and patches, lack what rows that come must have.
    let fields: Vec<Field> = fields.map(|field| field.as_ref().clone().with_nullable(true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(misfit)
}

fn misfit(error: ArrowError) -> Error {
    Error::internal(format!("rows that say what they do do not have the columns of their table: {error}"))
}
