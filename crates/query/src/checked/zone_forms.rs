//! `form_by_zone(value, form, other)`: the form of a template that names the time zone, and the same without its name for a TIMESTAMP, which
//! has none. `dialect::templates` writes it, since the type of what is shown is known only when a statement is planned.
//!
//! Invariant: a constant, whatever the value is: its type alone matters, so that `to_char` has one form for all rows.

use arrow::datatypes::DataType;
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct FormByZone {
    signature: Signature,
}

impl Default for FormByZone {
    fn default() -> FormByZone {
        FormByZone { signature: Signature::any(3, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for FormByZone {
    fn name(&self) -> &str {
        "form_by_zone"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value, form, other] = take_function_args(self.name(), args.args)?;
        // A DATE is shown as the TIMESTAMPTZ that it becomes.
        let chosen = if matches!(value.data_type(), DataType::Timestamp(_, None)) { other } else { form };
        match chosen {
            ColumnarValue::Scalar(form) => Ok(ColumnarValue::Scalar(form.cast_to(&DataType::Utf8)?)),
            ColumnarValue::Array(_) => exec_err!("a form by zone is written out"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::checked::testing::{batches, context, runtime};
    use arrow::array::AsArray;

    #[test]
    fn the_type_chooses_the_form() {
        for (value, shown) in [
            ("arrow_cast('2026-11-21T10:04:59', 'Timestamp(µs)')", "10 "),
            ("arrow_cast('2026-11-21T10:04:59', 'Timestamp(µs, \"UTC\")')", "10 UTC"),
        ] {
            let sql = format!("SELECT to_char({value}, form_by_zone({value}, '%H UTC', '%H ')) AS shown");
            let found = runtime().block_on(batches(&context(), &sql)).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(found[0].column(0).as_string::<i32>().value(0), shown);
        }
    }
}
