//! Values as their variables hold them.
//!
//! Invariants:
//! - A variable holds a value of the Arrow type of its declared type, texts as `Utf8` and bytes as `Binary`, or its NULL.
//! - Assigning rounds decimals half away from zero, and refuses what does not fit (22003), as PostgreSQL does. What is converted otherwise
//!   ([`Fitted::ByHost`]) the host casts.

use alluvia_space::data_type::{NUMERIC_PRECISION, NUMERIC_SCALE};
use alluvia_space::{ColumnType, DataType};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::varchar::fitted;
use arrow::array::Array;
use arrow::datatypes::DataType as ArrowType;
use datafusion_common::{DataFusionError, ScalarValue};

/// Bytes that a value holds beside its own place, which is the same for all.
pub(crate) fn bytes_of(value: &ScalarValue) -> u64 {
    let bytes = match value {
        ScalarValue::Utf8(text) => text.as_ref().map_or(0, String::capacity),
        ScalarValue::Binary(bytes) => bytes.as_ref().map_or(0, Vec::capacity),
        value => value.size().saturating_sub(size_of::<ScalarValue>()),
    };
    bytes as u64
}

/// What becomes of a value that is assigned.
#[derive(Debug)]
pub(crate) enum Fitted {
    Value(ScalarValue),
    /// The host casts it.
    ByHost(ScalarValue),
}

/// The Arrow type that a variable holds.
pub(crate) fn held_type(data_type: DataType) -> ArrowType {
    match data_type.to_arrow() {
        ArrowType::Utf8View => ArrowType::Utf8,
        ArrowType::BinaryView => ArrowType::Binary,
        other => other,
    }
}

fn defect(error: DataFusionError) -> Error {
    Error::internal(format!("a value could not be held: {}", error.strip_backtrace()))
}

/// The NULL of a type.
pub(crate) fn null_of(data_type: DataType) -> Result<ScalarValue> {
    ScalarValue::try_new_null(&held_type(data_type)).map_err(defect)
}

/// A value of an array, in the form that variables hold.
pub(crate) fn value_at(array: &dyn Array, row: usize) -> Result<ScalarValue> {
    Ok(plain(ScalarValue::try_from_array(array, row).map_err(defect)?))
}

/// A value without what Arrow has several forms for.
pub(crate) fn plain(value: ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text) => ScalarValue::Utf8(text),
        ScalarValue::BinaryView(bytes) | ScalarValue::LargeBinary(bytes) => ScalarValue::Binary(bytes),
        ScalarValue::Dictionary(_, value) => plain(*value),
        ScalarValue::Int8(number) => ScalarValue::Int16(number.map(i16::from)),
        ScalarValue::UInt8(number) => ScalarValue::Int16(number.map(i16::from)),
        ScalarValue::UInt16(number) => ScalarValue::Int32(number.map(i32::from)),
        ScalarValue::UInt32(number) => ScalarValue::Int64(number.map(i64::from)),
        ScalarValue::UInt64(None) => ScalarValue::Int64(None),
        ScalarValue::UInt64(Some(number)) => match i64::try_from(number) {
            Ok(number) => ScalarValue::Int64(Some(number)),
            Err(_) => ScalarValue::Decimal128(Some(i128::from(number)), 20, 0),
        },
        other => other,
    }
}

