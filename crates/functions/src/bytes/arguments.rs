//! Arguments of functions of bytes, row by row.
//!
//! Invariant: a constant is held once, however many rows there are.

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, Int64Array, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::Result;
use datafusion_expr::ColumnarValue;

/// Values as an array of this type, and whether it is one of one row for all rows.
fn values_of(value: &ColumnarValue, of: &DataType) -> Result<(ArrayRef, bool)> {
    let (values, is_constant) = match value {
        ColumnarValue::Array(values) => (values.clone(), false),
        ColumnarValue::Scalar(value) => (value.to_array()?, true),
    };
    Ok((cast(&values, of)?, is_constant))
}

/// Bytes.
pub struct Bytes {
    values: BinaryViewArray,
    is_constant: bool,
}

impl Bytes {
    pub fn of(value: &ColumnarValue) -> Result<Bytes> {
        let (values, is_constant) = values_of(value, &DataType::BinaryView)?;
        Ok(Bytes { values: values.as_binary_view().clone(), is_constant })
    }

    pub fn at(&self, row: usize) -> Option<&[u8]> {
        let row = if self.is_constant { 0 } else { row };
        self.values.is_valid(row).then(|| self.values.value(row))
    }
}

/// Texts.
pub struct Texts {
    values: StringViewArray,
    is_constant: bool,
}

impl Texts {
    pub fn of(value: &ColumnarValue) -> Result<Texts> {
        let (values, is_constant) = values_of(value, &DataType::Utf8View)?;
        Ok(Texts { values: values.as_string_view().clone(), is_constant })
    }

    pub fn at(&self, row: usize) -> Option<&str> {
        let row = if self.is_constant { 0 } else { row };
        self.values.is_valid(row).then(|| self.values.value(row))
    }
}

/// Whole numbers.
pub struct Numbers {
    values: Int64Array,
    is_constant: bool,
}

impl Numbers {
    pub fn of(value: &ColumnarValue) -> Result<Numbers> {
        let (values, is_constant) = values_of(value, &DataType::Int64)?;
        Ok(Numbers { values: values.as_primitive::<Int64Type>().clone(), is_constant })
    }

    pub fn at(&self, row: usize) -> Option<i64> {
        let row = if self.is_constant { 0 } else { row };
        self.values.is_valid(row).then(|| self.values.value(row))
    }
}
