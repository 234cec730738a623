//! Spans of time: differences of moments, and intervals.
//!
//! Invariants:
//! - An interval that is compared, with another one or with a difference of moments, also by CASE, is as long as in PostgreSQL: a month has thirty days and
//!   a day 24 hours, so that `'36 hours' > '1 day'`. What is compared is the length, exactly.
//! - A text beside a span is an interval. A text beside a date that is taken from one, or from which one is taken, is a date.
//! - What is between two dates is a number of days like any other. A date and a difference of moments make a timestamp.
//!
//! DataFusion 55.2 compares intervals by months, then days, then nanoseconds, of which a difference has nothing else, and takes the difference of two dates for a duration where it looks for what a condition leaves, and for a number where it computes it.
//!
//! Mends apache/datafusion#8468 (in 55.2). Of the difference of two dates no issue upstream is known (searched
//! 2026-11-27: date minus date, Duration, Int64, mismatch).
//! Held by `slt/intervals_compared.slt` (`WHERE t::interval = INTERVAL '24 hours'`), and by `slt/everyday.slt`
//! (`WHERE d - DATE '2024-01-01' > 30`).

use crate::bytes::text_literal;
use crate::codec::{StateReader, StateWriter, Stateful, number_of};
use crate::columnar::by_arrays;
use alluvia_values::interval_units::in_units;
use alluvia_values::parse::parse_date;
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, IntervalMonthDayNanoArray, PrimitiveArray};
use arrow::compute::cast as cast_array;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion_common::utils::take_function_args;
use datafusion_common::{DFSchema, Result, ScalarValue, exec_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion_expr::{
    ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    binary_expr, cast, lit,
};
use sqlparser::ast::BinaryOperator;
use std::sync::Arc;

const SPAN: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
/// SQL's TIMESTAMP.
const MOMENT: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);
/// Of a length, in nanoseconds: as many as the longest interval has fit.
const LENGTH: DataType = DataType::Decimal128(38, 0);
const DAY_NANOS: i128 = 86_400_000_000_000;
const MONTH_DAYS: i128 = 30;

/// Plans texts beside spans and dates, and differences of dates. Here, since the types of a statement's columns follow from them.
#[derive(Debug)]
pub struct WrittenDurations;

impl ExprPlanner for WrittenDurations {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, Minus, NotEq, Plus};
        let RawBinaryExpr { op, mut left, mut right } = expr;
        let is_difference = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Duration(_)));
        let is_date = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Date32));
        match op {
            Plus | Minus if is_date(&left) && is_difference(&right) => left = cast(left, MOMENT),
            Plus if is_difference(&left) && is_date(&right) => right = cast(right, MOMENT),
            Eq | NotEq | Lt | LtEq | Gt | GtEq if is_duration(&left, schema) => read_duration(&mut right),
            Eq | NotEq | Lt | LtEq | Gt | GtEq if is_duration(&right, schema) => read_duration(&mut left),
            Minus => {
                if is_date(&left) {
                    read_date(&mut right);
                } else if is_date(&right) {
                    read_date(&mut left);
                }
                if is_date(&left) && is_date(&right) {
                    let days = |date: Expr| cast(cast(date, DataType::Int32), DataType::Int64);
                    return Ok(PlannerResult::Planned(binary_expr(days(left), Operator::Minus, days(right))));
                }
            }
            _ => {}
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// Whether the type of an expression is INTERVAL, or that of a difference of timestamps.
pub fn is_duration(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Interval(_) | DataType::Duration(_)))
}

/// Makes a cast to INTERVAL of a text literal; leaves NULL and every other expression alone.
pub fn read_duration(literal: &mut Expr) {
    if let Some(Some(text)) = text_literal(literal) {
        let text = in_units(text).unwrap_or_else(|| text.to_owned());
        *literal = cast(lit(text), SPAN);
    }
}

fn read_date(literal: &mut Expr) {
    if let Some(Some(text)) = text_literal(literal)
        && let Ok(days) = parse_date(text.as_bytes())
    {
        *literal = lit(ScalarValue::Date32(Some(days)));
    }
}

/// Whether it is a text that is written, or a NULL of none other type.
pub fn is_text(expr: &Expr) -> bool {
    text_literal(expr).is_some()
}

/// Makes an interval of a span, a text or NULL.
pub(crate) fn as_interval(expr: &mut Expr, schema: &DFSchema) {
    read_duration(expr);
    let of = expr.get_type(schema);
    if of.as_ref().is_ok_and(|of| *of == SPAN) {
        return;
    }
    let span = std::mem::take(expr);
    *expr = if matches!(of, Ok(DataType::Duration(_))) { in_days(span) } else { cast(span, SPAN) };
}

/// How long a span is, to compare it by.
pub fn length(span: Expr) -> Expr {
    call(DurationFunction::Length, span)
}

/// A difference of moments as an interval of days and time.
pub fn in_days(difference: Expr) -> Expr {
    call(DurationFunction::InDays, difference)
}

fn call(of: DurationFunction, span: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(OfDuration::new(of))), vec![span]))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum DurationFunction {
    Length,
    InDays,
}

const DURATION_FUNCTIONS: [DurationFunction; 2] = [DurationFunction::Length, DurationFunction::InDays];

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct OfDuration {
    of: DurationFunction,
    signature: Signature,
}

impl Stateful for OfDuration {
    const CODE: &'static str = "of_interval";

    fn write(&self, state: &mut StateWriter) -> Result<()> {
        state.byte(number_of(&self.of, &DURATION_FUNCTIONS));
        Ok(())
    }

    fn read(state: &mut StateReader<'_>) -> Result<Self> {
        Ok(OfDuration::new(state.variant(&DURATION_FUNCTIONS)?))
    }
}

