//! Lookups in a table definition: columns by name and id, levels, the storage schema.

use crate::keywords::quoted;
use crate::schema::{Column, Level, LevelSource, PUBLIC_SCHEMA, TableDef};
use alluvia_types::{ColumnId, Error, ErrorKind, Result, near_names};
use arrow::datatypes::{Field, Schema, SchemaRef};
use std::sync::Arc;

impl LevelSource {
    /// The column that members come from.
    pub fn column(&self) -> ColumnId {
        match *self {
            LevelSource::Column(column) | LevelSource::Calendar(column, _) | LevelSource::Local(column, _) => column,
            LevelSource::Halved { column, .. } | LevelSource::Hashed { column, .. } => column,
        }
    }
}

impl TableDef {
    /// Its name in SQL that is read whatever the search path is: with its schema.
    pub fn qualified(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.name))
    }

    /// Its name as it is shown to people and written in hints: its schema stands before it unless that is `public`.
    pub fn shown(&self) -> String {
        if self.schema == PUBLIC_SCHEMA { quoted(&self.name) } else { self.qualified() }
    }

    /// The schema of rows inside the engine: columns by storage name, without the hidden ones.
    pub fn storage_schema(&self) -> SchemaRef {
        let field = |column: &Column| Field::new(&column.storage_name, column.data_type.to_arrow(), column.nullable);
        Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
    }

    /// The column that SQL calls `name`.
    pub fn column(&self, name: &str) -> Result<&Column> {
        self.columns
            .iter()
            .find(|column| column.name == name)
            .ok_or_else(|| undefined_column(name, &self.columns).at(format!("table {}", self.name)))
    }

    /// The column with this id, unless it was dropped.
    pub fn column_by_id(&self, id: ColumnId) -> Option<&Column> {
        self.columns.iter().find(|column| column.id == id)
    }

    /// Where the columns of the key stand among the table's, in the key's order; `None` of a table without a key.
    pub fn key_columns(&self) -> Option<Vec<usize>> {
        let place = |id: &ColumnId| self.columns.iter().position(|column| column.id == *id);
        self.key.as_ref().and_then(|key| key.columns.iter().map(place).collect())
    }

    /// All levels in the order of dimensions and, within one, coarse to fine: (dimension, level within it, the level).
    /// Codes, dictionaries and summaries all follow this order.
    pub fn levels(&self) -> impl Iterator<Item = (usize, usize, &Level)> {
        self.dimensions.iter().enumerate().flat_map(|(dimension, path)| {
            path.levels.iter().enumerate().map(move |(level, declared)| (dimension, level, declared))
        })
    }

    /// Whether a dimension is made from this column.
    pub fn is_dimension_column(&self, id: ColumnId) -> bool {
        self.levels().any(|(_, _, level)| level.source.column() == id)
    }
}

/// The error for a column that does not exist, with near names.
pub(crate) fn undefined_column(name: &str, columns: &[Column]) -> Error {
    let error = Error::new(ErrorKind::UndefinedColumn, format!("there is no column {name}"));
    let near = near_names(name, columns.iter().map(|column| column.name.as_str()));
    if !near.is_empty() {
        return error.with_hint(format!("did you mean {}?", near.join(" or ")));
    }
    let shown: Vec<&str> = columns.iter().take(12).map(|column| column.name.as_str()).collect();
    let more = if columns.len() > shown.len() { ", ..." } else { "" };
    error.with_hint(format!("the columns are {}{more}", shown.join(", ")))
}
