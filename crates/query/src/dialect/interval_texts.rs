//! Texts of intervals that planning does not read, or otherwise: clock times (`'1 day 02:00:00'`), ISO 8601 (`'P1DT2H'`), a sign by itself, `ago`,
//! years with months (`'1-2'`) and numbers without a unit, which it takes for months.
//!
//! Invariant: what is changed means what PostgreSQL reads there; every other text stays as it is, for planning to read or to refuse.

use super::interval_values::interval_of;
use super::visit::visit_mut;
use alluvia_types::Result;
use datafusion::sql::sqlparser::ast::{DataType, Expr, Interval, Query, TypedString, Value, VisitorMut};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// Whether a statement of these tokens may have one.
pub(super) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| matches!(&token.token, Token::Word(word) if word.keyword == Keyword::INTERVAL))
}

/// Writes all of them as numbers and units.
pub(super) fn write_out(query: &mut Query) -> Result<()> {
    let _ = visit_mut(query, &mut Texts);
    Ok(())
}

struct Texts;

impl VisitorMut for Texts {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
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

/// A text of an interval in numbers and units; `None` if it has no part that planning does not read.
pub(crate) fn in_units(text: &str) -> Option<String> {
    if let Some(written) = of_iso(text.trim()) {
        return Some(written);
    }
    if lacks_unit(text) {
        let (months, days, nanos) = interval_of(text)?;
        return Some(format!("{months} months {days} days {} microseconds", nanos / 1_000));
    }
    let mut parts = Vec::new();
    let mut sign = "";
    let mut is_changed = false;
    let mut is_over = false;
    for word in text.split_whitespace() {
        if std::mem::replace(&mut is_over, word.eq_ignore_ascii_case("ago")) {
            return None;
        }
        if word == "+" || word == "-" {
            (sign, is_changed) = (if word == "-" { "-" } else { "" }, true);
        } else if word.contains(':') {
            parts.push(of_clock(word, std::mem::take(&mut sign))?);
            is_changed = true;
        } else if is_over {
            parts = parts.iter().map(|part| negated(part)).collect();
            is_changed = true;
        } else {
            parts.push(format!("{}{word}", std::mem::take(&mut sign)));
        }
    }
    (is_changed && sign.is_empty() && !parts.is_empty()).then(|| parts.join(" "))
}

/// Whether a number stands there without a unit, or years with months do.
fn lacks_unit(text: &str) -> bool {
    let is_bare = |word: &str| {
        let digits = word.trim_start_matches(['+', '-']);
        let is_number = |of: char| of.is_ascii_digit() || matches!(of, '.' | '-');
        digits.chars().all(is_number) && digits.contains(|of: char| of.is_ascii_digit())
    };
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let has_unit = words.peek().is_some_and(|next| next.starts_with(|of: char| of.is_ascii_alphabetic()));
        if is_bare(word) && (!has_unit || word.trim_start_matches(['+', '-']).contains('-')) {
            return true;
        }
    }
    false
}

/// `hh:mm[:ss[.fraction]]`, whose sign is that of all of it.
fn of_clock(word: &str, before: &str) -> Option<String> {
    let (own, digits) = match word.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", word.strip_prefix('+').unwrap_or(word)),
    };
    let sign = if before == own { "" } else { "-" };
    let fields: Vec<&str> = digits.split(':').collect();
    let is_whole = |field: &&str| !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit());
    let (&hours, &minutes) = (fields.first()?, fields.get(1)?);
    let seconds = fields.get(2).copied().unwrap_or("0");
    let is_number = seconds.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && seconds.parse::<f64>().is_ok();
    let is_clock = fields.len() <= 3 && [hours, minutes].iter().all(is_whole) && is_number;
    let is_within = minutes.parse::<u32>().is_ok_and(|of| of < 60) && seconds.parse::<f64>().is_ok_and(|of| of < 60.0);
    (is_clock && is_within).then(|| format!("{sign}{hours} hours {sign}{minutes} minutes {sign}{seconds} seconds"))
}

fn negated(part: &str) -> String {
    let is_number = |word: &str| word.trim_start_matches('.').starts_with(|first: char| first.is_ascii_digit());
    let negate = |word: &str| match (word.strip_prefix('-'), word.strip_prefix('+').unwrap_or(word)) {
        (Some(digits), _) => digits.to_owned(),
        (None, digits) if is_number(digits) => format!("-{digits}"),
        (None, word) => word.to_owned(),
    };
    part.split(' ').map(negate).collect::<Vec<String>>().join(" ")
}

/// `P1Y2M3W4DT5H6M7.5S`.
pub(super) fn of_iso(text: &str) -> Option<String> {
    let mut rest = text.strip_prefix('P')?;
    let mut parts = Vec::new();
    let mut is_time = false;
    while !rest.is_empty() {
        if let Some(time) = rest.strip_prefix('T') {
            (rest, is_time) = (time, true);
            continue;
        }
        let end = rest.find(|of: char| of.is_ascii_alphabetic())?;
        let (number, unit) = (&rest[..end], &rest[end..=end]);
        number.parse::<f64>().ok()?;
        let unit = match (unit, is_time) {
            ("Y", false) => "years",
            ("M", false) => "months",
            ("W", false) => "weeks",
            ("D", false) => "days",
            ("H", true) => "hours",
            ("M", true) => "minutes",
            ("S", true) => "seconds",
            _ => return None,
        };
        parts.push(format!("{number} {unit}"));
        rest = &rest[end + 1..];
    }
    (!parts.is_empty()).then(|| parts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_numbers_and_units() {
        for (text, written) in [
            ("02:00:00", "02 hours 00 minutes 00 seconds"),
            ("2:30", "2 hours 30 minutes 0 seconds"),
            ("1 day -02:00:01.5", "1 day -02 hours -00 minutes -01.5 seconds"),
            ("1 year 2 months 3 days 04:05:06", "1 year 2 months 3 days 04 hours 05 minutes 06 seconds"),
            ("26:00:00", "26 hours 00 minutes 00 seconds"),
            ("1 month - 1 day", "1 month -1 day"),
            ("1 day 2 hours ago", "-1 day -2 hours"),
            ("+1 day .5 hours ago", "-1 day -.5 hours"),
            ("P1DT2H", "1 days 2 hours"),
            ("P1Y2M3W4DT5H6M7.5S", "1 years 2 months 3 weeks 4 days 5 hours 6 minutes 7.5 seconds"),
            ("PT-5M", "-5 minutes"),
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
