//! The catalog as the manifest keeps it.
//!
//! Invariant: what there is none of is left out, so that a catalog that uses nothing new is stored as it was before.

use super::{Catalog, CommentOn, PUBLIC_SCHEMA_ID, SchemaEntry, TableEntry};
use crate::rights::Rights;
use crate::routine::{RoutineDef, RoutineEntry};
use crate::view::{ViewDef, ViewEntry};
use alluvia_space::TableDef;
use alluvia_types::{ColumnId, TableId, Version};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A catalog as the manifest keeps it.
#[derive(Serialize, Deserialize)]
pub(super) struct Stored {
    version: Version,
    tables: Vec<StoredTable>,
    /// Left out where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    views: Vec<StoredView>,
    /// Left out where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    procedures: Vec<StoredRoutine>,
    /// All but `public`: left out where there are no others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    schemas: Vec<StoredSchema>,
    /// Left out while they are those of a new database, as they are in manifests up to version 02.
    #[serde(default, skip_serializing_if = "Rights::is_default")]
    rights: Rights,
    /// Left out while nothing is taken of any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sequences: Vec<StoredSequence>,
    /// Left out while there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    comments: Vec<StoredComment>,
}

/// A comment.
#[derive(Serialize, Deserialize)]
struct StoredComment {
    on: CommentOn,
    text: String,
}

/// A schema without its relations, which name it.
#[derive(Serialize, Deserialize)]
struct StoredSchema {
    id: TableId,
    name: String,
}

/// What is taken of a sequence.
#[derive(Serialize, Deserialize)]
struct StoredSequence {
    table: TableId,
    column: ColumnId,
    through: i64,
}

#[derive(Serialize, Deserialize)]
struct StoredTable {
    changed_at: Version,
    def: TableDef,
}

#[derive(Serialize, Deserialize)]
struct StoredView {
    changed_at: Version,
    def: ViewDef,
}

#[derive(Serialize, Deserialize)]
struct StoredRoutine {
    changed_at: Version,
    def: RoutineDef,
}

impl From<Catalog> for Stored {
    fn from(catalog: Catalog) -> Stored {
        let stored =
            |entry: &Arc<TableEntry>| StoredTable { changed_at: entry.changed_at, def: TableDef::clone(&entry.def) };
        let tables = catalog.by_id.values().map(stored).collect();
        let taken = catalog.sequences.iter();
        let sequences = taken.map(|(&(table, column), &through)| StoredSequence { table, column, through }).collect();
        let schemas = catalog.schemas.iter().filter(|(_, entry)| entry.id != PUBLIC_SCHEMA_ID);
        let schemas = schemas.map(|(name, entry)| StoredSchema { id: entry.id, name: name.clone() }).collect();
        let stored = |view: &Arc<ViewEntry>| StoredView { changed_at: view.changed_at, def: ViewDef::clone(&view.def) };
        let views = catalog.views.values().map(stored).collect();
        let stored = |routine: &Arc<RoutineEntry>| StoredRoutine {
            changed_at: routine.changed_at,
            def: RoutineDef::clone(&routine.def),
        };
        let procedures = catalog.routines.values().map(stored).collect();
        let comment = |(on, text): (&CommentOn, &str)| StoredComment { on: on.clone(), text: text.to_owned() };
        let comments = catalog.comments().map(comment).collect();
        Stored {
            version: catalog.version,
            tables,
            views,
            procedures,
            schemas,
            rights: Arc::unwrap_or_clone(catalog.rights),
            sequences,
            comments,
        }
    }
}

impl TryFrom<Stored> for Catalog {
    type Error = String;

    fn try_from(stored: Stored) -> Result<Catalog, String> {
        let mut catalog = Catalog { version: stored.version, rights: Arc::new(stored.rights), ..Catalog::default() };
        for StoredSchema { id, name } in stored.schemas {
            if catalog.schema_name(id).is_some() || catalog.schemas.contains_key(&name) {
                return Err(format!("two schemas are named '{name}' or have id {id}"));
            }
            catalog.schemas.insert(name, SchemaEntry::new(id));
        }
        for table in stored.tables {
            let (id, schema, name) = (table.def.id, &table.def.schema, &table.def.name);
            if !catalog.schemas.contains_key(schema) {
                return Err(format!("table '{name}' is in schema '{schema}', which does not exist"));
            }
            let is_there = catalog.by_id.contains_key(&id) || catalog.schema_name(id).is_some();
            if is_there || catalog.in_schema(schema, name).is_some() {
                return Err(format!("two tables of schema '{schema}' are named '{name}' or have id {id}"));
            }
            catalog.put(table.changed_at, &table.def);
        }
        for view in stored.views {
            let (id, schema, name) = (view.def.id, &view.def.schema, &view.def.name);
            if !catalog.schemas.contains_key(schema) {
                return Err(format!("view '{name}' is in schema '{schema}', which does not exist"));
            }
            let is_there = catalog.check_new(id, name).is_err() || catalog.id_in_schema(schema, name).is_some();
            if is_there {
                return Err(format!("two relations are named '{schema}.{name}' or have id {id}"));
            }
            catalog.put_view(view.changed_at, &view.def);
        }
        if let Some(view) = catalog.views.values().find(|view| catalog.check_reads(&view.def).is_err()) {
            return Err(format!("view '{}' reads what is not there", view.def.name));
        }
        for routine in stored.procedures {
            let RoutineDef { id, schema, name, .. } = &routine.def;
            let Ok(there) = catalog.schema(schema) else {
                return Err(format!("procedure '{name}' is in schema '{schema}', which does not exist"));
            };
            if catalog.check_new(*id, name).is_err() || there.routines.contains_key(name) {
                return Err(format!("two procedures are named '{schema}.{name}', or id {id} is another's"));
            }
            catalog.keep_routine(routine.changed_at, &routine.def);
        }
        let taken = stored.sequences.into_iter();
        let taken = taken.map(|StoredSequence { table, column, through }| ((table, column), through)).collect();
        catalog.sequences = Arc::new(taken);
        let comments = stored.comments.into_iter().map(|StoredComment { on, text }| (on, text));
        catalog.comments = Arc::new(comments.collect());
        Ok(catalog)
    }
}
