//! Texts of intervals that planning does not read, or reads otherwise, become months, days and microseconds: clock
//! times (`'1 day 02:00:00'`), ISO 8601 (`'P1DT2H'`), a sign by itself, `ago`, years with months (`'1-2'`) and numbers
//! without a unit. The digits that `interval(2)` asks for are rounded to.
//!
//! Invariant: what is changed means what PostgreSQL reads there; every other text stays as it is, for planning to read or to refuse.
//!
//! Mends apache/datafusion#11454 (in 55.2).
//! Held by the unit test `texts_become_numbers_and_units`.

use super::visit::visit_mut;
use alluvia_types::Result;
use alluvia_values::interval::interval_of;
use alluvia_values::interval_units::in_units;
use sqlparser::ast::{DataType, Expr, Interval, Query, TypedString, Value, VisitorMut};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// Whether a statement of these tokens may have one.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| matches!(&token.token, Token::Word(word) if word.keyword == Keyword::INTERVAL))
}

/// Writes all of them as numbers and units.
pub fn write_out(query: &mut Query) -> Result<()> {
    let _ = visit_mut(query, &mut Texts);
    Ok(())
}

struct Texts;

impl VisitorMut for Texts {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        round(expr);
        let text = match expr {
            Expr::Interval(Interval { value, leading_field: None, .. }) => literal(value),
            Expr::Cast { expr, data_type: DataType::Interval { .. }, .. } => literal(expr),
            Expr::TypedString(TypedString { data_type: DataType::Interval { .. }, value, .. }) => {
                text_of(&mut value.value)
            }
            _ => None,
        };
        if let Some(text) = text
            && let Some(written) = in_units(text)
        {
            *text = written;
        }
        ControlFlow::Continue(())
    }
}

/// `interval(2) '1.567 seconds'` has two digits behind the seconds.
fn round(expr: &mut Expr) {
    let (text, data_type) = match expr {
        Expr::Cast { expr, data_type, .. } => (literal(expr), data_type),
        Expr::TypedString(TypedString { data_type, value, .. }) => (text_of(&mut value.value), data_type),
        _ => return,
    };
    let DataType::Interval { fields: None, precision: precision @ Some(_) } = data_type else { return };
    let digits = u32::try_from(precision.unwrap_or_default()).unwrap_or(6);
    let Some((text, (months, days, nanos))) = text.and_then(|text| interval_of(text).map(|of| (text, of))) else {
        return;
    };
    let unit = 10_i64.pow(6_u32.saturating_sub(digits));
    let micros = nanos / 1_000;
    let rounded = (micros + micros.signum() * (unit / 2)) / unit * unit;
    *text = format!("{months} months {days} days {rounded} microseconds");
    *precision = None;
}

fn literal(expr: &mut Expr) -> Option<&mut String> {
    match expr {
        Expr::Value(value) => text_of(&mut value.value),
        Expr::Nested(inner) => literal(inner),
        _ => None,
    }
}

fn text_of(value: &mut Value) -> Option<&mut String> {
    match value {
        Value::SingleQuotedString(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_numbers_and_units() {
        for (text, written) in [
            ("02:00:00", "0 months 0 days 7200000000 microseconds"),
            ("2:30", "0 months 0 days 9000000000 microseconds"),
            ("1:30.5", "0 months 0 days 90500000 microseconds"),
            ("1 day -02:00:01.5", "0 months 1 days -7201500000 microseconds"),
            ("1 year 2 months 3 days 04:05:06", "14 months 3 days 14706000000 microseconds"),
            ("26:00:00", "0 months 0 days 93600000000 microseconds"),
            ("1 month - 1 day", "1 months -1 days 0 microseconds"),
            ("1 day 2 hours ago", "0 months -1 days -7200000000 microseconds"),
            ("+1 day .5 hours ago", "0 months -1 days -1800000000 microseconds"),
            ("1 day, 2 hours", "0 months 1 days 7200000000 microseconds"),
            ("1 millennium", "12000 months 0 days 0 microseconds"),
            ("P1DT2H", "0 months 1 days 7200000000 microseconds"),
            ("P1Y2M3W4DT5H6M7.5S", "14 months 25 days 18367500000 microseconds"),
            ("PT-5M", "0 months 0 days -300000000 microseconds"),
            ("90", "0 months 0 days 90000000 microseconds"),
            ("1 00:00:01", "0 months 1 days 1000000 microseconds"),
            ("-1-2", "-14 months 0 days 0 microseconds"),
        ] {
            assert_eq!(in_units(text).as_deref(), Some(written), "{text}");
        }
    }

    #[test]
    fn what_is_read_or_refused_elsewhere_stays() {
        for text in [
            "1 day",
            "3 hours 5 min",
            "1:2:3:4",
            "1:60",
            "1:30:61",
            "a:b",
            "-",
            "P",
            "PT",
            "P1H",
            "pie",
            "1 day ago 2 hours",
            "",
        ] {
            assert_eq!(in_units(text), None, "{text}");
        }
    }
}
