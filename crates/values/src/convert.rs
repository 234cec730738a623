//! Casts of one column into the type that a table stores it in.
//!
//! They run through Arrow's kernels in their "safe" mode, which put NULL for what does not fit; comparing NULLs before and after finds the
//! rows, so a good column costs no more than the kernel.

use crate::builders::{ColumnBuilder, TextAs};
use crate::display;
use crate::errors::internal;
use crate::nested_json;
use crate::numeric::numeric_of;
use crate::parse::{Bad, DAY_MICROS, DAYS, MICROS};
use crate::text::TextColumn;
use crate::time_of_day::DAY_END;
use crate::time_zone::Zone;
use alluvia_space::data_type::{NUMERIC_PRECISION, UUID_BYTES};
use alluvia_space::{Column, DataType};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, PrimitiveArray, StringViewBuilder, new_null_array,
};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType as ArrowType, Date32Type, Decimal128Type, DurationMicrosecondType, Field, Float32Type,
    Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType,
    TimeUnit, TimestampMicrosecondType,
};
use std::ops::Range;
use std::sync::Arc;

/// What a source type is to a cast.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Null,
    Boolean,
    Integer,
    Float,
    Decimal,
    Date,
    Timestamp,
    Text,
    Bytes,
    Time,
    /// Durations and intervals.
    Span,
    Uuid,
    /// Lists, structs, maps, unions.
    Nested,
}

fn family(from: &ArrowType) -> Family {
    match from {
        ArrowType::Null => Family::Null,
        ArrowType::Boolean => Family::Boolean,
        from if from.is_integer() => Family::Integer,
        from if from.is_floating() => Family::Float,
        from if from.is_decimal() => Family::Decimal,
        ArrowType::Date32 | ArrowType::Date64 => Family::Date,
        ArrowType::Timestamp(..) => Family::Timestamp,
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => Family::Text,
        // A UUID, or as many bytes: the column's type says which.
        ArrowType::FixedSizeBinary(UUID_BYTES) => Family::Uuid,
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView | ArrowType::FixedSizeBinary(_) => {
            Family::Bytes
        }
        ArrowType::Time32(_) | ArrowType::Time64(_) => Family::Time,
        ArrowType::Duration(_) | ArrowType::Interval(_) => Family::Span,
        ArrowType::Dictionary(_, values) => family(values),
        ArrowType::RunEndEncoded(_, values) => family(values.data_type()),
        _ => Family::Nested,
    }
}

/// Refuses a source column whose type no value of `to` can be made from, whatever the values are.
pub fn check_types(from: &Field, to: &Column) -> Result<()> {
    let fits = match (family(from.data_type()), to.data_type) {
        (Family::Null | Family::Text, _) => true,
        (Family::Nested, to) => matches!(to, DataType::Json | DataType::Jsonb),
        (_, DataType::Json | DataType::Jsonb) => false,
        (Family::Uuid, DataType::Uuid | DataType::Text | DataType::Char | DataType::Binary) => true,
        (Family::Uuid, _) => false,
        // As PostgreSQL assigns a BYTEA, or 16 bytes of a file that are a UUID.
        (Family::Bytes, DataType::Text | DataType::Binary) => true,
        (Family::Bytes, _) => false,
        (_, DataType::Text | DataType::Char) => true,
        (Family::Boolean, to) => to == DataType::Boolean,
        (Family::Integer | Family::Float | Family::Decimal, to) => matches!(
            to,
            DataType::Int16
                | DataType::Int32
                | DataType::Int64
                | DataType::Real
                | DataType::Double
                | DataType::Decimal { .. }
                | DataType::Numeric
        ),
        (Family::Date | Family::Timestamp, to) => {
            matches!(to, DataType::Date | DataType::Timestamp | DataType::TimestampTz)
        }
        // PostgreSQL assigns an interval to a time, and a moment's time of day.
        (Family::Time, to) => matches!(to, DataType::Time | DataType::Interval),
        (Family::Span, to) => to == DataType::Interval,
    };
    if fits {
        return Ok(());
    }
    let from_name =
        DataType::from_field(from).map_or_else(|| from.data_type().to_string(), |data_type| data_type.sql_name());
    Err(Error::new(
        ErrorKind::DatatypeMismatch,
        format!("column {} is {}, and a value of type {from_name} cannot be stored in it", to.name, to.sql_type()),
    )
    .with_hint("in a SELECT write an explicit cast; of a file leave the column out: COPY t (a, b) FROM ..."))
}

/// One column in the storage type of `to`; `bad` gets the rows whose value does not fit, ascending, and NULL stands there.
pub fn convert(array: &ArrayRef, to: DataType, text: TextAs, bad: &mut Vec<(usize, Bad)>) -> Result<ArrayRef> {
    convert_in_zone(array, to, text, &Zone::utc(), bad)
}

