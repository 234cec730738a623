//! Schemas: names of relations are unique within one. A schema has a number, by which owners, grants and comments know it.

use super::{Catalog, PUBLIC_SCHEMA_ID, conflict, shown_names};
use crate::routine::RoutineDef;
use crate::view::ViewDef;
use alluvia_space::TableDef;
use alluvia_types::{Error, ErrorKind, Result, TableId, Version, near_names};
use std::collections::BTreeMap;

/// A schema at some version: its number, and the relations that are in it.
#[derive(Clone, PartialEq, Debug)]
pub struct SchemaEntry {
    /// What owners and grants know it by.
    pub id: TableId,
    pub(super) relations: BTreeMap<String, TableId>,
    pub(crate) routines: BTreeMap<String, TableId>,
}

impl SchemaEntry {
    pub(super) fn new(id: TableId) -> SchemaEntry {
        SchemaEntry { id, relations: BTreeMap::new(), routines: BTreeMap::new() }
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.relations.is_empty() && self.routines.is_empty()
    }
}

impl Catalog {
    /// All schemas that hold users' tables, in name order.
    pub fn schemas(&self) -> impl Iterator<Item = (&str, &SchemaEntry)> {
        self.schemas.iter().map(|(name, entry)| (name.as_str(), entry))
    }

    /// The schema of that name.
    pub fn schema(&self, name: &str) -> Result<&SchemaEntry> {
        self.schemas.get(name).ok_or_else(|| self.undefined_schema(name))
    }

    /// The name of a schema, unless it was dropped.
    pub fn schema_name(&self, id: TableId) -> Option<&str> {
        self.schemas().find(|(_, entry)| entry.id == id).map(|(name, _)| name)
    }

    pub(crate) fn schema_mut(&mut self, name: &str) -> Option<&mut SchemaEntry> {
        self.schemas.get_mut(name)
    }

    pub(super) fn create_schema(&mut self, id: TableId, name: &str) -> Result<()> {
        self.check_schema_free(name)?;
        self.check_new(id, name)?;
        self.schemas.insert(name.to_owned(), SchemaEntry::new(id));
        Ok(())
    }

    pub(super) fn drop_schema(&mut self, id: TableId) -> Result<()> {
        let Some(name) = self.schema_name(id).map(str::to_owned) else { return Err(schema_gone(id)) };
        if id == PUBLIC_SCHEMA_ID {
            return Err(Error::internal("schema public is dropped"));
        }
        if !self.schemas[&name].is_empty() {
            return Err(conflict(format!("another batch has put something into schema '{name}'")));
        }
        self.schemas.remove(&name);
        self.forget_rights(id);
        self.forget_comments(id, None);
        Ok(())
    }

    pub(super) fn rename_schema(&mut self, version: Version, id: TableId, name: &str) -> Result<()> {
        let Some(old) = self.schema_name(id).map(str::to_owned) else { return Err(schema_gone(id)) };
        if id == PUBLIC_SCHEMA_ID {
            return Err(Error::internal("schema public is renamed"));
        }
        if old == name {
            return Ok(());
        }
        self.check_schema_free(name)?;
        let Some(schema) = self.schemas.remove(&old) else { return Err(schema_gone(id)) };
        let relations: Vec<TableId> = schema.relations.values().chain(schema.routines.values()).copied().collect();
        self.schemas.insert(name.to_owned(), schema);
        // They have other definitions: what is kept of them by their names must not outlive these.
        for id in relations {
            if let Some(table) = self.by_id.get(&id) {
                let def = TableDef { schema: name.to_owned(), ..TableDef::clone(&table.def) };
                self.put(version, &def);
            } else if let Some(view) = self.views.get(&id) {
                let def = ViewDef { schema: name.to_owned(), ..ViewDef::clone(&view.def) };
                self.put_view(version, &def);
            } else if let Some(routine) = self.routines.get(&id) {
                let def = RoutineDef { schema: name.to_owned(), ..RoutineDef::clone(&routine.def) };
                self.keep_routine(version, &def);
            }
        }
        Ok(())
    }

    fn check_schema_free(&self, name: &str) -> Result<()> {
        if !self.schemas.contains_key(name) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::DuplicateSchema, format!("schema \"{name}\" already exists"))
            .with_hint("choose another name, or write CREATE SCHEMA IF NOT EXISTS"))
    }

    /// The error for a schema that does not exist, with near names.
    pub fn undefined_schema(&self, name: &str) -> Error {
        let near = near_names(name, self.schemas.keys().map(String::as_str));
        let error = Error::new(ErrorKind::UndefinedSchema, format!("schema \"{name}\" does not exist"));
        match near.as_slice() {
            [] => error.with_hint("CREATE SCHEMA makes one; information_schema.schemata lists them"),
            near => error.with_hint(format!("did you mean {}?", shown_names(near))),
        }
    }
}

fn schema_gone(id: TableId) -> Error {
    conflict(format!("schema number {id} was dropped by another batch"))
}
