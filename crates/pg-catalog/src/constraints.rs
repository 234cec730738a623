//! Indexes and constraints of tables, as PostgreSQL's catalog has them.
//!
//! Invariant: their numbers follow from their table's, and from their places among the table's own.

use crate::context::CatalogContext;
use crate::keys::is_of_keys;
use crate::relations::{number_of, persistence_in, schema_oid, shown_schema, table_oid};
use crate::tables::{Row, row};
use alluvia_catalog::{Catalog, TableEntry};
use alluvia_change::conflict::key_name;
use alluvia_space::keywords::quoted;
use alluvia_space::{Check, ForeignKey, Index};
use alluvia_syntax::names::DATABASE_NAME;
use alluvia_types::ColumnId;
use std::sync::Arc;

/// Indexes of primary keys are numbered from here, by their tables.
const FIRST_INDEX_OID: i64 = 1 << 30;
/// And their constraints from here.
const FIRST_CONSTRAINT_OID: i64 = FIRST_INDEX_OID + (1 << 29);
/// Conditions from here, so many a table; and as many each of other indexes, of their constraints, of foreign keys.
const FIRST_CHECK_OID: i64 = 1 << 31;
const FIRST_OTHER_INDEX_OID: i64 = FIRST_CHECK_OID + (1 << 28);
const FIRST_UNIQUE_OID: i64 = FIRST_CHECK_OID + (2 << 28);
const FIRST_FOREIGN_KEY_OID: i64 = FIRST_CHECK_OID + (3 << 28);
const OF_TABLE_MAX: i64 = 1 << 8;

/// An index.
struct Indexed<'a> {
    entry: &'a Arc<TableEntry>,
    oid: i64,
    name: String,
    columns: &'a [ColumnId],
    unique: bool,
    primary: bool,
    /// The number of the constraint that it is of, if it is of one.
    constraint: Option<i64>,
}

impl Indexed<'_> {
    fn places(&self) -> Vec<i64> {
        places_of(self.entry, self.columns)
    }

    fn sql(&self) -> String {
        let index = Index {
            name: self.name.clone(),
            columns: self.columns.to_vec(),
            unique: self.unique,
            is_constraint: false,
        };
        self.entry.def.index_sql(&index)
    }
}

/// A constraint.
struct Constraint<'a> {
    entry: &'a Arc<TableEntry>,
    oid: i64,
    name: String,
    kind: ConstraintKind<'a>,
}

enum ConstraintKind<'a> {
    Key(Indexed<'a>),
    Check(&'a Check),
    Foreign(&'a ForeignKey),
}

impl Constraint<'_> {
    fn columns(&self) -> &[ColumnId] {
        match &self.kind {
            ConstraintKind::Key(index) => index.columns,
            ConstraintKind::Check(check) => &check.columns,
            ConstraintKind::Foreign(key) => &key.columns,
        }
    }

    /// As the standard's views and `pg_constraint` call its kind.
    fn kinds(&self) -> (&'static str, &'static str) {
        match &self.kind {
            ConstraintKind::Key(index) if index.primary => ("PRIMARY KEY", "p"),
            ConstraintKind::Key(_) => ("UNIQUE", "u"),
            ConstraintKind::Check(_) => ("CHECK", "c"),
            ConstraintKind::Foreign(_) => ("FOREIGN KEY", "f"),
        }
    }
}

fn numbered(first: i64, entry: &TableEntry, at: usize) -> i64 {
    first + number_of(entry.def.id.0) * OF_TABLE_MAX + at as i64
}

/// The indexes of a table, that of its primary key first.
fn indexes_of(entry: &Arc<TableEntry>) -> impl Iterator<Item = Indexed<'_>> {
    let number = number_of(entry.def.id.0);
    let of_key = entry.def.key.as_ref().map(|key| Indexed {
        entry,
        oid: FIRST_INDEX_OID + number,
        name: key_name(&entry.def),
        columns: &key.columns,
        unique: true,
        primary: true,
        constraint: Some(FIRST_CONSTRAINT_OID + number),
    });
    of_key.into_iter().chain(entry.def.indexes.iter().enumerate().map(move |(at, index)| Indexed {
        entry,
        oid: numbered(FIRST_OTHER_INDEX_OID, entry, at),
        name: index.name.clone(),
        columns: &index.columns,
        unique: index.unique,
        primary: false,
        constraint: index.is_constraint.then(|| numbered(FIRST_UNIQUE_OID, entry, at)),
    }))
}

