//! Answers that get better while they are waited for.
//!
//! Invariants:
//! - A refinement is whole: all its rows have come, and the word on how sure they are.
//! - The server works ahead of whoever waits, as far as what it sends is taken; dropping the stream stops it.
//! - A stream that was cut ends with an error, so that what came last is not taken for the answer.

use crate::answer::{Answer, Bounds as ColumnBounds, bounds_of, narrowed, split};
use crate::failure::{not_understood, of_flight};
use crate::session::{Begun, Bounds, Session};
use crate::statement_status::{StatementStatus, seconds};
use alluvia_types::Result;
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{Schema, SchemaRef};
use arrow_flight::FlightData;
use arrow_flight::decode::{DecodedPayload, FlightDataDecoder};
use arrow_flight::error::FlightError;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use serde_json::Value;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// In the metadata of a schema: that its rows are refinements.
const REFINEMENTS: &str = "alluvia.refinements";

/// What a statement that was asked to be refined has become.
#[derive(Debug)]
pub enum Refining {
    /// Estimates that get better until the answer.
    Looks(Refinements),
    /// The statement is never estimated: the answer as ever.
    Rows(Answer),
}

/// The answer as far as it is known.
#[derive(Clone, Debug)]
pub struct Refinement {
    /// All rows, with the columns, order and limit of the answer.
    pub rows: RecordBatch,
    /// For each column that is estimated, where the exact values are. Of an exact answer `None`.
    pub bounds: Vec<Option<ColumnBounds>>,
    /// The planned look that this is, from 1; 0 of an exact answer.
    pub look: u32,
    /// Looks that are planned.
    pub looks: u32,
    /// Whether nothing in it is estimated.
    pub is_exact: bool,
    /// How often all intervals that one value has in all refinements hold the exact one. 1 of an exact answer.
    pub confidence: f64,
    /// The most that a value may be off, as a share: of the exact value, or of the estimate where that is less, as where
    /// the exact value may be next to 0. Infinite where nothing is known, 0 of an exact answer.
    pub error: f64,
    /// The share of the rows that the exact answer reads that were read so far, from 0 to 1.
    pub fraction: f64,
    /// Groups that may exist and were not seen yet.
    pub groups_unseen: u64,
    /// Everything through this version is in it, and nothing above.
    pub version: Option<u64>,
    /// Since the statement began, at the server.
    pub elapsed: Duration,
    /// Whether it is the answer: exact, or within `max_error`.
    pub is_last: bool,
}

/// Refinements of one statement, each better than the one before; the last is the answer.
pub struct Refinements {
    inner: BoxStream<'static, Result<Refinement>>,
    told: Arc<Mutex<StatementStatus>>,
}

impl fmt::Debug for Refinements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refinements").field("told", &self.told).finish_non_exhaustive()
    }
}

impl Refinements {
    /// What the statement has told by now; complete once the stream has ended.
    pub fn told(&self) -> StatementStatus {
        self.told.lock().clone()
    }
}

impl Stream for Refinements {
    type Item = Result<Refinement>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Refinement>>> {
        self.inner.as_mut().poll_next(context)
    }
}

impl Session {
    /// Begins one statement without parameters whose answer is wanted as far as it is known. Returns when something is.
    pub async fn refine(&self, sql: &str) -> Result<Refining> {
        refining(self.begin_text(sql, Bounds::Refinements).await?)
    }

    /// As [`Session::refine`], with the values of one row: column i has that of parameter $i+1.
    pub async fn refine_with(&self, sql: &str, values: &RecordBatch) -> Result<Refining> {
        refining(self.begin_with(sql, values, Bounds::Refinements).await?)
    }
}

fn refining(begun: Begun) -> Result<Refining> {
    match begun {
        Begun::Rows(schema, messages) if schema.metadata().contains_key(REFINEMENTS) => {
            let messages = (*messages).map_err(|status| FlightError::Tonic(Box::new(status)));
            Ok(Refining::Looks(refinements(&schema, messages)?))
        }
        begun => begun.answer().map(Refining::Rows),
    }
}

