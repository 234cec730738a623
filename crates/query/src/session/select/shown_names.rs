//! Queries of which several columns have one name.
//!
//! DataFusion refuses some of these queries. A query that was refused for its columns' names is planned again under
//! names that nobody writes ([`alluvia_syntax::told_apart`]), and its answer is shown under the names that were
//! written.
//!
//! Invariant: a name that nobody writes is neither shown nor part of an error.

use crate::execution::planning::plan_apart;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::explain::explain_as_named;
use crate::session::select::planning::logical_plan;
use crate::session::select::{query_as_named, query_at_once};
use alluvia_plan::described_types::described_schema;
use alluvia_syntax::{Hints, MARK, shown_name, told_apart};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::format::ExplainStatementOptions;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast::Query;
use futures::StreamExt;
use std::sync::Arc;

/// SELECT, VALUES, WITH.
pub(crate) async fn answer(run: &Run, query: Box<Query>, hints: &Hints) -> Result<Outcome> {
    let error = match query_as_named(run, &query, hints).await {
        Err(error) => error,
        outcome => return outcome,
    };
    let (distinct, error) = instead(&query, error)?;
    // What was described has the names that were written.
    *run.described.lock() = None;
    let mut outcome = query_at_once(run, &distinct, hints).await.map_err(|again| either(error, again))?;
    // What is kept to answer it again has the other names.
    *run.cached.lock() = None;
    outcome.rows = outcome.rows.map(shown_rows);
    Ok(outcome)
}

/// EXPLAIN [ANALYZE].
pub(crate) async fn explain(
    run: &Run,
    query: Box<Query>,
    options: ExplainStatementOptions,
    hints: &Hints,
) -> Result<Outcome> {
    let error = match explain_as_named(run, &query, options.clone(), hints).await {
        Err(error) => error,
        outcome => return outcome,
    };
    let (distinct, error) = instead(&query, error)?;
    explain_as_named(run, &distinct, options, hints).await.map_err(|again| either(error, again))
}

/// What planning a query gives, with nothing run.
pub(crate) struct PlannedColumns {
    pub(crate) schema: SchemaRef,
    /// The logical plan, if its columns have the names that were written.
    pub(crate) plan: Option<LogicalPlan>,
}

/// The columns that a query gives, with nothing run.
pub(crate) async fn columns_of(run: &Run, query: Query, hints: &Hints) -> Result<PlannedColumns> {
    let (plan, is_as_written) = plan_by_distinct_names(run, query, hints).await?;
    let described = plan_apart(run.token.clone(), async move {
        let schema = described_schema(&plan);
        Ok((schema, plan))
    });
    let (schema, plan) = described.await?;
    Ok(PlannedColumns { schema: shown_schema(&schema), plan: is_as_written.then_some(plan) })
}

/// A query's logical plan, and whether its columns have the names that were written: else they have names that nobody
/// writes.
pub(crate) async fn plan_by_distinct_names(run: &Run, query: Query, hints: &Hints) -> Result<(LogicalPlan, bool)> {
    let error = match logical_plan(run, query.clone(), hints).await {
        Err(error) => error,
        Ok(plan) => return Ok((plan, true)),
    };
    let (distinct, error) = instead(&query, error)?;
    let plan = logical_plan(run, distinct, hints).await.map_err(|again| either(error, again))?;
    Ok((plan, false))
}

/// The query that is planned instead of one that was refused for its columns' names, beside the refusal.
pub(crate) fn instead(query: &Query, error: Error) -> Result<(Query, Error)> {
    use ErrorKind::{AmbiguousColumn, DuplicateColumn, UndefinedColumn};
    let is_of_names = matches!(error.kind(), DuplicateColumn | UndefinedColumn | AmbiguousColumn);
    match is_of_names.then(|| told_apart(query)).flatten() {
        Some(distinct) => Ok((distinct, error)),
        None => Err(error),
    }
}

/// What is told of a query that was refused twice: nothing of names that nobody wrote.
pub(crate) fn either(first: Error, again: Error) -> Error {
    let is_shown = |text: &str| !text.contains(MARK);
    if is_shown(again.message()) && again.hint().is_none_or(is_shown) { again } else { first }
}

fn shown_schema(schema: &Schema) -> SchemaRef {
    let shown = |field: &Arc<Field>| match shown_name(field.name()) {
        name if name == field.name() => Arc::clone(field),
        name => Arc::new(field.as_ref().clone().with_name(name)),
    };
    let fields: Vec<Arc<Field>> = schema.fields().iter().map(shown).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Rows under the names that were written.
pub(crate) fn shown_rows(rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = shown_schema(&rows.schema());
    let of = Arc::clone(&schema);
    let rows = rows.map(move |batch| {
        let batch = batch?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let (_, columns, _) = batch.into_parts();
        Ok(RecordBatch::try_new_with_options(Arc::clone(&of), columns, &options)?)
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}
