//! VALUES with subqueries, and such as cast to types that their fields tell.
//!
//! Invariants:
//! - Rows that have a subquery are SELECTs, and those between them VALUES, put together by UNION ALL: `VALUES ((SELECT max(a) FROM t) + 1)` is
//!   `SELECT (SELECT max(a) FROM t) + 1 AS column1`. Columns are called as those of VALUES are.
//! - VALUES that are all of an INSERT's query are left alone: what is computed there is asked for by itself (`session::computed`).
//!
//! - A literal in a column that another row casts to UUID, JSON, JSONB, NUMERIC or CHAR(n) is cast as that one.
//!
//! DataFusion 55.2 computes VALUES while it plans, when no subquery has run.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: VALUES, scalar subquery, not supported).
//! Held by `slt/insert_values.slt` (`VALUES ((SELECT max(id) FROM sq) + 1)`).

use super::visit::{visit, visit_mut};
use crate::grammar::Grammar;
use crate::statements::parse::syntax;
use crate::statements::planned_types::planned_type;
use crate::tokens::depth;
use alluvia_types::{Error, Result};
use arrow::datatypes::FieldRef;
use sqlparser::ast::{
    CastKind, DataType, Expr, Ident, Parens, Query, SelectItem, SetExpr, SetOperator, SetQuantifier, Value, Values,
    Visitor, VisitorMut,
};
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// The `VALUES` that a query is, if it is nothing else.
pub fn values_of(source: &Query) -> Option<&Values> {
    let plain = source.with.is_none() && source.order_by.is_none() && source.limit_clause.is_none();
    match source.body.as_ref() {
        SetExpr::Values(values) if plain && !values.explicit_row && !values.value_keyword => Some(values),
        _ => None,
    }
}

/// The query whose one row is these expressions.
pub fn query_of_row(exprs: Vec<Expr>) -> Result<Box<Query>> {
    let grammar = Grammar::for_tokens(0);
    let template = Parser::new(&grammar)
        .with_recursion_limit(depth::DEPTH_MAX)
        .try_with_sql("SELECT 1")
        .and_then(|mut parser| parser.parse_query())
        .map_err(syntax)?;
    let mut query = template;
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(Error::internal("SELECT 1 is not a SELECT"));
    };
    let named = exprs.into_iter().enumerate();
    select.projection = named
        .map(|(at, expr)| SelectItem::ExprWithAlias { expr, alias: Ident::new(format!("column{}", at + 1)) })
        .collect();
    Ok(query)
}

/// Whether a statement of these tokens may have such rows.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    let has = |keyword: Keyword| {
        tokens.iter().any(|token| matches!(&token.token, Token::Word(word) if word.keyword == keyword))
    };
    let casts = || {
        let is_cast = |token: &Token| match token {
            Token::DoubleColon => true,
            Token::Word(word) => matches!(word.keyword, Keyword::CAST | Keyword::UUID | Keyword::JSON | Keyword::JSONB),
            _ => false,
        };
        tokens.iter().any(|token| is_cast(&token.token))
    };
    has(Keyword::VALUES) && (has(Keyword::SELECT) || casts())
}

