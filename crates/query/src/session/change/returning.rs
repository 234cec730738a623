//! RETURNING: a query over the rows that a statement has written, or removed.

use crate::session::change::existing::refuse_columns_of_rows;
use crate::session::change::reading::Reading;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::shown_names::{either, instead};
use alluvia_change::returning_query;
use alluvia_types::Result;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast::Query;
use std::sync::Arc;

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
        let Some(query) = query else { return Ok(Returned::nothing()) };
        Returned::by(run, reading, query, returning_query, || Ok(vec![reading.rows(rows)?])).await
    }

    /// Where there is no RETURNING.
    pub(super) fn nothing() -> Returned {
        Returned(None)
    }

    /// What a RETURNING gives of what is given to it, as a query that is made of its own.
    pub(super) async fn by(
        run: &Run,
        reading: &Reading,
        query: &Query,
        made: impl Fn(&Query) -> Result<Box<Query>>,
        given: impl Fn() -> Result<Vec<(&'static str, Arc<dyn TableProvider>)>>,
    ) -> Result<Returned> {
        refuse_columns_of_rows(run, query, "RETURNING")?;
        let read = match reading.read(run, made(query)?, given()?).await {
            Err(error) => {
                let (distinct, error) = instead(run, query, error)?;
                let again = reading.read(run, made(&distinct)?, given()?).await;
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
        Outcome::rows(tag, Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
