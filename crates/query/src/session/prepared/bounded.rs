//! Answers with the bounds of estimated values.
//!
//! Invariants:
//! - Under `max_error` with `error_action = 'escalate'` a statement is refined to its end: the last refinement has
//!   bounds, and tells all that the statement used. Every other statement runs as ever.
//! - An exact answer has no bounds.
//! - Bounds are columns after the rows' columns, of the same types: whatever carries rows carries bounds
//!   ([`Answer::with_bounds`]).

use crate::session::prepared::refined::{Refining, refine_statement};
use crate::session::prepared::{Prepared, execute_prepared};
use crate::session::run::outcome::Outcome;
use crate::session::run::refinement::Refinement;
use crate::session::run::runner::Runner;
use crate::session::settings::value;
use crate::session::statement::execute;
use alluvia_syntax::Statement;
use alluvia_types::{Error, Result};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, FieldRef, Schema};
use datafusion::common::ScalarValue;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use std::sync::Arc;

/// The settings under which a statement reads on until its estimate suffices, as refinements do.
const MAX_ERROR: &str = "max_error";
const ERROR_ACTION: &str = "error_action";

/// In the metadata of a column of bounds: which side it is, `lower` or `upper`.
pub const BOUND_SIDE: &str = "alluvia.bound";
/// In the metadata of a column of bounds: the place of the column that it bounds, from 0.
pub const BOUND_OF: &str = "alluvia.bound_of";
const LOWER: &str = "lower";
const UPPER: &str = "upper";

/// What a statement gave to somebody who wants bounds.
#[derive(Debug)]
pub enum Answer {
    /// Rows that come as they are taken, or none: exact, or of a statement that is not refined.
    Rows(Outcome),
    /// All rows, and their bounds unless they are exact; and what else the statement told, which is complete.
    Refined(Box<Refinement>, Outcome),
}

impl Answer {
    /// As rows alone. After the columns of an estimate come two for each column that has bounds, `lower_bound(name)`
    /// and `upper_bound(name)`, with [`BOUND_SIDE`] and [`BOUND_OF`] in their metadata.
    pub fn with_bounds(self) -> Result<Outcome> {
        let (refinement, mut outcome) = match self {
            Answer::Rows(outcome) => return Ok(outcome),
            Answer::Refined(refinement, outcome) => (refinement, outcome),
        };
        let rows = match refinement.is_exact() {
            true => refinement.rows,
            false => widened(&refinement)?,
        };
        let schema = rows.schema();
        let rows = futures::stream::once(async move { Ok(rows) });
        outcome.rows = Some(Box::pin(RecordBatchStreamAdapter::new(schema, rows)));
        Ok(outcome)
    }
}