fn indexes(catalog: &Catalog) -> impl Iterator<Item = Indexed<'_>> {
    catalog.tables().flat_map(indexes_of)
}

fn constraints(catalog: &Catalog) -> impl Iterator<Item = Constraint<'_>> {
    catalog.tables().flat_map(|entry| {
        let keys = indexes_of(entry).filter_map(move |index| {
            Some(Constraint {
                entry,
                oid: index.constraint?,
                name: index.name.clone(),
                kind: ConstraintKind::Key(index),
            })
        });
        let checks = entry.def.rules.checks.iter().enumerate().map(move |(at, check)| Constraint {
            entry,
            oid: numbered(FIRST_CHECK_OID, entry, at),
            name: check.name.clone(),
            kind: ConstraintKind::Check(check),
        });
        let foreign = entry.def.foreign_keys.iter().enumerate().map(move |(at, key)| Constraint {
            entry,
            oid: numbered(FIRST_FOREIGN_KEY_OID, entry, at),
            name: key.name.clone(),
            kind: ConstraintKind::Foreign(key),
        });
        keys.chain(checks).chain(foreign)
    })
}

/// The index by which a foreign key refers.
fn index_referred<'a>(catalog: &'a Catalog, key: &ForeignKey) -> Option<Indexed<'a>> {
    let alike = |columns: &[ColumnId]| {
        columns.len() == key.parent_columns.len() && columns.iter().all(|id| key.parent_columns.contains(id))
    };
    indexes_of(catalog.by_id(key.parent)?).find(|index| index.unique && alike(index.columns))
}

/// The places of columns among their table's, from 1 on.
fn places_of(entry: &TableEntry, columns: &[ColumnId]) -> Vec<i64> {
    let place = |id: &ColumnId| entry.def.columns.iter().position(|column| column.id == *id);
    columns.iter().filter_map(place).map(|at| at as i64 + 1).collect()
}

/// What makes an index, or the name of one of its columns, from 1 on.
pub(crate) fn index_text(catalog: &Catalog, oid: i64, column: i64) -> Option<String> {
    let index = indexes(catalog).find(|index| index.oid == oid)?;
    if column > 0 {
        let id = usize::try_from(column - 1).ok().and_then(|at| index.columns.get(at))?;
        return index.entry.def.column_by_id(*id).map(|column| quoted(&column.name));
    }
    Some(index.sql())
}

/// What a constraint says.
pub(crate) fn constraint_text(catalog: &Catalog, oid: i64) -> Option<String> {
    let constraint = constraints(catalog).find(|constraint| constraint.oid == oid)?;
    let def = &constraint.entry.def;
    Some(match &constraint.kind {
        ConstraintKind::Key(index) => format!("{} ({})", constraint.kinds().0, def.listed(index.columns)),
        ConstraintKind::Check(check) => format!("CHECK ({})", check.sql),
        ConstraintKind::Foreign(key) => def.foreign_key_sql(key, &catalog.by_id(key.parent)?.def),
    })
}

/// Rows of `pg_class` for indexes.
pub(crate) fn classes(context: &CatalogContext) -> Vec<Row> {
    let row = |index: Indexed<'_>| {
        let def = &index.entry.def;
        row! {
            oid: index.oid, relname: index.name.clone(), relnamespace: schema_oid(&context.catalog, &def.schema),
            relowner: i64::from(context.catalog.rights().owner(def.id).0), relfilenode: index.oid, relam: BTREE_OID,
            relkind: "i", relpersistence: persistence_in(&def.schema), relnatts: index.columns.len() as i64,
            relispopulated: true, relreplident: "n", reltuples: crate::relations::ROWS_UNTOLD,
        }
    };
    indexes(&context.catalog).map(row).collect()
}

