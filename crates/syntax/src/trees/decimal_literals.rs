//! Numbers with a point that become decimals, and so keep their digits.
//!
//! Invariants:
//! - A number within a cast to DECIMAL or to TEXT has all the digits that it is written with; a text with an exponent is such a number in a
//!   cast to DECIMAL.
//! - A number that is compared, and that is not what its double is written as, is the decimal that is written. So is one that is stored:
//!   a column by itself of what an INSERT selects.
//! - Every other number with a point is a double.
//!
//! DataFusion makes a double of a number with a point, and of a whole one that no BIGINT holds; `alluvia_plan::after_types::decimals` takes what it is written as
//! where it stands beside decimals.
//!
//! Mends apache/datafusion#7121, #12817 (in 55.2).
//! Held by `slt/meaning.slt` (`12345678901234567890.123::decimal(38,3)`).

use super::rewriting::rewrite;
use alluvia_types::Result;
use alluvia_values::decimal::{WrittenDecimal, written_decimal};
use sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, Query, SelectItem, SetExpr, UnaryOperator, Value,
};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

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
        if let Token::SingleQuotedString(text) = &token.token {
            has_double |= of_exponent(text).is_some();
        }
    }
    has_double && tokens.iter().any(is_cast)
}

/// Whether DataFusion makes a double of it.
fn is_double(text: &str) -> bool {
    text.parse::<u64>().is_err()
}

/// Gives numbers their digits.
pub fn write_out(query: &mut Query) -> Result<()> {
    rewrite(query, concerns, &mut |expr| {
        change(expr);
        Ok(())
    })
}

fn concerns(expr: &Expr) -> bool {
    match expr {
        Expr::Cast { expr, data_type, .. } => cast_digits(expr, data_type).is_some(),
        _ => compared(expr).into_iter().any(|operand| lossy_of(operand).is_some()),
    }
}

fn change(expr: &mut Expr) {
    if let Expr::Cast { expr, data_type, .. } = expr {
        if let Some(decimal) = cast_digits(expr, data_type) {
            **expr = text_of(decimal);
        }
        return;
    }
    for operand in compared_mut(expr) {
        if let Some(decimal) = lossy_of(operand) {
            *operand = cast_of(decimal);
        }
    }
}

fn cast_of(decimal: WrittenDecimal) -> Expr {
    let info = ExactNumberInfo::PrecisionAndScale(decimal.precision.into(), decimal.scale.into());
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(text_of(decimal)),
        data_type: DataType::Decimal(info),
        array: false,
        format: None,
    }
}

/// The decimal that a number of these digits is.
pub fn exact(text: &str) -> Option<Expr> {
    written_decimal(text).map(cast_of)
}

fn text_of(decimal: WrittenDecimal) -> Expr {
    Expr::Value(Value::SingleQuotedString(decimal.to_string()).into())
}

fn is_decimal(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal(_) | DataType::Numeric(_) | DataType::Dec(_))
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Text | DataType::Varchar(_) | DataType::CharacterVarying(_))
}

/// What is written of a number that is cast to DECIMAL or to TEXT, or of a text with an exponent that is cast to DECIMAL.
fn cast_digits(expr: &Expr, data_type: &DataType) -> Option<WrittenDecimal> {
    match expr {
        Expr::Nested(inner) => cast_digits(inner, data_type),
        Expr::Value(value) if is_decimal(data_type) => match &value.value {
            Value::SingleQuotedString(text) => of_exponent(text),
            _ => digits_of(expr),
        },
        _ if is_decimal(data_type) || is_text(data_type) => digits_of(expr),
        _ => None,
    }
}

