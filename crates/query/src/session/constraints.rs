//! What sessions do for their constraints: locks, looks at rows, actions of foreign keys; and a transaction for a statement that has none.
//!
//! Invariants:
//! - A statement that constraints concern runs in a transaction: outside of one in its own, which commits once nothing is left to be
//!   looked at.
//! - All looks at rows go through [`rows_with`], which says of which version they are; what is changed then was computed from that one.
//! - Whether constraints concern a statement is decided by a definition, and asked anew where that is another when it is run again.
//!   Nobody commits rows by a definition for which it was not decided.
//! - What is looked at is what is newest, where the transaction sees that, and whatever its freshness and sample are. Where it reads one
//!   version, its COMMIT is refused if a row came since to a table that was looked at.

use crate::errors::{error_of, from_datafusion};
use crate::namespace::GivenTables;
use crate::session::rules::rules_of;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::pin::pin_tables;
use crate::session::select::planning::plan_given;
use crate::session::state::temporary::is_temporary;
use crate::session::state::transaction::Transaction;
use crate::session::transaction::own_changes::{How, add_as};
use crate::session::transaction::own_rows::rows_of_keys;
use crate::session::transaction::row_locks::{KeyedRows, Patience, ROWS_MAX, lock_rows, lock_values};
use crate::session::transaction::{begin_alone, commit_alone};
use crate::table::{AlluviaTable, sql_schema};
use alluvia_catalog::authoriser::Need;
use alluvia_catalog::{Catalog, TableEntry};
use alluvia_change::{ROWS, TARGET, identity_names, read_all_given};
use alluvia_constraints::events::types_of;
use alluvia_constraints::settle::{Changed, Found};
use alluvia_constraints::{Doing, Event, Looks, Values, concerns, settle};
use alluvia_locks::Mode;
use alluvia_snapshot::{Committed, NewBatch, NewRows, RowChange};
use alluvia_space::ORDINAL_COLUMN;
use alluvia_space::VERSION_COLUMN;
use alluvia_space::key_code::KeyCoder;
use alluvia_space::keywords::quoted;
use alluvia_syntax::copy::statement::CopyStatement;
use alluvia_syntax::names::{name_of, user_table};
use alluvia_syntax::statement::SetConstraints;
use alluvia_syntax::statements::changes::Update;
use alluvia_syntax::{Kind, parse};
use alluvia_types::{Error, ErrorKind, Result, Version};
use alluvia_values::compact::tight_batch;
use alluvia_values::errors::not_supported;
use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{Field, Schema};
use arrow::error::ArrowError;
use datafusion::datasource::MemTable;
use futures::StreamExt;
use futures::future::BoxFuture;
use std::sync::Arc;

/// Whether constraints concern what the statement does to a table.
pub(crate) fn concern(run: &Run, entry: &TableEntry, doing: Doing<'_>) -> Result<bool> {
    run.decided.lock().note(entry);
    Ok(!is_temporary(entry.def.id) && concerns(run.scope.resolver()?.catalog(), &entry.def, doing))
}

/// Refuses a definition by which it was not decided whether constraints concern the statement: it came meanwhile.
pub(crate) fn check_decided(run: &Run, entry: &TableEntry) -> Result<()> {
    match is_temporary(entry.def.id) || run.decided.lock().knows(entry.def.id, entry.changed_at) {
        true => Ok(()),
        false => {
            Err(Error::new(ErrorKind::Conflict, format!("table {} was changed by another session", entry.def.name))
                .with_hint("run the statement again"))
        }
    }
}

/// Whether they concern a statement that is run once, and what it does; refused of what cannot be looked at.
pub(crate) fn concern_statement(run: &Run, kind: &Kind) -> Result<bool> {
    let (table, doing, is_in_batches) = match kind {
        Kind::Insert(insert) if insert.conflict.is_none() && insert.returning.is_none() => {
            (insert.table.clone(), Doing::Inserts, false)
        }
        // Each row may say what it does.
        Kind::Copy(copy) => match copy.as_ref() {
            CopyStatement::From { table, .. } => (user_table(table)?, Doing::Any, copy.is_in_batches()),
            CopyStatement::To { .. } => return Ok(false),
        },
        _ => return Ok(false),
    };
    // What is not there is told by whoever needs it.
    let Ok(entry) = run.scope.table_for(Need::Definition, &table) else { return Ok(false) };
    let is_concerned = concern(run, &entry, doing)?;
    if is_concerned && is_in_batches {
        return Err(not_supported(
            "COPY with BATCH_ROWS of a table with unique constraints or foreign keys, or to which some refer",
        )
        .with_hint("leave BATCH_ROWS out: the rows are one batch"));
    }
    Ok(is_concerned)
}

