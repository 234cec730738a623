//! Rows of several tables that RETURNING is asked of, in step: the first of each belong together, and so on.

use crate::errors::error_of;
use crate::session::change::reading::{Read, Reading, misfit};
use crate::session::change::returning::Returned;
use crate::session::run::Run;
use crate::table::sql_schema;
use alluvia_change::{BESIDE, Beside, ROWS, mark_of, returning_beside_query};
use alluvia_types::{Error, Result};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::sql::sqlparser::ast::{Ident, Query};
use std::sync::Arc;

/// A table that a statement is given, under its name.
pub(super) type Given = (&'static str, Arc<dyn TableProvider>);

/// A name for the column of rows' numbers that none of these columns has.
pub(super) fn number_name<'a>(columns: impl Iterator<Item = &'a String> + Clone) -> String {
    let mut name = "row number".to_owned();
    while columns.clone().any(|column| *column == name) {
        name.push('_');
    }
    name
}

/// A table of these batches, with a column of the rows' numbers.
pub(super) fn numbered(
    name: &'static str,
    mut fields: Vec<FieldRef>,
    number: &str,
    batches: Vec<Vec<ArrayRef>>,
) -> Result<Given> {
    fields.push(Arc::new(Field::new(number, DataType::Int64, false)));
    let schema = Arc::new(Schema::new(fields));
    let mut before = 0i64;
    let mut all = Vec::with_capacity(batches.len());
    for mut columns in batches {
        let rows = columns.first().map_or(0, |column| column.len());
        columns.push(Arc::new(Int64Array::from_iter_values((before..).take(rows))));
        before += rows as i64;
        all.push(RecordBatch::try_new(Arc::clone(&schema), columns).map_err(misfit)?);
    }
    let table = MemTable::try_new(schema, vec![all]).map_err(|error| error_of(&error))?;
    Ok((name, Arc::new(table)))
}

/// Where the columns of tables beside begin in what a query gave; its own end there.
pub(super) fn first_beside(read: &Read) -> usize {
    let mark = mark_of(0);
    let fields = read.schema.fields();
    fields.iter().position(|field| *field.name() == mark).unwrap_or(fields.len())
}

/// What RETURNING gives of `rows`, which a statement has made of the rows that its query gave, and of the tables beside.
pub(super) async fn returned_beside(
    run: &Run,
    reading: &Reading,
    returning: Option<&Query>,
    (alias, beside): (&Ident, &[Ident]),
    read: &Read,
    rows: &[RecordBatch],
) -> Result<Returned> {
    let Some(returning) = returning.filter(|_| !beside.is_empty()) else {
        return Returned::of(run, reading, returning, rows).await;
    };
    let def = &reading.entry.def;
    let fields = read.schema.fields();
    let marks = (0..beside.len()).map(|at| {
        let mark = mark_of(at);
        let place = fields.iter().position(|field| *field.name() == mark);
        place.ok_or_else(|| Error::internal("a query does not give the tables beside"))
    });
    let marks = marks.collect::<Result<Vec<usize>>>()?;
    let mut tables = Vec::with_capacity(beside.len());
    let mut places = Vec::with_capacity(beside.len());
    for (at, ((name, given), mark)) in beside.iter().zip(BESIDE).zip(&marks).enumerate() {
        let end = marks.get(at + 1).copied().unwrap_or(fields.len());
        let columns = fields[mark + 1..end].iter().map(|field| field.name().clone()).collect();
        tables.push(Beside { alias: name.clone(), given, columns });
        places.push(mark + 1..end);
    }
    let own = def.columns.iter().map(|column| &column.name);
    let number = number_name(own.chain(tables.iter().flat_map(|table| &table.columns)));
    let target = sql_schema(def).fields().iter().cloned().collect();
    let batches = rows.iter().filter(|rows| rows.num_rows() > 0).map(|rows| rows.columns().to_vec()).collect();
    let mut given = vec![numbered(ROWS, target, &number, batches)?];
    for (table, places) in tables.iter().zip(&places) {
        let of_query = read.batches.iter().filter(|batch| batch.num_rows() > 0);
        let batches = of_query.map(|batch| batch.columns()[places.clone()].to_vec()).collect();
        given.push(numbered(table.given, fields[places.clone()].to_vec(), &number, batches)?);
    }
    let made = |query: &Query| returning_beside_query(def, alias, query, &tables, &number);
    Returned::by(run, reading, returning, made, || Ok(given.clone())).await
}
