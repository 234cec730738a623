//! What is known of an expression before it is planned: lists that are written, and what is asked of them.
//!
//! PostgreSQL's tools take settings apart in SQL: `(string_to_array(current_setting('search_path'), ','))[i]` for all `i` of a
//! `generate_series`. All of that is constant here, and planning has no form for some of it.

use crate::constants::{Constant, number_expr, text_expr};
use crate::rewrite::parts;
use alluvia_syntax::names::name_of;
use alluvia_syntax::statement::{literal_text, text_of};
use alluvia_syntax::visit_mut;
use alluvia_types::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::{
    self, AccessExpr, ArrayElemTypeDef, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Query,
    Select, SelectItem, SetExpr, Subscript, TableFactor, Value, VisitorMut,
};
use std::ops::ControlFlow;

/// Rows of a series that are written out.
const ROWS_MAX: i64 = 100;

fn list(elem: Vec<Expr>) -> Expr {
    Expr::Array(ast::Array { elem, named: true })
}

/// The elements of a written list.
fn elements(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::Array(array) => Some(&array.elem),
        Expr::Nested(inner) => elements(inner),
        _ => None,
    }
}

/// Whether a list, or NULL, is written.
pub(crate) fn is_written(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_written(inner),
        expr => is_null(expr) || elements(expr).is_some(),
    }
}

/// A list's elements as types that are planned.
pub(crate) fn plain_elements(of: &mut ArrayElemTypeDef) {
    let ArrayElemTypeDef::SquareBracket(element, _) = of else { return };
    let name = match element.as_ref() {
        ast::DataType::Custom(name, _) => parts(name).pop().unwrap_or_default(),
        ast::DataType::Regclass => "regclass".to_owned(),
        _ => return,
    };
    **element = match name.as_str() {
        "oid" | "xid" | "regclass" => ast::DataType::BigInt(None),
        _ => ast::DataType::Text,
    };
}

/// An argument of a call, if it is a plain expression.
pub(crate) fn argument(function: &ast::Function, at: usize) -> Option<&Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.get(at)? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

/// What a function gives of written texts and lists.
pub(crate) fn function(name: &str, function: &ast::Function) -> Result<Option<Expr>> {
    let text = |at| argument(function, at).and_then(text_of);
    let listed = || argument(function, 0).and_then(elements);
    let first = || argument(function, 1).and_then(literal_text).is_some_and(|dimension| dimension == "1");
    let or_null = |empty: bool, number: usize| if empty { Constant::Null.expr() } else { number_expr(number) };
    Ok(match name {
        "string_to_array" => match (text(0), text(1)) {
            (Some(text), Some(between)) if !between.is_empty() => {
                Some(list(text.split(between.as_str()).map(text_expr).collect()))
            }
            _ => None,
        },
        "parse_ident" => match text(0) {
            Some(text) => Some(list(identifiers(&text)?.iter().map(|part| text_expr(part)).collect())),
            None => None,
        },
        "array_upper" | "array_length" if first() => listed().map(|list| or_null(list.is_empty(), list.len())),
        "array_lower" if first() => listed().map(|list| or_null(list.is_empty(), 1)),
        _ => None,
    })
}

/// The parts of `a."B c"`.
pub(crate) fn identifiers(text: &str) -> Result<Vec<String>> {
    let wrong = || Error::new(ErrorKind::InvalidValue, format!("'{text}' is not a valid identifier"));
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let (part, after) = if let Some(quoted) = rest.strip_prefix('"') {
            let mut part = String::new();
            let mut chars = quoted.char_indices().peekable();
            let end = loop {
                match chars.next().ok_or_else(wrong)? {
                    (_, '"') if chars.peek().is_some_and(|(_, next)| *next == '"') => {
                        chars.next();
                        part.push('"');
                    }
                    (at, '"') => break at + 1,
                    (_, c) => part.push(c),
                }
            };
            (part, &quoted[end..])
        } else {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$'))).unwrap_or(rest.len());
            let (part, after) = rest.split_at(end);
            if part.is_empty() || part.starts_with(|c: char| c.is_ascii_digit()) {
                return Err(wrong());
            }
            (part.to_lowercase(), after)
        };
        parts.push(part);
        rest = after.trim_start();
        match rest.strip_prefix('.') {
            Some(after) => rest = after.trim_start(),
            None if rest.is_empty() => return Ok(parts),
            None => return Err(wrong()),
        }
    }
}

/// Replaces an expression, whose parts have been folded, by what it is known to be.
pub(crate) fn fold(expr: &mut Expr) {
    let known = match expr {
        Expr::CompoundFieldAccess { root, access_chain } => match access_chain.as_slice() {
            [AccessExpr::Subscript(Subscript::Index { index })] => element(root, index),
            _ => None,
        },
        // A part of nothing, which a pattern may say: planning knows only numbers.
        Expr::Substring { expr: of, .. } if is_null(of) => Some(Constant::Null.expr()),
        Expr::InSubquery { expr: left, subquery, negated } => rows_of(subquery).map(|list| Expr::InList {
            expr: Box::new(std::mem::replace(left, Constant::Null.expr())),
            list,
            negated: *negated,
        }),
        _ => None,
    };
    if let Some(known) = known {
        *expr = known;
    }
}

fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(value.value, Value::Null),
        Expr::Nested(inner) => is_null(inner),
        _ => false,
    }
}

/// `(ARRAY[a, b])[2]`
fn element(root: &Expr, index: &Expr) -> Option<Expr> {
    let (elements, at) = (elements(root)?, literal_text(index)?.parse::<usize>().ok()?);
    Some(at.checked_sub(1).and_then(|at| elements.get(at)).cloned().unwrap_or_else(|| Constant::Null.expr()))
}

