//! The operators of floats.
//!
//! Invariants:
//! - No operator makes a NaN whose sign is set ([`alluvia_values::nan::one_nan`]).
//! - Columns are called what they would be called without this.
//!
//! Where a float is divided by zero there is infinity or NaN, as DataFusion 55.2 has it, and not PostgreSQL's error: what guards a division
//! (OR, a CASE of booleans, FILTER) is evaluated beside it, and statements would fail that PostgreSQL answers.

use crate::operators;
use crate::operators::Operation;
use alluvia_values::nan::one_nan;
use arrow::array::{Array, ArrayRef, Datum};
use arrow::compute::kernels::numeric::{add, div, mul, neg, rem, sub};
use arrow::error::ArrowError;
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{Expr, Operator, ScalarUDF};
use std::sync::{Arc, LazyLock};

/// `left op right` of floats of one type; `None` if the operator is none of arithmetic.
pub fn operation(op: Operator) -> Option<Arc<ScalarUDF>> {
    static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 5]> =
        LazyLock::new(|| Of::BINARY.map(|(_, of)| Arc::new(ScalarUDF::from(FloatOperation::new(of)))));
    let at = Of::BINARY.iter().position(|(own, _)| *own == op)?;
    Some(Arc::clone(&FUNCTIONS[at]))
}

/// `- of`.
pub fn negated(of: Expr) -> Expr {
    static NEGATE: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::from(FloatOperation::new(Of::Negate))));
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&NEGATE), vec![of]))
}

type FloatOperation = Operation<Of>;

/// An arithmetic operator of floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Of {
    /// `left + right`.
    Add,
    /// `left - right`.
    Subtract,
    /// `left * right`.
    Multiply,
    /// `left / right`; infinity or NaN where `right` is 0.
    Divide,
    /// `left % right`, with the sign of `left`.
    Remain,
    /// `- value`.
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
            Of::Divide => div(left, right)?,
            _ => rem(left, right)?,
        };
        Ok(one_nan(&made))
    }

    fn of_array(self, values: &dyn Array) -> std::result::Result<ArrayRef, ArrowError> {
        Ok(one_nan(&neg(values)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Float64Array};
    use arrow::datatypes::Float64Type;

    fn made(of: Of, left: Vec<Option<f64>>, right: Vec<Option<f64>>) -> Option<Vec<Option<u64>>> {
        let (left, right) = (Float64Array::from(left), Float64Array::from(right));
        let found = FloatOperation::new(of).of_arrays(&left, &right).ok()?;
        Some(found.as_primitive::<Float64Type>().iter().map(|value| value.map(f64::to_bits)).collect())
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
