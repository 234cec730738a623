//! Numbers that keep their digits.
//!
//! Invariants:
//! - A number within a cast to DECIMAL has all the digits that it is written with.
//! - A number that is compared, and that is not what its double is written as, is the decimal that is written.
//! - Every other number with a point is a double.
//!
//! DataFusion makes a double of a number with a point, and of a whole one that no BIGINT holds; [`crate::checked`] takes what it is written as
//! where it stands beside decimals.

use super::rewriting::rewrite;
use alluvia_types::Result;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, Query, UnaryOperator, Value,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::fmt;

/// Digits of a decimal at most.
const DIGITS_MAX: usize = 38;

/// A decimal: so many of its digits stand behind the point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WrittenDecimal {
    pub(crate) digits: i128,
    pub(crate) precision: u8,
    pub(crate) scale: u8,
}

impl fmt::Display for WrittenDecimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, scale) = (if self.digits < 0 { "-" } else { "" }, usize::from(self.scale));
        let digits = format!("{:0>width$}", self.digits.unsigned_abs(), width = scale + 1);
        let (whole, part) = digits.split_at(digits.len() - scale);
        write!(f, "{sign}{whole}{}{part}", if scale > 0 { "." } else { "" })
    }
}

/// The decimal that a text without an exponent is, with as many digits as are written; `None` where that is none, or too long.
pub(crate) fn written_decimal(text: &str) -> Option<WrittenDecimal> {
    let (unsigned, sign) = match text.strip_prefix('-') {
        Some(unsigned) => (unsigned, -1),
        None => (text, 1),
    };
    let (whole, part) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let whole = whole.trim_start_matches('0');
    let digits = format!("{whole}{part}");
    let is_number =
        unsigned.bytes().any(|byte| byte.is_ascii_digit()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || digits.len() > DIGITS_MAX {
        return None;
    }
    let value = if digits.is_empty() { 0 } else { digits.parse::<i128>().ok()? };
    let (precision, scale) = (digits.len().max(1) as u8, part.len() as u8);
    Some(WrittenDecimal { digits: sign * value, precision, scale })
}

/// Whether a number is no BIGINT, and its double is written otherwise.
fn is_lossy(text: &str) -> bool {
    if text.parse::<u64>().is_ok() {
        return false;
    }
    let (Some(decimal), Ok(double)) = (written_decimal(text), text.parse::<f64>()) else { return false };
    let shortest = written_decimal(&double.to_string());
    shortest.is_none_or(|shortest| without_zeros(shortest) != without_zeros(decimal))
}

/// The same number without zeros at its end.
fn without_zeros(decimal: WrittenDecimal) -> (i128, u8) {
    let (mut digits, mut scale) = (decimal.digits, decimal.scale);
    while scale > 0 && digits % 10 == 0 {
        (digits, scale) = (digits / 10, scale - 1);
    }
    (digits, scale)
}

/// Whether a statement may have such a number.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    let is_cast = |token: &TokenWithSpan| match &token.token {
        Token::DoubleColon => true,
        Token::Word(word) => matches!(word.keyword, Keyword::CAST | Keyword::TRY_CAST | Keyword::SAFE_CAST),
        _ => false,
    };
    let mut has_double = false;
    for token in tokens {
        if let Token::Number(text, _) = &token.token
            && is_double(text)
        {
            if is_lossy(text) {
                return true;
            }
            has_double = true;
        }
    }
    has_double && tokens.iter().any(is_cast)
}

/// Whether DataFusion makes a double of it.
fn is_double(text: &str) -> bool {
    text.parse::<u64>().is_err()
}

/// Gives numbers their digits.
pub(crate) fn write_out(query: &mut Query) -> Result<()> {
    rewrite(query, concerns, &mut |expr| {
        change(expr);
        Ok(())
    })
}

fn concerns(expr: &Expr) -> bool {
    match expr {
        Expr::Cast { expr, data_type, .. } => is_decimal(data_type) && digits_of(expr).is_some(),
        _ => compared(expr).into_iter().any(|operand| lossy_of(operand).is_some()),
    }
}

fn change(expr: &mut Expr) {
    if let Expr::Cast { expr, data_type, .. } = expr {
        if let Some(decimal) = digits_of(expr).filter(|_| is_decimal(data_type)) {
            **expr = text_of(decimal);
        }
        return;
    }
    for operand in compared_mut(expr) {
        if let Some(decimal) = lossy_of(operand) {
            let info = ExactNumberInfo::PrecisionAndScale(decimal.precision.into(), decimal.scale.into());
            *operand = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(text_of(decimal)),
                data_type: DataType::Decimal(info),
                array: false,
                format: None,
            };
        }
    }
}

fn text_of(decimal: WrittenDecimal) -> Expr {
    Expr::Value(Value::SingleQuotedString(decimal.to_string()).into())
}

fn is_decimal(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal(_) | DataType::Numeric(_) | DataType::Dec(_))
}

