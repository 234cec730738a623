//! Intervals times numbers, and divided by them.
//!
//! Invariants:
//! - Months, days and time are each multiplied; what is a part of a month becomes days of thirty to the month, and what is a part of a day
//!   becomes time, as in PostgreSQL: half of a month is fifteen days. Time is rounded to microseconds.
//! - A difference of moments is an interval of days and time there ([`crate::operators::durations`]).
//! - What does not fit is an error, and never wraps around.
//!
//! DataFusion 55.2 casts the number to an interval. The types of a statement's columns follow from the product, so it is planned where
//! expressions are planned first.
//!
//! Mends apache/datafusion#13850 (in 55.2).
//! Held by `slt/meaning.slt` (`INTERVAL '1 month' * 1.5`, `INTERVAL '1 day' / n`).

use crate::codec::{StateReader, StateWriter, Stateful};
use crate::operators::durations::in_days;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::wrap;
use arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoArray};
use arrow::compute::cast as cast_array;
use arrow::datatypes::{DataType, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use datafusion_common::utils::take_function_args;
use datafusion_common::{DFSchema, Result as Planned, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast,
};
use sqlparser::ast::BinaryOperator;
use std::sync::Arc;

const MONTH_DAYS: f64 = 30.0;
const DAY_SECONDS: f64 = 86_400.0;
const MICRO_NANOS: i64 = 1_000;
const SPAN: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Plans intervals with numbers.
#[derive(Debug)]
pub struct ScaledIntervals;

impl ExprPlanner for ScaledIntervals {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Planned<PlannerResult<RawBinaryExpr>> {
        let is_interval =
            |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Interval(_) | DataType::Duration(_)));
        let spans = |expr: Expr| match expr.get_type(schema) {
            Ok(DataType::Duration(_)) => in_days(expr),
            _ => expr,
        };
        let is_number = |expr: &Expr| expr.get_type(schema).is_ok_and(|of| of.is_numeric() || of.is_null());
        let RawBinaryExpr { op, left, right } = expr;
        Ok(match op {
            BinaryOperator::Multiply if is_interval(&left) && is_number(&right) => {
                PlannerResult::Planned(scaled(spans(left), right, false))
            }
            BinaryOperator::Multiply if is_number(&left) && is_interval(&right) => {
                PlannerResult::Planned(scaled(spans(right), left, false))
            }
            BinaryOperator::Divide if is_interval(&left) && is_number(&right) => {
                PlannerResult::Planned(scaled(spans(left), right, true))
            }
            op => PlannerResult::Original(RawBinaryExpr { op, left, right }),
        })
    }
}

fn scaled(interval: Expr, by: Expr, divides: bool) -> Expr {
    let function = Scaled::new(divides);
    let args = vec![cast(interval, SPAN), cast(by, DataType::Float64)];
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(function)), args))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Scaled {
    divides: bool,
    signature: Signature,
}

impl Stateful for Scaled {
    const CODE: &'static str = "scaled_interval";

    fn write(&self, state: &mut StateWriter) -> Planned<()> {
        state.byte(u8::from(self.divides));
        Ok(())
    }

    fn read(state: &mut StateReader<'_>) -> Planned<Self> {
        Ok(Scaled::new(state.flag()?))
    }
}

impl Scaled {
    fn new(divides: bool) -> Scaled {
        Scaled { divides, signature: Signature::any(2, Volatility::Immutable) }
    }

    fn array(&self, intervals: &ArrayRef, by: &ArrayRef) -> Planned<ArrayRef> {
        let (intervals, by) = (cast_array(intervals, &SPAN)?, cast_array(by, &DataType::Float64)?);
        let pairs =
            intervals.as_primitive::<IntervalMonthDayNanoType>().iter().zip(by.as_primitive::<Float64Type>().iter());
        let each = |(interval, by): (Option<IntervalMonthDayNano>, Option<f64>)| {
            interval.zip(by).map(|(interval, by)| self.one(interval, by)).transpose()
        };
        let all = pairs.map(each).collect::<Result<IntervalMonthDayNanoArray>>().map_err(wrap)?;
        Ok(Arc::new(all))
    }

    fn one(&self, interval: IntervalMonthDayNano, by: f64) -> Result<IntervalMonthDayNano> {
        if self.divides && by == 0.0 {
            return Err(Error::new(ErrorKind::DivisionByZero, "division of an interval by zero"));
        }
        let scale = |of: f64| if self.divides { of / by } else { of * by };
        let found = if !self.divides && by.fract() == 0.0 { times(interval, by) } else { spilled(interval, scale) };
        found.ok_or_else(|| {
            let word = if self.divides { "divided by" } else { "times" };
            Error::new(ErrorKind::OutOfRange, format!("an interval {word} {by} is out of range"))
        })
    }
}

