//! Intervals in a segment's Parquet file: 16 bytes each, as Parquet's own interval has no microseconds and the `parquet` crate writes none of Arrow's.
//!
//! Invariants:
//! - The bytes are months and days, four each, and microseconds, eight, all with the lowest byte first.
//! - The file says of a column of these no more than that it has 16 bytes; of a column of UUIDs it says that it is one.

use alluvia_space::data_type::UUID_BYTES;
use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryArray, IntervalMonthDayNanoArray};
use arrow::datatypes::{
    DataType, Field, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, Schema, SchemaRef,
};
use parquet::basic::LogicalType;
use parquet::errors::{ParquetError, Result};
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};
use std::sync::Arc;

/// Bytes of an interval.
const BYTES: usize = 16;

/// Arrow's type of intervals.
pub(crate) const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// What the file has for a type.
pub(crate) fn stored_type(data_type: &DataType) -> DataType {
    if *data_type == INTERVAL { DataType::FixedSizeBinary(BYTES as i32) } else { data_type.clone() }
}

/// The schema of what the file has.
pub(crate) fn stored_schema(schema: &SchemaRef) -> SchemaRef {
    if schema.fields().iter().all(|field| *field.data_type() != INTERVAL) {
        return Arc::clone(schema);
    }
    let stored = |field: &Arc<Field>| field.as_ref().clone().with_data_type(stored_type(field.data_type()));
    Arc::new(Schema::new(schema.fields().iter().map(stored).collect::<Vec<_>>()))
}

/// The file's own schema, whose columns of UUIDs say that they are.
pub(crate) fn with_uuids(converted: &SchemaDescriptor, schema: &SchemaRef) -> Result<TypePtr> {
    let root = converted.root_schema_ptr();
    if schema.fields().iter().all(|field| *field.data_type() != DataType::FixedSizeBinary(UUID_BYTES)) {
        return Ok(root);
    }
    let field = |(known, field): (&TypePtr, &Arc<Field>)| {
        if *field.data_type() != DataType::FixedSizeBinary(UUID_BYTES) {
            return Ok(Arc::clone(known));
        }
        let uuid = Type::primitive_type_builder(known.name(), parquet::basic::Type::FIXED_LEN_BYTE_ARRAY)
            .with_repetition(known.get_basic_info().repetition())
            .with_length(UUID_BYTES)
            .with_logical_type(Some(LogicalType::Uuid))
            .build()?;
        Ok::<TypePtr, ParquetError>(Arc::new(uuid))
    };
    let fields = root.get_fields().iter().zip(schema.fields()).map(field).collect::<Result<Vec<TypePtr>>>()?;
    Ok(Arc::new(Type::group_type_builder(root.name()).with_fields(fields).build()?))
}

/// A column as the file has it.
pub(crate) fn stored(values: &ArrayRef) -> Result<ArrayRef> {
    if *values.data_type() != INTERVAL {
        return Ok(Arc::clone(values));
    }
    let spans = values.as_primitive::<IntervalMonthDayNanoType>();
    let bytes: Vec<u8> = spans.values().iter().flat_map(|span| bytes_of(*span)).collect();
    let array = FixedSizeBinaryArray::try_new(BYTES as i32, bytes.into(), spans.nulls().cloned());
    Ok(Arc::new(array.map_err(|error| ParquetError::General(error.to_string()))?))
}

/// A column of the file's bytes as intervals.
pub fn intervals(stored: &ArrayRef) -> Option<ArrayRef> {
    let stored = stored.as_fixed_size_binary_opt().filter(|stored| stored.value_length() == BYTES as i32)?;
    let spans = (0..stored.len()).map(|row| stored.is_valid(row).then(|| span_of(stored.value(row))).flatten());
    Some(Arc::new(spans.collect::<IntervalMonthDayNanoArray>()))
}

fn bytes_of(span: IntervalMonthDayNano) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..4].copy_from_slice(&span.months.to_le_bytes());
    bytes[4..8].copy_from_slice(&span.days.to_le_bytes());
    bytes[8..].copy_from_slice(&(span.nanoseconds / 1_000).to_le_bytes());
    bytes
}

/// The interval of 16 bytes; `None` of as many that are none: the time of day is more than intervals have.
pub(crate) fn span_of(bytes: &[u8]) -> Option<IntervalMonthDayNano> {
    let months = i32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
    let days = i32::from_le_bytes(bytes.get(4..8)?.try_into().ok()?);
    let micros = i64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
    Some(IntervalMonthDayNano::new(months, days, micros.checked_mul(1_000)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn intervals_come_back(all in prop::collection::vec(prop::option::of((any::<i32>(), any::<i32>(), any::<i32>())), 0..20)) {
            let span = |(months, days, micros): (i32, i32, i32)| {
                IntervalMonthDayNano::new(months, days, i64::from(micros) * 1_000)
            };
            let values: IntervalMonthDayNanoArray = all.iter().map(|value| value.map(span)).collect();
            let values: ArrayRef = Arc::new(values);
            prop_assert_eq!(&intervals(&stored(&values).unwrap()).unwrap(), &values);
        }
    }
}
