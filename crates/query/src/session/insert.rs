//! INSERT, and the streams of rows that become one batch.
//!
//! A batch is small (its rows travel in the log) or large (its rows are staged as segments that the log names); which, is
//! known only when the rows have come. [`Sink`] decides; it blocks while segments are written, so it is moved to a blocking
//! thread and back.

use crate::errors::from_datafusion;
use crate::execution::blocking::blocking;
use crate::rights::INSERT;
use crate::session::core::{Run, Session, failed_transaction};
use crate::session::outcome::Outcome;
use crate::session::select::Planned;
use crate::session::transaction::Transaction;
use crate::session::values::{literal_rows, values_rows};
use alluvia_catalog::TableEntry;
use alluvia_copy::progress::{CancelToken, Phase};
use alluvia_copy::{Assigner, Held, Sink};
use alluvia_snapshot::{NewBatch, NewRows};
use alluvia_space::{DataType, TableDef};
use alluvia_syntax::names::name_of;
use alluvia_syntax::statement::{Insert, InsertSource};
use alluvia_syntax::trees::value_rows::values_of;
use alluvia_syntax::{Hints, keep_columns};
use alluvia_types::{Error, ErrorKind, Result, Version};
use alluvia_values::builders::TextAs;
use alluvia_values::compact::tight_batch;
use arrow::array::RecordBatch;
use datafusion::sql::sqlparser::ast::Ident;
use futures::StreamExt;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Rows that travel in the log; more are staged as segments.
pub(super) const INLINE_BYTES_MAX: u64 = 32 << 20;

impl Session {
    /// INSERT INTO.
    pub(crate) async fn insert(&self, run: &Arc<Run>, insert: Insert, hints: &Hints) -> Result<Outcome> {
        let entry = self.table_for(INSERT, &insert.table)?;
        let listed = insert.columns.as_deref();
        let mut source = match insert.source {
            InsertSource::Literals(literals) => {
                let targets = targets(&entry.def, listed, literals.width())?;
                let rows = literal_rows(&literals, &entry, &targets)?;
                return self.write(run, &entry, vec![rows]).await;
            }
            InsertSource::Query(source) => source,
        };
        if let Some(values) = values_of(&source)
            && let Some(first) = values.rows.first()
        {
            let targets = targets(&entry.def, listed, first.content.len())?;
            if let Some(rows) = values_rows(values, &entry, &targets)? {
                return self.write(run, &entry, vec![rows]).await;
            }
            return self.insert_computed(run, values, &entry, &targets, hints).await;
        }
        let into = listed.map(|listed| targets(&entry.def, Some(listed), listed.len())).transpose()?;
        keep_columns(&mut source, &|place: usize| {
            let column = into.as_ref().map_or(Some(place), |into| into.get(place).copied());
            column.and_then(|column| entry.def.columns.get(column)).is_some_and(|column| has_digits(column.data_type))
        });
        let planned = self.plan(run, source, hints).await?;
        let width = planned.schema().fields().len();
        let targets = targets(&entry.def, listed, width)?;
        if width != targets.len() {
            return Err(too_many(&entry.def, width, targets.len()));
        }
        let mapping = mapping(&entry.def, &targets);
        if self.is_open()? {
            let rows = self.read_all(run, &planned, &entry.def, &mapping).await?;
            return Ok(self.write(run, &entry, rows).await?.with_used(planned.used()));
        }
        let mut batch = NewBatch::default();
        let rows = self.stream_into(run, &planned, &entry.def, entry.changed_at, &mapping, &mut batch).await?;
        // A batch may have to wait until what statements hold is given back: not for its own.
        let used = planned.used();
        drop(planned);
        match rows {
            0 => self.submit_empty(run).await?,
            _ => Some(self.submit(run, batch).await?),
        };
        Ok(inserted(rows).with_used(used))
    }

    /// Whether rows go into an open transaction. One that has failed since the statement began is not none: it takes nothing.
    pub(super) fn is_open(&self) -> Result<bool> {
        match self.state.lock().transaction {
            Transaction::None => Ok(false),
            Transaction::Open(_) => Ok(true),
            Transaction::Failed(_) => Err(failed_transaction()),
        }
    }

