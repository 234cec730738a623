//! The bytes of a row or a list, by which DISTINCT tells rows apart.

use crate::columnar::by_arrays;
use crate::delegate::name_of_given;
use arrow::array::Array;
use arrow::array::ArrayRef;
use arrow::array::BinaryArray;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::row::RowConverter;
use arrow::row::SortField;
use datafusion_common::Result;
use datafusion_common::utils::take_function_args;
use datafusion_expr::ColumnarValue;
use datafusion_expr::Expr;
use datafusion_expr::ScalarFunctionArgs;
use datafusion_expr::ScalarUDFImpl;
use datafusion_expr::Signature;
use datafusion_expr::Volatility;

/// The bytes of rows or lists.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct RowBytes {
    signature: Signature,
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
        Ok(name_of_given(args))
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

pub fn bytes_of(rows: &ArrayRef) -> Result<ArrayRef> {
    let converter = RowConverter::new(vec![SortField::new(rows.data_type().clone())])?;
    let bytes = converter.convert_columns(std::slice::from_ref(rows))?.try_into_binary()?;
    let (offsets, values, _) = bytes.into_parts();
    let bytes = BinaryArray::try_new(offsets, values, rows.logical_nulls())?;
    Ok(cast(&bytes, &DataType::BinaryView)?)
}
