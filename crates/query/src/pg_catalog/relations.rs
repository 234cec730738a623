//! What `pg_class` lists: users' tables, system tables, the catalog itself.

use super::defaults::{default_of, identity_of, sequence_name, sequence_oid};
use super::definitions;
use super::types::{by_name, of_column};
use crate::system;
use alluvia_catalog::Catalog;
use alluvia_space::{DataType, Identity};
use std::collections::HashMap;

/// Numbers of schemas.
pub(crate) const PG_CATALOG_OID: i64 = 11;
pub(crate) const PUBLIC_OID: i64 = 2200;
pub(crate) const INFORMATION_SCHEMA_OID: i64 = 13_000;
pub(crate) const SYSTEM_OID: i64 = 16_000;
/// The number of the first role, and of the one database.
pub(crate) const ROLE_OID: i64 = 10;
pub(crate) const DATABASE_OID: i64 = 5;
/// Users' tables are numbered from here, by their ids.
const FIRST_TABLE_OID: i64 = 16_384;
/// System tables are numbered from here.
const FIRST_SYSTEM_OID: i64 = 16_100;

/// Schemas by number.
pub(crate) const SCHEMAS: [(i64, &str); 4] = [
    (PG_CATALOG_OID, "pg_catalog"),
    (PUBLIC_OID, "public"),
    (INFORMATION_SCHEMA_OID, "information_schema"),
    (SYSTEM_OID, "alluvia"),
];

/// A table or a view.
pub(crate) struct Relation {
    pub(crate) oid: i64,
    pub(crate) name: String,
    pub(crate) schema: (i64, &'static str),
    /// `r` for tables, `v` for what is made when it is read.
    pub(crate) kind: &'static str,
    pub(crate) columns: Vec<Attribute>,
    /// How many there are; [`ROWS_UNTOLD`] to whoever may not read them.
    pub(crate) rows: i64,
    /// The number of its owner.
    pub(crate) owner: i64,
    pub(crate) has_key: bool,
    /// How many conditions it has.
    pub(crate) checks: i64,
}

/// What PostgreSQL says of a table whose rows nobody has counted.
pub(crate) const ROWS_UNTOLD: i64 = -1;

/// A column.
pub(crate) struct Attribute {
    pub(crate) name: String,
    pub(crate) type_oid: i64,
    pub(crate) modifier: i64,
    pub(crate) not_null: bool,
    pub(crate) default: Option<String>,
    /// Its sequence, and how it is generated: `a` for always, `d` for by default.
    pub(crate) identity: Option<(Identity, &'static str)>,
}

/// The number of a user's table.
pub(crate) fn table_oid(id: u32) -> i64 {
    FIRST_TABLE_OID + i64::from(id)
}

/// Users' tables; `rows` has how many rows each has.
pub(crate) fn of_users(catalog: &Catalog, rows: &HashMap<u32, i64>) -> Vec<Relation> {
    let relation = |entry: &std::sync::Arc<alluvia_catalog::TableEntry>| {
        let attribute = |column: &alluvia_space::Column| {
            let (type_oid, modifier) = of_column(column.declared_type());
            Attribute {
                name: column.name.clone(),
                type_oid,
                modifier,
                not_null: !column.nullable,
                default: default_of(&entry.def, column),
                identity: identity_of(&entry.def, column).map(|(identity, kind)| (identity.clone(), kind)),
            }
        };
        Relation {
            oid: table_oid(entry.def.id.0),
            name: entry.def.name.clone(),
            schema: (PUBLIC_OID, "public"),
            kind: "r",
            columns: entry.def.columns.iter().map(attribute).collect(),
            rows: rows.get(&entry.def.id.0).copied().unwrap_or(0),
            owner: catalog.rights().owner(entry.def.id).0.into(),
            has_key: entry.def.key.is_some(),
            checks: entry.def.rules.checks.len() as i64,
        }
    };
    catalog.tables().map(relation).collect()
}

/// System tables and the catalog.
pub(crate) fn of_system() -> Vec<Relation> {
    let system = system::TABLE_NAMES.iter().enumerate().map(|(at, name)| {
        let schema = system::schema_of(name);
        let attribute = |field: &std::sync::Arc<arrow::datatypes::Field>| {
            let known = DataType::from_field(field).unwrap_or(DataType::Text);
            let (type_oid, modifier) = of_column(known.into());
            Attribute { name: field.name().clone(), type_oid, modifier, not_null: false, default: None, identity: None }
        };
        Relation {
            oid: FIRST_SYSTEM_OID + at as i64,
            name: (*name).to_owned(),
            schema: (SYSTEM_OID, "alluvia"),
            kind: "v",
            columns: schema.iter().flat_map(|schema| schema.fields().iter().map(attribute)).collect(),
            rows: 0,
            owner: ROLE_OID,
            has_key: false,
            checks: 0,
        }
    });
    // What has no number is a function there.
    let numbered = definitions::all().iter().filter(|(_, definition)| definition.oid != 0);
    let catalog = numbered.map(|((schema, name), definition)| {
        let attribute = |(name, sql): &(&'static str, &'static str)| Attribute {
            name: (*name).to_owned(),
            type_oid: by_name(sql).unwrap_or(25),
            modifier: -1,
            not_null: false,
            default: None,
            identity: None,
        };
        let number = SCHEMAS.iter().find(|(_, known)| known == schema).map_or(PG_CATALOG_OID, |(oid, _)| *oid);
        Relation {
            oid: definition.oid,
            name: (*name).to_owned(),
            schema: (number, schema),
            kind: if *schema == "pg_catalog" && definition.oid < 10_000 { "r" } else { "v" },
            columns: definition.columns.iter().map(attribute).collect(),
            rows: 0,
            owner: ROLE_OID,
            has_key: false,
            checks: 0,
        }
    });
    system.chain(catalog).collect()
}

/// The number that a name stands for, as `'name'::regclass` asks: with its schema or without.
pub(crate) fn by_text(catalog: &Catalog, text: &str) -> Option<i64> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let parts: Vec<String> = text
        .split('.')
        .map(|part| match part.trim().strip_prefix('"').and_then(|inner| inner.strip_suffix('"')) {
            Some(quoted) => quoted.to_owned(),
            None => part.trim().to_ascii_lowercase(),
        })
        .collect();
    let of_user = |name: &str| {
        let table = catalog.tables().find(|entry| entry.def.name == name).map(|entry| table_oid(entry.def.id.0));
        table.or_else(|| sequence_oid(catalog, name))
    };
    let of_catalog = |schema: &str, name: &str| definitions::find(schema, name).map(|definition| definition.oid);
    match parts.as_slice() {
        [name] => of_user(name).or_else(|| of_catalog("pg_catalog", name)),
        [schema, name] if schema == "public" => of_user(name),
        [schema, name] if schema == "alluvia" => {
            system::TABLE_NAMES.iter().position(|known| known == name).map(|at| FIRST_SYSTEM_OID + at as i64)
        }
        [schema, name] => of_catalog(schema, name),
        _ => None,
    }
}

/// The name that a number stands for, with its schema where that is not looked through.
pub(crate) fn text_of(catalog: &Catalog, oid: i64) -> Option<String> {
    let entry = catalog.tables().find(|entry| table_oid(entry.def.id.0) == oid);
    if let Some(entry) = entry {
        return Some(entry.def.name.clone());
    }
    if let Some(name) = sequence_name(catalog, oid) {
        return Some(name);
    }
    of_system().into_iter().find(|relation| relation.oid == oid).map(|relation| match relation.schema.1 {
        "pg_catalog" => relation.name,
        schema => format!("{schema}.{}", relation.name),
    })
}
