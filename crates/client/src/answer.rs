//! Answers: rows as they come, and the bounds of those that are estimated.
//!
//! Invariants:
//! - Bounds travel as columns after those of the answer; here they are taken off again. Columns, names and types are the statement's own.
//! - The last message says that it is the last: an answer without it was cut, and is an error.

use crate::failure::{not_understood, of_flight};
use crate::statement_status::StatementStatus;
use alluvia_types::{Error, Result};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::concat_batches;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use arrow_flight::FlightData;
use arrow_flight::decode::{DecodedPayload, FlightDataDecoder};
use arrow_flight::error::FlightError;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use tonic::Streaming;

/// In the metadata of a column of bounds: which side it is, and which column it bounds.
const SIDE: &str = "alluvia.bound";
const OF: &str = "alluvia.bound_of";

/// What a statement gave.
pub struct Answer {
    /// As the rows come, with columns of bounds.
    sent: SchemaRef,
    schema: SchemaRef,
    /// Of each column of `schema`, the places of its bounds in `sent`.
    bounds: Vec<[Option<usize>; 2]>,
    rows: BoxStream<'static, Result<RecordBatch>>,
    has_rows: bool,
    told: Arc<Mutex<StatementStatus>>,
}

/// Where the exact values of a column are, row by row; NULL where nothing is known.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// They are not below these. Of the column's type.
    pub lower: ArrayRef,
    /// They are not above these.
    pub upper: ArrayRef,
}

/// An estimate: all rows, and of each column that is estimated its bounds.
#[derive(Debug)]
pub struct Estimate {
    /// All rows.
    pub rows: RecordBatch,
    /// One for each column.
    pub bounds: Vec<Option<Bounds>>,
    /// What the statement told, which is complete.
    pub told: StatementStatus,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("schema", &self.schema).field("told", &self.told).finish_non_exhaustive()
    }
}

impl Answer {
    /// Of a statement that has ended.
    pub(crate) fn without_rows(told: &[u8]) -> Result<Answer> {
        let schema = Arc::new(Schema::empty());
        Ok(Answer {
            sent: Arc::clone(&schema),
            schema,
            bounds: Vec::new(),
            rows: stream::empty().boxed(),
            has_rows: false,
            told: Arc::new(Mutex::new(StatementStatus::of_json(told)?)),
        })
    }

    /// Of one whose rows begin to come.
    pub(crate) fn of(sent: &Schema, messages: Streaming<FlightData>) -> Result<Answer> {
        let told = Arc::new(Mutex::new(StatementStatus::of_schema(sent)));
        let (schema, bounds) = split(sent)?;
        let sent = Arc::new(Schema::new(sent.fields().clone()));
        let rows = batches(messages, Arc::clone(&sent), Arc::clone(&told));
        Ok(Answer { sent, schema: Arc::new(schema), bounds, rows, has_rows: true, told })
    }

    /// Whether it has rows, of which there may be none: a statement that only does something has not.
    pub fn has_rows(&self) -> bool {
        self.has_rows
    }

    /// The statement's columns; none if it has no rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// What is told by now; complete once the rows have ended.
    pub fn told(&self) -> Arc<Mutex<StatementStatus>> {
        Arc::clone(&self.told)
    }

    /// Whether something in it is estimated: then [`Answer::estimate`] has bounds.
    pub fn is_estimate(&self) -> bool {
        self.bounds.iter().flatten().any(Option::is_some)
    }

    /// The rows as they come. Dropping the stream stops the statement.
    pub fn into_rows(self) -> BoxStream<'static, Result<RecordBatch>> {
        let Answer { sent, schema, rows, .. } = self;
        if sent.fields().len() == schema.fields().len() {
            return rows;
        }
        rows.and_then(move |batch| futures::future::ready(narrowed(&batch, &schema))).boxed()
    }

    /// All rows, with their bounds.
    pub async fn estimate(self) -> Result<Estimate> {
        let Answer { sent, schema, bounds, rows, told, .. } = self;
        let batches: Vec<RecordBatch> = rows.try_collect().await?;
        let all = concat_batches(&sent, &batches).map_err(|error| not_understood(&error.to_string()))?;
        let bounds = bounds_of(&all, &bounds);
        let told = told.lock().clone();
        Ok(Estimate { rows: narrowed(&all, &schema)?, bounds, told })
    }
}

/// The bounds of each column, by where they are.
pub(crate) fn bounds_of(rows: &RecordBatch, places: &[[Option<usize>; 2]]) -> Vec<Option<Bounds>> {
    let column = |at: usize| Arc::clone(rows.column(at));
    let bounds = places.iter().map(|sides| match *sides {
        [Some(lower), Some(upper)] => Some(Bounds { lower: column(lower), upper: column(upper) }),
        _ => None,
    });
    bounds.collect()
}

/// The first columns of a batch.
pub(crate) fn narrowed(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns()[..schema.fields().len()].to_vec();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| Error::internal(format!("rows do not fit their columns: {error}")))
}

