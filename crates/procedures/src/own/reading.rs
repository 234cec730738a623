//! Which expressions of statements are evaluated here: a closed list, read from their trees.

use super::values::decimal;
use super::{Arithmetic, Comparison, DEPTH_MAX, Own, Test};
use datafusion_common::ScalarValue;
use sqlparser::ast::{BinaryOperator, Expr, Query, SelectItem, SetExpr, UnaryOperator, Value};

impl Own {
    /// The one expression of `SELECT expression`, if it is of the closed list.
    pub fn of_query(query: &Query) -> Option<Own> {
        let Query { with: None, body, order_by: None, limit_clause: None, fetch: None, locks, .. } = query else {
            return None;
        };
        let SetExpr::Select(select) = body.as_ref() else { return None };
        let is_plain = locks.is_empty()
            && select.from.is_empty()
            && select.distinct.is_none()
            && select.selection.is_none()
            && select.having.is_none()
            && select.qualify.is_none()
            && select.named_window.is_empty()
            && select.lateral_views.is_empty()
            && matches!(&select.group_by, sqlparser::ast::GroupByExpr::Expressions(by, modifiers)
                if by.is_empty() && modifiers.is_empty());
        match select.projection.as_slice() {
            [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] if is_plain => of(expr, DEPTH_MAX),
            _ => None,
        }
    }
}

fn of(expr: &Expr, depth: usize) -> Option<Own> {
    let depth = depth.checked_sub(1)?;
    let part = |expr: &Expr| of(expr, depth).map(Box::new);
    let is = |test, positive, expr: &Expr| Some(Own::Is(test, positive, part(expr)?));
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, false) => number(digits).map(Own::Constant),
            Value::SingleQuotedString(text) => Some(Own::Constant(ScalarValue::Utf8(Some(text.clone())))),
            Value::Boolean(value) => Some(Own::Constant(ScalarValue::Boolean(Some(*value)))),
            Value::Null => Some(Own::Constant(ScalarValue::Null)),
            Value::Placeholder(name) => {
                let number: usize = name.strip_prefix('$')?.parse().ok()?;
                Some(Own::Source(number.checked_sub(1)?))
            }
            _ => None,
        },
        Expr::Nested(inner) => of(inner, depth),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => Some(Own::Not(part(expr)?)),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => Some(Own::Minus(part(expr)?)),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => of(expr, depth),
        Expr::IsNull(expr) => is(Test::Null, true, expr),
        Expr::IsNotNull(expr) => is(Test::Null, false, expr),
        Expr::IsTrue(expr) => is(Test::True, true, expr),
        Expr::IsNotTrue(expr) => is(Test::True, false, expr),
        Expr::IsFalse(expr) => is(Test::False, true, expr),
        Expr::IsNotFalse(expr) => is(Test::False, false, expr),
        Expr::InList { expr, list, negated } => {
            let list = list.iter().map(|one| of(one, depth)).collect::<Option<Vec<Own>>>()?;
            Some(Own::In(part(expr)?, list, *negated))
        }
        Expr::BinaryOp { left, op, right } => {
            let (left, right) = (part(left)?, part(right)?);
            let arithmetic = |op, left, right| Some(Own::Arithmetic(op, left, right));
            let compare = |op, left, right| Some(Own::Compare(op, left, right));
            match op {
                BinaryOperator::Plus => arithmetic(Arithmetic::Plus, left, right),
                BinaryOperator::Minus => arithmetic(Arithmetic::Minus, left, right),
                BinaryOperator::Multiply => arithmetic(Arithmetic::Times, left, right),
                BinaryOperator::Divide => arithmetic(Arithmetic::Divide, left, right),
                BinaryOperator::Modulo => arithmetic(Arithmetic::Modulo, left, right),
                BinaryOperator::Eq => compare(Comparison::Equal, left, right),
                BinaryOperator::NotEq => compare(Comparison::NotEqual, left, right),
                BinaryOperator::Lt => compare(Comparison::Less, left, right),
                BinaryOperator::LtEq => compare(Comparison::LessOrEqual, left, right),
                BinaryOperator::Gt => compare(Comparison::Greater, left, right),
                BinaryOperator::GtEq => compare(Comparison::GreaterOrEqual, left, right),
                BinaryOperator::And => Some(Own::And(left, right)),
                BinaryOperator::Or => Some(Own::Or(left, right)),
                BinaryOperator::StringConcat => Some(Own::Join(left, right)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// A number as it is written: a whole one, or a decimal.
fn number(digits: &str) -> Option<ScalarValue> {
    match digits.split_once('.') {
        None => integer(digits),
        Some((whole, fraction)) => {
            let is_plain = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            if !is_plain(whole) || !is_plain(fraction) {
                return None;
            }
            let unscaled = format!("{whole}{fraction}").parse().ok()?;
            decimal(unscaled, u32::try_from(fraction.len()).ok()?)
        }
    }
}

/// A whole number as it is written: of 4 bytes if it fits, else of 8.
fn integer(digits: &str) -> Option<ScalarValue> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: i64 = digits.parse().ok()?;
    Some(match i32::try_from(number) {
        Ok(number) => ScalarValue::Int32(Some(number)),
        Err(_) => ScalarValue::Int64(Some(number)),
    })
}
