//! Columns of system tables from values.

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::common::Result;
use std::sync::Arc;
use std::time::Duration;

/// The types of system tables' columns. All but text and bigint that are declared so may be NULL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// TEXT
    Text,
    /// BIGINT
    Count,
    /// DOUBLE, seconds
    Seconds,
    /// DOUBLE, from 0 to 1
    Share,
    /// TIMESTAMP WITH TIME ZONE
    Time,
}

/// A schema of nullable columns.
pub(crate) fn schema(columns: &[(&str, Kind)]) -> SchemaRef {
    let field = |&(name, kind): &(&str, Kind)| {
        let data_type = match kind {
            Kind::Text => DataType::Utf8View,
            Kind::Count => DataType::Int64,
            Kind::Seconds | Kind::Share => DataType::Float64,
            Kind::Time => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        };
        Field::new(name, data_type, true)
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// A row's value in one column.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Cell {
    /// NULL of whatever type.
    Null,
    /// TEXT
    Text(String),
    /// BIGINT
    Count(i64),
    /// DOUBLE, seconds
    Seconds(f64),
    /// DOUBLE, from 0 to 1
    Share(f64),
    /// TIMESTAMP WITH TIME ZONE, microseconds since 1970
    Time(i64),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Cell {
        Cell::Count(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Cell {
        Cell::from(count as u64)
    }
}

impl From<Duration> for Cell {
    fn from(duration: Duration) -> Cell {
        Cell::Seconds(duration.as_secs_f64())
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Null, Into::into)
    }
}

/// The rows as a batch. Each row has one cell per column, NULL or of the column's kind.
pub(crate) fn batch(schema: &SchemaRef, rows: Vec<Vec<Cell>>) -> Result<RecordBatch> {
    let column = |(at, field): (usize, &Arc<Field>)| -> ArrayRef {
        let cells = rows.iter().map(|row| &row[at]);
        match field.data_type() {
            DataType::Utf8View => Arc::new(StringViewArray::from_iter(cells.map(|cell| match cell {
                Cell::Text(text) => Some(text.as_str()),
                other => null(other, field),
            }))),
            DataType::Int64 => Arc::new(Int64Array::from_iter(cells.map(|cell| match cell {
                Cell::Count(count) => Some(*count),
                other => null(other, field),
            }))),
            DataType::Float64 => Arc::new(Float64Array::from_iter(cells.map(|cell| match cell {
                Cell::Seconds(number) | Cell::Share(number) => Some(*number),
                other => null(other, field),
            }))),
            _ => {
                let times = TimestampMicrosecondArray::from_iter(cells.map(|cell| match cell {
                    Cell::Time(micros) => Some(*micros),
                    other => null(other, field),
                }));
                Arc::new(times.with_timezone("UTC"))
            }
        }
    };
    let columns = schema.fields().iter().enumerate().map(column).collect();
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

fn null<T>(cell: &Cell, field: &Field) -> Option<T> {
    assert_eq!(*cell, Cell::Null, "a cell of another kind in column {}", field.name());
    None
}
