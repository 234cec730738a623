//! Dates that become moments.
//!
//! Invariant: a date and an interval make a timestamp, as in PostgreSQL, unless the interval is written out as days, months or years. Then
//! they make a date, which is the same moment, and which everything that knows dates goes on knowing (the index, pruning).
//!
//! DataFusion 55.2 makes a date of both, and drops what is less than a day. The types of a statement's columns follow from this, so it
//! is done where expressions are planned first.

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

/// Plans dates with intervals.
#[derive(Debug)]
pub(crate) struct DatesAsMoments;

impl ExprPlanner for DatesAsMoments {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let operator = match expr.op {
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
pub(super) fn is_part_of_day(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(interval)), _) => interval.nanoseconds % DAY != 0,
        Expr::Literal(ScalarValue::IntervalDayTime(Some(interval)), _) => interval.milliseconds % 86_400_000 != 0,
        // Also a text, as parameters are written.
        Expr::Cast(cast) => match cast.expr.as_ref() {
            Expr::Literal(text, metadata) if matches!(cast.field.data_type(), DataType::Interval(_)) => {
                let interval = text.cast_to(&DataType::Interval(IntervalUnit::MonthDayNano));
                interval.is_ok_and(|interval| is_part_of_day(&Expr::Literal(interval, metadata.clone())))
            }
            inner => is_part_of_day(inner),
        },
        _ => false,
    }
}
