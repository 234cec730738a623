//! Procedures that users have made: their definitions, and which there are.
//!
//! Invariants:
//! - There is one procedure of a name in a schema. Names of procedures and of relations do not meet.
//! - A definition keeps its CREATE as text, from behind the name on: a schema or a procedure may get another name. What it says is
//!   compiled where it is run; no tree of it is kept.
//! - A procedure depends on nothing, and nothing on it but its schema: what it names is looked up when it runs.

use crate::authoriser::Need;
use crate::catalog::{Catalog, conflict};
use crate::{RelationName, SearchPath};
use alluvia_space::PUBLIC_SCHEMA;
use alluvia_space::keywords::quoted;
use alluvia_types::{Error, ErrorKind, Result, TableId, Version};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The definition of a procedure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RoutineDef {
    /// Its id, which is one of tables' ids.
    pub id: TableId,
    /// The schema that it is in.
    pub schema: String,
    /// Its name, of its schema's procedures its own.
    pub name: String,
    /// What stands behind the name in its CREATE PROCEDURE: `(a INT) LANGUAGE plpgsql AS $$ ... $$`.
    pub sql: String,
}

impl RoutineDef {
    /// The statement that makes it.
    pub fn show_create(&self) -> String {
        format!("CREATE OR REPLACE PROCEDURE {}.{}{}", quoted(&self.schema), quoted(&self.name), self.sql)
    }

    /// Its name as a statement says it where the search path is the default one.
    pub fn shown(&self) -> String {
        let name = RelationName::in_schema(self.schema.as_str(), self.name.as_str());
        if self.schema == PUBLIC_SCHEMA { quoted(&self.name) } else { name.to_string() }
    }
}

/// A procedure at some version.
#[derive(Clone, PartialEq, Debug)]
pub struct RoutineEntry {
    /// What the procedure is.
    pub def: Arc<RoutineDef>,
    /// The version that made it so.
    pub changed_at: Version,
}

impl Catalog {
    /// The procedure that a name means, where names without a schema are looked up along `path`.
    pub fn routine(&self, name: &RelationName, path: &SearchPath) -> Option<&Arc<RoutineEntry>> {
        let within = |schema: &str| self.routines.get(&self.routine_id(schema, &name.name)?);
        match name.schema() {
            Some(schema) => within(schema),
            None => path.schemas().find_map(within),
        }
    }

    /// The procedure of that id, unless it was dropped.
    pub fn routine_by_id(&self, id: TableId) -> Option<&Arc<RoutineEntry>> {
        self.routines.get(&id)
    }

    /// All procedures, in the order of their schemas' names and their own.
    pub fn routines(&self) -> impl Iterator<Item = &Arc<RoutineEntry>> {
        let ids = self.schemas().flat_map(|(_, schema)| schema.routines.values());
        ids.filter_map(|id| self.routines.get(id))
    }

    /// The procedures of a schema, in name order; none if there is no such schema.
    pub fn routines_in(&self, schema: &str) -> impl Iterator<Item = &Arc<RoutineEntry>> {
        let ids = self.schema(schema).ok().into_iter().flat_map(|schema| schema.routines.values());
        ids.filter_map(|id| self.routines.get(id))
    }

    fn routine_id(&self, schema: &str, name: &str) -> Option<TableId> {
        self.schema(schema).ok()?.routines.get(name).copied()
    }

    pub(crate) fn put_routine(&mut self, version: Version, def: &RoutineDef, was: Option<Version>) -> Result<()> {
        if self.schema(&def.schema).is_err() {
            return Err(conflict(format!("schema '{}' was dropped by another batch", def.schema)));
        }
        let taken = self.routine_id(&def.schema, &def.name).filter(|id| *id != def.id);
        if taken.is_some() {
            let message = format!("procedure '{}' already exists", def.shown());
            return Err(Error::new(ErrorKind::DuplicateFunction, message)
                .with_hint("choose another name, or write CREATE OR REPLACE PROCEDURE"));
        }
        match (self.routines.get(&def.id), was) {
            (None, None) => self.check_new(def.id, &def.name)?,
            (Some(entry), Some(was)) if entry.changed_at == was || entry.changed_at == version => {
                let (schema, name) = (entry.def.schema.clone(), entry.def.name.clone());
                self.free_routine(&schema, &name);
            }
            _ => return Err(conflict(format!("procedure '{}' was changed by another batch", def.name))),
        }
        self.keep_routine(version, def);
        Ok(())
    }

    pub(crate) fn drop_routine(&mut self, id: TableId) -> Result<()> {
        let Some(entry) = self.routines.get(&id).cloned() else {
            return Err(conflict(format!("procedure number {id} was dropped by another batch")));
        };
        Arc::make_mut(&mut self.routines).remove(&id);
        self.free_routine(&entry.def.schema, &entry.def.name);
        self.forget_rights(id);
        Ok(())
    }

    /// Its schema must be there.
    pub(crate) fn keep_routine(&mut self, version: Version, def: &RoutineDef) {
        if let Some(schema) = self.schema_mut(&def.schema) {
            schema.routines.insert(def.name.clone(), def.id);
        }
        let entry = RoutineEntry { def: Arc::new(def.clone()), changed_at: version };
        Arc::make_mut(&mut self.routines).insert(def.id, Arc::new(entry));
    }

