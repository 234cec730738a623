//! Builders of one column each, in the table's storage types, from text.
//!
//! Invariants:
//! - An append that fails appends nothing: the caller decides what stands in for the bad value.
//! - `finish` gives exactly the storage type of the column, except that a text column built `AsDictionary` is
//!   `Dictionary(Int32, Utf8)`: the pipeline then maps each distinct value once instead of each row.

use crate::interval::parse_interval;
use crate::json_value::{check_json, normalized};
use crate::numeric::parse_numeric;
use crate::parse::{
    Bad, parse_bool, parse_bytes, parse_date, parse_decimal, parse_f32, parse_f64, parse_i64, parse_timestamp,
};
use crate::time_of_day::parse_time;
use crate::time_zone::{Zone, parse_timestamptz};
use crate::uuid::{BYTES, parse_uuid};
use crate::varchar::fitted;
use alluvia_space::{ColumnType, DataType, LevelSource, TableDef};
use alluvia_types::ColumnId;
use arrow::array::{
    ArrayRef, BinaryViewBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, FixedSizeBinaryBuilder,
    Float32Builder, Float64Builder, Int16Builder, Int32Builder, Int64Builder, IntervalMonthDayNanoBuilder,
    StringDictionaryBuilder, StringViewBuilder, Time64MicrosecondBuilder, TimestampMicrosecondBuilder,
};
use arrow::datatypes::Int32Type;
use std::sync::Arc;

/// How a text column is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextAs {
    /// `Utf8View`.
    Plain,
    /// `Dictionary(Int32, Utf8)`.
    Dictionary,
}

/// Text columns that are levels of a dimension: worth a dictionary, because the pipeline maps their values to codes.
pub fn is_level_text(table: &TableDef, column: ColumnId, data_type: DataType) -> bool {
    data_type == DataType::Text
        && table.dimensions.iter().flat_map(|dimension| &dimension.levels).any(|level| match level.source {
            LevelSource::Column(id) | LevelSource::Hashed { column: id, .. } => id == column,
            LevelSource::Calendar(..) | LevelSource::Local(..) | LevelSource::Halved { .. } => false,
        })
}

/// Builds one column.
pub enum ColumnBuilder {
    /// BOOLEAN.
    Boolean(BooleanBuilder),
    /// SMALLINT.
    Int16(Int16Builder),
    /// INT.
    Int32(Int32Builder),
    /// BIGINT.
    Int64(Int64Builder),
    /// REAL.
    Real(Float32Builder),
    /// DOUBLE.
    Double(Float64Builder),
    /// DECIMAL(precision, scale).
    Decimal {
        /// The values so far, in units of the last digit.
        values: Decimal128Builder,
        /// Digits in all.
        precision: u8,
        /// Digits behind the point.
        scale: u8,
    },
    /// DATE: days since 1970.
    Date(Date32Builder),
    /// TIMESTAMP: microseconds since 1970.
    Timestamp(TimestampMicrosecondBuilder),
    /// TIMESTAMPTZ: microseconds since 1970 in UTC.
    TimestampTz {
        /// The moments so far.
        values: TimestampMicrosecondBuilder,
        /// The time zone of texts without one; `None` is UTC.
        session: Option<Zone>,
    },
    /// TEXT or VARCHAR, as `Utf8View`.
    Text {
        /// The values so far.
        values: StringViewBuilder,
        /// The most characters of a value, of VARCHAR(n); `None` for no bound.
        chars_max: Option<u32>,
    },
    /// TEXT or VARCHAR, as `Dictionary(Int32, Utf8)`.
    TextDictionary {
        /// The values so far, each distinct one once.
        values: StringDictionaryBuilder<Int32Type>,
        /// The most characters of a value, of VARCHAR(n); `None` for no bound.
        chars_max: Option<u32>,
    },
    /// BYTEA.
    Binary(BinaryViewBuilder),
    /// UUID.
    Uuid(FixedSizeBinaryBuilder),
    /// JSON.
    Json(StringViewBuilder),
    /// JSONB.
    Jsonb(StringViewBuilder),
    /// TIME: microseconds since midnight.
    Time(Time64MicrosecondBuilder),
    /// INTERVAL.
    Interval(IntervalMonthDayNanoBuilder),
    /// NUMERIC without a precision.
    Numeric(Decimal128Builder),
    /// CHAR(n), without the blanks at the end.
    Char {
        /// The values so far.
        values: StringViewBuilder,
        /// The most characters of a value.
        chars_max: Option<u32>,
    },
}

