//! Times that are cut to their day or unit and compared with constants, as ranges of the times themselves.
//!
//! Invariant: the range holds for exactly the times for which the comparison is true, and its negation for those for which that is false.
//!
//! `t::date = d` holds from the start of `d` to that of the next day, and `date_trunc('month', t) >= m` from the first month on that does not
//! begin before `m`: what is cut never lies between the starts of two units.

use super::constants::{day_of, text_of_timestamp, timestamp_of};
use super::predicate::{Columns, literal_of};
use super::statement::{Literal, Test};
use alluvia_space::CalendarUnit;
use alluvia_space::codes::calendar::{self, MICROS_PER_DAY};
use alluvia_syntax::trees::rewriting::call_of;
use datafusion::logical_expr::Operator;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{CastKind, DataType as SqlType, Expr};

/// What a time is cut to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    unit: CalendarUnit,
    /// It becomes a date, with which a text is compared as one.
    is_date: bool,
}

impl Cut {
    /// To a unit, whose start it becomes: a date, or a moment.
    pub fn new(unit: CalendarUnit, is_date: bool) -> Cut {
        Cut { unit, is_date }
    }
}

/// The column that is cut, and to what: `column::date` or `date_trunc('unit', column)`.
pub(super) fn cut_of(expr: &Expr, columns: &Columns<'_>) -> Option<(String, Cut)> {
    match expr {
        Expr::Nested(inner) => cut_of(inner, columns),
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr,
            data_type: SqlType::Date,
            array: false,
            format: None,
        } => Some((columns(expr)?, Cut { unit: CalendarUnit::Day, is_date: true })),
        Expr::Function(function) => {
            let (name, arguments) = call_of(function)?;
            let ("date_trunc", &[unit, column]) = (name.as_str(), arguments.as_slice()) else { return None };
            let Literal::Text(unit) = literal_of(unit)? else { return None };
            let unit = CalendarUnit::named(&unit.to_ascii_lowercase())?;
            Some((columns(column)?, Cut { unit, is_date: false }))
        }
        _ => None,
    }
}

/// What a time must be for it to compare so when it is cut; what is known only when the statement runs is left to be told then.
pub(super) fn test_of(cut: Cut, op: Operator, literal: Literal) -> Option<Test> {
    let micros = match &literal {
        Literal::Parameter(_) | Literal::Computed(_) => return Some(Test::Cut(cut, op, literal)),
        Literal::Text(text) if cut.is_date => day_of(text)?.checked_mul(MICROS_PER_DAY)?,
        Literal::Date(text) => day_of(text)?.checked_mul(MICROS_PER_DAY)?,
        Literal::Text(text) | Literal::Time(text) => timestamp_of(text)?,
        Literal::Typed(value) => micros_of(value)?,
        Literal::Number(_) | Literal::Boolean(_) => return None,
    };
    compared(cut.unit, op, micros)
}

/// A time in microseconds since 1970; `None` where it is none, or lies between two of them.
fn micros_of(time: &ScalarValue) -> Option<i64> {
    match time {
        ScalarValue::Date32(Some(days)) => i64::from(*days).checked_mul(MICROS_PER_DAY),
        ScalarValue::TimestampMicrosecond(Some(micros), _) => Some(*micros),
        ScalarValue::TimestampNanosecond(Some(nanos), _) if nanos % 1_000 == 0 => Some(nanos / 1_000),
        _ => None,
    }
}

