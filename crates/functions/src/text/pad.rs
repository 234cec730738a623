//! `lpad` and `rpad` to a length below zero, which is the empty text, as in PostgreSQL. Everything else is DataFusion's, which panics there.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: lpad, rpad, negative length, panic; #3829
//! mended an earlier one).
//! Held by `slt/text_calls.slt` (`lpad(t, id - 5)`, `rpad(t, id - 5, 'x')`).

use crate::delegate::delegate_scalar;
use arrow::array::{AsArray, Int64Array};
use arrow::datatypes::Int64Type;
use datafusion_common::Result;
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use std::sync::Arc;

/// The function, around DataFusion's.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Padded {
    inner: Arc<ScalarUDF>,
}

impl Padded {
    /// Around DataFusion's `lpad` or `rpad`.
    pub(crate) fn new(inner: Arc<ScalarUDF>) -> Padded {
        Padded { inner }
    }
}

impl ScalarUDFImpl for Padded {
    delegate_scalar!(name, aliases, signature, return_type, is_strict, documentation);

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Some(ColumnarValue::Array(lengths)) = args.args.get_mut(1)
            && let Some(numbers) = lengths.as_primitive_opt::<Int64Type>()
            && numbers.iter().flatten().any(|length| length < 0)
        {
            let none_below_zero: Int64Array = numbers.unary(|length| length.max(0));
            *lengths = Arc::new(none_below_zero);
        }
        self.inner.invoke_with_args(args)
    }
}
