//! The functions that round floats and decimals.
//!
//! Invariants:
//! - They are called what they stand for: a column keeps its name.
//! - [`Decimal`] is what is right of a place; the float's own arithmetic is asked first, and believed where its error cannot matter.

use crate::codec::{StateReader, StateWriter, Stateful};
use crate::columnar::{as_columnar, is_constant};
use crate::delegate::name_of_arguments;
use arrow::array::{ArrayRef, AsArray, Float32Array, Float64Array, Int64Array};
use arrow::compute::cast;
use arrow::compute::kernels::arity::try_binary;
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int64Type};
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, exec_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::sync::{Arc, LazyLock};

/// Whether values of a type may have a fraction.
pub fn has_fraction(of: &DataType) -> bool {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256, Float32, Float64};
    match of {
        Float32 | Float64 => true,
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) => *scale > 0,
        _ => false,
    }
}

/// The nearest number without a fraction; of two floats the even one, or the one further from zero, and of two decimals always that.
pub fn rounded(of: Expr, to_even: bool) -> Expr {
    static EVEN: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Rounded::new(true))));
    static AWAY: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Rounded::new(false))));
    let function = Arc::clone(if to_even { &EVEN } else { &AWAY });
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![of]))
}

/// Whether it is of [`rounded`].
pub fn is_rounded(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(function) if ["nearest_even", "nearest_away"].contains(&function.name()))
}

/// The nearest float with so many digits behind the point, or before it if negative.
pub fn at_place(of: Expr, places: Expr) -> Expr {
    static AT_PLACE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(AtPlace::new())));
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&AT_PLACE), vec![of, places]))
}

/// The type of decimals without a fraction; any other as it is.
fn whole(of: &DataType) -> DataType {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256};
    match *of {
        Decimal32(precision, _) => Decimal32(precision, 0),
        Decimal64(precision, _) => Decimal64(precision, 0),
        Decimal128(precision, _) => Decimal128(precision, 0),
        Decimal256(precision, _) => Decimal256(precision, 0),
        ref other => other.clone(),
    }
}

/// The nearest number without a fraction.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rounded {
    to_even: bool,
    signature: Signature,
}

impl Stateful for Rounded {
    const CODE: &'static str = "rounded";

    fn write(&self, state: &mut StateWriter) -> Result<()> {
        state.byte(u8::from(self.to_even));
        Ok(())
    }

    fn read(state: &mut StateReader<'_>) -> Result<Self> {
        Ok(Rounded::new(state.flag()?))
    }
}

