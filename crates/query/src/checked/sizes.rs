//! Functions that make much of little, held to the statement's memory.
//!
//! Invariant: what `repeat`, `lpad`, `rpad`, `range` and `generate_series` would make of a batch is known before it is made; a statement that
//! may not hold it fails, as one whose operators need too much does. (DataFusion accounts for what operators hold, and not for what
//! functions give: 2 GB of text came of a statement of 30 characters.)

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::config::ConfigExtension;
use datafusion::common::{DataFusionError, Result, extensions_options};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use std::sync::Arc;

extensions_options! {
    /// What one statement may use, for functions to know.
    pub(crate) struct StatementLimits {
        /// Bytes.
        pub(crate) memory_bytes: u64, default = u64::MAX
    }
}

impl ConfigExtension for StatementLimits {
    const PREFIX: &'static str = "statement";
}

/// How many bytes a function makes of its arguments, row by row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Makes {
    /// The text as often as the number says.
    Copies,
    /// At least as many characters as the number says, of a byte each.
    Characters,
    /// The numbers from one to another.
    Numbers,
}

const FUNCTIONS: [(&str, Makes); 5] = [
    ("repeat", Makes::Copies),
    ("lpad", Makes::Characters),
    ("rpad", Makes::Characters),
    ("range", Makes::Numbers),
    ("generate_series", Makes::Numbers),
];

/// Bounds the functions.
pub(super) fn register(state: &mut SessionState) -> Result<()> {
    for (name, makes) in FUNCTIONS {
        let inner = state.udf(name)?;
        state.register_udf(Arc::new(ScalarUDF::from(Bounded { inner, makes })))?;
    }
    Ok(())
}

/// A function that asks first.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    makes: Makes,
}

impl Bounded {
    /// Bytes that come of all rows, about; at most what is known to be made.
    fn bytes(&self, args: &[ColumnarValue], rows: usize) -> Result<u128> {
        let rows = if args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_))) { 1 } else { rows };
        let column = |at: usize| -> Result<Option<ArrayRef>> { args.get(at).map(|arg| arg.to_array(rows)).transpose() };
        let number = |column: &Option<ArrayRef>, row: usize| {
            let numbers = column.as_ref()?.as_primitive_opt::<Int64Type>()?;
            numbers.is_valid(row).then(|| i128::from(numbers.value(row)))
        };
        let (first, second, third) = (column(0)?, column(1)?, column(2)?);
        let of_row = |row: usize| -> Option<u128> {
            let count = match self.makes {
                Makes::Copies => number(&second, row)?.max(0).saturating_mul(text_len(first.as_ref()?, row)? as i128),
                Makes::Characters => number(&second, row)?,
                Makes::Numbers => {
                    // With one argument it begins at 0.
                    let (from, to) = match &second {
                        Some(_) => (number(&first, row)?, number(&second, row)?),
                        None => (0, number(&first, row)?),
                    };
                    let step = if third.is_some() { number(&third, row)? } else { 1 };
                    if step == 0 { 0 } else { ((to - from) / step).saturating_mul(8) }
                }
            };
            Some(count.max(0).unsigned_abs())
        };
        Ok((0..rows).filter_map(of_row).sum())
    }
}

fn text_len(texts: &ArrayRef, row: usize) -> Option<usize> {
    if texts.is_null(row) {
        return None;
    }
    match texts.data_type() {
        DataType::Utf8 => Some(texts.as_string::<i32>().value(row).len()),
        DataType::LargeUtf8 => Some(texts.as_string::<i64>().value(row).len()),
        DataType::Utf8View => Some(texts.as_string_view().value(row).len()),
        _ => None,
    }
}

impl ScalarUDFImpl for Bounded {
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

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<arrow::datatypes::FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let limit =
            args.config_options.extensions.get::<StatementLimits>().map_or(u64::MAX, |limits| limits.memory_bytes);
        let bytes = self.bytes(&args.args, args.number_rows)?;
        if bytes > u128::from(limit) {
            let message = format!("{} would make {bytes} bytes, and the statement may hold {limit}", self.name());
            return Err(DataFusionError::ResourcesExhausted(message));
        }
        self.inner.invoke_with_args(args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringViewArray};
    use datafusion::common::ScalarValue;

    fn bounded(makes: Makes) -> Bounded {
        Bounded { inner: datafusion::functions::string::repeat(), makes }
    }

    #[test]
    fn what_is_made_is_known_before() {
        let texts = ColumnarValue::Array(Arc::new(StringViewArray::from(vec![Some("ab"), None, Some("c")])));
        let counts = ColumnarValue::Array(Arc::new(Int64Array::from(vec![Some(10), Some(1 << 40), Some(-3)])));
        let scalar = |number: i64| ColumnarValue::Scalar(ScalarValue::Int64(Some(number)));
        assert_eq!(bounded(Makes::Copies).bytes(&[texts.clone(), counts.clone()], 3).unwrap(), 20);
        assert_eq!(bounded(Makes::Copies).bytes(&[texts.clone(), scalar(1 << 62)], 3).unwrap(), 3 << 62);
        assert_eq!(bounded(Makes::Characters).bytes(&[texts, counts], 3).unwrap(), 10 + (1 << 40));
        assert_eq!(bounded(Makes::Numbers).bytes(&[scalar(1_000)], 8_192).unwrap(), 8_000);
        assert_eq!(bounded(Makes::Numbers).bytes(&[scalar(10), scalar(-10), scalar(-2)], 1).unwrap(), 80);
        assert_eq!(bounded(Makes::Numbers).bytes(&[scalar(i64::MIN), scalar(i64::MAX)], 1).unwrap() >> 60, 127);
    }
}
