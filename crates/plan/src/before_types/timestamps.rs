//! Dates that become moments.
//!
//! Invariant: a date and an interval make a timestamp, as in PostgreSQL, unless the interval is written out as days, months or years. Then
//! they make a date, which is the same moment, and which everything that knows dates goes on knowing (the index, pruning).
//!
//! A date, a timestamp and `now()` are compared in microseconds, in which all of them fit that can be stored.
//!
//! DataFusion 55.2 makes a date of a date and an interval, and drops what is less than a day; and it compares a date with a timestamp in
//! nanoseconds, which fails outside of the years 1677 to 2262. The types of a statement's columns follow from this, so it
//! is done where expressions are planned first.

use alluvia_values::interval::interval_of;
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, binary_expr, cast};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Nanoseconds of a day.
const DAY: i64 = 86_400_000_000_000;
/// SQL's TIMESTAMP.
const MOMENT: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Plans dates with intervals and beside timestamps.
#[derive(Debug)]
pub struct DatesAsTimestamps;

impl ExprPlanner for DatesAsTimestamps {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        let operator = match expr.op {
            Eq | NotEq | Lt | LtEq | Gt | GtEq => return Ok(PlannerResult::Original(compared(expr, schema))),
            BinaryOperator::Plus => Operator::Plus,
            BinaryOperator::Minus => Operator::Minus,
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let is_date = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Date32));
        let is_part = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Interval(_))) && !is_days(expr);
        let RawBinaryExpr { op, left, right } = expr;
        if is_date(&left) && is_part(&right) {
            return Ok(PlannerResult::Planned(binary_expr(cast(left, MOMENT), operator, right)));
        }
        if operator == Operator::Plus && is_part(&left) && is_date(&right) {
            return Ok(PlannerResult::Planned(binary_expr(left, operator, cast(right, MOMENT))));
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// A comparison of a date or nanoseconds with a timestamp, in microseconds.
fn compared(expr: RawBinaryExpr, schema: &DFSchema) -> RawBinaryExpr {
    let RawBinaryExpr { op, left, right } = expr;
    let (Ok(left_type), Ok(right_type)) = (left.get_type(schema), right.get_type(schema)) else {
        return RawBinaryExpr { op, left, right };
    };
    // Nanoseconds of a column are `date_trunc` of a date, which whoever looks for units of time knows as it is.
    let is_of_column = |expr: &Expr, of: &DataType| {
        matches!(of, DataType::Timestamp(TimeUnit::Nanosecond, _)) && !expr.column_refs().is_empty()
    };
    if is_of_column(&left, &left_type) || is_of_column(&right, &right_type) {
        return RawBinaryExpr { op, left, right };
    }
    let left = match in_microseconds(&left_type, &right_type) {
        Some(wanted) => cast(left, wanted),
        None => left,
    };
    let right = match in_microseconds(&right_type, &left_type) {
        Some(wanted) => cast(right, wanted),
        None => right,
    };
    RawBinaryExpr { op, left, right }
}

/// What a value of a type becomes beside one of another type; `None` if it stays.
fn in_microseconds(of: &DataType, beside: &DataType) -> Option<DataType> {
    use TimeUnit::{Microsecond, Nanosecond};
    match (of, beside) {
        (DataType::Date32, DataType::Timestamp(Microsecond | Nanosecond, zone)) => {
            Some(DataType::Timestamp(Microsecond, zone.clone()))
        }
        (DataType::Timestamp(Nanosecond, zone), DataType::Date32 | DataType::Timestamp(Microsecond, _)) => {
            Some(DataType::Timestamp(Microsecond, zone.clone()))
        }
        _ => None,
    }
}

/// Whether it is an interval that is written out, and a number of days.
fn is_days(expr: &Expr) -> bool {
    match expr {
        // Of NULL, which also stands for a parameter while a statement is described, nothing is known.
        Expr::Literal(value, _) => !value.is_null() && !is_part_of_day(expr),
        Expr::Negative(inner) => is_days(inner),
        Expr::Cast(cast) => matches!(&*cast.expr, Expr::Literal(value, _) if !value.is_null()) && !is_part_of_day(expr),
        _ => false,
    }
}

/// Whether it is an interval that is written out and no number of days.
pub(crate) fn is_part_of_day(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(interval)), _) => interval.nanoseconds % DAY != 0,
        Expr::Literal(ScalarValue::IntervalDayTime(Some(interval)), _) => interval.milliseconds % 86_400_000 != 0,
        // Also a text, as parameters are written.
        Expr::Cast(cast) => match cast.expr.as_ref() {
            Expr::Literal(text, metadata) if matches!(cast.field.data_type(), DataType::Interval(_)) => {
                if let Some(text) = text.try_as_str().flatten() {
                    return interval_of(text).is_some_and(|(_, _, nanos)| nanos % DAY != 0);
                }
                let interval = text.cast_to(&DataType::Interval(IntervalUnit::MonthDayNano));
                interval.is_ok_and(|interval| is_part_of_day(&Expr::Literal(interval, metadata.clone())))
            }
            inner => is_part_of_day(inner),
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{batches, context, questions, runtime};
    use arrow::array::AsArray;
    use arrow::datatypes::{Date32Type, TimestampMicrosecondType};
    use proptest::prelude::*;

    const DAY_MICROS: i64 = DAY / 1_000;

    fn month_days(year: i64, month: i64) -> i64 {
        match month {
            2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    /// Days from 1970 on, counted month by month.
    fn days_until(year: i64, month: i64) -> i64 {
        let months = |from: (i64, i64), to: (i64, i64)| {
            let (from, to) = (from.0 * 12 + from.1 - 1, to.0 * 12 + to.1 - 1);
            (from..to).map(|month| month_days(month.div_euclid(12), month.rem_euclid(12) + 1)).sum::<i64>()
        };
        months((1970, 1), (year, month)) - months((year, month), (1970, 1))
    }

    /// The moment, in microseconds, that is so many months, then days, then microseconds later; the end of a month stays within it.
    fn later((year, month, day): (i64, i64, i64), months: i64, days: i64, micros: i64) -> i64 {
        let at = year * 12 + month - 1 + months;
        let (year, month) = (at.div_euclid(12), at.rem_euclid(12) + 1);
        let day = day.min(month_days(year, month));
        (days_until(year, month) + day - 1 + days) * DAY_MICROS + micros
    }

    proptest! {
        #![proptest_config(questions())]
        #[test]
        fn dates_with_intervals_are_what_a_calendar_says(
            (year, month, day) in (1900..2100_i64, 1..=12_i64, 1..=31_i64),
            (months, days) in (0..40_i64, 0..70_i64),
            hours in prop::sample::select(vec![0_i64, 0, 1, 23, 24, 25, 48]),
            minutes in prop::sample::select(vec![0_i64, 0, 30]),
            shape in 0..4_u8,
        ) {
            let date = (year, month, day.min(month_days(year, month)));
            let written = format!("CAST('{:04}-{:02}-{:02}' AS DATE)", date.0, date.1, date.2);
            let interval = format!("INTERVAL '{months} months {days} days {hours} hours {minutes} minutes'");
            let (sql, sign) = match shape {
                0 => (format!("SELECT {written} + {interval} AS m"), 1),
                1 => (format!("SELECT {written} - {interval} AS m"), -1),
                2 => (format!("SELECT {interval} + {written} AS m"), 1),
                _ => (format!("SELECT q.d - q.i AS m FROM (SELECT {written} AS d, {interval} AS i) q"), -1),
            };
            let micros = (hours * 60 + minutes) * 60_000_000;
            let expected = later(date, sign * months, sign * days, sign * micros);
            let found = runtime().block_on(batches(&context(), &sql)).unwrap_or_else(|error| panic!("{error}"));
            let found = found[0].column(0);
            // What is not written out may be anything.
            if shape < 3 && micros % DAY_MICROS == 0 {
                prop_assert_eq!(found.data_type(), &DataType::Date32, "{}", sql);
                let days = i64::from(found.as_primitive::<Date32Type>().value(0));
                prop_assert_eq!(days * DAY_MICROS, expected, "{}", sql);
            } else {
                prop_assert_eq!(found.data_type(), &MOMENT, "{}", sql);
                prop_assert_eq!(found.as_primitive::<TimestampMicrosecondType>().value(0), expected, "{}", sql);
            }
        }
    }
}
