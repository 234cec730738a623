//! What statements ask of the catalog's lists of columns, which keys, indexes and constraints have ([`constraints`](crate::constraints)).
//!
//! Invariants:
//! - A statement that asks for lists of columns (`conkey`, `indkey`) in a way that is not known here sees no keys: tools that take them
//!   apart would fail where they see nothing now. Known are `= ANY (list)`, `IS [NOT] NULL`, `unnest`, `generate_subscripts`,
//!   `_pg_expandarray`, and `conkey` as it is. Of other lists (`indclass`, ...) nothing is told.
//! - What a WITH query or a derived table calls so is no list, unless it is one by its own items: `UNNEST(conkey) AS conkey`.

use crate::definitions::COLUMN_LISTS;
use alluvia_catalog::{Catalog, INFORMATION_SCHEMA, PG_CATALOG, TableEntry};
use alluvia_syntax::names::name_of;
use alluvia_syntax::trees::rewriting::call;
use alluvia_syntax::trees::visit::visit;
use arrow::array::{Array, ArrayRef, AsArray, Int64Builder, ListBuilder};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectNamePart, Query, Select,
    SelectItem, SetExpr, TableFactor, Visitor,
};
use std::ops::ControlFlow;
use std::sync::Arc;

/// What tells of an index and of a constraint as a text, under names that no statement says.
pub(crate) const INDEX_TEXT: &str = "pg_catalog_indexdef";
pub(crate) const CONSTRAINT_TEXT: &str = "pg_catalog_constraintdef";
/// And what gives the places of a list.
pub(crate) const PLACES: &str = "pg_catalog_places";

/// Columns that hold lists.
const LISTS: [&str; 13] = [
    "indkey",
    "indcollation",
    "indclass",
    "indoption",
    "indexprs",
    "indpred",
    "conkey",
    "confkey",
    "conpfeqop",
    "conppeqop",
    "conffeqop",
    "confdelsetcols",
    "conexclop",
];

/// The tables that keys are rows of.
const TABLES: [(&str, &str); 8] = [
    (PG_CATALOG, "pg_constraint"),
    (PG_CATALOG, "pg_index"),
    (PG_CATALOG, "pg_indexes"),
    (INFORMATION_SCHEMA, "check_constraints"),
    (INFORMATION_SCHEMA, "constraint_column_usage"),
    (INFORMATION_SCHEMA, "key_column_usage"),
    (INFORMATION_SCHEMA, "referential_constraints"),
    (INFORMATION_SCHEMA, "table_constraints"),
];

/// Whether keys are rows of a table.
pub(crate) fn is_of_keys(schema: &str, table: &str) -> bool {
    TABLES.contains(&(schema, table))
}

/// Whether any of these columns holds lists of which nothing is told.
pub(crate) fn has_lists<'a>(mut columns: impl Iterator<Item = &'a str>) -> bool {
    columns.any(|column| LISTS.contains(&column) && !COLUMN_LISTS.contains(&column))
}

/// Whether a query sees keys: there are some, and what it asks of lists of columns is known.
pub(crate) fn are_shown(query: &Query, catalog: &Catalog) -> bool {
    let has_any = |entry: &Arc<TableEntry>| {
        let def = &entry.def;
        def.key.is_some() || !def.rules.checks.is_empty() || !def.indexes.is_empty() || !def.foreign_keys.is_empty()
    };
    if !catalog.tables().any(has_any) {
        return false;
    }
    let mut lists = Lists::default();
    let _ = visit(query, &mut lists);
    lists.named == lists.known
}

/// Counts the names of lists, and those that stand where it is known what is asked of them.
#[derive(Default)]
struct Lists {
    named: usize,
    known: usize,
    /// WITH queries, and whether they give lists.
    withs: Vec<(String, bool)>,
    /// What stands in FROM of the SELECTs around what is visited, the innermost last: what it is called, and whether it gives lists.
    tables: Vec<Vec<(String, bool)>>,
}

impl Lists {
    /// Whether a column of that name can be a list: it is of a table that gives some, or nobody knows of which it is.
    fn may_be(&self, expr: &Expr) -> bool {
        let tables: Vec<&(String, bool)> = self.tables.iter().rev().flatten().collect();
        may_be_of(&tables, expr)
    }

    /// What stands in FROM.
    fn from(&self, select: &Select) -> Vec<(String, bool)> {
        let joined = select
            .from
            .iter()
            .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
        joined.filter_map(|factor| self.called(factor)).collect()
    }

    /// Whether an item of a query is a list as it is.
    fn gives(&self, body: &SetExpr) -> bool {
        match body {
            SetExpr::Select(select) => {
                let from = self.from(select);
                let tables: Vec<&(String, bool)> = from.iter().collect();
                select.projection.iter().any(|item| match item {
                    SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                        list_named(expr).is_some() && may_be_of(&tables, expr)
                    }
                    _ => tables.iter().any(|(_, gives)| *gives),
                })
            }
            SetExpr::SetOperation { left, right, .. } => self.gives(left) || self.gives(right),
            SetExpr::Query(query) => self.gives(&query.body),
            _ => false,
        }
    }

    fn called(&self, factor: &TableFactor) -> Option<(String, bool)> {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let last = name.0.last().and_then(ObjectNamePart::as_ident).map(name_of)?;
                let of_with = self.withs.iter().rev().find(|(with, _)| name.0.len() == 1 && *with == last);
                let gives = of_with.is_none_or(|(_, gives)| *gives);
                Some((alias.as_ref().map_or(last, |alias| name_of(&alias.name)), gives))
            }
            TableFactor::Derived { subquery, alias: Some(alias), .. } => {
                Some((name_of(&alias.name), self.gives(&subquery.body)))
            }
            _ => None,
        }
    }
}

