//! A list member that is computed, so that no rule takes the list for one of constants.

use crate::codec::{StateReader, StateWriter, Stateful};
use crate::delegate::name_of_arguments;
use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, internal_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};

/// The name of the function that [`computed`] calls.
pub const NAME: &str = "as_computed";

/// A call that gives the value of `of`, and that optimizer rules do not take for a constant.
pub fn computed(of: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Computed::new())));
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&FUNCTION), vec![of]))
}

/// Gives what it is given, as an array.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Computed {
    signature: Signature,
}

impl Computed {
    fn new() -> Computed {
        Computed { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl Stateful for Computed {
    const CODE: &'static str = "computed";

    fn write(&self, _state: &mut StateWriter) -> Result<()> {
        Ok(())
    }

    fn read(_state: &mut StateReader<'_>) -> Result<Self> {
        Ok(Computed::new())
    }
}

impl ScalarUDFImpl for Computed {
    fn name(&self) -> &str {
        NAME
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(name_of_arguments(args))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("{NAME} returns its argument's field")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [of] = take_function_args(self.name(), args.arg_fields)?;
        Ok(Arc::clone(of))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let [value] = take_function_args(self.name(), args.args)?;
        Ok(ColumnarValue::Array(value.into_array(rows)?))
    }
}
