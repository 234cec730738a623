//! What a table's definition does with rows that come: defaults, values of identity columns, conditions.
//!
//! Invariants:
//! - Whatever way rows come, they pass here once, after they were fitted to their table and before anything else sees
//!   them: [`Rules`] gives what they lack, and refuses a row of which a condition is false. NULL is not false.
//! - Expressions are planned as those of any query are, and evaluated over batches: what is the same for every row is
//!   computed once a batch, what differs from row to row once a row.
//! - A value of a sequence is given once, whatever becomes of the row ([`sequences`](crate::engine::sequences)).

mod compiled;

use crate::engine::Engine;
use crate::errors::error_of;
use crate::execution::blocking::blocking;
use crate::session::run::Run;
use crate::session::state::State;
use crate::table::sql_schema;
use alluvia_catalog::TableEntry;
use alluvia_copy::{Assigner, Lacking, RowRules};
use alluvia_space::{Column, TableDef};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::builders::TextAs;
use alluvia_values::text::value_text;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions, new_empty_array};
use arrow::compute::{cast, interleave};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::physical_expr::PhysicalExpr;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// What a table's definition does with the rows of one statement.
pub(crate) struct Rules {
    entry: Arc<TableEntry>,
    defaults: BTreeMap<usize, Arc<dyn PhysicalExpr>>,
    checks: Vec<(String, Arc<dyn PhysicalExpr>)>,
    engine: Arc<Engine>,
    state: Arc<Mutex<State>>,
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").field("table", &self.entry.def.name).finish_non_exhaustive()
    }
}

/// What a table's definition does with the rows of a statement; `None` where it says nothing of them.
pub(crate) async fn rules_of(run: &Run, entry: &Arc<TableEntry>) -> Result<Option<Arc<Rules>>> {
    if entry.def.rules.is_empty() {
        return Ok(None);
    }
    let key = (entry.def.id, entry.changed_at, run.settings.time_zone.clone());
    let known = run.engine().kept_rules();
    let kept = match known.get(&key) {
        Some(kept) => kept,
        None => {
            let kept = Arc::new(compiled::compile(run, &entry.def).await?);
            known.put(key, &kept);
            kept
        }
    };
    let (defaults, checks) = kept.physical(run)?;
    Ok(Some(Arc::new(Rules {
        entry: Arc::clone(entry),
        defaults,
        checks,
        engine: Arc::clone(run.engine()),
        state: Arc::clone(&run.scope.state),
    })))
}

/// Refuses a definition of which an expression cannot be planned, or gives what its column does not take.
pub(crate) async fn check_definition(run: &Run, def: &TableDef) -> Result<()> {
    if def.rules.is_empty() {
        return Ok(());
    }
    let (defaults, _) = compiled::compile(run, def).await?.physical(run)?;
    for (column, expr) in defaults {
        match assigned(def, column, &expr, 1) {
            // A column that must be given a value may say so, as in PostgreSQL.
            Err(error) if error.kind() == ErrorKind::NotNull => {}
            other => drop(other?),
        }
    }
    Ok(())
}

/// Rows with what they lack, on a thread that may wait where a sequence is asked.
pub(crate) async fn completed(rules: &Option<Arc<Rules>>, rows: RecordBatch, lacking: Lacking) -> Result<RecordBatch> {
    match rules {
        Some(rules) if rules.may_wait(&lacking) => {
            let rules = Arc::clone(rules);
            blocking(move || rules.complete(rows, &lacking)).await
        }
        _ => completed_now(rules, rows, &lacking),
    }
}

/// The same on this thread.
pub(crate) fn completed_now(rules: &Option<Arc<Rules>>, rows: RecordBatch, lacking: &Lacking) -> Result<RecordBatch> {
    match rules {
        Some(rules) => rules.complete(rows, lacking),
        None if lacking.is_empty() => Ok(rows),
        None => Err(Error::internal("rows lack what their definition does not give")),
    }
}

impl Rules {
    fn may_wait(&self, lacking: &Lacking) -> bool {
        let def = &self.entry.def;
        lacking.columns().any(|(column, _)| def.identity_of(def.columns[column].id).is_some())
    }

    /// Refuses rows, in the table's storage schema, of which a condition is false.
    pub(crate) fn check<'a>(&self, batches: impl IntoIterator<Item = &'a RecordBatch>) -> Result<()> {
        let def = &self.entry.def;
        if self.checks.is_empty() && def.rules.not_null.is_empty() {
            return Ok(());
        }
        let not_null = def.places(&def.rules.not_null)?;
        let schema = sql_schema(def);
        for batch in batches {
            if let Some(&at) = not_null.iter().find(|&&at| batch.column(at).logical_null_count() > 0) {
                return Err(is_null(def, &def.columns[at]));
            }
            if self.checks.is_empty() {
                continue;
            }
            let columns = batch.columns().iter().zip(&def.columns).map(|(array, column)| plain(array, column));
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options).map_err(misfit)?;
            for (name, expr) in &self.checks {
                let truths = evaluate(expr, &batch)?;
                let Some(truths) = truths.as_boolean_opt() else { continue };
                if let Some(row) = (0..truths.len()).find(|&row| truths.is_valid(row) && !truths.value(row)) {
                    return Err(violated(def, name, &batch, row));
                }
            }
        }
        Ok(())
    }

    /// So many values of a column, as its definition gives them.
    pub(crate) fn values(&self, column: usize, count: usize) -> Result<ArrayRef> {
        let def = &self.entry.def;
        let wanted = def.columns[column].data_type.to_arrow();
        if count == 0 {
            return Ok(new_empty_array(&wanted));
        }
        if let Some(identity) = def.identity_of(def.columns[column].id) {
            let taken =
                self.engine.sequences().take(&self.engine, self.state.as_ref(), &self.entry, identity, count as u64)?;
            let values = (0..count as u64).map(|at| identity.behind(taken, at).unwrap_or(taken));
            let values: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
            return cast(&values, &wanted).map_err(misfit);
        }
        match self.defaults.get(&column) {
            Some(expr) => assigned(def, column, expr, count),
            None => Err(Error::internal(format!("column {} has no default", def.columns[column].name))),
        }
    }
}

