//! What a window is given, and what waits for its rows.
//!
//! Invariants:
//! - Each row of the input is given once, in its order, and waits until the operator has given its row.
//! - A run ends with its input or between two partitions.
//! - What waits and what the operator may keep of its input is counted before it is given; what it makes of it is not.

use super::shape::{Keys, Shape};
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::concat;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::StreamExt;
use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

/// One partition of the input (as plans have them), on its way through a window.
pub struct Feed {
    shape: Shape,
    input: SendableRecordBatchStream,
    /// What begins the next run.
    next: Option<RecordBatch>,
    waiting: VecDeque<Waiting>,
    /// Of the row that was given last in this run.
    last_keys: Option<Keys>,
    /// What the operator may keep beside what waits.
    kept_bytes: usize,
    run_bytes: usize,
    is_run_over: bool,
    is_input_over: bool,
    memory: MemoryReservation,
}

/// Rows that were given and did not come back.
struct Waiting {
    columns: Vec<ArrayRef>,
    rows: usize,
    bytes: usize,
}

impl Feed {
    /// Nothing given yet of an input; runs end once they have `run_bytes`.
    pub fn new(shape: Shape, input: SendableRecordBatchStream, run_bytes: usize, memory: MemoryReservation) -> Feed {
        Feed {
            shape,
            input,
            next: None,
            waiting: VecDeque::new(),
            last_keys: None,
            kept_bytes: 0,
            run_bytes,
            is_run_over: false,
            is_input_over: false,
            memory,
        }
    }

    /// The next batch of this run, as the operator's input.
    pub(super) fn poll_given(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        if self.is_run_over {
            return Poll::Ready(None);
        }
        loop {
            let batch = match self.next.take() {
                Some(batch) => Ok(batch),
                None => match ready!(self.input.poll_next_unpin(cx)) {
                    Some(batch) => batch.and_then(|batch| self.shape.compacted(batch)),
                    None => {
                        (self.is_run_over, self.is_input_over) = (true, true);
                        return Poll::Ready(None);
                    }
                },
            };
            match batch.and_then(|batch| self.give(batch)).transpose() {
                Some(given) => return Poll::Ready(Some(given)),
                None if self.is_run_over => return Poll::Ready(None),
                // Joins that find nothing give batches without rows.
                None => {}
            }
        }
    }

    /// What goes through the operator of the rows of a batch that are of this run; `None` if there are none.
    fn give(&mut self, batch: RecordBatch) -> Result<Option<RecordBatch>> {
        let is_long = self.kept_bytes >= self.run_bytes;
        let ends_at = if is_long { self.shape.last_partition(&batch, self.last_keys.as_ref())? } else { None };
        let batch = match ends_at {
            Some(rows) => {
                self.is_run_over = true;
                self.next = Some(batch.slice(rows, batch.num_rows() - rows));
                batch.slice(0, rows)
            }
            None => batch,
        };
        if batch.num_rows() == 0 {
            return Ok(None);
        }
        let given = self.shape.output(&batch)?;
        let (bytes, kept) = self.shape.held_bytes(&batch, &given);
        self.memory.try_grow(bytes + kept)?;
        self.kept_bytes += kept;
        self.last_keys = self.shape.last_keys(&batch)?;
        self.waiting.push_back(Waiting { columns: self.shape.waiting(&batch), rows: batch.num_rows(), bytes });
        Ok(Some(given))
    }

    /// The first rows of what the operator gave, with what waited for them, and the other rows.
    pub fn take(&mut self, made: &RecordBatch, at_least: usize) -> Result<(RecordBatch, Option<RecordBatch>)> {
        let (mut pieces, mut rows) = (Vec::new(), 0);
        while rows < made.num_rows().min(at_least) {
            let first = self.waiting.front_mut().ok_or_else(|| internal("gave more rows than it was given"))?;
            let taken = first.rows.min(made.num_rows() - rows);
            pieces.push(first.columns.iter().map(|column| column.slice(0, taken)).collect::<Vec<_>>());
            rows += taken;
            let freed = if taken == first.rows { first.bytes } else { first.bytes / first.rows * taken };
            first.columns.iter_mut().for_each(|column| *column = column.slice(taken, first.rows - taken));
            (first.rows, first.bytes) = (first.rows - taken, first.bytes - freed);
            self.memory.try_shrink(freed)?;
            if first.rows == 0 {
                self.waiting.pop_front();
            }
        }
        let columns = (0..pieces.first().map_or(0, Vec::len)).map(|column| {
            let pieces: Vec<&dyn Array> = pieces.iter().map(|piece| piece[column].as_ref()).collect();
            if let [piece] = &pieces[..] { Ok(piece.slice(0, piece.len())) } else { Ok(concat(&pieces)?) }
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let rest = (rows < made.num_rows()).then(|| made.slice(rows, made.num_rows() - rows));
        Ok((self.shape.joined(made.slice(0, rows), columns)?, rest))
    }

    /// Begins the next run, after the operator has given all rows of the last one; false if there is none.
    pub(super) fn begin_run(&mut self) -> Result<bool> {
        if !self.waiting.is_empty() {
            return Err(internal("gave fewer rows than it was given"));
        }
        self.memory.free();
        (self.kept_bytes, self.last_keys) = (0, None);
        self.is_run_over = self.is_input_over;
        Ok(!self.is_input_over)
    }
}

fn internal(what: &str) -> DataFusionError {
    DataFusionError::Internal(format!("a window {what}"))
}
