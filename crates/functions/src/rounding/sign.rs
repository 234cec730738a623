//! `sign` of what is no number, which is 0, as in PostgreSQL. Everything else is DataFusion's `signum`.

use crate::columnar::{as_columnar, is_constant, rows_made};
use crate::delegate::delegate_scalar;
use arrow::array::{ArrayRef, AsArray, Float32Array, Float64Array};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion_common::Result;
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use datafusion_functions::math::signum;
use std::sync::Arc;

/// The function, around DataFusion's.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Sign {
    inner: Arc<ScalarUDF>,
    aliases: Vec<String>,
}

impl Default for Sign {
    fn default() -> Sign {
        Sign { inner: signum(), aliases: vec!["sign".to_owned()] }
    }
}

impl ScalarUDFImpl for Sign {
    delegate_scalar!(name, signature, return_type, is_strict, documentation);

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = is_constant(&args.args);
        let rows = rows_made(&args.args, args.number_rows);
        let signs = self.inner.invoke_with_args(args)?.into_array(rows)?;
        let signs: ArrayRef = match signs.data_type().clone() {
            DataType::Float64 => {
                let signs = signs.as_primitive::<Float64Type>();
                let known: Float64Array = signs.unary(|sign| if sign.is_nan() { 0.0 } else { sign });
                Arc::new(known)
            }
            DataType::Float32 => {
                let signs = signs.as_primitive::<Float32Type>();
                let known: Float32Array = signs.unary(|sign| if sign.is_nan() { 0.0 } else { sign });
                Arc::new(known)
            }
            _ => signs,
        };
        as_columnar(signs, is_constant)
    }
}
