//! Refinements: an answer that is sent again and again, better each time.
//!
//! Invariants:
//! - All refinements of a statement have one schema: the answer's columns, and after them the two bounds of each that may be estimated,
//!   which are NULL where a refinement has none.
//! - A refinement is all of its rows, in one message or several; the last of these says in `app_metadata` how sure it is. After the last
//!   refinement comes what comes after any answer's rows.
//! - The schema's metadata says that refinements come; where it does not, the statement is never estimated and its rows come as ever.

use crate::plain_types::{plain_batches, plain_schema};
use alluvia_query::{BOUND_OF, BOUND_SIDE, Outcome, Refinement, Refinements};
use alluvia_types::{Error, Result};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use arrow_flight::FlightData;
use arrow_flight::utils::batches_to_flight_data;
use futures::StreamExt;
use serde_json::{Value, json};
use std::sync::Arc;

/// In the metadata of a schema: that its rows are refinements.
const REFINEMENTS: &str = "alluvia.refinements";
const COME: &str = "on";
/// Bytes of rows that a message has, about: many clients take four megabytes at most.
const PIECE_BYTES: usize = 2 << 20;

/// A statement that is being refined.
pub(crate) struct RefinedAnswer {
    /// It is known before its schema is told.
    first: Option<Refinement>,
    rest: Refinements,
    /// The places of the columns that have bounds.
    bounded: Vec<usize>,
    /// As it is sent.
    schema: SchemaRef,
}

impl RefinedAnswer {
    /// Waits for the first refinement, which says which columns have bounds.
    pub(crate) async fn begin(mut rest: Refinements) -> Result<RefinedAnswer> {
        let first = rest.next().await.transpose()?;
        let first = first.ok_or_else(|| Error::internal("a statement was refined to nothing"))?;
        let rows = rest.schema().map_or_else(|| first.rows.schema(), Arc::clone);
        let bounded = first.bounds.iter().enumerate().filter_map(|(at, bounds)| bounds.as_ref().map(|_| at));
        let bounded: Vec<usize> = bounded.collect();
        let (tag, used) = (&rest.outcome().tag, rest.outcome().used());
        let schema = plain_schema(&widened(&rows, &bounded), tag, used).as_ref().clone();
        let mut metadata = schema.metadata.clone();
        metadata.insert(REFINEMENTS.to_owned(), COME.to_owned());
        let schema = Arc::new(schema.with_metadata(metadata));
        Ok(RefinedAnswer { first: Some(first), rest, bounded, schema })
    }

    /// The columns that are sent.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// What the statement tells beside; complete after the last refinement.
    pub(crate) fn outcome(&self) -> &Outcome {
        self.rest.outcome()
    }

    /// Works until there is a better one.
    pub(crate) async fn next(&mut self) -> Option<Result<Refinement>> {
        match self.first.take() {
            Some(first) => Some(Ok(first)),
            None => self.rest.next().await,
        }
    }

    /// A refinement as it is sent; the schema comes with the first one alone.
    pub(crate) fn messages(&self, refinement: &Refinement, is_first: bool) -> Result<Vec<FlightData>> {
        let batches = plain_batches(&with_bounds(refinement, &self.bounded)?, &self.schema)?;
        let batches = batches.iter().flat_map(in_pieces).collect();
        let mut messages = batches_to_flight_data(&self.schema, batches)
            .map_err(|error| Error::internal(format!("a refinement could not be encoded: {error}")))?;
        if !is_first {
            messages.remove(0);
        }
        if let Some(last) = messages.last_mut() {
            last.app_metadata = figures(refinement).to_string().into();
        }
        Ok(messages)
    }
}

/// Pieces of some two megabytes, as other answers come in; of no rows one piece.
fn in_pieces(batch: &RecordBatch) -> Vec<RecordBatch> {
    let rows = batch.num_rows();
    let pieces = batch.get_array_memory_size().div_ceil(PIECE_BYTES).max(1);
    let most = rows.div_ceil(pieces).max(1);
    (0..rows.max(1)).step_by(most).map(|at| batch.slice(at, most.min(rows - at))).collect()
}