/// A value for a variable of a type. `name` is the variable's.
pub(crate) fn fit(value: ScalarValue, column_type: ColumnType, name: &str) -> Result<Fitted> {
    let value = plain(value);
    if value.is_null() {
        return null_of(column_type.data_type).map(Fitted::Value);
    }
    let given = match column_type.data_type {
        DataType::Text | DataType::Char => match value {
            ScalarValue::Utf8(Some(text)) => return text_of(text, column_type, name).map(Fitted::Value),
            other => return Ok(Fitted::ByHost(other)),
        },
        // Which need not be written as values of the type are.
        DataType::Json | DataType::Jsonb => return Ok(Fitted::ByHost(value)),
        DataType::Int16 | DataType::Int32 | DataType::Int64 => whole_of(&value).map(|number| {
            let fits = match column_type.data_type {
                DataType::Int16 => i16::try_from(number).ok().map(|number| ScalarValue::Int16(Some(number))),
                DataType::Int32 => i32::try_from(number).ok().map(|number| ScalarValue::Int32(Some(number))),
                _ => Some(ScalarValue::Int64(Some(number))),
            };
            fits.ok_or_else(|| out_of_range(column_type.data_type))
        }),
        DataType::Real => match value {
            ScalarValue::Int16(Some(number)) => Some(Ok(ScalarValue::Float32(Some(f32::from(number))))),
            _ => None,
        },
        DataType::Double => match value {
            ScalarValue::Float32(Some(number)) => Some(Ok(ScalarValue::Float64(Some(f64::from(number))))),
            ref whole => whole_of(whole).map(|number| Ok(ScalarValue::Float64(Some(number as f64)))),
        },
        DataType::Decimal { precision, scale } => decimal_of(&value, precision, scale),
        DataType::Numeric => decimal_of(&value, NUMERIC_PRECISION, NUMERIC_SCALE),
        _ => None,
    };
    match given {
        Some(fits) => fits.map(Fitted::Value),
        None if value.data_type() == held_type(column_type.data_type) => Ok(Fitted::Value(value)),
        None => Ok(Fitted::ByHost(value)),
    }
}

/// What the host has cast, for a variable.
pub(crate) fn fit_cast(value: ScalarValue, column_type: ColumnType, name: &str) -> Result<ScalarValue> {
    let value = plain(value);
    match (&value, column_type.data_type) {
        (ScalarValue::Utf8(Some(text)), DataType::Text | DataType::Char) => text_of(text.clone(), column_type, name),
        (value, data_type) if value.is_null() => null_of(data_type),
        (value, data_type) if value.data_type() == held_type(data_type) => Ok(value.clone()),
        (value, data_type) => {
            let cast = value.cast_to(&held_type(data_type));
            cast.map_err(|_| {
                Error::new(
                    ErrorKind::DatatypeMismatch,
                    format!("{name} is of type {}, and the value of type {}", data_type.sql_name(), value.data_type()),
                )
            })
        }
    }
}

fn whole_of(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::Int16(number) => number.map(i64::from),
        ScalarValue::Int32(number) => number.map(i64::from),
        ScalarValue::Int64(number) => *number,
        _ => None,
    }
}

/// A text as a variable of text holds it, with the length kept to.
fn text_of(text: String, column_type: ColumnType, name: &str) -> Result<ScalarValue> {
    let kept = match column_type.data_type {
        // Blanks at the end are not part of the value.
        DataType::Char => text.trim_end_matches(' '),
        _ => text.as_str(),
    };
    let kept = fitted(kept, column_type.chars_max).map_err(|_| {
        let length = column_type.chars_max.unwrap_or_default();
        let message = match column_type.data_type {
            DataType::Char => format!("value too long for type character({length})"),
            _ => format!("value too long for type character varying({length})"),
        };
        Error::new(ErrorKind::TooLong, message).with_detail(format!("It was assigned to the variable {name}."))
    })?;
    Ok(ScalarValue::Utf8(Some(if kept.len() == text.len() { text } else { kept.to_owned() })))
}

fn out_of_range(data_type: DataType) -> Error {
    let name = match data_type {
        DataType::Int16 => "smallint",
        DataType::Int32 => "integer",
        _ => "bigint",
    };
    Error::new(ErrorKind::OutOfRange, format!("{name} out of range"))
}

