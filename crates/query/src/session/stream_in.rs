//! Rows that come batch by batch, however many: one atomic batch, in bounded memory.
//!
//! Invariants:
//! - All rows or none: a batch that cannot be read or does not fit ends the statement, and what was staged is dropped.
//! - Batches may differ in their schemas (a program that sends what it has): each is matched by name on its own.
//! - In an open transaction the rows are its own until COMMIT; they are in memory, and bounded. Whatever is wrong with them, or with
//!   their schema or their table, fails it, as an INSERT's error does: all of it is looked at within the statement.
//! - Rows with a producer's number of their own are a batch of its own: outside of a transaction, whose COMMIT has its number.
//! - Rows that share their values come in pieces, which are bounded by what they come to when each is written out: however often a batch
//!   names one value, no more memory is taken at a time.
//! - When a call returns, nothing of the memory that the rows came in is held: it may be another library's.

use crate::execution::blocking::blocking;
use crate::rights::{INSERT, Need};
use crate::session::core::{Run, Session};
use crate::session::insert::INLINE_BYTES_MAX;
use crate::session::outcome::Outcome;
use alluvia_catalog::TableEntry;
use alluvia_catalog::rights::Privilege;
use alluvia_copy::progress::Phase;
use alluvia_copy::{Assigner, Sink, Wanted, infer_schema};
use alluvia_snapshot::{Committed, NewBatch};
use alluvia_space::ColumnType;
use alluvia_syntax::statements::definitions::{WithOptions, define};
use alluvia_types::{Error, ErrorKind, ProducerMark, Result, Version};
use alluvia_values::builders::TextAs;
use alluvia_values::compact::compact;
use alluvia_values::widths::pieces;
use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use std::sync::Arc;

/// What [`Session::append_stream`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Appended {
    /// Rows taken.
    pub rows: u64,
    /// The batch; `None` if there were no rows, or if they wait for the transaction's COMMIT.
    pub committed: Option<Committed>,
}

/// What comes, batch by batch.
type Rows<'a> = BoxStream<'a, Result<RecordBatch>>;

/// Casts batches of changing schemas; knows how many rows came before, so that errors name the row of the whole.
struct Matched<'a> {
    entry: &'a TableEntry,
    known: Option<(SchemaRef, Assigner)>,
    rows: u64,
}

impl Matched<'_> {
    fn assign(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let def = &self.entry.def;
        let assigner = match &self.known {
            Some((schema, assigner)) if schema == batch.schema_ref() => assigner,
            _ => {
                let schema = batch.schema();
                let names = schema.fields().iter().map(|field| field.name().as_str());
                let columns: Vec<&str> = def.columns.iter().map(|column| column.name.as_str()).collect();
                let hint = format!("the table's columns are {}", columns.join(", "));
                let targets = Wanted::new(def, &[])?.by_name(def, names, "the data");
                let targets = targets.map_err(|error| error.with_hint(hint))?;
                let place = |column| targets.iter().position(|target| *target == Some(column));
                let mapping: Vec<Option<usize>> = (0..def.columns.len()).map(place).collect();
                let assigner = Assigner::new(&schema, def, &mapping, TextAs::Plain)?;
                &self.known.insert((schema, assigner)).1
            }
        };
        let assigned = assigner.assign_from(batch, self.rows)?;
        self.rows += batch.num_rows() as u64;
        Ok(assigned)
    }
}

impl Session {
    /// Takes all rows of `rows` into a table: as one atomic, durable batch, visible when this returns (with `durability = sync`),
    /// or into the open transaction. Columns are matched by name (exactly, else without regard to case), missing ones are NULL,
    /// values are cast as INSERT casts them. An error of `rows` ends the statement with nothing applied, and is the error given.
    pub fn append_stream<'a, S>(&'a self, table: &'a str, rows: S) -> BoxFuture<'a, Result<Appended>>
    where
        S: Stream<Item = Result<RecordBatch>> + Send + 'a,
    {
        let (rows, text) = (rows.boxed(), format!("/* rows from a program into */ {table}"));
        self.appending(text, move |run| async move { self.append_rows(&run, table, None, rows).await })
    }

