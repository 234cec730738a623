//! Values of parameters, in either format, as scalars.

use crate::types::datetime::{EPOCH_DAYS, EPOCH_MICROS};
use crate::types::{element_of, numeric, oid, parameter_type};
use alluvia_query::ScalarValue;
use alluvia_space::data_type::UUID_BYTES;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::interval::interval_of;
use alluvia_values::list_text::array_elements;
use alluvia_values::parse::{Bad, bytes_of_text, shown};
use alluvia_values::time_of_day::{DAY_END, parse_time};
use alluvia_values::time_zone::{Zone, parse_date_in_zone, parse_timestamp_without_zone, parse_timestamptz};
use alluvia_values::uuid::parse_uuid;
use arrow::datatypes::{DataType, IntervalMonthDayNano};
use bytes::{Buf, Bytes};
use std::num::{IntErrorKind, ParseIntError};
use std::str::FromStr;

/// The value of parameter `number`, which the client sent as a value of type `type_oid` (0: of the type that it meets).
/// `zone` is the session's, of moments in text that say none.
pub(crate) fn parameter(
    number: usize,
    type_oid: u32,
    binary: bool,
    value: Option<Bytes>,
    zone: &Zone,
) -> Result<ScalarValue> {
    let read = match value {
        None => null(type_oid),
        Some(bytes) if binary => of_binary(type_oid, bytes),
        Some(bytes) => of_text(type_oid, utf8(&bytes)?, zone),
    };
    read.map_err(|error| error.at(format_args!("parameter ${number}")))
}

fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| {
        Error::new(ErrorKind::Encoding, format!("text is not UTF-8 after {} bytes", error.valid_up_to()))
    })
}

fn null(type_oid: u32) -> Result<ScalarValue> {
    match parameter_type(type_oid) {
        Some(DataType::Utf8View) | None => Ok(ScalarValue::Null),
        Some(data_type) => ScalarValue::try_from(&data_type).map_err(internal),
    }
}

fn internal(error: impl std::fmt::Display) -> Error {
    Error::internal(format!("a parameter could not be made: {error}"))
}

fn wrong(text: &str, what: &str) -> Error {
    let short: String = text.chars().take(60).collect();
    Error::new(ErrorKind::InvalidText, format!("'{short}' is not a valid {what}"))
}

/// The error of a text that is no value of a type.
fn bad(why: Bad, text: &str, what: &str) -> Error {
    Error::new(why.kind(), why.describe(&shown(text.as_bytes()), what))
}

/// An integer of any width.
fn whole<T: FromStr<Err = ParseIntError>>(text: &str, what: &str) -> Result<T> {
    text.parse().map_err(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => {
            let short: String = text.chars().take(60).collect();
            Error::new(ErrorKind::OutOfRange, format!("'{short}' is out of range for {what}"))
        }
        _ => wrong(text, what),
    })
}

