//! Columns of one name, where no part of the statement says the name.
//!
//! Invariants:
//! - Of the columns of an INSERT's query, of EXISTS, of a derived table whose columns the query around names anew, and of one beside which
//!   that query names no column at all, the second and later ones of a name get it with a number that makes it new. PostgreSQL takes
//!   them; planning refuses two of one name.
//! - Where a name could be said it is left alone: saying it must stay an error, and must not find something else instead.
//!
//! Mends apache/datafusion#6543 (in 55.2).
//! Held by the unit test `columns_that_nobody_names_are_told_apart`.

use super::visit::visit;
use crate::names::name_of;
use sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr, TableFactor, Visit, Visitor,
};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Tells the columns of a query apart whose names nobody says.
pub fn tell_apart(query: &mut Query) {
    let is_ordered = query.order_by.is_some();
    body(&mut query.body, is_ordered);
}

fn body(set: &mut SetExpr, is_ordered: bool) {
    match set {
        SetExpr::Select(select) => columns(select, is_ordered),
        SetExpr::Query(query) => {
            let is_ordered = is_ordered || query.order_by.is_some();
            body(&mut query.body, is_ordered);
        }
        SetExpr::SetOperation { left, right, .. } => {
            body(left, is_ordered);
            body(right, is_ordered);
        }
        _ => {}
    }
}

/// Tells the columns of derived tables apart, if a query says none of their names.
pub(crate) fn tell_derived_apart(query: &mut Query) {
    let is_ordered = query.order_by.is_some();
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let is_alone = matches!(select.from.as_slice(), [only] if only.joins.is_empty());
    let names_none = is_alone && !is_ordered && holds_repeated(select) && names_no_column(select);
    for table in &mut select.from {
        let joined = table.joins.iter_mut().map(|join| &mut join.relation);
        for factor in std::iter::once(&mut table.relation).chain(joined) {
            if let TableFactor::Derived { subquery, alias, .. } = factor {
                let renamed = alias.as_ref().map_or(0, |alias| alias.columns.len());
                if names_none || renamed > 0 && Some(renamed) == width(&subquery.body) {
                    tell_apart(subquery);
                }
            }
        }
    }
}

/// How many columns a query gives; `None` where only planning can tell.
fn width(set: &SetExpr) -> Option<usize> {
    match set {
        SetExpr::Select(select) => {
            let are_single = select.projection.iter().all(|item| expr_of(item).is_some());
            are_single.then_some(select.projection.len())
        }
        SetExpr::Query(query) => width(&query.body),
        SetExpr::SetOperation { left, .. } => width(left),
        _ => None,
    }
}

/// Whether there is a derived table of one SELECT that repeats a name: most queries have none, and are not looked at further.
fn holds_repeated(select: &Select) -> bool {
    select.from.iter().any(|table| match &table.relation {
        TableFactor::Derived { subquery, .. } => repeats(&subquery.body),
        _ => false,
    })
}

fn repeats(set: &SetExpr) -> bool {
    match set {
        SetExpr::Select(select) => !repeated(select, false).is_empty(),
        SetExpr::Query(query) => repeats(&query.body),
        SetExpr::SetOperation { left, right, .. } => repeats(left) || repeats(right),
        _ => false,
    }
}

/// Whether nothing of a SELECT but what is in its FROM says the name of a column, or means all columns.
fn names_no_column(select: &mut Select) -> bool {
    if !select.projection.iter().all(|item| expr_of(item).is_some()) || !is_without_groups(select) {
        return false;
    }
    let from = std::mem::take(&mut select.from);
    let names_none = visit(&*select, &mut Naming).is_continue();
    select.from = from;
    names_none
}

/// Ends at the first name of a column, also in a subquery.
struct Naming;

impl Visitor for Naming {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

fn columns(select: &mut Select, is_ordered: bool) {
    for (at, name) in repeated(select, is_ordered) {
        let item = &mut select.projection[at];
        let alias = Ident::with_quote('"', name);
        *item = match std::mem::replace(item, SelectItem::UnnamedExpr(Expr::Identifier(Ident::new("")))) {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                SelectItem::ExprWithAlias { expr, alias }
            }
            other => other,
        };
    }
}

/// Where a name comes again, and what to call the column instead. If the name may be said by what surrounds the columns, only where it
/// means the same expression.
fn repeated(select: &Select, is_ordered: bool) -> Vec<(usize, String)> {
    let may_be_said = is_ordered || !is_without_groups(select);
    let names: Vec<Option<String>> = select.projection.iter().map(name_of_item).collect();
    let mut seen: HashMap<&str, (usize, usize)> = HashMap::new();
    let mut found: Vec<(usize, String)> = Vec::new();
    for (at, item) in select.projection.iter().enumerate() {
        let Some(name) = &names[at] else { continue };
        let (first, count) = seen.entry(name).or_insert((at, 0));
        *count += 1;
        let is_said = || may_be_said || conditions(select).any(|condition| says_alone(condition, name));
        if *count > 1 && (expr_of(&select.projection[*first]) == expr_of(item) || !is_said()) {
            let is_free = |other: &String| {
                names.iter().flatten().all(|name| name != other) && found.iter().all(|(_, name)| name != other)
            };
            let told = (*count..).map(|number| format!("{name} {number}")).find(is_free);
            found.extend(told.map(|told| (at, told)));
        }
    }
    found
}

