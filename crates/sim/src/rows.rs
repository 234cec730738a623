//! Rows as plain values: made into batches, and read out of snapshots, row by row.
//!
//! Invariant: reading uses nothing that answers statements: a segment's rows are taken as they lie, and each is asked
//! by its own number, version and ordinal whether it counts.

use alluvia_snapshot::{Snapshot, TableRead};
use alluvia_space::{Column, DataType, ORDINAL_COLUMN, TableDef, VERSION_COLUMN};
use alluvia_tree::{SegmentCursor, SegmentRows};
use alluvia_types::{Error, Result, TableId};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int32Array, Int64Array, StringViewArray, UInt64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType as Arrow, Field, Float64Type, Int64Type, Schema, UInt64Type};
use arrow::record_batch::RecordBatch;
use std::sync::Arc;

/// Rows of a segment that are read at a time.
const CHUNK_ROWS: usize = 4096;

/// A value, of the types that simulations use.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Value {
    /// NULL.
    Null,
    /// `BOOLEAN`.
    Flag(bool),
    /// `INT` and `BIGINT`.
    Number(i64),
    /// `DOUBLE`, of so many quarters: sums of such numbers are exact.
    Quarters(i64),
    /// `TEXT`.
    Text(String),
}

/// A row: a value for each column of its table.
pub type Row = Vec<Value>;

/// A row as a snapshot has it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FoundRow {
    /// Its `_version`.
    pub version: u64,
    /// Its `_ordinal`.
    pub ordinal: u64,
    /// Its values.
    pub row: Row,
}

impl Value {
    /// A text.
    pub fn text(text: impl Into<String>) -> Value {
        Value::Text(text.into())
    }

    fn number(&self) -> Option<i64> {
        match self {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }
}

/// Rows of these columns as they travel, by storage name.
pub fn batch_of(columns: &[&Column], rows: &[Row]) -> RecordBatch {
    let arrays = columns.iter().enumerate().map(|(at, column)| array_of(column.data_type, at, rows)).collect();
    let field = |column: &&Column| Field::new(&column.storage_name, column.data_type.to_arrow(), column.nullable);
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), arrays).expect("the rows have the columns' types")
}

/// Rows of a whole table as they travel.
pub fn table_batch(def: &TableDef, rows: &[Row]) -> RecordBatch {
    batch_of(&def.columns.iter().collect::<Vec<_>>(), rows)
}

/// Which rows: `_version` and `_ordinal`.
pub fn identities_batch(identities: &[(u64, u64)]) -> RecordBatch {
    let versions: ArrayRef = Arc::new(UInt64Array::from_iter_values(identities.iter().map(|row| row.0)));
    let ordinals: ArrayRef = Arc::new(UInt64Array::from_iter_values(identities.iter().map(|row| row.1)));
    let field = |name: &str| Field::new(name, Arrow::UInt64, false);
    let schema = Schema::new(vec![field(VERSION_COLUMN), field(ORDINAL_COLUMN)]);
    RecordBatch::try_new(Arc::new(schema), vec![versions, ordinals]).expect("two columns of one length")
}

fn array_of(data_type: DataType, at: usize, rows: &[Row]) -> ArrayRef {
    let values = rows.iter().map(|row| &row[at]);
    match data_type {
        DataType::Boolean => Arc::new(BooleanArray::from_iter(values.map(|value| match value {
            Value::Flag(flag) => Some(*flag),
            _ => None,
        }))),
        DataType::Int32 => {
            let number = |value: &Value| value.number().map(|number| i32::try_from(number).expect("it fits INT"));
            Arc::new(Int32Array::from_iter(values.map(number)))
        }
        DataType::Int64 => Arc::new(Int64Array::from_iter(values.map(Value::number))),
        DataType::Double => Arc::new(Float64Array::from_iter(values.map(|value| match value {
            Value::Quarters(quarters) => Some(*quarters as f64 / 4.0),
            _ => None,
        }))),
        DataType::Text => Arc::new(StringViewArray::from_iter(values.map(|value| match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        }))),
        other => panic!("simulations have no columns of type {other:?}"),
    }
}