impl ColumnBuilder {
    /// An empty builder for a column of this type.
    pub fn new(column_type: impl Into<ColumnType>, text: TextAs, rows: usize) -> ColumnBuilder {
        let ColumnType { data_type, chars_max } = column_type.into();
        match data_type {
            DataType::Boolean => ColumnBuilder::Boolean(BooleanBuilder::with_capacity(rows)),
            DataType::Int16 => ColumnBuilder::Int16(Int16Builder::with_capacity(rows)),
            DataType::Int32 => ColumnBuilder::Int32(Int32Builder::with_capacity(rows)),
            DataType::Int64 => ColumnBuilder::Int64(Int64Builder::with_capacity(rows)),
            DataType::Real => ColumnBuilder::Real(Float32Builder::with_capacity(rows)),
            DataType::Double => ColumnBuilder::Double(Float64Builder::with_capacity(rows)),
            DataType::Decimal { precision, scale } => ColumnBuilder::Decimal {
                values: Decimal128Builder::with_capacity(rows).with_data_type(data_type.to_arrow()),
                precision,
                scale,
            },
            DataType::Date => ColumnBuilder::Date(Date32Builder::with_capacity(rows)),
            DataType::Timestamp => ColumnBuilder::Timestamp(TimestampMicrosecondBuilder::with_capacity(rows)),
            DataType::TimestampTz => ColumnBuilder::TimestampTz {
                values: TimestampMicrosecondBuilder::with_capacity(rows).with_data_type(data_type.to_arrow()),
                session: None,
            },
            DataType::Text if text == TextAs::Dictionary => {
                let values = StringDictionaryBuilder::with_capacity(rows, 1024, 16 * 1024);
                ColumnBuilder::TextDictionary { values, chars_max }
            }
            DataType::Text => ColumnBuilder::Text { values: StringViewBuilder::with_capacity(rows), chars_max },
            DataType::Binary => ColumnBuilder::Binary(BinaryViewBuilder::with_capacity(rows)),
            DataType::Uuid => ColumnBuilder::Uuid(FixedSizeBinaryBuilder::with_capacity(rows, BYTES as i32)),
            DataType::Json => ColumnBuilder::Json(StringViewBuilder::with_capacity(rows)),
            DataType::Jsonb => ColumnBuilder::Jsonb(StringViewBuilder::with_capacity(rows)),
            DataType::Time => ColumnBuilder::Time(Time64MicrosecondBuilder::with_capacity(rows)),
            DataType::Interval => ColumnBuilder::Interval(IntervalMonthDayNanoBuilder::with_capacity(rows)),
            DataType::Numeric => {
                ColumnBuilder::Numeric(Decimal128Builder::with_capacity(rows).with_data_type(data_type.to_arrow()))
            }
            DataType::Char => ColumnBuilder::Char { values: StringViewBuilder::with_capacity(rows), chars_max },
        }
    }

    /// The same builder, in a session of a time zone.
    pub fn in_zone(mut self, zone: &Zone) -> ColumnBuilder {
        if let ColumnBuilder::TimestampTz { session, .. } = &mut self {
            *session = (!zone.is_utc()).then(|| zone.clone());
        }
        self
    }

    /// Appends what `text` means in this column's type.
    #[inline]
    pub fn append(&mut self, text: &[u8]) -> Result<(), Bad> {
        match self {
            ColumnBuilder::Boolean(values) => values.append_value(parse_bool(text)?),
            ColumnBuilder::Int16(values) => values.append_value(parse_i64(text)?.try_into().map_err(|_| Bad::Range)?),
            ColumnBuilder::Int32(values) => values.append_value(parse_i64(text)?.try_into().map_err(|_| Bad::Range)?),
            ColumnBuilder::Int64(values) => values.append_value(parse_i64(text)?),
            ColumnBuilder::Real(values) => values.append_value(parse_f32(text)?),
            ColumnBuilder::Double(values) => values.append_value(parse_f64(text)?),
            ColumnBuilder::Decimal { values, precision, scale } => {
                values.append_value(parse_decimal(text, *precision, *scale)?);
            }
            ColumnBuilder::Date(values) => values.append_value(parse_date(text)?),
            ColumnBuilder::Timestamp(values) | ColumnBuilder::TimestampTz { values, session: None } => {
                values.append_value(parse_timestamp(text)?);
            }
            ColumnBuilder::TimestampTz { values, session: Some(zone) } => {
                values.append_value(parse_timestamptz(text, zone)?);
            }
            ColumnBuilder::Text { values, chars_max } => {
                values.append_value(fitted(std::str::from_utf8(text).map_err(|_| Bad::Utf8)?, *chars_max)?);
            }
            ColumnBuilder::TextDictionary { values, chars_max } => {
                values.append_value(fitted(std::str::from_utf8(text).map_err(|_| Bad::Utf8)?, *chars_max)?);
            }
            ColumnBuilder::Binary(values) => values.append_value(parse_bytes(text)?),
            ColumnBuilder::Uuid(values) => values.append_value(parse_uuid(text)?).map_err(|_| Bad::Form)?,
            ColumnBuilder::Json(values) => {
                check_json(text)?;
                values.append_value(std::str::from_utf8(text).map_err(|_| Bad::Utf8)?);
            }
            ColumnBuilder::Jsonb(values) => values.append_value(normalized(text)?),
            ColumnBuilder::Time(values) => values.append_value(parse_time(text)?),
            ColumnBuilder::Interval(values) => values.append_value(parse_interval(text)?),
            ColumnBuilder::Numeric(values) => values.append_value(parse_numeric(text)?),
            ColumnBuilder::Char { values, chars_max } => {
                let text = std::str::from_utf8(text).map_err(|_| Bad::Utf8)?;
                values.append_value(fitted(text.trim_end_matches(' '), *chars_max)?);
            }
        }
        Ok(())
    }