/// The columns that an UPDATE sets, by their places; `None` where one is not there.
pub(crate) fn set_places(entry: &TableEntry, update: &Update) -> Option<Vec<usize>> {
    let place = |ident| entry.def.columns.iter().position(|column| column.name == name_of(ident));
    update.columns.iter().map(place).collect()
}

/// Does what changes rows of a table, and looks at what that asks for; outside of a transaction in one of its own. Gives also what was
/// committed then.
pub(crate) async fn constrained<T>(
    run: &Arc<Run>,
    mark: NewBatch,
    work: impl Future<Output = Result<T>>,
) -> Result<(T, Option<Committed>)> {
    let is_own = !run.state().is_open()?;
    if is_own {
        if run.settings.producer_mark().is_some() || mark.producer.is_some() {
            return Err(not_supported("a numbered batch of a table with unique constraints or foreign keys")
                .with_hint("RESET producer; ON CONFLICT DO NOTHING passes over what has come before"));
        }
        begin_alone(run);
    }
    let done = async {
        let done = work.await?;
        // Of a transaction of its own the statement's end is the COMMIT.
        settle_due(run, is_own).await?;
        Ok(done)
    };
    match done.await {
        Ok(done) if is_own => Ok((done, commit_alone(run, mark).await?)),
        Ok(done) => Ok((done, None)),
        Err(error) => {
            if is_own {
                // Whoever runs it again begins anew.
                run.state().begin_statement();
            }
            Err(error)
        }
    }
}

/// Looks at what is due, or at `all` that is left: what was changed may be committed then.
pub(crate) async fn settle_due(run: &Arc<Run>, all: bool) -> Result<()> {
    let has_due = match &run.state().transaction {
        Transaction::Open(open) => open.events.has_due(all),
        _ => false,
    };
    if has_due {
        settle(&Looker { run: Arc::clone(run), all }).await?;
    }
    if all {
        run.decided.lock().note_all();
    }
    Ok(())
}

/// SET CONSTRAINTS.
pub(crate) async fn set_constraints(run: &Arc<Run>, statement: SetConstraints) -> Result<Outcome> {
    let SetConstraints { names, deferred } = statement;
    let done = Outcome::done("SET CONSTRAINTS");
    {
        let catalog = Arc::clone(run.scope.resolver()?.catalog());
        for name in names.iter().flatten() {
            let mut keys = catalog.tables().flat_map(|entry| &entry.def.foreign_keys).filter(|key| key.name == *name);
            let Some(key) = keys.next() else {
                let is_other = catalog.tables().any(|entry| entry.def.has_constraint(name));
                let (kind, message) = match is_other {
                    true => (ErrorKind::WrongObject, format!("constraint \"{name}\" is not deferrable")),
                    false => (ErrorKind::UndefinedObject, format!("constraint \"{name}\" does not exist")),
                };
                return Err(Error::new(kind, message).with_hint("foreign keys that are DEFERRABLE can be deferred"));
            };
            if !key.deferrable {
                let message = format!("constraint \"{name}\" is not deferrable");
                return Err(Error::new(ErrorKind::WrongObject, message)
                    .with_hint("foreign keys that are DEFERRABLE can be deferred"));
            }
        }
    }
    match &mut run.state().transaction {
        Transaction::Open(open) => open.events.defer(names.as_deref(), deferred),
        _ => return Ok(done.with_notice("SET CONSTRAINTS can only be used in transaction blocks")),
    }
    settle_due(run, false).await?;
    Ok(done)
}

/// Of rows that come, those that no row is like by the key or in unique indexes, nor any of them before that stays; in one index, if it is
/// told.
pub(crate) async fn without_conflicts(
    run: &Arc<Run>,
    entry: &Arc<TableEntry>,
    named: Option<&str>,
    rows: Vec<RecordBatch>,
) -> Result<Vec<RecordBatch>> {
    let looker = Looker { run: Arc::clone(run), all: false };
    let indexes = entry.def.unique_indexes().filter(|index| named.is_none_or(|named| named == index.name));
    let indexes: Vec<_> = indexes.collect();
    alluvia_constraints::settle::new_in(&looker, entry, (named.is_none(), &indexes), rows).await
}

/// A session, as its constraints have it.
struct Looker {
    run: Arc<Run>,
    /// Whether nothing may wait any more.
    all: bool,
}

impl Looks for Looker {
    fn catalog(&self) -> Result<Arc<Catalog>> {
        Ok(Arc::clone(self.run.scope.resolver()?.catalog()))
    }

