//! Rows on their way into an open transaction.
//!
//! Invariants:
//! - They are in memory until COMMIT, so what one statement may give is bounded; the transaction bounds what all of them give.
//! - They are held beside the transaction until the statement has all of them: one that fails, or is dropped, has added nothing.

use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::RecordBatch;

/// Rows of one table, in its storage schema.
#[derive(Debug)]
pub struct Held {
    /// The rows, in the order in which they were pushed.
    pub batches: Vec<RecordBatch>,
    bytes: u64,
    bytes_max: u64,
}

impl Held {
    /// Nothing yet, of so many bytes at most.
    pub fn new(bytes_max: u64) -> Held {
        Held { batches: Vec::new(), bytes: 0, bytes_max }
    }

    /// Adds rows, if there is room.
    pub fn push(&mut self, rows: RecordBatch) -> Result<()> {
        self.bytes += rows.get_array_memory_size() as u64;
        if self.bytes > self.bytes_max {
            let bytes_max = self.bytes_max;
            return Err(Error::new(
                ErrorKind::OutOfMemory,
                format!("the statement gives more than the {bytes_max} bytes of rows that a transaction can hold"),
            )
            .with_hint("run it outside of a transaction, where it is staged on disk"));
        }
        self.batches.push(rows);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int64Array;
    use std::sync::Arc;

    #[test]
    fn rows_are_held_up_to_the_bound_and_no_further() {
        let rows = || RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(vec![1; 100])) as _)]).unwrap();
        let bytes = rows().get_array_memory_size() as u64;
        let mut held = Held::new(2 * bytes);
        held.push(rows()).unwrap();
        held.push(rows()).unwrap();
        assert_eq!(held.push(rows()).unwrap_err().kind(), ErrorKind::OutOfMemory);
        assert_eq!(held.batches.len(), 2);
    }
}