/// A whole number or a decimal as a decimal of these digits.
fn decimal_of(value: &ScalarValue, precision: u8, scale: u8) -> Option<Result<ScalarValue>> {
    let (unscaled, from) = match value {
        ScalarValue::Decimal128(Some(unscaled), _, from) => (*unscaled, u32::try_from(*from).ok()?),
        value => (i128::from(whole_of(value)?), 0),
    };
    let to = u32::from(scale);
    let scaled = match to.checked_sub(from) {
        Some(more) => 10i128.checked_pow(more).and_then(|factor| unscaled.checked_mul(factor)),
        None => 10i128.checked_pow(from - to).map(|divisor| {
            let (quotient, rest) = (unscaled / divisor, unscaled % divisor);
            // Half away from zero.
            quotient + if rest.unsigned_abs() >= divisor.unsigned_abs().div_ceil(2) { unscaled.signum() } else { 0 }
        }),
    };
    let fits = scaled
        .filter(|scaled| 10u128.checked_pow(u32::from(precision)).is_none_or(|bound| scaled.unsigned_abs() < bound));
    Some(match fits {
        Some(scaled) => Ok(ScalarValue::Decimal128(Some(scaled), precision, scale as i8)),
        None => Err(Error::new(ErrorKind::OutOfRange, "numeric field overflow").with_detail(format!(
            "A field with precision {precision}, scale {scale} must round to an absolute value less than 10^{}.",
            precision.saturating_sub(scale)
        ))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: ScalarValue, data_type: DataType, chars_max: Option<u32>) -> String {
        match fit(value, ColumnType { data_type, chars_max }, "v") {
            Ok(Fitted::Value(value)) => format!("{value:?}"),
            Ok(Fitted::ByHost(_)) => "host".to_owned(),
            Err(error) => error.sqlstate().to_owned(),
        }
    }

    #[test]
    fn values_are_assigned_as_in_postgresql() {
        let text = |text: &str| ScalarValue::Utf8View(Some(text.to_owned()));
        let decimal = |unscaled, scale| ScalarValue::Decimal128(Some(unscaled), 38, scale);
        let money = DataType::Decimal { precision: 5, scale: 2 };
        for (value, data_type, chars_max, expected) in [
            (ScalarValue::Int64(Some(7)), DataType::Int32, None, "Int32(7)"),
            (ScalarValue::Int64(Some(1 << 31)), DataType::Int32, None, "22003"),
            (ScalarValue::Int32(Some(-40_000)), DataType::Int16, None, "22003"),
            (ScalarValue::UInt64(Some(5)), DataType::Int64, None, "Int64(5)"),
            (ScalarValue::Null, DataType::Int32, None, "Int32(NULL)"),
            (text("7"), DataType::Int32, None, "host"),
            (decimal(15, 1), DataType::Int32, None, "host"),
            (text("abc  "), DataType::Text, Some(3), "Utf8(\"abc\")"),
            (text("abcd"), DataType::Text, Some(3), "22001"),
            (text("éé"), DataType::Text, Some(2), "Utf8(\"éé\")"),
            (text("ab "), DataType::Char, Some(3), "Utf8(\"ab\")"),
            (text("abcd"), DataType::Char, Some(3), "22001"),
            (ScalarValue::Int32(Some(1)), DataType::Text, None, "host"),
            (decimal(1005, 3), money, None, "Decimal128(1.01,5,2)"),
            (decimal(-1005, 3), money, None, "Decimal128(-1.01,5,2)"),
            (decimal(1004, 3), money, None, "Decimal128(1.00,5,2)"),
            (decimal(999_995, 4), money, None, "Decimal128(100.00,5,2)"),
            (decimal(999_995, 3), money, None, "22003"),
            (ScalarValue::Int32(Some(7)), money, None, "Decimal128(7.00,5,2)"),
            (ScalarValue::Int32(Some(1000)), money, None, "22003"),
            (
                ScalarValue::Int64(Some(i64::MAX)),
                DataType::Numeric,
                None,
                "Decimal128(9223372036854775807.0000000000000000,38,16)",
            ),
            (ScalarValue::Float32(Some(0.5)), DataType::Double, None, "Float64(0.5)"),
            (ScalarValue::Float64(Some(0.5)), DataType::Real, None, "host"),
            (ScalarValue::Boolean(Some(true)), DataType::Boolean, None, "Boolean(true)"),
            (text("true"), DataType::Boolean, None, "host"),
            (ScalarValue::Date32(Some(1)), DataType::Date, None, "Date32(\"1970-01-02\")"),
            (text("{}"), DataType::Jsonb, None, "host"),
        ] {
            let name = format!("{value:?} as {data_type:?}");
            assert_eq!(shown(value, data_type, chars_max), expected, "{name}");
        }
    }
}