/// The same in a session of a time zone, which moments become times in and are made of times in.
pub fn convert_in_zone(
    array: &ArrayRef,
    to: DataType,
    text: TextAs,
    zone: &Zone,
    bad: &mut Vec<(usize, Bad)>,
) -> Result<ArrayRef> {
    let target = to.to_arrow();
    if *array.data_type() == target {
        return Ok(match to {
            // Texts, which are not yet what they are to be.
            DataType::Json | DataType::Jsonb | DataType::Char => return parse_each(array, to, zone, bad),
            DataType::Interval => return spans_of(array, bad),
            DataType::Time => {
                let times = array.as_primitive::<Time64MicrosecondType>();
                within(times, &(0..DAY_END + 1), bad)
            }
            DataType::Date => within(array.as_primitive::<Date32Type>(), &DAYS, bad),
            DataType::Timestamp | DataType::TimestampTz => {
                within(array.as_primitive::<TimestampMicrosecondType>(), &MICROS, bad)
            }
            _ => array.clone(),
        });
    }
    match array.data_type() {
        ArrowType::Dictionary(_, values) if family(values) == Family::Text && text == TextAs::Dictionary => {
            let wanted = ArrowType::Dictionary(Box::new(ArrowType::Int32), Box::new(ArrowType::Utf8));
            return cast(array, &wanted).map_err(internal);
        }
        ArrowType::Dictionary(_, values) if family(values) == Family::Text && to == DataType::Text => {
            return cast(array, &target).map_err(internal);
        }
        ArrowType::Dictionary(_, values) => {
            return convert_in_zone(&cast(array, values).map_err(internal)?, to, text, zone, bad);
        }
        ArrowType::RunEndEncoded(_, values) => {
            return convert_in_zone(&cast(array, values.data_type()).map_err(internal)?, to, text, zone, bad);
        }
        _ => {}
    }
    match (family(array.data_type()), to) {
        (Family::Null, _) => Ok(new_null_array(&target, array.len())),
        (Family::Text, DataType::Text) | (Family::Bytes, DataType::Binary) => cast(array, &target).map_err(internal),
        (Family::Text | Family::Bytes, _) => parse_each(array, to, zone, bad),
        (Family::Uuid, DataType::Binary) => cast(array, &target).map_err(internal),
        (_, DataType::Text) => texts_in_zone(array, zone),
        (_, DataType::Char) => parse_each(&texts_in_zone(array, zone)?, to, zone, bad),
        (Family::Nested, DataType::Json | DataType::Jsonb) => {
            let texts: ArrayRef = Arc::new(nested_json::texts_of(array)?);
            parse_each(&texts, to, zone, bad)
        }
        (Family::Integer | Family::Decimal, DataType::Numeric) => numerics(array, bad),
        (Family::Float, DataType::Numeric) => parse_each(&texts_in_zone(array, zone)?, to, zone, bad),
        (Family::Time | Family::Span, DataType::Interval) => spans_of(array, bad),
        (Family::Time, DataType::Time) => {
            let times = safe_cast(array, &target, bad)?;
            Ok(within(times.as_primitive::<Time64MicrosecondType>(), &(0..DAY_END + 1), bad))
        }
        (Family::Float, DataType::Int16 | DataType::Int32 | DataType::Int64) => {
            let doubles = cast(array, &ArrowType::Float64).map_err(internal)?;
            let rounded: Float64Array = doubles.as_primitive::<Float64Type>().unary(f64::round_ties_even);
            safe_cast(&rounded, &target, bad)
        }
        (Family::Decimal, DataType::Int16 | DataType::Int32 | DataType::Int64) => {
            let whole = ArrowType::Decimal256(76, 0);
            safe_cast(&cast(array, &whole).map_err(internal)?, &target, bad)
        }
        (Family::Float | Family::Decimal, DataType::Real) => {
            let doubles = cast(array, &ArrowType::Float64).map_err(internal)?;
            Ok(narrow(doubles.as_primitive(), bad))
        }
        (Family::Date | Family::Timestamp, _) => times(array, to, zone, bad),
        _ => safe_cast(array, &target, bad),
    }
}

/// Decimals and whole numbers as NUMERIC, of which none is rounded.
fn numerics(array: &ArrayRef, bad: &mut Vec<(usize, Bad)>) -> Result<ArrayRef> {
    let (wide, scale) = match array.data_type() {
        ArrowType::Decimal256(..) => return parse_each(&texts_of(array)?, DataType::Numeric, &Zone::utc(), bad),
        ArrowType::Decimal32(_, scale) | ArrowType::Decimal64(_, scale) | ArrowType::Decimal128(_, scale) => {
            (ArrowType::Decimal128(NUMERIC_PRECISION, *scale), *scale)
        }
        _ => (ArrowType::Decimal128(20, 0), 0),
    };
    let wide = cast(array, &wide).map_err(internal)?;
    let wide = wide.as_primitive::<Decimal128Type>();
    let numbers: PrimitiveArray<Decimal128Type> = wide.unary_opt(|value| numeric_of(value, scale).ok());
    let first = bad.len();
    report(array, &numbers, bad);
    bad[first..].iter_mut().for_each(|(_, why)| *why = Bad::Digits);
    Ok(Arc::new(numbers.with_data_type(DataType::Numeric.to_arrow())))
}

