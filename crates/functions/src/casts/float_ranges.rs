//! Casts to floats, which have no room for every number.
//!
//! Invariants:
//! - A number that is finite and that the float cannot hold is an error (22003), or NULL where the cast is only tried, and no infinity: in
//!   INSERT and COPY, too (`alluvia_copy`). Infinity that is written, or that a double is, stays infinity.
//! - Everything else is what DataFusion's cast makes of it.
//! - It is called what it stands for, a cast: a column keeps its name.
//!
//! Arrow's kernels make infinity of what is too large, of which a comparison says what is wrong.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: cast, double to float, out of range,
//! infinity).
//! Held by `slt/float_ranges.slt` (`CAST(CAST(1e39 AS DOUBLE PRECISION) AS REAL)`).

use crate::codec::{StateReader, StateWriter, Stateful};
use crate::columnar::by_arrays;
use crate::delegate::in_place_of_a_cast;
use alluvia_types::Error;
use alluvia_values::errors::wrap;
use alluvia_values::parse::{Bad, shown};
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray};
use arrow::compute::{CastOptions, cast, cast_with_options, nullif};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion_common::Result;
use datafusion_common::format::DEFAULT_CAST_OPTIONS;
use datafusion_common::utils::take_function_args;
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// Whether a value of one type may be too large for another, a float.
pub fn may_be_too_large(of: &DataType, to: &DataType) -> bool {
    use DataType::{Decimal256, Dictionary, Float32, Float64, LargeUtf8, Utf8, Utf8View};
    match (of, to) {
        (Dictionary(_, of), to) => may_be_too_large(of, to),
        (Utf8 | LargeUtf8 | Utf8View, Float32 | Float64) => true,
        (Float64 | Decimal256(..), Float32) => true,
        _ => false,
    }
}

/// Floats of type `to` for values, or where they are too large an error, or NULL if it is only tried.
pub fn float(of: Expr, to: DataType, is_tried: bool) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(FloatWithin::new(to, is_tried))), vec![of]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct FloatWithin {
    to: DataType,
    is_tried: bool,
    signature: Signature,
}

impl Stateful for FloatWithin {
    const CODE: &'static str = "float_within";

    fn write(&self, state: &mut StateWriter) -> Result<()> {
        state.data_type(&self.to)?;
        state.byte(u8::from(self.is_tried));
        Ok(())
    }

    fn read(state: &mut StateReader<'_>) -> Result<Self> {
        Ok(FloatWithin::new(state.data_type()?, state.flag()?))
    }
}

impl FloatWithin {
    fn new(to: DataType, is_tried: bool) -> FloatWithin {
        FloatWithin { to, is_tried, signature: Signature::any(1, Volatility::Immutable) }
    }

    fn array(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let made = cast_with_options(values, &self.to, &CastOptions { safe: self.is_tried, ..DEFAULT_CAST_OPTIONS })?;
        let infinite = match &self.to {
            DataType::Float32 => rows_of::<Float32Type>(&made, f32::is_infinite),
            _ => rows_of::<Float64Type>(&made, f64::is_infinite),
        };
        let mut lost = vec![false; if infinite.is_empty() { 0 } else { made.len() }];
        for row in infinite {
            let value = values.slice(row, 1);
            if !is_finite(&value)? {
                continue;
            }
            if !self.is_tried {
                return Err(self.too_large(&value)?);
            }
            lost[row] = true;
        }
        if lost.contains(&true) { Ok(nullif(&made, &BooleanArray::from(lost))?) } else { Ok(made) }
    }

    fn too_large(&self, value: &ArrayRef) -> Result<datafusion_common::DataFusionError> {
        let text = cast(value, &DataType::Utf8View)?;
        let to = if self.to == DataType::Float32 { "REAL" } else { "DOUBLE" };
        let message = Bad::Range.describe(&shown(text.as_string_view().value(0).as_bytes()), to);
        Ok(wrap(Error::new(Bad::Range.kind(), message)))
    }
}

/// The rows that have such a value.
fn rows_of<T: ArrowPrimitiveType>(floats: &ArrayRef, is: impl Fn(T::Native) -> bool) -> Vec<usize> {
    let floats = floats.as_primitive::<T>();
    (0..floats.len()).filter(|&row| floats.is_valid(row) && is(floats.value(row))).collect()
}

/// Whether the one value, of which infinity became, is none.
fn is_finite(value: &ArrayRef) -> Result<bool> {
    Ok(match value.data_type() {
        DataType::Float64 => value.as_primitive::<Float64Type>().value(0).is_finite(),
        DataType::Decimal256(..) => true,
        // `inf` and `-Infinity` have no digits.
        _ => cast(value, &DataType::Utf8View)?.as_string_view().value(0).bytes().any(|byte| byte.is_ascii_digit()),
    })
}

impl ScalarUDFImpl for FloatWithin {
    fn name(&self) -> &str {
        match (&self.to, self.is_tried) {
            (DataType::Float32, false) => "real_within",
            (DataType::Float32, true) => "real_if_within",
            (_, false) => "double_within",
            (_, true) => "double_if_within",
        }
    }

    in_place_of_a_cast!();

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        by_arrays(&args.args, |values| {
            let [values] = take_function_args(self.name(), values)?;
            self.array(&values)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, StringViewArray};

    fn function(to: DataType, is_tried: bool) -> FloatWithin {
        FloatWithin { to, is_tried, signature: Signature::any(1, Volatility::Immutable) }
    }

    #[test]
    fn what_is_too_large_is_an_error_or_null_and_infinity_stays() {
        let texts = [Some("1e308"), Some("-inf"), None, Some("1e309"), Some("Infinity"), Some("-1e400"), Some("x")];
        let all: ArrayRef = Arc::new(StringViewArray::from_iter(texts));
        let found = function(DataType::Float64, true).array(&all).unwrap();
        let found: Vec<Option<f64>> = found.as_primitive::<Float64Type>().iter().collect();
        assert_eq!(found, [Some(1e308), Some(f64::NEG_INFINITY), None, None, Some(f64::INFINITY), None, None]);
        let error = function(DataType::Float64, false).array(&all.slice(2, 3)).unwrap_err().to_string();
        assert!(error.contains("'1e309' is out of range for DOUBLE"), "{error}");
        assert!(function(DataType::Float64, false).array(&all.slice(0, 3)).is_ok());
        let doubles: ArrayRef = Arc::new(Float64Array::from(vec![Some(1e39), Some(f64::INFINITY), None, Some(-3.5)]));
        let found = function(DataType::Float32, true).array(&doubles).unwrap();
        let found: Vec<Option<f32>> = found.as_primitive::<Float32Type>().iter().collect();
        assert_eq!(found, [None, Some(f32::INFINITY), None, Some(-3.5)]);
        let error = function(DataType::Float32, false).array(&doubles).unwrap_err().to_string();
        assert!(error.contains("is out of range for REAL"), "{error}");
    }
}
