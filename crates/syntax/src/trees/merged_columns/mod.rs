//! SELECTs whose columns are told by what stands in their FROM: columns merged by USING and NATURAL, whole rows that are counted
//! (`count(t.*)`), and `*` without some columns or with others in their place.
//!
//! Which columns tables have, only planning knows. So such a SELECT is put into a derived table ([`set_apart`]), of which the planner of
//! relations is told before any name in it is looked at. That plans its FROM, and has the rest written out: `*` column by column ([`expand`]),
//! and `t.k` of a column that is no longer called `k` alone by the name that it has instead ([`say_hidden`]).
//!
//! Invariants:
//! - A column that a merged one stands for is there under its table's name alone. Its name ends with [`HIDDEN`], so that `k` is the merged
//!   column, in the SELECT itself and in subqueries.
//! - A subquery whose own FROM has a table's name means its own.
//!
//! For the binder: `a FULL JOIN b USING (k)`, `a NATURAL JOIN b`, `count(b.*)` of an outer join, `* REPLACE (1 AS nosuch)`.

mod expand;
mod hidden;

pub use expand::{FromColumn, FromPart, expand};
pub use hidden::{say_hidden, say_hidden_in_join, sort_by_hidden};

use super::visit::{visit, visit_mut};
use crate::names::name_of;
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, JoinConstraint, JoinOperator,
    ObjectName, Query, Select, SelectFlavor, SelectItem, SetExpr, TableFactor, TableWithJoins, Visitor, VisitorMut,
    WildcardAdditionalOptions,
};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// What ends the name of a column that is there under its table's name alone: INVISIBLE PLUS. A name of it alone is that of a whole row.
pub const HIDDEN: char = '\u{2064}';

/// How a join merges columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Merging {
    Inner,
    Left,
    Right,
    Full,
}

/// How a join merges columns, and which; `None` of any other.
pub fn merging(join: &JoinOperator) -> Option<(Merging, &JoinConstraint)> {
    let (merging, constraint) = match join {
        JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => (Merging::Inner, constraint),
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (Merging::Left, constraint),
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => (Merging::Right, constraint),
        JoinOperator::FullOuter(constraint) => (Merging::Full, constraint),
        _ => return None,
    };
    matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural).then_some((merging, constraint))
}

/// Whether a part of FROM merges columns.
pub fn merges(from: &TableWithJoins) -> bool {
    any_join(from, &|join| merging(join).is_some())
}

fn any_join(from: &TableWithJoins, is_such: &dyn Fn(&JoinOperator) -> bool) -> bool {
    let nested = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => any_join(table_with_joins, is_such),
        _ => false,
    };
    nested(&from.relation) || from.joins.iter().any(|join| is_such(&join.join_operator) || nested(&join.relation))
}

/// Whether a part of FROM looks at those before it.
pub fn is_lateral(from: &TableWithJoins) -> bool {
    let lateral = |factor: &TableFactor| match factor {
        TableFactor::Derived { lateral, .. } | TableFactor::Function { lateral, .. } => *lateral,
        TableFactor::UNNEST { .. } => true,
        TableFactor::NestedJoin { table_with_joins, .. } => is_lateral(table_with_joins),
        _ => false,
    };
    lateral(&from.relation) || from.joins.iter().any(|join| lateral(&join.relation))
}

/// Whether a query is one SELECT whose columns are told by its FROM.
pub fn concerns(query: &Query) -> bool {
    match query.body.as_ref() {
        SetExpr::Select(select) => query.with.is_none() && is_concerned(select, || !counted_rows(query).is_empty()),
        _ => false,
    }
}

