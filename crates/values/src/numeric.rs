//! `NUMERIC` without a precision: a decimal of 38 digits, 16 of them behind the point, that is shown without the zeros at its end.
//!
//! Invariant: nothing is rounded. A number with other digits than these than zeros, and one that is no number of digits (`NaN`, `Infinity`), is refused
//! ([`Bad::Digits`]), not changed.

use crate::parse::{Bad, parse_decimal};
use alluvia_space::data_type::{NUMERIC_PRECISION, NUMERIC_SCALE};
use arrow::array::{Array, AsArray, Decimal128Array};
use arrow::datatypes::{DataType, Decimal128Type, DecimalType, Float32Type, Float64Type};
use std::fmt::{Result as Written, Write};

/// The unit of the last digit.
const UNIT: i128 = 10_i128.pow(NUMERIC_SCALE as u32);

/// A number of a text.
pub fn parse_numeric(text: &[u8]) -> Result<i128, Bad> {
    let text = text.trim_ascii();
    let words: [&[u8]; 5] = [b"nan", b"infinity", b"-infinity", b"inf", b"-inf"];
    if words.iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Err(Bad::Digits);
    }
    let value = parse_decimal(text, NUMERIC_PRECISION, NUMERIC_SCALE).map_err(|bad| match bad {
        Bad::Range => Bad::Digits,
        bad => bad,
    })?;
    if has_more_digits(text) { Err(Bad::Digits) } else { Ok(value) }
}

/// Whether a number that was read has digits that are not zeros behind those that are kept.
fn has_more_digits(text: &[u8]) -> bool {
    let split = text.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(text.len());
    let exponent = text.get(split + 1..).and_then(|exponent| std::str::from_utf8(exponent).ok());
    let exponent: i64 = exponent.and_then(|exponent| exponent.parse().ok()).unwrap_or(0);
    let mantissa = &text[..split];
    let point = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
    let is_lost = |(at, byte): (usize, &u8)| {
        // The place of the digit behind the point, from 1; digits before it have 0 and less.
        let place = if at > point { at as i64 - point as i64 } else { at as i64 + 1 - point as i64 };
        matches!(byte, b'1'..=b'9') && place.saturating_sub(exponent) > i64::from(NUMERIC_SCALE)
    };
    mantissa.iter().enumerate().any(is_lost)
}

/// A decimal of any scale as a NUMERIC, if it is one.
pub fn numeric_of(unscaled: i128, scale: i8) -> Result<i128, Bad> {
    let limit = 10_i128.pow(u32::from(NUMERIC_PRECISION));
    let missing = i32::from(NUMERIC_SCALE) - i32::from(scale);
    let power = 10_i128.checked_pow(missing.unsigned_abs());
    let value = match (missing >= 0, power) {
        _ if unscaled == 0 => Some(0),
        (true, Some(power)) => unscaled.checked_mul(power),
        (false, Some(power)) => (unscaled % power == 0).then(|| unscaled / power),
        (_, None) => None,
    };
    value.filter(|value| -limit < *value && *value < limit).ok_or(Bad::Digits)
}

/// What PostgreSQL makes NUMERICs of floats: the fifteen digits that a double is sure of, and six of a single one; `None` of other arrays. `bad` gets the
/// rows that are none.
pub fn of_floats(array: &dyn Array, bad: &mut Vec<(usize, Bad)>) -> Option<Decimal128Array> {
    let texts: Vec<Option<String>> = match array.data_type() {
        DataType::Float64 => {
            let floats = array.as_primitive::<Float64Type>();
            floats.iter().map(|value| value.map(|value| format!("{value:.14e}"))).collect()
        }
        DataType::Float32 => {
            let floats = array.as_primitive::<Float32Type>();
            floats.iter().map(|value| value.map(|value| format!("{value:.5e}"))).collect()
        }
        _ => return None,
    };
    let numbers = texts.iter().enumerate().map(|(row, text)| {
        let read = parse_numeric(text.as_ref()?.as_bytes());
        read.map_err(|why| bad.push((row, why))).ok()
    });
    let numbers: Decimal128Array = numbers.collect();
    Some(numbers.with_data_type(DataType::Decimal128(NUMERIC_PRECISION, NUMERIC_SCALE as i8)))
}

/// The number without the zeros at its end.
pub fn write_numeric(out: &mut impl Write, value: i128) -> Written {
    let text = Decimal128Type::format_decimal(value, NUMERIC_PRECISION, NUMERIC_SCALE as i8);
    out.write_str(text.trim_end_matches('0').trim_end_matches('.'))
}

/// How many digits behind the point a value is shown with.
pub fn shown_scale(value: i128) -> u8 {
    let mut rest = value % UNIT;
    let mut scale = NUMERIC_SCALE;
    while scale > 0 && rest % 10 == 0 {
        rest /= 10;
        scale -= 1;
    }
    scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(value: i128) -> String {
        let mut out = String::new();
        write_numeric(&mut out, value).unwrap();
        out
    }

    #[test]
    fn what_does_not_fit_is_refused_and_not_rounded() {
        for (text, wanted) in [
            ("1.50", "1.5"),
            ("100", "100"),
            ("-0.0", "0"),
            (" 1e3 ", "1000"),
            ("0.0000000000000001", "0.0000000000000001"),
            ("1.00000000000000000000", "1"),
            ("12345e-20", ""),
            ("10e-17", "0.0000000000000001"),
            ("9999999999999999999999.9999999999999999", "9999999999999999999999.9999999999999999"),
        ] {
            let found = parse_numeric(text.as_bytes());
            match wanted {
                "" => assert_eq!(found, Err(Bad::Digits), "{text}"),
                wanted => assert_eq!(written(found.unwrap()), wanted, "{text}"),
            }
        }
        for text in
            ["10000000000000000000000", "0.00000000000000001", "1e22", "NaN", "-Infinity", "1.00000000000000005"]
        {
            assert_eq!(parse_numeric(text.as_bytes()), Err(Bad::Digits), "{text}");
        }
        assert_eq!(parse_numeric(b"x"), Err(Bad::Form));
        assert_eq!(numeric_of(15, 1), Ok(15 * UNIT / 10));
        assert_eq!(numeric_of(1, 38), Err(Bad::Digits));
        assert_eq!(numeric_of(10_i128.pow(22), 38), Ok(1));
        assert_eq!(numeric_of(10_i128.pow(37), 0), Err(Bad::Digits));
        assert_eq!((shown_scale(UNIT), shown_scale(UNIT / 4), shown_scale(1)), (0, 2, 16));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in -(10i128.pow(38) - 1)..10i128.pow(38), bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(parse_numeric(written(value).as_bytes()), Ok(value));
            prop_assert_eq!(numeric_of(value, 16), Ok(value));
            let _ = parse_numeric(&bytes);
        }
    }
}