fn refinements<S>(sent: &Schema, messages: S) -> Result<Refinements>
where
    S: Stream<Item = Result<FlightData, FlightError>> + Send + 'static,
{
    let told = Arc::new(Mutex::new(StatementStatus::of_schema(sent)));
    let (schema, places) = split(sent)?;
    let columns = Columns { sent: Arc::new(Schema::new(sent.fields().clone())), schema: Arc::new(schema), places };
    let coming = Coming { decoder: FlightDataDecoder::new(messages), columns, told: Arc::clone(&told) };
    let inner = stream::try_unfold(coming, |mut coming| async move {
        let next = coming.next().await?;
        Ok(next.map(|refinement| (refinement, coming)))
    });
    Ok(Refinements { inner: inner.boxed(), told })
}

/// Refinements on their way.
struct Coming {
    decoder: FlightDataDecoder,
    columns: Columns,
    told: Arc<Mutex<StatementStatus>>,
}

impl Coming {
    /// Waits until one is whole; `None` after the statement's last word.
    async fn next(&mut self) -> Result<Option<Refinement>> {
        let mut rows: Vec<RecordBatch> = Vec::new();
        while let Some(message) = self.decoder.next().await {
            let message = message.map_err(|error| of_flight(&error))?;
            if let DecodedPayload::RecordBatch(batch) = message.payload {
                rows.push(self.columns.checked(&batch)?);
            }
            let said = message.inner.app_metadata;
            if said.is_empty() {
                continue;
            }
            let json: Value = serde_json::from_slice(&said).map_err(|error| not_understood(&error.to_string()))?;
            match &json["refinement"] {
                // The word on the statement, after all refinements.
                Value::Null => {
                    *self.told.lock() = StatementStatus::of_json(&said)?;
                    rows.clear();
                }
                figures => return self.columns.refinement(&rows, figures).map(Some),
            }
        }
        let is_whole = self.told.lock().is_complete && rows.is_empty();
        if is_whole { Ok(None) } else { Err(not_understood("refinements ended before their end")) }
    }
}

/// What refinements have in common.
struct Columns {
    /// As they are sent, with columns of bounds.
    sent: SchemaRef,
    schema: SchemaRef,
    places: Vec<[Option<usize>; 2]>,
}

impl Columns {
    fn checked(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        match batch.num_columns() == self.sent.fields().len() {
            true => narrowed(batch, &self.sent),
            false => Err(not_understood("a refinement has other columns than were told")),
        }
    }

