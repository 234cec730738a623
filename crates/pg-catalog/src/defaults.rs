//! Defaults and identity columns, as PostgreSQL's catalog has them: expressions of columns, and sequences that columns own.
//!
//! Invariants:
//! - A column that is declared SERIAL has `nextval` of its sequence for a default; an identity column has none.
//! - While there are no sequences, their tables are empty and `pg_get_serial_sequence` NULL before anything is planned.

use crate::context::{CatalogContext, Viewer};
use crate::functions::Work;
use crate::relations::{by_text, number_of, persistence_in, schema_oid, shown_schema, table_oid};
use crate::tables::{Row, row};
use alluvia_catalog::{Catalog, INFORMATION_SCHEMA, PG_CATALOG, RelationName, TableEntry};
use alluvia_space::keywords::quoted;
use alluvia_space::{Column, DataType, Identity, IdentityKind, PUBLIC_SCHEMA, TableDef};
use alluvia_syntax::names::{DATABASE_NAME, written_name};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::wrap;
use arrow::array::{ArrayRef, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType as ArrowType;
use datafusion::common::Result as PlanResult;
use datafusion::sql::sqlparser::ast::{Expr, Function};
use std::sync::Arc;

/// The function that gives the sequence of a column.
const SERIAL_SEQUENCE: &str = "pg_get_serial_sequence";

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

/// What there is of them: of what there is nothing, nothing is planned.
#[derive(Clone, Copy)]
pub(crate) struct Shown {
    /// Defaults: there are some.
    pub(crate) defaults: bool,
    /// Sequences: there are some.
    pub(crate) sequences: bool,
}

impl Shown {
    /// Of a catalog.
    pub(crate) fn of(catalog: &Catalog) -> Shown {
        let has_sequence = |entry: &Arc<TableEntry>| !entry.def.rules.identities.is_empty();
        let has_any = |entry: &Arc<TableEntry>| has_sequence(entry) || !entry.def.rules.defaults.is_empty();
        Shown { defaults: catalog.tables().any(has_any), sequences: catalog.tables().any(has_sequence) }
    }

    /// Whether a table of defaults or of sequences is empty to it.
    pub(crate) fn hides(self, schema: &str, table: &str) -> bool {
        let is_shown = if table == "pg_attrdef" { self.defaults } else { self.sequences };
        is_of_defaults(schema, table) && !is_shown
    }
}

/// The sequence that `pg_get_serial_sequence('t', 'id')` asks for.
fn serial_sequence(viewer: &Viewer, table: &str, column: &str) -> Result<Option<String>> {
    let name = written_name(table.trim());
    let Some(Ok(entry)) = name.map(|name| viewer.authoriser.relation(&name)) else {
        // Of views and of what is everybody's no column has one.
        return match by_text(viewer, table) {
            Some(_) => Ok(None),
            None => Err(Error::new(ErrorKind::UndefinedTable, format!("relation \"{table}\" does not exist"))),
        };
    };
    let Some(known) = entry.def.columns.iter().find(|known| known.name == column) else {
        let message = format!("column \"{column}\" of relation \"{}\" does not exist", entry.def.name);
        return Err(Error::new(ErrorKind::UndefinedColumn, message));
    };
    let identity = entry.def.identity_of(known.id);
    Ok(identity.map(|identity| format!("{}.{}", quoted(&entry.def.schema), quoted(&identity.name))))
}

/// Gives a statement that function.
pub(crate) fn register(
    add: &mut impl FnMut(&str, Vec<ArrowType>, ArrowType, Work) -> PlanResult<()>,
    viewer: &Viewer,
) -> PlanResult<()> {
    let asked = viewer.clone();
    let work: Work = Arc::new(move |arguments: &[ArrayRef]| {
        let (tables, columns) =
            (cast(&arguments[0], &ArrowType::Utf8View)?, cast(&arguments[1], &ArrowType::Utf8View)?);
        let named = tables.as_string_view().iter().zip(columns.as_string_view());
        let sequence = named.map(|(table, column)| match table.zip(column) {
            Some((table, column)) => serial_sequence(&asked, table, column),
            None => Ok(None),
        });
        let sequences = sequence.collect::<Result<Vec<_>>>().map_err(wrap)?;
        Ok(Arc::new(StringViewArray::from(sequences)) as ArrayRef)
    });
    add(SERIAL_SEQUENCE, vec![ArrowType::Utf8View, ArrowType::Utf8View], ArrowType::Utf8View, work)
}

/// What `pg_get_expr` gives: expressions are kept as their texts.
pub(crate) fn expression(function: &Function) -> Option<Expr> {
    crate::fold::argument(function, 0).cloned()
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
