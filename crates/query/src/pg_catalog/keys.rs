//! Keys of tables, as PostgreSQL's catalog has them: a constraint, and the index that holds it.
//!
//! Invariants:
//! - A statement that asks for lists of columns (`conkey`, `indkey`, ...) sees no keys: lists are not what they are there, and tools that
//!   take them apart would fail where they see nothing now.
//! - The numbers of indexes and constraints follow from their table's.

use super::relations::{PUBLIC_OID, table_oid};
use super::tables::{INFORMATION_SCHEMA, PG_CATALOG, Row, row};
use crate::system::SystemContext;
use alluvia_catalog::{Catalog, TableEntry};
use alluvia_change::conflict::key_name;
use alluvia_space::keywords::quoted;
use alluvia_syntax::names::{DATABASE_NAME, name_of};
use alluvia_syntax::trees::rewriting::call;
use alluvia_syntax::trees::visit::visit;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Query, Visitor,
};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Indexes are numbered from here, by their tables.
const FIRST_INDEX_OID: i64 = 1 << 30;
/// And constraints from here.
const FIRST_CONSTRAINT_OID: i64 = FIRST_INDEX_OID + (1 << 29);

/// What tells of an index and of a constraint as a text, under names that no statement says.
pub(super) const INDEX_TEXT: &str = "pg_catalog_indexdef";
pub(super) const CONSTRAINT_TEXT: &str = "pg_catalog_constraintdef";

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
const TABLES: [(&str, &str); 6] = [
    (PG_CATALOG, "pg_constraint"),
    (PG_CATALOG, "pg_index"),
    (PG_CATALOG, "pg_indexes"),
    (INFORMATION_SCHEMA, "constraint_column_usage"),
    (INFORMATION_SCHEMA, "key_column_usage"),
    (INFORMATION_SCHEMA, "table_constraints"),
];

/// Whether keys are rows of a table.
pub(super) fn is_of_keys(schema: &str, table: &str) -> bool {
    TABLES.contains(&(schema, table))
}

/// Whether any of these columns holds lists.
pub(super) fn has_lists<'a>(mut columns: impl Iterator<Item = &'a str>) -> bool {
    columns.any(|column| LISTS.contains(&column))
}

/// Whether a query sees keys: there are some, and it asks for no lists of columns.
pub(super) fn are_shown(query: &Query, catalog: &Catalog) -> bool {
    catalog.tables().any(|entry| entry.def.key.is_some()) && visit(query, &mut Lists).is_continue()
}

/// Ends at the first name of a list.
struct Lists;

impl Visitor for Lists {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let column = match expr {
            Expr::Identifier(ident) => name_of(ident),
            Expr::CompoundIdentifier(path) => path.last().map(name_of).unwrap_or_default(),
            _ => return ControlFlow::Continue(()),
        };
        if LISTS.contains(&column.as_str()) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// `pg_get_indexdef` and `pg_get_constraintdef` as what is registered for them.
pub(super) fn definition(name: &str, function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let argument = |at: usize| match list.args.get(at) {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))) => Some(expr.clone()),
        _ => None,
    };
    match name {
        "pg_get_indexdef" => {
            let column = argument(1).unwrap_or_else(|| super::constants::number_expr(0));
            Some(call(INDEX_TEXT, vec![argument(0)?, column]))
        }
        "pg_get_constraintdef" => Some(call(CONSTRAINT_TEXT, vec![argument(0)?])),
        _ => None,
    }
}

/// What makes an index, or the name of one of its columns, from 1 on.
pub(super) fn index_text(catalog: &Catalog, oid: i64, column: i64) -> Option<String> {
    let entry = with_key(catalog).find(|entry| index_oid(entry) == oid)?;
    if column > 0 {
        return usize::try_from(column - 1).ok().and_then(|at| key_columns(entry).into_iter().nth(at));
    }
    let def = &entry.def;
    let (name, columns) = (quoted(&key_name(def)), key_columns(entry).join(", "));
    Some(format!("CREATE UNIQUE INDEX {name} ON public.{} USING btree ({columns})", quoted(&def.name)))
}

/// What a constraint says.
pub(super) fn constraint_text(catalog: &Catalog, oid: i64) -> Option<String> {
    let entry = with_key(catalog).find(|entry| constraint_oid(entry) == oid)?;
    Some(format!("PRIMARY KEY ({})", key_columns(entry).join(", ")))
}

