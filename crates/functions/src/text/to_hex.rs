//! `to_hex` of an INT or a SMALLINT, which has the digits of an INT: of -5 it is `fffffffb`. Of BIGINT it is DataFusion's, which has sixteen
//! digits for all numbers below zero.

use crate::columnar::by_arrays;
use crate::delegate::delegate_scalar;
use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type};
use datafusion_common::Result;
use datafusion_common::utils::take_function_args;
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use std::sync::Arc;

/// The function, around DataFusion's.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ToHex {
    inner: Arc<ScalarUDF>,
}

impl ToHex {
    /// Around DataFusion's `to_hex`, which is called for all types but SMALLINT and INT.
    pub fn new(inner: Arc<ScalarUDF>) -> ToHex {
        ToHex { inner }
    }
}

impl ScalarUDFImpl for ToHex {
    delegate_scalar!(name, signature, return_type, is_strict, documentation);

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let of = args.args.first().map(ColumnarValue::data_type);
        if !matches!(of, Some(DataType::Int8 | DataType::Int16 | DataType::Int32)) {
            return self.inner.invoke_with_args(args);
        }
        by_arrays(&args.args, |numbers| {
            let [numbers] = take_function_args(self.name(), numbers)?;
            let numbers = cast(&numbers, &DataType::Int32)?;
            let shown = numbers.as_primitive::<Int32Type>().iter().map(|of| of.map(|of| format!("{of:x}")));
            Ok(Arc::new(shown.collect::<StringArray>()) as ArrayRef)
        })
    }
}
