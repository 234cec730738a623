//! NUMERIC in PostgreSQL's binary format: digits to the base 10,000, around a point.

use alluvia_types::{Error, ErrorKind, Result};
use bytes::{Buf, BufMut, Bytes, BytesMut};

const NEGATIVE: u16 = 0x4000;
const NOT_A_NUMBER: u16 = 0xC000;
const DIGITS_MAX: u32 = 38;

/// Appends `value / 10^scale`, without a length.
pub(crate) fn put_binary(out: &mut BytesMut, value: i128, scale: u8) {
    let scale = u32::from(scale);
    let magnitude = value.unsigned_abs();
    let point = 10u128.pow(scale.min(DIGITS_MAX));
    let (mut whole, mut fraction) = (magnitude / point, magnitude % point);
    let mut groups: Vec<u16> = Vec::with_capacity(20);
    while whole > 0 {
        groups.push((whole % 10_000) as u16);
        whole /= 10_000;
    }
    groups.reverse();
    let mut weight = groups.len() as i32 - 1;
    let mut digits = scale;
    while digits > 0 {
        // The last group is filled up with zeros.
        let (taken, filled) = if digits >= 4 { (4, 0) } else { (digits, 4 - digits) };
        let below = 10u128.pow(digits - taken);
        groups.push((fraction / below * 10u128.pow(filled)) as u16);
        fraction %= below;
        digits -= taken;
    }
    let leading = groups.iter().take_while(|group| **group == 0).count();
    groups.drain(..leading);
    weight -= leading as i32;
    while groups.last() == Some(&0) {
        groups.pop();
    }
    if groups.is_empty() {
        weight = 0;
    }
    out.put_u16(groups.len() as u16);
    out.put_i16(weight as i16);
    out.put_u16(if value < 0 { NEGATIVE } else { 0 });
    out.put_u16(scale as u16);
    groups.iter().for_each(|group| out.put_u16(*group));
}

/// Appends a number that is written out, such as `-12.50`, however many digits it has; without a length.
pub(crate) fn put_binary_of_text(out: &mut BytesMut, text: &str) {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (NEGATIVE, digits),
        None => (0, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    // Groups are counted from the point: zeros fill up the first and the last one.
    let filled = |digits: usize| "0".repeat(digits.next_multiple_of(4) - digits);
    let all = [filled(whole.len()).as_str(), whole, fraction, filled(fraction.len()).as_str()].concat();
    let group = |four: &[u8]| four.iter().fold(0, |group: u16, digit| group * 10 + u16::from(digit & 15));
    let groups: Vec<u16> = all.as_bytes().chunks(4).map(group).collect();
    let leading = groups.iter().take_while(|group| **group == 0).count();
    let trailing = groups[leading..].iter().rev().take_while(|group| **group == 0).count();
    let kept = &groups[leading..groups.len() - trailing];
    let weight = whole.len().div_ceil(4) as i32 - 1 - leading as i32;
    out.put_u16(kept.len() as u16);
    out.put_i16(if kept.is_empty() { 0 } else { weight as i16 });
    out.put_u16(if kept.is_empty() { 0 } else { sign });
    out.put_u16(fraction.len() as u16);
    kept.iter().for_each(|group| out.put_u16(*group));
}

/// The error of a number that no DECIMAL holds.
pub(crate) fn too_long() -> Error {
    Error::new(ErrorKind::OutOfRange, "a NUMERIC value has more digits than a DECIMAL can hold").with_hint(format!(
        "a DECIMAL has at most {DIGITS_MAX} digits, all in all and after the point: round it, or send a DOUBLE"
    ))
}

/// Whether a text is a number of more digits than a DECIMAL has. A float would take it, and keep half of them.
pub(crate) fn is_too_long(text: &str) -> bool {
    let (mantissa, has_exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, _)) => (mantissa, true),
        None => (text, false),
    };
    let digits = mantissa.strip_prefix(['-', '+']).unwrap_or(mantissa);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = [whole, fraction].concat();
    let is_longer = |digits: &str| digits.len() > DIGITS_MAX as usize;
    all.bytes().all(|byte| byte.is_ascii_digit())
        && (is_longer(all.trim_start_matches('0')) || is_longer(fraction) && !has_exponent)
}

/// Reads a value and its scale.
pub(crate) fn read_binary(mut bytes: Bytes) -> Result<(i128, u8)> {
    let broken = || Error::new(ErrorKind::InvalidBinary, "a binary NUMERIC cannot be read");
    if bytes.len() < 8 {
        return Err(broken());
    }
    let count = usize::from(bytes.get_u16());
    let weight = i32::from(bytes.get_i16());
    let sign = bytes.get_u16();
    let scale = u32::from(bytes.get_u16());
    if bytes.len() != count * 2 {
        return Err(broken());
    }
    if sign & NOT_A_NUMBER == NOT_A_NUMBER {
        return Err(Error::new(ErrorKind::InvalidValue, "NaN and infinity are no DECIMAL"));
    }
    let range = too_long;
    if scale > DIGITS_MAX {
        return Err(range());
    }
    let mut value: i128 = 0;
    for at in 0..count {
        let group = bytes.get_u16();
        if group >= 10_000 {
            return Err(broken());
        }
        if group == 0 {
            continue;
        }
        // The place of the group's last digit, counted from the last digit of the value.
        let place = (weight - at as i32) * 4 + scale as i32;
        let group = i128::from(group);
        let add = if place >= 0 {
            let power = 10i128.checked_pow(place as u32).ok_or_else(range)?;
            group.checked_mul(power).ok_or_else(range)?
        } else if place > -4 {
            group / 10i128.pow(-place as u32)
        } else {
            0
        };
        value = value.checked_add(add).ok_or_else(range)?;
    }
    if value >= 10i128.pow(DIGITS_MAX) {
        return Err(range());
    }
    Ok((if sign == NEGATIVE { -value } else { value }, scale as u8))
}