impl Rounded {
    fn new(to_even: bool) -> Rounded {
        Rounded { to_even, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Rounded {
    fn name(&self) -> &str {
        if self.to_even { "nearest_even" } else { "nearest_away" }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(name_of_arguments(args))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(whole(&arg_types[0]))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = take_function_args(self.name(), args.args)?;
        let (values, is_scalar) = match value {
            ColumnarValue::Array(values) => (values, false),
            ColumnarValue::Scalar(value) => (value.to_array()?, true),
        };
        let to_even = self.to_even;
        let rounded: ArrayRef = match values.data_type() {
            DataType::Float64 => {
                let round = |value: f64| if to_even { value.round_ties_even() } else { value.round() };
                Arc::new(values.as_primitive::<Float64Type>().unary::<_, Float64Type>(round)) as _
            }
            DataType::Float32 => {
                let round = |value: f32| if to_even { value.round_ties_even() } else { value.round() };
                Arc::new(values.as_primitive::<Float32Type>().unary::<_, Float32Type>(round)) as _
            }
            // A smaller scale takes the nearest, and of two the one further from zero.
            of if of.is_decimal() => cast(&values, &whole(of))?,
            other => return exec_err!("{other} has no fraction"),
        };
        as_columnar(rounded, is_scalar)
    }
}

/// The nearest float at a place behind the point.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct AtPlace {
    signature: Signature,
}

impl Stateful for AtPlace {
    const CODE: &'static str = "rounded_at_place";

    fn write(&self, _state: &mut StateWriter) -> Result<()> {
        Ok(())
    }

    fn read(_state: &mut StateReader<'_>) -> Result<Self> {
        Ok(AtPlace::new())
    }
}

impl AtPlace {
    fn new() -> AtPlace {
        AtPlace { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for AtPlace {
    fn name(&self) -> &str {
        "round_at"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = is_constant(&args.args);
        let [values, places] = take_function_args(self.name(), ColumnarValue::values_to_arrays(&args.args)?)?;
        let rounded = floats_at(&values, places.as_primitive::<Int64Type>())?;
        as_columnar(rounded, is_scalar)
    }
}

/// The nearest floats at these places.
pub(crate) fn floats_at(values: &ArrayRef, places: &Int64Array) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Float64 => {
            let values = values.as_primitive::<Float64Type>();
            let rounded: Float64Array = try_binary(values, places, |value, places| Ok(double_at(value, places)))?;
            Arc::new(rounded)
        }
        DataType::Float32 => {
            let values = values.as_primitive::<Float32Type>();
            let rounded: Float32Array = try_binary(values, places, |value, places| {
                Ok(Decimal::of(format!("{value:.5e}")).map_or(value, |decimal| (decimal.at(places) + 0.0) as f32))
            })?;
            Arc::new(rounded)
        }
        other => return exec_err!("{other} is no float"),
    })
}

/// Of a double.
fn double_at(value: f64, places: i64) -> f64 {
    // A number has no negative zero.
    nearly(value, places).unwrap_or_else(|| exactly(value, places)) + 0.0
}

/// By the double's own arithmetic, if it is far enough from where rounding turns.
fn nearly(value: f64, places: i64) -> Option<f64> {
    const SURE_MAX: f64 = 1e14;
    let places = i32::try_from(places).ok().filter(|places| (0..=15).contains(places))?;
    // A power of ten up to 1e22 is a double.
    let scale = 10_f64.powi(places);
    let scaled = value * scale;
    let from_turn = (scaled.abs().fract() - 0.5).abs();
    // Taking 15 digits moves it by 5e-15 of itself at most, and the product is off by less.
    (scaled.abs() < SURE_MAX && from_turn > scaled.abs() * 2e-14).then(|| scaled.round() / scale)
}

/// By its decimal digits.
fn exactly(value: f64, places: i64) -> f64 {
    Decimal::of(format!("{value:.14e}")).map_or(value, |decimal| decimal.at(places))
}

/// `digits * 10^exponent`, as a float is written with the digits that it is sure of.
struct Decimal {
    is_negative: bool,
    digits: u64,
    exponent: i64,
}

impl Decimal {
    /// Of `-1.2500e3`; nothing is not a number, or without end.
    fn of(text: String) -> Option<Decimal> {
        let (mantissa, exponent) = text.split_once('e')?;
        let (whole, fraction) = mantissa.split_once('.')?;
        let digits = format!("{}{fraction}", whole.trim_start_matches('-')).parse().ok()?;
        let exponent = exponent.parse::<i64>().ok()? - fraction.len() as i64;
        Some(Decimal { is_negative: whole.starts_with('-'), digits, exponent })
    }

    fn at(self, places: i64) -> f64 {
        let Decimal { is_negative, digits, exponent } = self;
        let dropped = places.saturating_add(exponent).saturating_neg();
        let (digits, exponent) = match u32::try_from(dropped) {
            Ok(0) | Err(_) if dropped <= 0 => (digits, exponent),
            // There are no more than 17 digits.
            Ok(dropped @ 0..=18) => {
                let unit = 10_u64.pow(dropped);
                ((digits + unit / 2) / unit, exponent + i64::from(dropped))
            }
            _ => (0, 0),
        };
        let sign = if is_negative { "-" } else { "" };
        // A text of digits and an exponent is always a float.
        format!("{sign}{digits}e{exponent}").parse().unwrap_or(f64::NAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// PostgreSQL 15's `round(x::double precision::numeric, n)::double precision`.
    #[test]
    fn places_are_as_postgresql_has_them() {
        for (value, places, expected) in [
            (2.675, 2, 2.68),
            (1.005, 2, 1.01),
            (2.5, 0, 3.0),
            (-2.5, 0, -3.0),
            (0.1 + 0.2, 17, 0.3),
            (1234.5, -2, 1200.0),
            (1250.0, -2, 1300.0),
            (50.0, -2, 100.0),
            (49.0, -2, 0.0),
            (1e300, 2, 1e300),
            (123_456_789_012_345_680.0, 0, 123_456_789_012_346_000.0),
            (1e-300, 3, 0.0),
            (-0.0004, 3, 0.0),
        ] {
            assert_eq!(double_at(value, places), expected, "{value} at {places}");
        }
        assert!(double_at(f64::NAN, 2).is_nan());
        assert_eq!(double_at(f64::NEG_INFINITY, 2), f64::NEG_INFINITY);
        assert_eq!(double_at(2.5, i64::MIN), 0.0);
        assert_eq!(double_at(2.5, i64::MAX), 2.5);
        assert_eq!(Decimal::of(format!("{:.5e}", 2.675_f32)).unwrap().at(2) as f32, 2.68);
    }

    proptest! {
        #[test]
        fn the_quick_way_rounds_as_the_digits_say(
            value in prop_oneof![-1e6..1e6_f64, (-1_000_000_i64..1_000_000).prop_map(|n| n as f64 / 1000.0), any::<f64>()],
            places in 0..=15_i64,
        ) {
            if let Some(quick) = nearly(value, places) {
                prop_assert_eq!(quick, exactly(value, places), "{} at {}", value, places);
            }
        }
    }
}