    /// Rows of one table into the open transaction, or as a batch of their own.
    pub(crate) async fn write(
        &self,
        run: &Arc<Run>,
        entry: &Arc<TableEntry>,
        batches: Vec<RecordBatch>,
    ) -> Result<Outcome> {
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        run.progress.add_rows(rows as u64);
        let batches: Vec<RecordBatch> = batches.into_iter().filter(|batch| batch.num_rows() > 0).collect();
        if batches.is_empty() {
            return Ok(inserted(0));
        }
        {
            let mut state = self.state.lock();
            match &mut state.transaction {
                Transaction::None => {}
                Transaction::Open(open) => {
                    open.push(entry, batches, self.pending_bytes_max())?;
                    return Ok(inserted(rows as u64));
                }
                Transaction::Failed(_) => return Err(failed_transaction()),
            }
        }
        let new_rows = NewRows { table: entry.def.id, checked_at: entry.changed_at, batches };
        self.submit(run, NewBatch { rows: vec![new_rows], ..NewBatch::default() }).await?;
        Ok(inserted(rows as u64))
    }

    /// The same for rows that may be too many for the log.
    pub(super) async fn write_rows(
        &self,
        run: &Arc<Run>,
        entry: &Arc<TableEntry>,
        rows: RecordBatch,
    ) -> Result<Outcome> {
        if self.is_open()? {
            return self.write(run, entry, vec![rows]).await;
        }
        let count = rows.num_rows() as u64;
        run.progress.add_rows(count);
        let mut sink = self.sink(&entry.def, entry.changed_at);
        let mut batch = NewBatch::default();
        let finished = blocking(move || {
            sink.append(rows)?;
            sink.finish()
        });
        finished.await?.add_to(&mut batch);
        self.submit(run, batch).await?;
        Ok(inserted(count))
    }

    /// What takes rows for a batch of their own.
    fn sink(&self, def: &Arc<TableDef>, checked_at: Version) -> Sink {
        let inline_bytes_max = INLINE_BYTES_MAX.min(self.engine.admin().info().tail_bytes_max / 8);
        let ingest = Arc::clone(self.engine.ingest());
        Sink::new(ingest, Arc::clone(def), checked_at, inline_bytes_max as usize)
    }

    /// Rows of one table into the transaction that was open when its statement began.
    pub(super) fn hold(&self, entry: &Arc<TableEntry>, batches: Vec<RecordBatch>) -> Result<()> {
        match &mut self.state.lock().transaction {
            Transaction::Open(_) if batches.is_empty() => Ok(()),
            Transaction::Open(open) => open.push(entry, batches, self.pending_bytes_max()),
            _ => Err(failed_transaction()),
        }
    }

    /// What a transaction may hold in memory.
    pub(super) fn pending_bytes_max(&self) -> u64 {
        self.engine.admin().info().tail_bytes_max / 4
    }

    /// A query's rows, cast to a table's columns, as what a batch takes. Gives the number of rows.
    pub(crate) async fn stream_into(
        &self,
        run: &Arc<Run>,
        planned: &Planned,
        def: &Arc<TableDef>,
        checked_at: Version,
        mapping: &[Option<usize>],
        batch: &mut NewBatch,
    ) -> Result<u64> {
        let mut sink = Apart { sink: Some(self.sink(def, checked_at)), token: run.token.clone() };
        let assigner = Assigner::new(&planned.schema(), def, mapping, TextAs::Plain)?.of_query();
        let mut stream = planned.execute()?;
        let mut rows = 0;
        run.progress.set_phase(Phase::Running);
        while let Some(next) = stream.next().await {
            run.token.check()?;
            let next = tight_batch(assigner.assign(&next.map_err(from_datafusion)?)?);
            rows += next.num_rows() as u64;
            run.progress.add_rows(next.num_rows() as u64);
            sink = blocking(move || match sink.append(next) {
                Ok(()) => Ok(sink),
                Err(error) => {
                    // Here what it staged may be waited for.
                    drop(sink.take());
                    Err(error)
                }
            })
            .await?;
        }
        run.progress.set_phase(Phase::Finishing);
        blocking(move || sink.take()?.finish()).await?.add_to(batch);
        Ok(rows)
    }

