//! Values of the compiled expressions, and how they are read from and written to columns.
//!
//! Numbers are exact: integers and decimals, of as many digits as their sums and products have. What would be rounded in an unclear way,
//! or has more digits than are kept, is no value here.

use alluvia_heap::Cell;
use alluvia_space::{Column, DataType};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, Int16Array, Int32Array, Int64Array,
    StringViewArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{Date32Type, Decimal128Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType};
use datafusion_common::ScalarValue;
use std::cmp::Ordering;
use std::sync::Arc;

/// Digits that a number may have on its way: past these planning goes over to other types.
const DIGITS_MAX: u32 = 28;

/// A value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Value {
    Null,
    Boolean(bool),
    /// Of the least width of 2, 4 and 8 bytes that its operands have, at least 4.
    Int(i64, Width),
    /// The number without its point, and digits behind the point.
    Decimal(i128, u8),
    Text(String),
    Date(i32),
    /// Microseconds; whether they are of a time zone.
    Timestamp(i64, bool),
}

/// Of integers: what they may not overflow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Width {
    Four,
    Eight,
}

impl Value {
    /// An integer as it is written.
    pub(crate) fn of_integer(number: i64) -> Value {
        Value::Int(number, if i32::try_from(number).is_ok() { Width::Four } else { Width::Eight })
    }

    /// A number as it is written: digits, and perhaps a point with digits.
    pub(crate) fn of_digits(text: &str) -> Option<Value> {
        let is_plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        match text.split_once('.') {
            None if is_plain(text) => text.parse().ok().map(Value::of_integer),
            Some((whole, fraction)) if is_plain(whole) && is_plain(fraction) && !fraction.is_empty() => {
                let digits = format!("{whole}{fraction}");
                kept(digits.parse().ok()?, u8::try_from(fraction.len()).ok()?)
            }
            _ => None,
        }
    }

