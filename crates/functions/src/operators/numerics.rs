//! `+`, `-`, `*`, `/` and `%` of NUMERIC.
//!
//! Invariants, as in PostgreSQL:
//! - A NUMERIC with an integer or a decimal makes a NUMERIC, with a float a DOUBLE. A number, or a text, that is written beside one is the
//!   NUMERIC that is written.
//! - Sums, differences, products and remainders are exact: one that has more digits than a NUMERIC is an error (22003), and never rounded.
//!   A quotient is rounded to sixteen digits behind the point, half away from zero.
//!
//! The types of a statement's columns follow from this, so it is planned where expressions are planned first.

use super::{Operation, Operator, type_of};
use crate::bytes::text_literal;
use crate::casts::kinds::{Kind, NUMERIC, NUMERIC_SCALE};
use crate::casts::typed::{as_kind, is_in_range, literal};
use crate::codec::{StateReader, StateWriter, Stateful, number_of};
use alluvia_types::{Error, ErrorKind};
use arrow::array::{Array, ArrayRef, AsArray, Datum, Decimal128Array};
use arrow::datatypes::{DataType, Decimal128Type, i256};
use arrow::error::ArrowError;
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion_expr::{Expr, ScalarUDF, cast};
use sqlparser::ast::BinaryOperator;
use std::sync::Arc;

const UNIT: i128 = 10_i128.pow(NUMERIC_SCALE as u32);

/// Plans them.
#[derive(Debug)]
pub struct NumericOperators;

impl ExprPlanner for NumericOperators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let of = match expr.op {
            BinaryOperator::Plus => OfNumerics::Add,
            BinaryOperator::Minus => OfNumerics::Subtract,
            BinaryOperator::Multiply => OfNumerics::Multiply,
            BinaryOperator::Divide => OfNumerics::Divide,
            BinaryOperator::Modulo => OfNumerics::Remainder,
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let RawBinaryExpr { op, left, right } = expr;
        let (Ok(of_left), Ok(of_right)) = (type_of(&left, schema), type_of(&right, schema)) else {
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
        };
        if of_left != NUMERIC && of_right != NUMERIC {
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
        }
        match (operand(&left, &of_left)?, operand(&right, &of_right)?) {
            (Some(left), Some(right)) => {
                let function = Arc::new(ScalarUDF::from(Operation::new(of)));
                let call = ScalarFunction::new_udf(function, vec![left, right]);
                Ok(PlannerResult::Planned(Expr::ScalarFunction(call)))
            }
            _ if of_left.is_floating() || of_right.is_floating() => {
                let double =
                    |expr: Expr, of: &DataType| if *of == NUMERIC { cast(expr, DataType::Float64) } else { expr };
                let (left, right) = (double(left, &of_left), double(right, &of_right));
                Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
            }
            _ => Ok(PlannerResult::Original(RawBinaryExpr { op, left, right })),
        }
    }
}

/// An operand as NUMERIC; `None` of what is none.
fn operand(expr: &Expr, of: &DataType) -> Result<Option<Expr>> {
    if *of == NUMERIC {
        return Ok(Some(expr.clone()));
    }
    if let Some(digits) = written(expr) {
        return literal(&digits, Kind::Numeric).map(Some);
    }
    let is_exact = of.is_integer() || matches!(of, DataType::Decimal128(..) | DataType::Null);
    Ok(is_exact.then(|| if of.is_null() { expr.clone() } else { as_kind(expr.clone(), Kind::Numeric) }))
}

/// The digits of a number, or a text, that is written.
fn written(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(float)), _) if float.is_finite() => Some(float.to_string()),
        Expr::Literal(whole, _) if whole.data_type().is_integer() && !whole.is_null() => Some(whole.to_string()),
        Expr::Negative(inner) => written(inner).map(|digits| match digits.strip_prefix('-') {
            Some(positive) => positive.to_owned(),
            None => format!("-{digits}"),
        }),
        other => text_literal(other).flatten().map(str::to_owned),
    }
}

/// An operator of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OfNumerics {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

const ALL: [OfNumerics; 5] =
    [OfNumerics::Add, OfNumerics::Subtract, OfNumerics::Multiply, OfNumerics::Divide, OfNumerics::Remainder];

impl Stateful for Operation<OfNumerics> {
    const CODE: &'static str = "of_numerics";

    fn write(&self, state: &mut StateWriter) -> Result<()> {
        state.byte(number_of(&self.of, &ALL));
        Ok(())
    }

    fn read(state: &mut StateReader<'_>) -> Result<Self> {
        Ok(Operation::new(state.variant(&ALL)?))
    }
}

impl OfNumerics {
    fn of(self, left: i128, right: i128) -> std::result::Result<i128, ArrowError> {
        let made = match self {
            OfNumerics::Add => left.checked_add(right),
            OfNumerics::Subtract => left.checked_sub(right),
            OfNumerics::Multiply => product(left, right),
            OfNumerics::Divide | OfNumerics::Remainder if right == 0 => return Err(ArrowError::DivideByZero),
            OfNumerics::Divide => quotient(left, right),
            OfNumerics::Remainder => left.checked_rem(right),
        };
        made.filter(|made| is_in_range(*made)).ok_or_else(too_wide)
    }
}

