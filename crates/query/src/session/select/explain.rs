//! EXPLAIN, and EXPLAIN ANALYZE, which runs the statement and shows what it took ([`explained`](super::explained) has the words).
//!
//! Invariants:
//! - What is explained is done as it would be without EXPLAIN: by the index where the index answers it, else by its plan. But for short ways
//!   that are kept or drawn for statements alone: those of point reads, and the outlines of samples.
//! - EXPLAIN ANALYZE ends with what the whole statement used, also where nothing of a table is left in the plan: version, lag and stage are
//!   those of the answer.
//! - A FORMAT is the planner's, and shows a plan.

use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::run::refinement::Since;
use crate::session::select::explained::{IndexRun, PlanRun, Row, by_index, by_plan, in_full};
use crate::session::select::indexed::{WhyPlanned, find, ready_or_planned};
use crate::session::select::planning::{accuracy_of, plan_tree};
use crate::used::UsedCounters;
use alluvia_syntax::Hints;
use alluvia_types::Result;
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::format::{ExplainFormat, ExplainStatementOptions};
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::{ExplainStatement, Statement as Tree};
use datafusion::sql::sqlparser::ast::{self, Query};
use futures::{StreamExt, TryStreamExt, stream};
use std::sync::Arc;

/// EXPLAIN [ANALYZE], under the names that the query's columns have.
pub(crate) async fn explain_as_named(
    run: &Run,
    query: &Query,
    options: ExplainStatementOptions,
    hints: &Hints,
) -> Result<Outcome> {
    match (options.analyze, options.verbose, &options.format) {
        (true, verbose, None) => analyzed(run, query, options, verbose, hints).await,
        (false, false, None) => match ready_or_planned(run, query, hints).await? {
            Ok(ready) => {
                let row = ("physical_plan".to_owned(), format!("IndexAnswer: {}", ready.bound.describe()));
                table(vec![row]).map(|rows| Outcome::rows("EXPLAIN", rows))
            }
            Err(_) => planned(run, query, options, hints).await,
        },
        _ => planned(run, query, options, hints).await,
    }
}

/// EXPLAIN ANALYZE without a format.
async fn analyzed(
    run: &Run,
    query: &Query,
    options: ExplainStatementOptions,
    verbose: bool,
    hints: &Hints,
) -> Result<Outcome> {
    let since = Since::now(run.engine().read().clock());
    let why = match ready_or_planned(run, query, hints).await? {
        Err(why) => why,
        Ok(ready) => {
            let planning = since.elapsed();
            match find(run, &ready).await? {
                None => WhyPlanned::by_value(&ready),
                Some(found) => {
                    let (used, total) = (Arc::clone(&found.used), since.elapsed());
                    let rows = match verbose {
                        true => in_full(&ready, &found),
                        false => by_index(run, query, &IndexRun { ready: &ready, found: &found, planning, total }),
                    };
                    return Ok(Outcome::rows("EXPLAIN", table(rows)?).with_used(used));
                }
            }
        }
    };
    if verbose {
        return planned(run, query, options, hints).await;
    }
    let tree = Tree::Statement(Box::new(ast::Statement::Query(Box::new(query.clone()))));
    let plan = plan_tree(run, tree, hints, accuracy_of(run)).await?;
    let (used, planning) = (plan.used(), since.elapsed());
    let (mut rows, watched) = plan.execute_watched()?;
    let of = PlanRun::new(run, hints, why.text(), Arc::clone(&used))?;
    let told = async move {
        while rows.try_next().await?.is_some() {}
        // Operators tell their last figures when they are let go.
        drop(rows);
        let told = by_plan(&of, watched.plan().as_ref(), planning, since.elapsed());
        batch(&schema(), told)
    };
    let rows = RecordBatchStreamAdapter::new(schema(), stream::once(told));
    Ok(Outcome::rows("EXPLAIN", Box::pin(rows)).with_used(used))
}

/// The planner's own EXPLAIN.
async fn planned(run: &Run, query: &Query, options: ExplainStatementOptions, hints: &Hints) -> Result<Outcome> {
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
    let told = move || used.used().of_tables.then(|| batch(&of, vec![("Used".to_owned(), used.used().to_string())]));
    let last = stream::once(async move { told() });
    let all = rows.chain(last.filter_map(std::future::ready));
    Box::pin(RecordBatchStreamAdapter::new(schema, all))
}

/// The columns of EXPLAIN.
fn schema() -> SchemaRef {
    let text = |name| Field::new(name, DataType::Utf8, false);
    Arc::new(Schema::new(vec![text("plan_type"), text("plan")]))
}

fn batch(schema: &SchemaRef, rows: Vec<Row>) -> Result<RecordBatch, DataFusionError> {
    let (kinds, texts): (Vec<String>, Vec<String>) = rows.into_iter().unzip();
    let columns = [kinds, texts].map(|texts| Arc::new(StringArray::from(texts)) as ArrayRef);
    Ok(RecordBatch::try_new(Arc::clone(schema), columns.to_vec())?)
}

fn table(rows: Vec<Row>) -> Result<SendableRecordBatchStream> {
    let batch = batch(&schema(), rows).map_err(|error| crate::errors::error_of(&error))?;
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema(), stream::once(async { Ok(batch) }))))
}