impl OfDuration {
    fn new(of: DurationFunction) -> OfDuration {
        OfDuration { of, signature: Signature::any(1, Volatility::Immutable) }
    }

    fn array(&self, spans: &ArrayRef) -> Result<ArrayRef> {
        match self.of {
            DurationFunction::Length => Ok(Arc::new(lengths(spans)?)),
            DurationFunction::InDays => Ok(Arc::new(in_days_and_time(spans)?)),
        }
    }
}

fn in_days_and_time(spans: &ArrayRef) -> Result<IntervalMonthDayNanoArray> {
    let set_apart = |length: i128| {
        // A difference of moments has fewer days than an `i32` counts.
        let days = i32::try_from(length / DAY_NANOS).unwrap_or(i32::MAX);
        IntervalMonthDayNano::new(0, days, (length % DAY_NANOS) as i64)
    };
    Ok(lengths(spans)?.iter().map(|length| length.map(set_apart)).collect())
}

/// Intervals as they are, and differences of moments as intervals of days and time.
pub fn differences(spans: &ArrayRef) -> Result<IntervalMonthDayNanoArray> {
    match spans.data_type() {
        DataType::Interval(_) => Ok(cast_array(spans, &SPAN)?.as_primitive::<IntervalMonthDayNanoType>().clone()),
        _ => in_days_and_time(spans),
    }
}

/// Nanoseconds, of months of thirty days.
pub fn length_of(span: IntervalMonthDayNano) -> i128 {
    let days = i128::from(span.months) * MONTH_DAYS + i128::from(span.days);
    days * DAY_NANOS + i128::from(span.nanoseconds)
}

/// Nanoseconds.
fn lengths(spans: &ArrayRef) -> Result<Decimal128Array> {
    let lengths: Decimal128Array = match spans.data_type() {
        DataType::Duration(TimeUnit::Second) => durations::<DurationSecondType>(spans, 1_000_000_000),
        DataType::Duration(TimeUnit::Millisecond) => durations::<DurationMillisecondType>(spans, 1_000_000),
        DataType::Duration(TimeUnit::Microsecond) => durations::<DurationMicrosecondType>(spans, 1_000),
        DataType::Duration(TimeUnit::Nanosecond) => durations::<DurationNanosecondType>(spans, 1),
        DataType::Interval(_) => {
            let spans = cast_array(spans, &SPAN)?;
            let spans = spans.as_primitive::<IntervalMonthDayNanoType>();
            spans.iter().map(|span| span.map(length_of)).collect()
        }
        DataType::Null => (0..spans.len()).map(|_| None::<i128>).collect(),
        other => return exec_err!("{other} is no span of time"),
    };
    Ok(lengths.with_data_type(LENGTH))
}

fn durations<T: ArrowPrimitiveType<Native = i64>>(spans: &ArrayRef, nanos: i128) -> Decimal128Array {
    let spans: &PrimitiveArray<T> = spans.as_primitive::<T>();
    spans.iter().map(|span| span.map(|span| i128::from(span) * nanos)).collect()
}

impl ScalarUDFImpl for OfDuration {
    fn name(&self) -> &str {
        match self.of {
            DurationFunction::Length => "span_length",
            DurationFunction::InDays => "days_and_time",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(match self.of {
            DurationFunction::Length => LENGTH,
            DurationFunction::InDays => SPAN,
        })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        by_arrays(&args.args, |spans| {
            let [spans] = take_function_args(self.name(), spans)?;
            self.array(&spans)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{DurationMicrosecondArray, DurationNanosecondArray, IntervalYearMonthArray};

    #[test]
    fn lengths_are_exact_for_all_that_can_be() {
        let day = DAY_NANOS;
        let longest = IntervalMonthDayNano::new(i32::MAX, i32::MAX, i64::MAX);
        let spans: ArrayRef = Arc::new(IntervalMonthDayNanoArray::from(vec![
            Some(IntervalMonthDayNano::new(0, 1, 0)),
            Some(IntervalMonthDayNano::new(0, 0, 36 * 3_600_000_000_000)),
            Some(IntervalMonthDayNano::new(1, -1, 5)),
            None,
            Some(longest),
        ]));
        let most = (i128::from(i32::MAX) * 31) * day + i128::from(i64::MAX);
        let found: Vec<Option<i128>> = lengths(&spans).unwrap().iter().collect();
        assert_eq!(found, [Some(day), Some(day * 3 / 2), Some(29 * day + 5), None, Some(most)]);
        let months: ArrayRef = Arc::new(IntervalYearMonthArray::from(vec![14]));
        assert_eq!(lengths(&months).unwrap().value(0), 14 * 30 * day);
        let micros: ArrayRef = Arc::new(DurationMicrosecondArray::from(vec![i64::MAX, -3]));
        assert_eq!(lengths(&micros).unwrap().value(0), i128::from(i64::MAX) * 1_000);
        assert_eq!(lengths(&micros).unwrap().value(1), -3_000);
    }

    #[test]
    fn days_are_set_apart_towards_zero() {
        let function = OfDuration { of: DurationFunction::InDays, signature: Signature::any(1, Volatility::Immutable) };
        let hours = |hours: i64| hours * 3_600_000_000_000;
        let spans: ArrayRef = Arc::new(DurationNanosecondArray::from(vec![hours(83), -hours(25), 0]));
        let found = function.array(&spans).unwrap();
        let wanted =
            [(3, hours(11)), (-1, -hours(1)), (0, 0)].map(|(days, nanos)| IntervalMonthDayNano::new(0, days, nanos));
        assert_eq!(found.as_primitive::<IntervalMonthDayNanoType>().values(), &wanted[..]);
    }
}
