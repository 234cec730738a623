//! Indexes by their names, and which tables refer to which.

use super::{Catalog, Change, TableEntry, conflict};
use crate::name::{RelationName, SearchPath};
use alluvia_space::{ForeignKey, Index};
use alluvia_types::{Result, TableId};
use std::sync::Arc;

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
