//! The names that an answer's columns are shown under: PostgreSQL's ([`alluvia_syntax::ResultNames`]), and not those that planning
//! makes of expressions.
//!
//! DataFusion refuses some queries of which several columns have one name. A query that was refused for its columns' names is planned
//! again under names that nobody writes ([`alluvia_syntax::told_apart`]), and its answer is shown under the names that were written.
//!
//! Invariants:
//! - A name that nobody writes is neither shown nor part of an error.
//! - Whoever tells the columns of an answer, before it runs or with its rows, tells the same names ([`crate::result_names`]).

use crate::execution::planning::plan_apart;
use crate::result_names::{named_schema, renamed};
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::explain::explain_as_named;
use crate::session::select::planning::logical_plan;
use crate::session::select::query_as_named;
use alluvia_catalog::RelationName;
use alluvia_plan::described_types::described_schema;
use alluvia_syntax::trees::dependent_columns::{self, Keyed};
use alluvia_syntax::{Hints, MARK, told_apart};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::datatypes::SchemaRef;
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
    let (distinct, error) = instead(run, &query, error)?;
    // What was described has the names that were written.
    *run.described.lock() = None;
    let outcome = query_as_named(run, &distinct, hints).await.map_err(|again| either(error, again))?;
    // What is kept to answer it again has the other names.
    *run.cached.lock() = None;
    Ok(outcome)
}

/// An answer under the names that its columns are shown with.
pub(crate) fn named(run: &Run, mut outcome: Outcome) -> Outcome {
    outcome.rows = outcome.rows.map(|rows| named_rows(run, rows));
    outcome
}

/// The same of rows alone.
pub(crate) fn named_rows(run: &Run, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let planned = rows.schema();
    let schema = named_schema(&planned, run.names.get().map(AsRef::as_ref));
    if Arc::ptr_eq(&schema, &planned) {
        return rows;
    }
    let of = Arc::clone(&schema);
    let rows = rows.map(move |batch| Ok(renamed(batch?, &of)?));
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
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
    let (distinct, error) = instead(run, &query, error)?;
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
        let schema = Arc::new(described_schema(&plan));
        Ok((schema, plan))
    });
    let (schema, plan) = described.await?;
    let schema = named_schema(&schema, run.names.get().map(AsRef::as_ref));
    Ok(PlannedColumns { schema, plan: is_as_written.then_some(plan) })
}

/// A query's logical plan, and whether its columns have the names that were written: else they have names that nobody
/// writes.
pub(crate) async fn plan_by_distinct_names(run: &Run, query: Query, hints: &Hints) -> Result<(LogicalPlan, bool)> {
    let error = match logical_plan(run, query.clone(), hints).await {
        Err(error) => error,
        Ok(plan) => return Ok((plan, true)),
    };
    let (distinct, error) = instead(run, &query, error)?;
    let plan = logical_plan(run, distinct, hints).await.map_err(|again| either(error, again))?;
    Ok((plan, false))
}

/// The query that is planned instead of one that was refused for its columns' names, or for columns that depend on what it groups by, beside
/// the refusal.
pub(crate) fn instead(run: &Run, query: &Query, error: Error) -> Result<(Query, Error)> {
    use ErrorKind::{AmbiguousColumn, DuplicateColumn, NotGrouped, UndefinedColumn};
    if error.kind() == NotGrouped {
        let mut grouped = query.clone();
        return if group_dependent(run, &mut grouped)? { Ok((grouped, error)) } else { Err(error) };
    }
    let is_of_names = matches!(error.kind(), DuplicateColumn | UndefinedColumn | AmbiguousColumn);
    match is_of_names.then(|| told_apart(query)).flatten() {
        Some(distinct) => Ok((distinct, error)),
        None => Err(error),
    }
}

/// Adds columns to the groups of a query that depend on these; whether there were any.
fn group_dependent(run: &Run, query: &mut Query) -> Result<bool> {
    let resolver = run.scope.resolver()?;
    let keyed = |name: &RelationName| {
        let catalog = resolver.catalog();
        if catalog.view(name, resolver.path()).is_some() {
            return None;
        }
        let def = &catalog.found(name, resolver.path())?.def;
        let name = |at: usize| def.columns[at].name.clone();
        let key = def.key_columns()?.into_iter().map(name).collect();
        Some(Keyed { key, columns: def.columns.iter().map(|column| column.name.clone()).collect() })
    };
    Ok(dependent_columns::group(query, &keyed))
}

/// What is told of a query that was refused twice: nothing of names that nobody wrote.
pub(crate) fn either(first: Error, again: Error) -> Error {
    let is_shown = |text: &str| !text.contains(MARK);
    if is_shown(again.message()) && again.hint().is_none_or(is_shown) { again } else { first }
}
