//! What statements ask of the catalog's lists of columns, which keys, indexes and constraints have ([`constraints`](crate::constraints)).
//!
//! Invariants, as in PostgreSQL:
//! - `conkey` and `confkey` are arrays, whose elements count from 1; `indkey` and its kin are vectors, which count from 0 and are
//!   shown without brackets. Both are lists in plans.
//! - `_pg_expandarray` counts from 1, whatever it is given.

use crate::constants::number_expr;
use crate::definitions::{COLUMN_LISTS, VECTORS};
use crate::rewrite::parts;
use alluvia_catalog::{Catalog, INFORMATION_SCHEMA, PG_CATALOG};
use alluvia_syntax::names::name_of;
use alluvia_syntax::trees::array_subqueries;
use alluvia_syntax::trees::rewriting::call;
use arrow::array::{Array, ArrayRef, AsArray, Int64Builder, ListBuilder};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectNamePart,
    Subscript,
};
use std::sync::Arc;

/// What tells of an index and of a constraint as a text, under names that no statement says.
pub(crate) const INDEX_TEXT: &str = "pg_catalog_indexdef";
pub(crate) const CONSTRAINT_TEXT: &str = "pg_catalog_constraintdef";
/// And what gives the places of a list, from 1 on and from 0 on.
pub(crate) const PLACES: &str = "pg_catalog_places";
pub(crate) const PLACES_OF_VECTOR: &str = "pg_catalog_places_of_vector";

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

/// Whether there are rows of these tables.
pub(crate) fn are_there(catalog: &Catalog) -> bool {
    catalog.tables().any(|entry| {
        let def = &entry.def;
        def.key.is_some() || !def.rules.checks.is_empty() || !def.indexes.is_empty() || !def.foreign_keys.is_empty()
    })
}

/// The list that an expression names.
fn list_named(expr: &Expr) -> Option<String> {
    let column = match expr {
        Expr::Identifier(ident) => name_of(ident),
        Expr::CompoundIdentifier(path) => path.last().map(name_of)?,
        Expr::Nested(inner) => return list_named(inner),
        _ => return None,
    };
    COLUMN_LISTS.contains(&column.as_str()).then_some(column)
}

/// Whether an expression is a list of the catalog's.
fn is_list(expr: &Expr) -> bool {
    list_named(expr).is_some()
}

/// Whether it is one that counts from 0.
fn is_vector(expr: &Expr) -> bool {
    list_named(expr).is_some_and(|column| VECTORS.contains(&column.as_str()))
}

/// Whether an expression is a list of what is planned, and no text that stands for one.
pub(crate) fn is_planned_list(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_planned_list(inner),
        Expr::Function(function) => match parts(&function.name).last().map(String::as_str) {
            Some("array_agg") => true,
            Some("coalesce") => argument(function, 0).is_some_and(is_planned_list),
            _ => false,
        },
        // What ARRAY(SELECT ...) has become.
        Expr::Subquery(query) => array_subqueries::is_gathered(query),
        expr => is_list(expr),
    }
}

/// What `array_upper` and `array_lower` give of a list of the catalog's.
pub(crate) fn bound(name: &str, function: &Function) -> Option<Expr> {
    let list = argument(function, 0).filter(|list| is_planned_list(list))?;
    let length = call("array_length", vec![list.clone(), number_expr(1)]);
    let last = if is_vector(list) { plus(length, -1) } else { length };
    match name {
        "array_upper" => Some(last),
        "array_lower" => Some(number_expr(i32::from(!is_vector(list)))),
        _ => None,
    }
}

fn plus(expr: Expr, number: i32) -> Expr {
    let op = if number < 0 { BinaryOperator::Minus } else { BinaryOperator::Plus };
    let right = Box::new(number_expr(number.unsigned_abs()));
    Expr::BinaryOp { left: Box::new(Expr::Nested(Box::new(expr))), op, right }
}

/// What makes rows of a list and of its places.
const EXPANDED: &str = "_pg_expandarray";

/// `generate_subscripts(list, 1)`, `_pg_expandarray(list)` and their parts, as what is planned: rows of the list, or of its
/// places from 1 on.
pub(crate) fn expanded(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Function(function) => {
            let list = argument(function, 0).filter(|list| is_list(list))?;
            match function.name.0.last().and_then(ObjectNamePart::as_ident).map(name_of)?.as_str() {
                "generate_subscripts" => {
                    let places = if is_vector(list) { PLACES_OF_VECTOR } else { PLACES };
                    Some(call("unnest", vec![call(places, vec![list.clone()])]))
                }
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
                    let list = argument(function, 0).filter(|list| is_list(list))?;
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

/// An element of a vector, of which plans count the first as 1.
pub(crate) fn element_of_vector(expr: &Expr) -> Option<Expr> {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else { return None };
    let [before @ .., AccessExpr::Subscript(Subscript::Index { index })] = access_chain.as_slice() else { return None };
    let is_vector = match before.last() {
        None => is_vector(root),
        Some(AccessExpr::Dot(column)) => is_vector(column),
        Some(AccessExpr::Subscript(_)) => false,
    };
    let index = AccessExpr::Subscript(Subscript::Index { index: plus(index.clone(), 1) });
    let access_chain = before.iter().cloned().chain([index]).collect();
    is_vector.then(|| Expr::CompoundFieldAccess { root: root.clone(), access_chain })
}

/// The places of a list, of which the first is this.
pub(crate) fn places(lists: &ArrayRef, first: i64) -> ArrayRef {
    let mut places = ListBuilder::new(Int64Builder::new());
    let lists = lists.as_list_opt::<i32>();
    for list in lists.into_iter().flat_map(|lists| lists.iter()) {
        if let Some(list) = &list {
            (first..first + list.len() as i64).for_each(|place| places.values().append_value(place));
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
            let column = argument(1).unwrap_or_else(|| number_expr(0));
            Some(call(INDEX_TEXT, vec![argument(0)?, column]))
        }
        "pg_get_constraintdef" => Some(call(CONSTRAINT_TEXT, vec![argument(0)?])),
        _ => None,
    }
}
