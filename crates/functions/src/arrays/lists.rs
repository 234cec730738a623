//! A column of lists as its elements, each with the row that it is of.
//!
//! Invariant: no element is of a list that is NULL.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, UInt64Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, filter, take};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::{ColumnarValue, Operator};
use datafusion_physical_expr_common::datum::apply_cmp;
use std::ops::Range;
use std::sync::Arc;

/// Lists of one column.
pub struct Lists {
    lists: ListArray,
}

/// What the elements of a list are; `None` of what is no list.
pub fn element_of(list: &DataType) -> Option<&FieldRef> {
    match list {
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => Some(element),
        _ => None,
    }
}

/// Lists of elements of this type.
pub fn list_of(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(element, true)))
}

/// Lists of any kind as lists of the usual one; of no type they are all NULL.
pub(crate) fn as_lists(lists: &ArrayRef) -> Result<ListArray> {
    if let Some(lists) = lists.as_list_opt::<i32>() {
        return Ok(lists.clone());
    }
    let usual = match (element_of(lists.data_type()), lists.data_type()) {
        (Some(element), _) => DataType::List(Arc::clone(element)),
        (None, DataType::Null) => list_of(DataType::Null),
        (None, other) => return exec_err!("a value of type {other} is no list"),
    };
    Ok(cast(lists, &usual)?.as_list::<i32>().clone())
}

/// The same lists without elements below NULL, and without such as are of no list.
pub fn emptied(lists: &ListArray) -> Result<ListArray> {
    let length = |row: usize| if lists.is_null(row) { 0 } else { lists.value_length(row) as usize };
    let total: usize = (0..lists.len()).map(length).sum();
    if total == lists.values().len() {
        return Ok(lists.clone());
    }
    let start = |row: usize| lists.value_offsets()[row] as usize;
    let places = (0..lists.len()).flat_map(|row| start(row) as u64..(start(row) + length(row)) as u64);
    let values = take(lists.values(), &UInt64Array::from_iter_values(places), None)?;
    let offsets = OffsetBuffer::from_lengths((0..lists.len()).map(length));
    Ok(ListArray::try_new(field_of(lists), offsets, values, lists.nulls().cloned())?)
}

fn field_of(lists: &ListArray) -> FieldRef {
    match lists.data_type() {
        DataType::List(field) => Arc::clone(field),
        _ => Arc::new(Field::new_list_field(lists.value_type(), true)),
    }
}

impl Lists {
    pub fn of(lists: &ArrayRef) -> Result<Lists> {
        Ok(Lists { lists: emptied(&as_lists(lists)?)? })
    }

    pub fn len(&self) -> usize {
        self.lists.len()
    }

    pub fn is_null(&self, row: usize) -> bool {
        self.lists.is_null(row)
    }

    pub fn nulls(&self) -> Option<&NullBuffer> {
        self.lists.nulls()
    }

    pub fn elements(&self) -> &ArrayRef {
        self.lists.values()
    }

    /// Where the elements of a row's list are.
    pub fn range(&self, row: usize) -> Range<usize> {
        let offsets = self.lists.value_offsets();
        offsets[row] as usize..offsets[row + 1] as usize
    }

    /// The values of rows, each beside all elements of its row.
    pub fn beside(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let rows = (0..self.len()).flat_map(|row| std::iter::repeat_n(row as u64, self.range(row).len()));
        Ok(take(values, &UInt64Array::from_iter_values(rows), None)?)
    }

