//! Rows that wait, by the definition that their table has by now.

use alluvia_types::{Error, Result};
use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use std::sync::Arc;

/// Rows with the columns of `schema`: those that were added since they came are NULL, and those that were dropped are
/// gone. A storage name stands for one column for ever.
pub fn fitted(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let (known, wanted) = (batch.schema_ref().fields(), schema.fields());
    if known.len() == wanted.len() && known.iter().zip(wanted).all(|(known, wanted)| known.name() == wanted.name()) {
        return Ok(batch.clone());
    }
    let column = |field: &FieldRef| match batch.schema_ref().column_with_name(field.name()) {
        Some((at, known)) => (Arc::new(known.clone()), Arc::clone(batch.column(at))),
        None => (Arc::clone(field), new_null_array(field.data_type(), batch.num_rows())),
    };
    let (fields, columns): (Vec<FieldRef>, Vec<ArrayRef>) = wanted.iter().map(column).unzip();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).map_err(misfit)
}

/// The rows of a batch of which that is said.
pub(crate) fn filtered(batch: &RecordBatch, kept: &[bool]) -> Result<RecordBatch> {
    filter_record_batch(batch, &BooleanArray::from(kept.to_vec())).map_err(misfit)
}

/// Bytes of a NULL in a column: a value's, or a view's, and what says that it is none.
pub(crate) fn width(data_type: &DataType) -> u64 {
    match data_type {
        DataType::Boolean => 1,
        other => 1 + other.primitive_width().unwrap_or(size_of::<u128>()) as u64,
    }
}

fn misfit(error: ArrowError) -> Error {
    Error::internal(format!("rows that wait for COMMIT: {error}"))
}
