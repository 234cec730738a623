//! The rows of one statement, on their way out: those that are held, and the stream that the rest comes from.
//!
//! Invariants:
//! - `held` begins with the first row that nobody took, once `passed` rows are cut off it; a batch is never held without rows.
//! - After an error or the end there is no stream, and the statement's time has ended.

use crate::progress::Stopwatch;
use alluvia_query::{Outcome, from_datafusion};
use alluvia_types::Result;
use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use futures::{Stream, StreamExt};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

/// Batches as they come.
pub(crate) type Batches = Pin<Box<dyn Stream<Item = Result<RecordBatch>> + Send>>;

/// Rows that are being read.
pub(crate) struct RowReader {
    held: VecDeque<RecordBatch>,
    held_rows: usize,
    /// Rows of the first batch that were taken one by one: cutting each off would cost more than the row.
    passed: usize,
    stream: Option<Batches>,
    time: Arc<Stopwatch>,
}

impl Drop for RowReader {
    fn drop(&mut self) {
        self.time.end(false);
    }
}

impl RowReader {
    /// The rows of an outcome, and their schema.
    pub(crate) fn of(outcome: &mut Outcome, time: Arc<Stopwatch>) -> (SchemaRef, RowReader) {
        let rows = outcome.rows.take();
        let schema = rows.as_ref().map_or_else(|| Arc::new(Schema::empty()), |rows| rows.schema());
        let stream = rows.map(|rows| Box::pin(rows.map(|next| next.map_err(from_datafusion))) as Batches);
        (schema, RowReader::made(VecDeque::new(), stream, time))
    }

    /// Rows that come from elsewhere; `None` of a statement that has none.
    pub(crate) fn of_stream(stream: Option<Batches>, time: Arc<Stopwatch>) -> RowReader {
        RowReader::made(VecDeque::new(), stream, time)
    }

    /// Rows that are there.
    pub(crate) fn of_batch(batch: RecordBatch, time: Arc<Stopwatch>) -> RowReader {
        let held = if batch.num_rows() > 0 { VecDeque::from([batch]) } else { VecDeque::new() };
        RowReader::made(held, None, time)
    }

    fn made(held: VecDeque<RecordBatch>, stream: Option<Batches>, time: Arc<Stopwatch>) -> RowReader {
        if stream.is_none() {
            time.end(true);
        }
        let held_rows = held.iter().map(RecordBatch::num_rows).sum();
        RowReader { held, held_rows, passed: 0, stream, time }
    }

    /// Reads on until at least `rows` are held, or there are no more.
    pub(crate) async fn hold(&mut self, rows: usize) -> Result<()> {
        while self.held_rows < rows {
            let Some(stream) = &mut self.stream else { break };
            match stream.next().await {
                Some(Ok(batch)) if batch.num_rows() == 0 => {}
                Some(Ok(batch)) => {
                    self.held_rows += batch.num_rows();
                    self.held.push_back(batch);
                }
                Some(Err(error)) => {
                    self.stream = None;
                    self.time.end(false);
                    return Err(error);
                }
                None => {
                    self.stream = None;
                    self.time.end(true);
                }
            }
        }
        Ok(())
    }

    /// What is held, without taking it.
    pub(crate) fn held(&mut self) -> impl Iterator<Item = &RecordBatch> {
        self.cut();
        self.held.iter()
    }

    /// Takes the first row that is held.
    pub(crate) fn pass(&mut self) {
        let rows = self.held.front().map_or(0, RecordBatch::num_rows);
        assert!(self.passed < rows, "a row that is not held was taken");
        self.passed += 1;
        self.held_rows -= 1;
        if self.passed == rows {
            self.held.pop_front();
            self.passed = 0;
        }
    }

    /// Cuts off what was passed.
    fn cut(&mut self) {
        let passed = std::mem::take(&mut self.passed);
        if let Some(first) = self.held.front_mut().filter(|_| passed > 0) {
            *first = first.slice(passed, first.num_rows() - passed);
        }
    }

    /// Rows that are held.
    pub(crate) fn held_rows(&self) -> usize {
        self.held_rows
    }

    /// Whether all rows that are left are held.
    pub(crate) fn is_all_held(&self) -> bool {
        self.stream.is_none()
    }

    /// Takes up to `rows` of the first batch that is held.
    pub(crate) fn take(&mut self, rows: usize) -> Option<RecordBatch> {
        self.cut();
        let first = self.held.pop_front()?;
        let taken = first.slice(0, first.num_rows().min(rows));
        if taken.num_rows() < first.num_rows() {
            self.held.push_front(first.slice(taken.num_rows(), first.num_rows() - taken.num_rows()));
        }
        self.held_rows -= taken.num_rows();
        Some(taken)
    }

    /// The next batch, whole.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.hold(1).await?;
        Ok(self.take(usize::MAX))
    }
}
