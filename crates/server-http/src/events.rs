//! `POST /query` as server-sent events: how far the statement is, then its answer.
//!
//! Events: `progress` (at most four a second), `columns`, `refinement` (under `progressive`, of statements that are estimated: the answer
//! as far as it is known, each better than the one before), `rows` (as many as there are batches), and exactly one of `end` and `error`. A
//! body that ends without one of these two is not whole.

use crate::answer::{Encoder, columns, ending};
use crate::cancellation::watched;
use crate::failure::Failure;
use crate::media::Answer;
use crate::shared::Shared;
use crate::statement::{Chunks, StatementRequest};
use alluvia_access::gone;
use alluvia_query::{Bounds, Outcome, Refinement, Refinements, Refining, from_datafusion};
use alluvia_types::{Error, Result};
use alluvia_values::time_zone::Zone;
use alluvia_values::unique_names::unique_names;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use bytes::Bytes;
use futures::StreamExt;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Time between events of progress.
const TICK: Duration = Duration::from_millis(250);

/// Runs a statement and tells of it until its end.
pub(crate) async fn run(shared: &Arc<Shared>, asked: &StatementRequest, chunks: &Chunks) {
    let last = match tell(shared, asked, chunks).await {
        Ok(end) => event("end", &end.to_string()),
        Err(failure) => event("error", &json!({ "error": failure.to_json() }).to_string()),
    };
    drop(chunks.send(Ok(last)).await);
}

fn event(name: &str, data: &str) -> Bytes {
    let mut text = format!("event: {name}\n");
    // A line end within data would end the event.
    for line in data.lines() {
        text.push_str("data: ");
        text.push_str(line);
        text.push('\n');
    }
    text.push('\n');
    text.into()
}

async fn tell(shared: &Arc<Shared>, asked: &StatementRequest, chunks: &Chunks) -> Result<Value, Failure> {
    let mut teller = Teller { shared, asked, chunks, ticks: interval(TICK) };
    teller.ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    teller.ticks.reset();
    let mut outcome: Outcome = if asked.session.is_progressive() {
        match teller.during(asked.refine()).await? {
            Refining::Looks(refinements) => return teller.refine(refinements).await,
            Refining::Rows(outcome) => outcome,
        }
    } else {
        teller.during(asked.execute()).await?
    };
    let Some(mut rows) = outcome.rows.take() else { return Ok(ending(&outcome, 0)) };
    let schema = rows.schema();
    teller.send(event("columns", &columns(&schema).to_string())).await?;
    let mut count = 0;
    while let Some(batch) = teller.during(async { rows.next().await.transpose().map_err(from_datafusion) }).await? {
        count += batch.num_rows() as u64;
        teller.send(event("rows", &rows_text(&schema, &batch, &asked.session.time_zone())?)).await?;
    }
    drop(rows);
    Ok(ending(&outcome, count))
}

/// Rows as an array of objects.
fn rows_text(schema: &SchemaRef, batch: &RecordBatch, zone: &Zone) -> Result<String> {
    let mut encoder = Encoder::new(Answer::Events, schema, zone.clone())?;
    encoder.write(batch)?;
    encoder.into_text()
}

/// A refinement as an object: its rows, and two arrays of as many objects with the bounds of the columns that are estimated.
fn refinement_text(refinement: &Refinement, zone: &Zone) -> Result<String> {
    let schema = unique_names(&refinement.rows.schema());
    let side = |of: fn(&Bounds) -> &ArrayRef| {
        let bounded = schema.fields().iter().zip(&refinement.bounds);
        let bounded = bounded.filter_map(|(field, bounds)| Some((field, of(bounds.as_ref()?))));
        let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = bounded
            .map(|(field, bound)| (Field::new(field.name(), field.data_type().clone(), true), Arc::clone(bound)))
            .unzip();
        let schema = Arc::new(Schema::new(fields));
        // A statement may have no such column.
        let options = RecordBatchOptions::new().with_row_count(Some(refinement.rows.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)
            .map_err(|error| Error::internal(format!("bounds do not fit their values: {error}")))?;
        rows_text(&schema, &batch, zone)
    };
    let told = json!({
        "look": refinement.look,
        "looks": refinement.looks,
        "fraction": refinement.fraction,
        "error": refinement.error.is_finite().then_some(refinement.error),
        "confidence": refinement.confidence,
        "groups_unseen": refinement.groups_unseen,
        "version": refinement.version.map(|version| version.0),
        "elapsed_seconds": refinement.elapsed.as_secs_f64(),
    });
    // Rows are text already, which has all digits of its numbers.
    let rows = rows_text(&schema, &refinement.rows, zone)?;
    let (lower, upper) = (side(|bounds| &bounds.lower)?, side(|bounds| &bounds.upper)?);
    let told = told.to_string();
    Ok(format!(r#"{},"rows":{rows},"lower":{lower},"upper":{upper}}}"#, told.trim_end_matches('}')))
}

struct Teller<'a> {
    shared: &'a Arc<Shared>,
    asked: &'a StatementRequest,
    chunks: &'a Chunks,
    ticks: Interval,
}

impl Teller<'_> {
    /// Sends every refinement; the last is the answer, and is sent as one.
    async fn refine(&mut self, mut refinements: Refinements) -> Result<Value, Failure> {
        let Some(schema) = refinements.schema().cloned() else { return Ok(ending(refinements.outcome(), 0)) };
        self.send(event("columns", &columns(&schema).to_string())).await?;
        let zone = self.asked.session.time_zone();
        let mut count = 0;
        while let Some(refinement) = self.during(async { refinements.next().await.transpose() }).await? {
            if refinement.is_last {
                count = refinement.rows.num_rows() as u64;
                self.send(event("rows", &rows_text(&schema, &refinement.rows, &zone)?)).await?;
            } else {
                self.send(event("refinement", &refinement_text(&refinement, &zone)?)).await?;
            }
        }
        Ok(ending(refinements.outcome(), count))
    }

    async fn send(&self, bytes: Bytes) -> Result<()> {
        self.chunks.send(Ok(bytes)).await.map_err(|_| gone())
    }

    /// Waits for work, and tells how far it is.
    async fn during<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let work = watched(self.shared, &self.asked.session, self.chunks.closed(), work);
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                result = &mut work => return result,
                _ = self.ticks.tick() => {
                    let text = event("progress", &self.progress().to_string());
                    // A client that does not read misses some; the statement goes on.
                    let _ = self.chunks.try_send(Ok(text));
                }
            }
        }
    }

    fn progress(&self) -> Value {
        // Before it begins there is nothing to tell.
        self.asked.session.report().unwrap_or_default().to_json()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_keeps_its_data_together() {
        assert_eq!(&event("rows", "[1,\n2]")[..], b"event: rows\ndata: [1,\ndata: 2]\n\n");
    }
}