    fn refinement(&self, rows: &[RecordBatch], figures: &Value) -> Result<Refinement> {
        let all = concat_batches(&self.sent, rows).map_err(|error| not_understood(&error.to_string()))?;
        let count = |name: &str| figures[name].as_u64();
        let small = |name: &str| count(name).and_then(|count| u32::try_from(count).ok()).unwrap_or_default();
        let is = |name: &str| figures[name].as_bool().unwrap_or_default();
        let is_exact = is("is_exact");
        let bounds = match is_exact {
            true => vec![None; self.schema.fields().len()],
            false => bounds_of(&all, &self.places),
        };
        Ok(Refinement {
            rows: narrowed(&all, &self.schema)?,
            bounds,
            look: small("look"),
            looks: small("looks"),
            is_exact,
            confidence: figures["confidence"].as_f64().unwrap_or_default(),
            error: figures["error"].as_f64().unwrap_or(f64::INFINITY),
            fraction: figures["fraction"].as_f64().unwrap_or_default(),
            groups_unseen: count("groups_unseen").unwrap_or_default(),
            version: count("version"),
            elapsed: seconds(figures["elapsed_seconds"].as_f64()),
            is_last: is("is_last"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::{DataType, Field, Int64Type};
    use arrow_flight::utils::batches_to_flight_data;
    use futures::FutureExt;

    fn schema() -> Schema {
        let bound = |side: &str| {
            let metadata =
                [("alluvia.bound".to_owned(), side.to_owned()), ("alluvia.bound_of".to_owned(), "0".to_owned())];
            Field::new(format!("{side}_bound(n)"), DataType::Int64, true).with_metadata(metadata.into())
        };
        Schema::new(vec![Field::new("n", DataType::Int64, true), bound("lower"), bound("upper")])
    }

    /// Rows as one message each, the last of which says this.
    fn messages(rows: &[[i64; 3]], said: &str, is_first: bool) -> Vec<FlightData> {
        let schema = schema();
        let column = |value: i64| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
        let batch = |row: &[i64; 3]| RecordBatch::try_new(Arc::new(schema.clone()), row.map(column).to_vec()).unwrap();
        let mut all = batches_to_flight_data(&schema, rows.iter().map(batch).collect()).unwrap();
        if !is_first {
            all.remove(0);
        }
        all.last_mut().unwrap().app_metadata = said.to_owned().into();
        all
    }

    fn refined(messages: Vec<FlightData>) -> (Vec<Result<Refinement>>, StatementStatus) {
        let refinements = refinements(&schema(), stream::iter(messages.into_iter().map(Ok))).unwrap();
        let told = Arc::clone(&refinements.told);
        let all = refinements.collect::<Vec<_>>().now_or_never().unwrap();
        let told = told.lock().clone();
        (all, told)
    }

    const LOOK: &str = r#"{"refinement": {"look": 1, "looks": 2, "is_exact": false, "is_last": false, "fraction": 0.25,
        "error": null, "confidence": 0.95, "groups_unseen": 3, "version": 7, "elapsed_seconds": 0.5}}"#;
    const EXACT: &str = r#"{"refinement": {"look": 0, "looks": 2, "is_exact": true, "is_last": true, "fraction": 1.0,
        "error": 0.0, "confidence": 1.0, "groups_unseen": 0, "version": 7, "elapsed_seconds": 1.5}}"#;
    const END: &str = r#"{"tag": "SELECT", "notices": ["one"], "used": null}"#;

    fn all() -> Vec<FlightData> {
        let looks = messages(&[[10, 8, 12], [20, 18, 22]], LOOK, true);
        let exact = messages(&[[11, 11, 11], [21, 21, 21]], EXACT, false);
        let last = messages(&[[0, 0, 0]], END, false);
        looks.into_iter().chain(exact).chain(last).collect()
    }

    #[test]
    fn a_refinement_is_all_its_rows_with_their_bounds_and_how_sure_they_are() {
        let (found, told) = refined(all());
        let found: Vec<Refinement> = found.into_iter().collect::<Result<_>>().unwrap();
        let numbers = |array: &ArrayRef| array.as_primitive::<Int64Type>().values().to_vec();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].rows.num_columns(), numbers(found[0].rows.column(0))), (1, vec![10, 20]));
        let bounds = found[0].bounds[0].as_ref().unwrap();
        assert_eq!((numbers(&bounds.lower), numbers(&bounds.upper)), (vec![8, 18], vec![12, 22]));
        assert_eq!((found[0].look, found[0].looks, found[0].is_last, found[0].groups_unseen), (1, 2, false, 3));
        assert!(found[0].error.is_infinite() && found[0].version == Some(7));
        assert_eq!(found[0].elapsed, Duration::from_millis(500));
        assert!(
            found[1].is_exact
                && found[1].is_last
                && found[1].bounds[0].is_none()
                && found[1].error.abs() < f64::EPSILON
        );
        assert_eq!(numbers(found[1].rows.column(0)), [11, 21]);
        assert_eq!((told.tag.as_str(), told.notices.len(), told.is_complete), ("SELECT", 1, true));
    }

    #[test]
    fn what_is_cut_anywhere_ends_with_an_error() {
        let whole = all();
        for length in 0..whole.len() {
            let (found, _) = refined(whole[..length].to_vec());
            assert!(found.last().is_some_and(Result::is_err), "{length} of {} messages", whole.len());
        }
        assert!(refined(whole).0.iter().all(Result::is_ok));
    }
}
