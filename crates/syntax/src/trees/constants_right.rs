//! Turns comparisons around, so that the constant is on the right.
//!
//! DataFusion 55.2 keeps one of several conditions on a column, and judges them by their form: it takes `'x' = a AND a = 'x'` for a
//! contradiction, and of `a >= 5 AND 5 < a` keeps the weaker one (`simplify_predicates` in its optimizer). With all constants on
//! the right both are read as they should be.
//!
//! Mends apache/datafusion#24763 (in 55.2).
//! Held by `slt/select.slt` (`item = 'pen' AND 'pen' = item`).

use super::visit::visit_mut;
use sqlparser::ast::{BinaryOperator, Expr, Query, VisitorMut};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// Whether a statement may have a comparison whose left side is a constant: what ends with a name is none, but for a cast's type.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    use Token::{DoubleColon, DoubleEq, Eq, Gt, GtEq, Lt, LtEq, Neq, Whitespace, Word};
    let mut is_after_name = false;
    for token in tokens.iter().map(|token| &token.token).filter(|token| !matches!(token, Whitespace(_))) {
        let is_comparison = matches!(token, Eq | DoubleEq | Neq | Lt | LtEq | Gt | GtEq);
        if is_comparison && !is_after_name || *token == DoubleColon {
            return true;
        }
        is_after_name = matches!(token, Word(word) if word.quote_style.is_some() || word.keyword == Keyword::NoKeyword);
    }
    false
}

/// Turns comparisons around where only the left side is a constant.
pub(crate) fn constants_right(query: &mut Query) {
    let _ = visit_mut(query, &mut Mirror);
}

struct Mirror;

impl VisitorMut for Mirror {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut sqlparser::ast::Select) -> ControlFlow<()> {
        // Only conditions: the text of an item is its name.
        let joins = select.from.iter_mut().flat_map(|from| &mut from.joins);
        for join in joins {
            if let Some(condition) = condition_of(&mut join.join_operator) {
                let _ = visit_mut(condition, &mut Comparisons);
            }
        }
        for condition in select.selection.iter_mut().chain(&mut select.having) {
            let _ = visit_mut(condition, &mut Comparisons);
        }
        ControlFlow::Continue(())
    }
}

fn condition_of(join: &mut sqlparser::ast::JoinOperator) -> Option<&mut Expr> {
    use sqlparser::ast::{JoinConstraint, JoinOperator};
    match join {
        JoinOperator::Join(JoinConstraint::On(condition))
        | JoinOperator::Inner(JoinConstraint::On(condition))
        | JoinOperator::Left(JoinConstraint::On(condition))
        | JoinOperator::LeftOuter(JoinConstraint::On(condition))
        | JoinOperator::Right(JoinConstraint::On(condition))
        | JoinOperator::RightOuter(JoinConstraint::On(condition))
        | JoinOperator::FullOuter(JoinConstraint::On(condition)) => Some(condition),
        _ => None,
    }
}

struct Comparisons;

impl VisitorMut for Comparisons {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::BinaryOp { left, op, right } = expr
            && is_constant(left)
            && !is_constant(right)
        {
            let mirrored = match op {
                BinaryOperator::Eq | BinaryOperator::NotEq => op.clone(),
                BinaryOperator::Lt => BinaryOperator::Gt,
                BinaryOperator::LtEq => BinaryOperator::GtEq,
                BinaryOperator::Gt => BinaryOperator::Lt,
                BinaryOperator::GtEq => BinaryOperator::LtEq,
                _ => return ControlFlow::Continue(()),
            };
            std::mem::swap(left, right);
            *op = mirrored;
        }
        ControlFlow::Continue(())
    }
}

fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Value(_) | Expr::TypedString(_) | Expr::Interval(_) => true,
        Expr::UnaryOp { expr, .. } | Expr::Nested(expr) | Expr::Cast { expr, .. } => is_constant(expr),
        Expr::BinaryOp { left, right, .. } => is_constant(left) && is_constant(right),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::script::parse;

    #[test]
    fn constants_go_to_the_right_in_conditions_alone() {
        let mirrored = |sql: &str| {
            let Kind::Query(query) = parse(sql).unwrap().remove(0).kind else { panic!("a query") };
            query.to_string()
        };
        assert_eq!(
            mirrored("SELECT 5 < a FROM t WHERE 'x' = b AND -5 <= a"),
            "SELECT 5 < a FROM t WHERE b = 'x' AND a >= -5"
        );
        assert_eq!(mirrored("SELECT 1 FROM t JOIN u ON 1 > t.a"), "SELECT 1 FROM t JOIN u ON t.a < 1");
        assert_eq!(mirrored("SELECT 1 WHERE 1 = 1"), "SELECT 1 WHERE 1 = 1");
        assert_eq!(mirrored("SELECT 1 WHERE 'x' == a"), "SELECT 1 WHERE a = 'x'");
        for constant in [
            "5::oid",
            "5::\"int\"",
            "TRUE",
            "(5)",
            "CAST('5' AS INT)",
            "'5'::INT",
            "-(5)",
            "2 + 3",
            "DATE '2026-11-22'",
            "$1",
        ] {
            let shown = mirrored(&format!("SELECT {constant}")).replacen("SELECT ", "", 1);
            assert_eq!(mirrored(&format!("SELECT 1 WHERE {constant} = a")), format!("SELECT 1 WHERE a = {shown}"));
            let explained = parse(&format!("EXPLAIN SELECT 1 WHERE {constant} < a")).unwrap().remove(0).kind;
            let Kind::Explain { query, .. } = explained else { panic!("EXPLAIN") };
            assert_eq!(query.to_string(), format!("SELECT 1 WHERE a > {shown}"));
        }
    }
}