/// The answer's columns, and those of bounds.
fn widened(rows: &Schema, bounded: &[usize]) -> Schema {
    let mut fields: Vec<FieldRef> = rows.fields().iter().cloned().collect();
    for &at in bounded {
        let field = rows.field(at);
        for side in ["lower", "upper"] {
            let metadata = [(BOUND_SIDE, side.to_owned()), (BOUND_OF, at.to_string())];
            let metadata = metadata.map(|(name, value)| (name.to_owned(), value));
            let name = format!("{side}_bound({})", field.name());
            fields.push(Arc::new(Field::new(name, field.data_type().clone(), true).with_metadata(metadata.into())));
        }
    }
    Schema::new(fields)
}

/// The rows of a refinement, with its bounds as columns.
fn with_bounds(refinement: &Refinement, bounded: &[usize]) -> Result<RecordBatch> {
    let rows = &refinement.rows;
    let mut columns: Vec<ArrayRef> = rows.columns().to_vec();
    for &at in bounded {
        let bounds = refinement.bounds.get(at).and_then(Option::as_ref);
        let nothing = || new_null_array(rows.column(at).data_type(), rows.num_rows());
        columns.push(bounds.map_or_else(nothing, |bounds| Arc::clone(&bounds.lower)));
        columns.push(bounds.map_or_else(nothing, |bounds| Arc::clone(&bounds.upper)));
    }
    let field = |column: &ArrayRef| Field::new("", column.data_type().clone(), true);
    let fields: Vec<Field> = columns.iter().map(field).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .map_err(|error| Error::internal(format!("bounds do not fit their values: {error}")))
}

/// How sure a refinement is; the names are those of HTTP's events.
fn figures(refinement: &Refinement) -> Value {
    json!({ "refinement": {
        "look": refinement.look,
        "looks": refinement.looks,
        "is_exact": refinement.is_exact(),
        "is_last": refinement.is_last,
        "fraction": refinement.fraction,
        "error": refinement.error.is_finite().then_some(refinement.error),
        "confidence": refinement.confidence,
        "groups_unseen": refinement.groups_unseen,
        "version": refinement.version.map(|version| version.0),
        "elapsed_seconds": refinement.elapsed.as_secs_f64(),
    } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_query::{Bounds, IntervalKind};
    use alluvia_types::Version;
    use arrow::array::{Array, AsArray, Int64Array, StringViewArray};
    use arrow::datatypes::Int64Type;
    use std::time::Duration;

    fn refinement(bounds: Option<[i64; 2]>) -> Refinement {
        let numbers = |value: i64| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
        let names: ArrayRef = Arc::new(StringViewArray::from(vec!["a text that does not fit into a view"]));
        let bounds = bounds.map(|[lower, upper]| Bounds { lower: numbers(lower), upper: numbers(upper) });
        Refinement {
            rows: RecordBatch::try_from_iter([("name", names), ("n", numbers(10))]).unwrap(),
            bounds: vec![None, bounds],
            look: 1,
            looks: 3,
            kind: IntervalKind::Planned { looks: 3 },
            confidence: 0.95,
            error: f64::INFINITY,
            fraction: 0.5,
            groups_unseen: 2,
            version: Some(Version(7)),
            elapsed: Duration::from_millis(1_500),
            is_last: false,
        }
    }

    #[test]
    fn refinements_have_one_schema_whether_they_have_bounds_or_not() {
        let schema = widened(&refinement(None).rows.schema(), &[1]);
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["name", "n", "lower_bound(n)", "upper_bound(n)"]);
        assert_eq!(schema.field(3).metadata()[BOUND_SIDE], "upper");
        assert_eq!(schema.field(3).metadata()[BOUND_OF], "1");
        let plain = plain_schema(&schema, "SELECT", None);
        for (bounds, wanted) in [(Some([9, 12]), Some(9)), (None, None)] {
            let rows = with_bounds(&refinement(bounds), &[1]).unwrap();
            let sent = plain_batches(&rows, &plain).unwrap();
            assert_eq!((sent.len(), sent[0].schema()), (1, Arc::clone(&plain)));
            let lower = sent[0].column(2).as_primitive::<Int64Type>();
            assert_eq!(lower.is_valid(0).then(|| lower.value(0)), wanted);
            assert_eq!(sent[0].column(0).as_string::<i32>().value(0), "a text that does not fit into a view");
        }
    }

    #[test]
    fn what_is_not_known_of_an_error_is_null() {
        let told = &figures(&refinement(None))["refinement"];
        assert!(told["error"].is_null() && told["version"] == 7 && told["elapsed_seconds"] == 1.5);
        assert!(told["is_exact"] == false && told["groups_unseen"] == 2);
    }
}