    fn take_due(&self) -> Result<Vec<Event>> {
        let catalog = self.catalog()?;
        match &mut self.run.state().transaction {
            Transaction::Open(open) => Ok(open.events.take_due(&catalog, self.all)),
            _ => Ok(Vec::new()),
        }
    }

    fn lock<'a>(&'a self, entry: &'a Arc<TableEntry>, codes: Vec<u128>, mode: Mode) -> BoxFuture<'a, Result<()>> {
        Box::pin(lock_values(&self.run, &entry.def, codes, mode))
    }

    fn rows_with<'a>(
        &'a self,
        entry: &'a Arc<TableEntry>,
        columns: &'a [usize],
        values: &'a Values,
        wanted: &'a [usize],
        told: bool,
    ) -> BoxFuture<'a, Result<Found>> {
        Box::pin(rows_with(&self.run, entry, columns, values, (wanted, told)))
    }

    fn sees_commits(&self) -> bool {
        matches!(&self.run.state().transaction, Transaction::Open(open) if open.sees_commits())
    }

    fn wait_for<'a>(
        &'a self,
        entry: &'a Arc<TableEntry>,
        keys: Vec<ArrayRef>,
        mode: Mode,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            // As many as nobody locks who changes them.
            if keys.first().is_none_or(|keys| keys.is_empty() || keys.len() > ROWS_MAX) {
                return Ok(());
            }
            let (Some(coder), Some(key)) = (KeyCoder::new(&entry.def), entry.def.key_columns()) else { return Ok(()) };
            let schema = Arc::new(entry.storage_schema().project(&key).map_err(misfit)?);
            let keys = RecordBatch::try_new(schema, keys).map_err(misfit)?;
            let rows = KeyedRows::new(entry, &coder, vec![&keys])?;
            lock_rows(&self.run, &rows, mode, Patience::Waits).await
        })
    }

    fn change<'a>(&'a self, entry: &'a Arc<TableEntry>, changed: Changed) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let Changed { told, rows, set, at } = changed;
            let of = |change, rows| NewRows {
                change,
                // Whether new keys are free, the store knows: what was there of old is of no account.
                computed_at: (change != RowChange::Insert).then_some(at),
                ..NewRows::insert(entry.def.id, entry.changed_at, vec![rows])
            };
            if let (Some(rows), Some(rules)) = (&rows, rules_of(&self.run, entry).await?) {
                rules.check([rows])?;
            }
            let key = entry.def.key_columns();
            let goes = if key.is_some() { RowChange::Delete } else { RowChange::DeleteRows };
            let keeps_keys = key.is_some_and(|key| key.iter().all(|at| !set.contains(at)));
            let (changes, paired) = match rows {
                None => (vec![of(goes, told)], false),
                Some(rows) if keeps_keys => (vec![of(RowChange::Upsert, rows)], false),
                Some(rows) => (vec![of(goes, told), of(RowChange::Insert, rows)], true),
            };
            let set = (!set.is_empty()).then_some(set);
            add_as(&self.run, entry, changes, How { set, paired }).await.map(|_| ())
        })
    }

    fn default_of<'a>(
        &'a self,
        entry: &'a Arc<TableEntry>,
        column: usize,
        count: usize,
    ) -> BoxFuture<'a, Result<ArrayRef>> {
        Box::pin(async move {
            let declared = &entry.def.columns[column];
            match rules_of(&self.run, entry).await? {
                Some(rules) if entry.def.default_of(declared.id).is_some() => rules.values(column, count),
                _ => Ok(new_null_array(&declared.data_type.to_arrow(), count)),
            }
        })
    }
}

/// The rows of a table that have any of these values in columns at these places, as [`Looks::rows_with`] gives them.
async fn rows_with(
    run: &Arc<Run>,
    entry: &Arc<TableEntry>,
    columns: &[usize],
    values: &Values,
    (wanted, told): (&[usize], bool),
) -> Result<Found> {
    let ids: Vec<_> = columns.iter().map(|at| entry.def.columns[*at].id).collect();
    let values = values.cast_to(&types_of(entry, &ids)?)?.distinct()?;
    if values.is_empty() {
        return Ok(Found { batches: Vec::new(), at: Version(0) });
    }
    let key = entry.def.key_columns().unwrap_or_default();
    let is_key = key.len() == columns.len() && key.iter().all(|at| columns.contains(at));
    match KeyCoder::new(&entry.def).filter(|_| is_key) {
        Some(coder) => {
            let arrays = key.iter().filter_map(|at| columns.iter().position(|known| known == at));
            let arrays = arrays.map(|at| Arc::clone(&values.columns()[at])).collect();
            let schema = Arc::new(entry.storage_schema().project(&key).map_err(misfit)?);
            let keys = RecordBatch::try_new(schema, arrays).map_err(misfit)?;
            let (_, rows, at) = rows_of_keys(run, entry, &coder, &coder.codes(&keys)?).await?;
            let mut given = wanted.to_vec();
            given.extend(key.iter().filter(|_| told));
            Ok(Found { batches: vec![rows.project(&given).map_err(misfit)?], at })
        }
        None => rows_by_query(run, entry, columns, &values, (wanted, told)).await,
    }
}

