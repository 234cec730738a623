//! Copies of rows that keep no more memory alive than their own values need.
//!
//! Slices, views of text and the entries of dictionaries point into memory that they share with whatever they were cut or cast from: a whole page
//! for a few values, all members of a dictionary for a batch of a hundred rows. What waits in memory is counted, and what travels in the log
//! is written, with all of it.

use alluvia_types::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, GenericByteViewArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{ByteViewType, DataType, Field, Schema};
use arrow::error::ArrowError;
use std::sync::Arc;

/// An array that keeps more memory than so many times its own, and this much beside, is a small piece of a large one: what came as one
/// message has all of its columns in one piece of memory, which is not worth a copy.
const PIECE_TIMES: usize = 64;
const PIECE_BYTES: usize = 64 << 10;

/// Views whose buffers have much that none of them points to get buffers of their own, and so do small pieces of large arrays. Others stay
/// as they are.
fn tight(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    /// What the views' buffers hold, and how much of it they point to; what several point to counts as often, as a copy would have it.
    fn held_and_used<T: ByteViewType + ?Sized>(views: &GenericByteViewArray<T>) -> (usize, usize) {
        let held: usize = views.data_buffers().iter().map(|buffer| buffer.len()).sum();
        (held, views.total_buffer_bytes_used())
    }
    let (viewed, used) = match array.data_type() {
        DataType::Utf8View => held_and_used(array.as_string_view()),
        DataType::BinaryView => held_and_used(array.as_binary_view()),
        _ => (0, 0),
    };
    let is_loose = viewed > used + used / 4;
    let held = array.get_buffer_memory_size();
    let is_piece = || Ok::<_, ArrowError>(held / PIECE_TIMES > used + array.to_data().get_slice_memory_size()?);
    if is_loose || held > PIECE_BYTES && is_piece()? { copied(array) } else { Ok(Arc::clone(array)) }
}

/// A copy in memory of its own.
fn copied(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let all: UInt64Array = (0..array.len() as u64).collect();
    let taken = take(array, &all, None)?;
    Ok(match taken.data_type() {
        // Short texts lie in the views themselves, which only taking copies, and long ones where they lay.
        DataType::Utf8View => Arc::new(taken.as_string_view().gc()),
        DataType::BinaryView => Arc::new(taken.as_binary_view().gc()),
        _ => taken,
    })
}

/// A batch of columns that hold little more than themselves.
pub fn tight_batch(batch: RecordBatch) -> RecordBatch {
    let tight = || -> Result<RecordBatch, ArrowError> {
        let columns = batch.columns().iter().map(tight).collect::<Result<Vec<ArrayRef>, ArrowError>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(batch.schema(), columns, &options)
    };
    tight().unwrap_or(batch)
}

/// A copy of a slice, in the plain storage types: what waits in memory, or travels in the log, is then no more than its rows, and whoever
/// sent them may do with their memory as they please.
/// Without it a slice keeps (and a log record holds) the texts of the whole batch that it was cut from.
pub fn compact(slice: &RecordBatch) -> Result<RecordBatch> {
    let internal = |error| Error::internal(format!("rows could not be copied: {error}"));
    let plain = |array: &ArrayRef| match array.data_type() {
        DataType::Dictionary(..) => copied(&cast(array, &DataType::Utf8View)?),
        _ => copied(array),
    };
    let arrays = slice.columns().iter().map(plain).collect::<Result<Vec<ArrayRef>, _>>().map_err(internal)?;
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
        let held_of_numbers = |batch: &RecordBatch| batch.column(2).get_buffer_memory_size();
        assert_eq!((held_of_numbers(&batch) >= 80_000, held_of_numbers(&few) < 1_000), (true, true));
        assert_eq!(held(&tight_batch(batch.clone())), held(&batch), "what points to all of it stays where it is");
        let all = compact(&batch).unwrap();
        let texts_at = |batch: &RecordBatch| batch.column(0).as_string_view().data_buffers()[0].as_ptr();
        assert!(all.column(0) == batch.column(0) && texts_at(&all) != texts_at(&batch), "it is a copy");
        let slice = compact(&batch.slice(5_000, 2)).unwrap();
        assert!(slice.get_array_memory_size() < 2_000, "{}", slice.get_array_memory_size());
        assert_eq!(slice.column(0).as_string_view().value(1), texts[5_001]);
        assert_eq!(slice.column(0), slice.column(1));
        assert_eq!(slice.column(2).as_ref(), &Int64Array::from(vec![5_000, 5_001]) as &dyn Array);
    }

    #[test]
    fn a_text_that_many_rows_share_stays_one() {
        let mut builder = arrow::array::StringViewBuilder::new();
        let text = "x".repeat(1 << 20);
        builder.try_append_value_n(&text, 1_000).unwrap();
        let shared: ArrayRef = Arc::new(builder.finish());
        let batch = RecordBatch::try_from_iter([("a", shared)]).unwrap();
        assert!(tight_batch(batch.clone()).get_array_memory_size() < 4 << 20, "a copy is of a thousand texts");
        assert_eq!(tight_batch(batch.clone()).column(0), batch.column(0));
    }
}
