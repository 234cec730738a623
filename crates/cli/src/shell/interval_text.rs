//! Intervals, and differences of timestamps, as PostgreSQL writes them: `3 days 11:00:00`.
//!
//! Invariants:
//! - They are written by what writes them for a cast to text ([`alluvia_values::display`]).
//! - A value that has no such form is an error. Nanoseconds are cut off: PostgreSQL's intervals have none.

use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::display::{write_difference, write_interval};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, DurationMicrosecondType, Field, FieldRef, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
    Schema, SchemaRef, TimeUnit,
};
use arrow::error::ArrowError;
use std::fmt;
use std::sync::Arc;

/// Whether values of this type are intervals of time.
fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Duration(_) | DataType::Interval(_))
}

/// The texts of a column of intervals; `None` of any other column.
pub fn interval_texts(name: &str, column: &ArrayRef) -> Result<Option<Vec<Option<String>>>> {
    let unshown = |error: ArrowError| {
        Error::new(ErrorKind::InvalidValue, format!("a value of column {name} cannot be shown: {error}"))
    };
    let as_type = |wanted: DataType| -> Result<ArrayRef> {
        // The casts' safe mode would put NULL for what does not fit.
        let options = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(column.as_ref(), &wanted, &options).map_err(unshown)
    };
    let texts: Result<Vec<Option<String>>> = match column.data_type() {
        DataType::Duration(_) => {
            let intervals = as_type(DataType::Duration(TimeUnit::Microsecond))?;
            let text = |micros| written(|out| write_difference(out, micros));
            intervals
                .as_primitive::<DurationMicrosecondType>()
                .iter()
                .map(|interval| interval.map(text).transpose())
                .collect()
        }
        DataType::Interval(_) => {
            let intervals = as_type(DataType::Interval(IntervalUnit::MonthDayNano))?;
            let text = |interval: IntervalMonthDayNano| {
                written(|out| write_interval(out, interval.months, interval.days, interval.nanoseconds / 1_000))
            };
            intervals
                .as_primitive::<IntervalMonthDayNanoType>()
                .iter()
                .map(|interval| interval.map(text).transpose())
                .collect()
        }
        _ => return Ok(None),
    };
    texts.map(Some)
}

fn written(write: impl FnOnce(&mut String) -> fmt::Result) -> Result<String> {
    let mut text = String::new();
    write(&mut text).map_err(|_| Error::internal("a String takes every text"))?;
    Ok(text)
}

/// A schema whose intervals are texts.
pub fn spelled_schema(schema: &SchemaRef) -> SchemaRef {
    if !schema.fields().iter().any(|field| is_interval(field.data_type())) {
        return Arc::clone(schema);
    }
    let spelled = |field: &FieldRef| match is_interval(field.data_type()) {
        true => Arc::new(Field::new(field.name(), DataType::Utf8, field.is_nullable())),
        false => Arc::clone(field),
    };
    Arc::new(Schema::new(schema.fields().iter().map(spelled).collect::<Vec<FieldRef>>()))
}

/// Rows whose intervals are texts.
pub fn spelled(batch: &RecordBatch) -> Result<RecordBatch> {
    let schema = batch.schema();
    if !schema.fields().iter().any(|field| is_interval(field.data_type())) {
        return Ok(batch.clone());
    }
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(batch.num_columns());
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        columns.push(match interval_texts(field.name(), column)? {
            Some(texts) => Arc::new(StringArray::from(texts)) as ArrayRef,
            None => Arc::clone(column),
        });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(spelled_schema(&schema), columns, &options)
        .map_err(|error| Error::internal(format!("an answer cannot be shown: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{DurationMicrosecondArray, DurationSecondArray, Int64Array};

    #[test]
    fn intervals_are_written_as_postgresql_does_and_what_is_too_long_is_an_error() {
        let intervals: ArrayRef = Arc::new(DurationMicrosecondArray::from(vec![Some(298_800_000_000), None, Some(-1)]));
        let texts = interval_texts("a", &intervals).unwrap().unwrap();
        let texts: Vec<Option<&str>> = texts.iter().map(|text| text.as_deref()).collect();
        assert_eq!(texts, [Some("3 days 11:00:00"), None, Some("-00:00:00.000001")]);
        let long: ArrayRef = Arc::new(DurationSecondArray::from(vec![i64::MAX]));
        assert_eq!(interval_texts("a", &long).unwrap_err().kind(), ErrorKind::InvalidValue);
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        assert!(interval_texts("n", &numbers).unwrap().is_none());
        let batch = RecordBatch::try_from_iter_with_nullable([("a", intervals, true), ("n", numbers, true)]).unwrap();
        let spelled = spelled(&batch).unwrap();
        assert_eq!(spelled.column(0).as_string::<i32>().value(0), "3 days 11:00:00");
        assert_eq!(spelled.schema(), spelled_schema(&batch.schema()));
    }
}