fn of_text(type_oid: u32, text: &str, zone: &Zone) -> Result<ScalarValue> {
    let trimmed = text.trim();
    Ok(match type_oid {
        oid::BOOL => match trimmed.to_ascii_lowercase().as_str() {
            "t" | "true" | "y" | "yes" | "on" | "1" => ScalarValue::Boolean(Some(true)),
            "f" | "false" | "n" | "no" | "off" | "0" => ScalarValue::Boolean(Some(false)),
            _ => return Err(wrong(text, "BOOLEAN")),
        },
        oid::INT2 => ScalarValue::Int16(Some(whole(trimmed, "SMALLINT")?)),
        oid::INT4 => ScalarValue::Int32(Some(whole(trimmed, "INT")?)),
        oid::INT8 | oid::OID => ScalarValue::Int64(Some(whole(trimmed, "BIGINT")?)),
        oid::FLOAT4 => ScalarValue::Float32(Some(trimmed.parse().map_err(|_| wrong(text, "REAL"))?)),
        oid::FLOAT8 => ScalarValue::Float64(Some(trimmed.parse().map_err(|_| wrong(text, "DOUBLE"))?)),
        oid::NUMERIC => match numeric::read_text(trimmed) {
            Some((value, scale)) => ScalarValue::Decimal128(Some(value), 38, scale as i8),
            None if numeric::is_too_long(trimmed) => return Err(numeric::too_long()),
            // An exponent, NaN: only a float can hold what it says.
            None => ScalarValue::Float64(Some(trimmed.parse().map_err(|_| wrong(text, "NUMERIC"))?)),
        },
        oid::BYTEA => ScalarValue::Binary(Some(bytes_of_text(text).ok_or_else(|| wrong(text, "BYTEA"))?)),
        // pgjdbc sends dates with the zone of its machine, whatever their type: `2020-06-01 +02`.
        oid::DATE => {
            ScalarValue::Date32(Some(parse_date_in_zone(text.as_bytes()).map_err(|bad| no_time(bad, text, "DATE"))?))
        }
        oid::TIMESTAMP => {
            let shown = parse_timestamp_without_zone(text.as_bytes()).map_err(|bad| no_time(bad, text, "TIMESTAMP"))?;
            ScalarValue::TimestampMicrosecond(Some(shown), None)
        }
        oid::TIMESTAMPTZ => {
            let moment = parse_timestamptz(text.as_bytes(), zone).map_err(|bad| no_time(bad, text, "TIMESTAMP"))?;
            ScalarValue::TimestampMicrosecond(Some(moment), Some("UTC".into()))
        }
        oid::INTERVAL => {
            let (months, days, nanoseconds) =
                interval_of(text).ok_or_else(|| bad(Bad::DatetimeForm, text, "INTERVAL"))?;
            ScalarValue::new_interval_mdn(months, days, nanoseconds)
        }
        oid::TIME => {
            let micros = parse_time(text.as_bytes()).map_err(|why| bad(why, text, "TIME"))?;
            ScalarValue::Time64Microsecond(Some(micros))
        }
        oid::UUID => {
            let bytes = parse_uuid(text.as_bytes()).map_err(|why| bad(why, text, "UUID"))?;
            ScalarValue::FixedSizeBinary(UUID_BYTES, Some(bytes.to_vec()))
        }
        _ => match element_of(type_oid) {
            Some(element) => {
                let elements = array_elements(text).ok_or_else(|| wrong(text, "array"))?;
                let values = elements.into_iter().map(|value| match value {
                    None => null_of(element),
                    Some(value) => of_text(element, &value, zone),
                });
                list(element, values.collect::<Result<_>>()?)?
            }
            None => ScalarValue::Utf8(Some(text.to_owned())),
        },
    })
}

fn no_time(bad: Bad, text: &str, name: &str) -> Error {
    let error = match bad {
        Bad::Range => Error::new(bad.kind(), bad.describe(&shown(text.as_bytes()), name)),
        _ => wrong(text, name),
    };
    error.with_hint("write it as 2026-11-21 or 2026-11-21 10:11:12.5, with a zone as +01:00")
}

fn null_of(element: u32) -> Result<ScalarValue> {
    let data_type = parameter_type(element).unwrap_or(DataType::Utf8View);
    ScalarValue::try_from(&data_type).map_err(internal)
}

/// A list, whose type is the one that holds all of its values: decimals come with a scale each.
fn list(element: u32, values: Vec<ScalarValue>) -> Result<ScalarValue> {
    let mut data_type = parameter_type(element).unwrap_or(DataType::Utf8View);
    if element == oid::NUMERIC {
        let scales = values.iter().filter(|value| !value.is_null()).map(|value| match value {
            ScalarValue::Decimal128(_, _, scale) => Some(*scale),
            _ => None,
        });
        // One that only a float can hold makes all of them floats.
        data_type = match scales.collect::<Option<Vec<i8>>>() {
            Some(scales) => DataType::Decimal128(38, scales.into_iter().max().unwrap_or(0)),
            None => DataType::Float64,
        };
    }
    let same = |value: ScalarValue| {
        value.cast_to(&data_type).map_err(|_| match element {
            // It fits by itself, and not with as many digits after the point as others of the array have.
            oid::NUMERIC => numeric::too_long(),
            _ => wrong(&value.to_string(), "element of such an array"),
        })
    };
    let values = values.into_iter().map(same).collect::<Result<Vec<ScalarValue>>>()?;
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&values, &data_type)))
}

