//! Views: queries that have names.
//!
//! Invariants:
//! - What a view reads was bound when it was made: relations and columns by their ids, so that a rename does not break it, and a column that
//!   comes later is not in its `*`.
//! - A column of a view is known by its place, from 0 on: columns come at the end, and none goes.
//! - [`ViewDef::query`] is the text that is planned and the text that is shown: the one that was written, but for the names in it that no longer
//!   mean what they meant.
//!
//! The text is kept, and no tree of it: PostgreSQL keeps a tree, whose form is its version's own.

use crate::{Catalog, RelationName};
use alluvia_space::keywords::quoted;
use alluvia_types::{ColumnId, Error, ErrorKind, Result, TableId, Version};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The definition of a view.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ViewDef {
    /// Its id, which is one of tables' ids.
    pub id: TableId,
    /// The schema that it is in.
    pub schema: String,
    /// Its name, of its schema's tables and views its own.
    pub name: String,
    /// Its columns.
    pub columns: Vec<ViewColumn>,
    /// Its query, as it was written.
    pub sql: String,
    /// The relations that the query names.
    pub reads: Vec<ViewRead>,
}

/// A column of a view.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ViewColumn {
    /// Its name.
    pub name: String,
    /// Its type when the view was made, as SQL writes it.
    pub sql_type: String,
}

/// A relation that a view's query names.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ViewRead {
    /// As it is written.
    pub written: RelationName,
    /// What that was.
    pub relation: TableId,
    /// The columns that it had, and what they were called. Of a view, by their places.
    pub columns: Vec<(ColumnId, String)>,
    /// Those that the query uses: without these it is no query.
    pub used: Vec<ColumnId>,
    /// Where it is written.
    pub places: Vec<NamePlace>,
}

/// Where a name is written in a view's query.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct NamePlace {
    /// The first byte.
    pub start: u32,
    /// The byte behind it.
    pub end: u32,
    /// What it stands for.
    pub kind: NameKind,
    /// Whether a sample is drawn of the relation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_sampled: bool,
}

/// What a name in a view's query stands for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameKind {
    /// A relation behind FROM, which is called so.
    Relation,
    /// A relation behind FROM, which an alias gives another name.
    Aliased,
    /// The schema and the name before a column: `s.t` of `s.t.a`.
    Qualifier,
}

/// A view at some version.
#[derive(Clone, PartialEq, Debug)]
pub struct ViewEntry {
    /// What the view is.
    pub def: Arc<ViewDef>,
    /// The version that made it so.
    pub changed_at: Version,
}

/// Which names a text is to have a schema.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// All: whatever the search path is, it means the same.
    InSchemas,
    /// Those that are written with it, or are not in the default one.
    AsWritten,
}

impl ViewDef {
    /// The query by today's names.
    pub fn query(&self, catalog: &Catalog, shown: Shown) -> Result<String> {
        let mut edits: Vec<(NamePlace, String)> = Vec::new();
        for read in &self.reads {
            self.edits(read, catalog, shown, &mut edits)?;
        }
        edits.sort_unstable();
        let (mut text, mut from) = (String::with_capacity(self.sql.len()), 0);
        for (place, name) in edits {
            let (start, end) = (place.start as usize, place.end as usize);
            let kept = self.sql.get(from..start).filter(|_| end <= self.sql.len());
            text += kept.ok_or_else(|| self.damaged("has a name where there is none"))?;
            text += &name;
            from = end;
        }
        text += self.sql.get(from..).ok_or_else(|| self.damaged("has a name that does not end"))?;
        Ok(text)
    }