    /// As [`Session::append_stream`], numbered by a producer: sent again under the same number, the batch is acknowledged and not
    /// applied twice. Refused in a transaction.
    pub fn append_numbered<'a, S>(
        &'a self,
        table: &'a str,
        mark: ProducerMark,
        rows: S,
    ) -> BoxFuture<'a, Result<Appended>>
    where
        S: Stream<Item = Result<RecordBatch>> + Send + 'a,
    {
        let (rows, text) = (rows.boxed(), format!("/* numbered rows from a program into */ {table}"));
        self.appending(text, move |run| async move {
            self.check_outside("a numbered batch")?;
            self.append_rows(&run, table, Some(mark), rows).await
        })
    }

    /// The last batch of a producer, and its version; `None` if it has none.
    pub fn producer(&self, name: &str) -> Option<(ProducerMark, Version)> {
        self.engine.ingest().producer(name)
    }

    /// Runs what takes rows as a statement.
    fn appending<'a, F, W>(&'a self, text: String, work: F) -> BoxFuture<'a, Result<Appended>>
    where
        F: FnOnce(Arc<Run>) -> W + Send + 'a,
        W: Future<Output = Result<Appended>> + Send + 'a,
    {
        Box::pin(async move {
            let appended = Mutex::new(None);
            let place = &appended;
            self.run(&text, |run| async move {
                *place.lock() = Some(work(run).await?);
                Ok(Outcome::tagged("INGEST"))
            })
            .await?;
            appended.into_inner().ok_or_else(|| Error::internal("rows were taken without a count"))
        })
    }

    async fn append_rows(
        &self,
        run: &Arc<Run>,
        table: &str,
        producer: Option<ProducerMark>,
        rows: Rows<'_>,
    ) -> Result<Appended> {
        self.check_usable()?;
        self.check_writable("INSERT")?;
        // The table may be this session's own, and with `durability = relaxed` not visible yet.
        self.await_own_writes().await?;
        let entry = self.table_for(INSERT, table)?;
        if self.is_open()? {
            return self.append_pending(run, &entry, rows).await;
        }
        self.append_batch(run, &entry, NewBatch { producer, ..NewBatch::default() }, rows).await
    }

    /// As [`Session::append_stream`], into a table that the same batch creates: with a column for each field of `schema`, and
    /// without dimensions. Names become lower case, as they do in SQL, unless two would become one. If anything fails there is no
    /// table. In an open transaction table and rows are its own until COMMIT.
    pub fn append_to_new<'a, S>(
        &'a self,
        table: &'a str,
        schema: &'a Schema,
        rows: S,
    ) -> BoxFuture<'a, Result<Appended>>
    where
        S: Stream<Item = Result<RecordBatch>> + Send + 'a,
    {
        let (rows, text) = (rows.boxed(), format!("/* rows from a program into new */ {table}"));
        self.appending(text, move |run| async move { self.append_rows_to_new(&run, table, schema, rows).await })
    }

    /// As [`Session::append_stream`] where there is a table of this name, else as [`Session::append_to_new`].
    pub fn append_creating<'a, S>(
        &'a self,
        table: &'a str,
        schema: &'a Schema,
        rows: S,
    ) -> BoxFuture<'a, Result<Appended>>
    where
        S: Stream<Item = Result<RecordBatch>> + Send + 'a,
    {
        let (rows, text) = (rows.boxed(), format!("/* rows from a program into, or into new */ {table}"));
        self.appending(text, move |run| async move {
            self.check_usable()?;
            // The table may be this session's own, and with `durability = relaxed` not visible yet.
            self.await_own_writes().await?;
            match self.table_for(Need::Definition, table) {
                Ok(_) => self.append_rows(&run, table, None, rows).await,
                Err(error) if error.kind() == ErrorKind::UndefinedTable => {
                    self.append_rows_to_new(&run, table, schema, rows).await
                }
                Err(error) => Err(error),
            }
        })
    }

    async fn append_rows_to_new(
        &self,
        run: &Arc<Run>,
        table: &str,
        schema: &Schema,
        rows: Rows<'_>,
    ) -> Result<Appended> {
        self.check_usable()?;
        self.check_writable("CREATE TABLE")?;
        let inferred = infer_schema(schema, "the data")?;
        let columns = inferred
            .columns
            .into_iter()
            .map(|column| (column.name, ColumnType::from(column.data_type), column.nullable));
        let columns: Vec<_> = columns.collect();
        self.await_own_writes().await?;
        if self.table_for(Need::Definition, table).is_ok() {
            return Err(Error::new(ErrorKind::DuplicateTable, format!("table '{table}' already exists"))
                .with_hint("append to it, choose another name, or drop the table first"));
        }
        self.authoriser().database(Privilege::Create)?;
        let id = self.engine.ingest().new_table_id();
        let def = define(id, table, &columns, &WithOptions::default(), self.seed(id))?;
        if self.is_open()? {
            let entry = TableEntry::new(Arc::new(def.clone()), Version(0));
            let (count, rows) = self.held_rows(run, &entry, rows).await?;
            run.progress.add_rows(count);
            self.create_with(run, def, rows).await?;
            return Ok(Appended { rows: count, committed: None });
        }
        let batch = NewBatch { changes: self.creating(def.clone())?, ..NewBatch::default() };
        // The version is ignored for a table that the same batch creates.
        let entry = Arc::new(TableEntry::new(Arc::new(def), Version(0)));
        self.append_batch(run, &entry, batch, rows).await
    }

    /// Adds the rows to `batch` and commits it, unless it is empty.
    async fn append_batch(
        &self,
        run: &Arc<Run>,
        entry: &Arc<TableEntry>,
        mut batch: NewBatch,
        mut rows: Rows<'_>,
    ) -> Result<Appended> {
        let inline_bytes_max = INLINE_BYTES_MAX.min(self.engine.admin().info().tail_bytes_max / 8);
        let ingest = Arc::clone(self.engine.ingest());
        let mut sink = Sink::new(ingest, Arc::clone(&entry.def), entry.changed_at, inline_bytes_max as usize);
        let mut matched = Matched { entry, known: None, rows: 0 };
        run.progress.set_phase(Phase::Running);
        while let Some(next) = rows.next().await {
            let next = next?;
            run.token.check()?;
            if next.num_rows() == 0 {
                continue;
            }
            for piece in pieces(&next, Some(matched.rows))? {
                run.token.check()?;
                let piece = matched.assign(&piece)?;
                run.progress.add_rows(piece.num_rows() as u64);
                sink = blocking(move || {
                    sink.append(piece)?;
                    Ok(sink)
                })
                .await?;
            }
        }
        // A batch may have to wait until what statements hold is given back: not for its own source.
        drop(rows);
        run.token.check()?;
        run.progress.set_phase(Phase::Finishing);
        blocking(move || sink.finish()).await?.add_to(&mut batch);
        let is_empty = matched.rows == 0 && batch.changes.is_empty() && batch.producer.is_none();
        let committed = match is_empty {
            true => self.submit_empty(run).await?,
            false => Some(self.submit(run, batch).await?),
        };
        Ok(Appended { rows: matched.rows, committed })
    }

    async fn append_pending(&self, run: &Arc<Run>, entry: &Arc<TableEntry>, rows: Rows<'_>) -> Result<Appended> {
        let (count, rows) = self.held_rows(run, entry, rows).await?;
        self.write(run, entry, rows).await?;
        Ok(Appended { rows: count, committed: None })
    }

    /// All rows, and how many: who drops this in the middle leaves the transaction as it was.
    async fn held_rows(&self, run: &Run, entry: &TableEntry, mut rows: Rows<'_>) -> Result<(u64, Vec<RecordBatch>)> {
        let mut matched = Matched { entry, known: None, rows: 0 };
        let mut held = self.held();
        while let Some(next) = rows.next().await {
            let next = next?;
            run.token.check()?;
            for piece in pieces(&next, Some(matched.rows))? {
                run.token.check()?;
                // Copied: until COMMIT whoever sent it may do as they please with its memory.
                held.push(compact(&matched.assign(&piece)?)?)?;
            }
        }
        Ok((matched.rows, held.batches))
    }
}
