//! Types as bytes: a tag a type, and behind it what the type has.
//!
//! Invariants:
//! - Bytes that are no type are an error, whatever they are: Arrow's own reader of its IPC form panics.
//! - A type that functions are not made with (unions, runs, views of lists) is refused by name.

use super::state::{StateReader, StateWriter, number_of};
use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use datafusion_common::{Result, exec_err, not_impl_err};
use std::sync::Arc;

/// The most types that one lies within.
const DEPTH_MAX: usize = 32;
/// The most fields of a struct.
const FIELDS_MAX: i64 = 10_000;

const TIME_UNITS: [TimeUnit; 4] =
    [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
const INTERVAL_UNITS: [IntervalUnit; 3] = [IntervalUnit::YearMonth, IntervalUnit::DayTime, IntervalUnit::MonthDayNano];

/// Types that have nothing but a name; their tags are their places.
const PLAIN: [DataType; 21] = [
    DataType::Null,
    DataType::Boolean,
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::UInt8,
    DataType::UInt16,
    DataType::UInt32,
    DataType::UInt64,
    DataType::Float16,
    DataType::Float32,
    DataType::Float64,
    DataType::Date32,
    DataType::Date64,
    DataType::Utf8,
    DataType::LargeUtf8,
    DataType::Utf8View,
    DataType::Binary,
    DataType::LargeBinary,
    DataType::BinaryView,
];
const TIME32: u8 = 32;
const TIME64: u8 = 33;
const TIMESTAMP: u8 = 34;
const DURATION: u8 = 35;
const INTERVAL: u8 = 36;
const FIXED_SIZE_BINARY: u8 = 37;
const DECIMAL32: u8 = 38;
const DECIMAL64: u8 = 39;
const DECIMAL128: u8 = 40;
const DECIMAL256: u8 = 41;
const LIST: u8 = 42;
const LARGE_LIST: u8 = 43;
const FIXED_SIZE_LIST: u8 = 44;
const STRUCT: u8 = 45;
const DICTIONARY: u8 = 46;
const MAP: u8 = 47;

/// Writes a type.
pub(super) fn write_type(data_type: &DataType, state: &mut StateWriter) -> Result<()> {
    if let Some(tag) = PLAIN.iter().position(|plain| plain == data_type) {
        state.byte(tag as u8);
        return Ok(());
    }
    match data_type {
        DataType::Time32(unit) => write_unit(TIME32, unit, state),
        DataType::Time64(unit) => write_unit(TIME64, unit, state),
        DataType::Duration(unit) => write_unit(DURATION, unit, state),
        DataType::Timestamp(unit, zone) => {
            write_unit(TIMESTAMP, unit, state);
            state.byte(u8::from(zone.is_some()));
            state.text(zone.as_deref().unwrap_or_default());
        }
        DataType::Interval(unit) => {
            state.byte(INTERVAL);
            state.byte(number_of(unit, &INTERVAL_UNITS));
        }
        DataType::FixedSizeBinary(width) => {
            state.byte(FIXED_SIZE_BINARY);
            state.number((*width).into());
        }
        DataType::Decimal32(precision, scale) => write_decimal(DECIMAL32, *precision, *scale, state),
        DataType::Decimal64(precision, scale) => write_decimal(DECIMAL64, *precision, *scale, state),
        DataType::Decimal128(precision, scale) => write_decimal(DECIMAL128, *precision, *scale, state),
        DataType::Decimal256(precision, scale) => write_decimal(DECIMAL256, *precision, *scale, state),
        DataType::List(element) => write_nested(LIST, element, state)?,
        DataType::LargeList(element) => write_nested(LARGE_LIST, element, state)?,
        DataType::FixedSizeList(element, length) => {
            write_nested(FIXED_SIZE_LIST, element, state)?;
            state.number((*length).into());
        }
        DataType::Struct(fields) => {
            state.byte(STRUCT);
            state.number(fields.len() as i64);
            fields.iter().try_for_each(|field| write_field(field, state))?;
        }
        DataType::Dictionary(keys, values) => {
            state.byte(DICTIONARY);
            write_type(keys, state)?;
            write_type(values, state)?;
        }
        DataType::Map(entries, is_sorted) => {
            write_nested(MAP, entries, state)?;
            state.byte(u8::from(*is_sorted));
        }
        other => return not_impl_err!("a function of {other} cannot be sent to another process"),
    }
    Ok(())
}

fn write_unit(tag: u8, unit: &TimeUnit, state: &mut StateWriter) {
    state.byte(tag);
    state.byte(number_of(unit, &TIME_UNITS));
}

fn write_decimal(tag: u8, precision: u8, scale: i8, state: &mut StateWriter) {
    state.byte(tag);
    state.byte(precision);
    state.number(scale.into());
}

fn write_nested(tag: u8, field: &Field, state: &mut StateWriter) -> Result<()> {
    state.byte(tag);
    write_field(field, state)
}

fn write_field(field: &Field, state: &mut StateWriter) -> Result<()> {
    state.text(field.name());
    state.byte(u8::from(field.is_nullable()));
    write_type(field.data_type(), state)
}

/// Reads a type that lies within so many others.
pub(super) fn read_type(state: &mut StateReader<'_>, depth: usize) -> Result<DataType> {
    if depth > DEPTH_MAX {
        return exec_err!("types lie within more than {DEPTH_MAX} others");
    }
    let tag = state.byte()?;
    if let Some(plain) = PLAIN.get(usize::from(tag)) {
        return Ok(plain.clone());
    }
    Ok(match tag {
        TIME32 => DataType::Time32(state.variant(&TIME_UNITS)?),
        TIME64 => DataType::Time64(state.variant(&TIME_UNITS)?),
        DURATION => DataType::Duration(state.variant(&TIME_UNITS)?),
        TIMESTAMP => {
            let (unit, has_zone, zone) = (state.variant(&TIME_UNITS)?, state.flag()?, state.text()?);
            DataType::Timestamp(unit, has_zone.then(|| zone.into()))
        }
        INTERVAL => DataType::Interval(state.variant(&INTERVAL_UNITS)?),
        FIXED_SIZE_BINARY => DataType::FixedSizeBinary(small(state.number()?)?),
        DECIMAL32 => DataType::Decimal32(state.byte()?, small(state.number()?)?),
        DECIMAL64 => DataType::Decimal64(state.byte()?, small(state.number()?)?),
        DECIMAL128 => DataType::Decimal128(state.byte()?, small(state.number()?)?),
        DECIMAL256 => DataType::Decimal256(state.byte()?, small(state.number()?)?),
        LIST => DataType::List(read_field(state, depth)?),
        LARGE_LIST => DataType::LargeList(read_field(state, depth)?),
        FIXED_SIZE_LIST => DataType::FixedSizeList(read_field(state, depth)?, small(state.number()?)?),
        STRUCT => {
            let fields = state.number()?;
            if !(0..=FIELDS_MAX).contains(&fields) {
                return exec_err!("{fields} is no number of fields");
            }
            DataType::Struct((0..fields).map(|_| read_field(state, depth)).collect::<Result<Vec<_>>>()?.into())
        }
        DICTIONARY => {
            let keys = read_type(state, depth + 1)?;
            DataType::Dictionary(Box::new(keys), Box::new(read_type(state, depth + 1)?))
        }
        MAP => DataType::Map(read_field(state, depth)?, state.flag()?),
        other => return exec_err!("{other} is no type"),
    })
}

fn read_field(state: &mut StateReader<'_>, depth: usize) -> Result<FieldRef> {
    let (name, is_nullable) = (state.text()?.to_owned(), state.flag()?);
    Ok(Arc::new(Field::new(name, read_type(state, depth + 1)?, is_nullable)))
}

/// A number of a narrower type.
fn small<T: TryFrom<i64>>(number: i64) -> Result<T> {
    match T::try_from(number) {
        Ok(number) => Ok(number),
        Err(_) => exec_err!("{number} is out of range"),
    }
}
