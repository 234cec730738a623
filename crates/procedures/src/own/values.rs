//! Whole numbers, decimals and texts: sums, comparisons, `||`.

use super::{Arithmetic, Comparison};
use alluvia_space::data_type::{NUMERIC_PRECISION, NUMERIC_SCALE};
use alluvia_types::{Error, ErrorKind, Result};
use datafusion_common::ScalarValue;
use std::cmp::Ordering;

/// Digits that a decimal may have here: past these planning may go over to other types.
const DIGITS_MAX: u32 = 28;
/// Digits behind its point: past these products are rounded.
const SCALE_MAX: u32 = NUMERIC_SCALE as u32;
/// The most bytes of a text that is made here.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// Refuses a text of so many bytes.
pub(crate) fn refuse_long(bytes: usize) -> Result<()> {
    if bytes <= TEXT_BYTES_MAX {
        return Ok(());
    }
    let message = format!("a text of {bytes} bytes is longer than {TEXT_BYTES_MAX}");
    Err(Error::new(ErrorKind::TooLarge, message).with_hint("keep the parts as rows of a table"))
}

/// How wide a whole number is. Sums of two bytes are of four, as numbers that are written are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Width {
    Four,
    Eight,
}

impl Width {
    pub fn scalar(self, number: Option<i128>) -> Result<ScalarValue> {
        let out_of_range = |name| Error::new(ErrorKind::OutOfRange, format!("{name} out of range"));
        Ok(match self {
            Width::Four => ScalarValue::Int32(match number {
                Some(number) => Some(i32::try_from(number).map_err(|_| out_of_range("integer"))?),
                None => None,
            }),
            Width::Eight => ScalarValue::Int64(match number {
                Some(number) => Some(i64::try_from(number).map_err(|_| out_of_range("bigint"))?),
                None => None,
            }),
        })
    }
}

/// A whole number and its width; an untyped NULL is one of the least.
pub(super) fn whole(value: &ScalarValue) -> Option<(Option<i128>, Width)> {
    Some(match value {
        ScalarValue::Int16(number) => (number.map(i128::from), Width::Four),
        ScalarValue::Int32(number) => (number.map(i128::from), Width::Four),
        ScalarValue::Int64(number) => (number.map(i128::from), Width::Eight),
        _ => return None,
    })
}

/// Two whole numbers, of which one may be an untyped NULL.
type Wholes = (Option<i128>, Option<i128>, Width);

fn wholes(left: &ScalarValue, right: &ScalarValue) -> Option<Wholes> {
    match (whole(left), whole(right)) {
        (Some((left, a)), Some((right, b))) => Some((left, right, a.max(b))),
        (Some((left, width)), None) if matches!(right, ScalarValue::Null) => Some((left, None, width)),
        (None, Some((right, width))) if matches!(left, ScalarValue::Null) => Some((None, right, width)),
        _ => None,
    }
}

/// A number without its point, and digits behind the point.
type Parts = (Option<i128>, u32);

fn parts(value: &ScalarValue) -> Option<Parts> {
    match value {
        ScalarValue::Decimal128(unscaled, _, scale) => {
            let scale = u32::try_from(*scale).ok().filter(|scale| *scale <= SCALE_MAX)?;
            Some((*unscaled, scale))
        }
        value => whole(value).map(|(number, _)| (number, 0)),
    }
}

/// Two numbers of which at least one is a decimal, neither of them an untyped NULL.
fn decimals(left: &ScalarValue, right: &ScalarValue) -> Option<(Parts, Parts)> {
    let is_decimal = |value: &ScalarValue| matches!(value, ScalarValue::Decimal128(..));
    if is_decimal(left) || is_decimal(right) { parts(left).zip(parts(right)) } else { None }
}

/// The same numbers with as many digits behind the point as the one that has more.
fn aligned((left, a): (i128, u32), (right, b): (i128, u32)) -> Option<(i128, i128, u32)> {
    let scale = a.max(b);
    let with = |number: i128, has: u32| number.checked_mul(10i128.checked_pow(scale - has)?);
    Some((with(left, a)?, with(right, b)?, scale))
}

