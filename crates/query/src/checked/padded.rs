//! `lpad` and `rpad` to a length below zero, which is the empty text, as in PostgreSQL. Everything else is DataFusion's, which panics there.

use arrow::array::{AsArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use std::sync::Arc;

/// Puts them in the place of DataFusion's.
pub(super) fn register(state: &mut SessionState) -> Result<()> {
    for name in ["lpad", "rpad"] {
        let inner = state.udf(name)?;
        state.register_udf(Arc::new(ScalarUDF::from(Padded { inner })))?;
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Padded {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Padded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn is_strict(&self) -> bool {
        self.inner.inner().is_strict()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

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
