//! Arrays of views with the buffers of their own rows.

use arrow::array::{Array, ArrayRef, AsArray, GenericByteViewArray};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, StringViewType};
use datafusion::common::Result;
use std::sync::Arc;

/// Whether values of a type are views into buffers that arrays share.
pub(super) fn is_view(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8View | DataType::BinaryView)
}

/// The array, in one buffer of what its own rows refer to. One that is nearly so is given back as it is.
pub(super) fn compact(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => compact_views(array, array.as_byte_view::<StringViewType>()),
        DataType::BinaryView => compact_views(array, array.as_byte_view::<BinaryViewType>()),
        _ => Arc::clone(array),
    }
}

fn compact_views<T: ByteViewType>(array: &ArrayRef, views: &GenericByteViewArray<T>) -> ArrayRef {
    let kept = views.data_buffers().iter().map(|buffer| buffer.capacity()).sum::<usize>();
    // What is hardly more than it has to be is not copied.
    let is_compact = views.data_buffers().len() <= 1 && kept <= 2 * views.total_buffer_bytes_used();
    if is_compact { Arc::clone(array) } else { Arc::new(views.gc()) }
}

/// As many empty values as the array has rows.
pub(super) fn emptied(array: &ArrayRef) -> ArrayRef {
    fn empty<T: ByteViewType>(rows: usize) -> Result<ArrayRef> {
        // A view of nothing is zero.
        let views = ScalarBuffer::from(vec![0_u128; rows]);
        Ok(Arc::new(GenericByteViewArray::<T>::try_new(views, vec![], None)?))
    }
    let emptied = match array.data_type() {
        DataType::Utf8View => empty::<StringViewType>(array.len()),
        DataType::BinaryView => empty::<BinaryViewType>(array.len()),
        _ => return Arc::clone(array),
    };
    emptied.unwrap_or_else(|_| Arc::clone(array))
}

/// Bytes of an array's rows beside its views.
pub(super) fn beside_views(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8View => array.as_byte_view::<StringViewType>().total_buffer_bytes_used(),
        DataType::BinaryView => array.as_byte_view::<BinaryViewType>().total_buffer_bytes_used(),
        _ => 0,
    }
}

/// Bytes of an array's rows.
pub(super) fn bytes_of(array: &ArrayRef) -> usize {
    let data = array.to_data();
    // Of views this is the views alone.
    let own = data.get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size());
    own + beside_views(array)
}
