//! Values of literals, ordered as comparisons order them.
//!
//! Invariants:
//! - Two values of one column compare here as `=` and `<` compare them in rows: text by bytes, times as instants, floats by
//!   IEEE 754's total order, but that both zeroes are one value. A NaN in a statement is not understood.
//! - A value is only made of a literal of the column's own type: what is cast to compare is not understood here.

use alluvia_space::DataType;
use alluvia_space::data_type::{NUMERIC_SCALE, UUID_BYTES};
use alluvia_values::display::write_time;
use alluvia_values::numeric::write_numeric;
use alluvia_values::uuid::write_uuid;
use datafusion::common::ScalarValue;
use std::fmt::Write;

/// A value of a column, without its type: the column has it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Value {
    /// Whole numbers, booleans, digits of decimals, days, microseconds.
    Whole(i128),
    /// A float's bits, turned around so that they ascend.
    Float(u64),
    /// Text and binary.
    Bytes(Vec<u8>),
}

impl Value {
    /// The value of a literal that is compared with a column of type `of`; `None` if it is NULL, or of another type.
    pub(crate) fn of_literal(literal: &ScalarValue, of: &DataType) -> Option<Value> {
        use ScalarValue as S;
        Some(match (of, literal) {
            (DataType::Boolean, S::Boolean(Some(value))) => Value::Whole(i128::from(*value)),
            (DataType::Int16, S::Int16(Some(value))) => Value::Whole((*value).into()),
            (DataType::Int32, S::Int32(Some(value))) => Value::Whole((*value).into()),
            (DataType::Int64, S::Int64(Some(value))) => Value::Whole((*value).into()),
            (DataType::Date, S::Date32(Some(value))) => Value::Whole((*value).into()),
            (DataType::Timestamp, S::TimestampMicrosecond(Some(value), None))
            | (DataType::TimestampTz, S::TimestampMicrosecond(Some(value), Some(_))) => Value::Whole((*value).into()),
            (DataType::Decimal { scale, .. }, S::Decimal128(Some(value), _, other))
                if i16::from(*scale) == i16::from(*other) =>
            {
                Value::Whole(*value)
            }
            (DataType::Numeric, S::Decimal128(Some(value), _, scale))
                if i16::from(NUMERIC_SCALE) == i16::from(*scale) =>
            {
                Value::Whole(*value)
            }
            (DataType::Time, S::Time64Microsecond(Some(value))) => Value::Whole((*value).into()),
            (DataType::Uuid, S::FixedSizeBinary(UUID_BYTES, Some(bytes))) => Value::Bytes(bytes.clone()),
            (DataType::Real, S::Float32(Some(value))) => Value::Float(ascending_32(one_zero_32(*value)?).into()),
            (DataType::Double, S::Float64(Some(value))) => Value::Float(ascending_64(one_zero_64(*value)?)),
            (DataType::Text, S::Utf8(Some(text)) | S::LargeUtf8(Some(text)) | S::Utf8View(Some(text))) => {
                Value::Bytes(text.clone().into_bytes())
            }
            (DataType::Binary, S::Binary(Some(bytes)) | S::LargeBinary(Some(bytes)) | S::BinaryView(Some(bytes))) => {
                Value::Bytes(bytes.clone())
            }
            _ => return None,
        })
    }

    /// The next value, where there is one and nothing lies between.
    pub(crate) fn next(&self) -> Option<Value> {
        match self {
            Value::Whole(value) => value.checked_add(1).map(Value::Whole),
            Value::Float(_) | Value::Bytes(_) => None,
        }
    }

    /// The value before, where there is one and nothing lies between.
    pub(crate) fn previous(&self) -> Option<Value> {
        match self {
            Value::Whole(value) => value.checked_sub(1).map(Value::Whole),
            Value::Float(_) | Value::Bytes(_) => None,
        }
    }

