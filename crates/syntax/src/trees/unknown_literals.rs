//! Quoted literals as the first result of a CASE, or as columns of the first SELECT of a UNION.
//!
//! Invariants:
//! - One that is the first result of a CASE stands beside the first result that is none, `text_beside('5', 0)`; a parameter does, too. One that the
//!   first SELECT of a UNION has as a column stands beside the other's column, if that is a number, TRUE, FALSE or a cast.
//! - What is written a second time is short, so that however they are nested a statement stays within a small multiple of its size.
//!
//! DataFusion 55.2 plans what is around a CASE or a UNION by the type of what comes first there. What the literals are,
//! `alluvia_plan::before_types::unknown_literals` says.

use super::rewriting::call;
use super::sort_keys::differs_each_time;
use super::visit::{visit, visit_mut};
use crate::parameters::is_parameter;
use crate::trees::repeated_names::expr_of;
use alluvia_types::Result;
use alluvia_values::calls::TEXT_BESIDE;
use sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, SetExpr, SetOperator, UnaryOperator, Value, Visitor, VisitorMut,
};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// How many expressions may be written a second time.
const WRITTEN_MAX: usize = 32;

/// Whether a statement of these tokens may have one.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    let may_come_first = |token: &TokenWithSpan| {
        matches!(token.token, Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) | Token::Placeholder(_))
    };
    let is_around = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => matches!(word.keyword, Keyword::CASE | Keyword::UNION),
        _ => false,
    };
    tokens.iter().any(is_around) && tokens.iter().any(may_come_first)
}

/// Says what they stand beside.
pub fn write_out(query: &mut Query) -> Result<()> {
    let _ = visit_mut(query, &mut First);
    Ok(())
}

struct First;

impl VisitorMut for First {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        in_unions(&mut query.body);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        in_case(expr);
        ControlFlow::Continue(())
    }
}

fn in_case(expr: &mut Expr) {
    let Expr::Case { conditions, else_result, .. } = expr else { return };
    let mut results: Vec<&mut Expr> = conditions.iter_mut().map(|when| &mut when.result).collect();
    results.extend(else_result.as_deref_mut());
    let first = results.iter().position(|result| !is_null(result));
    let beside = results.iter().position(|result| !is_null(result) && !is_unknown(result));
    let (Some(first), Some(beside)) = (first, beside) else { return };
    let typed = results.get(beside).filter(|result| first < beside && is_short(result));
    let typed = typed.map(|result| (**result).clone());
    if let (Some(typed), Some(text)) = (typed, results.get_mut(first)) {
        put_beside(text, typed);
    }
}

fn in_unions(set: &mut SetExpr) {
    let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } = set else { return };
    in_unions(left);
    in_unions(right);
    let (Some(first), Some(other)) = (first_of(left), first_of(right)) else { return };
    for (item, other) in first.projection.iter_mut().zip(&other.projection) {
        let (SelectItem::UnnamedExpr(column) | SelectItem::ExprWithAlias { expr: column, .. }) = item else { return };
        let Some(other) = expr_of(other) else { return };
        if is_unknown(column)
            && let Some(beside) = of_its_type(other)
        {
            put_beside(column, beside);
        }
    }
}

/// The SELECT that gives a union's columns their types.
fn first_of(set: &mut SetExpr) -> Option<&mut Select> {
    match set {
        SetExpr::Select(select) => Some(select.as_mut()),
        SetExpr::Query(query) => first_of(&mut query.body),
        _ => None,
    }
}

/// What says the type of a column without reading anything.
fn of_its_type(column: &Expr) -> Option<Expr> {
    match column {
        Expr::Nested(inner) => of_its_type(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => of_its_type(expr),
        Expr::Value(value) if matches!(value.value, Value::Number(..) | Value::Boolean(_)) => Some(column.clone()),
        Expr::Cast { kind, data_type, format: None, array, .. } => Some(Expr::Cast {
            kind: kind.clone(),
            expr: Box::new(Expr::Value(Value::Null.into())),
            data_type: data_type.clone(),
            array: *array,
            format: None,
        }),
        _ => None,
    }
}

fn put_beside(text: &mut Expr, beside: Expr) {
    let literal = std::mem::replace(text, Expr::Identifier(Ident::new("")));
    *text = call(TEXT_BESIDE, vec![literal, beside]);
}

/// Whether it has no type of its own.
fn is_unknown(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_unknown(inner),
        Expr::Value(value) => {
            matches!(value.value, Value::SingleQuotedString(_) | Value::EscapedStringLiteral(_)) || is_parameter(expr)
        }
        _ => false,
    }
}

fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_null(inner),
        Expr::Value(value) => value.value == Value::Null,
        _ => false,
    }
}

/// Whether it may be written twice.
fn is_short(expr: &Expr) -> bool {
    visit(expr, &mut Counted(0)).is_continue()
}

/// Ends at what may be there but once, and where there is much.
struct Counted(usize);

impl Visitor for Counted {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.0 += 1;
        if self.0 > WRITTEN_MAX || differs_each_time(expr) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[cfg(test)]
mod tests {
    use crate::parameters::query_of;
    use crate::script::parse;

    fn written(sql: &str) -> String {
        query_of(&mut parse(sql).unwrap().remove(0).kind).unwrap().to_string()
    }

    #[test]
    fn literals_that_come_first_stand_beside_what_is_known() {
        for (sql, wanted) in [
            (
                "SELECT sum(CASE WHEN a THEN '5' WHEN b THEN '6' ELSE 0 END) FROM t",
                "SELECT sum(CASE WHEN a THEN text_beside('5', 0) WHEN b THEN '6' ELSE 0 END) FROM t",
            ),
            (
                "SELECT CASE a WHEN 1 THEN NULL WHEN 2 THEN ('5') WHEN 3 THEN b END FROM t",
                "SELECT CASE a WHEN 1 THEN NULL WHEN 2 THEN text_beside(('5'), b) WHEN 3 THEN b END FROM t",
            ),
            (
                "SELECT '9' AS x, 'a' UNION ALL SELECT -10, b FROM t",
                "SELECT text_beside('9', 10) AS x, 'a' UNION ALL SELECT -10, b FROM t",
            ),
            (
                "SELECT '9' UNION SELECT CAST(a AS INT) FROM t",
                "SELECT text_beside('9', CAST(NULL AS INT)) UNION SELECT CAST(a AS INT) FROM t",
            ),
        ] {
            assert_eq!(written(sql), wanted);
        }
        for same in [
            "SELECT CASE WHEN a THEN 0 ELSE '5' END FROM t",
            "SELECT CASE WHEN a THEN 'x' ELSE 'y' END FROM t",
            "SELECT CASE WHEN a THEN 'x' ELSE (SELECT max(b) FROM u) END FROM t",
            "SELECT 10 UNION ALL SELECT '9'",
            "SELECT '9' INTERSECT SELECT 10",
        ] {
            assert_eq!(written(same), same);
        }
    }

    #[test]
    fn nested_cases_stay_small() {
        let depth = 20;
        let nested =
            format!("SELECT {}1{} FROM t", "CASE WHEN a THEN '5' ELSE abs(".repeat(depth), ") END".repeat(depth));
        assert!(written(&nested).len() < 100 * nested.len());
    }
}