/// Intervals in whole microseconds; a duration has its whole days apart.
fn spans_of(array: &ArrayRef, bad: &mut Vec<(usize, Bad)>) -> Result<ArrayRef> {
    const SPAN: ArrowType = ArrowType::Interval(IntervalUnit::MonthDayNano);
    const MICROS: ArrowType = ArrowType::Duration(TimeUnit::Microsecond);
    let spans: PrimitiveArray<IntervalMonthDayNanoType> = match array.data_type() {
        ArrowType::Duration(_) | ArrowType::Time32(_) | ArrowType::Time64(_) => {
            let micros = match array.data_type() {
                ArrowType::Duration(_) => safe_cast(array, &MICROS, bad)?,
                _ => {
                    let times = safe_cast(array, &DataType::Time.to_arrow(), bad)?;
                    cast(&cast(&times, &ArrowType::Int64).map_err(internal)?, &MICROS).map_err(internal)?
                }
            };
            micros.as_primitive::<DurationMicrosecondType>().unary(|micros| {
                let (days, rest) = display::difference(micros);
                IntervalMonthDayNano::new(0, days, rest * 1_000)
            })
        }
        _ => {
            let spans = safe_cast(array, &SPAN, bad)?;
            let whole = |span: IntervalMonthDayNano| IntervalMonthDayNano {
                nanoseconds: span.nanoseconds / 1_000 * 1_000,
                ..span
            };
            spans.as_primitive::<IntervalMonthDayNanoType>().unary(whole)
        }
    };
    Ok(Arc::new(spans))
}

/// Casts with NULL for what does not fit, and reports what became NULL.
fn safe_cast(array: &dyn Array, target: &ArrowType, bad: &mut Vec<(usize, Bad)>) -> Result<ArrayRef> {
    let options = CastOptions { safe: true, ..Default::default() };
    let out = cast_with_options(array, target, &options).map_err(internal)?;
    report(array, &out, bad);
    Ok(out)
}

/// Reports what became NULL.
fn report(before: &dyn Array, after: &dyn Array, bad: &mut Vec<(usize, Bad)>) {
    if after.null_count() > before.null_count() {
        let is_lost = |row: &usize| after.is_null(*row) && before.is_valid(*row);
        bad.extend((0..after.len()).filter(is_lost).map(|row| (row, Bad::Range)));
    }
}

fn narrow(doubles: &Float64Array, bad: &mut Vec<(usize, Bad)>) -> ArrayRef {
    let out: PrimitiveArray<Float32Type> = doubles.unary_opt(|value| {
        let narrowed = value as f32;
        (narrowed.is_finite() || !value.is_finite()).then_some(narrowed)
    });
    report(doubles, &out, bad);
    Arc::new(out)
}

fn parse_each(array: &ArrayRef, to: DataType, zone: &Zone, bad: &mut Vec<(usize, Bad)>) -> Result<ArrayRef> {
    let bytes = cast(array, &ArrowType::BinaryView).map_err(internal)?;
    let mut builder = ColumnBuilder::new(to, TextAs::Plain, bytes.len()).in_zone(zone);
    for (row, value) in bytes.as_binary_view().iter().enumerate() {
        match value.map(|value| builder.append(value)) {
            Some(Ok(())) => {}
            Some(Err(why)) => {
                bad.push((row, why));
                builder.append_null();
            }
            None => builder.append_null(),
        }
    }
    Ok(builder.finish())
}

/// What PostgreSQL's casts to text write of each value. Of all but floats and intervals that is what COPY writes; files keep the `.0` of
/// whole floats, by which `alluvia load` knows the column's type.
pub fn texts_of(array: &ArrayRef) -> Result<ArrayRef> {
    texts_in_zone(array, &Zone::utc())
}

/// The same for a reader in a time zone.
pub fn texts_in_zone(array: &ArrayRef, reader: &Zone) -> Result<ArrayRef> {
    const SPAN: ArrowType = ArrowType::Interval(IntervalUnit::MonthDayNano);
    match array.data_type() {
        ArrowType::Float64 => each(array.as_primitive::<Float64Type>(), display::write_double),
        ArrowType::Float32 => each(array.as_primitive::<Float32Type>(), display::write_real),
        ArrowType::Interval(_) => {
            let spans = cast(array, &SPAN).map_err(internal)?;
            each(spans.as_primitive::<IntervalMonthDayNanoType>(), |out, value| {
                display::write_interval(out, value.months, value.days, value.nanoseconds / 1_000)
            })
        }
        ArrowType::Duration(_) => {
            let spans = cast(array, &ArrowType::Duration(TimeUnit::Microsecond)).map_err(internal)?;
            each(spans.as_primitive::<DurationMicrosecondType>(), display::write_difference)
        }
        _ => as_copied(array, reader),
    }
}