/// A multiple, without any rounding.
fn times(interval: IntervalMonthDayNano, by: f64) -> Option<IntervalMonthDayNano> {
    let by = whole(by)?;
    Some(IntervalMonthDayNano {
        months: i32::try_from(i64::from(interval.months).checked_mul(by)?).ok()?,
        days: i32::try_from(i64::from(interval.days).checked_mul(by)?).ok()?,
        nanoseconds: interval.nanoseconds.checked_mul(by)?,
    })
}

/// An interval of whose months and days parts become days and time.
pub fn spilled(interval: IntervalMonthDayNano, scale: impl Fn(f64) -> f64) -> Option<IntervalMonthDayNano> {
    // As PostgreSQL does, so that what should be whole is.
    let to_micros = |of: f64| (of * 1e6).round_ties_even() / 1e6;
    let (months, days) = (scale(f64::from(interval.months)), scale(f64::from(interval.days)));
    let month_days = to_micros(months.fract() * MONTH_DAYS);
    let seconds = to_micros((days.fract() + month_days.fract()) * DAY_SECONDS);
    // Parts of months and of days may make a day together.
    let more_days = (seconds / DAY_SECONDS).trunc();
    let seconds = seconds - more_days * DAY_SECONDS;
    let time = scale(interval.nanoseconds as f64 / MICRO_NANOS as f64) + seconds * 1e6;
    Some(IntervalMonthDayNano {
        months: i32::try_from(whole(months.trunc())?).ok()?,
        days: i32::try_from(whole(days.trunc() + month_days.trunc() + more_days)?).ok()?,
        nanoseconds: whole(time.round_ties_even())?.checked_mul(MICRO_NANOS)?,
    })
}

/// A float without a fraction as an integer, if it is one.
fn whole(of: f64) -> Option<i64> {
    const LIMIT: f64 = i64::MAX as f64;
    (-LIMIT < of && of < LIMIT).then_some(of as i64)
}

impl ScalarUDFImpl for Scaled {
    fn name(&self) -> &str {
        if self.divides { "interval_divide" } else { "interval_multiply" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Planned<DataType> {
        Ok(SPAN)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Planned<ColumnarValue> {
        let [interval, by] = take_function_args(self.name(), args.args)?;
        if let (ColumnarValue::Scalar(interval), ColumnarValue::Scalar(by)) = (&interval, &by) {
            let one = self.array(&interval.to_array()?, &by.to_array()?)?;
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&one, 0)?));
        }
        let arrays = ColumnarValue::values_to_arrays(&[interval, by])?;
        let [interval, by] = take_function_args(self.name(), arrays)?;
        Ok(ColumnarValue::Array(self.array(&interval, &by)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000_000_000;

    fn made(parts: (i32, i32, i64), by: f64, divides: bool) -> std::result::Result<(i32, i32, i64), ErrorKind> {
        let function = Scaled { divides, signature: Signature::any(2, Volatility::Immutable) };
        let found = function.one(IntervalMonthDayNano::new(parts.0, parts.1, parts.2), by);
        found.map(|found| (found.months, found.days, found.nanoseconds)).map_err(|error| error.kind())
    }

    #[test]
    fn parts_spill_over_as_in_postgresql() {
        for (parts, by, divides, wanted) in [
            ((1, 2, 3), 7.0, false, Ok((7, 14, 21))),
            ((1, 2, 3), -1.0, false, Ok((-1, -2, -3))),
            ((1, 0, 0), 1.5, false, Ok((1, 15, 0))),
            ((0, 1, 0), 0.5, false, Ok((0, 0, DAY / 2))),
            ((1, 1, 0), 2.0, true, Ok((0, 15, DAY / 2))),
            ((1, 0, 0), 0.1, false, Ok((0, 3, 0))),
            ((0, 0, DAY), 3.0, true, Ok((0, 0, DAY / 3))),
            ((12, 0, 0), 7.0, true, Ok((1, 21, 37_028_534_400_000))),
            ((0, 1, 0), 0.0, true, Err(ErrorKind::DivisionByZero)),
            ((i32::MAX, 0, 0), 2.0, false, Err(ErrorKind::OutOfRange)),
            ((0, 0, i64::MAX), 1.5, false, Err(ErrorKind::OutOfRange)),
            ((0, 1, 0), f64::NAN, false, Err(ErrorKind::OutOfRange)),
        ] {
            assert_eq!(made(parts, by, divides), wanted, "{parts:?} and {by}");
        }
    }
}
