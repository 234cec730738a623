//! Streams of record batches from programs, however long: one atomic batch, in bounded memory.
//!
//! Invariants:
//! - All rows or none: a record batch that cannot be read or does not fit ends the statement, and staged rows are
//!   dropped.
//! - What rows do by key, their sender says for all of them, or each says it itself in a column `_op`: then they are held
//!   in memory until all have come, and bounded.
//! - Record batches may differ in their schemas: the columns of each are matched by name on their own.
//! - In an open transaction the rows are the transaction's until COMMIT; they are in memory, and bounded. An error of
//!   the rows, of their schema or of their table fails the transaction, as an INSERT's error does: rows, schema and
//!   table are looked at within the statement.
//! - A temporary table takes rows as they come, and what fails is taken back.
//! - Rows with a producer's number are a batch of their own, outside of a transaction: COMMIT has the number of its
//!   own.
//! - Rows that share their values come in pieces, bounded by the size of each value written out: however often a record
//!   batch names one value, no more memory is taken at a time.
//! - When a call returns, nothing of the memory that the rows came in is held: it may be another library's.

use crate::execution::blocking::blocking;
use crate::session::constraints::{concern, constrained};
use crate::session::copy::mixed::{MixedWriter, change_of, check_rights, hold_mixed, submit_mixed};
use crate::session::define::tables::{create_temporary, create_with, creating, schema_of_new, seed};
use crate::session::insert::rows::sink;
use crate::session::rules::{completed, completed_now, rules_of};
use crate::session::run::Run;
use crate::session::run::runner::Runner;
use crate::session::state::temporary::is_temporary;
use crate::session::transaction::check_outside;
use crate::session::transaction::submit::{submit, submit_empty};
use alluvia_catalog::authoriser::{INSERT, Need};
use alluvia_catalog::{RelationName, TEMPORARY_SCHEMA, TableEntry};
use alluvia_constraints::Doing;
use alluvia_copy::progress::Phase;
use alluvia_copy::{Assigner, BadRow, Held, Incoming, Lacking, Wanted, infer_schema};
use alluvia_snapshot::{Committed, NewBatch};
use alluvia_space::{ColumnType, RowPolicy, TableDef};
use alluvia_syntax::statements::definitions::{OnCommit, WithOptions, define};
use alluvia_types::{Error, ErrorKind, ProducerMark, Result, Version};
use alluvia_values::builders::TextAs;
use alluvia_values::compact::compact;
use alluvia_values::errors::not_supported;
use alluvia_values::widths::pieces;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef};
use futures::StreamExt;
use futures::stream::BoxStream;
use std::sync::Arc;

/// What [`Session::append_stream`](crate::Session::append_stream) did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Appended {
    /// Rows taken, but for those that changed nothing.
    pub rows: u64,
    /// The batch; `None` if there were no rows, or if they wait for the transaction's COMMIT.
    pub committed: Option<Committed>,
}

/// What comes, batch by batch.
pub(crate) type Rows<'a> = BoxStream<'a, Result<RecordBatch>>;

/// Casts batches of changing schemas; knows how many rows came before, so that errors name the row of the whole.
struct Matched {
    /// The table's own definition.
    def: Arc<TableDef>,
    incoming: Incoming,
    known: Option<(SchemaRef, Assigner, Vec<bool>)>,
    rows: u64,
}

impl Matched {
    fn new(entry: &TableEntry, policy: RowPolicy) -> Result<Matched> {
        let incoming = Incoming::new(&entry.def, policy)?;
        Ok(Matched { def: Arc::clone(&entry.def), incoming, known: None, rows: 0 })
    }

