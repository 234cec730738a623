//! What `pg_class` lists beside users' tables: the schema `alluvia`, and the catalog itself.
//!
//! Invariant: which tables schema `alluvia` has, and with which columns, is for whoever makes their rows to say; a table's number follows
//! from its place among them.

use crate::definitions;
use crate::relations::{Attribute, PG_CATALOG_OID, ROLE_OID, Relation, SCHEMAS, SYSTEM_OID};
use crate::types::{by_name, of_column};
use alluvia_catalog::SYSTEM_SCHEMA;
use alluvia_space::DataType;
use arrow::datatypes::{Field, SchemaRef};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// System tables are numbered from here.
const FIRST_SYSTEM_OID: i64 = 16_100;

/// The tables and views that are no user's.
#[derive(Debug)]
pub struct SystemTables {
    /// Those of schema `alluvia`, with their columns.
    tables: Vec<(&'static str, SchemaRef)>,
    /// The number of the schema of each by its own, made when it is first asked for: few statements read the catalog.
    schemas: OnceLock<HashMap<i64, i64>>,
}

impl SystemTables {
    /// With these tables of schema `alluvia`, in the order of their numbers.
    pub fn new(tables: Vec<(&'static str, SchemaRef)>) -> SystemTables {
        SystemTables { tables, schemas: OnceLock::new() }
    }

    /// The number of a table of schema `alluvia`.
    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.tables.iter().position(|(known, _)| *known == name).map(|at| FIRST_SYSTEM_OID + at as i64)
    }

    /// The number of the schema of what has this number. Asked for each row of whatever a plan has not made fewer before.
    pub(crate) fn schema_of(&self, oid: i64) -> Option<i64> {
        let number = |relation: Relation| (relation.oid, relation.schema.0);
        self.schemas.get_or_init(|| self.relations().into_iter().map(number).collect()).get(&oid).copied()
    }

    /// All of them.
    pub(crate) fn relations(&self) -> Vec<Relation> {
        let system = self.tables.iter().enumerate().map(|(at, (name, schema))| {
            let attribute = |field: &Arc<Field>| {
                let known = DataType::from_field(field).unwrap_or(DataType::Text);
                let (type_oid, modifier) = of_column(known.into());
                let name = field.name().clone();
                Attribute { name, type_oid, modifier, not_null: false, default: None, identity: None }
            };
            Relation {
                oid: FIRST_SYSTEM_OID + at as i64,
                name: (*name).to_owned(),
                schema: (SYSTEM_OID, SYSTEM_SCHEMA.to_owned()),
                kind: "v",
                columns: schema.fields().iter().map(attribute).collect(),
                rows: 0,
                owner: ROLE_OID,
                has_key: false,
                checks: 0,
            }
        });
        system.chain(of_catalog()).collect()
    }
}

/// The catalog itself.
fn of_catalog() -> impl Iterator<Item = Relation> {
    // What has no number is a function there.
    let numbered = definitions::all().iter().filter(|(_, definition)| definition.oid != 0);
    numbered.map(|((schema, name), definition)| {
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
            schema: (number, (*schema).to_owned()),
            kind: if *schema == "pg_catalog" && definition.oid < 10_000 { "r" } else { "v" },
            columns: definition.columns.iter().map(attribute).collect(),
            rows: 0,
            owner: ROLE_OID,
            has_key: false,
            checks: 0,
        }
    })
}
