//! The door's half for rows of programs: record batches, streams of them, and bodies of requests.

use crate::session::copy;
use crate::session::copy::append::BatchBuilder;
use crate::session::copy::body::{Ingest, Ingested, ingest, ingested_before};
use crate::session::copy::stream_in::{Appended, append_creating, append_numbered, append_stream, append_to_new};
use crate::session::door::Session;
use alluvia_catalog::RelationName;
use alluvia_snapshot::Committed;
use alluvia_space::RowPolicy;
use alluvia_syntax::Statement;
use alluvia_types::{ProducerMark, Result, Version};
use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema};
use futures::future::BoxFuture;
use futures::{Stream, StreamExt};
use std::io::Read;

impl Session {
    /// Appends rows to a table as one atomic, durable batch, visible when this returns (with `durability = sync`).
    pub async fn append(&self, table: impl Into<RelationName>, rows: Vec<RecordBatch>) -> Result<Committed> {
        self.batch().append(table, rows).commit().await
    }

    /// As [`Session::append`], numbered by a producer.
    pub async fn append_with(
        &self,
        mark: ProducerMark,
        table: impl Into<RelationName>,
        rows: Vec<RecordBatch>,
    ) -> Result<Committed> {
        self.batch().producer(mark).append(table, rows).commit().await
    }

    /// Starts a batch of rows for one or more tables. An example that runs is in the documentation of `alluvia_node`.
    pub fn batch(&self) -> BatchBuilder<'_> {
        BatchBuilder::new(&self.runner)
    }

    /// Takes all rows of `rows` into a table: as one atomic, durable batch, visible when this returns (with `durability
    /// = sync`), or into the open transaction. Columns are matched by name (exactly, else without regard to case),
    /// missing ones are NULL, values are cast as INSERT casts them. An error of `rows` ends the statement with nothing
    /// applied, and is the error given.
    pub fn append_stream<'a, S>(&'a self, table: impl Into<RelationName>, rows: S) -> BoxFuture<'a, Result<Appended>>
    where
        S: Stream<Item = Result<RecordBatch>> + Send + 'a,
    {
        self.append_stream_as(table, RowPolicy::default(), rows)
    }

    /// As [`Session::append_stream`], of rows of which this is said. In a table with a key a column `_op` says of each
    /// row what it does (`insert`, `upsert`, `patch`, `delete`): rows of one key do so in their order.
    pub fn append_stream_as<'a, S>(
        &'a self,
        table: impl Into<RelationName>,
        policy: RowPolicy,
        rows: S,
    ) -> BoxFuture<'a, Result<Appended>>
    where
        S: Stream<Item = Result<RecordBatch>> + Send + 'a,
    {
        Box::pin(append_stream(&self.runner, table.into(), policy, rows.boxed()))
    }

    /// As [`Session::append_stream`], numbered by a producer: sent again under the same number, the batch is
    /// acknowledged and not applied twice. Refused in a transaction.
    pub fn append_numbered<'a, S>(
        &'a self,
        table: impl Into<RelationName>,
        mark: ProducerMark,
        rows: S,
    ) -> BoxFuture<'a, Result<Appended>>
    where
        S: Stream<Item = Result<RecordBatch>> + Send + 'a,
    {
        self.append_numbered_as(table, mark, RowPolicy::default(), rows)
    }

    /// As [`Session::append_numbered`], of rows of which this is said.
    pub fn append_numbered_as<'a, S>(
        &'a self,
        table: impl Into<RelationName>,
        mark: ProducerMark,
        policy: RowPolicy,
        rows: S,
    ) -> BoxFuture<'a, Result<Appended>>
    where
        S: Stream<Item = Result<RecordBatch>> + Send + 'a,
    {
        Box::pin(append_numbered(&self.runner, table.into(), mark, policy, rows.boxed()))
    }

    /// As [`Session::append_stream`], into a table that the same batch creates: with a column for each field of
    /// `schema`, and without dimensions. Names become lower case, as they do in SQL, unless two would become one. If
    /// anything fails there is no table. In an open transaction table and rows are its own until COMMIT.
    pub fn append_to_new<'a, S>(
        &'a self,
        table: impl Into<RelationName>,
        schema: &'a Schema,
        rows: S,
    ) -> BoxFuture<'a, Result<Appended>>
    where
        S: Stream<Item = Result<RecordBatch>> + Send + 'a,
    {
        Box::pin(append_to_new(&self.runner, table.into(), schema, rows.boxed()))
    }

    /// As [`Session::append_stream`] where there is a table of this name, else as [`Session::append_to_new`].
    pub fn append_creating<'a, S>(
        &'a self,
        table: impl Into<RelationName>,
        schema: &'a Schema,
        rows: S,
    ) -> BoxFuture<'a, Result<Appended>>
    where
        S: Stream<Item = Result<RecordBatch>> + Send + 'a,
    {
        self.append_creating_as(table, schema, RowPolicy::default(), rows)
    }

    /// As [`Session::append_creating`], of rows of which this is said. It is refused where there is no table yet: one that
    /// is made of rows has no key.
    pub fn append_creating_as<'a, S>(
        &'a self,
        table: impl Into<RelationName>,
        schema: &'a Schema,
        policy: RowPolicy,
        rows: S,
    ) -> BoxFuture<'a, Result<Appended>>
    where
        S: Stream<Item = Result<RecordBatch>> + Send + 'a,
    {
        Box::pin(append_creating(&self.runner, table.into(), schema, policy, rows.boxed()))
    }

    /// The last batch of a producer, and its version; `None` if it has none.
    pub fn producer(&self, name: &str) -> Option<(ProducerMark, Version)> {
        self.scope().engine.ingest().producer(name)
    }

    /// The batch that had this key before; its body need not be looked at. Refuses what can be refused without the
    /// body.
    pub fn ingested_before(&self, ingest: &Ingest) -> Result<Option<Ingested>> {
        ingested_before(self.scope(), ingest)
    }

    /// Takes a body's rows as one batch. Dropping the future stops it, and nothing is applied.
    pub fn ingest(&self, body: Ingest, rows: Box<dyn Read + Send>) -> BoxFuture<'_, Result<Ingested>> {
        Box::pin(ingest(&self.runner, body, rows))
    }

    /// The columns of a table, which are everybody's to know.
    pub fn table_schema(&self, table: impl Into<RelationName>) -> Result<Schema> {
        copy::table_schema(self.scope(), &table.into())
    }

    /// The columns that the fields of a COPY FROM go to, in their order.
    pub fn copied_columns(&self, statement: &Statement) -> Result<Vec<Field>> {
        copy::copied_columns(self.scope(), statement)
    }
}
