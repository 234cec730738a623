//! Arrays of views with the buffers of their own rows.
//!
//! Views may be in lists and structs. In other types that have parts they are left as they are.

use arrow::array::{
    Array, ArrayRef, AsArray, GenericByteViewArray, GenericListArray, OffsetSizeTrait, StructArray, new_null_array,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, Field, StringViewType};
use datafusion_common::Result;
use std::sync::Arc;

/// Whether values of a type are, or have, views into buffers that arrays share.
pub fn has_views(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8View | DataType::BinaryView => true,
        DataType::List(item) | DataType::LargeList(item) => has_views(item.data_type()),
        DataType::Struct(parts) => parts.iter().any(|part| has_views(part.data_type())),
        _ => false,
    }
}

/// How many buffers the views of an array refer to, or those of its largest part.
pub fn buffers_of(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().data_buffers().len(),
        DataType::BinaryView => array.as_binary_view().data_buffers().len(),
        DataType::List(_) => buffers_of(array.as_list::<i32>().values()),
        DataType::LargeList(_) => buffers_of(array.as_list::<i64>().values()),
        DataType::Struct(_) => array.as_struct().columns().iter().map(buffers_of).max().unwrap_or(0),
        _ => 0,
    }
}

/// The array, with one buffer of what its own rows refer to. What is nearly so already is not copied.
pub fn compact(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Utf8View => Ok(compact_views(array, array.as_byte_view::<StringViewType>())),
        DataType::BinaryView => Ok(compact_views(array, array.as_byte_view::<BinaryViewType>())),
        DataType::List(item) if has_views(item.data_type()) => compact_list(array.as_list::<i32>()),
        DataType::LargeList(item) if has_views(item.data_type()) => compact_list(array.as_list::<i64>()),
        DataType::Struct(parts) if has_views(array.data_type()) => {
            let columns = array.as_struct().columns().iter().map(compact).collect::<Result<_>>()?;
            let nulls = array.nulls().cloned();
            Ok(Arc::new(StructArray::try_new_with_length(parts.clone(), columns, nulls, array.len())?))
        }
        _ => Ok(Arc::clone(array)),
    }
}

fn compact_views<T: ByteViewType>(array: &ArrayRef, views: &GenericByteViewArray<T>) -> ArrayRef {
    let (kept, used) = (kept_bytes(views), views.total_buffer_bytes_used());
    // Rows may have one text together: what is copied is never more than what it takes the place of.
    let is_worth_it = kept > 2 * used || views.data_buffers().len() > 1 && used <= kept;
    if is_worth_it { Arc::new(views.gc()) } else { Arc::clone(array) }
}

fn kept_bytes<T: ByteViewType>(views: &GenericByteViewArray<T>) -> usize {
    views.data_buffers().iter().map(|buffer| buffer.capacity()).sum()
}

fn compact_list<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> Result<ArrayRef> {
    let (DataType::List(item) | DataType::LargeList(item)) = list.data_type() else {
        return Ok(Arc::new(list.clone()));
    };
    let items = compact(&items_of(list))?;
    let offsets = OffsetBuffer::from_lengths(list.offsets().lengths());
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(item), offsets, items, list.nulls().cloned())?))
}

/// The items of a list's own rows.
fn items_of<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> ArrayRef {
    let offsets = list.offsets();
    let (first, last) = (offsets[0].as_usize(), offsets[offsets.len() - 1].as_usize());
    list.values().slice(first, last - first)
}

/// As many values that take no room as the array of a field has rows; the array itself, if there is no such value.
pub fn emptied(array: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    fn empty<T: ByteViewType>(rows: usize) -> Result<ArrayRef> {
        // A view of nothing is zero.
        let views = ScalarBuffer::from(vec![0_u128; rows]);
        Ok(Arc::new(GenericByteViewArray::<T>::try_new(views, vec![], None)?))
    }
    match array.data_type() {
        DataType::Utf8View => empty::<StringViewType>(array.len()),
        DataType::BinaryView => empty::<BinaryViewType>(array.len()),
        other if field.is_nullable() => Ok(new_null_array(other, array.len())),
        _ => Ok(Arc::clone(array)),
    }
}

/// Bytes of what views refer to: no text more often than it is there.
fn referred_bytes<T: ByteViewType>(views: &GenericByteViewArray<T>) -> usize {
    views.total_buffer_bytes_used().min(kept_bytes(views))
}

/// Bytes of what the views of an array's rows refer to.
pub fn bytes_of_views(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8View => referred_bytes(array.as_byte_view::<StringViewType>()),
        DataType::BinaryView => referred_bytes(array.as_byte_view::<BinaryViewType>()),
        DataType::List(_) => bytes_of_views(&items_of(array.as_list::<i32>())),
        DataType::LargeList(_) => bytes_of_views(&items_of(array.as_list::<i64>())),
        DataType::Struct(_) => array.as_struct().columns().iter().map(bytes_of_views).sum(),
        _ => 0,
    }
}

/// Bytes of an array's rows, with what views refer to. What arrays share beside that, as the values of a dictionary, counts for none of them.
pub fn bytes_of(array: &ArrayRef) -> usize {
    let parts = match array.data_type() {
        DataType::List(_) => array.len() * size_of::<i32>() + bytes_of(&items_of(array.as_list::<i32>())),
        DataType::LargeList(_) => array.len() * size_of::<i64>() + bytes_of(&items_of(array.as_list::<i64>())),
        DataType::Struct(_) => array.as_struct().columns().iter().map(bytes_of).sum(),
        DataType::Dictionary(keys, _) => array.len() * keys.primitive_width().unwrap_or_default(),
        _ => {
            let data = array.to_data();
            // Of views this is the views alone.
            let own = data.get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size());
            own + bytes_of_views(array)
        }
    };
    parts + array.nulls().map_or(0, |nulls| nulls.len().div_ceil(8))
}