    /// Appends NULL.
    pub fn append_null(&mut self) {
        match self {
            ColumnBuilder::Boolean(values) => values.append_null(),
            ColumnBuilder::Int16(values) => values.append_null(),
            ColumnBuilder::Int32(values) => values.append_null(),
            ColumnBuilder::Int64(values) => values.append_null(),
            ColumnBuilder::Real(values) => values.append_null(),
            ColumnBuilder::Double(values) => values.append_null(),
            ColumnBuilder::Decimal { values, .. } => values.append_null(),
            ColumnBuilder::Date(values) => values.append_null(),
            ColumnBuilder::Timestamp(values) | ColumnBuilder::TimestampTz { values, .. } => values.append_null(),
            ColumnBuilder::Text { values, .. } => values.append_null(),
            ColumnBuilder::TextDictionary { values, .. } => values.append_null(),
            ColumnBuilder::Binary(values) => values.append_null(),
            ColumnBuilder::Uuid(values) => values.append_null(),
            ColumnBuilder::Json(values) | ColumnBuilder::Jsonb(values) => values.append_null(),
            ColumnBuilder::Time(values) => values.append_null(),
            ColumnBuilder::Interval(values) => values.append_null(),
            ColumnBuilder::Numeric(values) => values.append_null(),
            ColumnBuilder::Char { values, .. } => values.append_null(),
        }
    }

    /// The column built so far; the builder is empty again.
    pub fn finish(&mut self) -> ArrayRef {
        match self {
            ColumnBuilder::Boolean(values) => Arc::new(values.finish()),
            ColumnBuilder::Int16(values) => Arc::new(values.finish()),
            ColumnBuilder::Int32(values) => Arc::new(values.finish()),
            ColumnBuilder::Int64(values) => Arc::new(values.finish()),
            ColumnBuilder::Real(values) => Arc::new(values.finish()),
            ColumnBuilder::Double(values) => Arc::new(values.finish()),
            ColumnBuilder::Decimal { values, .. } => Arc::new(values.finish()),
            ColumnBuilder::Date(values) => Arc::new(values.finish()),
            ColumnBuilder::Timestamp(values) | ColumnBuilder::TimestampTz { values, .. } => Arc::new(values.finish()),
            ColumnBuilder::Text { values, .. } => Arc::new(values.finish()),
            ColumnBuilder::TextDictionary { values, .. } => Arc::new(values.finish()),
            ColumnBuilder::Binary(values) => Arc::new(values.finish()),
            ColumnBuilder::Uuid(values) => Arc::new(values.finish()),
            ColumnBuilder::Json(values) | ColumnBuilder::Jsonb(values) => Arc::new(values.finish()),
            ColumnBuilder::Time(values) => Arc::new(values.finish()),
            ColumnBuilder::Interval(values) => Arc::new(values.finish()),
            ColumnBuilder::Numeric(values) => Arc::new(values.finish()),
            ColumnBuilder::Char { values, .. } => Arc::new(values.finish()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_builds_its_storage_type_and_a_failed_append_leaves_nothing() {
        let samples = [
            (DataType::Boolean, "t", "x"),
            (DataType::Int16, "32767", "32768"),
            (DataType::Int32, "-2147483648", "2147483648"),
            (DataType::Int64, "1", "1.5"),
            (DataType::Real, "1.5", "1e39"),
            (DataType::Double, "-0.0", "one"),
            (DataType::Decimal { precision: 5, scale: 2 }, "999.99", "1000"),
            (DataType::Date, "2026-11-21", "21.11.2026"),
            (DataType::Timestamp, "2026-11-21 10:11:12", "10:11"),
            (DataType::TimestampTz, "2026-11-21 10:11:12+01", "yesterday"),
            (DataType::Text, "ä", "\u{0}"),
            (DataType::Binary, "\\x00ff", "\\x0"),
            (DataType::Uuid, "{A0EEBC999C0B4EF8BB6D6BB9BD380A11}", "a0"),
            (DataType::Json, "{\"a\": 1}", "{a: 1}"),
            (DataType::Jsonb, "[1, {}]", "\"\\u0000\""),
            (DataType::Time, "allballs", "24:00:01"),
            (DataType::Interval, "1 day -00:00:01", "1 foo"),
            (DataType::Numeric, "1.5", "1e-17"),
        ];
        for (data_type, good, bad) in samples {
            let mut builder = ColumnBuilder::new(data_type, TextAs::Plain, 4);
            assert_eq!(builder.append(good.as_bytes()), Ok(()), "{data_type:?}");
            let bad: &[u8] = if data_type == DataType::Text { b"\xff" } else { bad.as_bytes() };
            assert!(builder.append(bad).is_err(), "{data_type:?}");
            builder.append_null();
            let array = builder.finish();
            assert_eq!((array.len(), array.null_count()), (2, 1), "{data_type:?}");
            assert_eq!(array.data_type(), &data_type.to_arrow());
            assert_eq!(builder.finish().len(), 0);
        }
    }
}
