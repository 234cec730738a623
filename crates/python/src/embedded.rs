//! Statements of a database that is open in this process.

use crate::answer::{Answer, Estimate, Refining};
use crate::backend::{Taken, is_kept, superfluous};
use crate::database::Shared;
use crate::progress::{ProgressRow, of_last, of_report};
use alluvia_query::{Prepared, ScalarValue, Session};
use alluvia_space::RowPolicy;
use alluvia_syntax::names::RelationName;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::Stream;

fn prepare(session: &Session, shared: &Shared, sql: &str) -> Result<Prepared> {
    if let Some(prepared) = shared.prepared(sql) {
        return Ok(prepared);
    }
    let prepared = session.prepare(sql)?;
    if is_kept(prepared.statement()) {
        shared.keep_prepared(sql, &prepared);
    }
    Ok(prepared)
}

/// Begins a statement whose answer is wanted as far as it is known.
pub(crate) async fn refine(session: &Session, shared: &Shared, sql: &str, values: &[ScalarValue]) -> Result<Refining> {
    Ok(match session.refine_prepared(&prepare(session, shared, sql)?, values).await? {
        alluvia_query::Refining::Looks(refinements) => Refining::Looks(refinements),
        alluvia_query::Refining::Rows(outcome) => Refining::Rows(Answer::Rows(outcome)),
    })
}

/// Runs a statement, or several without parameters.
pub(crate) async fn run(session: &Session, shared: &Shared, sql: &str, values: &[ScalarValue]) -> Result<Answer> {
    if let Some(prepared) = shared.prepared(sql) {
        return answer(session, &prepared, values).await;
    }
    let statements = session.parse(sql)?;
    if let [statement] = statements.as_slice()
        && is_kept(statement)
    {
        return answer(session, &prepare(session, shared, sql)?, values).await;
    }
    if !values.is_empty() {
        return Err(superfluous(statements.len(), values.len()));
    }
    let mut last = None;
    for statement in statements {
        // Rows of those before the last one are not asked for.
        last = Some(session.execute(statement).await?);
    }
    last.map(Answer::Rows).ok_or_else(|| Error::new(ErrorKind::Syntax, "there is no statement to run"))
}

async fn answer(session: &Session, prepared: &Prepared, values: &[ScalarValue]) -> Result<Answer> {
    Ok(match session.answer_prepared(prepared, values).await? {
        alluvia_query::Answer::Rows(outcome) => Answer::Rows(outcome),
        alluvia_query::Answer::Refined(refinement, outcome) => {
            Answer::Estimate(Box::new(Estimate::new(*refinement, &outcome)))
        }
    })
}

/// Takes rows into a table. With `created`, one that does not exist comes in the same batch, with columns like these.
pub(crate) async fn append<S>(
    session: &Session,
    table: RelationName,
    created: Option<SchemaRef>,
    policy: RowPolicy,
    rows: S,
) -> Result<Taken>
where
    S: Stream<Item = Result<RecordBatch>> + Send + 'static,
{
    let taken = match created {
        None => session.append_stream_as(table, policy, rows).await?,
        Some(schema) => session.append_creating_as(table, &schema, policy, rows).await?,
    };
    Ok((taken.rows, taken.committed.map(|committed| committed.version.0)))
}

/// `idle`, `open` or `failed`.
pub(crate) fn transaction(session: &Session) -> &'static str {
    session.transaction_status().name()
}

/// How far the running statement is, or the last one.
pub(crate) fn progress(session: &Session) -> ProgressRow {
    session.report().map_or_else(|| of_last(&session.progress()), |report| of_report(&report))
}
