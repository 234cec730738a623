//! The operators of floats.
//!
//! Invariants:
//! - A number divided by zero is SQLSTATE 22012, and so is what `%` leaves of it; NaN divided by zero is NaN, as in PostgreSQL.
//! - No operator makes a NaN whose sign is set ([`crate::copy::one_nan`]).
//! - Columns are called what they would be called without this.
//!
//! DataFusion 55.2 gives infinity and NaN for `1 / 0` and `0 / 0`. What is looked for takes a pass without branches over a batch that the
//! operator has just brought into the processor's cache.

use super::operators::{self, Operation};
use crate::copy::one_nan;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Datum};
use arrow::compute::kernels::numeric::{add, div, mul, neg, rem, sub};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::error::ArrowError;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, Operator, ScalarUDF};
use std::sync::{Arc, LazyLock};

/// `left op right` of floats of one type; `None` if the operator is none of arithmetic.
pub(super) fn operation(op: Operator) -> Option<Arc<ScalarUDF>> {
    static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 5]> =
        LazyLock::new(|| Of::BINARY.map(|(_, of)| Arc::new(ScalarUDF::from(FloatOperation::new(of)))));
    let at = Of::BINARY.iter().position(|(own, _)| *own == op)?;
    Some(Arc::clone(&FUNCTIONS[at]))
}

/// `- of`.
pub(super) fn negated(of: Expr) -> Expr {
    static NEGATE: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::from(FloatOperation::new(Of::Negate))));
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&NEGATE), vec![of]))
}

type FloatOperation = Operation<Of>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Of {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remain,
    Negate,
}

impl Of {
    const BINARY: [(Operator, Of); 5] = [
        (Operator::Plus, Of::Add),
        (Operator::Minus, Of::Subtract),
        (Operator::Multiply, Of::Multiply),
        (Operator::Divide, Of::Divide),
        (Operator::Modulo, Of::Remain),
    ];
}

impl operators::Operator for Of {
    fn name(self) -> &'static str {
        match self {
            Of::Add => "float_add",
            Of::Subtract => "float_subtract",
            Of::Multiply => "float_multiply",
            Of::Divide => "float_divide",
            Of::Remain => "float_remainder",
            Of::Negate => "float_negate",
        }
    }

    fn sign(self) -> Option<&'static str> {
        match self {
            Of::Add => Some("+"),
            Of::Subtract => Some("-"),
            Of::Multiply => Some("*"),
            Of::Divide => Some("/"),
            Of::Remain => Some("%"),
            Of::Negate => None,
        }
    }

    fn of_arrays(self, left: &dyn Datum, right: &dyn Datum) -> std::result::Result<ArrayRef, ArrowError> {
        let made = match self {
            Of::Add => add(left, right)?,
            Of::Subtract => sub(left, right)?,
            Of::Multiply => mul(left, right)?,
            Of::Divide => {
                fail_at_zeros(left, right)?;
                div(left, right)?
            }
            _ => {
                fail_at_zeros(left, right)?;
                rem(left, right)?
            }
        };
        Ok(one_nan(&made))
    }

    fn of_array(self, values: &dyn Array) -> std::result::Result<ArrayRef, ArrowError> {
        Ok(one_nan(&neg(values)?))
    }
}

/// Fails where a number stands over a zero, of either sign.
fn fail_at_zeros(left: &dyn Datum, right: &dyn Datum) -> std::result::Result<(), ArrowError> {
    let ((left, is_one), (right, is_divisor_one)) = (left.get(), right.get());
    let fails = match right.data_type() {
        DataType::Float64 => stands_over_zero::<Float64Type>((left, is_one), (right, is_divisor_one)),
        DataType::Float32 => stands_over_zero::<Float32Type>((left, is_one), (right, is_divisor_one)),
        _ => false,
    };
    if fails { Err(ArrowError::DivideByZero) } else { Ok(()) }
}

/// Each side with whether it is one value for all rows.
fn stands_over_zero<T: ArrowPrimitiveType>(left: (&dyn Array, bool), right: (&dyn Array, bool)) -> bool {
    let ((left, is_one), (right, is_divisor_one)) = (left, right);
    let zero = T::Native::default();
    let (numbers, divisors) = (left.as_primitive::<T>(), right.as_primitive::<T>());
    // Also of what stands where there is NULL: there may be zeros, and then each row is looked at.
    if !divisors.values().iter().fold(false, |any, value| any | (*value == zero)) {
        return false;
    }
    let rows = if is_one { divisors.len() } else { numbers.len() };
    (0..rows).any(|row| {
        let (number, divisor) = (if is_one { 0 } else { row }, if is_divisor_one { 0 } else { row });
        let is_number = || {
            let value = numbers.value(number);
            value.partial_cmp(&value).is_some()
        };
        divisors.is_valid(divisor) && divisors.value(divisor) == zero && numbers.is_valid(number) && is_number()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Scalar};

    fn made(of: Of, left: Vec<Option<f64>>, right: Vec<Option<f64>>) -> Option<Vec<Option<u64>>> {
        let (left, right) = (Float64Array::from(left), Float64Array::from(right));
        let found = FloatOperation::new(of).of_arrays(&left, &right).ok()?;
        Some(found.as_primitive::<Float64Type>().iter().map(|value| value.map(f64::to_bits)).collect())
    }

    #[test]
    fn numbers_are_not_divided_by_zeros() {
        for of in [Of::Divide, Of::Remain] {
            for (number, divisor) in [(1.0, 0.0), (0.0, -0.0), (f64::INFINITY, 0.0)] {
                assert_eq!(made(of, vec![Some(2.0), Some(number)], vec![Some(1.0), Some(divisor)]), None);
            }
            let nan = Some(f64::NAN.to_bits());
            assert_eq!(made(of, vec![Some(-f64::NAN), None], vec![Some(0.0), Some(0.0)]), Some(vec![nan, None]));
            assert_eq!(made(of, vec![Some(1.0)], vec![None]), Some(vec![None]));
        }
        let (one, zeros) = (Scalar::new(Float64Array::from(vec![1.0])), Float64Array::from(vec![2.0, 0.0]));
        assert!(FloatOperation::new(Of::Divide).of_arrays(&one, &zeros).is_err());
        let (ones, zero) = (Float64Array::from(vec![1.0, 2.0]), Scalar::new(Float64Array::from(vec![0.0])));
        assert!(FloatOperation::new(Of::Divide).of_arrays(&ones, &zero).is_err());
        let none = Float64Array::from(Vec::<f64>::new());
        assert!(FloatOperation::new(Of::Divide).of_arrays(&none, &zero).is_ok());
    }

    #[test]
    fn what_is_no_number_has_one_pattern_of_bits() {
        let (infinity, nan) = (Some(f64::INFINITY), Some(f64::NAN.to_bits()));
        assert_eq!(made(Of::Subtract, vec![infinity], vec![infinity]), Some(vec![nan]));
        assert_eq!(made(Of::Multiply, vec![infinity], vec![Some(0.0)]), Some(vec![nan]));
        assert_eq!(made(Of::Divide, vec![infinity], vec![infinity]), Some(vec![nan]));
        assert_eq!(made(Of::Add, vec![Some(1.5)], vec![Some(2.0)]), Some(vec![Some(3.5_f64.to_bits())]));
    }
}