/// The statement's own columns, and where the bounds of each are.
pub(crate) fn split(sent: &Schema) -> Result<(Schema, Vec<[Option<usize>; 2]>)> {
    let is_own = |field: &FieldRef| !field.metadata().contains_key(SIDE);
    let own = sent.fields().iter().take_while(|field| is_own(field)).count();
    let mut bounds = vec![[None; 2]; own];
    for (at, field) in sent.fields().iter().enumerate().skip(own) {
        let said = |name: &str| field.metadata().get(name).map(String::as_str);
        let side = match said(SIDE) {
            Some("lower") => 0,
            Some("upper") => 1,
            _ => return Err(not_understood(&format!("column {} is neither rows nor bounds", field.name()))),
        };
        let of = said(OF).and_then(|of| bounds.get_mut(of.parse::<usize>().ok()?));
        let of = of.ok_or_else(|| not_understood(&format!("column {} bounds none", field.name())))?;
        of[side] = Some(at);
    }
    Ok((Schema::new(sent.fields().iter().take(own).cloned().collect::<Vec<_>>()), bounds))
}

/// Batches with `schema`, until the last message has come.
fn batches(
    messages: Streaming<FlightData>,
    schema: SchemaRef,
    told: Arc<Mutex<StatementStatus>>,
) -> BoxStream<'static, Result<RecordBatch>> {
    let messages = messages.map_err(|status| FlightError::Tonic(Box::new(status)));
    let decoder = FlightDataDecoder::new(messages);
    let all = stream::try_unfold(decoder, move |mut decoder| {
        let (schema, told) = (Arc::clone(&schema), Arc::clone(&told));
        async move {
            loop {
                let Some(message) = decoder.next().await else {
                    let is_whole = told.lock().is_complete;
                    return if is_whole { Ok(None) } else { Err(not_understood("an answer ended before its end")) };
                };
                let message = message.map_err(|error| of_flight(&error))?;
                if !message.inner.app_metadata.is_empty() {
                    *told.lock() = StatementStatus::of_json(&message.inner.app_metadata)?;
                }
                match message.payload {
                    DecodedPayload::RecordBatch(batch) if batch.num_rows() > 0 => {
                        if batch.num_columns() != schema.fields().len() {
                            return Err(not_understood("rows have other columns than were told"));
                        }
                        return Ok(Some((narrowed(&batch, &schema)?, decoder)));
                    }
                    _ => {}
                }
            }
        }
    });
    all.boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::{DataType, Field, Int64Type};
    use futures::FutureExt;

    fn schema() -> Schema {
        let bound = |side: &str, of: usize| {
            let metadata = [(SIDE.to_owned(), side.to_owned()), (OF.to_owned(), of.to_string())];
            Field::new(format!("{side}_bound(n)"), DataType::Int64, true).with_metadata(metadata.into())
        };
        let own = |name: &str| Field::new(name, DataType::Int64, true);
        Schema::new(vec![own("k"), own("n"), bound("lower", 1), bound("upper", 1)])
    }

    fn answer(sent: Schema, rows: Vec<[i64; 4]>) -> Answer {
        let (schema, bounds) = split(&sent).unwrap();
        let sent = Arc::new(sent);
        let column = |at: usize| Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row[at]))) as ArrayRef;
        let batch = RecordBatch::try_new(Arc::clone(&sent), (0..4).map(column).collect()).unwrap();
        let (first, second) = (batch.slice(0, 1), batch.slice(1, rows.len() - 1));
        let told = Arc::new(Mutex::new(StatementStatus { is_complete: true, ..StatementStatus::default() }));
        let rows = stream::iter([Ok(first), Ok(second)]).boxed();
        Answer { sent, schema: Arc::new(schema), bounds, rows, has_rows: true, told }
    }

    #[test]
    fn columns_of_bounds_are_taken_off() {
        let rows = vec![[1, 10, 9, 12], [2, 20, 18, 21]];
        let estimated = answer(schema(), rows.clone());
        assert!(estimated.is_estimate());
        let names: Vec<&str> = estimated.schema().fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["k", "n"]);
        let estimate = estimated.estimate().now_or_never().unwrap().unwrap();
        let numbers = |array: &ArrayRef| array.as_primitive::<Int64Type>().values().to_vec();
        assert_eq!((estimate.rows.num_columns(), numbers(estimate.rows.column(1))), (2, vec![10, 20]));
        assert!(estimate.bounds[0].is_none());
        let bounds = estimate.bounds[1].as_ref().unwrap();
        assert_eq!((numbers(&bounds.lower), numbers(&bounds.upper)), (vec![9, 18], vec![12, 21]));
        let batches: Vec<RecordBatch> =
            answer(schema(), rows).into_rows().try_collect().now_or_never().unwrap().unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_columns).collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn bounds_of_nothing_are_not_understood() {
        let wrong = |side: &str, of: &str| {
            let metadata = [(SIDE.to_owned(), side.to_owned()), (OF.to_owned(), of.to_owned())];
            let field = Field::new("x", DataType::Int64, true).with_metadata(metadata.into());
            split(&Schema::new(vec![Field::new("a", DataType::Int64, true), field]))
        };
        assert!(wrong("lower", "0").is_ok());
        for (side, of) in [("middle", "0"), ("lower", "1"), ("lower", "")] {
            assert!(wrong(side, of).is_err(), "{side} {of}");
        }
    }
}