/// What may say columns' names beside grouping and order.
pub fn conditions(select: &Select) -> impl Iterator<Item = &Expr> {
    let keys = match &select.distinct {
        Some(Distinct::On(keys)) => keys.as_slice(),
        _ => &[],
    };
    select.having.iter().chain(&select.qualify).chain(keys)
}

/// Whether expressions say a name without a table's, as columns of a query are called.
pub(crate) fn says_alone(node: &impl Visit, name: &str) -> bool {
    visit(node, &mut Saying(name)).is_break()
}

/// Ends where a name is said alone.
struct Saying<'a>(&'a str);

impl Visitor for Saying<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(ident) if name_of(ident) == self.0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn is_without_groups(select: &Select) -> bool {
    matches!(&select.group_by, GroupByExpr::Expressions(groups, _) if groups.is_empty())
}

pub(crate) fn expr_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// The name of a column that has one.
pub(crate) fn name_of_item(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(Expr::Identifier(ident)) => Some(name_of(ident)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(name_of),
        SelectItem::ExprWithAlias { alias, .. } => Some(name_of(alias)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::script::parse;
    use crate::statement::{Insert, InsertSource};

    fn told(sql: &str) -> String {
        match parse(sql).unwrap().remove(0).kind {
            Kind::Query(query) => query.to_string(),
            Kind::Insert(Insert { source: InsertSource::Query(query), .. }) => query.to_string(),
            _ => panic!("a query, or INSERT"),
        }
    }

    #[test]
    fn columns_that_nobody_names_are_told_apart() {
        for (sql, wanted) in [
            ("INSERT INTO t SELECT a, a, b AS A FROM u", "SELECT a, a AS \"a 2\", b AS \"a 3\" FROM u"),
            (
                "INSERT INTO t SELECT x.a, y.a FROM x, y UNION SELECT 1 AS i, 2 AS i",
                "SELECT x.a, y.a AS \"a 2\" FROM x, y UNION SELECT 1 AS i, 2 AS \"i 2\"",
            ),
            (
                "INSERT INTO t SELECT a, a, b AS \"a 2\", a FROM u",
                "SELECT a, a AS \"a 3\", b AS \"a 2\", a AS \"a 4\" FROM u",
            ),
            ("INSERT INTO t SELECT a, a FROM u ORDER BY a", "SELECT a, a AS \"a 2\" FROM u ORDER BY a"),
            ("SELECT EXISTS (SELECT a, a FROM u)", "SELECT EXISTS (SELECT a, a AS \"a 2\" FROM u)"),
            (
                "SELECT count(*) FROM (SELECT a, a FROM t) AS s",
                "SELECT count(*) FROM (SELECT a, a AS \"a 2\" FROM t) AS s",
            ),
            (
                "SELECT x FROM (SELECT a, a FROM t) AS s (x, y)",
                "SELECT x FROM (SELECT a, a AS \"a 2\" FROM t) AS s (x, y)",
            ),
        ] {
            assert_eq!(told(sql), wanted);
        }
    }

    #[test]
    fn columns_whose_names_could_be_said_are_left_alone() {
        for sql in [
            "SELECT a, a FROM t",
            "SELECT a FROM (SELECT a, a FROM t) AS s",
            "SELECT * FROM (SELECT a, a FROM t) AS s",
            "SELECT count(*) FROM (SELECT a, a FROM t) AS s WHERE a = 1",
            "SELECT count(*) FROM (SELECT a, a FROM t) AS s ORDER BY a",
            "SELECT count(*) FROM (SELECT a, a FROM t) AS s NATURAL JOIN u",
            "SELECT count(*) FROM (SELECT a, a FROM t) AS s GROUP BY 1 + a",
            "SELECT (SELECT max(a) FROM u) FROM (SELECT a, a FROM t) AS s",
            "SELECT x FROM (SELECT a, a FROM t) AS s (x)",
        ] {
            assert_eq!(told(sql), sql);
        }
        for said in [
            "SELECT a AS x, b AS x FROM u ORDER BY x",
            "SELECT max(a) AS x, max(b) AS x FROM u HAVING x > 1",
            "SELECT rank() OVER (ORDER BY a) AS x, b AS x FROM u QUALIFY x = 1",
            "SELECT DISTINCT ON (x) a AS x, b AS x FROM u",
        ] {
            assert_eq!(told(&format!("INSERT INTO t {said}")), said, "x is ambiguous");
        }
        for (unsaid, wanted) in [
            (
                "max(a) AS x, max(b) AS x FROM u HAVING count(*) > 0",
                "max(a) AS x, max(b) AS \"x 2\" FROM u HAVING count(*) > 0",
            ),
            (
                "u.a, v.a FROM u, v QUALIFY rank() OVER (ORDER BY u.a) = 1",
                "u.a, v.a AS \"a 2\" FROM u, v QUALIFY rank() OVER (ORDER BY u.a) = 1",
            ),
            ("DISTINCT ON (c) a AS x, b AS x FROM u", "DISTINCT ON (c) a AS x, b AS \"x 2\" FROM u"),
        ] {
            assert_eq!(told(&format!("INSERT INTO t SELECT {unsaid}")), format!("SELECT {wanted}"));
        }
        assert_eq!(
            told("INSERT INTO t SELECT DISTINCT ON (a) a, a FROM u"),
            "SELECT DISTINCT ON (a) a, a AS \"a 2\" FROM u"
        );
    }
}