    fn free_routine(&mut self, schema: &str, name: &str) {
        if let Some(schema) = self.schema_mut(schema) {
            schema.routines.remove(name);
        }
    }
}

impl crate::authoriser::Authoriser {
    /// The procedure that a name means, which the session may use for this: everybody may run it who may look into its schema.
    pub fn routine(&self, need: Need, name: &RelationName) -> Result<Option<&Arc<RoutineEntry>>> {
        if let Some(schema) = name.schema() {
            self.catalog().schema(schema)?;
        }
        let Some(entry) = self.catalog().routine(name, self.path()) else { return Ok(None) };
        self.use_of_routine(need, entry)?;
        Ok(Some(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Change, PUBLIC_SCHEMA_ID};

    fn def(id: u32, schema: &str, name: &str, body: &str) -> RoutineDef {
        let (schema, name) = (schema.to_owned(), name.to_owned());
        RoutineDef { id: TableId(id), schema, name, sql: format!("() LANGUAGE sql AS $$ {body} $$") }
    }

    fn new(def: RoutineDef) -> Change {
        Change::PutRoutine { def, was: None }
    }

    fn refused(catalog: &Catalog, changes: &[Change]) -> ErrorKind {
        catalog.apply(Version(catalog.version.0 + 1), changes).map(|_| ()).unwrap_err().kind()
    }

    fn shown(catalog: &Catalog) -> Vec<String> {
        catalog.routines().map(|entry| entry.def.show_create()).collect()
    }

    #[test]
    fn procedures_come_are_replaced_and_go() {
        let schema = Change::CreateSchema { id: TableId(1), name: "s".to_owned() };
        let first = Catalog::default();
        let first = first.apply(Version(1), &[schema, new(def(2, "s", "p", "a")), new(def(3, "public", "p", "b"))]);
        let first = first.unwrap();
        assert_eq!(
            shown(&first),
            [
                "CREATE OR REPLACE PROCEDURE public.p() LANGUAGE sql AS $$ b $$",
                "CREATE OR REPLACE PROCEDURE s.p() LANGUAGE sql AS $$ a $$"
            ]
        );
        let path = SearchPath::default();
        assert_eq!(first.routine(&RelationName::bare("p"), &path).unwrap().def.id, TableId(3));
        assert_eq!(first.routine(&RelationName::in_schema("s", "p"), &path).unwrap().def.id, TableId(2));
        assert!(first.routine(&RelationName::bare("q"), &path).is_none());

        assert_eq!(refused(&first, &[new(def(4, "s", "p", "x"))]), ErrorKind::DuplicateFunction);
        assert_eq!(refused(&first, &[new(def(2, "s", "q", "x"))]), ErrorKind::Conflict);
        assert_eq!(refused(&first, &[new(def(1, "s", "q", "x"))]), ErrorKind::Internal);
        assert_eq!(refused(&first, &[new(def(4, "t", "q", "x"))]), ErrorKind::Conflict);
        assert_eq!(refused(&first, &[Change::DropRoutine { id: TableId(9) }]), ErrorKind::Conflict);
        assert_eq!(refused(&first, &[Change::DropSchema { id: TableId(1) }]), ErrorKind::Conflict);

        let replaced = Change::PutRoutine { def: def(2, "s", "p", "c"), was: Some(Version(1)) };
        let second = first.apply(Version(2), std::slice::from_ref(&replaced)).unwrap();
        assert_eq!(second.routine_by_id(TableId(2)).unwrap().changed_at, Version(2));
        assert_eq!(refused(&second, &[replaced]), ErrorKind::Conflict);
        let renamed = Change::RenameSchema { id: TableId(1), name: "t".to_owned() };
        let third = second.apply(Version(3), &[renamed]).unwrap();
        let entry = third.routine(&RelationName::in_schema("t", "p"), &path).unwrap();
        assert_eq!(
            (entry.def.show_create().as_str(), entry.changed_at),
            ("CREATE OR REPLACE PROCEDURE t.p() LANGUAGE sql AS $$ c $$", Version(3))
        );
        let stored = serde_json::to_string(&third).unwrap();
        assert_eq!(serde_json::from_str::<Catalog>(&stored).unwrap(), third);

        let gone = [2, 3].map(|id| Change::DropRoutine { id: TableId(id) });
        let last = third.apply(Version(4), &gone).unwrap();
        assert!(shown(&last).is_empty() && !serde_json::to_string(&last).unwrap().contains("procedures"));
        last.apply(Version(5), &[Change::DropSchema { id: TableId(1) }]).unwrap();
        assert_eq!(last.schema("public").unwrap().id, PUBLIC_SCHEMA_ID);
    }

    #[test]
    fn changes_are_stored_as_the_log_says() {
        let change = Change::PutRoutine { def: def(2, "s", "p", "a"), was: Some(Version(7)) };
        let text =
            r#"{"put_routine":{"def":{"id":2,"schema":"s","name":"p","sql":"() LANGUAGE sql AS $$ a $$"},"was":7}}"#;
        assert_eq!(serde_json::to_string(&change).unwrap(), text);
        assert_eq!(serde_json::from_str::<Change>(text).unwrap(), change);
        let dropped = Change::DropRoutine { id: TableId(2) };
        assert_eq!(serde_json::to_string(&dropped).unwrap(), r#"{"drop_routine":{"id":2}}"#);
    }
}
