//! What `pg_class` lists, its numbers and its names: users' tables here, what is everybody's in [`system_tables`](crate::system_tables).

use crate::context::Viewer;
use crate::defaults::{default_of, identity_of, sequence_name, sequence_oid};
use crate::definitions;
use crate::types::of_column;
use alluvia_catalog::rights::{BOOTSTRAP, RoleId};
use alluvia_catalog::{
    Catalog, PG_CATALOG, PUBLIC_SCHEMA_ID, RelationName, SYSTEM_SCHEMA, TEMPORARY_IDS, TEMPORARY_SCHEMA,
    TEMPORARY_SCHEMA_ID, TEMPORARY_SCHEMA_SHOWN,
};
use alluvia_space::Identity;
use alluvia_space::keywords::quoted;
use alluvia_syntax::names::written_name;
use alluvia_types::TableId;
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
/// A session's own relations are numbered from here, after their schema.
const FIRST_OWN_NUMBER: i64 = 300_000;

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
    pub(crate) schema: (i64, String),
    /// `r` for tables, `v` for what is made when it is read.
    pub(crate) kind: &'static str,
    pub(crate) columns: Vec<Attribute>,
    /// How many there are; [`ROWS_UNTOLD`] to whoever may not read them.
    pub(crate) rows: i64,
    /// The number of its owner.
    pub(crate) owner: i64,
    /// Whether it has a primary key or an index.
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

impl Relation {
    /// Whether it is a user's.
    pub(crate) fn is_of_user(&self) -> bool {
        self.oid >= FIRST_TABLE_OID
    }

    /// Whether it is the session's own.
    pub(crate) fn is_temporary(&self) -> bool {
        self.schema.1 == TEMPORARY_SCHEMA_SHOWN
    }
}

/// All schemas, by number, name and owner.
pub(crate) fn schemas(catalog: &Catalog) -> Vec<(i64, String, RoleId)> {
    let of_system = SCHEMAS.iter().filter(|(oid, _)| *oid != PUBLIC_OID);
    let of_system = of_system.map(|(oid, name)| (*oid, (*name).to_owned(), BOOTSTRAP));
    let of_users = catalog
        .schemas()
        .map(|(name, entry)| (number_of_schema(entry.id), shown_schema(name), catalog.rights().owner(entry.id)));
    let mut schemas: Vec<_> = of_system.chain(of_users).collect();
    schemas.sort_unstable();
    schemas
}

/// The number of a schema of users by its name.
pub(crate) fn schema_oid(catalog: &Catalog, name: &str) -> i64 {
    catalog.schema(name).map_or(PUBLIC_OID, |entry| number_of_schema(entry.id))
}

/// The number of the session's schema of temporary tables; 0 if it has none.
pub(crate) fn temporary_schema_oid(catalog: &Catalog) -> i64 {
    catalog.schema(TEMPORARY_SCHEMA).map_or(0, |entry| number_of_schema(entry.id))
}

/// How long what is in a schema lasts: `t` for as long as the session, `p` for longer.
pub(crate) fn persistence_in(schema: &str) -> &'static str {
    if schema == TEMPORARY_SCHEMA { "t" } else { "p" }
}

/// What catalogs call a schema of users.
pub(crate) fn shown_schema(name: &str) -> String {
    if name == TEMPORARY_SCHEMA { TEMPORARY_SCHEMA_SHOWN.to_owned() } else { name.to_owned() }
}

/// The number of a schema of users.
pub(crate) fn number_of_schema(id: TableId) -> i64 {
    if id == PUBLIC_SCHEMA_ID { PUBLIC_OID } else { table_oid(id.0) }
}

/// The number of any schema.
pub(crate) fn schema_by_name(catalog: &Catalog, name: &str) -> Option<i64> {
    if name == TEMPORARY_SCHEMA_SHOWN {
        return Some(temporary_schema_oid(catalog)).filter(|oid| *oid != 0);
    }
    let of_system = || SCHEMAS.iter().find(|(_, known)| *known == name).map(|(oid, _)| *oid);
    catalog.schema(name).ok().map(|entry| number_of_schema(entry.id)).or_else(of_system)
}

/// The name of any schema.
pub(crate) fn schema_name(catalog: &Catalog, oid: i64) -> Option<String> {
    let of_system = || SCHEMAS.iter().find(|(known, _)| *known == oid).map(|(_, name)| (*name).to_owned());
    let mut of_users = catalog.schemas().filter(|(_, entry)| number_of_schema(entry.id) == oid);
    of_users.next().map(|(name, _)| shown_schema(name)).or_else(of_system)
}

