//! The function that makes decimals of floats.
//!
//! Invariants:
//! - A float is the number of the digits that it is sure of, 15 of a double and six of a REAL, as in PostgreSQL, rounded half away from zero:
//!   `CAST(x AS DECIMAL(10, 2))` of 10.1 * 1.15, which is 11.614999999999998, is 11.62.
//! - Of what PostgreSQL has as NUMERIC (`alluvia_plan::before_types::rounding::Rounding::is_exact`) more digits are taken where the scale is behind them: as many as tell
//!   the float from its neighbours.
//! - It is called what it stands for, a cast: a column keeps its name.

use crate::columnar::by_arrays;
use crate::delegate::name_of_given;
use alluvia_values::float_to_decimal::Target;
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type};
use datafusion_common::utils::take_function_args;
use datafusion_common::{DataFusionError, Result, exec_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

const NAME: &str = "decimal_of_float";

/// The decimal that a float is.
pub fn decimal_of(float: Expr, target: Target) -> Expr {
    let function = DecimalOfFloat { target, signature: Signature::any(1, Volatility::Immutable) };
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(function)), vec![float]))
}

/// Whether it is of [`decimal_of`].
pub fn is_decimal_of(function: &ScalarFunction) -> bool {
    function.name() == NAME
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DecimalOfFloat {
    target: Target,
    signature: Signature,
}

impl DecimalOfFloat {
    fn array(&self, floats: &ArrayRef) -> Result<ArrayRef> {
        let target = self.target;
        let made: Decimal128Array = match floats.data_type() {
            DataType::Float64 => {
                let floats = floats.as_primitive::<Float64Type>();
                if target.is_tried {
                    floats.unary_opt(|value| target.of_double(value))
                } else {
                    let made = |value| target.of_double(value).ok_or_else(|| target.does_not_fit(&value));
                    floats.try_unary::<_, Decimal128Type, DataFusionError>(made)?
                }
            }
            DataType::Float32 => {
                let floats = floats.as_primitive::<Float32Type>();
                if target.is_tried {
                    floats.unary_opt(|value| target.of_real(value))
                } else {
                    let made = |value| target.of_real(value).ok_or_else(|| target.does_not_fit(&value));
                    floats.try_unary::<_, Decimal128Type, DataFusionError>(made)?
                }
            }
            other => return exec_err!("{other} is no float"),
        };
        Ok(Arc::new(made.with_precision_and_scale(target.precision, target.scale)?))
    }
}

impl ScalarUDFImpl for DecimalOfFloat {
    fn name(&self) -> &str {
        NAME
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(name_of_given(args))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(self.target.precision, self.target.scale))
    }

    fn is_strict(&self) -> bool {
        true
    }

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
    use proptest::prelude::*;

    fn target(precision: u8, scale: i8, is_exact: bool) -> Target {
        Target { precision, scale, is_exact, is_tried: false }
    }

    /// PostgreSQL 15's `x::double precision::numeric(p, s)`.
    #[test]
    fn decimals_are_as_postgresql_has_them() {
        for (value, precision, scale, expected) in [
            (10.1 * 1.15, 10, 2, Some(1162)),
            (-10.1 * 1.15, 10, 2, Some(-1162)),
            (2.675, 10, 2, Some(268)),
            (1.005, 10, 2, Some(101)),
            (0.1 + 0.2, 38, 20, Some(30_000_000_000_000_000_000)),
            (123_456_789_012_345_680.0, 20, 0, Some(123_456_789_012_346_000)),
            (14_197_530_736_419.744, 20, 2, Some(1_419_753_073_641_970)),
            (99_999_999.995, 10, 2, None),
            (99_999_999.994, 10, 2, Some(9_999_999_999)),
            (1e20, 10, 2, None),
            (1e300, 38, 10, None),
            (-1e-300, 10, 2, Some(0)),
            (-0.0, 10, 2, Some(0)),
            (f64::NAN, 10, 2, None),
            (f64::NEG_INFINITY, 10, 2, None),
        ] {
            assert_eq!(target(precision, scale, false).of_double(value), expected, "{value}");
        }
        // What PostgreSQL has as NUMERIC.
        assert_eq!(target(20, 2, true).of_double(14_197_530_736_419.744), Some(1_419_753_073_641_974));
        assert_eq!(target(20, 2, true).of_double(1_234_567_890_123.455), Some(123_456_789_012_346));
        assert_eq!(target(10, 2, true).of_double(10.1 * 1.15), Some(1162));
        assert_eq!(target(20, 2, true).of_double(5e15), Some(500_000_000_000_000_000));
        assert_eq!(target(10, 2, false).of_real(2.675), Some(268));
        assert_eq!(target(10, 0, false).of_real(16_777_216.0), Some(16_777_200));
    }

    proptest! {
        #[test]
        fn the_quick_way_rounds_as_the_digits_say(
            value in prop_oneof![-1e6..1e6_f64, (-1_000_000_i64..1_000_000).prop_map(|n| n as f64 / 1000.0), any::<f64>()],
            scale in 0..=15_i64,
        ) {
            if let Some(quick) = nearly(value, scale) {
                prop_assert_eq!(Some(quick), units(&format!("{value:.14e}"), scale), "{} at {}", value, scale);
            }
        }
    }
}
