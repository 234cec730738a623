//! Aggregates in subqueries that are of the query around: `SELECT (SELECT sum(o.k)) FROM o` has one row.
//!
//! Invariants, as in the standard and in PostgreSQL:
//! - An aggregate whose arguments have columns of one query around alone is that query's: its rows are aggregated, and the subquery sees one
//!   value. An aggregate without columns is its own query's.
//! - The query around becomes one of a derived table that has its groups and aggregates, which the subquery then reads as it reads any
//!   column around it. A subquery that is no more than an expression is the expression.
//! - Only what can be told without knowing tables' columns is looked at: columns that are written with their table's name, and those in
//!   subqueries without FROM. Queries with sets of groups are left alone.
//!
//! For the binder: `SELECT (SELECT sum(o.k)) FROM o`, `SELECT (SELECT x FROM z WHERE z.x = max(o.k)) FROM o`.

use super::merged_columns::{select_all, tables_of};
use super::rewriting::contains;
use super::sort_keys::is_aggregate;
use super::visit::{visit, visit_mut};
use crate::names::name_of;
use alluvia_types::Result;
use sqlparser::ast::{
    Expr, GroupByExpr, Ident, LimitClause, OrderByKind, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor,
    Value, Visit, Visitor, VisitorMut,
};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// What the derived table is called: no name that people give.
const TABLE: &str = "rows around";

/// Whether a statement of these tokens may have one: it has a query within another.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    let is_select =
        |token: &&TokenWithSpan| matches!(&token.token, Token::Word(word) if word.keyword == Keyword::SELECT);
    tokens.iter().filter(is_select).nth(1).is_some()
}

/// Puts aggregates where they belong.
pub fn write_out(query: &mut Query) -> Result<()> {
    let _ = visit_mut(query, &mut Queries);
    Ok(())
}

struct Queries;

impl VisitorMut for Queries {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        of_query(query);
        ControlFlow::Continue(())
    }
}

fn of_query(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let tables: HashSet<String> = select.from.iter().flat_map(tables_of).collect();
    if tables.is_empty() {
        return;
    }
    let GroupByExpr::Expressions(keys, modifiers) = &select.group_by else { return };
    let is_set = |key: &Expr| matches!(key, Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_) | Expr::Tuple(_));
    if !modifiers.is_empty() || keys.iter().any(is_set) {
        return;
    }
    let mut found = Found { tables: &tables, scopes: Vec::new(), outer: Vec::new(), own: Vec::new() };
    let _ = visit(&select.projection, &mut found);
    let _ = visit(&select.having, &mut found);
    let _ = visit(&select.qualify, &mut found);
    let _ = visit(&query.order_by, &mut found);
    if found.outer.is_empty() {
        return;
    }
    let mut aggregates: Vec<Expr> = Vec::new();
    for aggregate in found.own.into_iter().chain(found.outer) {
        if !aggregates.contains(&aggregate) {
            aggregates.push(aggregate);
        }
    }
    let keys: Vec<Expr> = keys.iter().map(|key| key_of(key, select)).collect();
    let mut change = Change { tables: &tables, scopes: Vec::new(), keys: &keys, aggregates: &aggregates };
    let Query { body, order_by, .. } = query;
    let SetExpr::Select(select) = body.as_mut() else { return };
    select.projection.iter_mut().for_each(name_item);
    let _ = visit_mut(&mut select.projection, &mut change);
    let _ = visit_mut(&mut select.having, &mut change);
    let _ = visit_mut(&mut select.qualify, &mut change);
    if let Some(order) = order_by
        && let OrderByKind::Expressions(order) = &mut order.kind
    {
        let _ = visit_mut(order, &mut change);
    }
    let rows = rows_of(select, &keys, &aggregates);
    let alias = TableAlias { explicit: true, name: Ident::with_quote('"', TABLE), columns: Vec::new(), at: None };
    let from = TableFactor::Derived { lateral: false, subquery: Box::new(rows), alias: Some(alias), sample: None };
    select.from = select_all(from).from;
    select.selection = select.having.take();
    select.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
    // A subquery that is an expression now needs no table around.
    let mut plain = Plain;
    let _ = visit_mut(&mut select.projection, &mut plain);
    let _ = visit_mut(&mut select.selection, &mut plain);
    let _ = visit_mut(&mut select.qualify, &mut plain);
    let _ = visit_mut(order_by, &mut plain);
}

