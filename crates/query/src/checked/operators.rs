//! Functions that stand where operators do.
//!
//! Invariants:
//! - Columns are called what they would be called by the operator itself.
//! - All operands have values, or there is NULL.

use arrow::array::{Array, ArrayRef, Datum};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use datafusion::physical_expr_common::datum::apply;
use std::fmt::Debug;
use std::hash::Hash;

/// What an operator makes of its operands.
pub(super) trait Operator: Copy + Debug + Eq + Hash + Send + Sync + 'static {
    /// As EXPLAIN shows it.
    fn name(self) -> &'static str;

    /// How it is written between its operands; `None` of the sign before a single one.
    fn sign(self) -> Option<&'static str>;

    /// The type of what it makes.
    fn type_of(self, operands: &[DataType]) -> DataType {
        operands[0].clone()
    }

    /// Of two operands.
    fn of_arrays(self, left: &dyn Datum, right: &dyn Datum) -> std::result::Result<ArrayRef, ArrowError>;

    /// Of a single one.
    fn of_array(self, _values: &dyn Array) -> std::result::Result<ArrayRef, ArrowError> {
        Err(ArrowError::NotYetImplemented(format!("{} of one operand", self.name())))
    }
}

/// The function of an operator.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Operation<O> {
    of: O,
    signature: Signature,
}

impl<O: Operator> Operation<O> {
    pub(super) fn new(of: O) -> Operation<O> {
        let operands = if of.sign().is_some() { 2 } else { 1 };
        Operation { of, signature: Signature::any(operands, Volatility::Immutable) }
    }

    #[cfg(test)]
    pub(super) fn of_arrays(&self, left: &dyn Datum, right: &dyn Datum) -> std::result::Result<ArrayRef, ArrowError> {
        self.of.of_arrays(left, right)
    }
}

impl<O: Operator> ScalarUDFImpl for Operation<O> {
    fn name(&self) -> &str {
        self.of.name()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match (self.of.sign(), args) {
            (Some(sign), [left, right]) => format!("{} {sign} {}", left.schema_name(), right.schema_name()),
            (_, args) => format!("(- {})", args.iter().map(|arg| arg.schema_name().to_string()).collect::<String>()),
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.of.type_of(arg_types))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.of.sign().is_some() {
            let [left, right] = take_function_args(self.name(), args.args)?;
            return apply(&left, &right, |left, right| self.of.of_arrays(left, right));
        }
        let [value] = take_function_args(self.name(), args.args)?;
        Ok(match value {
            ColumnarValue::Array(values) => ColumnarValue::Array(self.of.of_array(values.as_ref())?),
            ColumnarValue::Scalar(value) => {
                let made = self.of.of_array(value.to_array()?.as_ref())?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?)
            }
        })
    }
}
