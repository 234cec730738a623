//! Days, units and years of a time, as plans say them. What a comparison of them with a constant means, `answer::units`
//! and `answer::years` say.

use super::condition::column_of;
use crate::answer::{Cut, Subject};
use alluvia_space::{CalendarUnit, Column, TableDef};
use arrow::datatypes::DataType;
use datafusion::logical_expr::{Cast, Expr};

/// The column that an expression is, or what of a column it is.
pub(super) fn subject_of(expr: &Expr, def: &TableDef) -> Option<Subject> {
    let column = column_of(expr).map(Subject::Column).or_else(|| year_of(expr).map(Subject::Year));
    column.or_else(|| cut_of(expr, def).map(|(column, cut)| Subject::Cut(column, cut)))
}

/// The column whose year an expression is.
fn year_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Int64 => year_of(expr),
        Expr::ScalarFunction(function) if function.name() == "date_part" => {
            let [Expr::Literal(part, _), column] = function.args.as_slice() else { return None };
            part.try_as_str()??.eq_ignore_ascii_case("year").then(|| column_of(column))?
        }
        _ => None,
    }
}

/// The column whose times an expression cuts to their unit, and how.
fn cut_of(expr: &Expr, def: &TableDef) -> Option<(String, Cut)> {
    match expr {
        Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Date32 => {
            Some((column_of(expr)?, Cut::new(CalendarUnit::Day, true)))
        }
        Expr::ScalarFunction(function) if function.name() == "date_trunc" => {
            let [Expr::Literal(unit, _), column] = function.args.as_slice() else { return None };
            let unit = CalendarUnit::named(&unit.try_as_str()??.to_ascii_lowercase())?;
            Some((column_of(column).or_else(|| date_of(column, def))?, Cut::new(unit, false)))
        }
        // A date beside moments is the one at which it begins.
        expr => Some((date_of(expr, def)?, Cut::new(CalendarUnit::Day, false))),
    }
}

/// The DATE column that an expression makes moments of.
pub(super) fn date_of(expr: &Expr, def: &TableDef) -> Option<String> {
    let Expr::Cast(Cast { expr, field }) = expr else { return None };
    let name = column_of(expr).filter(|_| matches!(field.data_type(), DataType::Timestamp(..)))?;
    let is_date = |column: &Column| column.name == name && column.data_type == alluvia_space::DataType::Date;
    def.columns.iter().any(is_date).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::super::condition::literal_of;
    use super::*;
    use crate::answer::{Condition, Literal, Test};
    use crate::table::testing;
    use datafusion::common::ScalarValue;
    use datafusion::logical_expr::Operator;
    use datafusion::prelude::{cast, col, lit};

    fn def() -> TableDef {
        use alluvia_space::DataType::{Date, Timestamp};
        testing::table("t", &[("t", Timestamp), ("d", Date)])
    }

    fn condition_of_unit(cut: &Expr, op: Operator, constant: &Expr, def: &TableDef) -> Option<Condition> {
        subject_of(cut, def)?.compared(op, literal_of(constant)?)
    }

    fn condition_of_year(year: &Expr, op: Operator, constant: &Expr) -> Option<Condition> {
        condition_of_unit(year, op, constant, &def())
    }

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
        let of = |op| condition_of_unit(&day, op, &lit(ScalarValue::Date32(Some(20_516))), &def());
        let (start, end) = ("2026-03-04 00:00:00", "2026-03-05 00:00:00");
        assert_eq!(of(Operator::Eq), range(Some(start), Some(end)));
        assert_eq!(of(Operator::Lt), range(None, Some(start)));
        assert_eq!(of(Operator::LtEq), range(None, Some(end)));
        assert_eq!(of(Operator::Gt), range(Some(end), None));
        assert_eq!(of(Operator::GtEq), range(Some(start), None));
        assert_eq!(condition_of_unit(&cast(col("t"), DataType::Int64), Operator::Eq, &lit(1), &def()), None);
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
        let of = |op, text: &str| condition_of_unit(&month, op, &micros(text), &def());
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
    #[test]
    fn a_date_beside_moments_is_the_one_at_which_it_begins() {
        let moment = DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None);
        let begins = |name: &str| cast(col(name), moment.clone());
        let of = |cut: &Expr| condition_of_unit(cut, Operator::GtEq, &micros("2026-03-01T00:00:01"), &def());
        let from = |text: &str| {
            let test = Test::Range(Some((Literal::Time(text.to_owned()), true)), None);
            Some(Condition::Column("d".to_owned(), test))
        };
        assert_eq!(of(&begins("d")), from("2026-03-02 00:00:00"));
        let month = |of: Expr| datafusion::functions::datetime::expr_fn::date_trunc(lit("month"), of);
        assert_eq!(of(&month(begins("d"))), from("2026-04-01 00:00:00"));
        assert_eq!((of(&begins("t")), of(&month(begins("t")))), (None, None));
    }
}