    /// What comparing the value of each row with all elements of its list gives, element by element. They have one type.
    pub fn compared(&self, values: &ArrayRef, op: Operator) -> Result<BooleanArray> {
        let elements = self.elements();
        if elements.data_type().is_nested() {
            return self.compared_by_rows(values, op);
        }
        // Views are copied for every element, and their texts are not.
        let shared = match elements.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8View,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => DataType::BinaryView,
            other => other.clone(),
        };
        let values = self.beside(&cast(values, &shared)?)?;
        truths(op, ColumnarValue::Array(values), cast(elements, &shared)?)
    }

    /// The same of values that would be copied.
    fn compared_by_rows(&self, values: &ArrayRef, op: Operator) -> Result<BooleanArray> {
        let mut all = Vec::with_capacity(self.elements().len());
        for row in (0..self.len()).filter(|row| !self.range(*row).is_empty()) {
            let range = self.range(row);
            let value = ColumnarValue::Scalar(ScalarValue::try_from_array(values, row)?);
            all.extend(truths(op, value, self.elements().slice(range.start, range.len()))?.iter());
        }
        Ok(BooleanArray::from(all))
    }

    /// Lists of this element with a part of each, told by its row and how long it is; `None` is NULL.
    pub fn cut(
        &self,
        element: &FieldRef,
        part: impl Fn(usize, usize) -> Result<Option<Range<usize>>>,
    ) -> Result<ListArray> {
        let (mut places, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
        for row in 0..self.len() {
            let range = self.range(row);
            let part = if self.is_null(row) { None } else { part(row, range.len())? };
            valid.push(part.is_some());
            let part = part.unwrap_or(0..0);
            lengths.push(part.len());
            places.extend((range.start + part.start) as u64..(range.start + part.end) as u64);
        }
        let values = take(self.elements(), &UInt64Array::from(places), None)?;
        let nulls = Some(NullBuffer::from(valid));
        Ok(ListArray::try_new(Arc::clone(element), OffsetBuffer::from_lengths(lengths), values, nulls)?)
    }

    /// Lists of this element with those that are kept, so many of each row.
    pub fn filtered(&self, element: &FieldRef, is_kept: &BooleanArray, kept: Vec<usize>) -> Result<ListArray> {
        let values = filter(self.elements(), is_kept)?;
        let offsets = OffsetBuffer::from_lengths(kept);
        Ok(ListArray::try_new(Arc::clone(element), offsets, values, self.nulls().cloned())?)
    }

    /// Lists of this element with other values in the places of all elements.
    pub fn with(&self, element: &FieldRef, values: ArrayRef) -> Result<ListArray> {
        let offsets = self.lists.offsets().clone();
        Ok(ListArray::try_new(Arc::clone(element), offsets, values, self.nulls().cloned())?)
    }
}

fn truths(op: Operator, left: ColumnarValue, right: ArrayRef) -> Result<BooleanArray> {
    let rows = right.len();
    let found = apply_cmp(op, &left, &ColumnarValue::Array(right))?.into_array(rows)?;
    Ok(found.as_boolean().clone())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use arrow::array::Int64Array;
    use proptest::prelude::*;

    /// One list, as it is written; `None` is NULL.
    pub type Written = Option<Vec<Option<i64>>>;

    /// Lists with something below NULL, and elements that are of none.
    pub fn column(lists: &[Written]) -> ArrayRef {
        let mut values = vec![Some(7)];
        let mut lengths = vec![1];
        for list in lists {
            let list = list.clone().unwrap_or_else(|| vec![Some(1), None]);
            lengths.push(list.len());
            values.extend(list);
        }
        let valid: Vec<bool> = std::iter::once(true).chain(lists.iter().map(Option::is_some)).collect();
        let field = Arc::new(Field::new_list_field(DataType::Int64, true));
        let values = Arc::new(Int64Array::from(values));
        let nulls = Some(NullBuffer::from(valid));
        let all = ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), values, nulls).unwrap();
        Arc::new(all.slice(1, lists.len()))
    }

    /// Some lists.
    pub fn written() -> impl Strategy<Value = Vec<Written>> {
        let list = prop::collection::vec(prop::option::of(0..4_i64), 0..4);
        prop::collection::vec(prop::option::of(list), 1..12)
    }

    proptest! {
        #[test]
        fn elements_are_those_of_lists_that_are_there(lists in written()) {
            let found = Lists::of(&column(&lists)).unwrap();
            let wanted: Vec<Option<i64>> = lists.iter().flatten().flatten().copied().collect();
            prop_assert_eq!(found.elements().as_primitive::<arrow::datatypes::Int64Type>(), &Int64Array::from(wanted));
            for (row, list) in lists.iter().enumerate() {
                prop_assert_eq!(found.is_null(row), list.is_none());
                prop_assert_eq!(found.range(row).len(), list.as_ref().map_or(0, Vec::len));
            }
        }
    }
}