fn is_concerned(select: &Select, counts_rows: impl FnOnce() -> bool) -> bool {
    let is_outer = |join: &JoinOperator| {
        matches!(
            join,
            JoinOperator::Left(_)
                | JoinOperator::LeftOuter(_)
                | JoinOperator::Right(_)
                | JoinOperator::RightOuter(_)
                | JoinOperator::FullOuter(_)
        )
    };
    let chooses = |item: &SelectItem| match item {
        SelectItem::Wildcard(options) => {
            options.opt_exclude.is_some() || options.opt_except.is_some() || options.opt_replace.is_some()
        }
        _ => false,
    };
    select.from.iter().any(merges)
        || select.from.iter().any(|from| any_join(from, &is_outer)) && counts_rows()
        || !select.from.is_empty() && select.projection.iter().any(chooses) && !select.from.iter().any(is_lateral)
}

/// Puts SELECTs whose columns are told by their FROM into derived tables; whether there were any.
pub fn set_apart(query: &mut Query) -> bool {
    let mut apart = Apart(false);
    let _ = visit_mut(query, &mut apart);
    apart.0
}

struct Apart(bool);

impl VisitorMut for Apart {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let with = query.with.take();
        if concerns(query) {
            let inner = Query { with: None, ..query.clone() };
            query.order_by = None;
            query.limit_clause = None;
            *query.body = SetExpr::Select(Box::new(all_of(inner)));
            self.0 = true;
        } else if let SetExpr::SetOperation { left, right, .. } = query.body.as_mut() {
            self.0 |= operands_apart(left) | operands_apart(right);
        }
        query.with = with;
        ControlFlow::Continue(())
    }
}

fn operands_apart(operand: &mut SetExpr) -> bool {
    match operand {
        SetExpr::SetOperation { left, right, .. } => operands_apart(left) | operands_apart(right),
        SetExpr::Select(_) => {
            let inner = query_of(std::mem::replace(
                operand,
                SetExpr::Values(sqlparser::ast::Values { explicit_row: false, value_keyword: false, rows: Vec::new() }),
            ));
            if concerns(&inner) {
                *operand = SetExpr::Select(Box::new(all_of(inner)));
                return true;
            }
            *operand = *inner.body;
            false
        }
        _ => false,
    }
}

pub(crate) fn query_of(body: SetExpr) -> Query {
    Query {
        with: None,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// `SELECT * FROM (query)`.
fn all_of(query: Query) -> Select {
    let relation = TableFactor::Derived { lateral: false, subquery: Box::new(query), alias: None, sample: None };
    select_all(relation)
}

/// `SELECT * FROM relation`.
pub(crate) fn select_all(relation: TableFactor) -> Select {
    Select {
        select_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection: vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())],
        exclude: None,
        into: None,
        from: vec![TableWithJoins { relation, joins: Vec::new() }],
        lateral_views: Vec::new(),
        prewhere: None,
        selection: None,
        connect_by: Vec::new(),
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    }
}

/// `SELECT * FROM relation`, as a query.
pub(crate) fn query_all(relation: TableFactor) -> Query {
    query_of(SetExpr::Select(Box::new(select_all(relation))))
}

/// What a table in FROM is called.
pub fn called(factor: &TableFactor) -> Option<String> {
    let alias = match factor {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::NestedJoin { alias, .. } => alias,
        _ => return None,
    };
    match (alias, factor) {
        (Some(alias), _) => Some(name_of(&alias.name)),
        (None, TableFactor::Table { name, .. } | TableFactor::Function { name, .. }) => last_of(name),
        _ => None,
    }
}

fn last_of(name: &ObjectName) -> Option<String> {
    name.0.last().and_then(|part| part.as_ident()).map(name_of)
}

/// What the tables of a part of FROM are called, those in brackets too.
pub fn tables_of(from: &TableWithJoins) -> Vec<String> {
    let mut tables = Vec::new();
    let mut add = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, alias: None } => tables.extend(tables_of(table_with_joins)),
        factor => tables.extend(called(factor)),
    };
    add(&from.relation);
    from.joins.iter().for_each(|join| add(&join.relation));
    tables
}

/// The tables whose whole rows a query counts, by `count(t.*)`, but for those that its subqueries count.
pub fn counted_rows(query: &Query) -> HashSet<String> {
    let mut counted = Counted { queries: 0, tables: HashSet::new() };
    let _ = visit(query, &mut counted);
    counted.tables
}

