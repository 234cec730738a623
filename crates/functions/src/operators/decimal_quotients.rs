//! Quotients of decimals.
//!
//! Invariants:
//! - They have the digits that DataFusion gives them, four behind those of what is divided, and the last is rounded, of two half away from
//!   zero, as in PostgreSQL (which has 16 digits and more). DataFusion 55.2 cuts off what follows.
//! - What does not fit on the way is computed with 256 bits; a quotient that has no 38 digits is an error.
//! - Columns are called what they would be called without this.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: decimal, division, truncates, rounding).
//! Held by `slt/arithmetic.slt` (`SELECT a / b, - a / b, a / 3`).

use crate::codec::{StateReader, StateWriter, Stateful};
use crate::operators::{Operation, Operator};
use arrow::array::{Array, ArrayRef, AsArray, Datum, Decimal128Array};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL128_MAX_SCALE, DataType, Decimal128Type, i256};
use arrow::error::ArrowError;
use datafusion_common::{Result, exec_datafusion_err};
use datafusion_expr::ScalarUDF;
use std::sync::Arc;

/// Digits behind the point that are more than those of what is divided.
const MORE_DIGITS: i8 = 4;

/// The function that divides values of two types; `None` if they are no decimals.
pub fn quotient(left: &DataType, right: &DataType) -> Option<Arc<ScalarUDF>> {
    let (DataType::Decimal128(precision, scale @ 0..), DataType::Decimal128(_, of_divisor @ 0..)) = (left, right)
    else {
        return None;
    };
    // As Arrow's kernel has them, from which planning knows the type.
    let to = scale.saturating_add(MORE_DIGITS).min(DECIMAL128_MAX_SCALE);
    let exponent = u8::try_from(to - scale).ok()?.saturating_add(u8::try_from(*of_divisor).ok()?);
    let precision = precision.saturating_add(exponent).min(DECIMAL128_MAX_PRECISION);
    Some(Arc::new(ScalarUDF::from(Operation::new(Quotient { precision, scale: to, exponent }))))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Quotient {
    precision: u8,
    scale: i8,
    /// What is divided has so many zeros more.
    exponent: u8,
}

impl Stateful for Operation<Quotient> {
    const CODE: &'static str = "decimal_quotient";

    fn write(&self, state: &mut StateWriter) -> Result<()> {
        let Quotient { precision, scale, exponent } = self.of;
        state.byte(precision);
        state.number(scale.into());
        state.byte(exponent);
        Ok(())
    }

    fn read(state: &mut StateReader<'_>) -> Result<Self> {
        let (precision, scale) = (state.byte()?, state.number()?);
        let scale = i8::try_from(scale).map_err(|_| exec_datafusion_err!("{scale} is no scale"))?;
        Ok(Operation::new(Quotient { precision, scale, exponent: state.byte()? }))
    }
}

impl Operator for Quotient {
    fn name(self) -> &'static str {
        "decimal_divide"
    }

    fn sign(self) -> Option<&'static str> {
        Some("/")
    }

    fn type_of(self, _operands: &[DataType]) -> DataType {
        DataType::Decimal128(self.precision, self.scale)
    }

    fn of_arrays(self, left: &dyn Datum, right: &dyn Datum) -> std::result::Result<ArrayRef, ArrowError> {
        let ((left, is_one), (right, is_divisor_one)) = (left.get(), right.get());
        let (numbers, divisors) = (left.as_primitive::<Decimal128Type>(), right.as_primitive::<Decimal128Type>());
        let factor = 10_i128.checked_pow(self.exponent.into()).ok_or_else(overflow)?;
        let rows = if is_one { divisors.len() } else { numbers.len() };
        let quotients: std::result::Result<Decimal128Array, ArrowError> = (0..rows)
            .map(|row| {
                let (number, divisor) = (if is_one { 0 } else { row }, if is_divisor_one { 0 } else { row });
                let is_null = numbers.is_null(number) || divisors.is_null(divisor);
                (!is_null).then(|| rounded(numbers.value(number), factor, divisors.value(divisor))).transpose()
            })
            .collect();
        Ok(Arc::new(quotients?.with_precision_and_scale(self.precision, self.scale)?))
    }
}

fn overflow() -> ArrowError {
    ArrowError::ArithmeticOverflow("a quotient of decimals has too many digits".to_owned())
}

/// The whole number that is nearest to `number * factor / divisor`; of two the one further from zero.
fn rounded(number: i128, factor: i128, divisor: i128) -> std::result::Result<i128, ArrowError> {
    if divisor == 0 {
        return Err(ArrowError::DivideByZero);
    }
    let Some(number) = number.checked_mul(factor).filter(|number| *number != i128::MIN) else {
        return rounded_wide(number, factor, divisor);
    };
    let (quotient, rest) = (number / divisor, (number % divisor).unsigned_abs());
    let away = if (number < 0) == (divisor < 0) { 1 } else { -1 };
    // Half of the divisor or more, without doubling what may not be doubled.
    fitting(if rest >= divisor.unsigned_abs() - rest { quotient + away } else { quotient })
}

/// A quotient that has no more digits than a decimal may.
fn fitting(quotient: i128) -> std::result::Result<i128, ArrowError> {
    let limit = 10_u128.pow(DECIMAL128_MAX_PRECISION.into());
    if quotient.unsigned_abs() < limit { Ok(quotient) } else { Err(overflow()) }
}

/// The same by 256 bits, in which 76 digits fit.
fn rounded_wide(number: i128, factor: i128, divisor: i128) -> std::result::Result<i128, ArrowError> {
    let (number, divisor) = (i256::from_i128(number).checked_mul(i256::from_i128(factor)), i256::from_i128(divisor));
    let number = number.ok_or_else(overflow)?;
    let quotient = number.checked_div(divisor).ok_or_else(overflow)?;
    let rest = number.checked_rem(divisor).ok_or_else(overflow)?.wrapping_abs();
    let away = if number.is_negative() == divisor.is_negative() { i256::ONE } else { i256::MINUS_ONE };
    let is_half = rest >= divisor.wrapping_abs().wrapping_sub(rest);
    let quotient = if is_half { quotient.wrapping_add(away) } else { quotient };
    fitting(quotient.to_i128().ok_or_else(overflow)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_digit_is_rounded_away_from_zero() {
        for (number, factor, divisor, expected) in [
            (2, 10_000, 3, 6_667),
            (-2, 10_000, 3, -6_667),
            (1, 1, 2, 1),
            (-1, 1, 2, -1),
            (1, 1, -2, -1),
            (1, 10, 4, 3),
            (1, 1, 3, 0),
            (10_i128.pow(37), 10_000, 10_i128.pow(37), 10_000),
            (10_i128.pow(37), 10_000, -3 * 10_i128.pow(37), -3_333),
        ] {
            assert_eq!(rounded(number, factor, divisor).ok(), Some(expected), "{number} * {factor} / {divisor}");
        }
        assert!(matches!(rounded(1, 1, 0), Err(ArrowError::DivideByZero)));
        assert!(rounded(10_i128.pow(37), 10_000, 1).is_err());
        // 39 digits, for which 128 bits would do.
        assert!(rounded(15 * 10_i128.pow(33), 10_000, 1).is_err());
    }

    proptest! {
        #[test]
        fn both_widths_round_alike(
            number in -1_000_000_i128..1_000_000,
            divisor in prop_oneof![-5_000_i128..0, 1_i128..5_000],
        ) {
            prop_assert_eq!(rounded(number, 10_000, divisor).ok(), rounded_wide(number, 10_000, divisor).ok());
        }
    }
}
