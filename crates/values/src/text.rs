//! Values as text: what CSV files hold, what a cast to TEXT gives, what messages quote.
//!
//! Invariant: what is written here for a value of a storage type, `parse` reads back as the same value, also in another zone.

use crate::display::{write_interval, write_time};
use crate::numeric::write_numeric;
use crate::parse::shown;
use crate::time_zone::{Zone, write_offset};
use crate::uuid::write_uuid;
use alluvia_space::DataType as StoredType;
use alluvia_space::codes::calendar::civil;
use alluvia_space::data_type::{UUID_BYTES, chars_of};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{
    Array, AsArray, Decimal128Array, FixedSizeBinaryArray, Float64Array, Int64Array, IntervalMonthDayNanoArray,
    StringViewArray, Time64MicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Decimal128Type, Field, Float64Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit,
    Time64MicrosecondType, TimeUnit,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use std::fmt::{self, Write};

/// One column, ready to be written as text.
pub struct TextColumn<'a> {
    form: Form<'a>,
}

enum Form<'a> {
    /// Arrow's own form.
    Plain(ArrayFormatter<'a>),
    /// Arrow's form of floats that are finite; the others are `Infinity`, `-Infinity` and `NaN`.
    Float(Float64Array, ArrayFormatter<'a>),
    /// `\x` before Arrow's hexadecimal form.
    Bytes(ArrayFormatter<'a>),
    /// UUIDs.
    Uuid(&'a FixedSizeBinaryArray),
    /// Times of day.
    Time(Time64MicrosecondArray),
    /// Intervals.
    Interval(IntervalMonthDayNanoArray),
    /// Decimals without the zeros at their end.
    Numeric(&'a Decimal128Array),
    /// Texts that are filled up with blanks to so many characters.
    Padded(StringViewArray, usize),
    /// `2026-11-21 10:11:12.5`, and where the type has a zone what clocks of the reader's show, with their offset.
    Timestamp { values: Int64Array, per_second: i64, zone: Option<Zone> },
}

impl<'a> TextColumn<'a> {
    /// Prepares a column of a field: as [`TextColumn::new`], but that the field's extension is looked at.
    pub fn of_field(array: &'a dyn Array, field: &Field) -> Result<TextColumn<'a>> {
        TextColumn::of_field_in_zone(array, field, &Zone::utc())
    }

    /// The same for a reader in a time zone.
    pub fn of_field_in_zone(array: &'a dyn Array, field: &Field, reader: &Zone) -> Result<TextColumn<'a>> {
        let form = match StoredType::from_field(field) {
            Some(StoredType::Decimal { .. }) => return TextColumn::plain(array),
            Some(StoredType::Char) => match chars_of(field) {
                Some(chars) => cast(array, &DataType::Utf8View)
                    .ok()
                    .map(|texts| Form::Padded(texts.as_string_view().clone(), chars as usize)),
                None => None,
            },
            _ => None,
        };
        match form {
            Some(form) => Ok(TextColumn { form }),
            None => TextColumn::in_zone(array, reader),
        }
    }

    /// Prepares a column of any type; moments are shown in UTC.
    pub fn new(array: &'a dyn Array) -> Result<TextColumn<'a>> {
        TextColumn::in_zone(array, &Zone::utc())
    }

    /// Prepares a column of any type for a reader in a time zone.
    pub fn in_zone(array: &'a dyn Array, reader: &Zone) -> Result<TextColumn<'a>> {
        let unwritable =
            |error| Error::new(ErrorKind::NotSupported, format!("cannot write {} as text: {error}", array.data_type()));
        if let DataType::Timestamp(unit, zone) = array.data_type() {
            let values = cast(array, &DataType::Int64).map_err(unwritable)?.as_primitive::<Int64Type>().clone();
            let per_second = match unit {
                TimeUnit::Second => 1,
                TimeUnit::Millisecond => 1_000,
                TimeUnit::Microsecond => 1_000_000,
                TimeUnit::Nanosecond => 1_000_000_000,
            };
            return Ok(TextColumn {
                form: Form::Timestamp { values, per_second, zone: zone.as_ref().map(|_| reader.clone()) },
            });
        }
        match array.data_type() {
            DataType::FixedSizeBinary(UUID_BYTES) => {
                return Ok(TextColumn { form: Form::Uuid(array.as_fixed_size_binary()) });
            }
            DataType::Time32(_) | DataType::Time64(_) => {
                let times = cast(array, &DataType::Time64(TimeUnit::Microsecond)).map_err(unwritable)?;
                return Ok(TextColumn { form: Form::Time(times.as_primitive::<Time64MicrosecondType>().clone()) });
            }
            DataType::Interval(_) => {
                let spans = cast(array, &DataType::Interval(IntervalUnit::MonthDayNano)).map_err(unwritable)?;
                return Ok(TextColumn {
                    form: Form::Interval(spans.as_primitive::<IntervalMonthDayNanoType>().clone()),
                });
            }
            _ => {}
        }
        if StoredType::from_arrow(array.data_type()) == Some(StoredType::Numeric)
            && let Some(values) = array.as_primitive_opt::<Decimal128Type>()
        {
            return Ok(TextColumn { form: Form::Numeric(values) });
        }
        TextColumn::plain(array)
    }

    /// As Arrow writes it, for what it writes as PostgreSQL does.
    fn plain(array: &'a dyn Array) -> Result<TextColumn<'a>> {
        let unwritable =
            |error| Error::new(ErrorKind::NotSupported, format!("cannot write {} as text: {error}", array.data_type()));
        let options = FormatOptions::new().with_display_error(false);
        let formatter = ArrayFormatter::try_new(array, &options).map_err(unwritable)?;
        if matches!(array.data_type(), DataType::Float32 | DataType::Float64) {
            let values = cast(array, &DataType::Float64).map_err(unwritable)?.as_primitive::<Float64Type>().clone();
            return Ok(TextColumn { form: Form::Float(values, formatter) });
        }
        Ok(TextColumn {
            form: if is_bytes(array.data_type()) { Form::Bytes(formatter) } else { Form::Plain(formatter) },
        })
    }

    /// Appends the value at `row` to `out`; nothing for NULL.
    pub fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        let formatter = match &self.form {
            Form::Timestamp { values, per_second, zone } => {
                if values.is_valid(row) {
                    write_timestamp(out, values.value(row), *per_second, zone.as_ref())?;
                }
                return Ok(());
            }
            Form::Uuid(values) if values.is_valid(row) => {
                return written(write_uuid(&mut Utf8Sink(out), values.value(row)));
            }
            Form::Time(values) if values.is_valid(row) => {
                return written(write_time(&mut Utf8Sink(out), values.value(row)));
            }
            Form::Interval(values) if values.is_valid(row) => {
                let span = values.value(row);
                let sink = &mut Utf8Sink(out);
                return written(write_interval(sink, span.months, span.days, span.nanoseconds / 1_000));
            }
            Form::Numeric(values) if values.is_valid(row) => {
                return written(write_numeric(&mut Utf8Sink(out), values.value(row)));
            }
            Form::Padded(values, chars) if values.is_valid(row) => {
                let text = values.value(row);
                out.extend_from_slice(text.as_bytes());
                out.resize(out.len() + chars.saturating_sub(text.chars().count()), b' ');
                return Ok(());
            }
            Form::Uuid(_) | Form::Time(_) | Form::Interval(_) | Form::Numeric(_) | Form::Padded(..) => return Ok(()),
            Form::Plain(formatter) => formatter,
            Form::Float(values, _) if values.is_valid(row) && values.value(row).is_infinite() => {
                out.extend_from_slice(if values.value(row) > 0.0 { b"Infinity" } else { b"-Infinity" });
                return Ok(());
            }
            Form::Float(_, formatter) => formatter,
            Form::Bytes(formatter) => {
                out.extend_from_slice(b"\\x");
                formatter
            }
        };
        formatter.value(row).write(&mut Utf8Sink(out)).map_err(|error| {
            out.truncate(start);
            Error::new(ErrorKind::InvalidValue, format!("a value cannot be written as text: {error}"))
        })
    }
}

/// Bytes that take text.
pub struct Utf8Sink<'a>(pub &'a mut Vec<u8>);

impl Write for Utf8Sink<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

fn written(result: fmt::Result) -> Result<()> {
    result.map_err(|_| Error::internal("bytes take every text"))
}

fn write_timestamp(out: &mut Vec<u8>, value: i64, per_second: i64, zone: Option<&Zone>) -> Result<()> {
    let mut text = String::with_capacity(32);
    write_parts(&mut text, value, per_second, zone).map_err(|_| Error::internal("a String takes every text"))?;
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// A moment as clocks of a zone show it, with their offset: `2026-11-21 10:11:12.5+01`.
pub fn write_timestamptz(out: &mut String, moment: i64, zone: &Zone) -> fmt::Result {
    write_parts(out, moment, 1_000_000, Some(zone))
}

/// A moment as clocks of a zone show it, in the form of ISO 8601 that JSON has: `2026-01-01T01:00:00+01:00`.
pub fn iso_moment(moment: i64, zone: &Zone) -> String {
    let mut shown = String::with_capacity(32);
    // A String takes every text.
    let _ = write_timestamptz(&mut shown, moment, zone);
    let mut text = shown.replacen(' ', "T", 1);
    // Whole hours have their minutes, too.
    if zone.offset_at(moment) % 3_600 == 0 {
        text.push_str(":00");
    }
    text
}

fn write_parts(text: &mut String, value: i64, per_second: i64, zone: Option<&Zone>) -> fmt::Result {
    let (seconds, fraction) = (value.div_euclid(per_second), value.rem_euclid(per_second));
    let offset = zone.map(|zone| if zone.is_utc() { 0 } else { zone.offset_at(seconds.saturating_mul(1_000_000)) });
    let seconds = seconds.saturating_add(offset.unwrap_or(0));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    // Years of more than four digits have a sign, as ISO 8601 asks.
    match year {
        0..=9999 => write!(text, "{year:04}")?,
        _ => write!(text, "{year:+05}")?,
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    write!(text, "-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")?;
    if fraction > 0 {
        let digits = per_second.ilog10() as usize;
        let fraction = format!("{fraction:0digits$}");
        text.push('.');
        text.push_str(fraction.trim_end_matches('0'));
    }
    offset.map_or(Ok(()), |offset| write_offset(text, offset))
}

fn is_bytes(data_type: &DataType) -> bool {
    match data_type {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => true,
        DataType::Dictionary(_, values) => is_bytes(values),
        _ => false,
    }
}

/// The value at `row` as text; nothing for NULL.
pub fn value_text(array: &dyn Array, row: usize) -> Result<String> {
    let mut text = Vec::new();
    TextColumn::new(array)?.write(row, &mut text)?;
    String::from_utf8(text).map_err(|_| Error::internal("a value was written as text that is not UTF-8"))
}

/// The value at `row` in quotes, for a message; `NULL` for NULL.
pub fn shown_value(array: &dyn Array, row: usize) -> String {
    if array.is_null(row) {
        return "NULL".to_owned();
    }
    match array.data_type() {
        DataType::Utf8 => shown(array.as_string::<i32>().value(row).as_bytes()),
        DataType::LargeUtf8 => shown(array.as_string::<i64>().value(row).as_bytes()),
        DataType::Utf8View => shown(array.as_string_view().value(row).as_bytes()),
        DataType::Binary => shown(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => shown(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => shown(array.as_binary_view().value(row)),
        _ => {
            let mut text = Vec::new();
            match TextColumn::new(array).and_then(|column| column.write(row, &mut text)) {
                Ok(()) => shown(&text),
                Err(_) => format!("a value of type {}", array.data_type()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_timestamp;
    use arrow::array::{ArrayRef, BinaryArray, Float32Array, TimestampMicrosecondArray, TimestampMillisecondArray};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn text(array: ArrayRef) -> String {
        let mut out = Vec::new();
        TextColumn::new(&array).unwrap().write(0, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn times_and_bytes_have_postgresql_forms() {
        for (value, wanted) in
            [(f64::INFINITY, "Infinity"), (f64::NEG_INFINITY, "-Infinity"), (f64::NAN, "NaN"), (1.5, "1.5")]
        {
            assert_eq!(text(Arc::new(Float64Array::from_value(value, 1))), wanted);
            assert_eq!(text(Arc::new(Float32Array::from_value(value as f32, 1))), wanted);
        }
        assert_eq!(text(Arc::new(Float64Array::from(vec![None]))), "");
        let micros = |value| TimestampMicrosecondArray::from_value(value, 1);
        assert_eq!(text(Arc::new(micros(1_500_000))), "1970-01-01 00:00:01.5");
        assert_eq!(text(Arc::new(micros(-1).with_timezone("Europe/Paris"))), "1969-12-31 23:59:59.999999+00");
        assert_eq!(text(Arc::new(TimestampMillisecondArray::from_value(951_782_400_000, 1))), "2000-02-29 00:00:00");
        assert_eq!(text(Arc::new(BinaryArray::from_vec(vec![b"\x00\xff"]))), "\\x00ff");
        assert_eq!(shown_value(&BinaryArray::from_opt_vec(vec![None]), 0), "NULL");
    }

    proptest! {
        #[test]
        fn timestamps_are_read_back(micros in -8_000_000_000_000_000_000i64..8_000_000_000_000_000_000) {
            let written = text(Arc::new(TimestampMicrosecondArray::from_value(micros, 1).with_timezone("UTC")));
            prop_assert_eq!(parse_timestamp(written.as_bytes()), Ok(micros), "{}", written);
        }
    }
}