/// A product that has no more than sixteen digits behind the point.
fn product(left: i128, right: i128) -> Option<i128> {
    if let Some(product) = left.checked_mul(right) {
        return (product % UNIT == 0).then_some(product / UNIT);
    }
    let product = i256::from_i128(left).checked_mul(i256::from_i128(right))?;
    let unit = i256::from_i128(UNIT);
    let is_exact = product.checked_rem(unit)? == i256::ZERO;
    is_exact.then(|| product.checked_div(unit)?.to_i128()).flatten()
}

fn quotient(left: i128, right: i128) -> Option<i128> {
    let (number, divisor) = (i256::from_i128(left).checked_mul(i256::from_i128(UNIT))?, i256::from_i128(right));
    let (whole, rest) = (number.checked_div(divisor)?.to_i128()?, number.checked_rem(divisor)?.wrapping_abs());
    let is_half = rest >= divisor.wrapping_abs().wrapping_sub(rest);
    whole.checked_add(if !is_half {
        0
    } else if (left < 0) == (right < 0) {
        1
    } else {
        -1
    })
}

fn too_wide() -> ArrowError {
    let error = Error::new(ErrorKind::OutOfRange, "value is out of range for type numeric");
    let hint =
        "NUMERIC has 22 digits before its point and 16 behind it: round what is calculated with, or cast it to DOUBLE";
    ArrowError::ExternalError(Box::new(error.with_hint(hint)))
}

impl Operator for OfNumerics {
    fn name(self) -> &'static str {
        match self {
            OfNumerics::Add => "numeric_add",
            OfNumerics::Subtract => "numeric_subtract",
            OfNumerics::Multiply => "numeric_multiply",
            OfNumerics::Divide => "numeric_divide",
            OfNumerics::Remainder => "numeric_remainder",
        }
    }

    fn sign(self) -> Option<&'static str> {
        Some(match self {
            OfNumerics::Add => "+",
            OfNumerics::Subtract => "-",
            OfNumerics::Multiply => "*",
            OfNumerics::Divide => "/",
            OfNumerics::Remainder => "%",
        })
    }

    fn type_of(self, _operands: &[DataType]) -> DataType {
        NUMERIC
    }

    fn kind(self) -> Kind {
        Kind::Numeric
    }

    fn of_arrays(self, left: &dyn Datum, right: &dyn Datum) -> std::result::Result<ArrayRef, ArrowError> {
        let ((left, is_one), (right, is_other_one)) = (left.get(), right.get());
        let rows = if is_one { right.len() } else { left.len() };
        let (Some(lefts), Some(rights)) =
            (left.as_primitive_opt::<Decimal128Type>(), right.as_primitive_opt::<Decimal128Type>())
        else {
            // One is NULL.
            return Ok(arrow::array::new_null_array(&NUMERIC, rows));
        };
        let made: std::result::Result<Decimal128Array, ArrowError> = (0..rows)
            .map(|row| {
                let (at, other) = (if is_one { 0 } else { row }, if is_other_one { 0 } else { row });
                let is_null = lefts.is_null(at) || rights.is_null(other);
                (!is_null).then(|| self.of(lefts.value(at), rights.value(other))).transpose()
            })
            .collect();
        Ok(Arc::new(made?.with_data_type(NUMERIC)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::casts::typed::numeric_of_text;
    use proptest::prelude::*;

    fn of(op: OfNumerics, left: &str, right: &str) -> Option<i128> {
        op.of(numeric_of_text(left).unwrap(), numeric_of_text(right).unwrap()).ok()
    }

    #[test]
    fn what_has_too_many_digits_is_an_error() {
        let value = |text: &str| Some(numeric_of_text(text).unwrap());
        assert_eq!(of(OfNumerics::Multiply, "0.00000001", "0.00000001"), value("0.0000000000000001"));
        assert_eq!(of(OfNumerics::Multiply, "0.000000001", "0.00000001"), None);
        assert_eq!(of(OfNumerics::Multiply, "100000000000", "100000000000"), None);
        assert_eq!(of(OfNumerics::Multiply, "9999999999", "99999999999"), value("999999999890000000001"));
        assert_eq!(of(OfNumerics::Divide, "10", "3"), value("3.3333333333333333"));
        assert_eq!(of(OfNumerics::Divide, "-2", "3"), value("-0.6666666666666667"));
        assert_eq!(of(OfNumerics::Divide, "1", "0"), None);
        assert_eq!(of(OfNumerics::Remainder, "-7.5", "2"), value("-1.5"));
        assert_eq!(of(OfNumerics::Add, "9999999999999999999999", "1"), None);
    }

    proptest! {
        #[test]
        fn small_numbers_are_as_integers_have_it(left in -10_000..10_000_i128, right in -100..100_i128) {
            let (a, b) = (left * UNIT, right * UNIT);
            prop_assert_eq!(OfNumerics::Multiply.of(a, b).ok(), Some(left * right * UNIT));
            if right != 0 {
                let rounded = (left as f64 / right as f64 * 1e6).round() as i128;
                let found = OfNumerics::Divide.of(a, b).unwrap();
                prop_assert!((found / (UNIT / 1_000_000) - rounded).abs() <= 1);
                prop_assert_eq!(OfNumerics::Remainder.of(a, b).ok(), Some(left % right * UNIT));
            }
        }
    }
}