/// Every row that a snapshot has of a table, by version and ordinal.
pub fn rows_of(snapshot: &Snapshot, table: TableId) -> Result<Vec<FoundRow>> {
    let Some(read) = snapshot.tables.get(&table) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for part in &read.segments {
        add_segment(read, part, &mut found)?;
    }
    for run in &read.tail {
        found.extend(found_rows(&read.entry.def, &run.rows)?);
    }
    let (version, newest) = (snapshot.version, found.iter().map(|row| row.version).max());
    if let Some(newest) = newest.filter(|newest| *newest > version.0) {
        return Err(Error::internal(format!("a snapshot of version {version} has a row of version {newest}")));
    }
    found.sort();
    Ok(found)
}

/// Those of them that a segment has.
pub fn rows_of_segment(read: &TableRead, part: &SegmentRows) -> Result<Vec<FoundRow>> {
    let mut found = Vec::new();
    add_segment(read, part, &mut found)?;
    found.sort();
    Ok(found)
}

/// The rows of a segment that count, one by one.
fn add_segment(read: &TableRead, part: &SegmentRows, found: &mut Vec<FoundRow>) -> Result<()> {
    let def = &read.entry.def;
    let missing = || Error::internal(format!("table '{}' has segments and no dictionaries", def.name));
    let dictionaries = read.dictionaries.as_ref().ok_or_else(missing)?;
    let rows = part.segment.meta().rows;
    let mut cursor = SegmentCursor::new(&part.segment, def, dictionaries, 0..rows, CHUNK_ROWS)?;
    // As they lie: kills are told by a row's number in the segment, which is not its place in key order.
    let mut number = 0;
    while let Some(chunk) = cursor.next_ordered()? {
        for row in found_rows(def, &chunk.rows().whole()?)? {
            let is_dead = part.dead.as_ref().is_some_and(|dead| dead.contains(number));
            let is_above = part.above.is_none_or(|above| row.version > above.0);
            let is_through = part.through.is_none_or(|through| row.version <= through.0);
            if is_above && is_through && !is_dead {
                found.push(row);
            }
            number += 1;
        }
    }
    if number != rows {
        return Err(Error::internal(format!("segment {} has {number} rows of {rows}", part.segment.meta().id)));
    }
    Ok(())
}

/// The rows of a batch that ends with the hidden columns, as the definition has them.
pub fn found_rows(def: &TableDef, batch: &RecordBatch) -> Result<Vec<FoundRow>> {
    let hidden = |name: &str| -> Result<&UInt64Array> {
        let column = batch.column_by_name(name).and_then(|column| column.as_primitive_opt::<UInt64Type>());
        let column = column.filter(|column| column.null_count() == 0);
        column.ok_or_else(|| Error::internal(format!("rows have no {name}")))
    };
    let (versions, ordinals) = (hidden(VERSION_COLUMN)?, hidden(ORDINAL_COLUMN)?);
    let rows = rows_in(def, batch)?.into_iter().enumerate();
    Ok(rows.map(|(at, row)| FoundRow { version: versions.value(at), ordinal: ordinals.value(at), row }).collect())
}

/// The rows of a batch as the definition has them.
pub fn rows_in(def: &TableDef, batch: &RecordBatch) -> Result<Vec<Row>> {
    let values = |column: &Column| match batch.column_by_name(&column.storage_name) {
        Some(values) => values_of(column.data_type, values),
        None => Ok(vec![Value::Null; batch.num_rows()]),
    };
    let columns = def.columns.iter().map(values).collect::<Result<Vec<_>>>()?;
    Ok((0..batch.num_rows()).map(|at| columns.iter().map(|column| column[at].clone()).collect()).collect())
}

/// The values of a column, however its texts are encoded.
fn values_of(data_type: DataType, values: &ArrayRef) -> Result<Vec<Value>> {
    let arrow = match data_type {
        DataType::Boolean => Arrow::Boolean,
        DataType::Int32 | DataType::Int64 => Arrow::Int64,
        DataType::Double => Arrow::Float64,
        _ => Arrow::Utf8,
    };
    // A dictionary has NULLs among its values, too.
    let values = cast(values, &arrow);
    let values = values.map_err(|error| Error::internal(format!("a column of {data_type:?}: {error}")))?;
    let value = |at: usize| match data_type {
        _ if values.is_null(at) => Value::Null,
        DataType::Boolean => Value::Flag(values.as_boolean().value(at)),
        DataType::Int32 | DataType::Int64 => Value::Number(values.as_primitive::<Int64Type>().value(at)),
        DataType::Double => Value::Quarters((values.as_primitive::<Float64Type>().value(at) * 4.0) as i64),
        _ => Value::text(values.as_string::<i32>().value(at)),
    };
    Ok((0..values.len()).map(value).collect())
}