/// A decimal, unless it has more digits than are known here.
pub(super) fn decimal(unscaled: i128, scale: u32) -> Option<ScalarValue> {
    let fits = scale <= SCALE_MAX && unscaled.unsigned_abs() < 10u128.pow(DIGITS_MAX);
    fits.then_some(ScalarValue::Decimal128(Some(unscaled), NUMERIC_PRECISION, scale as i8))
}

/// Sums, differences and products of decimals; `None` for all else.
fn computed_exactly(op: Arithmetic, left: &ScalarValue, right: &ScalarValue) -> Option<ScalarValue> {
    let ((Some(left), a), (Some(right), b)) = decimals(left, right)? else { return None };
    match op {
        Arithmetic::Times => decimal(left.checked_mul(right)?, a + b),
        Arithmetic::Plus | Arithmetic::Minus => {
            let (left, right, scale) = aligned((left, a), (right, b))?;
            let result = if op == Arithmetic::Plus { left.checked_add(right) } else { left.checked_sub(right) };
            decimal(result?, scale)
        }
        Arithmetic::Divide | Arithmetic::Modulo => None,
    }
}

pub(super) fn computed(op: Arithmetic, left: &ScalarValue, right: &ScalarValue) -> Result<Option<ScalarValue>> {
    if let Some(result) = computed_exactly(op, left, right) {
        return Ok(Some(result));
    }
    let Some((left, right, width)) = wholes(left, right) else { return Ok(None) };
    let (Some(left), Some(right)) = (left, right) else { return width.scalar(None).map(Some) };
    if right == 0 && matches!(op, Arithmetic::Divide | Arithmetic::Modulo) {
        return Err(Error::new(ErrorKind::DivisionByZero, "division by zero"));
    }
    // None of these overflows: two numbers of 64 bits.
    let result = match op {
        Arithmetic::Plus => left + right,
        Arithmetic::Minus => left - right,
        Arithmetic::Times => left * right,
        Arithmetic::Divide => left / right,
        Arithmetic::Modulo => left % right,
    };
    width.scalar(Some(result)).map(Some)
}

/// How two values of one sort stand to each other, `Some(None)` if one is NULL; `None` if they are of different sorts.
pub(super) fn compared(left: &ScalarValue, right: &ScalarValue) -> Option<Option<Ordering>> {
    if let Some((left, right, _)) = wholes(left, right) {
        return Some(left.zip(right).map(|(left, right)| left.cmp(&right)));
    }
    if let Some(((left, a), (right, b))) = decimals(left, right) {
        let (Some(left), Some(right)) = (left, right) else { return Some(None) };
        return aligned((left, a), (right, b)).map(|(left, right, _)| Some(left.cmp(&right)));
    }
    match (left, right) {
        (ScalarValue::Utf8(left), ScalarValue::Utf8(right)) => {
            Some(left.as_ref().zip(right.as_ref()).map(|(left, right)| left.cmp(right)))
        }
        (ScalarValue::Boolean(left), ScalarValue::Boolean(right)) => {
            Some(left.zip(*right).map(|(left, right)| left.cmp(&right)))
        }
        (ScalarValue::Null, ScalarValue::Utf8(_) | ScalarValue::Boolean(_) | ScalarValue::Null)
        | (ScalarValue::Utf8(_) | ScalarValue::Boolean(_), ScalarValue::Null) => Some(None),
        _ => None,
    }
}

impl Comparison {
    pub(super) fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// Two texts, one behind the other.
pub(super) fn joined(left: &ScalarValue, right: &ScalarValue) -> Result<Option<ScalarValue>> {
    let text = match (left, right) {
        (ScalarValue::Utf8(Some(left)), ScalarValue::Utf8(Some(right))) => {
            refuse_long(left.len() + right.len())?;
            Some([left.as_str(), right].concat())
        }
        (ScalarValue::Utf8(_), ScalarValue::Utf8(_) | ScalarValue::Null)
        | (ScalarValue::Null, ScalarValue::Utf8(_)) => None,
        _ => return Ok(None),
    };
    Ok(Some(ScalarValue::Utf8(text)))
}