fn with_key(catalog: &Catalog) -> impl Iterator<Item = &Arc<TableEntry>> {
    catalog.tables().filter(|entry| entry.def.key.is_some())
}

/// The names of the columns of a key, quoted where they must be.
fn key_columns(entry: &TableEntry) -> Vec<String> {
    let places = entry.def.key_columns().unwrap_or_default();
    places.into_iter().map(|at| quoted(&entry.def.columns[at].name)).collect()
}

fn index_oid(entry: &TableEntry) -> i64 {
    FIRST_INDEX_OID + i64::from(entry.def.id.0)
}

fn constraint_oid(entry: &TableEntry) -> i64 {
    FIRST_CONSTRAINT_OID + i64::from(entry.def.id.0)
}

/// Rows of `pg_class` for indexes.
pub(super) fn classes(context: &SystemContext) -> Vec<Row> {
    let row = |entry: &Arc<TableEntry>| {
        row! {
            oid: index_oid(entry), relname: key_name(&entry.def), relnamespace: PUBLIC_OID,
            relowner: i64::from(context.snapshot.catalog.rights().owner(entry.def.id).0), relfilenode: index_oid(entry),
            relkind: "i", relpersistence: "p", relnatts: key_columns(entry).len() as i64, relispopulated: true,
            relreplident: "n", reltuples: super::relations::ROWS_UNTOLD,
        }
    };
    with_key(&context.snapshot.catalog).map(row).collect()
}

/// The rows of a table that keys are rows of.
pub(super) fn rows_of(schema: &str, table: &str) -> Option<fn(&SystemContext) -> Vec<Row>> {
    if !is_of_keys(schema, table) {
        return None;
    }
    Some(match table {
        "pg_index" => |context| {
            let row = |entry: &Arc<TableEntry>| {
                let columns = key_columns(entry).len() as i64;
                row! {
                    indexrelid: index_oid(entry), indrelid: table_oid(entry.def.id.0), indnatts: columns, indnkeyatts: columns,
                    indisunique: true, indisprimary: true, indimmediate: true, indisvalid: true, indisready: true,
                    indislive: true,
                }
            };
            with_key(&context.snapshot.catalog).map(row).collect()
        },
        "pg_constraint" => |context| {
            let row = |entry: &Arc<TableEntry>| {
                row! {
                    oid: constraint_oid(entry), conname: key_name(&entry.def), connamespace: PUBLIC_OID, contype: "p",
                    convalidated: true, conrelid: table_oid(entry.def.id.0), conindid: index_oid(entry), conislocal: true,
                    connoinherit: true, confupdtype: " ", confdeltype: " ", confmatchtype: " ",
                }
            };
            with_key(&context.snapshot.catalog).map(row).collect()
        },
        "pg_indexes" => |context| {
            let catalog = &context.snapshot.catalog;
            let row = |entry: &Arc<TableEntry>| {
                row! {
                    schemaname: "public", tablename: entry.def.name.clone(), indexname: key_name(&entry.def),
                    indexdef: index_text(catalog, index_oid(entry), 0).unwrap_or_default(),
                }
            };
            with_key(catalog).map(row).collect()
        },
        "table_constraints" => |context| {
            let row = |entry: &Arc<TableEntry>| {
                let mut row = row! { constraint_type: "PRIMARY KEY", is_deferrable: "NO", initially_deferred: "NO", enforced: "YES" };
                row.extend(named(entry));
                row
            };
            with_key(&context.snapshot.catalog).map(row).collect()
        },
        "key_column_usage" => |context| of_columns(context, true),
        "constraint_column_usage" => |context| of_columns(context, false),
        _ => return None,
    })
}

/// A constraint and its table, as the standard's views name them.
fn named(entry: &TableEntry) -> Row {
    row! {
        constraint_catalog: DATABASE_NAME, constraint_schema: "public", constraint_name: key_name(&entry.def),
        table_catalog: DATABASE_NAME, table_schema: "public", table_name: entry.def.name.clone(),
    }
}

fn of_columns(context: &SystemContext, numbered: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    for entry in with_key(&context.snapshot.catalog) {
        for (at, place) in entry.def.key_columns().unwrap_or_default().into_iter().enumerate() {
            let mut row = row! { column_name: entry.def.columns[place].name.clone() };
            if numbered {
                row.extend(row! { ordinal_position: at as i64 + 1 });
            }
            row.extend(named(entry));
            rows.push(row);
        }
    }
    rows
}
