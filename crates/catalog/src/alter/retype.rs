//! ALTER COLUMN TYPE: what changes nothing that is stored is another definition; else a new column takes the place of the old one.
//!
//! Invariants:
//! - What a column is in files never changes: another type is another column, which has the name, the place and the rules of the one
//!   before it.
//! - What places, keys and sums of files are made of keeps its type.
//! - Values by which rows refer to others stay what they are.

use super::{add_column, next_id, pass_number_of};
use crate::{Catalog, Change, CommentOn};
use alluvia_space::keywords::quoted;
use alluvia_space::{Column, ColumnType, DataType, TableDef, greatest, least};
use alluvia_types::{ColumnId, Error, ErrorKind, Result};

/// What a new type comes to.
#[derive(Clone, Debug)]
pub enum Retype {
    /// Another definition of what is stored as it is.
    Definition {
        /// The definition.
        to: Box<TableDef>,
        /// No value may be longer than this, where some could be.
        chars_max: Option<u32>,
    },
    /// Another column, which gets its values from the old one.
    Column(Box<NewColumn>),
}

/// A column that takes the place of another.
#[derive(Clone, Debug)]
pub struct NewColumn {
    /// The column before it.
    pub old: ColumnId,
    /// Its own id.
    pub new: ColumnId,
    /// What it is called while both are there.
    pub name: String,
    /// The table with both of them.
    pub between: TableDef,
    /// The table with the new one alone.
    pub to: TableDef,
}

/// Where the values of a column of another type come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Values {
    /// They are assigned as they are.
    Assigned,
    /// They are cast to the type: texts that are too long are cut off.
    Cast,
    /// They are computed.
    Computed,
}

/// What ALTER COLUMN TYPE comes to.
pub fn retype(table: &TableDef, name: &str, wanted: ColumnType, values: Values) -> Result<Retype> {
    let column = table.column(name)?;
    let shorter = match (column.chars_max, wanted.chars_max) {
        (_, None) => None,
        (Some(before), Some(now)) if before <= now => None,
        (_, now) => now,
    };
    let is_computed = values == Values::Computed || values == Values::Cast && shorter.is_some();
    if column.data_type == wanted.data_type && !is_computed {
        let mut to = table.clone();
        for known in to.columns.iter_mut().filter(|known| known.id == column.id) {
            known.chars_max = wanted.chars_max;
        }
        to.validate()?;
        return Ok(Retype::Definition { to: Box::new(to), chars_max: shorter });
    }
    refuse_bound(table, column)?;
    let name = between_name(table, name)?;
    let between = add_column(table, &name, wanted, true)?;
    let new = between.columns.last().map(|column| column.id).ok_or_else(|| Error::internal("a column was lost"))?;
    let to = in_place(&between, column, new)?;
    Ok(Retype::Column(Box::new(NewColumn { old: column.id, new, name, between, to })))
}

/// What the catalog keeps beside the table's definition of a column that another one takes the place of.
pub fn carried(catalog: &Catalog, column: &NewColumn) -> Vec<Change> {
    let table = column.to.id;
    let comment = catalog.comment(&CommentOn::Column(table, column.old)).map(str::to_owned);
    let comment = comment.map(|text| Change::Comment { on: CommentOn::Column(table, column.new), text: Some(text) });
    let children = catalog
        .references_to(table)
        .filter(|(child, key)| child.def.id != table && key.parent_columns.contains(&column.old));
    let mut changes: Vec<Change> = Vec::new();
    for (child, _) in children {
        if changes.iter().any(|change| matches!(change, Change::AlterTable { def, .. } if def.id == child.def.id)) {
            continue;
        }
        let mut def = TableDef::clone(&child.def);
        for key in def.foreign_keys.iter_mut().filter(|key| key.parent == table) {
            replace(&mut key.parent_columns, column.old, column.new);
        }
        changes.push(Change::AlterTable { def, was: child.changed_at });
    }
    let sequence = catalog.taken(table, column.old).filter(|_| column.to.identity_of(column.new).is_some());
    let sequence = sequence.map(|through| Change::Sequence {
        table,
        column: column.new,
        through: Some(through),
        only_after: None,
    });
    changes.into_iter().chain(comment).chain(sequence).collect()
}

/// Whether a value of a type becomes one of another by itself, as where it is assigned.
pub fn converts(from: DataType, to: DataType) -> bool {
    use DataType::{Date, Interval, Json, Jsonb, Time, Timestamp, TimestampTz};
    let is_number = |of: DataType| {
        of.is_whole_number()
            || matches!(of, DataType::Real | DataType::Double | DataType::Decimal { .. } | DataType::Numeric)
    };
    let is_moment = |of: DataType| matches!(of, Date | Timestamp | TimestampTz);
    from == to
        || matches!(to, DataType::Text | DataType::Char)
        || is_number(from) && is_number(to)
        || is_moment(from) && is_moment(to)
        || matches!(
            (from, to),
            (Timestamp | TimestampTz | Interval, Time) | (Time, Interval) | (Json, Jsonb) | (Jsonb, Json)
        )
}

