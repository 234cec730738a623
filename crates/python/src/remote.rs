//! Statements of a session at a server.
//!
//! A script is cut into statements here, as it is for a database of this process: Flight SQL runs one at a time. What cannot be parsed here
//! goes to the server as it is, which may be newer, or else says what is wrong with it.

use crate::answer::{Answer, Estimate, Refining};
use crate::backend::{is_kept, superfluous};
use alluvia_client::Session;
use alluvia_query::{ScalarValue, from_datafusion};
use alluvia_syntax::{Statement, script};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{ArrayRef, RecordBatch};
use std::sync::Arc;

/// Runs a statement, or several without parameters.
pub(crate) async fn run(session: &Arc<Session>, sql: &str, values: &[ScalarValue]) -> Result<Answer> {
    let statements = script(sql).unwrap_or_default();
    let Some(((last, text), before)) = statements.split_last() else { return one(session, sql, values).await };
    if !values.is_empty() {
        if !before.is_empty() || !is_kept(last) {
            return Err(superfluous(statements.len(), values.len()));
        }
        check_count(last, values)?;
    }
    for (_, text) in before {
        // Rows of those before the last one are not asked for.
        drop(session.execute(text).await?);
    }
    one(session, text, values).await
}

/// Begins a statement whose answer is wanted as far as it is known.
pub(crate) async fn refine(session: &Arc<Session>, sql: &str, values: &[ScalarValue]) -> Result<Refining> {
    // What is not one statement the server refuses.
    if let Ok([(statement, _)]) = script(sql).as_deref() {
        check_count(statement, values)?;
    }
    let refining = match values.is_empty() {
        true => session.refine(sql).await?,
        false => session.refine_with(sql, &row_of(values)?).await?,
    };
    Ok(match refining {
        alluvia_client::Refining::Looks(refinements) => Refining::Remote(refinements),
        alluvia_client::Refining::Rows(answer) => Refining::Rows(Answer::Remote(answer, Arc::clone(session))),
    })
}

fn check_count(statement: &Statement, values: &[ScalarValue]) -> Result<()> {
    let (parameters, given) = (statement.parameters(), values.len());
    if parameters == given {
        return Ok(());
    }
    let message = format!("the statement has {parameters} parameters, and {given} values are given");
    Err(Error::new(ErrorKind::Syntax, message))
}

async fn one(session: &Arc<Session>, sql: &str, values: &[ScalarValue]) -> Result<Answer> {
    let answer = match values.is_empty() {
        true => session.execute(sql).await?,
        false => session.execute_with(sql, &row_of(values)?).await?,
    };
    match answer.is_estimate() {
        true => Ok(Answer::Estimate(Box::new(Estimate::of_server(answer.estimate().await?)))),
        false => Ok(Answer::Remote(answer, Arc::clone(session))),
    }
}

/// Values of parameters as the one row of a batch.
fn row_of(values: &[ScalarValue]) -> Result<RecordBatch> {
    let column = |(at, value): (usize, &ScalarValue)| {
        let array = value.to_array().map_err(from_datafusion);
        array.map(|array| (format!("${}", at + 1), array, true))
    };
    let columns = values.iter().enumerate().map(column).collect::<Result<Vec<(String, ArrayRef, bool)>>>()?;
    RecordBatch::try_from_iter_with_nullable(columns)
        .map_err(|error| Error::internal(format!("values make no batch: {error}")))
}