fn of_binary(type_oid: u32, mut bytes: Bytes) -> Result<ScalarValue> {
    let length = bytes.len();
    let wants = |wanted: usize| {
        let message = format!("a binary value of {length} bytes, where its type has {wanted}");
        if length == wanted { Ok(()) } else { Err(Error::new(ErrorKind::InvalidBinary, message)) }
    };
    Ok(match type_oid {
        oid::BOOL => {
            wants(1)?;
            ScalarValue::Boolean(Some(bytes.get_u8() != 0))
        }
        oid::INT2 => {
            wants(2)?;
            ScalarValue::Int16(Some(bytes.get_i16()))
        }
        oid::INT4 => {
            wants(4)?;
            ScalarValue::Int32(Some(bytes.get_i32()))
        }
        oid::OID => {
            wants(4)?;
            ScalarValue::Int64(Some(i64::from(bytes.get_u32())))
        }
        oid::INT8 => {
            wants(8)?;
            ScalarValue::Int64(Some(bytes.get_i64()))
        }
        oid::FLOAT4 => {
            wants(4)?;
            ScalarValue::Float32(Some(bytes.get_f32()))
        }
        oid::FLOAT8 => {
            wants(8)?;
            ScalarValue::Float64(Some(bytes.get_f64()))
        }
        oid::NUMERIC => {
            let (value, scale) = numeric::read_binary(bytes)?;
            ScalarValue::Decimal128(Some(value), 38, scale as i8)
        }
        oid::BYTEA => ScalarValue::Binary(Some(bytes.to_vec())),
        oid::DATE => {
            wants(4)?;
            let days = bytes.get_i32().checked_add(EPOCH_DAYS);
            ScalarValue::Date32(Some(days.ok_or_else(|| wrong("infinity", "DATE"))?))
        }
        oid::TIMESTAMP | oid::TIMESTAMPTZ => {
            wants(8)?;
            let micros = bytes.get_i64().checked_add(EPOCH_MICROS).ok_or_else(|| wrong("infinity", "TIMESTAMP"))?;
            let zone = (type_oid == oid::TIMESTAMPTZ).then(|| "UTC".into());
            ScalarValue::TimestampMicrosecond(Some(micros), zone)
        }
        oid::TIME => {
            wants(8)?;
            let micros = bytes.get_i64();
            if !(0..=DAY_END).contains(&micros) {
                return Err(Error::new(ErrorKind::DatetimeRange, "time out of range"));
            }
            ScalarValue::Time64Microsecond(Some(micros))
        }
        oid::INTERVAL => {
            wants(16)?;
            let (micros, days, months) = (bytes.get_i64(), bytes.get_i32(), bytes.get_i32());
            let nanoseconds = micros.checked_mul(1_000).ok_or_else(|| wrong("a long interval", "INTERVAL"))?;
            ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano { months, days, nanoseconds }))
        }
        oid::UUID => {
            wants(16)?;
            ScalarValue::FixedSizeBinary(UUID_BYTES, Some(bytes.to_vec()))
        }
        oid::JSONB => match bytes.split_first() {
            Some((1, text)) => ScalarValue::Utf8(Some(utf8(text)?.to_owned())),
            _ => return Err(Error::new(ErrorKind::InvalidBinary, "a binary JSONB of an unknown version")),
        },
        0 | oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME | oid::CHAR | oid::JSON | oid::UNKNOWN => {
            ScalarValue::Utf8(Some(utf8(&bytes)?.to_owned()))
        }
        other => match element_of(other) {
            Some(element) => binary_array(element, bytes)?,
            None => {
                return Err(Error::new(
                    ErrorKind::NotSupported,
                    format!("binary parameters of the type with oid {other} are not supported"),
                )
                .with_hint("send it as text"));
            }
        },
    })
}

