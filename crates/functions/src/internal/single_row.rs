//! The one value of a scalar subquery, or an error where the subquery has several rows.

use crate::codec::{StateReader, StateWriter, Stateful};
use arrow::array::AsArray;
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// A value, if there is no more than one. It is called volatile so that conditions with it stay where they are: rows that others leave out
/// have no say.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Single {
    signature: Signature,
}

impl Stateful for Single {
    const CODE: &'static str = "single_row";

    fn write(&self, _state: &mut StateWriter) -> Result<()> {
        Ok(())
    }

    fn read(_state: &mut StateReader<'_>) -> Result<Self> {
        Ok(Single::default())
    }
}

impl Default for Single {
    /// `single(value, rows)`, where `rows` is the number of rows of the subquery.
    fn default() -> Single {
        Single { signature: Signature::any(2, Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for Single {
    fn name(&self) -> &str {
        "single"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value, rows] = take_function_args(self.name(), args.args)?;
        let is_one = match &rows {
            ColumnarValue::Array(rows) => rows.as_primitive::<Int64Type>().iter().flatten().all(|rows| rows <= 1),
            ColumnarValue::Scalar(rows) => !matches!(rows, ScalarValue::Int64(Some(2..))),
        };
        if is_one { Ok(value) } else { exec_err!("Scalar subquery returned more than one row") }
    }
}