    /// A parameter's value: what the number or text means that stands for it in the general way.
    pub(crate) fn of_parameter(value: &ScalarValue) -> Option<Value> {
        Some(match value {
            ScalarValue::Null | ScalarValue::Utf8(None) | ScalarValue::Utf8View(None) => Value::Null,
            // What it may be assigned to is planning's to say.
            _ if value.is_null() => return None,
            ScalarValue::Boolean(Some(truth)) => Value::Boolean(*truth),
            ScalarValue::Int16(Some(number)) => Value::of_integer((*number).into()),
            ScalarValue::Int32(Some(number)) => Value::of_integer((*number).into()),
            ScalarValue::Int64(Some(number)) => Value::of_integer(*number),
            ScalarValue::Decimal128(Some(unscaled), _, scale) => kept(*unscaled, u8::try_from(*scale).ok()?)?,
            ScalarValue::Float64(Some(number)) if number.is_finite() => {
                let text = format!("{number:?}");
                match text.strip_prefix('-') {
                    Some(digits) => Value::of_digits(digits)?.negated()?,
                    None => Value::of_digits(&text)?,
                }
            }
            ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) | ScalarValue::LargeUtf8(Some(text)) => {
                Value::Text(text.clone())
            }
            ScalarValue::Date32(Some(days)) => Value::Date(*days),
            ScalarValue::TimestampMicrosecond(Some(micros), zone) => Value::Timestamp(*micros, zone.is_some()),
            _ => return None,
        })
    }

    /// The value of a column in a row.
    pub(crate) fn of_column(column: &Column, values: &ArrayRef, row: usize) -> Option<Value> {
        if values.is_null(row) {
            return Some(Value::Null);
        }
        Some(match column.data_type {
            DataType::Boolean => Value::Boolean(values.as_boolean_opt()?.value(row)),
            DataType::Int16 => Value::Int(values.as_primitive_opt::<Int16Type>()?.value(row).into(), Width::Four),
            DataType::Int32 => Value::Int(values.as_primitive_opt::<Int32Type>()?.value(row).into(), Width::Four),
            DataType::Int64 => Value::Int(values.as_primitive_opt::<Int64Type>()?.value(row), Width::Eight),
            DataType::Decimal { scale, .. } => kept(values.as_primitive_opt::<Decimal128Type>()?.value(row), scale)?,
            DataType::Text => Value::Text(values.as_string_view_opt()?.value(row).to_owned()),
            DataType::Date => Value::Date(values.as_primitive_opt::<Date32Type>()?.value(row)),
            DataType::Timestamp | DataType::TimestampTz => Value::Timestamp(
                values.as_primitive_opt::<TimestampMicrosecondType>()?.value(row),
                column.data_type == DataType::TimestampTz,
            ),
            _ => return None,
        })
    }

    /// The value of a column in a row of a heap.
    pub(crate) fn of_cell(column: &Column, cell: Cell<'_>) -> Option<Value> {
        Some(match (cell, column.data_type) {
            (Cell::Null, _) => Value::Null,
            (Cell::Boolean(truth), _) => Value::Boolean(truth),
            (Cell::Int(number), DataType::Int64) => Value::Int(number, Width::Eight),
            (Cell::Int(number), _) => Value::Int(number, Width::Four),
            (Cell::Decimal(unscaled), DataType::Decimal { scale, .. }) => kept(unscaled, scale)?,
            (Cell::Text(text), DataType::Text) => Value::Text(text.to_owned()),
            (Cell::Date(days), _) => Value::Date(days),
            (Cell::Micros(micros), zoned) => Value::Timestamp(micros, zoned == DataType::TimestampTz),
            _ => return None,
        })
    }

    /// Which of two comes first, NULL last; `None` of what planning would compare in another way.
    pub(crate) fn ordered(&self, other: &Value) -> Option<Ordering> {
        Some(match (self, other) {
            (Value::Null, Value::Null) => Ordering::Equal,
            (Value::Null, _) => Ordering::Greater,
            (_, Value::Null) => Ordering::Less,
            (Value::Boolean(a), Value::Boolean(b)) => a.cmp(b),
            (Value::Int(a, _), Value::Int(b, _)) => a.cmp(b),
            (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Value::Date(a), Value::Date(b)) => a.cmp(b),
            (Value::Timestamp(a, one), Value::Timestamp(b, another)) if one == another => a.cmp(b),
            (Value::Int(..) | Value::Decimal(..), Value::Int(..) | Value::Decimal(..)) => {
                let ((a, scale), (b, other)) = (self.clone().decimal()?, other.clone().decimal()?);
                let most = scale.max(other);
                scaled(a, most - scale)?.cmp(&scaled(b, most - other)?)
            }
            _ => return None,
        })
    }

    pub(crate) fn negated(self) -> Option<Value> {
        match self {
            Value::Null => Some(Value::Null),
            Value::Int(number, width) => of_width(number.checked_neg()?, width),
            Value::Decimal(unscaled, scale) => Some(Value::Decimal(-unscaled, scale)),
            _ => None,
        }
    }

    /// Of two numbers; NULL of NULL and a number.
    pub(crate) fn computed(self, operator: Operator, other: Value) -> Option<Value> {
        let is_number = |value: &Value| matches!(value, Value::Null | Value::Int(..) | Value::Decimal(..));
        if !is_number(&self) || !is_number(&other) {
            return None;
        }
        match (self, other) {
            (Value::Null, _) | (_, Value::Null) => Some(Value::Null),
            (Value::Int(a, one), Value::Int(b, another)) => {
                let number = match operator {
                    Operator::Plus => a.checked_add(b)?,
                    Operator::Minus => a.checked_sub(b)?,
                    Operator::Times => a.checked_mul(b)?,
                };
                of_width(number, one.max(another))
            }
            (a, b) => {
                let ((a, scale), (b, other)) = (a.decimal()?, b.decimal()?);
                if operator == Operator::Times {
                    return kept(a.checked_mul(b)?, scale.checked_add(other)?);
                }
                let most = scale.max(other);
                let (a, b) = (scaled(a, most - scale)?, scaled(b, most - other)?);
                kept(if operator == Operator::Plus { a.checked_add(b)? } else { a.checked_sub(b)? }, most)
            }
        }
    }

    /// The number without its point, and digits behind it.
    pub(crate) fn decimal(self) -> Option<(i128, u8)> {
        match self {
            Value::Int(number, _) => Some((number.into(), 0)),
            Value::Decimal(unscaled, scale) => Some((unscaled, scale)),
            _ => None,
        }
    }

    /// As a column takes it when it is assigned; `None` where that is for the general way, as is every error.
    fn assigned(&self, column: &Column) -> Option<Value> {
        let fits = match (self, column.data_type) {
            (Value::Null, _) => return column.nullable.then_some(Value::Null),
            (Value::Boolean(_), DataType::Boolean) | (Value::Date(_), DataType::Date) => true,
            (Value::Timestamp(_, zoned), DataType::Timestamp) => !zoned,
            (Value::Timestamp(_, zoned), DataType::TimestampTz) => *zoned,
            (Value::Text(text), DataType::Text) => {
                !text.contains('\0') && column.chars_max.is_none_or(|most| text.chars().count() <= most as usize)
            }
            (Value::Int(number, _), DataType::Int16) => i16::try_from(*number).is_ok(),
            (Value::Int(number, _), DataType::Int32) => i32::try_from(*number).is_ok(),
            (Value::Int(..), DataType::Int64) => true,
            (Value::Int(..) | Value::Decimal(..), DataType::Decimal { precision, scale }) => {
                let (unscaled, digits) = self.clone().decimal()?;
                let unscaled = match scale.checked_sub(digits) {
                    Some(more) => scaled(unscaled, more)?,
                    None => rounded(unscaled, digits - scale)?,
                };
                let limit = 10i128.checked_pow(precision.into())?;
                return (unscaled.abs() < limit).then_some(Value::Decimal(unscaled, scale));
            }
            _ => false,
        };
        fits.then(|| self.clone())
    }
}

/// Signs of the closed list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operator {
    Plus,
    Minus,
    Times,
}

