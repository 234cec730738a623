//! Columns of one name at the top of a query: `SELECT a, a`, `SELECT *, upper(b) AS b`.
//!
//! Invariants:
//! - Planning refuses two columns of one name, and two spellings of one expression (`trim(a), btrim(a)`). The later ones, and whatever stands beside `*`, are planned under names that nobody writes,
//!   which [`shown_name`] takes off again: what is shown has the names that were written.
//! - A name that the query itself says, in ORDER BY and its kin, must not find something else than it would: there only what is the same
//!   expression is told apart, and the rest stays an error.
//! - So is a column that has the name of a table's column which ORDER BY says with the table's name: `SELECT upper(t.a) AS a FROM t ORDER BY t.a`
//!   is sorted by what `t` has.
//! - Queries within others are left alone ([`crate::trees::repeated_names`] has those): their names are said by what is around.
//!
//! Mends apache/datafusion#6543 (in 55.2).
//! Held by the unit test `columns_of_one_name_are_told_apart_where_nobody_says_it`, and by `slt/everyday.slt`
//! (`SELECT trim(' a '), btrim(' a ')`).

use super::visit::visit;
use crate::names::name_of;
use crate::trees::repeated_names::{conditions, expr_of, name_of_item, says_alone};
use sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, Value, Visitor,
};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

/// What stands between a name and the number that tells it apart: INVISIBLE SEPARATOR.
pub const MARK: char = '\u{2063}';

/// The query with columns of unique names, if it may have some that are not.
pub fn told_apart(query: &Query) -> Option<Query> {
    let may_repeat = may_repeat(&query.body);
    if !may_repeat && query.order_by.is_none() {
        return None;
    }
    let mut told = query.clone();
    // What is around a set operation sees the columns of its first query alone.
    let around = query.order_by.as_ref();
    let mut is_told =
        may_repeat && tell_apart(&mut told.body, &|name| around.is_some_and(|order| says_alone(order, name)));
    is_told |= apart_from_keys(&mut told);
    is_told.then_some(told)
}

/// Tells columns apart from those of tables that ORDER BY says with their table's name; whether there were any.
fn apart_from_keys(query: &mut Query) -> bool {
    let Query { body, order_by: Some(order), .. } = query else { return false };
    let SetExpr::Select(select) = body.as_mut() else { return false };
    let mut of_tables = OfTables(HashSet::new());
    let _ = visit(&*order, &mut of_tables);
    if of_tables.0.is_empty() || matches!(select.distinct, Some(Distinct::On(_))) {
        return false;
    }
    let names: Vec<Option<String>> = select.projection.iter().map(name_of_column).collect();
    let is_alone = |name: &String| names.iter().flatten().filter(|other| *other == name).count() == 1;
    let are_counted = !select.projection.iter().any(is_all);
    let mut is_told = false;
    for (at, item) in select.projection.iter_mut().enumerate() {
        let SelectItem::ExprWithAlias { alias, .. } = item else { continue };
        let name = name_of(alias);
        if !of_tables.0.contains(&name) || !is_alone(&name) {
            continue;
        }
        if are_counted && let OrderByKind::Expressions(keys) = &mut order.kind {
            let is_name = |key: &Expr| matches!(key, Expr::Identifier(ident) if name_of(ident) == name);
            for key in keys.iter_mut().filter(|key| is_name(&key.expr)) {
                key.expr = Expr::Value(Value::Number((at + 1).to_string(), false).into());
            }
        }
        if !says_alone(&*order, &name) {
            *alias = Ident::with_quote('"', format!("{name}{MARK}{}", names.len() + at + 1));
            is_told = true;
        }
    }
    is_told
}

/// The names that are said with a table's.
struct OfTables(HashSet<String>);

impl Visitor for OfTables {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr {
            self.0.extend(parts.last().map(name_of));
        }
        ControlFlow::Continue(())
    }
}

/// A column's name as it was written.
pub fn shown_name(name: &str) -> &str {
    match name.rsplit_once(MARK) {
        Some((shown, number)) if number.parse::<usize>().is_ok() => shown,
        _ => name,
    }
}

