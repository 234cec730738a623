//! Rows from programs: Arrow record batches, without SQL.
//!
//! Columns are matched by name, as SQL would match them; types are cast as INSERT casts them.

use crate::rights::INSERT;
use crate::session::door::{Run, Session};
use crate::session::run::outcome::Outcome;
use alluvia_catalog::TableEntry;
use alluvia_copy::assign;
use alluvia_snapshot::{Committed, NewBatch, NewRows};
use alluvia_space::TableDef;
use alluvia_types::{Error, ErrorKind, ProducerMark, Result};
use alluvia_values::compact::tight_batch;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;

/// Rows for several tables that become one atomic batch.
#[derive(Debug)]
#[must_use = "nothing happens until commit"]
pub struct BatchBuilder<'a> {
    session: &'a Session,
    tables: Vec<(String, Vec<RecordBatch>)>,
    producer: Option<ProducerMark>,
}

impl<'a> BatchBuilder<'a> {
    /// Adds rows for a table. Columns are matched by name; missing ones are NULL.
    pub fn append(mut self, table: &str, rows: Vec<RecordBatch>) -> Self {
        self.tables.push((table.to_owned(), rows));
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
            let BatchBuilder { session, tables, producer } = self;
            let committed = Mutex::new(None);
            let place = &committed;
            session
                .run("append", |run| async move {
                    *place.lock() = Some(session.commit_rows(&run, tables, producer).await?);
                    Ok(Outcome::done("APPEND"))
                })
                .await?;
            committed.into_inner().ok_or_else(|| Error::internal("a batch was committed without a version"))
        })
    }
}

impl Session {
    /// Appends rows to a table as one atomic, durable batch, visible when this returns (with `durability = sync`).
    pub async fn append(&self, table: &str, rows: Vec<RecordBatch>) -> Result<Committed> {
        self.batch().append(table, rows).commit().await
    }

    /// As [`Session::append`], numbered by a producer.
    pub async fn append_with(&self, mark: ProducerMark, table: &str, rows: Vec<RecordBatch>) -> Result<Committed> {
        self.batch().producer(mark).append(table, rows).commit().await
    }

    /// Starts a batch of rows for one or more tables. An example that runs is in the documentation of `alluvia_node`.
    pub fn batch(&self) -> BatchBuilder<'_> {
        BatchBuilder { session: self, tables: Vec::new(), producer: None }
    }

    /// Refuses what is a batch of its own while a transaction is open, or has failed.
    pub(crate) fn check_outside(&self, what: &str) -> Result<()> {
        if !self.in_transaction() {
            return Ok(());
        }
        let message = format!("{what} is a batch of its own, and a transaction is open");
        Err(Error::new(ErrorKind::Transaction, message).with_hint("COMMIT or ROLLBACK first, or use another session"))
    }

    async fn commit_rows(
        &self,
        run: &Run,
        tables: Vec<(String, Vec<RecordBatch>)>,
        producer: Option<ProducerMark>,
    ) -> Result<Committed> {
        self.check_outside("an append")?;
        self.check_writable("INSERT")?;
        let mut rows: Vec<NewRows> = Vec::new();
        for (table, batches) in tables {
            let entry = self.table_for(INSERT, &table)?;
            let bound = bind(&entry, batches)?;
            run.progress.add_rows(bound.iter().map(|batch| batch.num_rows() as u64).sum());
            match rows.iter_mut().find(|known| known.table == entry.def.id) {
                Some(known) if known.checked_at == entry.changed_at => known.batches.extend(bound),
                Some(_) => {
                    return Err(Error::new(
                        ErrorKind::Conflict,
                        format!("table '{table}' was changed by another session"),
                    )
                    .with_hint("append again"));
                }
                None => rows.push(NewRows { table: entry.def.id, checked_at: entry.changed_at, batches: bound }),
            }
        }
        self.submit(run, NewBatch { rows, producer, ..NewBatch::default() }).await
    }
}

/// Batches in the storage schema of a table.
fn bind(entry: &TableEntry, batches: Vec<RecordBatch>) -> Result<Vec<RecordBatch>> {
    let mut bound = Vec::with_capacity(batches.len());
    let mut known: Option<(SchemaRef, Vec<Option<usize>>)> = None;
    for batch in batches.into_iter().filter(|batch| batch.num_rows() > 0) {
        let mapping = match &known {
            Some((schema, mapping)) if Arc::ptr_eq(schema, batch.schema_ref()) => mapping,
            _ => &known.insert((batch.schema(), mapping_by_name(&entry.def, batch.schema_ref())?)).1,
        };
        bound.push(tight_batch(assign(&batch, &entry.def, mapping)?));
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