/// Appends `value / 10^scale` as text.
pub(crate) fn put_text(out: &mut BytesMut, value: i128, scale: u8) {
    if value < 0 {
        out.put_u8(b'-');
    }
    let digits = value.unsigned_abs().to_string();
    let scale = usize::from(scale);
    if scale == 0 {
        return out.put_slice(digits.as_bytes());
    }
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    out.put_slice(whole.as_bytes());
    out.put_u8(b'.');
    out.put_slice(fraction.as_bytes());
}

/// Reads digits with at most one point: value and scale.
pub(crate) fn read_text(text: &str) -> Option<(i128, u8)> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = [whole, fraction].concat();
    if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) || fraction.len() > DIGITS_MAX as usize {
        return None;
    }
    let significant = all.trim_start_matches('0');
    if significant.len() > DIGITS_MAX as usize {
        return None;
    }
    let value: i128 = if significant.is_empty() { 0 } else { significant.parse().ok()? };
    Some((if negative { -value } else { value }, fraction.len() as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_at_every_scale() {
        let mut value: i128 = 1;
        for step in 0..2_000u64 {
            // Digits of all lengths and both signs, zeros within.
            value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i128::from(step));
            let size = 10i128.pow((step % 39) as u32).max(1);
            let shorter = (value % size) / 1_000i128.pow((step % 3) as u32);
            let value = shorter.checked_mul(1_000i128.pow((step % 2) as u32));
            let Some(value) = value.filter(|value| value.unsigned_abs() < 10u128.pow(38)) else { continue };
            for scale in [0, 1, 2, 3, 4, 5, 9, 18, 37, 38] {
                let mut out = BytesMut::new();
                put_binary(&mut out, value, scale);
                assert_eq!(read_binary(out.freeze()).unwrap(), (value, scale));
                let mut out = BytesMut::new();
                put_text(&mut out, value, scale);
                let text = String::from_utf8(out.to_vec()).unwrap();
                assert_eq!(read_text(&text), Some((value, scale)), "{text}");
                let mut out = BytesMut::new();
                put_binary_of_text(&mut out, &text);
                assert_eq!(read_binary(out.freeze()).unwrap(), (value, scale), "{text}");
            }
        }
    }

    #[test]
    fn bytes_are_postgresql_s() {
        let mut out = BytesMut::new();
        put_binary(&mut out, 123_456_789, 4);
        assert_eq!(&out[..], &[0, 3, 0, 1, 0, 0, 0, 4, 0, 1, 0x09, 0x29, 0x1a, 0x85]);
        out.clear();
        put_binary(&mut out, -5, 1);
        assert_eq!(&out[..], &[0, 1, 0xff, 0xff, 0x40, 0, 0, 1, 0x13, 0x88]);
        assert!(read_binary(Bytes::from_static(&[0, 0, 0, 0, 0xc0, 0, 0, 0])).is_err());
        assert!(read_binary(Bytes::from_static(&[0, 1, 0x7f, 0xff, 0, 0, 0, 0, 0, 1])).is_err());
    }

    #[test]
    fn numbers_of_too_many_digits_are_told_from_what_is_no_decimal() {
        let nines = "9".repeat(38);
        for (text, is_too_long_for_it) in [
            (nines.clone(), false),
            (format!("-0{nines}"), false),
            (format!("{nines}.0"), true),
            (format!("+1{nines}"), true),
            (format!("0.{nines}"), false),
            (format!("0.{nines}1"), true),
            (format!("0.{}1", "0".repeat(38)), true),
            (format!("{nines}9e-3"), true),
            (format!("0.{}1e50", "0".repeat(38)), false),
            ("1e100".to_owned(), false),
            ("NaN".to_owned(), false),
            ("-Infinity".to_owned(), false),
            (".".to_owned(), false),
            (format!("{nines}9x"), false),
        ] {
            assert_eq!(is_too_long(&text), is_too_long_for_it, "{text}");
            // What is too long is not read, and what is read is not too long.
            assert!(read_text(&text).is_none() || !is_too_long_for_it, "{text}");
        }
        // 38 digits, and one more: the first group has two of them, or three, and nine whole groups follow.
        let groups = |first: u16| {
            let mut out = BytesMut::new();
            [10, 9, 0, 0, first].into_iter().chain([9_999; 9]).for_each(|group| out.put_u16(group));
            read_binary(out.freeze())
        };
        assert_eq!(groups(99).unwrap(), (10i128.pow(38) - 1, 0));
        assert_eq!(groups(100).unwrap_err().kind(), ErrorKind::OutOfRange);
    }
}