/// Names an item after its column, or its text.
fn name_item(item: &mut SelectItem) {
    let SelectItem::UnnamedExpr(expr) = item else { return };
    let name = match &*expr {
        Expr::Identifier(name) => name_of(name),
        Expr::CompoundIdentifier(parts) => parts.last().map_or_else(|| expr.to_string(), name_of),
        expr => expr.to_string(),
    };
    let expr = std::mem::replace(expr, Expr::Value(Value::Null.into()));
    *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) };
}

/// What a key of groups means: a number or an alias is an item of the select list.
fn key_of(key: &Expr, select: &Select) -> Expr {
    let item = match key {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => {
                number.parse::<usize>().ok().and_then(|number| select.projection.get(number.checked_sub(1)?))
            }
            _ => None,
        },
        Expr::Identifier(name) => select
            .projection
            .iter()
            .find(|item| matches!(item, SelectItem::ExprWithAlias { alias, .. } if name_of(alias) == name_of(name))),
        _ => None,
    };
    match item {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => expr.clone(),
        _ => key.clone(),
    }
}

/// The groups of a SELECT, and its aggregates.
fn rows_of(select: &Select, keys: &[Expr], aggregates: &[Expr]) -> Query {
    let named = |(at, expr): (usize, &Expr), kind: &str| SelectItem::ExprWithAlias {
        expr: expr.clone(),
        alias: Ident::with_quote('"', format!("{kind} {at}")),
    };
    let keys_named = keys.iter().enumerate().map(|key| named(key, "key"));
    let projection = keys_named.chain(aggregates.iter().enumerate().map(|expr| named(expr, "aggregate"))).collect();
    let inner = Select {
        projection,
        distinct: None,
        having: None,
        qualify: None,
        named_window: Vec::new(),
        group_by: GroupByExpr::Expressions(keys.to_vec(), Vec::new()),
        ..select.clone()
    };
    super::merged_columns::query_of(SetExpr::Select(Box::new(inner)))
}

fn said(kind: &str, at: usize) -> Expr {
    let parts = [TABLE.to_owned(), format!("{kind} {at}")];
    Expr::CompoundIdentifier(parts.iter().map(|part| Ident::with_quote('"', part)).collect())
}

/// The tables of a query's own FROM; of a set operation those of all its SELECTs.
fn scope_of(query: &Query) -> HashSet<String> {
    fn add(body: &SetExpr, tables: &mut HashSet<String>) {
        match body {
            SetExpr::Select(select) => {
                tables.extend(select.from.iter().flat_map(tables_of));
                // Its columns may be said without a table's name.
                if !select.from.is_empty() {
                    tables.insert(String::new());
                }
            }
            SetExpr::SetOperation { left, right, .. } => {
                add(left, tables);
                add(right, tables);
            }
            SetExpr::Query(query) => add(&query.body, tables),
            _ => {}
        }
    }
    let mut tables = HashSet::new();
    add(&query.body, &mut tables);
    tables
}

/// Whether all columns in an expression are those of these tables, and there are some; `scopes` are the queries that it stands in.
fn is_of(expr: &Expr, tables: &HashSet<String>, scopes: &[HashSet<String>]) -> bool {
    let mut columns = Columns { tables, scopes: scopes.to_vec(), some: false };
    visit(expr, &mut columns).is_continue() && columns.some
}

/// Ends at a column of other tables.
struct Columns<'a> {
    tables: &'a HashSet<String>,
    scopes: Vec<HashSet<String>>,
    some: bool,
}

impl Visitor for Columns<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.scopes.push(scope_of(query));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let table = match expr {
            Expr::Identifier(_) => String::new(),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., table, _] => name_of(table),
                _ => return ControlFlow::Break(()),
            },
            _ => return ControlFlow::Continue(()),
        };
        let is_own = table.is_empty() || self.tables.contains(&table);
        if !is_own || self.scopes.iter().any(|scope| scope.contains(&table)) {
            return ControlFlow::Break(());
        }
        self.some = true;
        ControlFlow::Continue(())
    }
}

/// Finds aggregates of a query, in its subqueries (`outer`) and in itself (`own`).
struct Found<'a> {
    tables: &'a HashSet<String>,
    scopes: Vec<HashSet<String>>,
    outer: Vec<Expr>,
    own: Vec<Expr>,
}

impl Visitor for Found<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.scopes.push(scope_of(query));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if !is_aggregate(expr) {
            return ControlFlow::Continue(());
        }
        if self.scopes.is_empty() {
            self.own.push(expr.clone());
        } else if is_of(expr, self.tables, &self.scopes) {
            self.outer.push(expr.clone());
        }
        ControlFlow::Continue(())
    }
}