    /// Rows in the table's storage schema, and what they lack; with more columns behind, those that do something else than
    /// to come.
    fn assign(&mut self, batch: &RecordBatch) -> Result<(RecordBatch, Lacking)> {
        let def = &self.incoming.def;
        let (assigner, is_given) = match &self.known {
            Some((schema, assigner, is_given)) if schema == batch.schema_ref() => (assigner, is_given),
            _ => {
                let schema = batch.schema();
                let names = schema.fields().iter().map(|field| field.name().as_str());
                let columns: Vec<&str> = self.def.columns.iter().map(|column| column.name.as_str()).collect();
                let hint = format!("the table's columns are {}", columns.join(", "));
                let targets = Wanted::new(def, &[])?.by_name(def, names, "the data");
                let targets = targets.map_err(|error| match error.kind() {
                    ErrorKind::NoKey => error,
                    _ => error.with_hint(hint),
                })?;
                let place = |column| targets.iter().position(|target| *target == Some(column));
                let mapping: Vec<Option<usize>> = (0..def.columns.len()).map(place).collect();
                let is_given = mapping.iter().map(Option::is_some).collect();
                let assigner = Assigner::new(&schema, def, &mapping, TextAs::Plain)?;
                let (_, assigner, is_given) = &*self.known.insert((schema, assigner, is_given));
                (assigner, is_given)
            }
        };
        let assigned = match &self.incoming.operations {
            None => (assigner.assign_from(batch, self.rows)?, assigner.lacking().clone()),
            Some(operations) => {
                let complete = |arrays: &mut [ArrayRef], lacking: &mut Lacking, bad: &mut Vec<BadRow>| {
                    operations.complete(arrays, |at| is_given[at], lacking, bad)
                };
                let (assigned, lacking) = assigner.assign_completed(batch, self.rows, complete)?;
                let plain = operations.plain(&self.def, &assigned, &lacking)?;
                (plain.unwrap_or(assigned), lacking)
            }
        };
        self.rows += batch.num_rows() as u64;
        Ok(assigned)
    }
}

/// Takes all rows into a table, as [`Session::append_stream`](crate::Session::append_stream) says.
pub(crate) async fn append_stream(
    runner: &Runner,
    table: RelationName,
    policy: RowPolicy,
    rows: Rows<'_>,
) -> Result<Appended> {
    let text = format!("/* rows from a program into */ {table}");
    runner.run_for(&text, "INGEST", |run| async move { append_rows(&run, &table, None, policy, rows).await }).await
}

/// The same, numbered by a producer. Refused in a transaction.
pub(crate) async fn append_numbered(
    runner: &Runner,
    table: RelationName,
    mark: ProducerMark,
    policy: RowPolicy,
    rows: Rows<'_>,
) -> Result<Appended> {
    let text = format!("/* numbered rows from a program into */ {table}");
    let work = |run: Arc<Run>| async move {
        check_outside(&run.scope, "a numbered batch")?;
        append_rows(&run, &table, Some(mark), policy, rows).await
    };
    runner.run_for(&text, "INGEST", work).await
}

/// The same, into a table that the same batch creates, with a column for each field of `schema`.
pub(crate) async fn append_to_new(
    runner: &Runner,
    table: RelationName,
    schema: &Schema,
    rows: Rows<'_>,
) -> Result<Appended> {
    let text = format!("/* rows from a program into new */ {table}");
    runner.run_for(&text, "INGEST", |run| async move { append_rows_to_new(&run, &table, schema, rows).await }).await
}

/// The same, into the table of this name, or into a new one where there is none.
pub(crate) async fn append_creating(
    runner: &Runner,
    table: RelationName,
    schema: &Schema,
    policy: RowPolicy,
    rows: Rows<'_>,
) -> Result<Appended> {
    let text = format!("/* rows from a program into, or into new */ {table}");
    let work = |run: Arc<Run>| async move {
        run.scope.check_usable()?;
        // The table may be this session's own, and with `durability = relaxed` not visible yet.
        run.scope.await_own_writes().await?;
        match run.scope.table_for(Need::Definition, &table) {
            Ok(_) => append_rows(&run, &table, None, policy, rows).await,
            // A table that is made of rows has no key.
            Err(error) if error.kind() == ErrorKind::UndefinedTable && policy != RowPolicy::default() => Err(error
                .with_hint("what rows do by key needs a table with one: CREATE TABLE t (id BIGINT PRIMARY KEY, ...)")),
            Err(error) if error.kind() == ErrorKind::UndefinedTable => {
                append_rows_to_new(&run, &table, schema, rows).await
            }
            Err(error) => Err(error),
        }
    };
    runner.run_for(&text, "INGEST", work).await
}

