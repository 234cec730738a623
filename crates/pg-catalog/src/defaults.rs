//! Defaults and identity columns, as PostgreSQL's catalog has them: expressions of columns, and sequences that columns own.
//!
//! Invariants:
//! - A column that is declared SERIAL has `nextval` of its sequence for a default; an identity column has none.
//! - A statement that asks for the sequence of a column that it names by an expression (SQLAlchemy) sees no sequences: such
//!   names are not looked up while it runs, and what is made of them is no function here.

use crate::context::CatalogContext;
use crate::relations::{number_of, persistence_in, schema_oid, shown_schema, table_oid};
use crate::tables::{Row, row};
use alluvia_catalog::authoriser::Authoriser;
use alluvia_catalog::{Catalog, INFORMATION_SCHEMA, PG_CATALOG, RelationName, TableEntry};
use alluvia_space::keywords::quoted;
use alluvia_space::{Column, DataType, Identity, IdentityKind, PUBLIC_SCHEMA, TableDef};
use alluvia_syntax::names::{DATABASE_NAME, name_of, written_name};
use alluvia_syntax::statement::text_of;
use alluvia_syntax::trees::visit::visit;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectNamePart, Query, Visitor,
};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Sequences are numbered from here, so many a table.
const FIRST_SEQUENCE_OID: i64 = 3 << 30;
const SEQUENCES_MAX: i64 = 1 << 8;
/// Defaults are numbered from here, so many a table.
const FIRST_DEFAULT_OID: i64 = 1 << 28;
const DEFAULTS_MAX: i64 = 1 << 11;

/// The tables that they are rows of.
const TABLES: [(&str, &str); 4] = [
    (PG_CATALOG, "pg_attrdef"),
    (PG_CATALOG, "pg_sequence"),
    (PG_CATALOG, "pg_sequences"),
    (INFORMATION_SCHEMA, "sequences"),
];

/// Whether defaults or sequences are rows of a table.
fn is_of_defaults(schema: &str, table: &str) -> bool {
    TABLES.contains(&(schema, table))
}

/// What a query sees of them.
#[derive(Clone, Copy)]
pub(crate) struct Shown {
    /// Defaults: there are some.
    pub(crate) defaults: bool,
    /// Sequences: there are some, and it looks up none while it runs.
    sequences: bool,
}

impl Shown {
    /// To a query.
    pub(crate) fn to(query: &Query, catalog: &Catalog) -> Shown {
        let has_sequence = |entry: &Arc<TableEntry>| !entry.def.rules.identities.is_empty();
        let has_any = |entry: &Arc<TableEntry>| has_sequence(entry) || !entry.def.rules.defaults.is_empty();
        Shown {
            defaults: catalog.tables().any(has_any),
            sequences: catalog.tables().any(has_sequence) && visit(query, &mut LookUps).is_continue(),
        }
    }

    /// Whether a table of defaults or of sequences is empty to it.
    pub(crate) fn hides(self, schema: &str, table: &str) -> bool {
        let is_shown = if table == "pg_attrdef" { self.defaults } else { self.sequences };
        is_of_defaults(schema, table) && !is_shown
    }
}

/// Ends at the first question for a sequence that is not known before the statement runs.
struct LookUps;

impl Visitor for LookUps {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) if is_serial_sequence(function) && named(function).is_none() => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

fn is_serial_sequence(function: &Function) -> bool {
    let name = function.name.0.last().and_then(ObjectNamePart::as_ident).map(name_of);
    name.is_some_and(|name| name == "pg_get_serial_sequence")
}

fn argument(function: &Function, at: usize) -> Option<&Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.get(at) {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))) => Some(expr),
        _ => None,
    }
}

/// The table and the column that are named by texts.
fn named(function: &Function) -> Option<(String, String)> {
    Some((text_of(argument(function, 0)?)?, text_of(argument(function, 1)?)?))
}

/// The sequence that `pg_get_serial_sequence('t', 'id')` asks for; `None` of what is asked otherwise.
pub(crate) fn serial_sequence(function: &Function, authoriser: &Authoriser) -> Option<Option<String>> {
    let (table, column) = named(function)?;
    let table = written_name(&table)?;
    let Ok(entry) = authoriser.relation(&table) else { return Some(None) };
    let known = entry.def.columns.iter().find(|known| known.name == column);
    let identity = known.and_then(|known| entry.def.identity_of(known.id));
    Some(identity.map(|identity| format!("{}.{}", quoted(&entry.def.schema), quoted(&identity.name))))
}

/// What `pg_get_expr` gives: expressions are kept as their texts.
pub(crate) fn expression(function: &Function) -> Option<Expr> {
    argument(function, 0).cloned()
}

/// The default that a column is shown with.
pub(crate) fn default_of(def: &TableDef, column: &Column) -> Option<String> {
    match def.identity_of(column.id) {
        Some(identity) if identity.kind == IdentityKind::Serial => {
            let shown = match def.schema.as_str() {
                PUBLIC_SCHEMA => quoted(&identity.name),
                schema => format!("{}.{}", quoted(schema), quoted(&identity.name)),
            };
            Some(format!("nextval('{}'::regclass)", shown.replace('\'', "''")))
        }
        Some(_) => None,
        None => def.default_of(column.id).map(str::to_owned),
    }
}

