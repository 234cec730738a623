//! EXPLAIN of planned queries; [`explain_by_index`] explains what the index answers.
//!
//! Invariant: EXPLAIN ANALYZE ends with what the whole statement used, also where nothing of a table is left in the
//! plan: version, lag and stage are those of the answer.

use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::indexed::explain_by_index;
use crate::session::select::planning::{accuracy_of, plan_tree};
use crate::used::UsedCounters;
use alluvia_syntax::Hints;
use alluvia_types::Result;
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use datafusion::common::format::{ExplainFormat, ExplainStatementOptions};
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::{ExplainStatement, Statement as Tree};
use datafusion::sql::sqlparser::ast::{self, Query};
use futures::{StreamExt, stream};
use std::sync::Arc;

/// EXPLAIN [ANALYZE], under the names that the query's columns have.
pub(crate) async fn explain_as_named(
    run: &Run,
    query: &Query,
    options: ExplainStatementOptions,
    hints: &Hints,
) -> Result<Outcome> {
    if let Some(outcome) = explain_by_index(run, query, &options, hints).await? {
        return Ok(outcome);
    }
    let is_of_lines = options.format.as_ref().is_none_or(|format| *format == ExplainFormat::Indent);
    let tells_use = options.analyze && is_of_lines;
    let statement = Box::new(Tree::Statement(Box::new(ast::Statement::Query(Box::new(query.clone())))));
    let tree = Tree::Explain(ExplainStatement { options, statement });
    let planned = plan_tree(run, tree, hints, accuracy_of(run)).await?;
    let (rows, used) = (planned.execute()?, planned.used());
    let rows = if tells_use { with_use(rows, Arc::clone(&used)) } else { rows };
    Ok(Outcome::rows("EXPLAIN", rows).with_used(used))
}

/// The rows of a plan with figures, and one more for the statement, if it reads tables.
fn with_use(rows: SendableRecordBatchStream, used: Arc<UsedCounters>) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let of = Arc::clone(&schema);
    let last = stream::once(async move { used.used().of_tables.then(|| use_of(&of, &used)) });
    let all = rows.chain(last.filter_map(std::future::ready));
    Box::pin(RecordBatchStreamAdapter::new(schema, all))
}

fn use_of(schema: &SchemaRef, used: &UsedCounters) -> Result<RecordBatch, DataFusionError> {
    let text = |text: &str| Arc::new(StringArray::from(vec![text])) as ArrayRef;
    let columns = vec![text("Used"), text(&used.used().to_string())];
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}
