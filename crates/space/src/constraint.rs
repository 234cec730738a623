//! What a table says of its rows among others: indexes, of which some are unique, and foreign keys.
//!
//! Invariants:
//! - Columns and tables are named by their ids, so renaming changes nothing here.
//! - Names are unique among a table's constraints and indexes. That an index's name is free in its schema, and that a parent has a
//!   key of these columns, the catalog knows.
//! - NULLs are distinct: a row that has one in columns of a unique index is like no other, and one that has one in columns of a foreign
//!   key refers to nothing (MATCH SIMPLE).

use crate::keywords::quoted;
use crate::rules::Check;
use crate::schema::{Column, DataType, PrimaryKey, TableDef};
use alluvia_types::{ColumnId, Error, ErrorKind, Result, TableId};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// Most columns of an index or a foreign key.
const COLUMNS_MAX: usize = 32;

/// An index on columns.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Index {
    /// Unique among the relations of the table's schema.
    pub name: String,
    /// In its order; at least one.
    pub columns: Vec<ColumnId>,
    /// No two rows have the same values in its columns, but for NULLs.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unique: bool,
    /// It was declared as a constraint, UNIQUE, and goes with that.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_constraint: bool,
}

/// What becomes of rows that refer to one that goes, or whose key changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// There must be none once the statement is over, or the transaction where the check is deferred.
    #[default]
    NoAction,
    /// There must be none once the statement is over.
    Restrict,
    /// They go, or change with it.
    Cascade,
    /// They refer to nothing.
    SetNull,
    /// They refer to what their defaults say.
    SetDefault,
}

/// Rows refer to rows of another table, or of their own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ForeignKey {
    /// What it is called.
    pub name: String,
    /// The columns that refer; at least one.
    pub columns: Vec<ColumnId>,
    /// The table that is referred to.
    pub parent: TableId,
    /// Its columns, one for each of `columns`: its primary key, or those of a unique index, in any order.
    pub parent_columns: Vec<ColumnId>,
    /// Where a parent goes.
    #[serde(default, skip_serializing_if = "Action::is_default")]
    pub on_delete: Action,
    /// Where a parent gets another key.
    #[serde(default, skip_serializing_if = "Action::is_default")]
    pub on_update: Action,
    /// Whether the check may wait for COMMIT.
    #[serde(default, skip_serializing_if = "is_false")]
    pub deferrable: bool,
    /// Whether it does, if nobody says otherwise.
    #[serde(default, skip_serializing_if = "is_false")]
    pub initially_deferred: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Action {
    fn is_default(&self) -> bool {
        *self == Action::NoAction
    }

    /// In SQL.
    pub fn sql(self) -> &'static str {
        match self {
            Action::NoAction => "NO ACTION",
            Action::Restrict => "RESTRICT",
            Action::Cascade => "CASCADE",
            Action::SetNull => "SET NULL",
            Action::SetDefault => "SET DEFAULT",
        }
    }

    /// As PostgreSQL's catalog has it.
    pub fn letter(self) -> &'static str {
        match self {
            Action::NoAction => "a",
            Action::Restrict => "r",
            Action::Cascade => "c",
            Action::SetNull => "n",
            Action::SetDefault => "d",
        }
    }
}

impl TableDef {
    /// The names of these columns as SQL lists them: `a, "B"`.
    pub fn listed(&self, columns: &[ColumnId]) -> String {
        let names = columns.iter().filter_map(|id| self.column_by_id(*id)).map(|column| quoted(&column.name));
        names.collect::<Vec<_>>().join(", ")
    }

    /// The places of columns among the table's.
    pub fn places(&self, columns: &[ColumnId]) -> Result<Vec<usize>> {
        let place = |id: &ColumnId| {
            let place = self.columns.iter().position(|column| column.id == *id);
            place.ok_or_else(|| Error::internal(format!("table {} has no column {id}", self.name)))
        };
        columns.iter().map(place).collect()
    }

    /// Its indexes that are unique.
    pub fn unique_indexes(&self) -> impl Iterator<Item = &Index> {
        self.indexes.iter().filter(|index| index.unique)
    }

    /// Whether these columns, in whatever order, are those of its primary key, or of a unique index: what tells its name.
    pub fn key_of_columns(&self, columns: &[ColumnId]) -> Option<String> {
        let alike = |known: &[ColumnId]| known.len() == columns.len() && known.iter().all(|id| columns.contains(id));
        let is_key = self.key.as_ref().is_some_and(|key| alike(&key.columns));
        match is_key {
            true => Some(format!("{}_pkey", self.name)),
            false => self.unique_indexes().find(|index| alike(&index.columns)).map(|index| index.name.clone()),
        }
    }

    /// Whether a constraint, or an index, is called so.
    pub fn has_constraint(&self, name: &str) -> bool {
        self.indexes.iter().any(|index| index.name == name)
            || self.foreign_keys.iter().any(|key| key.name == name)
            || self.rules.checks.iter().any(|check| check.name == name)
            || self.key.is_some() && name == format!("{}_pkey", self.name)
    }

