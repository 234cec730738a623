//! What is to be looked at because of what a statement changes.
//!
//! Invariants:
//! - Values of an event are in the types in which they are compared.
//! - A row that keeps its values asks nothing of those that refer to it.

use crate::values::Values;
use alluvia_catalog::{Catalog, TableEntry};
use alluvia_space::ForeignKey;
use alluvia_types::{ColumnId, Result, TableId};
use arrow::array::RecordBatch;
use arrow::datatypes::DataType;

/// What happened to values that a constraint is of.
#[derive(Clone, Debug)]
pub enum Happened {
    /// Rows have these values in a unique index now.
    Comes(Values),
    /// Rows refer by these values now, in the types by which they are compared.
    Refers(Values),
    /// A parent had these values, and is gone.
    Goes(Values),
    /// A parent had the first and has the second now, row by row; in the second there may be NULLs.
    Becomes(Values, Values),
}

/// Something that is to be looked at.
#[derive(Clone, Debug)]
pub struct Event {
    /// The table that has the constraint.
    pub table: TableId,
    /// The index, or the foreign key.
    pub name: String,
    /// What happened.
    pub happened: Happened,
}

impl Event {
    /// What it holds in memory, about.
    pub fn bytes(&self) -> u64 {
        let values = match &self.happened {
            Happened::Comes(values) | Happened::Refers(values) | Happened::Goes(values) => values.bytes(),
            Happened::Becomes(old, new) => old.bytes() + new.bytes(),
        };
        (size_of::<Event>() + self.name.len()) as u64 + values
    }
}

/// A table's foreign key of that name.
pub fn foreign_key<'a>(entry: &'a TableEntry, name: &str) -> Option<&'a ForeignKey> {
    entry.def.foreign_keys.iter().find(|key| key.name == name)
}

/// The types of columns, as they are stored.
pub fn types_of(entry: &TableEntry, columns: &[ColumnId]) -> Result<Vec<DataType>> {
    let places = entry.def.places(columns)?;
    Ok(places.into_iter().map(|at| entry.def.columns[at].data_type.to_arrow()).collect())
}

/// The types in which values are compared by which rows refer to a table: whole numbers of all widths are alike.
pub fn reference_types(parent: &TableEntry, columns: &[ColumnId]) -> Result<Vec<DataType>> {
    let wide = |of: DataType| if of.is_signed_integer() { DataType::Int64 } else { of };
    Ok(types_of(parent, columns)?.into_iter().map(wide).collect())
}

/// What rows that come to a table, or are there otherwise, ask to be looked at; of columns at `set` alone, if some are told.
pub fn of_rows<'a>(
    catalog: &Catalog,
    entry: &TableEntry,
    rows: impl Iterator<Item = &'a RecordBatch> + Clone,
    set: Option<&[usize]>,
) -> Result<Vec<Event>> {
    let table = entry.def.id;
    let is_set = |places: &[usize]| set.is_none_or(|set| places.iter().any(|place| set.contains(place)));
    let mut events = Vec::new();
    for index in entry.def.unique_indexes() {
        let places = entry.def.places(&index.columns)?;
        if is_set(&places) {
            let values = Values::of(rows.clone(), &places, &types_of(entry, &index.columns)?)?.distinct()?;
            events.push(Event { table, name: index.name.clone(), happened: Happened::Comes(values) });
        }
    }
    for key in &entry.def.foreign_keys {
        let places = entry.def.places(&key.columns)?;
        if let Some(parent) = catalog.by_id(key.parent)
            && is_set(&places)
        {
            let types = reference_types(parent, &key.parent_columns)?;
            let values = Values::of(rows.clone(), &places, &types)?.distinct()?;
            events.push(Event { table, name: key.name.clone(), happened: Happened::Refers(values) });
        }
    }
    events.retain(|event| match &event.happened {
        Happened::Comes(values) | Happened::Refers(values) => !values.is_empty(),
        _ => true,
    });
    Ok(events)
}

/// The columns of a table by which others refer to it, and of which some may be set: what must be known of rows before they change.
pub fn referred<'a>(
    catalog: &'a Catalog,
    entry: &'a TableEntry,
    set: Option<&'a [usize]>,
) -> Result<Vec<(&'a TableEntry, &'a ForeignKey, Vec<usize>)>> {
    let mut referred = Vec::new();
    for (child, key) in catalog.references_to(entry.def.id) {
        let places = entry.def.places(&key.parent_columns)?;
        if set.is_none_or(|set| places.iter().any(|place| set.contains(place))) {
            referred.push((child.as_ref(), key, places));
        }
    }
    Ok(referred)
}

/// What rows of a parent that go, or become others row by row, ask to be looked at. Both have all of the table's columns.
pub fn of_parents(
    entry: &TableEntry,
    referred: &[(&TableEntry, &ForeignKey, Vec<usize>)],
    old: &RecordBatch,
    new: Option<&RecordBatch>,
) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    for (child, key, places) in referred {
        let types = reference_types(entry, &key.parent_columns)?;
        let happened = match new {
            None => Happened::Goes(Values::of([old], places, &types)?.distinct()?),
            Some(new) => {
                let Some((before, after)) = changed(old, new, places)? else { continue };
                Happened::Becomes(Values::aligned(&before, places, &types)?, Values::aligned(&after, places, &types)?)
            }
        };
        events.push(Event { table: child.def.id, name: key.name.clone(), happened });
    }
    events.retain(|event| match &event.happened {
        Happened::Goes(values) | Happened::Becomes(values, _) => !values.is_empty(),
        _ => true,
    });
    Ok(events)
}

/// Of rows that become others row by row, those that change in these columns, and had no NULL there.
fn changed(old: &RecordBatch, new: &RecordBatch, places: &[usize]) -> Result<Option<(RecordBatch, RecordBatch)>> {
    use alluvia_types::Error;
    use arrow::array::{Array, BooleanArray};
    use arrow::compute::filter_record_batch;
    let misfit = |error| Error::internal(format!("rows of a parent do not fit together: {error}"));
    let (before, after) = (old.project(places).map_err(misfit)?, new.project(places).map_err(misfit)?);
    let (was, is) = (crate::values::keys_of(before.columns())?, crate::values::keys_of(after.columns())?);
    if was.len() != is.len() {
        return Err(Error::internal("rows of a parent do not come in pairs"));
    }
    let had_all = |row: usize| before.columns().iter().all(|column| column.is_valid(row));
    let keep: BooleanArray = (0..was.len()).map(|row| Some(was[row] != is[row] && had_all(row))).collect();
    if keep.true_count() == 0 {
        return Ok(None);
    }
    let kept = |rows: &RecordBatch| filter_record_batch(rows, &keep).map_err(misfit);
    Ok(Some((kept(old)?, kept(new)?)))
}