fn binary_array(element: u32, mut bytes: Bytes) -> Result<ScalarValue> {
    let broken = || Error::new(ErrorKind::InvalidBinary, "a binary array cannot be read");
    if bytes.len() < 12 {
        return Err(broken());
    }
    let (dimensions, _, sent) = (bytes.get_u32(), bytes.get_u32(), bytes.get_u32());
    // The client writes this type: arrays in arrays would be read as deep as its bytes are long, and no array of PostgreSQL's has any.
    if element_of(sent).is_some() {
        return Err(broken());
    }
    if dimensions == 0 {
        return list(element, Vec::new());
    }
    if dimensions > 1 {
        return Err(Error::new(ErrorKind::NotSupported, "arrays of several dimensions are not supported"));
    }
    if bytes.len() < 8 {
        return Err(broken());
    }
    let (count, _) = (bytes.get_u32() as usize, bytes.get_u32());
    if count > bytes.len() / 4 {
        return Err(broken());
    }
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        if bytes.len() < 4 {
            return Err(broken());
        }
        let length = bytes.get_i32();
        values.push(match usize::try_from(length) {
            Err(_) => null_of(sent)?,
            Ok(length) if length > bytes.len() => return Err(broken()),
            Ok(length) => of_binary(sent, bytes.split_to(length))?,
        });
    }
    list(sent, values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(type_oid: u32, text: &str) -> Result<ScalarValue> {
        parameter(1, type_oid, false, Some(Bytes::copy_from_slice(text.as_bytes())), &Zone::utc())
    }

    #[test]
    fn texts_are_read_by_their_types() {
        assert_eq!(text(oid::INT4, " 5 ").unwrap(), ScalarValue::Int32(Some(5)));
        assert_eq!(text(oid::NUMERIC, "-12.50").unwrap(), ScalarValue::Decimal128(Some(-1250), 38, 2));
        assert_eq!(text(oid::BYTEA, "\\x00fF").unwrap(), ScalarValue::Binary(Some(vec![0, 255])));
        assert_eq!(text(oid::BYTEA, "\\x 00 fF").unwrap(), ScalarValue::Binary(Some(vec![0, 255])));
        assert_eq!(text(oid::BYTEA, "a\\\\\\001").unwrap(), ScalarValue::Binary(Some(vec![b'a', b'\\', 1])));
        assert_eq!(text(oid::DATE, "1970-01-02").unwrap(), ScalarValue::Date32(Some(1)));
        assert_eq!(
            text(oid::TIMESTAMPTZ, "1970-01-01 01:00:00.000001+01:00").unwrap(),
            ScalarValue::TimestampMicrosecond(Some(1), Some("UTC".into()))
        );
        for (written, months, days, seconds) in
            [("90", 0, 0, 90), ("1 day 02:03:04", 0, 1, 7_384), ("1 days 3600 s", 0, 1, 3_600), ("1 mon", 1, 0, 0)]
        {
            let interval = ScalarValue::new_interval_mdn(months, days, seconds * 1_000_000_000);
            assert_eq!(text(oid::INTERVAL, written).unwrap(), interval, "{written}");
        }
        assert_eq!(text(0, "anything").unwrap(), ScalarValue::Utf8(Some("anything".into())));
        let ScalarValue::List(list) = text(1007, "{1,NULL,3}").unwrap() else { panic!("a list") };
        assert_eq!(list.value(0).len(), 3);
        let decimals = |text_of: &str| match text(1231, text_of).unwrap() {
            ScalarValue::List(list) => ScalarValue::try_from_array(&list.value(0), 1).unwrap(),
            other => panic!("{other}"),
        };
        assert_eq!(decimals("{NULL,2.25,1}"), ScalarValue::Decimal128(Some(225), 38, 2));
        assert_eq!(decimals("{1,2.25}"), ScalarValue::Decimal128(Some(225), 38, 2));
        assert_eq!(decimals("{1e100,2.25}"), ScalarValue::Float64(Some(2.25)));
        for (type_oid, bad, kind) in [
            (oid::INT4, "x", ErrorKind::InvalidText),
            (oid::INT4, "", ErrorKind::InvalidText),
            (oid::INT2, "40000", ErrorKind::OutOfRange),
            (oid::INT8, "-9223372036854775809", ErrorKind::OutOfRange),
            (oid::NUMERIC, "1234567890123456789012345678901234567890.5", ErrorKind::OutOfRange),
            (oid::NUMERIC, "1234567890123456789012345678901234567890e3", ErrorKind::OutOfRange),
            (oid::NUMERIC, "12x", ErrorKind::InvalidText),
            (1231, "{1,1234567890123456789012345678901234567890}", ErrorKind::OutOfRange),
            (1231, "{0.5,12345678901234567890123456789012345678}", ErrorKind::OutOfRange),
            (oid::DATE, "soon", ErrorKind::InvalidText),
            (oid::INTERVAL, "soon", ErrorKind::InvalidDatetime),
            (oid::TIME, "soon", ErrorKind::InvalidDatetime),
            (oid::TIME, "25:00", ErrorKind::DatetimeRange),
            (oid::UUID, "soon", ErrorKind::InvalidText),
            (1007, "{1,{2}}", ErrorKind::InvalidText),
            (oid::BYTEA, "\\x0", ErrorKind::InvalidText),
        ] {
            let error = text(type_oid, bad).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.message().starts_with("parameter $1: "), "{error}");
        }
    }

    #[test]
    fn binary_arrays_of_arrays_are_errors_however_deep() {
        const DEPTH: usize = 50_000;
        // Each level says that it is one element, of the type `int[]`, and how long that is.
        let mut bytes = Vec::with_capacity(24 * DEPTH);
        for level in 1..=DEPTH {
            bytes.extend([1, 0, 1007, 1, 1].map(u32::to_be_bytes).as_flattened());
            bytes.extend((24 * (DEPTH - level) as u32).to_be_bytes());
        }
        for sent in [bytes.split_off(24 * (DEPTH - 1)), bytes] {
            let error = parameter(1, 1007, true, Some(Bytes::from(sent)), &Zone::utc()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidBinary, "{error}");
        }
    }

    #[test]
    fn binary_values_of_wrong_length_are_errors() {
        for type_oid in
            [oid::BOOL, oid::INT2, oid::INT4, oid::INT8, oid::FLOAT4, oid::FLOAT8, oid::DATE, oid::TIMESTAMP]
        {
            for length in [0, 3, 5, 9] {
                let value = parameter(2, type_oid, true, Some(Bytes::from(vec![0; length])), &Zone::utc());
                let kind = value.unwrap_err().kind();
                assert_eq!((kind, kind.sqlstate()), (ErrorKind::InvalidBinary, "22P03"));
            }
        }
        // A list that is cut, one whose element is too short, a number without its digits, and a version that is not known.
        let cut = [0u8, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0, 0, 0, 1];
        let short = [&cut[..], &[0, 0, 0, 1, 0, 0, 0, 1, 7]].concat();
        for (type_oid, bytes) in
            [(1007, cut.to_vec()), (1007, short), (oid::NUMERIC, vec![0, 1, 0, 0]), (oid::JSONB, vec![2])]
        {
            let error = parameter(1, type_oid, true, Some(Bytes::from(bytes)), &Zone::utc()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidBinary, "{error}");
        }
        assert!(parameter(1, 1007, true, Some(Bytes::from(vec![0xff; 20])), &Zone::utc()).is_err());
        assert_eq!(parameter(1, oid::INT8, true, None, &Zone::utc()).unwrap(), ScalarValue::Int64(None));
    }
}
