//! Indexes by their names, and which tables refer to which.

use super::{Catalog, Change, TableEntry, conflict};
use crate::name::{RelationName, SearchPath};
use alluvia_space::{ForeignKey, Index};
use alluvia_types::{Error, Result, TableId};
use std::sync::Arc;

fn is_taken(name: &str) -> Error {
    conflict(format!("relation \"{name}\" was made by another batch"))
}

impl Catalog {
    /// The index that a name means, with its table: an index is in its table's schema. That of a primary key is none of these.
    pub fn index(&self, name: &RelationName, path: &SearchPath) -> Option<(&Arc<TableEntry>, &Index)> {
        let within = |schema: &str| {
            self.tables_in(schema).find_map(|entry| {
                let index = entry.def.indexes.iter().find(|index| index.name == name.name)?;
                Some((entry, index))
            })
        };
        match &name.schema {
            Some(schema) => within(schema),
            None => path.schemas().find_map(within),
        }
    }

    /// What refers to a table, with the tables whose rows do; the table itself may be among them.
    pub fn references_to(&self, parent: TableId) -> impl Iterator<Item = (&Arc<TableEntry>, &ForeignKey)> {
        let of_table = move |entry: &Arc<TableEntry>| !entry.def.foreign_keys.is_empty();
        self.by_id.values().filter(move |entry| of_table(entry)).flat_map(move |entry| {
            entry.def.foreign_keys.iter().filter(move |key| key.parent == parent).map(move |key| (entry, key))
        })
    }

    /// Refuses changes, made of definitions before, that give an index a name that another relation or index of its schema has, or a relation
    /// that of an index: another batch has taken it. Logs may have such changes, so that who repeats one does not ask.
    pub fn check_index_names(&self, before: &Catalog, changes: &[Change]) -> Result<()> {
        for change in changes {
            match change {
                Change::CreateTable { def } | Change::AlterTable { def, .. } => {
                    let Some(now) = self.by_id.get(&def.id).map(|entry| &entry.def) else { continue };
                    let was = before.by_id.get(&def.id).filter(|was| was.def.schema == now.schema);
                    if was.is_none_or(|was| was.def.name != now.name) {
                        self.check_no_index(&now.schema, &now.name, None)?;
                    }
                    for name in now.indexes.iter().map(|index| &index.name) {
                        if was.is_none_or(|was| was.def.indexes.iter().all(|known| known.name != *name)) {
                            self.check_no_index(&now.schema, name, Some(now.id))?;
                            if self.id_in_schema(&now.schema, name).is_some() {
                                return Err(is_taken(name));
                            }
                        }
                    }
                }
                Change::CreateView { def } => self.check_no_index(&def.schema, &def.name, None)?,
                Change::AlterView { def, .. } => {
                    let was = before.view_by_id(def.id).map(|was| (&was.def.schema, &was.def.name));
                    if was != Some((&def.schema, &def.name)) {
                        self.check_no_index(&def.schema, &def.name, None)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Refuses the name of an index of any table but this one.
    fn check_no_index(&self, schema: &str, name: &str, but: Option<TableId>) -> Result<()> {
        let others = self.tables_in(schema).filter(|entry| Some(entry.def.id) != but);
        match others.flat_map(|entry| &entry.def.indexes).any(|index| index.name == name) {
            true => Err(is_taken(name)),
            false => Ok(()),
        }
    }

    /// Refuses changes after which rows refer to a table that is gone: another batch has made that so.
    pub(super) fn check_references(&self, changes: &[Change]) -> Result<()> {
        for change in changes {
            match change {
                Change::DropTable { id } => {
                    if let Some((child, _)) = self.references_to(*id).next() {
                        return Err(conflict(format!("rows of table '{}' refer to it since", child.def.name)));
                    }
                }
                Change::CreateTable { def } | Change::AlterTable { def, .. } => {
                    let is_gone = |key: &&ForeignKey| !self.by_id.contains_key(&key.parent);
                    if let Some(entry) = self.by_id.get(&def.id)
                        && let Some(key) = entry.def.foreign_keys.iter().find(is_gone)
                    {
                        return Err(conflict(format!("what {} refers to was dropped by another batch", key.name)));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
