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

use crate::session::insert::computed::computed_rows;
use crate::session::insert::rows::{hold_query, inserted, mapping, read_all, stream_into, write, write_rows};
use crate::session::insert::values::{Given, always_numbered, literal_rows, values_rows};
use crate::session::rules::{completed, rules_of};
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::planning::{Planned, plan};
use crate::session::transaction::submit::{submit, submit_empty};
use crate::used::UsedCounters;
use alluvia_catalog::TableEntry;
use alluvia_catalog::authoriser::INSERT;
use alluvia_change::has_digits;
use alluvia_copy::Lacking;
use alluvia_snapshot::{NewBatch, RowChange};
use alluvia_space::TableDef;
use alluvia_syntax::names::name_of;
use alluvia_syntax::statement::{Insert, InsertSource};
use alluvia_syntax::statements::rules::Overriding;
use alluvia_syntax::trees::value_rows::values_of;
use alluvia_syntax::{Hints, keep_columns};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::RecordBatch;
use datafusion::sql::sqlparser::ast::Ident;
use std::sync::Arc;

/// INSERT INTO, of rows that do to those that are there what the table says.
pub(crate) async fn insert(run: &Arc<Run>, insert: Insert, hints: &Hints) -> Result<Outcome> {
    let entry = run.scope.table_for(INSERT, &insert.table)?;
    let change = RowChange::of_table(&entry.def);
    let rules = rules_of(run, &entry).await?;
    let (planned, mapping) =
        match source_of(run, &entry, (insert.columns.as_deref(), insert.overriding), insert.source, hints).await? {
            Source::Literals(rows, lacking) => {
                let rows = completed(&rules, rows, lacking).await?;
                return write(run, &entry, change, vec![rows]).await;
            }
            Source::Computed(rows, lacking, used) => {
                let rows = completed(&rules, rows, lacking).await?;
                return Ok(write_rows(run, &entry, rows).await?.with_used(used));
            }
            Source::Query(planned, mapping) => (planned, mapping),
        };
    if run.state().is_held(entry.def.id)? {
        let (rows, passed_over) = hold_query(run, &planned, &entry, change, &mapping, &rules).await?;
        return Ok(inserted(rows.saturating_sub(passed_over)).with_used(planned.used()));
    }
    let mut batch = NewBatch::default();
    let rows = stream_into(run, &planned, (&entry.def, entry.changed_at), &mapping, &rules, &mut batch).await?;
    // A batch may have to wait until what statements hold is given back: not for its own.
    let used = planned.used();
    drop(planned);
    let committed = match rows {
        0 => submit_empty(run).await?,
        _ => Some(submit(run, batch).await?),
    };
    let passed_over = committed.map_or(0, |committed| committed.passed_over);
    Ok(inserted(rows.saturating_sub(passed_over)).with_used(used))
}

/// The rows of an INSERT in memory, in the storage schema of `entry`, and what was read for them.
pub(crate) async fn rows_of(
    run: &Arc<Run>,
    entry: &Arc<TableEntry>,
    insert: &Insert,
    hints: &Hints,
) -> Result<(Vec<RecordBatch>, Option<Arc<UsedCounters>>)> {
    let rules = rules_of(run, entry).await?;
    let listed = (insert.columns.as_deref(), insert.overriding);
    match source_of(run, entry, listed, insert.source.clone(), hints).await? {
        Source::Literals(rows, lacking) => Ok((vec![completed(&rules, rows, lacking).await?], None)),
        Source::Computed(rows, lacking, used) => Ok((vec![completed(&rules, rows, lacking).await?], Some(used))),
        Source::Query(planned, mapping) => {
            let rows = read_all(run, &planned, &entry.def, &mapping, &rules).await?;
            Ok((rows, Some(planned.used())))
        }
    }
}

/// Where the rows of an INSERT come from, bound to its table.
enum Source {
    /// Rows of literals, and what they lack.
    Literals(RecordBatch, Lacking),
    /// Rows of which something was computed, what they lack, and what was read for them.
    Computed(RecordBatch, Lacking, Arc<UsedCounters>),
    /// A query, and for each column of the table the index of its source.
    Query(Planned, Vec<Option<usize>>),
}

async fn source_of(
    run: &Arc<Run>,
    entry: &Arc<TableEntry>,
    (listed, overriding): (Option<&[Ident]>, Option<Overriding>),
    source: InsertSource,
    hints: &Hints,
) -> Result<Source> {
    let mut source = match source {
        InsertSource::Literals(literals) => {
            let targets = targets(&entry.def, listed, literals.width())?;
            let (rows, lacking) = literal_rows(&literals, entry, &targets, &run.settings.time_zone)?;
            return Ok(Source::Literals(rows, lacking));
        }
        InsertSource::Query(source) => source,
    };
    if let Some(values) = values_of(&source)
        && let Some(first) = values.rows.first()
    {
        let targets = targets(&entry.def, listed, first.content.len())?;
        if let Some((rows, lacking)) = values_rows(values, entry, &targets, overriding, &run.settings.time_zone)? {
            return Ok(Source::Literals(rows, lacking));
        }
        let (rows, lacking, used) = computed_rows(run, values, entry, &targets, overriding, hints).await?;
        return Ok(Source::Computed(rows, lacking, used));
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
    let mut mapping = mapping(&entry.def, &targets);
    for (column, from) in entry.def.columns.iter().zip(&mut mapping).filter(|(_, from)| from.is_some()) {
        match Given::of(&entry.def, column, overriding) {
            Given::Taken => {}
            Given::Refused => return Err(always_numbered(column)),
            Given::PassedOver => *from = None,
        }
    }
    Ok(Source::Query(planned, mapping))
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
