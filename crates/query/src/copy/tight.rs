//! Rows that hold no more than themselves.
//!
//! Views of text and the entries of dictionaries point into buffers that they share with whatever they were cut or cast from: a whole page
//! for a few values, all members of a dictionary for a batch of a hundred rows. What waits in memory is counted, and what travels in the log
//! is written, with all of a buffer.

use alluvia_types::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, GenericByteViewArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{ByteViewType, DataType, Field, Schema};
use arrow::error::ArrowError;
use std::sync::Arc;

/// Views whose buffers have much that none of them points to get buffers of their own. Other arrays stay as they are.
pub(crate) fn tight(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => tight_views(array, array.as_string_view()),
        DataType::BinaryView => tight_views(array, array.as_binary_view()),
        _ => Arc::clone(array),
    }
}

fn tight_views<T: ByteViewType + ?Sized>(array: &ArrayRef, views: &GenericByteViewArray<T>) -> ArrayRef {
    let held: usize = views.data_buffers().iter().map(|buffer| buffer.len()).sum();
    let used = views.total_buffer_bytes_used();
    if held <= used + used / 4 { Arc::clone(array) } else { Arc::new(views.gc()) }
}

/// A batch of columns that are [`tight`].
pub(crate) fn tight_batch(batch: RecordBatch) -> RecordBatch {
    let columns = batch.columns().iter().map(tight).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options).unwrap_or(batch)
}

/// A copy of a slice, in the plain storage types: what waits in memory, or travels in the log, is then no more than its rows.
/// Without it a slice keeps (and a log record holds) the texts of the whole batch that it was cut from.
pub(crate) fn compact(slice: &RecordBatch) -> Result<RecordBatch> {
    let internal = |error| Error::internal(format!("rows could not be copied: {error}"));
    let all: UInt64Array = (0..slice.num_rows() as u64).collect();
    let copied = |array: &ArrayRef| -> Result<ArrayRef, ArrowError> {
        let plain = match array.data_type() {
            DataType::Dictionary(..) => cast(array, &DataType::Utf8View)?,
            _ => array.clone(),
        };
        Ok(match plain.data_type() {
            // Short texts lie in the views themselves, which only taking copies.
            DataType::Utf8View | DataType::BinaryView => tight(&take(&plain, &all, None)?),
            _ => take(&plain, &all, None)?,
        })
    };
    let arrays = slice.columns().iter().map(copied).collect::<Result<Vec<ArrayRef>, _>>().map_err(internal)?;
    let field =
        |(field, array): (&Arc<Field>, &ArrayRef)| field.as_ref().clone().with_data_type(array.data_type().clone());
    let fields: Vec<Field> = slice.schema().fields().iter().zip(&arrays).map(field).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(slice.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options).map_err(internal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{DictionaryArray, Int64Array, StringViewArray};
    use arrow::datatypes::Int32Type;

    #[test]
    fn a_compact_slice_holds_only_its_rows() {
        let texts: Vec<String> = (0..10_000).map(|row| format!("a text that is too long for a view: {row}")).collect();
        let dictionary: DictionaryArray<Int32Type> = texts.iter().map(|text| Some(text.as_str())).collect();
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(StringViewArray::from_iter_values(&texts)),
            Arc::new(dictionary),
            Arc::new((0..10_000).collect::<Int64Array>()),
        ];
        let fields: Vec<Field> = arrays
            .iter()
            .enumerate()
            .map(|(at, array)| Field::new(at.to_string(), array.data_type().clone(), true))
            .collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
        let held = |batch: &RecordBatch| {
            batch.column(0).as_string_view().data_buffers().iter().map(|buffer| buffer.len()).sum::<usize>()
        };
        let few = tight_batch(batch.slice(5_000, 2));
        assert_eq!((held(&batch) > 300_000, held(&few) < 100), (true, true));
        assert_eq!(few, batch.slice(5_000, 2));
        assert_eq!(held(&tight_batch(batch.clone())), held(&batch), "what points to all of it stays where it is");
        let slice = compact(&batch.slice(5_000, 2)).unwrap();
        assert!(slice.get_array_memory_size() < 2_000, "{}", slice.get_array_memory_size());
        assert_eq!(slice.column(0).as_string_view().value(1), texts[5_001]);
        assert_eq!(slice.column(0), slice.column(1));
        assert_eq!(slice.column(2).as_ref(), &Int64Array::from(vec![5_000, 5_001]) as &dyn Array);
    }
}
