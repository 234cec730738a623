//! The arguments of a CALL, where they are constants or parameters: those need no statement.

use alluvia_syntax::statements::routines::CallProcedure;
use datafusion_common::ScalarValue;
use sqlparser::ast::{Expr, Query, SelectItem, SetExpr, UnaryOperator, Value};

/// An argument as it is written.
enum Argument {
    /// The value of `$n`.
    Parameter(usize),
    Constant(ScalarValue),
}

/// The values of a CALL's arguments in their written order; `None` where any is computed.
pub fn plain_arguments(call: &CallProcedure, parameters: &[ScalarValue]) -> Option<Vec<ScalarValue>> {
    let exprs = exprs_of(call.arguments.as_deref());
    let value = |expr: Option<&Expr>| match argument(expr?)? {
        Argument::Parameter(number) => parameters.get(number.checked_sub(1)?).cloned(),
        Argument::Constant(value) => Some(value),
    };
    exprs.into_iter().map(value).collect()
}

/// Which parameter of its statement each argument of a CALL is, of those that are one and nothing else.
pub fn parameters_of(call: &CallProcedure) -> Vec<Option<usize>> {
    let number = |expr: Option<&Expr>| match argument(expr?) {
        Some(Argument::Parameter(number)) => Some(number),
        _ => None,
    };
    exprs_of(call.arguments.as_deref()).into_iter().map(number).collect()
}

fn exprs_of(row: Option<&Query>) -> Vec<Option<&Expr>> {
    let Some(row) = row else { return Vec::new() };
    let SetExpr::Select(select) = row.body.as_ref() else { return vec![None] };
    select
        .projection
        .iter()
        .map(|item| match item {
            SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr) => Some(expr),
            _ => None,
        })
        .collect()
}

fn argument(expr: &Expr) -> Option<Argument> {
    let constant = |value: ScalarValue| Some(Argument::Constant(value));
    match expr {
        Expr::Nested(inner) => argument(inner),
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => name.strip_prefix('$')?.parse().ok().map(Argument::Parameter),
            Value::Number(digits, false) => constant(number(digits, false)?),
            Value::SingleQuotedString(text)
            | Value::DollarQuotedString(sqlparser::ast::DollarQuotedString { value: text, .. }) => {
                constant(ScalarValue::Utf8(Some(text.clone())))
            }
            Value::Boolean(truth) => constant(ScalarValue::Boolean(Some(*truth))),
            Value::Null => constant(ScalarValue::Null),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Value(value) => match &value.value {
                Value::Number(digits, false) => constant(number(digits, true)?),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// A number as PostgreSQL types it: the smallest of INT and BIGINT, or exact with its places.
fn number(digits: &str, is_negative: bool) -> Option<ScalarValue> {
    let written = if is_negative { format!("-{digits}") } else { digits.to_owned() };
    if let Ok(small) = written.parse::<i32>() {
        return Some(ScalarValue::Int32(Some(small)));
    }
    if let Ok(large) = written.parse::<i64>() {
        return Some(ScalarValue::Int64(Some(large)));
    }
    let (whole, places) = digits.split_once('.')?;
    let count = whole.len() + places.len();
    if !(1..=38).contains(&count) || !whole.bytes().chain(places.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let unscaled: i128 = format!("{whole}{places}").parse().ok()?;
    let (precision, scale) = (u8::try_from(count).ok()?, i8::try_from(places.len()).ok()?);
    Some(ScalarValue::Decimal128(Some(if is_negative { -unscaled } else { unscaled }), precision, scale))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_syntax::Kind;

    fn values(sql: &str, parameters: &[ScalarValue]) -> Option<Vec<ScalarValue>> {
        match alluvia_syntax::parse(sql).unwrap().remove(0).kind {
            Kind::CallProcedure(call) => plain_arguments(&call, parameters),
            other => panic!("{sql}: {other:?}"),
        }
    }

    #[test]
    fn constants_and_parameters_need_no_statement() {
        let given = [ScalarValue::Int64(Some(7)), ScalarValue::from("x")];
        assert_eq!(values("CALL p()", &[]), Some(vec![]));
        let expected = vec![
            ScalarValue::from("x"),
            ScalarValue::Int32(Some(-1)),
            ScalarValue::Int64(Some(3_000_000_000)),
            ScalarValue::Decimal128(Some(-150), 3, 2),
            ScalarValue::Boolean(Some(true)),
            ScalarValue::Null,
            ScalarValue::from("it's"),
            ScalarValue::Int64(Some(7)),
        ];
        let sql = "CALL p($2, -1, 3000000000, -1.50, TRUE, NULL, 'it''s', b => ($1))";
        assert_eq!(values(sql, &given), Some(expected));
        assert_eq!(values("CALL p($3)", &given), None);
        for computed in
            ["CALL p(1 + 1)", "CALL p(now())", "CALL p((SELECT 1))", "CALL p(DATE '2024-01-01')", "CALL p(1e5)"]
        {
            assert_eq!(values(computed, &given), None, "{computed}");
        }
    }
}