struct Counted {
    queries: usize,
    tables: HashSet<String>,
}

impl Visitor for Counted {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if self.queries == 1 {
            self.tables.extend(counted_row(expr));
        }
        ControlFlow::Continue(())
    }
}

/// The table whose whole rows a call counts.
fn counted_row(expr: &Expr) -> Option<String> {
    let Expr::Function(function) = expr else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(table))]
            if list.duplicate_treatment.is_none() && last_of(&function.name).is_some_and(|name| name == "count") =>
        {
            last_of(table)
        }
        _ => None,
    }
}

/// Has a query count the rows of these tables by the columns that stand for them.
pub fn count_rows(query: &mut Query, tables: &HashSet<String>) {
    if !tables.is_empty() {
        let _ = visit_mut(query, &mut CountRows { queries: 0, tables });
    }
}

struct CountRows<'a> {
    queries: usize,
    tables: &'a HashSet<String>,
}

impl VisitorMut for CountRows<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.queries == 1
            && let Some(table) = counted_row(expr).filter(|table| self.tables.contains(table))
            && let Expr::Function(function) = expr
            && let FunctionArguments::List(list) = &mut function.args
        {
            let row = vec![Ident::with_quote('"', table), Ident::with_quote('"', HIDDEN.to_string())];
            list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::CompoundIdentifier(row)))];
        }
        ControlFlow::Continue(())
    }
}

/// A name without what is not written of it: [`HIDDEN`], and the tables of merged columns, which are called by it and a number.
pub fn as_written(name: &str) -> String {
    let mut written = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once(HIDDEN) {
        written.push_str(before);
        if before.ends_with('.') {
            written.push('*');
        }
        let number = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
        rest = match number.strip_prefix('.') {
            Some(column) if number.len() < after.len() => column,
            _ => after,
        };
    }
    written.push_str(rest);
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::query_of;
    use crate::script::parse;

    fn query(sql: &str) -> Query {
        query_of(&mut parse(sql).unwrap().remove(0).kind).unwrap().clone()
    }

    #[test]
    fn selects_that_merge_are_set_apart_with_their_order() {
        for (sql, wanted) in [
            (
                "WITH a AS (SELECT 1 AS k) SELECT k FROM a JOIN b USING (k) ORDER BY k LIMIT 1",
                "WITH a AS (SELECT 1 AS k) SELECT * FROM (SELECT k FROM a JOIN b USING(k) ORDER BY k LIMIT 1)",
            ),
            (
                "SELECT 1 UNION ALL SELECT k FROM a NATURAL JOIN b ORDER BY 1",
                "SELECT 1 UNION ALL SELECT * FROM (SELECT k FROM a NATURAL JOIN b) ORDER BY 1",
            ),
            (
                "SELECT count(b.*) FROM a LEFT JOIN b ON true",
                "SELECT * FROM (SELECT count(b.*) FROM a LEFT JOIN b ON true)",
            ),
            ("SELECT * EXCLUDE (k) FROM a", "SELECT * FROM (SELECT * EXCLUDE (k) FROM a)"),
        ] {
            let mut query = query(sql);
            assert!(set_apart(&mut query), "{sql}");
            assert_eq!(query.to_string(), wanted);
        }
        for sql in ["SELECT count(b.*) FROM a JOIN b ON true", "SELECT * FROM a LEFT JOIN b ON a.k = b.k"] {
            let mut query = query(sql);
            assert!(!set_apart(&mut query));
            assert_eq!(query.to_string(), sql);
        }
    }

    #[test]
    fn names_are_shown_as_they_were_written() {
        for (name, wanted) in [
            ("k", "k"),
            ("k\u{2064}", "k"),
            ("max(\u{2064}12.k)", "max(k)"),
            ("b.k\u{2064} + 1", "b.k + 1"),
            ("count(b.\u{2064})", "count(b.*)"),
        ] {
            assert_eq!(as_written(name), wanted);
        }
    }
}