/// Puts columns of the derived table in the place of groups and aggregates.
struct Change<'a> {
    tables: &'a HashSet<String>,
    scopes: Vec<HashSet<String>>,
    keys: &'a [Expr],
    aggregates: &'a [Expr],
}

impl VisitorMut for Change<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.scopes.push(scope_of(query));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let is_here = self.scopes.is_empty() || is_of(expr, self.tables, &self.scopes);
        if !is_here {
            return ControlFlow::Continue(());
        }
        if is_aggregate(expr) {
            if let Some(at) = self.aggregates.iter().position(|aggregate| aggregate == expr) {
                *expr = said("aggregate", at);
            }
        } else if let Some(at) = self.keys.iter().position(|key| same(key, expr)) {
            *expr = said("key", at);
        }
        ControlFlow::Continue(())
    }
}

/// Whether two expressions are the same; a column may be said with its table's name and without.
fn same(key: &Expr, expr: &Expr) -> bool {
    let column = |expr: &Expr| match expr {
        Expr::Identifier(name) => Some((None, name_of(name))),
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [.., table, column] => Some((Some(name_of(table)), name_of(column))),
            _ => None,
        },
        _ => None,
    };
    match (column(key), column(expr)) {
        (Some((table, name)), Some((other_table, other))) => {
            name == other && (table.is_none() || other_table.is_none() || table == other_table)
        }
        _ => key == expr,
    }
}

/// Makes expressions of scalar subqueries that are no more: `(SELECT x)` is `(x)`.
struct Plain;

impl VisitorMut for Plain {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Subquery(query) => {
                if let Some(plain) = plain(query) {
                    *expr = Expr::Nested(Box::new(plain));
                }
            }
            Expr::InSubquery { expr: value, subquery, negated } => {
                if let Some(plain) = plain(subquery) {
                    let value = std::mem::replace(value, Box::new(Expr::Value(Value::Null.into())));
                    *expr = Expr::InList { expr: value, list: vec![plain], negated: *negated };
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn plain(query: &Query) -> Option<Expr> {
    let Query { with: None, body, limit_clause, fetch: None, .. } = query else { return None };
    let SetExpr::Select(select) = body.as_ref() else { return None };
    let is_bare = select.from.is_empty()
        && select.selection.is_none()
        && select.having.is_none()
        && select.qualify.is_none()
        && select.distinct.is_none()
        && !matches!(limit_clause, Some(LimitClause::LimitOffset { .. } | LimitClause::OffsetCommaLimit { .. }))
        && matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] = select.projection.as_slice() else {
        return None;
    };
    // An aggregate of its own makes a row, as the expression would not.
    (is_bare && !contains(expr, is_aggregate)).then(|| expr.clone())
}

#[cfg(test)]
mod tests {
    use crate::parameters::query_of;
    use crate::script::parse;

    fn written(sql: &str) -> String {
        query_of(&mut parse(sql).unwrap().remove(0).kind).unwrap().to_string()
    }

    #[test]
    fn aggregates_of_columns_around_are_of_the_query_around() {
        for (sql, wanted) in [
            (
                "SELECT (SELECT sum(o.k)) AS s FROM o",
                "SELECT (\"rows around\".\"aggregate 0\") AS s \
                 FROM (SELECT sum(o.k) AS \"aggregate 0\" FROM o) AS \"rows around\"",
            ),
            (
                "SELECT g, (SELECT x FROM z WHERE z.x = max(o.k) AND z.g = o.g) AS s FROM o WHERE k > 1 GROUP BY g \
                 HAVING count(*) > 1 ORDER BY sum(k)",
                "SELECT \"rows around\".\"key 0\" AS \"g\", (SELECT x FROM z WHERE z.x = \"rows around\".\"aggregate 2\" AND \
                 z.g = \"rows around\".\"key 0\") AS s FROM (SELECT g AS \"key 0\", count(*) AS \"aggregate 0\", \
                 sum(k) AS \"aggregate 1\", max(o.k) AS \"aggregate 2\" FROM o WHERE k > 1 GROUP BY g) AS \"rows around\" \
                 WHERE \"rows around\".\"aggregate 0\" > 1 ORDER BY \"rows around\".\"aggregate 1\"",
            ),
        ] {
            assert_eq!(written(sql), wanted);
        }
        for same in [
            "SELECT (SELECT sum(z.k) FROM z) FROM o",
            "SELECT (SELECT sum(z.k + o.k) FROM z) FROM o",
            "SELECT (SELECT count(*)) FROM o",
            "SELECT (SELECT sum(k) FROM z) FROM o",
            "SELECT (SELECT sum(o.k) FROM o) FROM o",
        ] {
            assert_eq!(written(same), same);
        }
    }
}