fn of_width(number: i64, width: Width) -> Option<Value> {
    (width == Width::Eight || i32::try_from(number).is_ok()).then_some(Value::Int(number, width))
}

fn kept(unscaled: i128, scale: u8) -> Option<Value> {
    (unscaled.abs() < 10i128.pow(DIGITS_MAX) && u32::from(scale) <= DIGITS_MAX)
        .then_some(Value::Decimal(unscaled, scale))
}

pub(crate) fn scaled(unscaled: i128, digits: u8) -> Option<i128> {
    unscaled.checked_mul(10i128.checked_pow(digits.into())?)
}

/// Half away from zero, as PostgreSQL rounds decimals.
fn rounded(unscaled: i128, digits: u8) -> Option<i128> {
    let unit = 10i128.checked_pow(digits.into())?;
    let (whole, rest) = (unscaled / unit, unscaled % unit);
    Some(if rest.abs() * 2 >= unit { whole + unscaled.signum() } else { whole })
}

/// Values as a column stores them, that are the same then; `None` where one is for the general way.
pub(crate) fn stored_as_it_is(column: &Column, values: &[Value]) -> Option<ArrayRef> {
    let is_rounded = |value: &Value| match (value, column.data_type) {
        (Value::Decimal(unscaled, digits), DataType::Decimal { scale, .. }) if *digits > scale => {
            10i128.checked_pow((digits - scale).into()).is_none_or(|unit| unscaled % unit != 0)
        }
        _ => false,
    };
    if values.iter().any(is_rounded) { None } else { stored(column, values) }
}

/// Values as a column stores them; `None` where one is for the general way.
pub(crate) fn stored(column: &Column, values: &[Value]) -> Option<ArrayRef> {
    let values: Vec<Value> = values.iter().map(|value| value.assigned(column)).collect::<Option<_>>()?;
    let int = |value: &Value| match value {
        Value::Int(number, _) => Some(*number),
        _ => None,
    };
    Some(match column.data_type {
        DataType::Boolean => {
            let truth = |value: &Value| if let Value::Boolean(truth) = value { Some(*truth) } else { None };
            Arc::new(values.iter().map(truth).collect::<BooleanArray>())
        }
        DataType::Int16 => Arc::new(values.iter().map(|value| int(value)?.try_into().ok()).collect::<Int16Array>()),
        DataType::Int32 => Arc::new(values.iter().map(|value| int(value)?.try_into().ok()).collect::<Int32Array>()),
        DataType::Int64 => Arc::new(values.iter().map(int).collect::<Int64Array>()),
        DataType::Decimal { precision, scale } => {
            let number = |value: &Value| if let Value::Decimal(unscaled, _) = value { Some(*unscaled) } else { None };
            let numbers: Decimal128Array = values.iter().map(number).collect();
            Arc::new(numbers.with_precision_and_scale(precision, scale as i8).ok()?)
        }
        DataType::Text => {
            let text = |value: &Value| if let Value::Text(text) = value { Some(text.clone()) } else { None };
            Arc::new(values.iter().map(text).collect::<StringViewArray>())
        }
        DataType::Date => {
            let days = |value: &Value| if let Value::Date(days) = value { Some(*days) } else { None };
            Arc::new(values.iter().map(days).collect::<Date32Array>())
        }
        DataType::Timestamp | DataType::TimestampTz => {
            let micros = |value: &Value| if let Value::Timestamp(micros, _) = value { Some(*micros) } else { None };
            let times: TimestampMicrosecondArray = values.iter().map(micros).collect();
            match column.data_type {
                DataType::TimestampTz => Arc::new(times.with_timezone("UTC")),
                _ => Arc::new(times),
            }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Value {
        Value::of_digits(text).unwrap()
    }

    #[test]
    fn numbers_are_exact_and_refuse_what_overflows() {
        let sum = number("0.10").computed(Operator::Plus, number("5")).unwrap();
        assert_eq!(sum, Value::Decimal(510, 2));
        assert_eq!(number("1.5").computed(Operator::Times, number("0.25")), Some(Value::Decimal(375, 3)));
        assert_eq!(number("2147483647").computed(Operator::Plus, number("1")), None, "of four bytes");
        assert_eq!(
            number("2147483648").computed(Operator::Plus, number("1")),
            Some(Value::Int(2_147_483_649, Width::Eight))
        );
        assert_eq!(Value::Null.computed(Operator::Minus, number("1")), Some(Value::Null));
        assert_eq!(Value::Text("1".into()).computed(Operator::Plus, number("1")), None);
        for text in ["1e3", "1.", ".", "0x1f", "1_000", "12345678901234567890123456789.0"] {
            assert_eq!(Value::of_digits(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_rounded_is_rounded_away_from_zero() {
        assert_eq!((rounded(125, 1), rounded(-125, 1), rounded(124, 1)), (Some(13), Some(-13), Some(12)));
        assert_eq!(Value::of_parameter(&ScalarValue::Float64(Some(-2.5))), Some(Value::Decimal(-25, 1)));
    }
}