/// The number of a user's table.
pub fn table_oid(id: u32) -> i64 {
    FIRST_TABLE_OID + number_of(id)
}

/// By which number catalogs know an id: those of a session's own stand far above, and would leave no room behind.
pub(crate) fn number_of(id: u32) -> i64 {
    match id.checked_sub(TEMPORARY_SCHEMA_ID.0) {
        Some(own) => FIRST_OWN_NUMBER + i64::from(own),
        None => i64::from(id),
    }
}

/// The id that has such a number.
pub(crate) fn id_of_number(number: i64) -> Option<u32> {
    match u32::try_from(number - FIRST_OWN_NUMBER) {
        Ok(own) if own <= TEMPORARY_IDS => Some(TEMPORARY_SCHEMA_ID.0 + own),
        _ => u32::try_from(number).ok(),
    }
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
                not_null: !entry.def.takes_null(column),
                default: default_of(&entry.def, column),
                identity: identity_of(&entry.def, column).map(|(identity, kind)| (identity.clone(), kind)),
            }
        };
        Relation {
            oid: table_oid(entry.def.id.0),
            name: entry.def.name.clone(),
            schema: (schema_oid(catalog, &entry.def.schema), shown_schema(&entry.def.schema)),
            kind: "r",
            columns: entry.def.columns.iter().map(attribute).collect(),
            rows: rows.get(&entry.def.id.0).copied().unwrap_or(0),
            owner: catalog.rights().owner(entry.def.id).0.into(),
            has_key: entry.def.key.is_some() || !entry.def.indexes.is_empty(),
            checks: entry.def.rules.checks.len() as i64,
        }
    };
    let of_views = catalog.views().map(|view| crate::views::relation(catalog, view));
    catalog.tables().map(relation).chain(of_views).collect()
}

/// The number that a name stands for, as `'name'::regclass` asks: with its schema or without.
pub(crate) fn by_text(viewer: &Viewer, text: &str) -> Option<i64> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let name = written_name(text.trim())?;
    match name.schema() {
        Some(schema) => in_schema(viewer, schema, &name.name),
        None => {
            let found = viewer.authoriser.path().schemas().find_map(|schema| in_schema(viewer, schema, &name.name));
            found.or_else(|| in_schema(viewer, PG_CATALOG, &name.name))
        }
    }
}

/// The number of what is called so in a schema.
fn in_schema(viewer: &Viewer, schema: &str, name: &str) -> Option<i64> {
    if schema == SYSTEM_SCHEMA {
        return viewer.system.number(name);
    }
    let catalog = viewer.authoriser.catalog();
    let table = catalog.id_in_schema(schema, name).map(|id| table_oid(id.0));
    let of_users = table.or_else(|| sequence_oid(catalog, &RelationName::in_schema(schema, name)));
    of_users.or_else(|| definitions::find(schema, name).map(|definition| definition.oid))
}

/// The table or the view of this number.
fn user_relation(catalog: &Catalog, oid: i64) -> Option<RelationName> {
    let id = id_of_number(oid - FIRST_TABLE_OID)?;
    catalog.relation_now(TableId(id)).map(|(name, _)| name)
}

/// The name that a number stands for, with its schema where it is not found without.
pub(crate) fn text_of(viewer: &Viewer, oid: i64) -> Option<String> {
    let catalog = viewer.authoriser.catalog();
    let of_user = user_relation(catalog, oid);
    let named = of_user.or_else(|| sequence_name(catalog, oid)).or_else(|| {
        let of_system = viewer.system.relations().into_iter().find(|relation| relation.oid == oid)?;
        Some(RelationName::in_schema(of_system.schema.1, of_system.name))
    })?;
    Some(if is_visible(viewer, oid) { quoted(&named.name) } else { named.to_string() })
}

/// Whether what has this number is found without its schema.
pub(crate) fn is_visible(viewer: &Viewer, oid: i64) -> bool {
    let (catalog, path) = (viewer.authoriser.catalog(), viewer.authoriser.path());
    let of_user = user_relation(catalog, oid).map(|name| name.name);
    if let Some(name) = of_user.or_else(|| sequence_name(catalog, oid).map(|name| name.name)) {
        let mut found = path.schemas().filter_map(|schema| in_schema(viewer, schema, &name));
        return found.next() == Some(oid);
    }
    match viewer.system.schema_of(oid) {
        Some(PG_CATALOG_OID) => true,
        Some(schema) => {
            let name = SCHEMAS.iter().find(|(known, _)| *known == schema).map(|(_, name)| *name);
            name.is_some_and(|name| path.schemas().any(|known| known == name))
        }
        None => false,
    }
}
