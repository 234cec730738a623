//! Functions that make much of little, held to the statement's memory.
//!
//! Invariant: what `repeat`, `lpad`, `rpad`, `range` and `generate_series` would make of a batch is known before it is made; a statement that
//! may not hold it fails, as one whose operators need too much does. (DataFusion accounts for what operators hold, and not for what
//! functions give: 2 GB of text came of a statement of 30 characters.)

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::config::ConfigExtension;
use datafusion::common::{DataFusionError, Result, ScalarValue, extensions_options};
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
    /// Bytes that come of all rows, about; at most what is known to be made. Nothing is made to know it.
    fn bytes(&self, args: &[ColumnarValue], rows: usize) -> u128 {
        let is_scalar = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
        let rows = if args.iter().all(is_scalar) { 1 } else { rows };
        let (first, second, third) = (args.first(), args.get(1), args.get(2));
        let of_row = |row: usize| -> Option<i128> {
            Some(match self.makes {
                Makes::Copies => {
                    let len = text_len(first?, row)? as i128;
                    // A text of all rows is written out for each.
                    let own = if rows > 1 && is_scalar(first?) { len } else { 0 };
                    number(second?, row)?.max(0).saturating_mul(len).saturating_add(own)
                }
                Makes::Characters if third.is_some_and(|fill| text_len(fill, row) == Some(0)) => 0,
                Makes::Characters => text_len(first?, row).and(number(second?, row))?,
                Makes::Numbers => {
                    // With one argument it begins at 0.
                    let (from, to) = match second {
                        Some(second) => (number(first?, row)?, number(second, row)?),
                        None => (0, number(first?, row)?),
                    };
                    let step = third.map_or(Some(1), |third| number(third, row))?;
                    if step == 0 { 0 } else { ((to - from) / step).saturating_mul(8) }
                }
            })
        };
        (0..rows).filter_map(of_row).map(|bytes| bytes.max(0).unsigned_abs()).sum()
    }
}

fn number(arg: &ColumnarValue, row: usize) -> Option<i128> {
    match arg {
        ColumnarValue::Scalar(ScalarValue::Int64(number)) => number.map(i128::from),
        ColumnarValue::Scalar(_) => None,
        ColumnarValue::Array(array) => {
            let numbers = array.as_primitive_opt::<Int64Type>()?;
            numbers.is_valid(row).then(|| i128::from(numbers.value(row)))
        }
    }
}

fn text_len(arg: &ColumnarValue, row: usize) -> Option<usize> {
    let texts = match arg {
        ColumnarValue::Scalar(text) => return text.try_as_str().flatten().map(str::len),
        ColumnarValue::Array(texts) => texts,
    };
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
        let bytes = self.bytes(&args.args, args.number_rows);
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
    use proptest::prelude::*;

    fn bounded(makes: Makes) -> Bounded {
        Bounded { inner: datafusion::functions::string::repeat(), makes }
    }

    #[test]
    fn what_is_made_is_known_before() {
        let texts = ColumnarValue::Array(Arc::new(StringViewArray::from(vec![Some("ab"), None, Some("c")])));
        let counts = ColumnarValue::Array(Arc::new(Int64Array::from(vec![Some(10), Some(1 << 40), Some(-3)])));
        assert_eq!(bounded(Makes::Copies).bytes(&[texts.clone(), counts.clone()], 3), 20);
        assert_eq!(bounded(Makes::Copies).bytes(&[texts.clone(), scalar(1 << 62)], 3), 3 << 62);
        assert_eq!(bounded(Makes::Characters).bytes(&[texts, counts], 3), 10);
        assert_eq!(bounded(Makes::Numbers).bytes(&[scalar(1_000)], 8_192), 8_000);
        assert_eq!(bounded(Makes::Numbers).bytes(&[scalar(10), scalar(-10), scalar(-2)], 1), 80);
        assert_eq!(bounded(Makes::Numbers).bytes(&[scalar(i64::MIN), scalar(i64::MAX)], 1) >> 60, 127);
    }

    fn scalar(number: i64) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::Int64(Some(number)))
    }

    /// How many numbers there are from one on, short of another.
    fn counted(from: i64, to: i64, step: i64) -> u128 {
        let is_short = |number: &i64| if step > 0 { *number < to } else { *number > to };
        std::iter::successors(Some(from), |number| Some(number + step)).take_while(is_short).count() as u128
    }

    proptest! {
        #[test]
        fn texts_are_as_long_as_they_are_when_made(
            rows in prop::collection::vec((prop::option::of("[a-zäß]{0,5}"), prop::option::of(-3..20_i64)), 1..20),
        ) {
            let texts: StringViewArray = rows.iter().map(|row| row.0.as_deref()).collect();
            let counts: Int64Array = rows.iter().map(|row| row.1).collect();
            let args = [ColumnarValue::Array(Arc::new(texts)), ColumnarValue::Array(Arc::new(counts))];
            let of_rows = |made: &dyn Fn(&str, usize) -> usize| -> u128 {
                let of_row = |row: &(Option<String>, Option<i64>)| {
                    Some(made(row.0.as_deref()?, row.1?.max(0) as usize) as u128)
                };
                rows.iter().filter_map(of_row).sum()
            };
            let copies = of_rows(&|text, count| text.repeat(count).len());
            prop_assert_eq!(bounded(Makes::Copies).bytes(&args, rows.len()), copies);
            let characters = of_rows(&|text, count| {
                let padding = "x".repeat(count.saturating_sub(text.chars().count()));
                format!("{padding}{text}").chars().take(count).count()
            });
            prop_assert_eq!(bounded(Makes::Characters).bytes(&args, rows.len()), characters);
        }

        #[test]
        fn numbers_are_as_many_as_are_counted(from in -30..30_i64, to in -30..30_i64, step in -5..6_i64) {
            let bytes = bounded(Makes::Numbers).bytes(&[scalar(from), scalar(to), scalar(step)], 1);
            if step == 0 {
                prop_assert_eq!(bytes, 0);
                return Ok(());
            }
            // About: with its end a series has one more.
            let count = counted(from, to, step);
            prop_assert!(bytes <= 8 * count && 8 * count <= bytes + 8, "{} bytes of {} numbers", bytes, count);
        }
    }
}