    /// The least of the values above all that begin with `prefix`, which is not empty and no 0xFF, as no text has it.
    pub(crate) fn after_prefix(prefix: &[u8]) -> Option<Value> {
        let mut bytes = prefix.to_vec();
        *bytes.last_mut()? = bytes.last()?.checked_add(1)?;
        Some(Value::Bytes(bytes))
    }

    /// Memory that it holds beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Value::Bytes(bytes) => bytes.capacity(),
            Value::Whole(_) | Value::Float(_) => 0,
        }
    }

    /// As SQL writes a value of this type.
    pub(crate) fn show(&self, of: Option<&DataType>) -> String {
        match (self, of) {
            (Value::Whole(value), Some(DataType::Boolean)) => (*value != 0).to_string(),
            (Value::Whole(value), Some(DataType::Date)) => shown(&ScalarValue::Date32(i32::try_from(*value).ok())),
            (Value::Whole(value), Some(DataType::Timestamp | DataType::TimestampTz)) => {
                shown(&ScalarValue::TimestampMicrosecond(i64::try_from(*value).ok(), None))
            }
            (Value::Whole(value), Some(DataType::Decimal { precision, scale })) => {
                ScalarValue::Decimal128(Some(*value), *precision, *scale as i8).to_string()
            }
            (Value::Whole(value), Some(DataType::Numeric)) => {
                let mut text = String::new();
                // A String takes every text.
                let _ = write_numeric(&mut text, *value);
                text
            }
            (Value::Whole(value), Some(DataType::Time)) => {
                let mut text = String::new();
                let _ = write_time(&mut text, i64::try_from(*value).unwrap_or(0));
                format!("'{text}'")
            }
            (Value::Whole(value), _) => value.to_string(),
            (Value::Float(bits), Some(DataType::Real)) => f32::from_bits(descending_32(*bits as u32)).to_string(),
            (Value::Float(bits), _) => f64::from_bits(descending_64(*bits)).to_string(),
            (Value::Bytes(bytes), Some(DataType::Uuid)) => {
                let mut text = String::new();
                let _ = write_uuid(&mut text, bytes);
                format!("'{text}'")
            }
            (Value::Bytes(bytes), Some(DataType::Binary)) => format!("'\\x{}'", hexadecimal(bytes)),
            (Value::Bytes(bytes), _) => format!("'{}'", String::from_utf8_lossy(bytes).replace('\'', "''")),
        }
    }

    /// For the memo: a letter and digits.
    pub(crate) fn to_text(&self) -> String {
        match self {
            Value::Whole(value) => format!("w{value}"),
            Value::Float(bits) => format!("f{bits:016x}"),
            Value::Bytes(bytes) => format!("b{}", hexadecimal(bytes)),
        }
    }

    /// What [`Value::to_text`] wrote.
    pub(crate) fn from_text(text: &str) -> Option<Value> {
        let (kind, rest) = text.split_at_checked(1)?;
        match kind {
            "w" => rest.parse().ok().map(Value::Whole),
            "f" => u64::from_str_radix(rest, 16).ok().map(Value::Float),
            "b" if rest.is_ascii() && rest.len().is_multiple_of(2) => {
                let byte = |at: usize| u8::from_str_radix(&rest[at..at + 2], 16).ok();
                (0..rest.len()).step_by(2).map(byte).collect::<Option<Vec<u8>>>().map(Value::Bytes)
            }
            _ => None,
        }
    }
}

