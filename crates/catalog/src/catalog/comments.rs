//! Comments: they belong to what they are on, and go with it; they change no definition.

use super::{Catalog, PUBLIC_SCHEMA_ID, conflict};
use alluvia_space::TableDef;
use alluvia_types::{ColumnId, Result, TableId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a comment is on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommentOn {
    /// A table, or whatever else has such a number.
    Table(TableId),
    /// A column of one.
    Column(TableId, ColumnId),
    /// A schema, by its number.
    Schema(TableId),
    /// The database.
    Database,
}

impl CommentOn {
    /// The table, view or schema that it goes with.
    fn table(&self) -> Option<TableId> {
        match self {
            CommentOn::Table(id) | CommentOn::Column(id, _) => Some(*id),
            CommentOn::Schema(schema) => Some(*schema).filter(|schema| *schema != PUBLIC_SCHEMA_ID),
            CommentOn::Database => None,
        }
    }
}

impl Catalog {
    /// The comment on something.
    pub fn comment(&self, on: &CommentOn) -> Option<&str> {
        self.comments.get(on).map(String::as_str)
    }

    /// All comments.
    pub fn comments(&self) -> impl Iterator<Item = (&CommentOn, &str)> {
        self.comments.iter().map(|(on, text)| (on, text.as_str()))
    }

    /// A comment comes, changes or goes.
    pub(super) fn comment_on(&mut self, on: &CommentOn, text: Option<&str>) -> Result<()> {
        let is_there = |id: &TableId| {
            self.by_id.contains_key(id) || self.views.contains_key(id) || self.schema_name(*id).is_some()
        };
        if on.table().is_some_and(|table| !is_there(&table)) {
            return Err(conflict("what is commented was dropped by another batch".to_owned()));
        }
        match text {
            Some(text) => drop(Arc::make_mut(&mut self.comments).insert(on.clone(), text.to_owned())),
            None if self.comments.contains_key(on) => drop(Arc::make_mut(&mut self.comments).remove(on)),
            None => {}
        }
        Ok(())
    }

    /// Forgets comments on a table, a view or a schema, or on columns that its definition has no more.
    pub(crate) fn forget_comments(&mut self, table: TableId, def: Option<&TableDef>) {
        let is_gone = |on: &CommentOn| match (on, def) {
            (on, None) => on.table() == Some(table),
            (CommentOn::Column(of, column), Some(def)) => *of == table && def.column_by_id(*column).is_none(),
            (_, Some(_)) => false,
        };
        if self.comments.keys().any(is_gone) {
            Arc::make_mut(&mut self.comments).retain(|on, _| !is_gone(on));
        }
    }
}
