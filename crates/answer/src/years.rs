//! Years of times that are compared with numbers, as ranges of the times themselves.
//!
//! Invariant: the condition is true of exactly the times whose year the comparison is true of, and false of those that it is false of. Years
//! that are not written with four digits, and numbers that are not whole, are left to the planner.

use super::predicate::{Columns, literal_of};
use super::statement::{Condition, Literal, Test};
use alluvia_syntax::trees::rewriting::call_of;
use datafusion::logical_expr::Operator;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{DateTimeField, Expr};

/// What must hold of a column's times for their year to compare so with a number.
pub(super) fn compared(column: &str, op: Operator, year: i64) -> Option<Condition> {
    // The year after it is written, too.
    let year = Some(year).filter(|year| (1..9999).contains(year))?;
    let start = |year: i64, inclusive: bool| Some((Literal::Time(format!("{year:04}-01-01")), inclusive));
    let of_year = Test::Range(start(year, true), start(year + 1, false));
    let test = match op {
        Operator::Eq => of_year,
        Operator::NotEq => Test::Not(Box::new(of_year)),
        Operator::Lt => Test::Range(None, start(year, false)),
        Operator::LtEq => Test::Range(None, start(year + 1, false)),
        Operator::Gt => Test::Range(start(year + 1, true), None),
        Operator::GtEq => Test::Range(start(year, true), None),
        _ => return None,
    };
    Some(Condition::Column(column.to_owned(), test))
}

/// The column whose year an expression is: `extract(year FROM column)` or `date_part('year', column)`.
pub(super) fn year_of(expr: &Expr, columns: &Columns<'_>) -> Option<String> {
    match expr {
        Expr::Nested(inner) => year_of(inner, columns),
        Expr::Extract { field: DateTimeField::Year, expr, .. } => columns(expr),
        Expr::Function(function) => {
            let (name, arguments) = call_of(function)?;
            let &[part, column] = arguments.as_slice() else { return None };
            match literal_of(part)? {
                Literal::Text(part) if name == "date_part" && part.eq_ignore_ascii_case("year") => columns(column),
                _ => None,
            }
        }
        _ => None,
    }
}

/// A constant as a whole number.
pub(super) fn number(literal: &Literal) -> Option<i64> {
    match literal {
        Literal::Number(text) => text.parse().ok(),
        Literal::Typed(ScalarValue::Int32(Some(year))) => Some((*year).into()),
        Literal::Typed(ScalarValue::Int64(Some(year))) => Some(*year),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::predicate::condition_of;
    use super::super::testing::recognised;
    use super::*;

    fn condition(sql: &str) -> Option<Condition> {
        recognised(sql, condition_of)
    }

    /// Whether it is true of the start of a year.
    fn holds(condition: &Condition, year: i64) -> bool {
        let starts = |bound: &Option<(Literal, bool)>| match bound {
            None => None,
            Some((Literal::Time(text), _)) => Some(text[..4].parse::<i64>().expect("a year")),
            other => panic!("{other:?}"),
        };
        match condition {
            Condition::All(parts) => parts.iter().all(|part| holds(part, year)),
            Condition::Any(parts) => parts.iter().any(|part| holds(part, year)),
            Condition::Column(column, Test::Not(test)) => {
                !holds(&Condition::Column(column.clone(), test.as_ref().clone()), year)
            }
            Condition::Column(_, Test::Range(low, end)) => {
                starts(low).is_none_or(|low| low <= year) && starts(end).is_none_or(|end| year < end)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_year_is_compared_as_a_number_is() {
        type OfYear = fn(i64) -> bool;
        let cases: [(&str, OfYear); 11] = [
            ("extract(year FROM t) = 2024", |year| year == 2024),
            ("2024 <> extract(YEAR FROM t)", |year| year != 2024),
            ("date_part('year', t) < 2024", |year| year < 2024),
            ("date_part('YEAR', t) <= 2024", |year| year <= 2024),
            ("2024 < (extract(year FROM t))", |year| year > 2024),
            ("extract(year FROM t) >= 2024", |year| year >= 2024),
            ("extract(year FROM t) IN (2022, 2024)", |year| year == 2022 || year == 2024),
            ("extract(year FROM t) NOT IN (2022, 2024)", |year| year != 2022 && year != 2024),
            ("extract(year FROM t) BETWEEN 2022 AND 2024", |year| (2022..=2024).contains(&year)),
            ("extract(year FROM t) NOT BETWEEN 2022 AND 2024", |year| !(2022..=2024).contains(&year)),
            ("extract(year FROM t) BETWEEN 2024 AND 2022", |_| false),
        ];
        for (sql, model) in cases {
            let condition = condition(sql).expect(sql);
            for year in 2020..2028 {
                assert_eq!(holds(&condition, year), model(year), "{sql}: {year}");
            }
        }
    }

    #[test]
    fn what_is_no_whole_year_of_a_column_is_refused() {
        for sql in [
            "extract(month FROM t) = 3",
            "extract(isoyear FROM t) = 2024",
            "date_part('month', t) = 3",
            "date_part(part, t) = 2024",
            "extract(year FROM t) = 2024.0",
            "extract(year FROM t) = '2024'",
            "extract(year FROM t) = -1",
            "extract(year FROM t) < 9999",
            "extract(year FROM t) IN (2024, NULL)",
            "extract(year FROM t + x) = 2024",
            "extract(year FROM t) + 1 = 2024",
            "extract(year FROM t) = x",
        ] {
            assert_eq!(condition(sql), None, "{sql}");
        }
    }
}