/// What a time must be for the start of its unit to compare so with a moment in microseconds.
fn compared(unit: CalendarUnit, op: Operator, micros: i64) -> Option<Test> {
    let floor = calendar::units_of_micros(micros, unit);
    let next = floor.checked_add(1)?;
    // The unit that begins at the constant or after it.
    let begins_there = calendar::start_micros(floor, unit) == micros;
    let ceiling = if begins_there { floor } else { next };
    let start = |units: i64| text_of_timestamp(calendar::start_micros(units, unit)).map(Literal::Time);
    let from = |units: i64| Some((start(units)?, true));
    let before = |units: i64| Some((start(units)?, false));
    // Of units that no constant names there is none: nothing lies from one start to the same.
    let of_unit = || Some(Test::Range(Some(from(ceiling)?), Some(before(next)?)));
    Some(match op {
        Operator::Eq => of_unit()?,
        Operator::NotEq => Test::Not(Box::new(of_unit()?)),
        Operator::Lt => Test::Range(None, Some(before(ceiling)?)),
        Operator::LtEq => Test::Range(None, Some(before(next)?)),
        Operator::Gt => Test::Range(Some(from(next)?), None),
        Operator::GtEq => Test::Range(Some(from(ceiling)?), None),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::predicate::condition_of;
    use super::super::statement::Condition;
    use super::super::testing::recognised;
    use super::*;

    fn condition(sql: &str) -> Option<Condition> {
        recognised(sql, condition_of)
    }

    fn range(low: Option<&str>, end: Option<&str>) -> Condition {
        let at = |text: &str, inclusive| (Literal::Time(format!("{text} 00:00:00")), inclusive);
        Condition::Column("t".to_owned(), Test::Range(low.map(|low| at(low, true)), end.map(|end| at(end, false))))
    }

    #[test]
    fn what_is_cut_is_a_range() {
        let day = range(Some("2026-03-04"), Some("2026-03-05"));
        for sql in ["t::date = '2026-03-04'", "CAST(t AS DATE) = DATE '2026-03-04'", "'2026-03-04'::date = t::date"] {
            assert_eq!(condition(sql), Some(day.clone()), "{sql}");
        }
        assert_eq!(condition("t::date <> '2026-03-04'"), Some(day.clone().negated()));
        let between = Condition::All(vec![range(Some("2026-03-04"), None), range(None, Some("2026-03-06"))]);
        assert_eq!(condition("t::date BETWEEN '2026-03-04' AND '2026-03-05'"), Some(between.clone()));
        assert_eq!(condition("t::date NOT BETWEEN '2026-03-04' AND '2026-03-05'"), Some(between.negated()));
        let either = Condition::Any(vec![day, range(Some("2026-04-01"), Some("2026-04-02"))]);
        assert_eq!(condition("t::date IN ('2026-03-04', DATE '2026-04-01')"), Some(either));
        let march = range(Some("2026-03-01"), Some("2026-04-01"));
        assert_eq!(condition("date_trunc('Month', t) = '2026-03-01'"), Some(march));
        assert_eq!(condition("DATE '2026-03-02' > date_trunc('month', t)"), Some(range(None, Some("2026-04-01"))));
    }

    #[test]
    fn a_constant_within_a_unit_is_the_start_of_none() {
        let april = "2026-04-01";
        let of = |op: &str| condition(&format!("date_trunc('month', t) {op} TIMESTAMP '2026-03-01 00:00:01'"));
        assert_eq!(of("="), Some(range(Some(april), Some(april))));
        assert_eq!((of(">="), of(">")), (Some(range(Some(april), None)), Some(range(Some(april), None))));
        assert_eq!((of("<="), of("<")), (Some(range(None, Some(april))), Some(range(None, Some(april)))));
        assert_eq!(condition("t::date = TIMESTAMP '2026-03-31 12:00:00'"), Some(range(Some(april), Some(april))));
    }

    #[test]
    fn what_is_known_later_is_told_later() {
        let Some(Condition::Column(_, test)) = condition("t::date >= $1") else { panic!("a condition") };
        let cut = Cut { unit: CalendarUnit::Day, is_date: true };
        assert_eq!(test, Test::Cut(cut, Operator::GtEq, Literal::Parameter(1)));
        let Some(Condition::Column(_, test)) = condition("date_trunc('day', t) >= now() - INTERVAL '1 day'") else {
            panic!("a condition")
        };
        // The second day of 1970, at noon.
        let now = MICROS_PER_DAY + MICROS_PER_DAY / 2;
        assert_eq!(
            test.at(now).map(|test| Condition::Column("t".to_owned(), test)),
            Some(range(Some("1970-01-02"), None))
        );
    }

    #[test]
    fn what_is_no_such_comparison_is_refused() {
        for sql in [
            "t::date = '2026-03-04 10:00:00'",
            "t::date = 5",
            "t::date = u::date",
            "t::date IN ('2026-03-04', NULL)",
            "t::date",
            "t::timestamp = '2026-03-04'",
            "date_trunc('week', t) = '2026-03-02'",
            "date_trunc(u, t) = '2026-03-02'",
            "date_trunc('day', t) = '2026-03-02 10:00:00+02:00'",
            "date_trunc('day', t + INTERVAL '1 day') = '2026-03-02'",
            "t::date <= '9999-12-31'",
        ] {
            assert_eq!(condition(sql), None, "{sql}");
        }
    }
}