/// The identity that a column is shown with: `a` for always, `d` for by default.
pub(crate) fn identity_of<'a>(def: &'a TableDef, column: &Column) -> Option<(&'a Identity, &'static str)> {
    let identity = def.identity_of(column.id)?;
    match identity.kind {
        IdentityKind::Always => Some((identity, "a")),
        IdentityKind::ByDefault => Some((identity, "d")),
        IdentityKind::Serial => None,
    }
}

/// Sequences with their tables, columns and numbers.
fn sequences(catalog: &Catalog) -> impl Iterator<Item = (&Arc<TableEntry>, &Column, &Identity, i64)> {
    catalog.tables().flat_map(|entry| {
        let identities = entry.def.rules.identities.iter().enumerate();
        identities.filter_map(move |(at, identity)| {
            let oid = FIRST_SEQUENCE_OID + number_of(entry.def.id.0) * SEQUENCES_MAX + at as i64;
            Some((entry, entry.def.column_by_id(identity.column)?, identity, oid))
        })
    })
}

/// The number of the sequence of a name, and the name of that of a number.
pub(crate) fn sequence_oid(catalog: &Catalog, name: &RelationName) -> Option<i64> {
    let is_it = |entry: &TableEntry, identity: &Identity| {
        identity.name == name.name && name.schema().is_none_or(|schema| schema == entry.def.schema)
    };
    sequences(catalog).find(|(entry, _, identity, _)| is_it(entry, identity)).map(|(.., oid)| oid)
}

pub(crate) fn sequence_name(catalog: &Catalog, oid: i64) -> Option<RelationName> {
    let (entry, _, identity, _) = sequences(catalog).find(|(.., known)| *known == oid)?;
    Some(RelationName::in_schema(entry.def.schema.as_str(), identity.name.as_str()))
}

/// Rows of `pg_class` for sequences.
pub(crate) fn classes(context: &CatalogContext) -> Vec<Row> {
    let catalog = &context.catalog;
    let row = |(entry, _, identity, oid): (&Arc<TableEntry>, &Column, &Identity, i64)| {
        row! {
            oid: oid, relname: identity.name.clone(), relnamespace: schema_oid(catalog, &entry.def.schema),
            relowner: i64::from(catalog.rights().owner(entry.def.id).0), relfilenode: oid, relkind: "S",
            relpersistence: persistence_in(&entry.def.schema), relnatts: 3_i64, relispopulated: true, relreplident: "n", reltuples: 1_i64,
        }
    };
    sequences(catalog).map(row).collect()
}

fn type_of(column: &Column) -> (i64, &'static str) {
    match column.data_type {
        DataType::Int16 => (21, "smallint"),
        DataType::Int32 => (23, "integer"),
        _ => (20, "bigint"),
    }
}

/// The rows of a table that defaults or sequences are rows of.
pub(crate) fn rows_of(schema: &str, table: &str) -> Option<fn(&CatalogContext) -> Vec<Row>> {
    if !is_of_defaults(schema, table) {
        return None;
    }
    Some(match table {
        "pg_attrdef" => |context| {
            let mut rows = Vec::new();
            for entry in context.catalog.tables() {
                for (at, column) in entry.def.columns.iter().enumerate() {
                    let Some(sql) = default_of(&entry.def, column) else { continue };
                    let number = at as i64 + 1;
                    rows.push(row! {
                        oid: FIRST_DEFAULT_OID + number_of(entry.def.id.0) * DEFAULTS_MAX + number,
                        adrelid: table_oid(entry.def.id.0), adnum: number, adbin: sql,
                    });
                }
            }
            rows
        },
        "pg_sequence" => |context| {
            let row = |(_, column, identity, oid): (&Arc<TableEntry>, &Column, &Identity, i64)| {
                row! {
                    seqrelid: oid, seqtypid: type_of(column).0, seqstart: identity.start,
                    seqincrement: identity.increment, seqmax: identity.maximum, seqmin: identity.minimum,
                    seqcache: i64::from(identity.cache), seqcycle: false,
                }
            };
            sequences(&context.catalog).map(row).collect()
        },
        "pg_sequences" => |context| {
            let catalog = &context.catalog;
            let row = |(entry, column, identity, _): (&Arc<TableEntry>, &Column, &Identity, i64)| {
                row! {
                    schemaname: shown_schema(&entry.def.schema), sequencename: identity.name.clone(),
                    sequenceowner: crate::rights::name(context, catalog.rights().owner(entry.def.id).0.into()),
                    data_type: type_of(column).1, start_value: identity.start, min_value: identity.minimum,
                    max_value: identity.maximum, increment_by: identity.increment, cycle: false,
                    cache_size: i64::from(identity.cache),
                    last_value: catalog.taken(entry.def.id, identity.column).unwrap_or_default(),
                }
            };
            sequences(catalog).map(row).collect()
        },
        _ => |context| {
            let row = |(entry, column, identity, _): (&Arc<TableEntry>, &Column, &Identity, i64)| {
                row! {
                    sequence_catalog: DATABASE_NAME, sequence_schema: shown_schema(&entry.def.schema), sequence_name: identity.name.clone(),
                    data_type: type_of(column).1, numeric_precision_radix: 2_i64, numeric_scale: 0_i64,
                    start_value: identity.start.to_string(), minimum_value: identity.minimum.to_string(),
                    maximum_value: identity.maximum.to_string(), increment: identity.increment.to_string(),
                    cycle_option: "NO",
                }
            };
            sequences(&context.catalog).map(row).collect()
        },
    })
}
