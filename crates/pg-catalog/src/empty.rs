//! Parts of a query that can only be empty, because what they read always is: they need no plan.

use crate::comments;
use crate::constants::{Constant, number_expr};
use crate::definitions;
use crate::keys::is_of_keys;
use crate::rewrite::{Rewrite, cast, catalog_table, item_name, parts};
use crate::tables::is_always_empty;
use crate::views;
use alluvia_syntax::names::name_of;
use alluvia_syntax::trees::rewriting::call;
use alluvia_syntax::trees::visit::visit;
use datafusion::sql::sqlparser::ast::{
    self, Expr, GroupByExpr, Ident, JoinOperator, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    TableFactor, TableWithJoins, Visitor,
};
use std::ops::ControlFlow;

impl Rewrite<'_> {
    /// Replaces what can only be empty by what gives no rows, and needs no plan for the rest of it.
    pub(crate) fn empty_out(&self, body: &mut SetExpr) -> bool {
        // Beside rows of others, columns have the types of those.
        let typed = self.is_empty_body(body);
        self.empty_out_of(body, typed)
    }

    fn empty_out_of(&self, body: &mut SetExpr, typed: bool) -> bool {
        match body {
            SetExpr::Select(select) => {
                if !self.is_empty_select(select) {
                    return false;
                }
                let Some(names) = self.columns_of(select) else { return false };
                let mut seen: Vec<String> = Vec::new();
                select.projection.clear();
                for (at, name) in names.into_iter().enumerate() {
                    let name = if seen.contains(&name) { format!("{name} {}", at + 1) } else { name };
                    seen.push(name.clone());
                    let alias = Ident::with_quote('"', name);
                    let null = Constant::Null.expr();
                    let expr = if typed { cast(null, ast::DataType::Text) } else { null };
                    select.projection.push(SelectItem::ExprWithAlias { expr, alias });
                }
                select.from.clear();
                select.selection = Some(Constant::Truth(false).expr());
                select.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
                select.having = None;
                select.distinct = None;
                true
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.empty_out_of(left, typed);
                self.empty_out_of(right, typed);
                false
            }
            _ => false,
        }
    }

    /// Whether a query can only be empty.
    pub(crate) fn is_empty_query(&self, query: &Query) -> bool {
        self.is_empty_body(&query.body)
    }

    fn is_empty_body(&self, body: &SetExpr) -> bool {
        match body {
            SetExpr::Select(select) => self.is_empty_select(select),
            SetExpr::Query(query) => self.is_empty_query(query),
            SetExpr::SetOperation { left, right, .. } => self.is_empty_body(left) && self.is_empty_body(right),
            _ => false,
        }
    }

    /// What aggregates give of nothing, if that is all that a subquery asks for.
    pub(crate) fn of_nothing(&self, query: &Query) -> Option<Expr> {
        let SetExpr::Select(select) = query.body.as_ref() else { return None };
        let no_groups = matches!(&select.group_by, GroupByExpr::Expressions(groups, _) if groups.is_empty());
        let is_plain = no_groups && select.having.is_none() && query.with.is_none();
        if !is_plain || !select.from.iter().any(|from| self.is_empty_from(from)) {
            return None;
        }
        match select.projection.as_slice() {
            [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] => aggregate_of_nothing(expr),
            _ => None,
        }
    }

    /// The names of a SELECT's columns; `None` for all that there are, which have their types from the tables themselves.
    fn columns_of(&self, select: &Select) -> Option<Vec<String>> {
        let mut names = Vec::new();
        for item in &select.projection {
            match item {
                SelectItem::ExprWithAlias { alias, .. } => names.push(name_of(alias)),
                SelectItem::UnnamedExpr(expr) => names.push(item_name(expr).unwrap_or_else(|| "?column?".to_owned())),
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    let wanted = parts(name).pop()?;
                    let mut known = select.from.iter().flat_map(factors).filter_map(|factor| self.named(factor));
                    let (_, columns) = known.find(|(name, _)| *name == wanted)?;
                    names.extend(columns);
                }
                _ => return None,
            }
        }
        Some(names)
    }

    /// What a table is called, and its columns, if they are known.
    fn named(&self, factor: &TableFactor) -> Option<(String, Vec<String>)> {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let (schema, table) = catalog_table(name, self.catalog)?;
                let columns = definitions::find(schema, &table)?.columns.iter().map(|(name, _)| (*name).to_owned());
                Some((alias.as_ref().map_or(table.clone(), |alias| name_of(&alias.name)), columns.collect()))
            }
            TableFactor::Derived { subquery, alias: Some(alias), .. } if alias.columns.is_empty() => {
                let SetExpr::Select(select) = subquery.body.as_ref() else { return None };
                Some((name_of(&alias.name), self.columns_of(select)?))
            }
            _ => None,
        }
    }

    fn is_empty_select(&self, select: &Select) -> bool {
        // An aggregate of nothing is a row, unless it is one for each group.
        let one_row = has_aggregate(select)
            && matches!(&select.group_by, GroupByExpr::Expressions(groups, _) if groups.is_empty());
        !one_row && select.from.iter().any(|from| self.is_empty_from(from))
    }

    fn is_empty_from(&self, from: &TableWithJoins) -> bool {
        let inner = |join: &ast::Join| {
            let kind = &join.join_operator;
            matches!(kind, JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_))
                && self.is_empty(&join.relation)
        };
        // What an outer join keeps of its right side may have rows.
        let keeps_right = |join: &ast::Join| {
            !matches!(
                join.join_operator,
                JoinOperator::Join(_)
                    | JoinOperator::Inner(_)
                    | JoinOperator::CrossJoin(_)
                    | JoinOperator::Left(_)
                    | JoinOperator::LeftOuter(_)
            )
        };
        let last = from.joins.iter().rposition(keeps_right).map_or(0, |at| at + 1);
        (last == 0 && self.is_empty(&from.relation)) || from.joins[last..].iter().any(inner)
    }

    fn is_empty(&self, factor: &TableFactor) -> bool {
        match factor {
            TableFactor::Table { name, args: None, .. } => {
                catalog_table(name, self.catalog).is_some_and(|(schema, table)| {
                    is_always_empty(schema, &table)
                        || !self.has_keys && is_of_keys(schema, &table)
                        || self.shown.hides(schema, &table)
                        || views::hides(self.catalog, schema, &table)
                        || comments::hides(self.catalog, schema, &table)
                })
            }
            TableFactor::Derived { subquery, .. } => self.is_empty_query(subquery),
            TableFactor::NestedJoin { table_with_joins, .. } => self.is_empty_from(table_with_joins),
            _ => false,
        }
    }
}

