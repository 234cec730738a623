//! Rows of programs for one table or several: Arrow record batches, without SQL, as one batch.
//!
//! Columns are matched by name, as SQL would match them; types are cast as INSERT casts them.

use crate::session::constraints::{concern, constrained};
use crate::session::insert::rows::hold;
use crate::session::rules::{Rules, completed, rules_of};
use crate::session::run::Run;
use crate::session::run::runner::Runner;
use crate::session::state::temporary::is_temporary;
use crate::session::transaction::check_outside;
use crate::session::transaction::own_changes::add;
use crate::session::transaction::submit::submit;
use alluvia_catalog::authoriser::INSERT;
use alluvia_catalog::{RelationName, TableEntry};
use alluvia_constraints::Doing;
use alluvia_copy::Assigner;
use alluvia_snapshot::{Committed, NewBatch, NewRows, RowChange};
use alluvia_space::TableDef;
use alluvia_types::{Error, ErrorKind, ProducerMark, Result};
use alluvia_values::builders::TextAs;
use alluvia_values::compact::tight_batch;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use futures::future::BoxFuture;
use std::sync::Arc;

/// Rows for several tables that become one atomic batch.
#[derive(Debug)]
#[must_use = "nothing happens until commit"]
pub struct BatchBuilder<'a> {
    runner: &'a Runner,
    tables: Vec<(RelationName, Vec<RecordBatch>)>,
    producer: Option<ProducerMark>,
}

impl<'a> BatchBuilder<'a> {
    /// A batch without rows.
    pub(crate) fn new(runner: &'a Runner) -> Self {
        BatchBuilder { runner, tables: Vec::new(), producer: None }
    }

    /// Adds rows for a table. Columns are matched by name; missing ones get their defaults, or NULL.
    pub fn append(mut self, table: impl Into<RelationName>, rows: Vec<RecordBatch>) -> Self {
        self.tables.push((table.into(), rows));
        self
    }

    /// Numbers the batch: sent again under the same number, it is acknowledged and not applied twice.
    pub fn producer(mut self, mark: ProducerMark) -> Self {
        self.producer = Some(mark);
        self
    }

    /// Commits all of it, or nothing.
    pub fn commit(self) -> BoxFuture<'a, Result<Committed>> {
        Box::pin(async move {
            let BatchBuilder { runner, tables, producer } = self;
            runner.run_for("append", "APPEND", |run| async move { commit_rows(&run, tables, producer).await }).await
        })
    }
}

async fn commit_rows(
    run: &Arc<Run>,
    tables: Vec<(RelationName, Vec<RecordBatch>)>,
    producer: Option<ProducerMark>,
) -> Result<Committed> {
    check_outside(&run.scope, "an append")?;
    run.scope.check_writable("INSERT")?;
    let mut rows: Vec<NewRows> = Vec::new();
    let (mut passed_over, mut are_temporary) = (0, false);
    for (table, batches) in tables {
        let entry = run.scope.table_for(INSERT, &table)?;
        let rules = rules_of(run, &entry).await?;
        let bound = bind(&entry, batches, &rules).await?;
        if is_temporary(entry.def.id) {
            let count: u64 = bound.iter().map(|batch| batch.num_rows() as u64).sum();
            run.progress.add_rows(count);
            passed_over += hold(run, &entry, RowChange::of_table(&entry.def), bound).await?;
            are_temporary = true;
            continue;
        }
        run.progress.add_rows(bound.iter().map(|batch| batch.num_rows() as u64).sum());
        match rows.iter_mut().find(|known| known.table == entry.def.id) {
            Some(known) if known.checked_at == entry.changed_at => known.batches.extend(bound),
            Some(_) => {
                return Err(Error::new(ErrorKind::Conflict, format!("table '{table}' was changed by another session"))
                    .with_hint("append again"));
            }
            None => rows.push(NewRows::of_table(&entry.def, entry.changed_at, bound)),
        }
    }
    if let Some(passed) = constrained_rows(run, &rows, producer.as_ref()).await? {
        return Ok(Committed { passed_over: passed.passed_over + passed_over, ..passed });
    }
    if rows.is_empty() && are_temporary {
        let version = run.state().seen;
        return Ok(Committed { version, duplicate: false, passed_over });
    }
    let committed = submit(run, NewBatch { rows, producer, ..NewBatch::default() }).await?;
    Ok(Committed { passed_over: committed.passed_over + passed_over, ..committed })
}

/// The same of tables of which constraints are to look at the rows, in a transaction of its own.
async fn constrained_rows(
    run: &Arc<Run>,
    rows: &[NewRows],
    producer: Option<&ProducerMark>,
) -> Result<Option<Committed>> {
    let catalog = run.engine().read().catalog();
    let mut concerned = false;
    for rows in rows {
        if let Some(entry) = catalog.by_id(rows.table) {
            concerned |= concern(run, entry, Doing::Inserts)?;
        }
    }
    if !concerned {
        return Ok(None);
    }
    let work = async {
        let mut passed_over = 0;
        for rows in rows {
            let entry = catalog.by_id(rows.table).ok_or_else(|| Error::internal("a table of an append is gone"))?;
            passed_over += add(run, entry, vec![rows.clone()]).await?;
        }
        Ok(passed_over)
    };
    let mark = NewBatch { producer: producer.cloned(), ..NewBatch::default() };
    let (passed_over, committed) = constrained(run, mark, work).await?;
    let none = Committed { version: run.state().seen, duplicate: false, passed_over: 0 };
    Ok(Some(Committed { passed_over, ..committed.unwrap_or(none) }))
}

/// Batches in the storage schema of a table, with what its definition gives them.
async fn bind(entry: &TableEntry, batches: Vec<RecordBatch>, rules: &Option<Arc<Rules>>) -> Result<Vec<RecordBatch>> {
    let mut bound = Vec::with_capacity(batches.len());
    let mut known: Option<(SchemaRef, Vec<Option<usize>>)> = None;
    for batch in batches.into_iter().filter(|batch| batch.num_rows() > 0) {
        let mapping = match &known {
            Some((schema, mapping)) if Arc::ptr_eq(schema, batch.schema_ref()) => mapping,
            _ => &known.insert((batch.schema(), mapping_by_name(&entry.def, batch.schema_ref())?)).1,
        };
        let assigner = Assigner::new(batch.schema_ref(), &entry.def, mapping, TextAs::Plain)?;
        let rows = tight_batch(assigner.assign(&batch)?);
        bound.push(completed(rules, rows, assigner.lacking().clone()).await?);
    }
    Ok(bound)
}

/// For each column of the table the column of the same name.
fn mapping_by_name(def: &TableDef, schema: &SchemaRef) -> Result<Vec<Option<usize>>> {
    for (at, field) in schema.fields().iter().enumerate() {
        def.column(field.name())?;
        if schema.fields()[..at].iter().any(|other| other.name() == field.name()) {
            return Err(Error::new(ErrorKind::DuplicateColumn, format!("column {} appears twice", field.name())));
        }
    }
    let place = |name: &str| schema.fields().iter().position(|field| field.name() == name);
    Ok(def.columns.iter().map(|column| place(&column.name)).collect())
}