/// The rows of `SELECT f(s[i]) FROM generate_series(1, 2) AS i, (SELECT ARRAY[...] AS s) AS s`, written out.
fn rows_of(query: &Query) -> Option<Vec<Expr>> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let plain = query.with.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
    if !plain || !is_plain(select) || select.from.is_empty() {
        return None;
    }
    let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] = select.projection.as_slice()
    else {
        return None;
    };
    let mut rows: Vec<Vec<(String, Expr)>> = vec![Vec::new()];
    for from in &select.from {
        if !from.joins.is_empty() {
            return None;
        }
        let (name, values) = values_of(&from.relation)?;
        if rows.len() * values.len() > ROWS_MAX as usize {
            return None;
        }
        let with = |row: &Vec<(String, Expr)>| {
            let (row, name) = (row.clone(), name.clone());
            let one =
                move |value: &Expr| row.iter().cloned().chain([(name.clone(), value.clone())]).collect::<Vec<_>>();
            values.iter().map(one).collect::<Vec<_>>()
        };
        rows = rows.iter().flat_map(with).collect();
    }
    let one = |row: Vec<(String, Expr)>| {
        let mut item = item.clone();
        let _ = visit_mut(&mut item, &mut Put(&row));
        item
    };
    Some(rows.into_iter().map(one).collect())
}

fn is_plain(select: &Select) -> bool {
    let no_groups = matches!(&select.group_by, GroupByExpr::Expressions(groups, _) if groups.is_empty());
    select.selection.is_none()
        && select.having.is_none()
        && select.distinct.is_none()
        && select.top.is_none()
        && no_groups
}

/// The name of a table's only column, and its values, if both are written.
fn values_of(factor: &TableFactor) -> Option<(String, Vec<Expr>)> {
    match factor {
        TableFactor::Table { name, alias: Some(alias), args: Some(args), .. } => {
            let number = |at: usize| match args.args.get(at)? {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => literal_text(expr)?.parse::<i64>().ok(),
                _ => None,
            };
            let (from, to) = (number(0)?, number(1)?);
            let is_short = to.checked_sub(from).is_some_and(|rows| rows < ROWS_MAX);
            if parts(name).last().is_none_or(|name| name != "generate_series") || args.args.len() != 2 || !is_short {
                return None;
            }
            let column = alias.columns.first().map_or(&alias.name, |column| &column.name);
            Some((name_of(column), (from..=to).map(number_expr).collect()))
        }
        TableFactor::Derived { subquery, alias: Some(_), .. } => match subquery.body.as_ref() {
            SetExpr::Select(select) if is_plain(select) && select.from.is_empty() => match select.projection.as_slice()
            {
                [SelectItem::ExprWithAlias { expr, alias }] if elements(expr).is_some() => {
                    Some((name_of(alias), vec![expr.clone()]))
                }
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// Puts values in the place of columns.
struct Put<'a>(&'a [(String, Expr)]);

impl VisitorMut for Put<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(ident) = expr
            && let Some((_, value)) = self.0.iter().find(|(name, _)| *name == name_of(ident))
        {
            *expr = value.clone();
        } else {
            fold(expr);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_syntax::Kind;
    use alluvia_syntax::script::parse;

    fn first(sql: &str) -> Expr {
        let Kind::Query(query) = parse(&format!("SELECT {sql}")).unwrap().remove(0).kind else { panic!("a query") };
        let SetExpr::Select(select) = *query.body else { panic!("a SELECT") };
        match select.projection.into_iter().next() {
            Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => expr,
            _ => panic!("an item"),
        }
    }

    #[test]
    fn what_is_asked_of_written_lists_is_known() {
        for (sql, expected) in [
            ("string_to_array('\"$user\", public', ',')", Some("ARRAY['\"$user\"', ' public']")),
            ("string_to_array(a, ',')", None),
            ("parse_ident('A.\"B \"\"c\"')", Some("ARRAY['a', 'B \"c']")),
            ("array_upper(ARRAY[1, 2], 1)", Some("2")),
            ("array_lower(ARRAY[1, 2], 1)", Some("1")),
            ("array_upper(ARRAY[], 1)", Some("NULL")),
            ("array_length(a, 1)", None),
            ("lower('A')", None),
        ] {
            let Expr::Function(called) = first(sql) else { panic!("{sql}") };
            let name = called.name.to_string();
            let known = function(&name, &called).unwrap();
            assert_eq!(known.map(|known| known.to_string()).as_deref(), expected, "{sql}");
        }
        for wrong in ["", "a.", "1a", "a b", "\"a", "a..b", "a-b"] {
            assert!(identifiers(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn elements_and_rows_of_written_lists_are_written() {
        for (sql, expected) in [
            ("(ARRAY['a', 'b'])[2]", "'b'"),
            ("(ARRAY['a', 'b'])[3]", "NULL"),
            (
                "a IN (SELECT trim(s[i]) FROM generate_series(1, 2) AS i, (SELECT ARRAY['x', 'y'] AS s) AS s)",
                "a IN (TRIM('x'), TRIM('y'))",
            ),
            ("a IN (SELECT b FROM t)", "a IN (SELECT b FROM t)"),
        ] {
            let mut expr = first(sql);
            fold(&mut expr);
            assert_eq!(expr.to_string(), expected);
        }
        let mut long = first("a IN (SELECT i FROM generate_series(1, 1000000) AS i)");
        fold(&mut long);
        assert!(matches!(long, Expr::InSubquery { .. }));
    }
}