    fn edits(
        &self,
        read: &ViewRead,
        catalog: &Catalog,
        shown: Shown,
        edits: &mut Vec<(NamePlace, String)>,
    ) -> Result<()> {
        let Some((now, columns)) = catalog.relation_now(read.relation) else {
            return Err(self.dropped(read));
        };
        let has_its_columns =
            columns.len() == read.columns.len() && columns.iter().zip(&read.columns).all(|(now, then)| now == then);
        let is_called_so = now.name == read.written.name;
        let is_there = is_called_so
            && match (&read.written.schema, shown) {
                (Some(schema), _) => now.schema.as_ref() == Some(schema),
                (None, Shown::InSchemas) => false,
                (None, Shown::AsWritten) => now.schema.as_deref() == Some(alluvia_space::PUBLIC_SCHEMA),
            };
        if has_its_columns && is_there {
            return Ok(());
        }
        let name = match shown {
            Shown::AsWritten
                if read.written.schema.is_none() && now.schema.as_deref() == Some(alluvia_space::PUBLIC_SCHEMA) =>
            {
                quoted(&now.name)
            }
            _ => now.to_string(),
        };
        let relation = if has_its_columns {
            name
        } else {
            let then = |(id, then): &(ColumnId, String)| {
                let (_, now) = columns.iter().find(|(known, _)| known == id)?;
                Some(if now == then { quoted(now) } else { format!("{} AS {}", quoted(now), quoted(then)) })
            };
            let items: Vec<String> = read.columns.iter().filter_map(then).collect();
            // Where it had columns, and has none of these, none is used.
            let items = if items.is_empty() { "NULL".to_owned() } else { items.join(", ") };
            format!("(SELECT {items} FROM {name})")
        };
        let alias = quoted(&read.written.name);
        // What is called so by itself can be called with its schema, too.
        let keeps_name = has_its_columns && is_called_so;
        for place in &read.places {
            if place.is_sampled && !has_its_columns {
                let message =
                    format!("view \"{}\" draws a sample of {now}, whose columns have changed since", self.name);
                return Err(
                    Error::new(ErrorKind::NotSupported, message).with_hint("make it anew with CREATE OR REPLACE VIEW")
                );
            }
            let text = match place.kind {
                NameKind::Aliased => relation.clone(),
                NameKind::Relation if keeps_name => relation.clone(),
                NameKind::Relation => format!("{relation} AS {alias}"),
                NameKind::Qualifier if keeps_name && now.schema == read.written.schema => continue,
                NameKind::Qualifier => alias.clone(),
            };
            edits.push((*place, text));
        }
        Ok(())
    }

    /// The statement that makes it.
    pub fn show_create(&self, catalog: &Catalog) -> Result<String> {
        let columns: Vec<String> = self.columns.iter().map(|column| quoted(&column.name)).collect();
        let name = self.shown();
        Ok(format!("CREATE VIEW {name} ({}) AS\n{}", columns.join(", "), self.query(catalog, Shown::AsWritten)?))
    }

    /// Its name as a statement says it where the search path is the default one.
    pub fn shown(&self) -> String {
        let name = RelationName::in_schema(self.schema.as_str(), self.name.as_str());
        if self.schema == alluvia_space::PUBLIC_SCHEMA { quoted(&self.name) } else { name.to_string() }
    }

    /// The columns as others bind them.
    pub fn bound_columns(&self) -> Vec<(ColumnId, String)> {
        (0u32..).zip(&self.columns).map(|(place, column)| (ColumnId(place), column.name.clone())).collect()
    }

    /// Of a session's own view: what it reads is dropped by others, who do not know of it.
    fn dropped(&self, read: &ViewRead) -> Error {
        let message = format!("the table that view {} reads was dropped", self.name);
        Error::new(ErrorKind::UndefinedTable, message)
            .with_detail(format!("The view names it {}.", read.written))
            .with_hint(format!("DROP VIEW {}", self.shown()))
    }

    fn damaged(&self, what: &str) -> Error {
        Error::internal(format!("view {} {what}", self.name))
    }
}

/// Refuses columns that cannot take the place of a view's own: they may only be more.
pub fn check_replaced(old: &[ViewColumn], new: &[ViewColumn]) -> Result<()> {
    let refuse = |message: String| Err(Error::new(ErrorKind::InvalidDefinition, message));
    if new.len() < old.len() {
        return refuse("cannot drop columns from view".to_owned());
    }
    for (old, new) in old.iter().zip(new) {
        if old.name != new.name {
            return Err(Error::new(
                ErrorKind::InvalidDefinition,
                format!("cannot change name of view column \"{}\" to \"{}\"", old.name, new.name),
            )
            .with_hint("Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead."));
        }
        if old.sql_type != new.sql_type {
            return refuse(format!(
                "cannot change data type of view column \"{}\" from {} to {}",
                old.name,
                postgresql_name(&old.sql_type),
                postgresql_name(&new.sql_type)
            ));
        }
    }
    Ok(())
}

/// What PostgreSQL calls a type.
fn postgresql_name(sql_type: &str) -> String {
    let (name, arguments) = sql_type.split_at(sql_type.find('(').unwrap_or(sql_type.len()));
    let known = match name {
        "INT" => "integer",
        "DOUBLE" => "double precision",
        "DECIMAL" => "numeric",
        "VARCHAR" => "character varying",
        "TIMESTAMP" => "timestamp without time zone",
        other => return format!("{}{arguments}", other.to_lowercase()),
    };
    format!("{known}{}", arguments.replace(", ", ","))
}
