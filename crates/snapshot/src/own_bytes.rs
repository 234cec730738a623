//! What rows take by themselves.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;

/// Bytes that rows take by themselves, whatever larger buffers they are slices of, or share.
pub fn own_bytes(rows: &RecordBatch) -> usize {
    let column = |column: &ArrayRef| {
        // Arrow counts the views of texts, and not what they are views of.
        let viewed: usize = match column.data_type() {
            DataType::Utf8View => column.as_string_view().lengths().map(|bytes| bytes as usize).sum(),
            DataType::BinaryView => column.as_binary_view().lengths().map(|bytes| bytes as usize).sum(),
            _ => 0,
        };
        viewed + column.to_data().get_slice_memory_size().unwrap_or(0)
    };
    rows.columns().iter().map(column).sum()
}
