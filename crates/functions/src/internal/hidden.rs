//! An expression that the simplifier must not look into, for as long as it simplifies.

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::{Result, internal_err};
use datafusion_expr::{
    BinaryExpr, ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
    Volatility,
};
use std::sync::Arc;

/// Stands for an expression, whose parts are its arguments. It is in no plan that is run.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Hidden {
    /// The signature that [`Hidden::signature`] gives.
    pub signature: Signature,
    /// The expression that is hidden.
    pub of: Expr,
}

impl Hidden {
    /// Any number of arguments of any types; volatile.
    pub fn signature() -> Signature {
        // So that nobody tries to evaluate it.
        Signature::variadic_any(Volatility::Volatile)
    }
}

impl ScalarUDFImpl for Hidden {
    fn name(&self) -> &str {
        "hidden"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("fields are asked for")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match &self.of {
            Expr::ScalarFunction(function) => function.func.return_field_from_args(args),
            Expr::BinaryExpr(BinaryExpr { op: Operator::BitwiseXor, .. }) => {
                Ok(Arc::new(Field::new(self.name(), args.arg_fields[0].data_type().clone(), true)))
            }
            _ => Ok(Arc::new(Field::new(self.name(), DataType::Boolean, true))),
        }
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("what was hidden from the planner was not shown again: {}", self.of)
    }
}
