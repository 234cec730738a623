//! Values of rows that are in memory.

use super::{ColumnValues, RowAt};
use crate::chunk::row_bytes;
use alluvia_types::{Error, Result};
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::{cast, interleave};
use arrow::datatypes::DataType;

/// Record batches, each an input.
#[derive(Debug)]
pub struct BatchValues {
    batches: Vec<RecordBatch>,
    widths: Vec<usize>,
}

impl BatchValues {
    /// Over batches whose first columns are those of the table, in its order. TEXT may be encoded by dictionaries in some of them.
    pub fn new(batches: Vec<RecordBatch>, columns: usize) -> BatchValues {
        let widest = |at: usize| batches.iter().map(|batch| row_bytes(batch.column(at))).max().unwrap_or(0);
        let widths = (0..columns).map(widest).collect();
        BatchValues { batches, widths }
    }
}

impl ColumnValues for BatchValues {
    fn widths(&self) -> &[usize] {
        &self.widths
    }

    fn values(&self, places: &[usize], rows: &[RowAt]) -> Result<Vec<ArrayRef>> {
        let failed = |error| Error::internal(format!("values of wide rows: {error}"));
        let rows: Vec<(usize, usize)> = rows.iter().map(|at| (at.input as usize, at.row as usize)).collect();
        let column = |&at: &usize| {
            let parts: Vec<&ArrayRef> = self.batches.iter().map(|batch| batch.column(at)).collect();
            let first = parts.first().map_or(&DataType::Null, |part| part.data_type());
            if parts.iter().all(|part| part.data_type() == first) {
                let parts: Vec<&dyn Array> = parts.iter().map(|part| part.as_ref()).collect();
                return interleave(&parts, &rows).map_err(failed);
            }
            let plain = parts.iter().map(|part| cast(part, &DataType::Utf8View)).collect::<Result<Vec<_>, _>>();
            let plain = plain.map_err(failed)?;
            let parts: Vec<&dyn Array> = plain.iter().map(|part| part.as_ref()).collect();
            interleave(&parts, &rows).map_err(failed)
        };
        places.iter().map(column).collect()
    }
}
