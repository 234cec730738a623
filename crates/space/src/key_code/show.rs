//! Values of keys as PostgreSQL writes them, for errors that name a key.

use super::bits;
use crate::codes::calendar::{MICROS_PER_DAY, civil};
use crate::data_type::{NUMERIC_PRECISION, NUMERIC_SCALE};
use crate::schema::DataType;
use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    Date32Type, Decimal128Type, DecimalType, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimestampMicrosecondType,
};
use std::fmt::Write;

/// A row's value in a column of a key; `?` of an array that the column cannot have.
pub(super) fn value(array: &dyn Array, data_type: DataType, row: usize) -> String {
    if array.is_null(row) {
        return "null".to_owned();
    }
    shown(array, data_type, row).unwrap_or_else(|| "?".to_owned())
}

fn shown(array: &dyn Array, data_type: DataType, row: usize) -> Option<String> {
    Some(match data_type {
        DataType::Boolean => if array.as_boolean_opt()?.value(row) { "t" } else { "f" }.to_owned(),
        DataType::Int16 => array.as_primitive_opt::<Int16Type>()?.value(row).to_string(),
        DataType::Int32 => array.as_primitive_opt::<Int32Type>()?.value(row).to_string(),
        DataType::Int64 => array.as_primitive_opt::<Int64Type>()?.value(row).to_string(),
        DataType::Real => {
            let value = array.as_primitive_opt::<Float32Type>()?.value(row);
            float(value.to_string(), &format!("{value:e}"), 6)
        }
        DataType::Double => {
            let value = array.as_primitive_opt::<Float64Type>()?.value(row);
            float(value.to_string(), &format!("{value:e}"), 15)
        }
        DataType::Decimal { precision, scale } => Decimal128Type::format_decimal(
            array.as_primitive_opt::<Decimal128Type>()?.value(row),
            precision,
            scale as i8,
        ),
        DataType::Date => date(array.as_primitive_opt::<Date32Type>()?.value(row).into(), ""),
        DataType::Timestamp => timestamp(array.as_primitive_opt::<TimestampMicrosecondType>()?.value(row), ""),
        DataType::TimestampTz => timestamp(array.as_primitive_opt::<TimestampMicrosecondType>()?.value(row), "+00"),
        DataType::Time => clock(array.as_primitive_opt::<Time64MicrosecondType>()?.value(row)),
        DataType::Numeric => {
            let value = array.as_primitive_opt::<Decimal128Type>()?.value(row);
            let text = Decimal128Type::format_decimal(value, NUMERIC_PRECISION, NUMERIC_SCALE as i8);
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        DataType::Uuid => uuid(array.as_fixed_size_binary_opt()?.value(row)),
        DataType::Interval => return None,
        DataType::Text | DataType::Char | DataType::Json | DataType::Jsonb => {
            String::from_utf8_lossy(bits::bytes(array).ok()?(row)).into_owned()
        }
        DataType::Binary => {
            let hex: String = bits::bytes(array).ok()?(row).iter().map(|byte| format!("{byte:02x}")).collect();
            format!("\\x{hex}")
        }
    })
}

/// A float in the fewest digits that give it back; `digits` is from where on it has an exponent.
fn float(plain: String, scientific: &str, digits: i32) -> String {
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return plain.replace("inf", "Infinity");
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..digits).contains(&exponent) {
        return plain;
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// A day, with what comes behind it: the era is the last.
fn date(days: i64, behind: &str) -> String {
    let (year, month, day) = civil(days);
    // There is no year 0: the year before 1 is 1 BC.
    let (year, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    format!("{year:04}-{month:02}-{day:02}{behind}{era}")
}

fn timestamp(micros: i64, zone: &str) -> String {
    let time = clock(micros.rem_euclid(MICROS_PER_DAY));
    date(micros.div_euclid(MICROS_PER_DAY), &format!(" {time}{zone}"))
}

fn clock(of_day: i64) -> String {
    let (seconds, fraction) = (of_day / 1_000_000, of_day % 1_000_000);
    let mut time = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if fraction > 0 {
        // Writing to a String cannot fail.
        let _ = write!(time, ".{}", format!("{fraction:06}").trim_end_matches('0'));
    }
    time
}

fn uuid(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if let 4 | 6 | 8 | 10 = at {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}
