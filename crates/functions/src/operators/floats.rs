//! The operators of floats.
//!
//! Invariants:
//! - No operator makes a NaN whose sign is set ([`alluvia_values::nan::one_nan`]).
//! - Columns are called what they would be called without this.
//!
//! Where a float is divided by zero there is infinity or NaN, as DataFusion 55.2 has it, and not PostgreSQL's error: what guards a division
//! (OR, a CASE of booleans, FILTER) is evaluated beside it, and statements would fail that PostgreSQL answers.

use crate::codec::{StateReader, StateWriter, Stateful, number_of};
use crate::operators;
use crate::operators::Operation;
use alluvia_values::nan::one_nan;
use arrow::array::{Array, ArrayRef, Datum};
use arrow::compute::kernels::numeric::{add, div, mul, neg, rem, sub};
use arrow::error::ArrowError;
use datafusion_common::Result;
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{Expr, Operator, ScalarUDF};
use std::sync::{Arc, LazyLock};

/// `left op right` of floats of one type; `None` if the operator is none of arithmetic.
pub fn operation(op: Operator) -> Option<Arc<ScalarUDF>> {
    static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 5]> =
        LazyLock::new(|| FloatOperator::BINARY.map(|(_, of)| Arc::new(ScalarUDF::from(FloatOperation::new(of)))));
    let at = FloatOperator::BINARY.iter().position(|(own, _)| *own == op)?;
    Some(Arc::clone(&FUNCTIONS[at]))
}

/// `- of`.
pub fn negated(of: Expr) -> Expr {
    static NEGATE: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::from(FloatOperation::new(FloatOperator::Negate))));
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&NEGATE), vec![of]))
}

type FloatOperation = Operation<FloatOperator>;

/// An arithmetic operator of floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FloatOperator {
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

impl FloatOperator {
    const BINARY: [(Operator, FloatOperator); 5] = [
        (Operator::Plus, FloatOperator::Add),
        (Operator::Minus, FloatOperator::Subtract),
        (Operator::Multiply, FloatOperator::Multiply),
        (Operator::Divide, FloatOperator::Divide),
        (Operator::Modulo, FloatOperator::Remain),
    ];
}

/// All of them, in the order of their numbers in a state.
const OPERATORS: [FloatOperator; 6] = [
    FloatOperator::Add,
    FloatOperator::Subtract,
    FloatOperator::Multiply,
    FloatOperator::Divide,
    FloatOperator::Remain,
    FloatOperator::Negate,
];

impl Stateful for FloatOperation {
    const CODE: &'static str = "float_operator";

    fn write(&self, state: &mut StateWriter) -> Result<()> {
        state.byte(number_of(&self.of, &OPERATORS));
        Ok(())
    }

    fn read(state: &mut StateReader<'_>) -> Result<Self> {
        state.variant(&OPERATORS).map(Operation::new)
    }
}

impl operators::Operator for FloatOperator {
    fn name(self) -> &'static str {
        match self {
            FloatOperator::Add => "float_add",
            FloatOperator::Subtract => "float_subtract",
            FloatOperator::Multiply => "float_multiply",
            FloatOperator::Divide => "float_divide",
            FloatOperator::Remain => "float_remainder",
            FloatOperator::Negate => "float_negate",
        }
    }

    fn sign(self) -> Option<&'static str> {
        match self {
            FloatOperator::Add => Some("+"),
            FloatOperator::Subtract => Some("-"),
            FloatOperator::Multiply => Some("*"),
            FloatOperator::Divide => Some("/"),
            FloatOperator::Remain => Some("%"),
            FloatOperator::Negate => None,
        }
    }

    fn of_arrays(self, left: &dyn Datum, right: &dyn Datum) -> std::result::Result<ArrayRef, ArrowError> {
        let made = match self {
            FloatOperator::Add => add(left, right)?,
            FloatOperator::Subtract => sub(left, right)?,
            FloatOperator::Multiply => mul(left, right)?,
            FloatOperator::Divide => div(left, right)?,
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

    fn made(of: FloatOperator, left: Vec<Option<f64>>, right: Vec<Option<f64>>) -> Option<Vec<Option<u64>>> {
        let (left, right) = (Float64Array::from(left), Float64Array::from(right));
        let found = FloatOperation::new(of).of_arrays(&left, &right).ok()?;
        Some(found.as_primitive::<Float64Type>().iter().map(|value| value.map(f64::to_bits)).collect())
    }

    #[test]
    fn what_is_no_number_has_one_pattern_of_bits() {
        let (infinity, nan) = (Some(f64::INFINITY), Some(f64::NAN.to_bits()));
        assert_eq!(made(FloatOperator::Subtract, vec![infinity], vec![infinity]), Some(vec![nan]));
        assert_eq!(made(FloatOperator::Multiply, vec![infinity], vec![Some(0.0)]), Some(vec![nan]));
        assert_eq!(made(FloatOperator::Divide, vec![infinity], vec![infinity]), Some(vec![nan]));
        assert_eq!(made(FloatOperator::Add, vec![Some(1.5)], vec![Some(2.0)]), Some(vec![Some(3.5_f64.to_bits())]));
    }
}
