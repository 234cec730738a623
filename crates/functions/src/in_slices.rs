//! Functions of DataFusion that take long for a row, some rows at a time.
//!
//! A batch has thousands of rows, and of long texts or lists what one call makes of them takes minutes (DataFusion 55.2): a distance of two texts
//! costs the product of their lengths. So it is made of slices of a batch, and between them it is asked whether the statement is to stop.
//! What of one row takes long is not parted.

use crate::delegate::delegate_scalar;
use crate::stopping;
use alluvia_values::widths::Widths;
use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use datafusion_common::Result;
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use std::sync::Arc;

/// Bytes of the arguments of a slice, unless one row has more.
const SLICE_BYTES: u64 = 16 << 10;

/// DataFusion's function, called with some rows at a time.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct InSlices {
    inner: Arc<ScalarUDF>,
}

impl InSlices {
    /// Of a function that DataFusion does not make another expression of: what it would make is not asked.
    pub(crate) fn of(inner: Arc<ScalarUDF>) -> ScalarUDF {
        InSlices { inner }.into()
    }
}

/// The rows of a slice of arguments of these widths that begins at a row.
fn slice_rows(widths: &[Widths], from: usize, rows: usize) -> usize {
    let mut bytes = 0_u64;
    let fits = (from..rows).take_while(|row| {
        bytes = widths.iter().fold(bytes, |bytes, widths| bytes.saturating_add(widths.at(*row)));
        bytes <= SLICE_BYTES
    });
    fits.count().max(1)
}

impl ScalarUDFImpl for InSlices {
    delegate_scalar!(
        name,
        aliases,
        signature,
        return_type,
        return_field_from_args,
        coerce_types,
        is_strict,
        output_ordering,
        documentation
    );

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = args.args.iter().filter_map(|arg| match arg {
            ColumnarValue::Array(array) => Some(Widths::of(array.as_ref())),
            ColumnarValue::Scalar(_) => None,
        });
        let (widths, rows): (Vec<Widths>, usize) = (arrays.collect(), args.number_rows);
        if widths.is_empty() || widths.iter().fold(0, |bytes, widths| widths.sum().saturating_add(bytes)) <= SLICE_BYTES
        {
            return self.inner.invoke_with_args(args);
        }
        let (mut made, mut from): (Vec<ArrayRef>, usize) = (Vec::new(), 0);
        while from < rows {
            stopping::check()?;
            let count = slice_rows(&widths, from, rows);
            let slice = |arg: &ColumnarValue| match arg {
                ColumnarValue::Array(array) => ColumnarValue::Array(array.slice(from, count)),
                ColumnarValue::Scalar(scalar) => ColumnarValue::Scalar(scalar.clone()),
            };
            let slice = ScalarFunctionArgs {
                args: args.args.iter().map(slice).collect(),
                arg_fields: args.arg_fields.clone(),
                number_rows: count,
                return_field: Arc::clone(&args.return_field),
                config_options: Arc::clone(&args.config_options),
            };
            made.push(self.inner.invoke_with_args(slice)?.into_array(count)?);
            from += count;
        }
        let made: Vec<&dyn Array> = made.iter().map(|slice| slice.as_ref()).collect();
        Ok(ColumnarValue::Array(concat(&made)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stopping::StopCheck;
    use crate::table::datafusion_scalar;
    use arrow::array::{AsArray, StringArray};
    use arrow::datatypes::{DataType, Field, Int32Type};
    use datafusion_common::config::ConfigOptions;
    use datafusion_common::exec_err;

    fn called(function: &ScalarUDF, texts: &[String]) -> Result<Vec<i32>> {
        let field = |name: &str, of| Arc::new(Field::new(name, of, true));
        let args = ScalarFunctionArgs {
            args: vec![
                ColumnarValue::Array(Arc::new(StringArray::from_iter_values(texts))),
                ColumnarValue::Scalar("kitten".into()),
            ],
            arg_fields: vec![field("a", DataType::Utf8), field("b", DataType::Utf8)],
            number_rows: texts.len(),
            return_field: field("d", DataType::Int32),
            config_options: Arc::new(ConfigOptions::default()),
        };
        let found = function.invoke_with_args(args)?.into_array(texts.len())?;
        Ok(found.as_primitive::<Int32Type>().values().to_vec())
    }

    #[test]
    fn slices_make_what_the_whole_makes_and_end_with_the_statement() {
        let whole = datafusion_scalar("levenshtein").unwrap();
        let sliced = InSlices::of(Arc::clone(&whole));
        for lengths in [[0, 1, 5], [1_000, 9_000, 20_000], [40_000, 3, 40_000]] {
            let texts: Vec<String> = (0..50).map(|row| "sit".repeat(lengths[row % 3] / 3)).collect();
            assert_eq!(called(&sliced, &texts).unwrap(), called(&whole, &texts).unwrap());
        }
        let stop = StopCheck::new(|| exec_err!("stopped"));
        let texts = vec!["a long text".repeat(100); 100];
        assert!(stop.within(|| called(&sliced, &texts)).is_err());
        assert!(stop.within(|| called(&whole, &texts)).is_ok(), "it asks nobody");
    }
}
