//! RETURNING: a query over the rows that a statement has written, or removed.

use crate::session::change::existing::refuse_columns_of_rows;
use crate::session::change::reading::Reading;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::shown_names::{either, instead, shown_rows};
use alluvia_change::returning_query;
use alluvia_types::Result;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast::Query;

/// What RETURNING gives; it is computed before the rows are handed over, which nothing refuses then.
pub(super) struct Returned(Option<(SchemaRef, Vec<RecordBatch>)>);

impl Returned {
    /// Of these rows, in the table's storage schema, if there is a RETURNING.
    pub(super) async fn of(
        run: &Run,
        reading: &Reading,
        query: Option<&Query>,
        rows: &[RecordBatch],
    ) -> Result<Returned> {
        let Some(query) = query else { return Ok(Returned(None)) };
        refuse_columns_of_rows(run, query, "RETURNING")?;
        let read = match reading.read(run, returning_query(query)?, [reading.rows(rows)?]).await {
            Err(error) => {
                let (distinct, error) = instead(query, error)?;
                let again = reading.read(run, returning_query(&distinct)?, [reading.rows(rows)?]).await;
                again.map_err(|again| either(error, again))?
            }
            Ok(read) => read,
        };
        Ok(Returned(Some((read.schema, read.batches))))
    }

    /// The statement's answer.
    pub(super) fn outcome(self, tag: String) -> Outcome {
        let Some((schema, batches)) = self.0 else { return Outcome::done(tag) };
        let rows = futures::stream::iter(batches.into_iter().map(Ok));
        Outcome::rows(tag, shown_rows(Box::pin(RecordBatchStreamAdapter::new(schema, rows))))
    }
}
