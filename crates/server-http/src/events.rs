//! `POST /query` as server-sent events: how far the statement is, then its answer.
//!
//! Events: `progress` (at most four a second), `columns`, `rows` (as many as there are batches), and exactly one of `end` and `error`. A
//! body that ends without one of these two is not whole.

use crate::answer::{Encoder, columns, ending};
use crate::failure::Failure;
use crate::media::Answer;
use crate::query::{Asked, Chunks};
use crate::server::Shared;
use crate::work::{gone, watched};
use alluvia_query::{Outcome, Phase, from_datafusion};
use alluvia_types::Result;
use bytes::Bytes;
use futures::StreamExt;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Time between events of progress.
const TICK: Duration = Duration::from_millis(250);

/// Runs a statement and tells of it until its end.
pub(crate) async fn run(shared: &Arc<Shared>, asked: &Asked, chunks: &Chunks) {
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

async fn tell(shared: &Arc<Shared>, asked: &Asked, chunks: &Chunks) -> Result<Value, Failure> {
    let mut teller = Teller { shared, asked, chunks, since: shared.now(), ticks: interval(TICK) };
    teller.ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    teller.ticks.reset();
    let mut outcome: Outcome = teller.during(asked.execute()).await?;
    let Some(mut rows) = outcome.rows.take() else { return Ok(ending(&outcome, 0)) };
    let schema = rows.schema();
    teller.send(event("columns", &columns(&schema).to_string())).await?;
    let mut count = 0;
    while let Some(batch) = teller.during(async { rows.next().await.transpose().map_err(from_datafusion) }).await? {
        count += batch.num_rows() as u64;
        teller.send(event("rows", &rows_text(&schema, &batch)?)).await?;
    }
    drop(rows);
    Ok(ending(&outcome, count))
}

/// Rows as an array of objects.
fn rows_text(schema: &arrow::datatypes::SchemaRef, batch: &arrow::array::RecordBatch) -> Result<String> {
    let mut encoder = Encoder::new(Answer::Events, schema)?;
    encoder.write(batch)?;
    encoder.into_text()
}

struct Teller<'a> {
    shared: &'a Arc<Shared>,
    asked: &'a Asked,
    chunks: &'a Chunks,
    since: Duration,
    ticks: Interval,
}

impl Teller<'_> {
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
        let progress = self.asked.session.progress();
        let elapsed = self.shared.now().saturating_sub(self.since).as_secs_f64();
        let read = self.asked.session.reading().map(|used| used.rows_read);
        let rows = progress.rows().max(read.unwrap_or(0));
        let (done, total) = (progress.bytes_done(), progress.bytes_total());
        let fraction = (total > 0).then(|| (done as f64 / total as f64).min(1.0));
        let left = fraction.filter(|fraction| *fraction > 0.0).map(|fraction| elapsed * (1.0 - fraction) / fraction);
        let phase = match progress.phase() {
            Phase::Idle | Phase::Running => "running",
            Phase::Finishing => "finishing",
            Phase::Committing => "committing",
        };
        json!({
            "elapsed_seconds": elapsed,
            "phase": phase,
            "rows": rows,
            "rows_per_second": if elapsed > 0.0 { rows as f64 / elapsed } else { 0.0 },
            "fraction": fraction,
            "seconds_left": left,
        })
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
