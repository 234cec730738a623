//! Days and units of a time that are compared with constants, as ranges of the time itself.
//!
//! Invariant: the range holds for exactly the times for which the comparison is true, and its negation for those for which that is false.
//!
//! `CAST(t AS DATE) = d` holds from the start of `d` to that of the next day, and `date_trunc('month', t) >= m` from the first month on that
//! does not begin before `m`: what is cut never lies between the starts of two units.

use super::condition::column_of;
use crate::answer::{Condition, Literal, Test, year_compared};
use alluvia_space::CalendarUnit;
use alluvia_space::codes::calendar;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Cast, Expr, Operator};

const MICROS_OF_DAY: i64 = 86_400_000_000;

/// A time of a column, cut to its unit.
struct Cut {
    column: String,
    unit: CalendarUnit,
}

/// What must hold of a column's times where a time that is cut to its unit is compared with a constant; `None` of any other comparison.
pub(super) fn condition_of_unit(cut: &Expr, op: Operator, constant: &Expr) -> Option<Condition> {
    let Cut { column, unit } = cut_of(cut)?;
    let Expr::Literal(constant, _) = constant else { return None };
    let constant = micros_of(constant)?;
    let floor = calendar::units_of_micros(constant, unit);
    // The unit that begins at the constant or after it.
    let begins_there = calendar::start_micros(floor, unit) == constant;
    let ceiling = if begins_there { floor } else { floor.checked_add(1)? };
    let from = |units: i64| Some((moment(units, unit)?, true));
    let before = |units: i64| Some((moment(units, unit)?, false));
    let next = floor.checked_add(1)?;
    // Of units that no constant names there is none: nothing lies from one start to the same.
    let of_unit = Test::Range(Some(from(ceiling)?), Some(before(if begins_there { next } else { ceiling })?));
    let test = match op {
        Operator::Eq => of_unit,
        Operator::NotEq => Test::Not(Box::new(of_unit)),
        Operator::Lt => Test::Range(None, Some(before(ceiling)?)),
        Operator::LtEq => Test::Range(None, Some(before(next)?)),
        Operator::Gt => Test::Range(Some(from(next)?), None),
        Operator::GtEq => Test::Range(Some(from(ceiling)?), None),
        _ => return None,
    };
    Some(Condition::Column(column, test))
}

/// What must hold of a column's times where their year is compared with a constant; `None` of any other comparison.
pub(super) fn condition_of_year(year: &Expr, op: Operator, constant: &Expr) -> Option<Condition> {
    year_compared(&year_of(year)?, op, year_of_constant(constant)?)
}

/// The column whose year an expression is.
pub(super) fn year_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Int64 => year_of(expr),
        Expr::ScalarFunction(function) if function.name() == "date_part" => {
            let [Expr::Literal(part, _), column] = function.args.as_slice() else { return None };
            part.try_as_str()??.eq_ignore_ascii_case("year").then(|| column_of(column))?
        }
        _ => None,
    }
}

/// A whole number.
pub(super) fn year_of_constant(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(ScalarValue::Int32(Some(year)), _) => Some((*year).into()),
        Expr::Literal(ScalarValue::Int64(Some(year)), _) => Some(*year),
        _ => None,
    }
}

fn cut_of(expr: &Expr) -> Option<Cut> {
    match expr {
        Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Date32 => {
            Some(Cut { column: column_of(expr)?, unit: CalendarUnit::Day })
        }
        Expr::ScalarFunction(function) if function.name() == "date_trunc" => {
            let [Expr::Literal(unit, _), column] = function.args.as_slice() else { return None };
            let unit = CalendarUnit::named(&unit.try_as_str()??.to_ascii_lowercase())?;
            Some(Cut { column: column_of(column)?, unit })
        }
        _ => None,
    }
}

/// A constant in microseconds since 1970; `None` where it is none, or lies between two of them.
fn micros_of(constant: &ScalarValue) -> Option<i64> {
    match constant {
        ScalarValue::Date32(Some(days)) => i64::from(*days).checked_mul(MICROS_OF_DAY),
        ScalarValue::TimestampMicrosecond(Some(micros), _) => Some(*micros),
        ScalarValue::TimestampNanosecond(Some(nanos), _) if nanos % 1_000 == 0 => Some(nanos / 1_000),
        _ => None,
    }
}

