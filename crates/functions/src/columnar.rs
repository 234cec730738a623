//! What functions of arrays give.
//!
//! Invariant: of constants alone they make one row, and give a constant.

use arrow::array::ArrayRef;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::ColumnarValue;

/// Whether all arguments are constants.
pub fn is_constant(args: &[ColumnarValue]) -> bool {
    args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)))
}

/// The rows that are to be made: one of constants alone.
pub(crate) fn rows_made(args: &[ColumnarValue], rows: usize) -> usize {
    if is_constant(args) { 1 } else { rows }
}

/// What was made, as it is to be given.
pub fn as_columnar(made: ArrayRef, is_constant: bool) -> Result<ColumnarValue> {
    Ok(match is_constant {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
        false => ColumnarValue::Array(made),
    })
}

/// What is made of the arguments as arrays of one length, as it is to be given.
pub fn by_arrays(
    args: &[ColumnarValue],
    make: impl FnOnce(Vec<ArrayRef>) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    as_columnar(make(ColumnarValue::values_to_arrays(args)?)?, is_constant(args))
}