    /// What a foreign key says, as SQL says it behind its name; `parent` is the table that it refers to.
    pub fn foreign_key_sql(&self, key: &ForeignKey, parent: &TableDef) -> String {
        let columns = self.listed(&key.columns);
        let mut text =
            format!("FOREIGN KEY ({columns}) REFERENCES {}({})", parent.shown(), parent.listed(&key.parent_columns));
        for (event, action) in [("UPDATE", key.on_update), ("DELETE", key.on_delete)] {
            if action != Action::NoAction {
                text.push_str(&format!(" ON {event} {}", action.sql()));
            }
        }
        if key.deferrable {
            text.push_str(" DEFERRABLE");
        }
        if key.initially_deferred {
            text.push_str(" INITIALLY DEFERRED");
        }
        text
    }

    /// What makes an index, as SQL says it.
    pub fn index_sql(&self, index: &Index) -> String {
        let unique = if index.unique { "UNIQUE " } else { "" };
        let (name, columns) = (quoted(&index.name), self.listed(&index.columns));
        format!("CREATE {unique}INDEX {name} ON {} USING btree ({columns})", self.qualified())
    }

    /// The lines that its own constraints are in CREATE TABLE. Those of foreign keys the catalog must tell, which knows the parents.
    pub(crate) fn unique_lines(&self) -> impl Iterator<Item = String> {
        let line =
            |index: &Index| format!("  CONSTRAINT {} UNIQUE ({})", quoted(&index.name), self.listed(&index.columns));
        self.indexes.iter().filter(|index| index.is_constraint).map(line)
    }
}

/// Checks indexes and foreign keys against the columns of their table.
pub(crate) fn validate(
    indexes: &[Index],
    foreign_keys: &[ForeignKey],
    (columns, key, checks): (&[Column], Option<&PrimaryKey>, &[Check]),
) -> Result<()> {
    let mut names: HashSet<String> = checks.iter().map(|check| check.name.clone()).collect();
    let mut is_new = |name: &str| match names.insert(name.to_owned()) {
        true => Ok(()),
        false => {
            let message = format!("there are two constraints or indexes {name}");
            Err(Error::new(ErrorKind::DuplicateObject, message).with_hint("give each a name of its own"))
        }
    };
    for index in indexes {
        is_new(&index.name)?;
        columns_of(&format!("index {}", index.name), &index.columns, columns)?;
        for id in index.columns.iter().filter(|_| index.unique) {
            comparable(*id, columns, "a unique index")?;
        }
    }
    for foreign in foreign_keys {
        is_new(&foreign.name)?;
        columns_of(&format!("foreign key {}", foreign.name), &foreign.columns, columns)?;
        if foreign.columns.len() != foreign.parent_columns.len() {
            let message = "number of referencing and referenced columns for foreign key disagree";
            return Err(Error::new(ErrorKind::InvalidForeignKey, message));
        }
        for id in &foreign.columns {
            comparable(*id, columns, "a foreign key")?;
            let sets_null = [foreign.on_delete, foreign.on_update].contains(&Action::SetNull);
            if sets_null && key.is_some_and(|key| key.columns.contains(id)) {
                let message = format!("foreign key {} cannot SET NULL: it is of the primary key", foreign.name);
                return Err(Error::new(ErrorKind::NotSupported, message).with_hint("choose CASCADE, or another action"));
            }
        }
    }
    Ok(())
}

fn columns_of(what: &str, ids: &[ColumnId], columns: &[Column]) -> Result<()> {
    if ids.is_empty() || ids.len() > COLUMNS_MAX {
        let message = format!("{what} has {} columns, and 1 to {COLUMNS_MAX} are possible", ids.len());
        return Err(Error::new(ErrorKind::InvalidDefinition, message));
    }
    for (at, id) in ids.iter().enumerate() {
        let Some(column) = columns.iter().find(|column| column.id == *id) else {
            return Err(Error::internal(format!("{what} is of column {id}, which does not exist")));
        };
        if ids[..at].contains(id) {
            let message = format!("column {} is named twice in {what}", column.name);
            return Err(Error::new(ErrorKind::DuplicateColumn, message).with_hint("name each column once"));
        }
    }
    Ok(())
}

/// Refuses a column whose values are not told apart by what they hold.
fn comparable(id: ColumnId, columns: &[Column], of: &str) -> Result<()> {
    let Some(column) = columns.iter().find(|column| column.id == id) else { return Ok(()) };
    match column.data_type {
        DataType::Json | DataType::Jsonb | DataType::Interval => {
            let message = format!("column {} is {}, which cannot be part of {of}", column.name, column.sql_type());
            Err(Error::new(ErrorKind::NotSupported, message)
                .with_hint("it is of numbers, texts, bytes, UUIDs, dates and times"))
        }
        _ => Ok(()),
    }
}