fn may_repeat(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => {
            let mut names: Vec<String> = select.projection.iter().filter_map(name_of_column).collect();
            let has_all = names.len() < select.projection.len() && select.projection.iter().any(is_all);
            let (count, unnamed) = (names.len(), select.projection.iter().filter(|item| is_unnamed(item)).count());
            names.sort_unstable();
            names.dedup();
            names.len() < count || has_all && count > 0 || unnamed > 1
        }
        SetExpr::Query(query) => may_repeat(&query.body),
        SetExpr::SetOperation { left, right, .. } => may_repeat(left) || may_repeat(right),
        _ => false,
    }
}

/// Whether a column got another name.
fn tell_apart(body: &mut SetExpr, is_said: &dyn Fn(&str) -> bool) -> bool {
    match body {
        SetExpr::Select(select) => columns(select, is_said),
        SetExpr::Query(query) => {
            let Query { body, order_by, .. } = query.as_mut();
            let order = order_by.as_ref();
            tell_apart(body, &|name| is_said(name) || order.is_some_and(|order| says_alone(order, name)))
        }
        SetExpr::SetOperation { left, right, .. } => tell_apart(left, is_said) | tell_apart(right, &|_| false),
        _ => false,
    }
}

fn columns(select: &mut Select, is_said: &dyn Fn(&str) -> bool) -> bool {
    let has_all = select.projection.iter().any(is_all);
    let is_of_one = matches!(select.from.as_slice(), [only] if only.joins.is_empty() && !is_nested(&only.relation));
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut told: Vec<(usize, Ident)> = Vec::new();
    let mut is_first = true;
    for (at, item) in select.projection.iter().enumerate() {
        if is_unnamed(item) {
            if !std::mem::take(&mut is_first) {
                told.push((at, Ident::with_quote('"', format!("{item}{MARK}{}", told.len() + 1))));
            }
            continue;
        }
        let (Some(name), Some(expr)) = (name_of_column(item), expr_of(item)) else { continue };
        let first = seen.get(&name).copied();
        let is_same = match first {
            Some(first) => expr_of(&select.projection[first]) == Some(expr),
            // The column that `*` has, too.
            None => has_all && is_of_one && name_of_item(item).is_some() && matches!(item, SelectItem::UnnamedExpr(_)),
        };
        if first.is_none() && !has_all {
            seen.insert(name, at);
            continue;
        }
        if is_same || !is_said(&name) && !is_said_within(select, &name) {
            told.push((at, Ident::with_quote('"', format!("{name}{MARK}{}", told.len() + 1))));
        }
        seen.entry(name).or_insert(at);
    }
    let is_told = !told.is_empty();
    for (at, alias) in told {
        let item = &mut select.projection[at];
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let expr = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
    is_told
}

/// Whether a SELECT says the name of one of its own columns.
fn is_said_within(select: &Select, name: &str) -> bool {
    let groups = match &select.group_by {
        GroupByExpr::Expressions(groups, _) => groups.as_slice(),
        GroupByExpr::All(_) => &[],
    };
    conditions(select).chain(groups).any(|condition| says_alone(condition, name))
}

/// The name of a column that has one, also in brackets, or is the value of a query whose column has one.
fn name_of_column(item: &SelectItem) -> Option<String> {
    let value = match item {
        SelectItem::UnnamedExpr(expr) => name_of_value(expr),
        _ => None,
    };
    value.or_else(|| name_of_item(item))
}

fn name_of_value(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Subquery(query) => name_of_rows(&query.body),
        Expr::Nested(inner) => name_of_value(inner),
        Expr::Identifier(ident) => Some(name_of(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().map(name_of),
        _ => None,
    }
}

fn name_of_rows(body: &SetExpr) -> Option<String> {
    match body {
        SetExpr::Select(select) => select.projection.first().and_then(name_of_column),
        SetExpr::Query(query) => name_of_rows(&query.body),
        SetExpr::SetOperation { left, .. } => name_of_rows(left),
        _ => None,
    }
}

/// Whether it is called after its text.
fn is_unnamed(item: &SelectItem) -> bool {
    matches!(item, SelectItem::UnnamedExpr(_)) && name_of_column(item).is_none()
}

fn is_all(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

fn is_nested(factor: &TableFactor) -> bool {
    matches!(factor, TableFactor::NestedJoin { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::script::parse;

    /// The query as it is planned where its columns' names do not do; `None` if it stays as it is.
    fn told(sql: &str) -> Option<String> {
        match parse(sql).unwrap().remove(0).kind {
            Kind::Query(query) => told_apart(&query).map(|told| told.to_string().replace(MARK, "#")),
            _ => panic!("a query"),
        }
    }

    #[test]
    fn columns_of_one_name_are_told_apart_where_nobody_says_it() {
        for (sql, wanted) in [
            ("SELECT a, a FROM t", "SELECT a, a AS \"a#1\" FROM t"),
            ("SELECT a, t.A, b AS a FROM t", "SELECT a, t.A AS \"a#1\", b AS \"a#2\" FROM t"),
            ("SELECT *, upper(b) AS b FROM t", "SELECT *, upper(b) AS \"b#1\" FROM t"),
            ("SELECT a, a FROM t ORDER BY a", "SELECT a, a AS \"a#1\" FROM t ORDER BY a"),
            ("SELECT *, a FROM t ORDER BY a", "SELECT *, a AS \"a#1\" FROM t ORDER BY a"),
            ("SELECT *, upper(b) AS b FROM t ORDER BY t.b", "SELECT *, upper(b) AS \"b#1\" FROM t ORDER BY t.b"),
            ("SELECT a AS x, b AS x FROM t ORDER BY 2", "SELECT a AS x, b AS \"x#1\" FROM t ORDER BY 2"),
            (
                "SELECT t.a, (SELECT u.a FROM u WHERE u.b = t.b) FROM t",
                "SELECT t.a, (SELECT u.a FROM u WHERE u.b = t.b) AS \"a#1\" FROM t",
            ),
            ("SELECT (SELECT max(x) AS a FROM u), a FROM t", "SELECT (SELECT max(x) AS a FROM u), a AS \"a#1\" FROM t"),
            ("SELECT a, (a) FROM t", "SELECT a, (a) AS \"a#1\" FROM t"),
            ("SELECT upper(t.a) AS a FROM t ORDER BY t.a", "SELECT upper(t.a) AS \"a#2\" FROM t ORDER BY t.a"),
            (
                "SELECT b, lower(a) AS A FROM t ORDER BY length(t.a), a DESC",
                "SELECT b, lower(a) AS \"a#4\" FROM t ORDER BY length(t.a), 2 DESC",
            ),
            (
                "SELECT b, b, lower(a) AS a FROM t ORDER BY t.a",
                "SELECT b, b AS \"b#1\", lower(a) AS \"a#6\" FROM t ORDER BY t.a",
            ),
            ("SELECT *, (SELECT a FROM u) FROM t", "SELECT *, (SELECT a FROM u) AS \"a#1\" FROM t"),
            ("SELECT trim(a), a, btrim(a) FROM t", "SELECT TRIM(a), a, btrim(a) AS \"btrim(a)#1\" FROM t"),
            (
                "SELECT 1 AS i, 2 AS i UNION ALL SELECT a, a FROM t ORDER BY a",
                "SELECT 1 AS i, 2 AS \"i#1\" UNION ALL SELECT a, a AS \"a#1\" FROM t ORDER BY a",
            ),
        ] {
            assert_eq!(told(sql).as_deref(), Some(wanted), "{sql}");
        }
    }

    #[test]
    fn names_that_are_said_or_are_one_stay() {
        for sql in [
            "SELECT a, b FROM t",
            "SELECT * FROM t",
            "SELECT a AS x, b AS x FROM t ORDER BY x",
            "SELECT a AS x, b AS x FROM t GROUP BY x",
            "SELECT max(a) AS x, max(b) AS x FROM t HAVING x > 1",
            "SELECT *, upper(b) AS b FROM t ORDER BY b",
            "SELECT a, (SELECT u.a FROM u) FROM t ORDER BY a",
            "SELECT t.*, u.a FROM t JOIN u ON t.b = u.b ORDER BY a",
            "SELECT a FROM (SELECT a, a FROM t) AS s",
            "SELECT upper(a) AS a FROM t ORDER BY t.a, a || 'x'",
            "SELECT upper(a) AS a FROM t ORDER BY t.b",
        ] {
            assert_eq!(told(sql), None, "{sql}");
        }
    }

    #[test]
    fn what_was_written_is_shown() {
        let marked = format!("total{MARK}12");
        let own = format!("total{MARK}x");
        assert_eq!([shown_name("total"), shown_name(&marked), shown_name(&own)], ["total", "total", &own]);
    }
}