/// The start of a unit, as it is written; `None` of years without four digits.
fn moment(units: i64, unit: CalendarUnit) -> Option<Literal> {
    let micros = calendar::start_micros(units, unit);
    let (days, minutes) = (micros.div_euclid(MICROS_OF_DAY), micros.rem_euclid(MICROS_OF_DAY) / 60_000_000);
    let (year, month, day) = calendar::civil(days);
    let text = format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:00", minutes / 60, minutes % 60);
    (0..=9999).contains(&year).then_some(Literal::Time(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::{cast, col, lit};

    fn range(low: Option<&str>, end: Option<&str>) -> Option<Condition> {
        let at = |text: &str, inclusive| (Literal::Time(text.to_owned()), inclusive);
        let test = Test::Range(low.map(|low| at(low, true)), end.map(|end| at(end, false)));
        Some(Condition::Column("t".to_owned(), test))
    }

    fn micros(text: &str) -> Expr {
        let day = ScalarValue::Utf8(Some(text.to_owned()));
        let to = DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None);
        lit(day.cast_to(&to).expect("a time"))
    }

    #[test]
    fn a_day_is_a_range_of_times() {
        let day = cast(col("t"), DataType::Date32);
        let of = |op| condition_of_unit(&day, op, &lit(ScalarValue::Date32(Some(20_516))));
        let (start, end) = ("2026-03-04 00:00:00", "2026-03-05 00:00:00");
        assert_eq!(of(Operator::Eq), range(Some(start), Some(end)));
        assert_eq!(of(Operator::Lt), range(None, Some(start)));
        assert_eq!(of(Operator::LtEq), range(None, Some(end)));
        assert_eq!(of(Operator::Gt), range(Some(end), None));
        assert_eq!(of(Operator::GtEq), range(Some(start), None));
        assert_eq!(condition_of_unit(&cast(col("t"), DataType::Int64), Operator::Eq, &lit(1)), None);
    }

    #[test]
    fn a_year_is_a_range_of_times() {
        let year = datafusion::functions::datetime::expr_fn::date_part(lit("YEAR"), col("t"));
        let wide = cast(year.clone(), DataType::Int64);
        for (year, constant) in [(&year, lit(2026)), (&wide, lit(2026i64))] {
            let of = |op| condition_of_year(year, op, &constant);
            assert_eq!(of(Operator::Eq), range(Some("2026-01-01"), Some("2027-01-01")));
            assert_eq!(of(Operator::Gt), range(Some("2027-01-01"), None));
            assert_eq!(of(Operator::LtEq), range(None, Some("2027-01-01")));
        }
        let month = datafusion::functions::datetime::expr_fn::date_part(lit("month"), col("t"));
        assert_eq!(condition_of_year(&month, Operator::Eq, &lit(3)), None);
        assert_eq!(condition_of_year(&year, Operator::Eq, &lit(2026.0)), None);
    }

    #[test]
    fn a_constant_within_a_unit_is_the_start_of_none() {
        let month = datafusion::functions::datetime::expr_fn::date_trunc(lit("month"), col("t"));
        let of = |op, text: &str| condition_of_unit(&month, op, &micros(text));
        let (march, april) = ("2026-03-01 00:00:00", "2026-04-01 00:00:00");
        assert_eq!(of(Operator::Eq, "2026-03-01T00:00:00"), range(Some(march), Some(april)));
        assert_eq!(of(Operator::Eq, "2026-03-01T00:00:01"), range(Some(april), Some(april)));
        for text in ["2026-03-01T00:00:01", "2026-03-31T23:59:59"] {
            assert_eq!(of(Operator::GtEq, text), range(Some(april), None));
            assert_eq!(of(Operator::Gt, text), range(Some(april), None));
            assert_eq!(of(Operator::Lt, text), range(None, Some(april)));
            assert_eq!(of(Operator::LtEq, text), range(None, Some(april)));
        }
    }
}