fn each<T: ArrowPrimitiveType>(
    values: &PrimitiveArray<T>,
    write: impl Fn(&mut String, T::Native) -> std::fmt::Result,
) -> Result<ArrayRef> {
    let mut builder = StringViewBuilder::with_capacity(values.len());
    let mut text = String::new();
    for value in values {
        match value {
            Some(value) => {
                text.clear();
                write(&mut text, value).map_err(|_| Error::internal("a String takes every text"))?;
                builder.append_value(&text);
            }
            None => builder.append_null(),
        }
    }
    Ok(Arc::new(builder.finish()))
}

/// What COPY writes for each value.
fn as_copied(array: &ArrayRef, reader: &Zone) -> Result<ArrayRef> {
    let column = TextColumn::in_zone(array, reader)?;
    let mut builder = StringViewBuilder::with_capacity(array.len());
    let mut value = Vec::new();
    for row in 0..array.len() {
        if array.is_null(row) {
            builder.append_null();
            continue;
        }
        value.clear();
        column.write(row, &mut value)?;
        builder.append_value(String::from_utf8_lossy(&value));
    }
    Ok(Arc::new(builder.finish()))
}

/// Dates and timestamps of any unit, through microseconds since 1970.
fn times(array: &ArrayRef, to: DataType, zone: &Zone, bad: &mut Vec<(usize, Bad)>) -> Result<ArrayRef> {
    let numbers = cast(array, &ArrowType::Int64).map_err(internal)?;
    let numbers: &Int64Array = numbers.as_primitive();
    let (multiply, divide) = match array.data_type() {
        ArrowType::Date32 => (DAY_MICROS, 1),
        ArrowType::Date64 | ArrowType::Timestamp(TimeUnit::Millisecond, _) => (1_000, 1),
        ArrowType::Timestamp(TimeUnit::Second, _) => (1_000_000, 1),
        ArrowType::Timestamp(TimeUnit::Nanosecond, _) => (1, 1_000),
        _ => (1, 1),
    };
    let is_moment = matches!(array.data_type(), ArrowType::Timestamp(_, Some(_)));
    let in_zone = |micros: i64| match (is_moment, to == DataType::TimestampTz) {
        (false, true) if !zone.is_utc() => zone.moment_of(micros),
        (true, false) if !zone.is_utc() => zone.shown_at(micros),
        _ => Some(micros),
    };
    let to_micros = |value: i64| {
        let micros = value.checked_mul(multiply).map(|value| value.div_euclid(divide)).and_then(in_zone);
        micros.filter(|micros| MICROS.contains(micros))
    };
    let micros: PrimitiveArray<Int64Type> = numbers.unary_opt(to_micros);
    let out: ArrayRef = match to {
        DataType::Date => {
            let days: PrimitiveArray<Date32Type> =
                micros.unary_opt(|value| i32::try_from(value.div_euclid(DAY_MICROS)).ok());
            Arc::new(days)
        }
        _ => Arc::new(micros.reinterpret_cast::<TimestampMicrosecondType>().with_data_type(to.to_arrow())),
    };
    report(array, &out, bad);
    Ok(out)
}

/// Days or microseconds that are stored as they are, if they lie in the range.
fn within<T: ArrowPrimitiveType>(
    values: &PrimitiveArray<T>,
    range: &Range<T::Native>,
    bad: &mut Vec<(usize, Bad)>,
) -> ArrayRef {
    // What stands where there is NULL counts as well, and does no harm.
    if values.values().iter().all(|value| range.contains(value)) {
        return Arc::new(values.clone());
    }
    let fitting: PrimitiveArray<T> = values.unary_opt(|value| range.contains(&value).then_some(value));
    report(values, &fitting, bad);
    Arc::new(fitting.with_data_type(values.data_type().clone()))
}

/// Adds the rows that are NULL and not yet bad.
pub fn find_nulls(array: &ArrayRef, bad: &mut Vec<(usize, Bad)>) {
    let nulls = array.logical_nulls();
    let known: std::collections::HashSet<usize> = bad.iter().map(|(row, _)| *row).collect();
    let null_rows = (0..array.len()).filter(|row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(*row)));
    bad.extend(null_rows.filter(|row| !known.contains(row)).map(|row| (row, Bad::Null)).collect::<Vec<_>>());
}
