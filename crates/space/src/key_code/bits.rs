//! Values of key columns as bits.
//!
//! Invariants:
//! - Bits ascend as values do, in the order of SQL: false before true, every NaN above all other floats.
//! - A value has no more bits than [`width`] says of its type, and two values of a type have the same bits only where SQL
//!   says that they are equal.

use crate::data_type::{NUMERIC_PRECISION, UUID_BYTES};
use crate::schema::DataType;
use alluvia_types::{Error, Result};
use arrow::array::{Array, AsArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{
    ArrowDictionaryKeyType, ArrowNativeType, DataType as ArrowType, Date32Type, Decimal128Type, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time64MicrosecondType, TimestampMicrosecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};

/// Bits of a value of a type; `None` of texts and bytes.
pub(super) fn width(data_type: DataType) -> Option<u32> {
    Some(match data_type {
        DataType::Boolean => 1,
        DataType::Int16 => 16,
        DataType::Int32 | DataType::Real | DataType::Date => 32,
        DataType::Int64 | DataType::Double | DataType::Timestamp | DataType::TimestampTz => 64,
        DataType::Time => 64,
        DataType::Decimal { precision, .. } => decimal_width(precision),
        DataType::Numeric => decimal_width(NUMERIC_PRECISION),
        DataType::Uuid => 128,
        // No key has columns of the last three.
        DataType::Text | DataType::Binary | DataType::Char | DataType::Json | DataType::Jsonb | DataType::Interval => {
            return None;
        }
    })
}

/// Bits in which -(10^precision - 1) to 10^precision - 1 fit, with a sign.
fn decimal_width(precision: u8) -> u32 {
    let largest = 10u128.pow(precision.into()) - 1;
    largest.ilog2() + 2
}

/// One column's values, none of which is NULL.
pub(super) enum Values<'a> {
    Boolean(&'a BooleanBuffer),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    /// Unscaled values, and how many bits they have.
    Decimal(&'a [i128], u32),
    /// 16 bytes a row.
    Uuid(&'a [u8]),
    /// Texts or bytes, by row.
    Bytes(Box<dyn Fn(usize) -> &'a [u8] + 'a>),
}

impl<'a> Values<'a> {
    /// Reads an array of a column of this type; arrays of other types are a defect of the caller.
    pub(super) fn new(array: &'a dyn Array, data_type: DataType) -> Result<Values<'a>> {
        if width(data_type).is_none() {
            return Ok(Values::Bytes(bytes(array)?));
        }
        let is_right = match (data_type, array.data_type()) {
            (DataType::Decimal { scale, .. }, ArrowType::Decimal128(_, found)) => i32::from(scale) == i32::from(*found),
            // The zone of a timestamp is how it is shown.
            (DataType::TimestampTz, ArrowType::Timestamp(unit, Some(_))) => {
                *unit == arrow::datatypes::TimeUnit::Microsecond
            }
            (_, found) => *found == data_type.to_arrow(),
        };
        if !is_right {
            return Err(foreign(array));
        }
        let decimals = |precision| {
            let (values, bits) = (array.as_primitive::<Decimal128Type>().values(), decimal_width(precision));
            // Arrow does not hold decimals to their precision: what has more digits would meet other keys.
            let above = CODE_BITS - bits;
            match values.iter().find(|&&value| (value << above) >> above != value) {
                Some(value) => Err(Error::internal(format!("{value} has more than {precision} digits"))),
                None => Ok(Values::Decimal(values, bits)),
            }
        };
        Ok(match data_type {
            DataType::Boolean => Values::Boolean(array.as_boolean().values()),
            DataType::Int16 => Values::Int16(array.as_primitive::<Int16Type>().values()),
            DataType::Int32 => Values::Int32(array.as_primitive::<Int32Type>().values()),
            DataType::Date => Values::Int32(array.as_primitive::<Date32Type>().values()),
            DataType::Int64 => Values::Int64(array.as_primitive::<Int64Type>().values()),
            DataType::Timestamp | DataType::TimestampTz => {
                Values::Int64(array.as_primitive::<TimestampMicrosecondType>().values())
            }
            DataType::Real => Values::Float32(array.as_primitive::<Float32Type>().values()),
            DataType::Double => Values::Float64(array.as_primitive::<Float64Type>().values()),
            DataType::Time => Values::Int64(array.as_primitive::<Time64MicrosecondType>().values()),
            DataType::Decimal { precision, .. } => decimals(precision)?,
            DataType::Numeric => decimals(NUMERIC_PRECISION)?,
            DataType::Uuid => Values::Uuid(array.as_fixed_size_binary().value_data()),
            DataType::Text
            | DataType::Binary
            | DataType::Char
            | DataType::Json
            | DataType::Jsonb
            | DataType::Interval => Values::Bytes(bytes(array)?),
        })
    }

    /// The bits of a row's value, at the low end. Texts and bytes have none here.
    #[inline]
    pub(super) fn bits(&self, row: usize) -> u128 {
        match self {
            Values::Boolean(values) => values.value(row).into(),
            Values::Int16(values) => (values[row] as u16 ^ 1 << 15).into(),
            Values::Int32(values) => (values[row] as u32 ^ 1 << 31).into(),
            Values::Int64(values) => (values[row] as u64 ^ 1 << 63).into(),
            Values::Float32(values) => real_bits(values[row]).into(),
            Values::Float64(values) => double_bits(values[row]).into(),
            Values::Decimal(values, bits) => {
                let sign = 1 << (bits - 1);
                (values[row] as u128 ^ sign) & (u128::MAX >> (CODE_BITS - bits))
            }
            Values::Uuid(bytes) => {
                let (chunks, _) = bytes.as_chunks::<{ UUID_BYTES as usize }>();
                u128::from_be_bytes(chunks[row])
            }
            Values::Bytes(_) => 0,
        }
    }

    /// The bytes of a row's text or bytes; of other types there are none.
    pub(super) fn bytes(&self, row: usize) -> &'a [u8] {
        match self {
            Values::Bytes(value) => value(row),
            _ => &[],
        }
    }
}

const CODE_BITS: u32 = u128::BITS;

/// Adding 0.0 makes 0.0 of -0.0. Bits of negative floats descend, so they are turned around.
fn real_bits(value: f32) -> u32 {
    let bits = if value.is_nan() { f32::NAN.to_bits() & !(1 << 31) } else { (value + 0.0).to_bits() };
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

fn double_bits(value: f64) -> u64 {
    let bits = if value.is_nan() { f64::NAN.to_bits() & !(1 << 63) } else { (value + 0.0).to_bits() };
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// Texts or bytes by row, from any array that holds them.
pub(super) fn bytes<'a>(array: &'a dyn Array) -> Result<Box<dyn Fn(usize) -> &'a [u8] + 'a>> {
    macro_rules! each {
        ($array:expr) => {{
            let array = $array;
            Box::new(move |row| array.value(row).as_ref())
        }};
    }
    Ok(match array.data_type() {
        ArrowType::Utf8View => each!(array.as_string_view()),
        ArrowType::Utf8 => each!(array.as_string::<i32>()),
        ArrowType::LargeUtf8 => each!(array.as_string::<i64>()),
        ArrowType::BinaryView => each!(array.as_binary_view()),
        ArrowType::Binary => each!(array.as_binary::<i32>()),
        ArrowType::LargeBinary => each!(array.as_binary::<i64>()),
        ArrowType::Dictionary(key, _) => match key.as_ref() {
            ArrowType::Int8 => dictionary::<Int8Type>(array)?,
            ArrowType::Int16 => dictionary::<Int16Type>(array)?,
            ArrowType::Int32 => dictionary::<Int32Type>(array)?,
            ArrowType::Int64 => dictionary::<Int64Type>(array)?,
            ArrowType::UInt8 => dictionary::<UInt8Type>(array)?,
            ArrowType::UInt16 => dictionary::<UInt16Type>(array)?,
            ArrowType::UInt32 => dictionary::<UInt32Type>(array)?,
            _ => dictionary::<UInt64Type>(array)?,
        },
        _ => return Err(foreign(array)),
    })
}

fn dictionary<'a, K: ArrowDictionaryKeyType>(array: &'a dyn Array) -> Result<Box<dyn Fn(usize) -> &'a [u8] + 'a>> {
    let array = array.as_dictionary::<K>();
    let (keys, value) = (array.keys().values(), bytes(array.values().as_ref())?);
    Ok(Box::new(move |row| value(keys[row].as_usize())))
}

fn foreign(array: &dyn Array) -> Error {
    Error::internal(format!("a column of a key came as {}", array.data_type()))
}
