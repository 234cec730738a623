//! What an operator has given of its rows, counted where they leave it.
//!
//! Invariants:
//! - A batch counts when the next one is asked for: until then whoever took it is at work on it.
//! - An operator has ended when every one of its partitions has given its last row, or is wanted no more.
//!
//! An operator's own metrics (DataFusion 55.2) cannot tell that it has ended, since the time of its end is written down whenever any copy
//! of them is dropped (a hash join's with its build side, a sort's before its merge), and not all have them. So rows are counted
//! here, which is an addition for each batch.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use futures::Stream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

/// The rows of all partitions of one operator.
#[derive(Debug)]
pub(super) struct Meter {
    partitions: usize,
    begun: AtomicUsize,
    ended: AtomicUsize,
    rows: AtomicU64,
}

impl Meter {
    /// Of an operator of so many partitions, none of which has begun.
    pub fn new(partitions: usize) -> Arc<Meter> {
        Arc::new(Meter { partitions, begun: 0.into(), ended: 0.into(), rows: 0.into() })
    }

    /// A partition begins.
    pub fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// So many rows were given, and taken in.
    pub fn add(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// A partition has ended.
    pub fn end(&self) {
        // Whoever sees that it has ended sees its rows.
        self.ended.fetch_add(1, Ordering::Release);
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Whether any partition has begun.
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed) > 0
    }

    /// Whether no partition has rows to give any more.
    pub fn has_ended(&self) -> bool {
        let ended = self.ended.load(Ordering::Acquire);
        ended >= self.partitions.max(self.begun.load(Ordering::Relaxed))
    }
}

/// One partition's rows, counted.
pub(super) struct MeteredRows {
    rows: SendableRecordBatchStream,
    meter: Arc<Meter>,
    /// Rows of the batch that was given last.
    given: usize,
    has_ended: bool,
}

impl MeteredRows {
    /// Counts the rows of a partition that begins.
    pub fn new(rows: SendableRecordBatchStream, meter: Arc<Meter>) -> MeteredRows {
        meter.begin();
        MeteredRows { rows, meter, given: 0, has_ended: false }
    }

    fn taken_in(&mut self) {
        if self.given > 0 {
            self.meter.add(std::mem::take(&mut self.given));
        }
    }

    fn end(&mut self) {
        self.taken_in();
        if !std::mem::replace(&mut self.has_ended, true) {
            self.meter.end();
        }
    }
}

impl Stream for MeteredRows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        let this = &mut *self;
        this.taken_in();
        let polled = this.rows.as_mut().poll_next(context);
        match &polled {
            Poll::Ready(Some(Ok(batch))) => this.given = batch.num_rows(),
            Poll::Ready(None) => this.end(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rows.size_hint()
    }
}

impl RecordBatchStream for MeteredRows {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

impl Drop for MeteredRows {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int32Array;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::{FutureExt, StreamExt, stream};

    fn metered(sizes: &[i32], meter: &Arc<Meter>) -> MeteredRows {
        let batch = |size: &i32| {
            let numbers = Arc::new((0..*size).collect::<Int32Array>()) as _;
            RecordBatch::try_from_iter([("a", numbers)]).expect("one column")
        };
        let schema = batch(&0).schema();
        let batches: Vec<Result<RecordBatch>> = sizes.iter().map(|size| Ok(batch(size))).collect();
        MeteredRows::new(Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches))), Arc::clone(meter))
    }

    fn next(rows: &mut MeteredRows) -> Option<usize> {
        let next = rows.next().now_or_never().expect("is ready");
        next.map(|batch| batch.expect("a batch").num_rows())
    }

    #[test]
    fn a_batch_counts_when_the_next_is_asked_for() {
        let meter = Meter::new(1);
        assert!(!meter.has_begun() && !meter.has_ended());
        let mut rows = metered(&[3, 4], &meter);
        assert!(meter.has_begun());
        assert_eq!((next(&mut rows), meter.rows()), (Some(3), 0));
        assert_eq!((next(&mut rows), meter.rows()), (Some(4), 3));
        assert_eq!((next(&mut rows), meter.rows(), meter.has_ended()), (None, 7, true));
        drop(rows);
        assert_eq!((meter.rows(), meter.has_ended()), (7, true));
    }

    #[test]
    fn an_operator_has_ended_when_all_partitions_have_or_are_wanted_no_more() {
        let meter = Meter::new(2);
        let (mut one, mut other) = (metered(&[5], &meter), metered(&[6, 7], &meter));
        assert_eq!((next(&mut one), next(&mut one)), (Some(5), None));
        assert!(!meter.has_ended());
        assert_eq!(next(&mut other), Some(6));
        drop(other);
        assert_eq!((meter.rows(), meter.has_ended()), (11, true));
        assert!(Meter::new(0).has_ended(), "it has nothing to give");
    }
}