/// Makes SELECTs of them. The query may be the one of an INSERT.
pub fn write_out(query: &mut Query, is_inserted: bool) -> Result<()> {
    let is_spared = is_inserted && values_of(query).is_some();
    match visit_mut(query, &mut Rows { depth: 0, is_spared }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Rows {
    /// Queries around.
    depth: usize,
    /// Whether the outermost is left alone.
    is_spared: bool,
}

impl VisitorMut for Rows {
    type Break = Error;

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Error> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.depth -= 1;
        if self.depth == 0 && self.is_spared {
            return ControlFlow::Continue(());
        }
        match selects(&mut query.body) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// Casts literals as the first cast of their column, where that is to a type that has a field of its own: DataFusion takes no row of which
/// nothing is said of its type beside one of which there is.
fn typed(values: &mut Values) {
    let is_told = |of: &DataType| {
        let is_told = |field: FieldRef| !field.metadata().is_empty();
        planned_type(of).is_ok_and(|field| field.is_some_and(is_told))
    };
    let columns = values.rows.first().map_or(0, |row| row.content.len());
    for at in 0..columns {
        let cast = values.rows.iter().find_map(|row| match row.content.get(at) {
            Some(Expr::Cast { data_type, .. }) if is_told(data_type) => Some(data_type.clone()),
            Some(Expr::TypedString(text)) if is_told(&text.data_type) => Some(text.data_type.clone()),
            _ => None,
        });
        let Some(data_type) = cast else { continue };
        for expr in values.rows.iter_mut().filter_map(|row| row.content.get_mut(at)) {
            let is_literal = match &*expr {
                Expr::Value(_) => true,
                Expr::UnaryOp { expr, .. } => matches!(**expr, Expr::Value(_)),
                _ => false,
            };
            if is_literal {
                let of = Box::new(std::mem::replace(expr, Expr::Value(Value::Null.into())));
                let data_type = data_type.clone();
                *expr = Expr::Cast { kind: CastKind::Cast, expr: of, data_type, array: false, format: None };
            }
        }
    }
}

fn selects(set: &mut SetExpr) -> Result<()> {
    if let SetExpr::Values(values) = set {
        typed(values);
    }
    match set {
        SetExpr::SetOperation { left, right, .. } => {
            selects(left)?;
            selects(right)
        }
        SetExpr::Values(values) if has_subqueries(values) => {
            let mut branches = Vec::new();
            let mut plain = Vec::new();
            for row in std::mem::take(&mut values.rows) {
                if row.content.iter().any(has_subquery) {
                    branches.extend(plain_rows(&mut plain));
                    let query = query_of_row(row.content)?;
                    branches.push(*query.body);
                } else {
                    plain.push(row);
                }
            }
            branches.extend(plain_rows(&mut plain));
            *set = union_of(branches).ok_or_else(|| Error::internal("VALUES without rows"))?;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Rows without a subquery, if there are any.
fn plain_rows(rows: &mut Vec<Parens<Vec<Expr>>>) -> Option<SetExpr> {
    let rows = std::mem::take(rows);
    (!rows.is_empty()).then_some(SetExpr::Values(Values { explicit_row: false, value_keyword: false, rows }))
}

/// Whether any row has a subquery, and all are of one length: what is wrong otherwise is said of VALUES.
fn has_subqueries(values: &Values) -> bool {
    let width = values.rows.first().map_or(0, |row| row.content.len());
    width > 0
        && values.rows.iter().all(|row| row.content.len() == width)
        && values.rows.iter().any(|row| row.content.iter().any(has_subquery))
}

/// Whether there is a query within an expression.
fn has_subquery(expr: &Expr) -> bool {
    visit(expr, &mut Within).is_break()
}

struct Within;

impl Visitor for Within {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

/// All branches in their order, in a tree that is not deep.
fn union_of(mut branches: Vec<SetExpr>) -> Option<SetExpr> {
    if branches.len() < 2 {
        return branches.pop();
    }
    let right = branches.split_off(branches.len() / 2);
    let (left, right) = (Box::new(union_of(branches)?), Box::new(union_of(right)?));
    Some(SetExpr::SetOperation { left, op: SetOperator::Union, set_quantifier: SetQuantifier::All, right })
}

#[cfg(test)]
mod tests {
    use crate::parameters::query_of;
    use crate::script::parse;

    fn written(sql: &str) -> String {
        query_of(&mut parse(sql).unwrap().remove(0).kind).unwrap().to_string()
    }

    #[test]
    fn rows_with_subqueries_are_selects() {
        for (sql, wanted) in [
            ("VALUES ((SELECT 1) + 1, 'a')", "SELECT (SELECT 1) + 1 AS column1, 'a' AS column2"),
            (
                "VALUES (1), (2), ((SELECT 3)), (4)",
                "VALUES (1), (2) UNION ALL SELECT (SELECT 3) AS column1 UNION ALL VALUES (4)",
            ),
            ("SELECT * FROM (VALUES ((SELECT 1))) AS t (a)", "SELECT * FROM (SELECT (SELECT 1) AS column1) AS t (a)"),
            ("SELECT (SELECT 1) UNION VALUES ((SELECT 2))", "SELECT (SELECT 1) UNION SELECT (SELECT 2) AS column1"),
        ] {
            assert_eq!(written(sql), wanted);
        }
        for same in [
            "VALUES (1), (2)",
            "SELECT * FROM (VALUES (1)) AS t (a) WHERE a IN (SELECT 1)",
            "VALUES ((SELECT 1), 2), (3)",
        ] {
            assert_eq!(written(same), same);
        }
        assert_eq!(written("INSERT INTO t VALUES ((SELECT 1), 2)"), "VALUES ((SELECT 1), 2)");
    }
}