async fn append_rows(
    run: &Arc<Run>,
    table: &RelationName,
    producer: Option<ProducerMark>,
    policy: RowPolicy,
    rows: Rows<'_>,
) -> Result<Appended> {
    run.scope.check_usable()?;
    run.scope.check_writable("INSERT")?;
    // The table may be this session's own, and with `durability = relaxed` not visible yet.
    run.scope.await_own_writes().await?;
    let entry = run.scope.table_for(INSERT, table)?;
    policy.check(&entry.def)?;
    check_rights(&run.scope, &entry, policy)?;
    if is_temporary(entry.def.id) {
        if producer.is_some() {
            return Err(not_supported("a numbered batch of a temporary table")
                .with_hint("nothing of the table outlasts its session: leave the number out"));
        }
        return append_temporary(run, &entry, policy, rows).await;
    }
    if concern(run, &entry, Doing::Any)? {
        let mark = NewBatch { producer, ..NewBatch::default() };
        let (appended, committed) = constrained(run, mark, append_pending(run, &entry, policy, rows)).await?;
        return Ok(Appended { committed: committed.or(appended.committed), ..appended });
    }
    if run.state().is_open()? {
        return append_pending(run, &entry, policy, rows).await;
    }
    append_batch(run, &entry, policy, NewBatch { producer, ..NewBatch::default() }, rows).await
}

async fn append_rows_to_new(run: &Arc<Run>, table: &RelationName, schema: &Schema, rows: Rows<'_>) -> Result<Appended> {
    run.scope.check_usable()?;
    run.scope.check_writable("CREATE TABLE")?;
    let inferred = infer_schema(schema, "the data")?;
    let columns =
        inferred.columns.into_iter().map(|column| (column.name, ColumnType::from(column.data_type), column.nullable));
    let columns: Vec<_> = columns.collect();
    run.scope.await_own_writes().await?;
    let new_in = schema_of_new(&run.scope, table)?;
    if run.scope.resolver()?.catalog().in_schema(&new_in, &table.name).is_some() {
        return Err(Error::new(ErrorKind::DuplicateTable, format!("table '{}' already exists", table.name))
            .with_hint("append to it, choose another name, or drop the table first"));
    }
    let is_own = new_in == TEMPORARY_SCHEMA;
    let id = match is_own {
        true => run.new_temporary_id()?,
        false => run.engine().ingest().new_table_id(),
    };
    let def = define(id, (&new_in, &table.name), &columns, &WithOptions::default(), seed(run.engine(), id))?;
    if is_own {
        let name = RelationName::in_schema(new_in, def.name.as_str());
        create_temporary(run, def, OnCommit::default())?;
        let entry = run.scope.table_for(INSERT, &name)?;
        return append_temporary(run, &entry, RowPolicy::default(), rows).await;
    }
    if run.state().is_open()? {
        let entry = Arc::new(TableEntry::new(Arc::new(def.clone()), Version(0)));
        let (count, rows) = held_rows(run, &entry, RowPolicy::default(), rows).await?;
        run.progress.add_rows(count);
        create_with(run, def, rows).await?;
        return Ok(Appended { rows: count, committed: None });
    }
    let batch = NewBatch { changes: creating(&run.scope, def.clone())?, ..NewBatch::default() };
    // The version is ignored for a table that the same batch creates.
    let entry = Arc::new(TableEntry::new(Arc::new(def), Version(0)));
    append_batch(run, &entry, RowPolicy::default(), batch, rows).await
}

