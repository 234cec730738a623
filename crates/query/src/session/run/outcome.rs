//! The answer of a statement: its tag, its rows, its notices, and what it has used.

use crate::errors::from_datafusion;
use crate::report::Report;
use crate::used::{Used, UsedCounters};
use alluvia_copy::progress::Progress;
use alluvia_types::Result;
use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The answer of one statement.
pub struct Outcome {
    /// As PostgreSQL's command tag: `SELECT`, `INSERT 0 5`, `CREATE TABLE`, `COPY 100`.
    pub tag: String,
    /// The rows, for a statement that returns any (it may be none). Dropping the stream stops the statement. Its errors
    /// are ours, wrapped: see [`from_datafusion`](crate::from_datafusion).
    pub rows: Option<SendableRecordBatchStream>,
    notices: Vec<String>,
    used: Option<Arc<UsedCounters>>,
    origins: Arc<[Option<Origin>]>,
}

/// Where a column of an answer is from, if it is a table's as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The number of its table in `pg_class`.
    pub table_oid: u32,
    /// Its place among the table's columns, from 1 on.
    pub column: i16,
    /// The n of a VARCHAR(n), which plans do not know.
    pub chars_max: Option<u32>,
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome").field("tag", &self.tag).field("notices", &self.notices).finish_non_exhaustive()
    }
}

impl Outcome {
    /// How far its statement is, so long after it began, by what it has read of tables: while its rows are taken,
    /// whatever else its session has run since.
    pub fn report(&self, elapsed: Duration) -> Report {
        Report::new(elapsed, &Progress::default(), self.counters().as_deref())
    }

    /// A statement that returns no rows.
    pub(crate) fn done(tag: impl Into<String>) -> Outcome {
        Outcome { tag: tag.into(), rows: None, notices: Vec::new(), used: None, origins: Arc::default() }
    }

    /// A query.
    pub(crate) fn rows(tag: impl Into<String>, rows: SendableRecordBatchStream) -> Outcome {
        Outcome { tag: tag.into(), rows: Some(rows), notices: Vec::new(), used: None, origins: Arc::default() }
    }

    /// A few rows of text.
    pub(crate) fn table(tag: &str, names: &[&str], rows: Vec<Vec<Option<String>>>) -> Outcome {
        let columns = (0..names.len()).map(|column| {
            let values = rows.iter().map(|row| row[column].as_deref());
            Arc::new(values.collect::<StringViewArray>()) as ArrayRef
        });
        let columns: Vec<ArrayRef> = columns.collect();
        let fields: Vec<Field> = names.iter().map(|name| Field::new(*name, DataType::Utf8View, true)).collect();
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(Into::into);
        let rows = RecordBatchStreamAdapter::new(schema, futures::stream::once(async { batch }));
        Outcome::rows(tag, Box::pin(rows))
    }

    /// Waits until the first of its rows are there, or are known to be none: for a client that asks whether it is worth
    /// fetching. May be dropped; then the statement is, too.
    pub fn ready(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let Some(mut rows) = self.rows.take() else { return Ok(()) };
            let (schema, first) = (rows.schema(), rows.next().await);
            if let Some(Err(error)) = first {
                return Err(from_datafusion(error));
            }
            let all = futures::stream::iter(first).chain(rows);
            self.rows = Some(Box::pin(RecordBatchStreamAdapter::new(schema, all)));
            Ok(())
        })
    }

    /// An answer without rows that somebody else than the session gives.
    pub fn tagged(tag: &str) -> Outcome {
        Outcome::done(tag)
    }

    pub(crate) fn with_used(mut self, used: Arc<UsedCounters>) -> Outcome {
        self.used = Some(used);
        self
    }

    pub(crate) fn with_notice(mut self, notice: impl Into<String>) -> Outcome {
        self.notices.push(notice.into());
        self
    }

    pub(crate) fn with_origins(self, origins: Arc<[Option<Origin>]>) -> Outcome {
        Outcome { origins, ..self }
    }

    /// Where its columns are from; empty where nobody knows.
    pub fn origins(&self) -> &[Option<Origin>] {
        &self.origins
    }

    /// What counts what is read.
    pub(crate) fn counters(&self) -> Option<Arc<UsedCounters>> {
        self.used.clone()
    }

    /// Things to tell the user that are not rows, such as how many rows a COPY skipped.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// What was read of the database's tables; complete once the rows have ended. `None` for a statement that reads
    /// none.
    pub fn used(&self) -> Option<Used> {
        self.used.as_ref().map(|used| used.used())
    }

    /// All rows; none for a statement that returns none.
    pub async fn collect(self) -> Result<Vec<RecordBatch>> {
        match self.rows {
            Some(rows) => rows.try_collect().await.map_err(from_datafusion),
            None => Ok(Vec::new()),
        }
    }
}