    /// A query's rows, cast to a table's columns, in memory: for an open transaction, whose bound is checked on the way.
    pub(super) async fn read_all(
        &self,
        run: &Run,
        planned: &Planned,
        def: &TableDef,
        mapping: &[Option<usize>],
    ) -> Result<Vec<RecordBatch>> {
        let assigner = Assigner::new(&planned.schema(), def, mapping, TextAs::Plain)?.of_query();
        let mut stream = planned.execute()?;
        let mut held = self.held();
        while let Some(next) = stream.next().await {
            run.token.check()?;
            held.push(tight_batch(assigner.assign(&next.map_err(from_datafusion)?)?))?;
        }
        Ok(held.batches)
    }

    /// Nothing yet, of what the open transaction may be given by one statement.
    pub(crate) fn held(&self) -> Held {
        Held::new(self.pending_bytes_max())
    }
}

/// What takes a query's rows. Dropped, a sink waits for what it stages, and removes it: if that is because the statement was stopped, on a
/// thread that may wait, since whoever stopped it is told at once.
struct Apart {
    /// `None` at its end.
    sink: Option<Sink>,
    token: CancelToken,
}

impl Apart {
    fn append(&mut self, rows: RecordBatch) -> Result<()> {
        self.token.check()?;
        self.sink.as_mut().ok_or_else(ended)?.append(rows)
    }

    fn take(&mut self) -> Result<Sink> {
        self.sink.take().ok_or_else(ended)
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        let Some(sink) = self.sink.take() else { return };
        if let (true, Ok(runtime)) = (self.token.is_cancelled(), Handle::try_current()) {
            drop(runtime.spawn_blocking(move || drop(sink)));
        }
    }
}

fn ended() -> Error {
    Error::internal("a sink is used after its end")
}

/// Whether values of a type have all the digits that numbers are written with: not the nearest double's.
fn has_digits(data_type: DataType) -> bool {
    use DataType::{Decimal, Int16, Int32, Int64, Text};
    matches!(data_type, Int16 | Int32 | Int64 | Decimal { .. } | Text)
}

/// The answer of an INSERT.
fn inserted(rows: u64) -> Outcome {
    Outcome::done(format!("INSERT 0 {rows}"))
}

/// The columns that the values of a row go to, as indices into the table's columns.
pub(crate) fn targets(def: &TableDef, listed: Option<&[Ident]>, width: usize) -> Result<Vec<usize>> {
    let Some(listed) = listed else {
        if width > def.columns.len() {
            return Err(too_many(def, width, def.columns.len()));
        }
        // As in PostgreSQL, without a list the first columns get the values, and the rest NULL.
        return Ok((0..width).collect());
    };
    let mut targets = Vec::with_capacity(listed.len());
    for ident in listed {
        let column = def.column(&name_of(ident))?;
        let index = def.columns.iter().position(|known| known.id == column.id);
        let index = index.ok_or_else(|| Error::internal(format!("column {} is not in its table", column.name)))?;
        if targets.contains(&index) {
            return Err(Error::new(ErrorKind::DuplicateColumn, format!("column {} is listed twice", column.name)));
        }
        targets.push(index);
    }
    Ok(targets)
}

fn too_many(def: &TableDef, width: usize, wanted: usize) -> Error {
    let names: Vec<&str> = def.columns.iter().map(|column| column.name.as_str()).collect();
    Error::new(ErrorKind::Syntax, format!("INSERT INTO {} has {width} expressions for {wanted} columns", def.name))
        .with_hint(format!("the table's columns are {}", names.join(", ")))
}

/// For each column of the table the index of its source.
pub(crate) fn mapping(def: &TableDef, targets: &[usize]) -> Vec<Option<usize>> {
    (0..def.columns.len()).map(|column| targets.iter().position(|target| *target == column)).collect()
}
