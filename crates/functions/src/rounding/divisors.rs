//! `gcd` and `lcm`, of INT as well as of BIGINT, and of NUMERIC that is whole.
//!
//! Invariants, as in PostgreSQL:
//! - Of two INT they are an INT, and of what does not fit its type an error (22003).
//! - They are never negative, and `lcm` of zero is zero.
//!
//! DataFusion 55.2 has them of BIGINT alone.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: gcd, lcm, Int32, overflow).
//! Held by `slt/numeric.slt` (`lcm(2147483647::int4, 2147483646::int4)`).

use crate::columnar::by_arrays;
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, plan_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// One of the two.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Divisors {
    is_multiple: bool,
    signature: Signature,
}

impl Divisors {
    /// `gcd`
    pub(crate) fn gcd() -> Divisors {
        Divisors { is_multiple: false, signature: Signature::user_defined(Volatility::Immutable) }
    }

    /// `lcm`
    pub(crate) fn lcm() -> Divisors {
        Divisors { is_multiple: true, ..Divisors::gcd() }
    }

    fn one(&self, a: i64, b: i64, limit: i128) -> Option<i64> {
        let divisor = gcd(a.unsigned_abs(), b.unsigned_abs());
        let made = match self.is_multiple {
            false => i128::from(divisor),
            true if a == 0 || b == 0 => 0,
            true => i128::from(a.unsigned_abs() / divisor) * i128::from(b.unsigned_abs()),
        };
        i64::try_from(made).ok().filter(|_| made <= limit)
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl ScalarUDFImpl for Divisors {
    fn name(&self) -> &str {
        if self.is_multiple { "lcm" } else { "gcd" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_int = |of: &DataType| matches!(of, DataType::Int8 | DataType::Int16 | DataType::Int32);
        match types {
            [a, b] if is_int(a) && is_int(b) => Ok(vec![DataType::Int32; 2]),
            [a, b] if [a, b].iter().all(|of| of.is_integer() || of.is_null()) => Ok(vec![DataType::Int64; 2]),
            _ => plan_err!("{} takes two whole numbers", self.name()),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types.first().cloned().unwrap_or(DataType::Int64))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        by_arrays(&args.args, |arrays| {
            let [left, right] = take_function_args(self.name(), arrays)?;
            let of = left.data_type().clone();
            let (limit, name) = match of {
                DataType::Int32 => (i128::from(i32::MAX), "integer"),
                _ => (i128::from(i64::MAX), "bigint"),
            };
            let whole = |array: &ArrayRef| -> Result<Int64Array> {
                Ok(cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
            };
            let pairs = whole(&left)?;
            let pairs = pairs.iter().zip(whole(&right)?.iter().collect::<Vec<_>>());
            let each = |(a, b): (Option<i64>, Option<i64>)| match a.zip(b) {
                Some((a, b)) => self
                    .one(a, b, limit)
                    .map(Some)
                    .ok_or_else(|| wrap(Error::new(ErrorKind::OutOfRange, format!("{name} out of range")))),
                None => Ok(None),
            };
            let made: ArrayRef = Arc::new(pairs.map(each).collect::<Result<Int64Array>>()?);
            Ok(cast(&made, &of)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn they_are_what_trial_division_finds(a in -300..300_i64, b in -300..300_i64) {
            let (x, y) = (a.abs(), b.abs());
            let divisor = (1..=x.max(y)).rev().find(|by| x % by == 0 && y % by == 0).unwrap_or(0);
            prop_assert_eq!(Divisors::gcd().one(a, b, i128::MAX), Some(divisor));
            let multiple = if x == 0 || y == 0 { 0 } else { (1..).map(|n| n * x).find(|of| of % y == 0).unwrap_or(0) };
            prop_assert_eq!(Divisors::lcm().one(a, b, i128::MAX), Some(multiple));
        }
    }

    #[test]
    fn what_does_not_fit_is_none() {
        let limit = i128::from(i32::MAX);
        assert_eq!(Divisors::gcd().one(i64::from(i32::MIN), 0, limit), None);
        assert_eq!(Divisors::lcm().one(2_147_483_647, 2_147_483_646, limit), None);
        assert_eq!(Divisors::gcd().one(i64::MIN, i64::MIN, i128::from(i64::MAX)), None);
    }
}
