//! A quoted literal that takes the type of the expression beside it.

use crate::casts::kinds::UUID;
use alluvia_values::calls::TEXT_BESIDE;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, internal_err};
use datafusion_expr::type_coercion::other::get_coerce_type_for_case_expression;
use datafusion_expr::{ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// A literal that is the first result of a CASE, or a column of the first SELECT of a UNION, and something that it stands beside: it has that one's
/// type while types are found, and is called as it would be without.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct TextBeside {
    signature: Signature,
}

impl Default for TextBeside {
    fn default() -> TextBeside {
        TextBeside { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for TextBeside {
    fn name(&self) -> &str {
        TEXT_BESIDE
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args.first().map(|text| text.schema_name().to_string()).unwrap_or_default())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("{TEXT_BESIDE} returns a field of its arguments")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [text, beside] = take_function_args(self.name(), args.arg_fields)?;
        let is_unknown = text.data_type().is_string() || text.data_type().is_null();
        let read = read_as(&[beside.data_type().clone()]).filter(|_| is_unknown);
        let data_type = read.unwrap_or_else(|| text.data_type().clone());
        Ok(Arc::new(Field::new(self.name(), data_type, text.is_nullable())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [text, _] = take_function_args(self.name(), args.args)?;
        text.cast_to(args.return_field.data_type(), None)
    }
}

/// The type that a literal has beside values of these.
pub fn read_as(others: &[DataType]) -> Option<DataType> {
    let others: Vec<DataType> = others.iter().filter(|of| !of.is_null()).cloned().collect();
    if others.first() == Some(&UUID) && others.iter().all(|of| *of == UUID) {
        return Some(UUID);
    }
    get_coerce_type_for_case_expression(&others, None).filter(|of| of.is_numeric() || *of == DataType::Boolean)
}