impl RowRules for Rules {
    fn complete(&self, rows: RecordBatch, lacking: &Lacking) -> Result<RecordBatch> {
        let says_what_it_does = rows.num_columns() > self.entry.def.columns.len();
        let rows = if lacking.is_empty() { rows } else { self.filled(rows, lacking)? };
        if !says_what_it_does {
            self.check([&rows])?;
        }
        Ok(rows)
    }
}

impl Rules {
    /// Rows with what they lack, and any columns behind those of the table.
    fn filled(&self, rows: RecordBatch, lacking: &Lacking) -> Result<RecordBatch> {
        let (schema, mut arrays, count) = rows.into_parts();
        for (column, some) in lacking.columns() {
            let values = self.values(column, some.map_or(count, <[usize]>::len))?;
            arrays[column] = match some {
                None => values,
                Some(some) => put(&plain(&arrays[column], &self.entry.def.columns[column])?, &values, some)?,
            };
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let stored = self.entry.storage_schema();
        // Among rows that say what they do are some that have not all that is NOT NULL.
        let known = if arrays.len() > stored.fields().len() { &schema } else { stored };
        RecordBatch::try_new_with_options(retyped(known, &arrays), arrays, &options).map_err(misfit)
    }
}

/// The schema of arrays that have what they lacked; texts may still be dictionaries, and may be none any more.
fn retyped(known: &SchemaRef, arrays: &[ArrayRef]) -> SchemaRef {
    if known.fields().iter().zip(arrays).all(|(field, array)| field.data_type() == array.data_type()) {
        return Arc::clone(known);
    }
    let field =
        |(field, array): (&Arc<Field>, &ArrayRef)| field.as_ref().clone().with_data_type(array.data_type().clone());
    Arc::new(Schema::new(known.fields().iter().zip(arrays).map(field).collect::<Vec<_>>()))
}

/// `values` in the place of what `rows` of a column have.
fn put(array: &ArrayRef, values: &ArrayRef, rows: &[usize]) -> Result<ArrayRef> {
    let mut places: Vec<(usize, usize)> = (0..array.len()).map(|row| (0, row)).collect();
    for (at, row) in rows.iter().enumerate() {
        places[*row] = (1, at);
    }
    interleave(&[array.as_ref(), values.as_ref()], &places).map_err(misfit)
}

/// A column in its own type: not as a dictionary.
fn plain(array: &ArrayRef, column: &Column) -> Result<ArrayRef> {
    let wanted = column.data_type.to_arrow();
    if *array.data_type() == wanted { Ok(Arc::clone(array)) } else { cast(array, &wanted).map_err(misfit) }
}

fn evaluate(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<ArrayRef> {
    let value = expr.evaluate(batch).map_err(|error| error_of(&error))?;
    value.into_array(batch.num_rows()).map_err(|error| error_of(&error))
}

/// What an expression gives so many rows, as a column takes it.
fn assigned(def: &TableDef, column: usize, expr: &Arc<dyn PhysicalExpr>, count: usize) -> Result<ArrayRef> {
    let options = RecordBatchOptions::new().with_row_count(Some(count));
    let none = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options).map_err(misfit)?;
    let given = evaluate(expr, &none)?;
    let schema = Arc::new(Schema::new(vec![Field::new("default", given.data_type().clone(), true)]));
    let assigner = Assigner::for_columns(&schema, def, &[column], &[Some(0)], TextAs::Plain)?.of_query();
    let given = RecordBatch::try_new_with_options(schema, vec![given], &options).map_err(misfit)?;
    let (mut arrays, bad) = assigner.convert(&given)?;
    if let Some(bad) = bad.first() {
        return Err(Error::new(bad.bad.kind(), format!("DEFAULT of {}", bad.reason(def)))
            .with_hint("ALTER TABLE t ALTER COLUMN a SET DEFAULT gives the column another"));
    }
    arrays.pop().ok_or_else(|| Error::internal("a default came to nothing"))
}

fn is_null(def: &TableDef, column: &Column) -> Error {
    let (column, table) = (&column.name, &def.name);
    let message = format!("null value in column \"{column}\" of relation \"{table}\" violates not-null constraint");
    Error::new(ErrorKind::NotNull, message).with_hint(format!("give column {column} a value in every row"))
}

fn violated(def: &TableDef, name: &str, rows: &RecordBatch, row: usize) -> Error {
    const CHARS_MAX: usize = 64;
    let value = |array: &ArrayRef| {
        if array.is_null(row) {
            return "null".to_owned();
        }
        let text = value_text(array.as_ref(), row).unwrap_or_default();
        match text.char_indices().nth(CHARS_MAX) {
            Some((end, _)) => format!("{}...", &text[..end]),
            None => text,
        }
    };
    let values: Vec<String> = rows.columns().iter().map(value).collect();
    let message = format!(
        "new row for relation \"{}\" violates check constraint \"{name}\": failing row contains ({})",
        def.name,
        values.join(", ")
    );
    let sql = def.rules.checks.iter().find(|check| check.name == name).map(|check| check.sql.as_str());
    Error::new(ErrorKind::CheckViolation, message)
        .with_hint(format!("every row must have {}", sql.unwrap_or("what the constraint says")))
}

fn misfit(error: ArrowError) -> Error {
    Error::internal(format!("rows do not have the columns of their table: {error}"))
}
