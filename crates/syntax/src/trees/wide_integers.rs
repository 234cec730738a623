//! Whole numbers that BIGINT does not hold: 9223372036854775808 to 18446744073709551615.
//!
//! Invariants:
//! - Such a number is a decimal, as in PostgreSQL. DataFusion 55.2 has a type of its own for it, which clients do not know.
//! - -9223372036854775808 is a BIGINT: sign and digits are read together.

use super::visit::{visit, visit_mut};
use crate::trees::decimal_literals::exact;
use alluvia_types::Result;
use sqlparser::ast::{Expr, Ident, Query, Select, SelectItem, UnaryOperator, Value, Visitor, VisitorMut};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// The digits of the least BIGINT.
const LEAST: &str = "9223372036854775808";

/// Whether a statement of these tokens has such a number.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| matches!(&token.token, Token::Number(text, _) if is_wide(text)))
}

fn is_wide(text: &str) -> bool {
    text.len() >= LEAST.len() && text.parse::<i64>().is_err() && text.parse::<u64>().is_ok()
}

/// Makes decimals of them.
pub fn write_out(query: &mut Query) -> Result<()> {
    let _ = visit_mut(query, &mut Wide::default());
    Ok(())
}

/// The number that an expression is, if it is such a one.
fn wide_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) if is_wide(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Whether an expression is the least BIGINT.
fn is_least(expr: &Expr) -> bool {
    match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => wide_of(expr) == Some(LEAST),
        _ => false,
    }
}

/// What has come is told by [`Wide::is_one`] of each expression in turn, those around before those within.
#[derive(Default)]
struct Wide {
    /// Whether the expression that comes next is the digits of the least BIGINT.
    is_spared: bool,
}

impl Wide {
    fn is_one(&mut self, expr: &Expr) -> bool {
        let is_spared = std::mem::replace(&mut self.is_spared, is_least(expr));
        !is_spared && wide_of(expr).is_some()
    }
}

impl Visitor for Wide {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if self.is_one(expr) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl VisitorMut for Wide {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        // A column is called after its text.
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && visit(expr, &mut Wide::default()).is_break()
            {
                let alias = Ident::with_quote('"', expr.to_string());
                let expr = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.is_one(expr)
            && let Some(decimal) = wide_of(expr).and_then(exact)
        {
            *expr = decimal;
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use crate::parameters::query_of;
    use crate::script::parse;

    #[test]
    fn numbers_past_bigint_are_decimals() {
        let written = |sql: &str| query_of(&mut parse(sql).unwrap().remove(0).kind).unwrap().to_string();
        for (sql, wanted) in [
            (
                "SELECT 9223372036854775808",
                "SELECT CAST('9223372036854775808' AS DECIMAL(19,0)) AS \"9223372036854775808\"",
            ),
            ("SELECT -9223372036854775809 AS a", "SELECT -CAST('9223372036854775809' AS DECIMAL(19,0)) AS a"),
            (
                "SELECT 1 FROM t WHERE a < 18446744073709551615",
                "SELECT 1 FROM t WHERE a < CAST('18446744073709551615' AS DECIMAL(20,0))",
            ),
        ] {
            assert_eq!(written(sql), wanted);
        }
        for same in ["SELECT -9223372036854775808", "SELECT 9223372036854775807", "SELECT 18446744073709551616"] {
            assert_eq!(written(same), same);
        }
    }
}