/// What is written of a number that would be a double.
fn digits_of(expr: &Expr) -> Option<WrittenDecimal> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) if is_double(text) => written_decimal(text),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            digits_of(expr).map(|decimal| WrittenDecimal { digits: -decimal.digits, ..decimal })
        }
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } | Expr::Nested(expr) => digits_of(expr),
        _ => None,
    }
}

/// The same of one whose double is written otherwise.
fn lossy_of(expr: &Expr) -> Option<WrittenDecimal> {
    digits_of(expr).filter(|decimal| is_lossy(decimal.to_string().trim_start_matches('-')))
}

/// What an expression compares with one another.
fn compared_mut(expr: &mut Expr) -> Vec<&mut Expr> {
    match expr {
        Expr::BinaryOp { left, op, right } if compares(op) => vec![left, right],
        Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => vec![left, right],
        Expr::Between { expr, low, high, .. } => vec![expr, low, high],
        Expr::InList { expr, list, .. } => std::iter::once(&mut **expr).chain(list).collect(),
        Expr::Case { operand: Some(operand), conditions, .. } => {
            std::iter::once(&mut **operand).chain(conditions.iter_mut().map(|when| &mut when.condition)).collect()
        }
        _ => Vec::new(),
    }
}

/// The same, to be looked at.
fn compared(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::BinaryOp { left, op, right } if compares(op) => vec![left, right],
        Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => vec![left, right],
        Expr::Between { expr, low, high, .. } => vec![expr, low, high],
        Expr::InList { expr, list, .. } => std::iter::once(&**expr).chain(list).collect(),
        Expr::Case { operand: Some(operand), conditions, .. } => {
            std::iter::once(&**operand).chain(conditions.iter().map(|when| &when.condition)).collect()
        }
        _ => Vec::new(),
    }
}

fn compares(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq, Spaceship};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | Spaceship)
}

#[cfg(test)]
mod tests {
    use super::{is_lossy, written_decimal};
    use crate::dialect::{Kind, parse};

    fn told(sql: &str) -> String {
        match parse(sql).unwrap().remove(0).kind {
            Kind::Query(query) => query.to_string(),
            _ => panic!("a query"),
        }
    }

    #[test]
    fn digits_are_read_as_they_are_written() {
        for (text, wanted) in [
            ("12.50", Some((1250, 4, 2))),
            ("-0.05", Some((-5, 2, 2))),
            (".5", Some((5, 1, 1))),
            ("7.", Some((7, 1, 0))),
            ("000", Some((0, 1, 0))),
            ("0.00", Some((0, 2, 2))),
            ("1e3", None),
            (".", None),
            ("", None),
            ("inf", None),
            ("99999999999999999999999999999999999999", Some((10_i128.pow(38) - 1, 38, 0))),
            ("999999999999999999999999999999999999999", None),
        ] {
            let found = written_decimal(text).map(|of| (of.digits, of.precision, of.scale));
            assert_eq!(found, wanted, "{text}");
        }
        for (text, lossy) in [
            ("1.5", false),
            ("1.50", false),
            ("0.30000000000000004", false),
            ("18446744073709551615", false),
            ("18446744073709551616", true),
            ("18446744073709551617", true),
            ("12345678901234567.89", true),
            ("1e400", false),
        ] {
            assert_eq!(is_lossy(text), lossy, "{text}");
        }
    }

    #[test]
    fn casts_and_comparisons_keep_what_a_double_would_lose() {
        for (sql, wanted) in [
            ("SELECT 1.5::decimal(4, 2)", "SELECT '1.5'::DECIMAL(4,2) AS \"1.5::DECIMAL(4,2)\""),
            ("SELECT CAST(-(1.5) AS NUMERIC(4, 2)) AS x", "SELECT CAST('-1.5' AS NUMERIC(4,2)) AS x"),
            (
                "SELECT -.05::decimal(4, 2) AS x, 7.::decimal(4, 2) AS y",
                "SELECT -'0.05'::DECIMAL(4,2) AS x, '7'::DECIMAL(4,2) AS y",
            ),
            ("SELECT 99999999999999999999::dec(38, 0) AS x", "SELECT '99999999999999999999'::DEC(38,0) AS x"),
            (
                "SELECT 1 FROM t WHERE p > -12345678901234567.89",
                "SELECT 1 FROM t WHERE p > CAST('-12345678901234567.89' AS DECIMAL(19,2))",
            ),
            (
                "SELECT 1 FROM t WHERE p IN (1.5, 12345678901234567.89) AND CASE p WHEN 0.12345678901234567891 THEN true END",
                "SELECT 1 FROM t WHERE p IN (1.5, CAST('12345678901234567.89' AS DECIMAL(19,2))) AND CASE p WHEN CAST('0.12345678901234567891' AS DECIMAL(20,20)) THEN true END",
            ),
        ] {
            assert_eq!(told(sql), wanted);
        }
        for same in [
            "SELECT 1::DECIMAL(4,2)",
            "SELECT 1.5e3::DECIMAL(10,2)",
            "SELECT 1.5::DOUBLE",
            "SELECT 12345678901234567.89",
            "SELECT 1 FROM t WHERE p = 0.30000000000000004",
        ] {
            assert_eq!(told(same), same);
        }
    }
}