/// The rows of a refinement with its bounds as columns.
fn widened(refinement: &Refinement) -> Result<RecordBatch> {
    let schema = refinement.rows.schema();
    let mut fields: Vec<FieldRef> = schema.fields().iter().cloned().collect();
    let mut columns: Vec<ArrayRef> = refinement.rows.columns().to_vec();
    for (at, (field, bounds)) in schema.fields().iter().zip(&refinement.bounds).enumerate() {
        let Some(bounds) = bounds else { continue };
        for (side, values) in [(LOWER, &bounds.lower), (UPPER, &bounds.upper)] {
            let metadata = [(BOUND_SIDE, side.to_owned()), (BOUND_OF, at.to_string())];
            let metadata = metadata.map(|(name, value)| (name.to_owned(), value));
            let name = format!("{side}_bound({})", field.name());
            fields.push(Arc::new(Field::new(name, values.data_type().clone(), true).with_metadata(metadata.into())));
            columns.push(Arc::clone(values));
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(refinement.rows.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .map_err(|error| Error::internal(format!("bounds do not fit their values: {error}")))
}

/// Whether whoever wants bounds has to have statements refined.
fn is_refined(runner: &Runner) -> Result<bool> {
    let scope = &runner.scope;
    Ok(value(scope, MAX_ERROR)? != "0" && value(scope, ERROR_ACTION)? == "escalate")
}

/// Runs a prepared statement for somebody who wants the bounds of what is estimated: under `max_error` with
/// `error_action = 'escalate'` the statement is refined until that holds.
pub(crate) async fn answer_prepared(runner: &Runner, prepared: &Prepared, values: &[ScalarValue]) -> Result<Answer> {
    match is_refined(runner)? {
        true => refined(runner, prepared.bind(values)?).await,
        false => execute_prepared(runner, prepared, values).await.map(Answer::Rows),
    }
}

/// The same of a parsed statement.
pub(crate) async fn answer_statement(runner: &Runner, statement: Statement) -> Result<Answer> {
    match is_refined(runner)? {
        true => refined(runner, statement).await,
        false => execute(runner, statement, None).await.map(|(outcome, _)| Answer::Rows(outcome)),
    }
}

/// Refines a statement to its end.
async fn refined(runner: &Runner, statement: Statement) -> Result<Answer> {
    let mut refinements = match refine_statement(runner, statement).await? {
        Refining::Rows(outcome) => return Ok(Answer::Rows(outcome)),
        Refining::Looks(refinements) => refinements,
    };
    let mut last = None;
    // To its end, which is when the statement has told all.
    while let Some(refinement) = refinements.next().await {
        last = Some(refinement?);
    }
    let last = last.ok_or_else(|| Error::internal("a statement was refined to nothing"))?;
    Ok(Answer::Refined(Box::new(last), refinements.into_outcome()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::run::refinement::{Bounds, IntervalKind};
    use arrow::array::{AsArray, Int64Array, StringArray};
    use arrow::datatypes::Int64Type;
    use futures::{FutureExt, TryStreamExt};
    use std::time::Duration;

    fn refinement(kind: IntervalKind) -> Refinement {
        let numbers = |values: [Option<i64>; 2]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
        let names: ArrayRef = Arc::new(StringArray::from(vec!["x", "y"]));
        let rows = RecordBatch::try_from_iter([("name", names), ("n", numbers([Some(10), Some(20)]))]).unwrap();
        let bounds = Bounds { lower: numbers([Some(9), None]), upper: numbers([Some(12), None]) };
        Refinement {
            rows,
            bounds: vec![None, Some(bounds)],
            look: 1,
            looks: 3,
            kind,
            confidence: 0.95,
            error: 0.2,
            fraction: 0.5,
            groups_unseen: 0,
            version: None,
            elapsed: Duration::ZERO,
            is_last: true,
        }
    }

    fn rows_of(kind: IntervalKind) -> RecordBatch {
        let answer = Answer::Refined(Box::new(refinement(kind)), Outcome::tagged("SELECT"));
        let rows = answer.with_bounds().unwrap().rows.unwrap();
        let mut batches: Vec<RecordBatch> = rows.try_collect().now_or_never().unwrap().unwrap();
        assert_eq!(batches.len(), 1);
        batches.remove(0)
    }

    #[test]
    fn bounds_of_an_estimate_are_columns_that_say_what_they_bound() {
        let rows = rows_of(IntervalKind::Planned { looks: 3 });
        let schema = rows.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["name", "n", "lower_bound(n)", "upper_bound(n)"]);
        for (at, side, values) in [(2, LOWER, [Some(9), None]), (3, UPPER, [Some(12), None])] {
            let metadata = schema.field(at).metadata();
            assert_eq!((metadata[BOUND_SIDE].as_str(), metadata[BOUND_OF].as_str()), (side, "1"));
            assert_eq!(rows.column(at).as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), values);
        }
    }

    #[test]
    fn an_exact_answer_has_none() {
        assert_eq!(rows_of(IntervalKind::Exact).num_columns(), 2);
    }
}
