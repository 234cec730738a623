//! What a statement reads of the table that it changes.
//!
//! Invariants:
//! - One snapshot serves all queries of a statement; the definition that its rows are bound to is that snapshot's.
//! - Of a table whose keys are known before it is read, the rows that have them are read and no others.
//! - What a statement holds in memory is bounded, and checked while rows come.

use crate::by_key::{LookupCost, NamedKeys};
use crate::errors::{error_of, from_datafusion};
use crate::execution::blocking::blocking;
use crate::namespace::GivenTables;
use crate::session::change::beside::Given;
use crate::session::run::Run;
use crate::session::select::pin::{pin_newest, reference_of};
use crate::session::select::planning::plan_given;
use crate::session::state::transaction::Transaction;
use crate::table::{AlluviaTable, sql_schema};
use crate::used::UsedCounters;
use alluvia_catalog::authoriser::Need;
use alluvia_catalog::rights::Privilege;
use alluvia_catalog::{RelationName, TableEntry};
use alluvia_change::{Gone, ROWS, TARGET};
use alluvia_copy::Assigner;
use alluvia_copy::progress::Phase;
use alluvia_rows::is_waiting;
use alluvia_snapshot::Snapshot;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::builders::TextAs;
use alluvia_values::compact::tight_batch;
use alluvia_values::time_zone::Zone;
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::datasource::MemTable;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast::{self, Query};
use futures::StreamExt;
use std::sync::Arc;

/// Rows that are read at once of those that were found by their keys.
const ROWS_AT_ONCE: usize = 32_768;

/// What a statement changes, as its snapshot has it.
pub(super) struct Reading {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) entry: Arc<TableEntry>,
    /// The session's.
    pub(super) time_zone: Zone,
}

/// The rows that a query gave.
pub(super) struct Read {
    pub(super) schema: SchemaRef,
    pub(super) batches: Vec<RecordBatch>,
    pub(super) used: Arc<UsedCounters>,
}

impl Reading {
    /// Pins the snapshot that these queries read, and the table, which the session must be allowed to use so.
    pub(super) async fn begin(
        run: &Run,
        table: &RelationName,
        privileges: &[Privilege],
        queries: &[&Query],
    ) -> Result<Reading> {
        for privilege in privileges {
            run.scope.table_for(Need::Privilege(*privilege), table)?;
        }
        let mut references = vec![reference_of(table)];
        for query in queries {
            let tree = Tree::Statement(Box::new(ast::Statement::Query(Box::new((*query).clone()))));
            references.extend(resolve_table_references(&tree, true).map_err(|error| error_of(&error))?.0);
        }
        run.scope.await_own_writes().await?;
        let snapshot = pin_newest(run, &references).await?;
        let entry = Arc::clone(snapshot.catalog.relation(table, &run.scope.path())?);
        Ok(Reading { snapshot, entry, time_zone: run.settings.time_zone.clone() })
    }

    /// The table, for a query that asks for what tells rows that go.
    pub(super) fn target(&self, gone: Gone) -> Given {
        let table = AlluviaTable::new(Arc::clone(&self.entry));
        let table = if gone == Gone::Identities { table.identified() } else { table };
        (TARGET, Arc::new(table))
    }

    /// The rows of the table whose keys are among those of some rows, which are in its storage schema; and what it takes to
    /// find them.
    pub(super) async fn target_of(&self, run: &Run, came: &[RecordBatch]) -> Result<(Given, LookupCost)> {
        let entry = &self.entry;
        let keys = NamedKeys::of_rows(came, &entry.def)?;
        // What a transaction has made of a definition, the store does not know.
        let Some(keys) = keys.filter(|_| !is_waiting(entry.changed_at)) else {
            return Ok((self.target(Gone::Replaced), LookupCost::default()));
        };
        let pending = self.pending(run)?;
        let (snapshot, table) = (Arc::clone(&self.snapshot), entry.def.id);
        let (store, token, mut held) = (Arc::clone(run.engine().read()), run.token.clone(), run.scope.held());
        let found = blocking(move || {
            let Some(read) = snapshot.tables.get(&table) else {
                return Err(Error::internal("a table that is changed is not in its snapshot"));
            };
            let found = keys.find(store.as_ref(), snapshot.version, read)?;
            let columns: Vec<usize> = (0..read.entry.def.columns.len()).collect();
            for rows in found.rows().chunks(ROWS_AT_ONCE) {
                token.check()?;
                held.push(read.rows_at(rows, &columns)?)?;
            }
            for rows in pending {
                let is_named = BooleanArray::from(keys.hold(&rows)?);
                held.push(filter_record_batch(&rows, &is_named).map_err(misfit)?)?;
            }
            Ok((held.batches, found.cost(read)))
        });
        let (rows, cost) = found.await.map_err(too_many)?;
        Ok((self.given(TARGET, &rows)?, cost))
    }

