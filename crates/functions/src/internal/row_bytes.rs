//! The bytes of a row or a list, by which DISTINCT tells rows apart.

use crate::codec::{StateReader, StateWriter, Stateful};
use crate::columnar::by_arrays;
use crate::delegate::name_of_arguments;
use arrow::array::{Array, ArrayRef, BinaryArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use datafusion_common::Result;
use datafusion_common::utils::take_function_args;
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// The bytes of rows or lists.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct RowBytes {
    signature: Signature,
}

impl Stateful for RowBytes {
    const CODE: &'static str = "row_bytes";

    fn write(&self, _state: &mut StateWriter) -> Result<()> {
        Ok(())
    }

    fn read(_state: &mut StateReader<'_>) -> Result<Self> {
        Ok(RowBytes::default())
    }
}

impl Default for RowBytes {
    fn default() -> RowBytes {
        RowBytes { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for RowBytes {
    fn name(&self) -> &str {
        "row_bytes"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(name_of_arguments(args))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::BinaryView)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        by_arrays(&args.args, |arrays| {
            let [rows] = take_function_args(self.name(), arrays)?;
            bytes_of(&rows)
        })
    }
}

/// The bytes of each value, as `BinaryView`: equal where values are equal, and NULL where a value is NULL.
pub fn bytes_of(rows: &ArrayRef) -> Result<ArrayRef> {
    let converter = RowConverter::new(vec![SortField::new(rows.data_type().clone())])?;
    let bytes = converter.convert_columns(std::slice::from_ref(rows))?.try_into_binary()?;
    let (offsets, values, _) = bytes.into_parts();
    let bytes = BinaryArray::try_new(offsets, values, rows.logical_nulls())?;
    Ok(cast(&bytes, &DataType::BinaryView)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Int64Array, StringArray, StructArray};
    use arrow::buffer::NullBuffer;
    use arrow::datatypes::{Field, Fields};
    use datafusion_common::ScalarValue;
    use std::sync::Arc;

    #[test]
    fn bytes_are_equal_where_rows_are() {
        let numbers: Int64Array = (0..60).map(|at| (at % 4 > 0).then_some(at % 4)).collect();
        let texts: StringArray = (0..60).map(|at| (at % 3 > 0).then(|| "x".repeat(at % 3 * 20))).collect();
        let fields: Fields = vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Utf8, true)].into();
        let nulls: NullBuffer = (0..60).map(|at| at % 7 > 0).collect();
        let columns: Vec<ArrayRef> = vec![Arc::new(numbers), Arc::new(texts)];
        let structs: ArrayRef = Arc::new(StructArray::new(fields, columns, Some(nulls)));
        // Batches have the same bytes.
        let halves = [structs.slice(0, 30), structs.slice(30, 30)].map(|half| bytes_of(&half).unwrap());
        let bytes = |at: usize| {
            let half = halves[at / 30].as_binary_view();
            (!half.is_null(at % 30)).then(|| half.value(at % 30).to_vec())
        };
        for a in 0..60 {
            assert_eq!(bytes(a).is_none(), structs.is_null(a));
            for b in (0..60).filter(|&b| !structs.is_null(a) && !structs.is_null(b)) {
                let [left, right] = [a, b].map(|at| ScalarValue::try_from_array(&structs, at).unwrap());
                assert_eq!(bytes(a) == bytes(b), left == right, "{left} and {right}");
            }
        }
    }
}