/// The same by a query, which may read the whole table.
async fn rows_by_query(
    run: &Arc<Run>,
    entry: &Arc<TableEntry>,
    columns: &[usize],
    values: &Values,
    (wanted, told): (&[usize], bool),
) -> Result<Found> {
    let def = &entry.def;
    let name = |at: &usize| format!("t.{}", quoted(&def.columns[*at].name));
    let mut given: Vec<String> = wanted.iter().map(name).collect();
    let is_identified = told && def.key.is_none();
    match def.key_columns().filter(|_| told) {
        Some(key) => given.extend(key.iter().map(name)),
        None if told => given.extend(identity_names(def).iter().map(|column| format!("t.{}", quoted(column)))),
        None => {}
    }
    let given: Vec<String> = given.iter().enumerate().map(|(at, column)| format!("{column} AS c{at}")).collect();
    let alike: Vec<String> =
        columns.iter().enumerate().map(|(at, column)| format!("{} = v.k{at}", name(column))).collect();
    let text = format!("SELECT {} FROM t AS t, v AS v WHERE {}", given.join(", "), alike.join(" AND "));
    let mut query = match parse(&text)?.pop().map(|statement| statement.kind) {
        Some(Kind::Query(query)) => query,
        _ => return Err(Error::internal("what looks for values is no query")),
    };
    read_all_given(&mut query, &[TARGET, ROWS])?;
    let sql = sql_schema(def);
    let field =
        |(at, column): (usize, &usize)| sql.field(*column).clone().with_name(format!("k{at}")).with_nullable(true);
    let schema = Arc::new(Schema::new(columns.iter().enumerate().map(field).collect::<Vec<Field>>()));
    let arrays = values.columns().iter().zip(schema.fields()).map(|(array, field)| cast(array, field.data_type()));
    let arrays = arrays.collect::<Result<Vec<_>, _>>().map_err(misfit)?;
    let rows = RecordBatch::try_new(Arc::clone(&schema), arrays).map_err(misfit)?;
    let rows = MemTable::try_new(schema, vec![vec![rows]]).map_err(|error| error_of(&error))?;
    let table = AlluviaTable::new(Arc::clone(entry));
    let table = if is_identified { table.identified() } else { table };
    let given = GivenTables::default().with(TARGET, Arc::new(table)).with(ROWS, Arc::new(rows));
    let snapshot = pin_tables(run, &[def.id]).await?;
    let planned = plan_given(run, query, &snapshot, given).await?;
    let mut stream = planned.execute()?;
    let mut held = run.scope.held();
    while let Some(next) = stream.next().await {
        run.token.check()?;
        held.push(tight_batch(next.map_err(from_datafusion)?))?;
    }
    let stored = |batch: RecordBatch| as_stored(entry, &batch, wanted, told);
    let batches = held.batches.into_iter().map(stored).collect::<Result<_>>()?;
    Ok(Found { batches, at: snapshot.version })
}

/// Columns of a query by the names and types of storage.
fn as_stored(entry: &TableEntry, batch: &RecordBatch, wanted: &[usize], told: bool) -> Result<RecordBatch> {
    let mut fields: Vec<Field> = wanted.iter().map(|at| entry.storage_schema().field(*at).clone()).collect();
    match entry.def.key_columns().filter(|_| told) {
        Some(key) => fields.extend(key.iter().map(|at| entry.storage_schema().field(*at).clone())),
        None if told => {
            let field = |name| Field::new(name, arrow::datatypes::DataType::UInt64, false);
            fields.extend([field(VERSION_COLUMN), field(ORDINAL_COLUMN)]);
        }
        None => {}
    }
    let arrays = batch.columns().iter().zip(&fields).map(|(array, field)| cast(array, field.data_type()));
    let arrays = arrays.collect::<Result<Vec<_>, _>>().map_err(misfit)?;
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(misfit)
}

fn misfit(error: ArrowError) -> Error {
    Error::internal(format!("rows that constraints look at do not have the columns of their table: {error}"))
}