    /// Rows of the table that the open transaction has, and nobody else sees.
    fn pending(&self, run: &Run) -> Result<Vec<RecordBatch>> {
        let id = self.entry.def.id;
        let state = run.state();
        let Transaction::Open(open) = &state.transaction else { return Ok(Vec::new()) };
        let mut pending = open.pending(&self.snapshot.catalog, |table| *table == id)?;
        Ok(pending.remove(&id).unwrap_or_default())
    }

    /// Rows in the table's storage schema, for a query.
    pub(super) fn rows(&self, rows: &[RecordBatch]) -> Result<Given> {
        self.given(ROWS, rows)
    }

    fn given(&self, name: &'static str, rows: &[RecordBatch]) -> Result<Given> {
        let schema = sql_schema(&self.entry.def);
        let named = rows.iter().map(|batch| RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec()));
        let named = named.collect::<Result<Vec<_>, _>>().map_err(misfit)?;
        let table = MemTable::try_new(schema, vec![named]).map_err(|error| error_of(&error))?;
        Ok((name, Arc::new(table)))
    }

    /// Runs a query over what is given.
    pub(super) async fn read(
        &self,
        run: &Run,
        query: Box<Query>,
        given: impl IntoIterator<Item = Given>,
    ) -> Result<Read> {
        let given = given.into_iter().fold(GivenTables::default(), |all, (name, table)| all.with(name, table));
        let planned = plan_given(run, query, &self.snapshot, given).await?;
        let mut stream = planned.execute()?;
        let mut held = run.scope.held();
        run.progress.set_phase(Phase::Running);
        while let Some(next) = stream.next().await {
            run.token.check()?;
            held.push(tight_batch(next.map_err(from_datafusion)?)).map_err(too_many)?;
        }
        Ok(Read { schema: planned.schema(), batches: held.batches, used: planned.used() })
    }

    /// Columns of a query, one for each of the table's from `first` on, in the table's storage schema.
    pub(super) fn assigned(&self, read: &Read, first: usize, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
        let places: Vec<usize> = (first..first + self.entry.def.columns.len()).collect();
        self.assigned_from(read, &places, batches)
    }

    /// The same of columns at these places of the query.
    pub(super) fn assigned_from(
        &self,
        read: &Read,
        places: &[usize],
        batches: &[RecordBatch],
    ) -> Result<Vec<RecordBatch>> {
        let def = &self.entry.def;
        let schema = read.schema.project(places).map_err(misfit)?;
        let assigner =
            Assigner::new(&schema, def, &whole(def.columns.len()), TextAs::Plain)?.of_query().in_zone(&self.time_zone);
        let assign = |batch: &RecordBatch| assigner.assign(&batch.project(places).map_err(misfit)?).map(tight_batch);
        batches.iter().filter(|batch| batch.num_rows() > 0).map(assign).collect()
    }

    /// Columns that were read of the table itself, from `first` on, under names of storage.
    pub(super) fn as_stored(&self, batch: &RecordBatch, first: usize) -> Result<RecordBatch> {
        let columns = batch.columns()[first..first + self.entry.def.columns.len()].to_vec();
        RecordBatch::try_new(Arc::clone(self.entry.storage_schema()), columns).map_err(misfit)
    }

    /// The columns of the key in rows that are in the table's storage schema.
    pub(super) fn key_places(&self) -> Result<Vec<usize>> {
        self.entry.def.key_columns().ok_or_else(|| Error::internal("a table without a key was taken for one with"))
    }

    /// The schema of batches that tell rows by their keys.
    pub(super) fn key_schema(&self) -> Result<SchemaRef> {
        let key: Schema = self.entry.storage_schema().project(&self.key_places()?).map_err(misfit)?;
        Ok(Arc::new(key))
    }
}

/// Each column from its own.
fn whole(columns: usize) -> Vec<Option<usize>> {
    (0..columns).map(Some).collect()
}

pub(super) fn misfit(error: ArrowError) -> Error {
    Error::internal(format!("rows that are changed do not have the columns of their table: {error}"))
}

/// Rows that a statement changes wait in memory, as those of a transaction do, whose hint is another.
pub(super) fn too_many(error: Error) -> Error {
    match error.kind() {
        ErrorKind::OutOfMemory => {
            error.with_hint("change fewer rows in one statement: they are held in memory until all of them are known")
        }
        _ => error,
    }
}