/// PostgreSQL's number of the access method `btree`.
pub(crate) const BTREE_OID: i64 = 403;

/// The rows of a table that keys are rows of.
pub(crate) fn rows_of(schema: &str, table: &str) -> Option<fn(&CatalogContext) -> Vec<Row>> {
    if !is_of_keys(schema, table) {
        return None;
    }
    Some(match table {
        "pg_index" => |context| {
            let row = |index: Indexed<'_>| {
                let columns = index.columns.len() as i64;
                row! {
                    indexrelid: index.oid, indrelid: table_oid(index.entry.def.id.0), indnatts: columns,
                    indnkeyatts: columns, indisunique: index.unique, indisprimary: index.primary, indimmediate: true,
                    indisvalid: true, indisready: true, indislive: true, indkey: index.places(),
                    indoption: vec![0_i64; index.columns.len()], indclass: vec![0_i64; index.columns.len()],
                    indcollation: vec![0_i64; index.columns.len()],
                }
            };
            indexes(&context.catalog).map(row).collect()
        },
        "pg_constraint" => |context| {
            let catalog = &context.catalog;
            constraints(catalog).map(|constraint| pg_constraint(catalog, &constraint)).collect()
        },
        "pg_indexes" => |context| {
            let row = |index: Indexed<'_>| {
                row! {
                    schemaname: shown_schema(&index.entry.def.schema), tablename: index.entry.def.name.clone(),
                    indexname: index.name.clone(), indexdef: index.sql(),
                }
            };
            indexes(&context.catalog).map(row).collect()
        },
        "table_constraints" => |context| {
            let row = |constraint: Constraint<'_>| {
                let said = |is: bool| if is { "YES" } else { "NO" };
                let (deferrable, deferred) = match &constraint.kind {
                    ConstraintKind::Foreign(key) => (key.deferrable, key.initially_deferred),
                    _ => (false, false),
                };
                let mut row = row! {
                    constraint_type: constraint.kinds().0, is_deferrable: said(deferrable),
                    initially_deferred: said(deferred), enforced: "YES",
                };
                row.extend(named(constraint.entry, &constraint.name));
                row
            };
            constraints(&context.catalog).map(row).collect()
        },
        "check_constraints" => |context| {
            let row = |constraint: Constraint<'_>| {
                let ConstraintKind::Check(check) = constraint.kind else { return None };
                Some(row! {
                    constraint_catalog: DATABASE_NAME, constraint_schema: shown_schema(&constraint.entry.def.schema),
                    constraint_name: check.name.clone(), check_clause: check.sql.clone(),
                })
            };
            constraints(&context.catalog).filter_map(row).collect()
        },
        "referential_constraints" => |context| {
            let row = |constraint: Constraint<'_>| {
                let ConstraintKind::Foreign(key) = constraint.kind else { return None };
                let referred = index_referred(&context.catalog, key)?;
                Some(row! {
                    constraint_catalog: DATABASE_NAME, constraint_schema: shown_schema(&constraint.entry.def.schema),
                    constraint_name: key.name.clone(), unique_constraint_catalog: DATABASE_NAME,
                    unique_constraint_schema: shown_schema(&referred.entry.def.schema),
                    unique_constraint_name: referred.name.clone(), match_option: "NONE",
                    update_rule: key.on_update.sql(), delete_rule: key.on_delete.sql(),
                })
            };
            constraints(&context.catalog).filter_map(row).collect()
        },
        "key_column_usage" => |context| {
            let keys =
                constraints(&context.catalog).filter(|constraint| !matches!(constraint.kind, ConstraintKind::Check(_)));
            keys.flat_map(|constraint| key_columns(&context.catalog, &constraint)).collect()
        },
        "constraint_column_usage" => |context| {
            let keys =
                constraints(&context.catalog).filter(|constraint| !matches!(constraint.kind, ConstraintKind::Check(_)));
            keys.flat_map(|constraint| used_columns(&context.catalog, &constraint)).collect()
        },
        _ => return None,
    })
}