/// Adds the rows to `batch` and commits it, unless it is empty.
async fn append_batch(
    run: &Arc<Run>,
    entry: &Arc<TableEntry>,
    policy: RowPolicy,
    mut batch: NewBatch,
    mut rows: Rows<'_>,
) -> Result<Appended> {
    let rules = rules_of(run, entry).await?;
    let mut sink = sink(run, &entry.def, entry.changed_at).changing(change_of(&entry.def, policy));
    let mut matched = Matched::new(entry, policy)?;
    // Rows that say what they do, from the first one on.
    let mut mixed: Option<Held> = None;
    run.progress.set_phase(Phase::Running);
    while let Some(next) = rows.next().await {
        let next = next?;
        run.token.check()?;
        if next.num_rows() == 0 {
            continue;
        }
        for piece in pieces(&next, Some(matched.rows))? {
            run.token.check()?;
            let (piece, lacking) = matched.assign(&piece)?;
            run.progress.add_rows(piece.num_rows() as u64);
            if mixed.is_none() && piece.num_columns() > entry.def.columns.len() {
                let mut held = run.scope.held();
                sink.take_held()?.iter().try_for_each(|rows| hold_piece(&mut held, rows))?;
                mixed = Some(held);
            }
            if let Some(held) = &mut mixed {
                hold_piece(held, &completed(&rules, piece, lacking).await?)?;
                continue;
            }
            let rules = rules.clone();
            sink = blocking(move || {
                sink.append(completed_now(&rules, piece, &lacking)?)?;
                Ok(sink)
            })
            .await?;
        }
    }
    // A batch may have to wait until what statements hold is given back: not for its own source.
    drop(rows);
    run.token.check()?;
    run.progress.set_phase(Phase::Finishing);
    if let Some(held) = mixed {
        let writer = MixedWriter::new(run, entry, policy, rules);
        let committed = submit_mixed(run, writer, held.batches, &batch).await?;
        let rows = matched.rows.saturating_sub(committed.passed_over);
        return Ok(Appended { rows, committed: Some(committed) });
    }
    blocking(move || sink.finish()).await?.add_to(&mut batch);
    let is_empty = matched.rows == 0 && batch.changes.is_empty() && batch.producer.is_none();
    let committed = match is_empty {
        true => submit_empty(run).await?,
        false => Some(submit(run, batch).await?),
    };
    let passed_over = committed.map_or(0, |committed| committed.passed_over);
    Ok(Appended { rows: matched.rows.saturating_sub(passed_over), committed })
}

async fn append_pending(
    run: &Arc<Run>,
    entry: &Arc<TableEntry>,
    policy: RowPolicy,
    rows: Rows<'_>,
) -> Result<Appended> {
    let (count, rows) = held_rows(run, entry, policy, rows).await?;
    run.progress.add_rows(count);
    let passed_over = hold_mixed(run, entry, policy, rows).await?;
    Ok(Appended { rows: count.saturating_sub(passed_over), committed: None })
}

/// Rows of a temporary table, which takes them as they come: who drops this in the middle leaves what the next statement takes
/// back.
async fn append_temporary(
    run: &Arc<Run>,
    entry: &Arc<TableEntry>,
    policy: RowPolicy,
    mut rows: Rows<'_>,
) -> Result<Appended> {
    let rules = rules_of(run, entry).await?;
    let mut matched = Matched::new(entry, policy)?;
    let mut passed_over = 0;
    while let Some(next) = rows.next().await {
        for piece in pieces(&next?, Some(matched.rows))? {
            run.token.check()?;
            let (piece, lacking) = matched.assign(&piece)?;
            run.progress.add_rows(piece.num_rows() as u64);
            let piece = compact(&completed(&rules, piece, lacking).await?)?;
            passed_over += hold_mixed(run, entry, policy, vec![piece]).await?;
        }
    }
    Ok(Appended { rows: matched.rows.saturating_sub(passed_over), committed: None })
}

/// All rows, and how many: who drops this in the middle leaves the transaction as it was.
async fn held_rows(
    run: &Run,
    entry: &Arc<TableEntry>,
    policy: RowPolicy,
    mut rows: Rows<'_>,
) -> Result<(u64, Vec<RecordBatch>)> {
    let rules = rules_of(run, entry).await?;
    let mut matched = Matched::new(entry, policy)?;
    let mut held = run.scope.held();
    while let Some(next) = rows.next().await {
        let next = next?;
        run.token.check()?;
        for piece in pieces(&next, Some(matched.rows))? {
            run.token.check()?;
            // Copied: until COMMIT whoever sent it may do as they please with its memory.
            let (piece, lacking) = matched.assign(&piece)?;
            let piece = completed(&rules, piece, lacking).await?;
            held.push(compact(&piece)?)?;
        }
    }
    Ok((matched.rows, held.batches))
}

/// Rows that wait until all of their batch have come.
fn hold_piece(held: &mut Held, rows: &RecordBatch) -> Result<()> {
    held.push(compact(rows)?).map_err(|error| {
        error.with_hint("rows that say what they do are held in memory until all have come: send fewer in a batch")
    })
}
