//! A long constant that is written out for every row, counted against the statement's memory.

use super::within_limit;
use crate::codec::{StateReader, StateWriter, Stateful};
use crate::delegate::name_of_arguments;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::Result;
use datafusion_common::utils::take_function_args;
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// A call that gives `constant`; `bytes` is what all held constants of the plan node take for one row.
pub fn held(constant: Expr, bytes: u64) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(Held::new(bytes))), vec![constant]))
}

/// The constant itself, where the statement may hold all those of its node for all rows of a batch.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Held {
    /// Of all of them, for one row.
    pub bytes: u64,
    signature: Signature,
}

impl Held {
    fn new(bytes: u64) -> Held {
        // Volatile, so that it is not folded again.
        Held { bytes, signature: Signature::any(1, Volatility::Volatile) }
    }
}

impl Stateful for Held {
    const CODE: &'static str = "held_constant";

    fn write(&self, state: &mut StateWriter) -> Result<()> {
        state.number(self.bytes as i64);
        Ok(())
    }

    fn read(state: &mut StateReader<'_>) -> Result<Self> {
        Ok(Held::new(state.number()? as u64))
    }
}

impl ScalarUDFImpl for Held {
    fn name(&self) -> &str {
        "held"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(name_of_arguments(args))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [constant] = take_function_args(self.name(), args.arg_fields)?;
        Ok(Arc::new(Field::new(self.name(), constant.data_type().clone(), constant.is_nullable())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let bytes = u128::from(self.bytes) * args.number_rows as u128;
        within_limit("writing constants out for a batch of rows", bytes, 1, &args.config_options)?;
        let [constant] = take_function_args(self.name(), args.args)?;
        Ok(constant)
    }
}