/// Whether a column of that name can be a list, where these tables are.
fn may_be_of(tables: &[&(String, bool)], expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => may_be_of(tables, inner),
        Expr::CompoundIdentifier(path) => {
            let table = path.iter().rev().nth(1).map(name_of);
            tables.iter().find(|(name, _)| Some(name) == table.as_ref()).is_none_or(|(_, gives)| *gives)
        }
        _ => tables.is_empty() || tables.iter().any(|(_, gives)| *gives),
    }
}

/// The list that an expression names.
fn list_named(expr: &Expr) -> Option<String> {
    let column = match expr {
        Expr::Identifier(ident) => name_of(ident),
        Expr::CompoundIdentifier(path) => path.last().map(name_of)?,
        Expr::Nested(inner) => return list_named(inner),
        _ => return None,
    };
    LISTS.contains(&column.as_str()).then_some(column)
}

/// Whether an expression is a list of numbers of columns.
fn is_of_columns(expr: &Expr) -> bool {
    list_named(expr).is_some_and(|column| COLUMN_LISTS.contains(&column.as_str()))
}

impl Visitor for Lists {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        for with in query.with.iter().flat_map(|with| &with.cte_tables) {
            let gives = self.gives(&with.query.body);
            self.withs.push((name_of(&with.alias.name), gives));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let tables = self.from(select);
        self.tables.push(tables);
        for item in &select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                let is_plain = list_named(expr).is_some_and(|column| matches!(column.as_str(), "conkey" | "confkey"));
                self.known += usize::from(is_plain && self.may_be(expr));
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &Select) -> ControlFlow<()> {
        self.tables.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let known = match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
                self.named += usize::from(list_named(expr).is_some() && self.may_be(expr));
                false
            }
            Expr::AnyOp { right, .. } => is_of_columns(right) && self.may_be(right),
            Expr::IsNull(inner) | Expr::IsNotNull(inner) => is_of_columns(inner) && self.may_be(inner),
            Expr::Function(function) => {
                let name = function.name.0.last().and_then(ObjectNamePart::as_ident).map(name_of).unwrap_or_default();
                ["unnest", "generate_subscripts", EXPANDED].contains(&name.as_str())
                    && argument(function, 0).is_some_and(|list| is_of_columns(list) && self.may_be(list))
            }
            _ => false,
        };
        self.known += usize::from(known);
        ControlFlow::Continue(())
    }
}

/// What makes rows of a list and of its places.
const EXPANDED: &str = "_pg_expandarray";

/// `generate_subscripts(list, 1)`, `_pg_expandarray(list)` and their parts, as what is planned: rows of the list, or of its
/// places from 1 on.
pub(crate) fn expanded(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Function(function) => {
            let list = argument(function, 0).filter(|list| is_of_columns(list))?;
            match function.name.0.last().and_then(ObjectNamePart::as_ident).map(name_of)?.as_str() {
                "generate_subscripts" => Some(call("unnest", vec![call(PLACES, vec![list.clone()])])),
                EXPANDED => Some(call("unnest", vec![list.clone()])),
                _ => None,
            }
        }
        // A part of what has become rows of the list, or of a column that has them.
        Expr::CompoundFieldAccess { root, access_chain } => {
            let [AccessExpr::Dot(Expr::Identifier(part))] = access_chain.as_slice() else { return None };
            let mut within = root.as_ref();
            while let Expr::Nested(inner) = within {
                within = inner;
            }
            match (within, name_of(part).as_str()) {
                (Expr::Function(function), part @ ("n" | "x")) => {
                    let list = argument(function, 0).filter(|list| is_of_columns(list))?;
                    let of = if part == "n" { call(PLACES, vec![list.clone()]) } else { list.clone() };
                    Some(call("unnest", vec![of]))
                }
                (Expr::Identifier(_) | Expr::CompoundIdentifier(_), "x") => Some(within.clone()),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The places of a list, from 1 on.
pub(crate) fn places(lists: &ArrayRef) -> ArrayRef {
    let mut places = ListBuilder::new(Int64Builder::new());
    let lists = lists.as_list_opt::<i32>();
    for list in lists.into_iter().flat_map(|lists| lists.iter()) {
        if let Some(list) = &list {
            (1..=list.len() as i64).for_each(|place| places.values().append_value(place));
        }
        places.append(list.is_some());
    }
    Arc::new(places.finish())
}

fn argument(function: &Function, at: usize) -> Option<&Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.get(at) {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))) => Some(expr),
        _ => None,
    }
}

/// `pg_get_indexdef` and `pg_get_constraintdef` as what is registered for them.
pub(crate) fn definition(name: &str, function: &Function) -> Option<Expr> {
    let argument = |at: usize| argument(function, at).cloned();
    match name {
        "pg_get_indexdef" => {
            let column = argument(1).unwrap_or_else(|| crate::constants::number_expr(0));
            Some(call(INDEX_TEXT, vec![argument(0)?, column]))
        }
        "pg_get_constraintdef" => Some(call(CONSTRAINT_TEXT, vec![argument(0)?])),
        _ => None,
    }
}