fn pg_constraint(catalog: &Catalog, constraint: &Constraint<'_>) -> Row {
    let entry = constraint.entry;
    let mut row = row! {
        oid: constraint.oid, conname: constraint.name.clone(), connamespace: schema_oid(catalog, &entry.def.schema),
        contype: constraint.kinds().1, convalidated: true, conrelid: table_oid(entry.def.id.0), conislocal: true,
        connoinherit: !matches!(constraint.kind, ConstraintKind::Check(_)), confupdtype: " ", confdeltype: " ", confmatchtype: " ",
        conkey: places_of(entry, constraint.columns()),
    };
    match &constraint.kind {
        ConstraintKind::Key(index) => row.extend(row! { conindid: index.oid }),
        ConstraintKind::Check(check) => row.extend(row! { conbin: check.sql.clone() }),
        ConstraintKind::Foreign(key) => {
            row.extend(row! {
                condeferrable: key.deferrable, condeferred: key.initially_deferred, confmatchtype: "s",
                conindid: index_referred(catalog, key).map_or(0, |index| index.oid),
                confrelid: table_oid(key.parent.0), confupdtype: key.on_update.letter(),
                confdeltype: key.on_delete.letter(),
            });
            if let Some(parent) = catalog.by_id(key.parent) {
                row.extend(row! { confkey: places_of(parent, &key.parent_columns) });
            }
        }
    }
    row
}

/// A constraint and its table, as the standard's views name them.
fn named(entry: &TableEntry, name: &str) -> Row {
    row! {
        constraint_catalog: DATABASE_NAME, constraint_schema: shown_schema(&entry.def.schema), constraint_name: name,
        table_catalog: DATABASE_NAME, table_schema: shown_schema(&entry.def.schema), table_name: entry.def.name.clone(),
    }
}

fn key_columns(catalog: &Catalog, constraint: &Constraint<'_>) -> Vec<Row> {
    let entry = constraint.entry;
    let referred = match &constraint.kind {
        ConstraintKind::Foreign(key) => index_referred(catalog, key).map(|index| (index.columns, *key)),
        _ => None,
    };
    let row = |(at, id): (usize, &ColumnId)| {
        let column = entry.def.column_by_id(*id)?;
        let mut row = row! { column_name: column.name.clone(), ordinal_position: at as i64 + 1 };
        if let Some((columns, key)) = referred
            && let Some(place) = key.parent_columns.get(at).and_then(|id| columns.iter().position(|known| known == id))
        {
            row.extend(row! { position_in_unique_constraint: place as i64 + 1 });
        }
        row.extend(named(entry, &constraint.name));
        Some(row)
    };
    constraint.columns().iter().enumerate().filter_map(row).collect()
}

/// The columns that a constraint needs: of a foreign key those that it refers to.
fn used_columns(catalog: &Catalog, constraint: &Constraint<'_>) -> Vec<Row> {
    let (table, columns) = match &constraint.kind {
        ConstraintKind::Foreign(key) => (catalog.by_id(key.parent), key.parent_columns.as_slice()),
        _ => (Some(constraint.entry), constraint.columns()),
    };
    let Some(table) = table else { return Vec::new() };
    let row = |id: &ColumnId| {
        let column = table.def.column_by_id(*id)?;
        let mut row = named(constraint.entry, &constraint.name);
        row.extend(row! {
            table_schema: shown_schema(&table.def.schema), table_name: table.def.name.clone(),
            column_name: column.name.clone(),
        });
        Some(row)
    };
    columns.iter().filter_map(row).collect()
}