fn shown(value: &ScalarValue) -> String {
    let text =
        value.cast_to(&arrow::datatypes::DataType::Utf8).map_or_else(|_| value.to_string(), |text| text.to_string());
    format!("'{}'", text.replace('T', " "))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Bits of a number; of one zero for both.
fn one_zero_64(value: f64) -> Option<u64> {
    (!value.is_nan()).then(|| (value + 0.0).to_bits())
}

fn one_zero_32(value: f32) -> Option<u32> {
    (!value.is_nan()).then(|| (value + 0.0).to_bits())
}

/// Bits of a float as a number that ascends in total order, and back.
fn ascending_64(bits: u64) -> u64 {
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn descending_64(key: u64) -> u64 {
    if key >> 63 == 1 { key & !(1 << 63) } else { !key }
}

fn ascending_32(bits: u32) -> u32 {
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

fn descending_32(key: u32) -> u32 {
    if key >> 31 == 1 { key & !(1 << 31) } else { !key }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn floats_are_in_total_order(a: u64, b: u64, c: u32, d: u32) {
            let (x, y) = (f64::from_bits(a), f64::from_bits(b));
            prop_assert_eq!(ascending_64(a).cmp(&ascending_64(b)), x.total_cmp(&y));
            prop_assert_eq!(descending_64(ascending_64(a)), a);
            let (x, y) = (f32::from_bits(c), f32::from_bits(d));
            prop_assert_eq!(ascending_32(c).cmp(&ascending_32(d)), x.total_cmp(&y));
            prop_assert_eq!(descending_32(ascending_32(c)), c);
        }

        #[test]
        fn text_of_a_value_reads_back(whole: i128, bits: u64, bytes: Vec<u8>) {
            for value in [Value::Whole(whole), Value::Float(bits), Value::Bytes(bytes)] {
                prop_assert_eq!(Value::from_text(&value.to_text()), Some(value));
            }
        }

        #[test]
        fn what_begins_with_a_prefix_lies_before_the_next(prefix in "\\PC{1,3}", rest in "\\PC{0,3}", other in "\\PC{0,4}") {
            let (low, high) = (Value::Bytes(prefix.clone().into()), Value::after_prefix(prefix.as_bytes()).expect("text"));
            let within = |text: String| (low.clone()..high.clone()).contains(&Value::Bytes(text.into()));
            prop_assert!(within([prefix.as_str(), rest.as_str()].concat()));
            prop_assert_eq!(within(other.clone()), other.starts_with(&prefix));
        }
    }

    #[test]
    fn damaged_texts_are_no_values() {
        for text in ["", "w", "x12", "b1", "bzz", "b\u{e9}", "f1x"] {
            assert_eq!(Value::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn literals_of_another_type_are_not_understood() {
        assert_eq!(Value::of_literal(&ScalarValue::Int64(Some(1)), &DataType::Int32), None);
        assert_eq!(Value::of_literal(&ScalarValue::Int64(None), &DataType::Int64), None);
        let decimal = DataType::Decimal { precision: 15, scale: 2 };
        assert_eq!(Value::of_literal(&ScalarValue::Decimal128(Some(5), 15, 3), &decimal), None);
        assert_eq!(Value::of_literal(&ScalarValue::Decimal128(Some(5), 9, 2), &decimal), Some(Value::Whole(5)));
        let double = |value| Value::of_literal(&ScalarValue::Float64(Some(value)), &DataType::Double);
        assert_eq!((double(f64::NAN), double(-0.0)), (None, double(0.0)));
        let plain = ScalarValue::TimestampMicrosecond(Some(5), None);
        assert_eq!(Value::of_literal(&plain, &DataType::TimestampTz), None);
    }

    #[test]
    fn values_are_shown_as_sql_writes_them() {
        let shown = |value: i128, of| Value::Whole(value).show(Some(&of));
        assert_eq!(shown(1, DataType::Boolean), "true");
        assert_eq!(shown(20_000, DataType::Date), "'2024-10-04'");
        assert_eq!(shown(1_000_000, DataType::Timestamp), "'1970-01-01 00:00:01'");
        assert_eq!(Value::Bytes(b"it's".to_vec()).show(Some(&DataType::Text)), "'it''s'");
        assert_eq!(Value::Float(ascending_64((-0.5f64).to_bits())).show(Some(&DataType::Double)), "-0.5");
    }
}
