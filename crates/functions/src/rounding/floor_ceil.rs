//! `floor`, `ceil` and `trunc` of decimals: numbers without a fraction.
//!
//! Invariants:
//! - Of a DECIMAL(p, s) they are DECIMAL(p, 0), as in PostgreSQL, in which they always fit: `floor(price)` as text is `497`. `trunc(x, n)` and
//!   what is no decimal are DataFusion's.
//! - `floor(x) = n` is still `x >= n AND x < n + 1`, by which blocks are skipped.
//!
//! DataFusion 55.2 keeps the scale, so that `ceil` has no room for one digit more.
//!
//! Mends apache/datafusion#20640, #22511 (in 55.2).
//! Held by `slt/numbers.slt` (`ceil(99.5::decimal(3, 1))`).

use crate::columnar::as_columnar;
use crate::delegate::delegate_scalar;
use arrow::array::{ArrayRef, AsArray, Decimal128Array};
use arrow::datatypes::{DataType, Decimal128Type};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::interval_arithmetic::Interval;
use datafusion_expr::preimage::PreimageResult;
use datafusion_expr::simplify::SimplifyContext;
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use std::sync::Arc;

/// Where the whole number is that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Towards {
    /// `floor`
    Below,
    /// `ceil`
    Above,
    /// `trunc`
    Zero,
}

/// DataFusion's function, and decimals.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct FloorCeil {
    inner: Arc<ScalarUDF>,
    towards: Towards,
}

impl FloorCeil {
    /// Around DataFusion's `floor`, `ceil` or `trunc`.
    pub(crate) fn new(inner: Arc<ScalarUDF>, towards: Towards) -> FloorCeil {
        FloorCeil { inner, towards }
    }
}

impl Towards {
    /// The nearest whole number there, of units of which `unit` are one.
    fn whole(self, of: i128, unit: i128) -> i128 {
        match self {
            Towards::Below => of.div_euclid(unit),
            Towards::Above => of / unit + i128::from(of % unit > 0),
            Towards::Zero => of / unit,
        }
    }
}

/// Precision and scale of a decimal with a fraction, if it is the only one of the arguments.
fn with_fraction(arg_types: &[DataType]) -> Option<(u8, i8)> {
    match arg_types {
        [DataType::Decimal128(precision, scale @ 1..)] => Some((*precision, *scale)),
        _ => None,
    }
}

/// One, in units of a scale.
fn unit_of(scale: i8) -> Option<i128> {
    10_i128.checked_pow(u32::try_from(scale).ok()?)
}

impl ScalarUDFImpl for FloorCeil {
    delegate_scalar!(name, aliases, signature, is_strict, output_ordering, documentation);

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match with_fraction(arg_types) {
            Some((precision, _)) => Ok(DataType::Decimal128(precision, 0)),
            None => self.inner.return_type(arg_types),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arg_types: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
        let unit = with_fraction(&arg_types).and_then(|(precision, scale)| Some((precision, unit_of(scale)?)));
        let (Some((precision, unit)), Some(value)) = (unit, args.args.first()) else {
            return self.inner.invoke_with_args(args);
        };
        let (values, is_scalar) = match value {
            ColumnarValue::Array(values) => (Arc::clone(values), false),
            ColumnarValue::Scalar(value) => (value.to_array()?, true),
        };
        let wholes: Decimal128Array = values.as_primitive::<Decimal128Type>().unary(|of| self.towards.whole(of, unit));
        let wholes: ArrayRef = Arc::new(wholes.with_precision_and_scale(precision, 0)?);
        as_columnar(wholes, is_scalar)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        let arg_types: Vec<DataType> = inputs.iter().map(|input| input.data_type()).collect();
        match with_fraction(&arg_types) {
            Some((precision, _)) => Interval::make_unbounded(&DataType::Decimal128(precision, 0)),
            None => self.inner.evaluate_bounds(inputs),
        }
    }

    fn preimage(&self, args: &[Expr], literal: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        let [of] = args else { return Ok(PreimageResult::None) };
        let Some((precision, scale)) = with_fraction(&[info.get_data_type(of).unwrap_or(DataType::Null)]) else {
            return self.inner.preimage(args, literal, info);
        };
        // What the comparison is with has the type of a whole number.
        let (Towards::Below, Expr::Literal(ScalarValue::Decimal128(Some(whole), _, 0), _)) = (self.towards, literal)
        else {
            return Ok(PreimageResult::None);
        };
        let bound = |whole: i128| {
            let limit = 10_u128.checked_pow(u32::from(precision))?;
            let units = whole.checked_mul(unit_of(scale)?)?;
            (units.unsigned_abs() < limit).then_some(ScalarValue::Decimal128(Some(units), precision, scale))
        };
        let (Some(low), Some(high)) = (bound(*whole), whole.checked_add(1).and_then(bound)) else {
            return Ok(PreimageResult::None);
        };
        Ok(PreimageResult::Range { expr: of.clone(), interval: Box::new(Interval::try_new(low, high)?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whole_numbers_are_the_nearest_on_their_side(of in -1_000_i128..1_000, scale in 1..4_i8) {
            let unit = unit_of(scale).unwrap();
            let below = (-1_000..=1_000).rev().find(|whole| whole * unit <= of).unwrap();
            let above = (-1_000..=1_000).find(|whole| whole * unit >= of).unwrap();
            prop_assert_eq!(Towards::Below.whole(of, unit), below);
            prop_assert_eq!(Towards::Above.whole(of, unit), above);
            prop_assert_eq!(Towards::Zero.whole(of, unit), if of < 0 { above } else { below });
        }
    }
}
