//! Positions of the select list within ROLLUP, CUBE and GROUPING SETS.
//!
//! Invariant: a whole number there means the item of that number, as it does in a plain GROUP BY. DataFusion takes it for a constant.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: ROLLUP, CUBE, GROUPING SETS, ordinal
//! position).
//! Held by `slt/meaning.slt` (`GROUP BY ROLLUP (1)`).

use super::group_lists::flatten_sets;
use super::visit::visit_mut;
use alluvia_types::{Error, ErrorKind, Result};
use sqlparser::ast::{Expr, GroupByExpr, Query, Select, SelectItem, Value, VisitorMut};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// Whether a statement may have sets of groups.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    let is_set = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => matches!(word.keyword, Keyword::ROLLUP | Keyword::CUBE | Keyword::GROUPING),
        _ => false,
    };
    tokens.iter().any(is_set)
}

/// Puts items in the place of their numbers.
pub fn write_out(query: &mut Query) -> Result<()> {
    match visit_mut(query, &mut Positions) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Positions;

impl VisitorMut for Positions {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        let Select { projection, group_by: GroupByExpr::Expressions(groups, _), .. } = select else {
            return ControlFlow::Continue(());
        };
        flatten_sets(groups);
        for set in groups.iter_mut().filter_map(sets_of).flatten().flatten() {
            if let Err(error) = resolve(set, projection) {
                return ControlFlow::Break(error);
            }
        }
        ControlFlow::Continue(())
    }
}

fn sets_of(group: &mut Expr) -> Option<&mut Vec<Vec<Expr>>> {
    match group {
        Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => Some(sets),
        _ => None,
    }
}

fn resolve(key: &mut Expr, items: &[SelectItem]) -> Result<()> {
    let Expr::Value(value) = key else { return Ok(()) };
    let Value::Number(text, _) = &value.value else { return Ok(()) };
    let Ok(position) = text.parse::<usize>() else { return Ok(()) };
    // Where there is a wildcard, only planning knows how many columns it is.
    if items.iter().any(|item| !matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })) {
        return Ok(());
    }
    match position.checked_sub(1).and_then(|at| items.get(at)) {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => {
            *key = expr.clone();
            Ok(())
        }
        _ => {
            let message = format!("GROUP BY position {position} is not in the select list");
            Err(Error::new(ErrorKind::UndefinedColumn, message)
                .with_hint(format!("the select list has {} items", items.len())))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::script::parse;

    #[test]
    fn positions_in_sets_of_groups_are_items() {
        for (sql, wanted) in [
            (
                "SELECT a, b + 1 AS c FROM t GROUP BY ROLLUP (1, 2)",
                "SELECT a, b + 1 AS c FROM t GROUP BY ROLLUP (a, b + 1)",
            ),
            ("SELECT a, b FROM t GROUP BY CUBE (2, a)", "SELECT a, b FROM t GROUP BY CUBE (b, a)"),
            (
                "SELECT a, b FROM t GROUP BY GROUPING SETS ((1), (2), (1, 2), ())",
                "SELECT a, b FROM t GROUP BY GROUPING SETS ((a), (b), (a, b), ())",
            ),
            (
                "SELECT a, b FROM t GROUP BY GROUPING SETS (ROLLUP (a, 2), CUBE ((a, b)), a)",
                "SELECT a, b FROM t GROUP BY GROUPING SETS ((a, b), (a), (), (a, b), (), (a))",
            ),
            ("SELECT *, a FROM t GROUP BY ROLLUP (1)", "SELECT *, a FROM t GROUP BY ROLLUP (1)"),
        ] {
            let Kind::Query(query) = parse(sql).unwrap().remove(0).kind else { panic!("a query") };
            assert_eq!(query.to_string(), wanted);
        }
        for sql in ["SELECT a FROM t GROUP BY ROLLUP (2)", "SELECT a FROM t GROUP BY ROLLUP (0)"] {
            let Kind::Refused(error) = parse(sql).unwrap().remove(0).kind else { panic!("refused") };
            assert!(error.message().contains("is not in the select list"), "{error}");
        }
    }
}