/// The decimal that a text with an exponent is.
fn of_exponent(text: &str) -> Option<WrittenDecimal> {
    let (mantissa, exponent) = text.trim().split_once(['e', 'E'])?;
    let exponent: i32 = exponent.parse().ok().filter(|exponent: &i32| exponent.unsigned_abs() <= 76)?;
    let mantissa = written_decimal(mantissa.strip_prefix('+').unwrap_or(mantissa))?;
    let scale = i32::from(mantissa.scale) - exponent;
    let zeros = 10_i128.checked_pow(u32::try_from(-scale).unwrap_or(0))?;
    let (digits, scale) = (mantissa.digits.checked_mul(zeros)?, u8::try_from(scale.max(0)).ok()?);
    written_decimal(&WrittenDecimal { digits, scale, ..mantissa }.to_string())
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

/// Gives numbers their digits that are columns of an INSERT's query by themselves, where `keeps` is true of the column's place. In a union
/// only where all of its queries have numbers there: beside decimals, doubles are no doubles any more.
pub fn keep_columns(query: &mut Query, keeps: &dyn Fn(usize) -> bool) {
    let mut rows: Vec<Vec<&mut Expr>> = Vec::new();
    if !columns_of(&mut query.body, &mut rows) {
        return;
    }
    let width = rows.first().map_or(0, Vec::len);
    if rows.iter().any(|row| row.len() != width) {
        return;
    }
    for place in (0..width).filter(|place| keeps(*place)) {
        if !rows.iter().all(|row| is_number(row[place])) {
            continue;
        }
        for row in &mut rows {
            if let Some(decimal) = digits_of(row[place]) {
                *row[place] = cast_of(decimal);
            }
        }
    }
}

/// The columns of each row or query that a query is put together of; `false` where only planning can tell them.
fn columns_of<'a>(set: &'a mut SetExpr, rows: &mut Vec<Vec<&'a mut Expr>>) -> bool {
    match set {
        SetExpr::Select(select) => {
            let count = select.projection.len();
            let exprs = select.projection.iter_mut().filter_map(|item| match item {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
                _ => None,
            });
            let exprs: Vec<&'a mut Expr> = exprs.collect();
            let are_all = exprs.len() == count;
            rows.push(exprs);
            are_all
        }
        SetExpr::Query(query) => columns_of(&mut query.body, rows),
        SetExpr::SetOperation { left, right, .. } => columns_of(left, rows) && columns_of(right, rows),
        SetExpr::Values(values) => {
            rows.extend(values.rows.iter_mut().map(|row| row.content.iter_mut().collect::<Vec<&'a mut Expr>>()));
            true
        }
        _ => false,
    }
}

/// Whether it is a number, or NULL.
pub fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(value.value, Value::Number(..) | Value::Null),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } | Expr::Nested(expr) => is_number(expr),
        // Which [`exact`] has made.
        Expr::Cast { data_type, .. } => is_decimal(data_type),
        _ => false,
    }
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
    use crate::Kind;
    use crate::script::parse;
    use crate::trees::decimal_literals::{is_lossy, keep_columns};
    use alluvia_values::decimal::written_decimal;

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
    fn columns_keep_what_is_written() {
        let kept = |sql: &str| match parse(sql).unwrap().remove(0).kind {
            Kind::Query(mut query) => {
                keep_columns(&mut query, &|place| place == 1);
                query.to_string()
            }
            _ => panic!("a query"),
        };
        for (sql, wanted) in [
            ("SELECT 1.5, -1.115, a FROM t", "SELECT 1.5, CAST('-1.115' AS DECIMAL(4,3)), a FROM t"),
            (
                "SELECT 'a', 1.50 AS b UNION ALL (SELECT 'b', NULL) UNION SELECT 'c', 7",
                "SELECT 'a', CAST('1.50' AS DECIMAL(3,2)) AS b UNION ALL (SELECT 'b', NULL) UNION SELECT 'c', 7",
            ),
            ("VALUES (1, 2.5), (2, 3)", "VALUES (1, CAST('2.5' AS DECIMAL(2,1))), (2, 3)"),
        ] {
            assert_eq!(kept(sql), wanted);
        }
        for same in [
            "SELECT 1, 1.5e3",
            "SELECT *, 1.5 FROM t",
            "SELECT 1, 1.5 UNION ALL SELECT 2, x FROM t",
            "SELECT 1, 1.5 + 1",
        ] {
            assert_eq!(kept(same), same);
        }
    }

    #[test]
    fn casts_and_comparisons_keep_what_a_double_would_lose() {
        for (sql, wanted) in [
            ("SELECT 1.5::decimal(4, 2)", "SELECT '1.5'::DECIMAL(4,2) AS \"1.5::DECIMAL(4,2)\""),
            (
                "SELECT 1.50::text, '-1.25e3'::numeric(9, 1) AS x",
                "SELECT '1.50'::TEXT AS \"1.50::TEXT\", '-1250'::NUMERIC(9,1) AS x",
            ),
            (
                "SELECT '25e-1'::numeric(9, 1) AS x, '1e3'::text AS y",
                "SELECT '2.5'::NUMERIC(9,1) AS x, '1e3'::TEXT AS y",
            ),
            (
                "SELECT ('1e3')::numeric(9, 1) AS x, 1.50::varchar AS y, (1.50)::varchar(5) AS z",
                "SELECT '1000'::NUMERIC(9,1) AS x, '1.50'::VARCHAR AS y, left('1.50'::TEXT, 5) AS z",
            ),
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