/// The tables that a part of FROM joins.
fn factors(from: &TableWithJoins) -> impl Iterator<Item = &TableFactor> {
    std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
}

const AGGREGATES: [&str; 10] =
    ["count", "sum", "min", "max", "avg", "array_agg", "string_agg", "bool_and", "bool_or", "first_value"];

/// `count(*)` of nothing is 0, and other aggregates are NULL: of texts and lists a text, else of the type that is wanted where it stands.
fn aggregate_of_nothing(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Nested(inner) => aggregate_of_nothing(inner),
        Expr::Cast { expr: inner, data_type, .. } => Some(cast(aggregate_of_nothing(inner)?, data_type.clone())),
        Expr::Function(function) if function.over.is_none() => match parts(&function.name).last()?.as_str() {
            "count" => Some(cast(number_expr(0), ast::DataType::BigInt(None))),
            "array_agg" | "string_agg" => Some(cast(Constant::Null.expr(), ast::DataType::Text)),
            name if AGGREGATES.contains(&name) => Some(Constant::Null.expr()),
            _ => None,
        },
        _ => None,
    }
}

fn has_aggregate(select: &Select) -> bool {
    /// Whether there is one, and in how many subqueries the visit is: theirs are their own.
    struct Aggregates(bool, usize);
    impl Visitor for Aggregates {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.1 += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.1 -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if let (Expr::Function(function), 0) = (expr, self.1) {
                self.0 |= parts(&function.name).last().is_some_and(|name| AGGREGATES.contains(&name.as_str()));
            }
            ControlFlow::Continue(())
        }
    }
    let mut aggregates = Aggregates(false, 0);
    let _ = visit(&select.projection, &mut aggregates);
    aggregates.0
}

/// Makes a subquery of one column give one row by its form.
pub(crate) fn one_row(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    if has_aggregate(select) || select.from.is_empty() || query.limit_clause.is_some() {
        return;
    }
    if let [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] = select.projection.as_mut_slice() {
        let inner = std::mem::replace(expr, Constant::Null.expr());
        *expr = call("first_value", vec![inner]);
        query.order_by = None;
    }
}