/// Refuses a column whose type other things depend on.
fn refuse_bound(table: &TableDef, column: &Column) -> Result<()> {
    let name = &column.name;
    let refused = |what: &str| {
        let message = format!("the type of column \"{name}\" of table {} cannot be changed: {what}", table.shown());
        Err(Error::new(ErrorKind::NotSupported, message)
            .with_hint("create the table anew with CREATE TABLE, and INSERT INTO it the rows"))
    };
    if table.is_dimension_column(column.id) {
        return refused("a dimension is made of it");
    }
    if table.measures.contains(&column.id) {
        return refused("it is a measure");
    }
    if table.key.as_ref().is_some_and(|key| key.columns.contains(&column.id)) {
        return refused("it is part of the primary key");
    }
    Ok(())
}

/// Refuses a type that foreign keys of a column, or those that refer to it, could not go on with: one that does not compare with that on
/// the other side, or values that may be others.
pub fn refuse_referred(
    catalog: &Catalog,
    table: &TableDef,
    name: &str,
    wanted: ColumnType,
    values: Values,
) -> Result<()> {
    let column = table.column(name)?;
    let is_alike = column.data_type == wanted.data_type
        || column.data_type.is_whole_number() && wanted.data_type.is_whole_number()
        || column.data_type.is_text() && wanted.data_type.is_text();
    if is_alike && values == Values::Assigned {
        return Ok(());
    }
    let own = table.foreign_keys.iter().find(|key| key.columns.contains(&column.id)).map(|key| (table, key));
    let others = || catalog.references_to(table.id).find(|(_, key)| key.parent_columns.contains(&column.id));
    let Some((child, key)) = own.or_else(|| others().map(|(child, key)| (&*child.def, key))) else { return Ok(()) };
    let how = if is_alike { "computed anew" } else { "of another type" };
    let message = format!(
        "column \"{name}\" of table {} cannot be {how}: foreign key {} of table {} is of it",
        table.shown(),
        key.name,
        child.shown()
    );
    Err(Error::new(ErrorKind::NotSupported, message).with_hint(format!(
        "ALTER TABLE {} DROP CONSTRAINT {} first, and add it again behind it",
        child.shown(),
        quoted(&key.name)
    )))
}

/// A name that no column has.
fn between_name(table: &TableDef, name: &str) -> Result<String> {
    let mut id = table.next_column_id;
    loop {
        let between = format!("{name}~{id}");
        if table.columns.iter().all(|column| column.name != between && column.storage_name != between) {
            return Ok(between);
        }
        id = next_id(table, id)?;
    }
}

/// The table with the last column in the place of another.
fn in_place(between: &TableDef, old: &Column, new: ColumnId) -> Result<TableDef> {
    let mut to = between.clone();
    let mut column = to.columns.pop().ok_or_else(|| Error::internal("a column was lost"))?;
    column.name.clone_from(&old.name);
    pass_number_of(&mut to, &old.storage_name)?;
    if !between.takes_null(old) && !to.rules.not_null.contains(&old.id) {
        to.rules.not_null.push(old.id);
    }
    let (before, now) = (old.data_type, column.data_type);
    let place = to.columns.iter().position(|known| known.id == old.id);
    let place = place.ok_or_else(|| Error::internal("a column that is replaced is gone"))?;
    to.columns[place] = column;
    replace(&mut to.rules.not_null, old.id, new);
    for default in to.rules.defaults.iter_mut().filter(|default| default.column == old.id) {
        default.column = new;
    }
    for identity in to.rules.identities.iter_mut().filter(|identity| identity.column == old.id) {
        identity.column = new;
        // What was the end of the type before is the end of the type now.
        if let (Some(end), Some(now)) = (greatest(before), greatest(now))
            && identity.maximum == end
        {
            identity.maximum = now;
        }
        if let (Some(end), Some(now)) = (least(before), least(now))
            && identity.minimum == end
        {
            identity.minimum = now;
        }
    }
    to.rules.checks.iter_mut().for_each(|check| replace(&mut check.columns, old.id, new));
    to.indexes.iter_mut().for_each(|index| replace(&mut index.columns, old.id, new));
    let table = to.id;
    for key in &mut to.foreign_keys {
        replace(&mut key.columns, old.id, new);
        if key.parent == table {
            replace(&mut key.parent_columns, old.id, new);
        }
    }
    to.validate()?;
    Ok(to)
}

fn replace(ids: &mut [ColumnId], old: ColumnId, new: ColumnId) {
    ids.iter_mut().filter(|id| **id == old).for_each(|id| *id = new);
}
