//! The operators of integers, which fail where a result does not fit.

use crate::codec::{StateReader, StateWriter, Stateful, number_of};
use crate::operators;
use crate::operators::Operation;
use arrow::array::{Array, ArrayRef, Datum};
use arrow::compute::kernels::numeric::{add, mul, neg, sub};
use arrow::error::ArrowError;
use datafusion_common::Result;
use datafusion_expr::{Operator, ScalarUDF};
use std::sync::{Arc, LazyLock};

/// An arithmetic operator of integers of one width, whose result has the same width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OfIntegers {
    /// `left + right`.
    Add,
    /// `left - right`.
    Subtract,
    /// `left * right`.
    Multiply,
    /// `- value`.
    Negate,
}

impl OfIntegers {
    /// The checked form of `+`, `-` or `*`; `None` for any other operator.
    pub fn of(operator: Operator) -> Option<OfIntegers> {
        match operator {
            Operator::Plus => Some(OfIntegers::Add),
            Operator::Minus => Some(OfIntegers::Subtract),
            Operator::Multiply => Some(OfIntegers::Multiply),
            _ => None,
        }
    }

    /// The function that is called in the operator's place.
    pub fn function(self) -> Arc<ScalarUDF> {
        static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 4]> = LazyLock::new(|| {
            use OfIntegers::{Add, Multiply, Negate, Subtract};
            [Add, Subtract, Multiply, Negate].map(|of| Arc::new(ScalarUDF::from(Operation::new(of))))
        });
        Arc::clone(&FUNCTIONS[self as usize])
    }
}

/// All of them, in the order of their numbers in a state.
const OPERATORS: [OfIntegers; 4] = [OfIntegers::Add, OfIntegers::Subtract, OfIntegers::Multiply, OfIntegers::Negate];

impl Stateful for Operation<OfIntegers> {
    const CODE: &'static str = "integer_operator";

    fn write(&self, state: &mut StateWriter) -> Result<()> {
        state.byte(number_of(&self.of, &OPERATORS));
        Ok(())
    }

    fn read(state: &mut StateReader<'_>) -> Result<Self> {
        state.variant(&OPERATORS).map(Operation::new)
    }
}

impl operators::Operator for OfIntegers {
    fn name(self) -> &'static str {
        match self {
            OfIntegers::Add => "int_add",
            OfIntegers::Subtract => "int_subtract",
            OfIntegers::Multiply => "int_multiply",
            OfIntegers::Negate => "int_negate",
        }
    }

    fn sign(self) -> Option<&'static str> {
        match self {
            OfIntegers::Add => Some("+"),
            OfIntegers::Subtract => Some("-"),
            OfIntegers::Multiply => Some("*"),
            OfIntegers::Negate => None,
        }
    }

    fn of_arrays(self, left: &dyn Datum, right: &dyn Datum) -> std::result::Result<ArrayRef, ArrowError> {
        match self {
            OfIntegers::Add => add(left, right),
            OfIntegers::Subtract => sub(left, right),
            _ => mul(left, right),
        }
    }

    fn of_array(self, values: &dyn Array) -> std::result::Result<ArrayRef, ArrowError> {
        neg(values)
    }
}
