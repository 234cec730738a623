//! INSERT: the rows of VALUES and of queries.
//!
//! Invariants:
//! - Rows of literals are bound without a query ([`values`]), rows of which something is computed by one
//!   ([`computed`]), and the rows of any other query as they come.
//! - The table's definition is the one that the rows are checked against: its version travels with them, and COMMIT
//!   refuses another.

pub(crate) mod computed;
pub(crate) mod rows;
pub(crate) mod values;

use crate::rights::INSERT;
use crate::session::insert::computed::insert_computed;
use crate::session::insert::rows::{inserted, mapping, read_all, stream_into, write};
use crate::session::insert::values::{literal_rows, values_rows};
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::planning::plan;
use crate::session::transaction::submit::{submit, submit_empty};
use alluvia_snapshot::NewBatch;
use alluvia_space::{DataType, TableDef};
use alluvia_syntax::names::name_of;
use alluvia_syntax::statement::{Insert, InsertSource};
use alluvia_syntax::trees::value_rows::values_of;
use alluvia_syntax::{Hints, keep_columns};
use alluvia_types::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::Ident;
use std::sync::Arc;

/// INSERT INTO.
pub(crate) async fn insert(run: &Arc<Run>, insert: Insert, hints: &Hints) -> Result<Outcome> {
    let entry = run.scope.table_for(INSERT, &insert.table)?;
    let listed = insert.columns.as_deref();
    let mut source = match insert.source {
        InsertSource::Literals(literals) => {
            let targets = targets(&entry.def, listed, literals.width())?;
            let rows = literal_rows(&literals, &entry, &targets)?;
            return write(run, &entry, vec![rows]).await;
        }
        InsertSource::Query(source) => source,
    };
    if let Some(values) = values_of(&source)
        && let Some(first) = values.rows.first()
    {
        let targets = targets(&entry.def, listed, first.content.len())?;
        if let Some(rows) = values_rows(values, &entry, &targets)? {
            return write(run, &entry, vec![rows]).await;
        }
        return insert_computed(run, values, &entry, &targets, hints).await;
    }
    let into = listed.map(|listed| targets(&entry.def, Some(listed), listed.len())).transpose()?;
    keep_columns(&mut source, &|place: usize| {
        let column = into.as_ref().map_or(Some(place), |into| into.get(place).copied());
        column.and_then(|column| entry.def.columns.get(column)).is_some_and(|column| has_digits(column.data_type))
    });
    let planned = plan(run, source, hints).await?;
    let width = planned.schema().fields().len();
    let targets = targets(&entry.def, listed, width)?;
    if width != targets.len() {
        return Err(too_many(&entry.def, width, targets.len()));
    }
    let mapping = mapping(&entry.def, &targets);
    if run.state().is_open()? {
        let rows = read_all(run, &planned, &entry.def, &mapping).await?;
        return Ok(write(run, &entry, rows).await?.with_used(planned.used()));
    }
    let mut batch = NewBatch::default();
    let rows = stream_into(run, &planned, &entry.def, entry.changed_at, &mapping, &mut batch).await?;
    // A batch may have to wait until what statements hold is given back: not for its own.
    let used = planned.used();
    drop(planned);
    match rows {
        0 => submit_empty(run).await?,
        _ => Some(submit(run, batch).await?),
    };
    Ok(inserted(rows).with_used(used))
}

/// Whether values of a type have all the digits that numbers are written with: not the nearest double's.
fn has_digits(data_type: DataType) -> bool {
    use DataType::{Decimal, Int16, Int32, Int64, Text};
    matches!(data_type, Int16 | Int32 | Int64 | Decimal { .. } | Text)
}

/// The columns that the values of a row go to, as indices into the table's columns.
pub(crate) fn targets(def: &TableDef, listed: Option<&[Ident]>, width: usize) -> Result<Vec<usize>> {
    let Some(listed) = listed else {
        if width > def.columns.len() {
            return Err(too_many(def, width, def.columns.len()));
        }
        // As in PostgreSQL, without a list the first columns get the values, and the rest NULL.
        return Ok((0..width).collect());
    };
    let mut targets = Vec::with_capacity(listed.len());
    for ident in listed {
        let column = def.column(&name_of(ident))?;
        let index = def.columns.iter().position(|known| known.id == column.id);
        let index = index.ok_or_else(|| Error::internal(format!("column {} is not in its table", column.name)))?;
        if targets.contains(&index) {
            return Err(Error::new(ErrorKind::DuplicateColumn, format!("column {} is listed twice", column.name)));
        }
        targets.push(index);
    }
    Ok(targets)
}

fn too_many(def: &TableDef, width: usize, wanted: usize) -> Error {
    let names: Vec<&str> = def.columns.iter().map(|column| column.name.as_str()).collect();
    Error::new(ErrorKind::Syntax, format!("INSERT INTO {} has {width} expressions for {wanted} columns", def.name))
        .with_hint(format!("the table's columns are {}", names.join(", ")))
}
