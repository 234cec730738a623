//! Text to values: what a column of each type accepts.
//!
//! Invariants:
//! - Nothing here allocates for a good value, except bytes and zones that are named; nothing panics on any bytes.
//! - A value is taken whole or refused: no rounding but the one that SQL states (decimals to their scale, seconds to
//!   microseconds, half away from zero), no wrapping, no infinity out of a finite number.
//! - The forms are PostgreSQL's unambiguous ones. `03/04/2026` is refused: nobody knows which is the month.
//!
//! CSV and JSON readers, text columns of Parquet and Arrow files, and INSERT all come through here, so a text means the same
//! wherever it comes from.

use crate::time_zone::{Zone, parse_timestamptz};
use alluvia_space::codes::calendar::days_of;
use alluvia_types::ErrorKind;
use std::ops::Range;

/// Microseconds of a day of 24 hours.
pub const DAY_MICROS: i64 = 86_400_000_000;

/// The days since 1970 that a DATE may be: those of the years -262142 to 262141, which functions of times know.
pub const DAYS: Range<i32> = -96_464_927..95_025_872;

/// The microseconds since 1970 that a TIMESTAMP may be: those of the same days.
pub const MICROS: Range<i64> = DAYS.start as i64 * DAY_MICROS..DAYS.end as i64 * DAY_MICROS;

/// Why a value cannot be stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bad {
    /// Not of the type's form.
    Form,
    /// Of the form, outside the type's range.
    Range,
    /// Bytes that are not UTF-8.
    Utf8,
    /// More characters than the column takes.
    Length,
    /// Of another form than inference reads the type in, where it must be: it would be changed.
    Changed,
    /// No time of day, or no interval.
    DatetimeForm,
    /// A time that there is none of.
    DatetimeRange,
    /// No JSON.
    Json,
    /// JSON with more nesting than is let through.
    Depth,
    /// `\u0000` in JSON that is normalised.
    NullCharacter,
    /// More digits than a NUMERIC without precision holds.
    Digits,
    /// NULL in a NOT NULL column.
    Null,
}

impl Bad {
    /// The kind of error that this is to the user.
    pub fn kind(self) -> ErrorKind {
        match self {
            Bad::Form | Bad::Changed | Bad::Json => ErrorKind::InvalidText,
            Bad::DatetimeForm => ErrorKind::InvalidDatetime,
            Bad::DatetimeRange => ErrorKind::DatetimeRange,
            Bad::Depth => ErrorKind::TooLarge,
            Bad::NullCharacter => ErrorKind::UntranslatableCharacter,
            Bad::Utf8 => ErrorKind::Encoding,
            Bad::Range | Bad::Digits => ErrorKind::OutOfRange,
            Bad::Length => ErrorKind::TooLong,
            Bad::Null => ErrorKind::NotNull,
        }
    }

    /// One sentence without the place: `'abc' is not a valid INTEGER`.
    pub fn describe(self, shown: &str, type_name: &str) -> String {
        let quoted = || format!("\"{}\"", shown.trim_start_matches('\'').trim_end_matches('\''));
        match self {
            Bad::Form if matches!(type_name, "UUID" | "NUMERIC") => {
                format!("invalid input syntax for type {}: {}", type_name.to_ascii_lowercase(), quoted())
            }
            Bad::DatetimeForm => {
                format!("invalid input syntax for type {}: {}", type_name.to_ascii_lowercase(), quoted())
            }
            Bad::DatetimeRange if type_name == "INTERVAL" => format!("interval field value out of range: {}", quoted()),
            Bad::DatetimeRange => format!("date/time field value out of range: {}", quoted()),
            Bad::Json => format!("invalid input syntax for type json: {}", quoted()),
            Bad::Depth => format!("JSON is nested deeper than 1000 levels: {}", quoted()),
            Bad::NullCharacter => {
                format!("unsupported Unicode escape sequence: \\u0000 cannot be converted to text: {}", quoted())
            }
            Bad::Digits => format!(
                "numeric field overflow: {shown} has more than the 22 digits before and 16 digits after the point that NUMERIC \
                 without a precision holds"
            ),
            Bad::Form => format!("{shown} is not a valid {type_name}"),
            Bad::Range => format!("{shown} is out of range for {type_name}"),
            Bad::Utf8 => format!("{shown} is not valid UTF-8"),
            Bad::Length => format!("{shown} is too long for {type_name}"),
            Bad::Changed => format!("{shown} would be changed to be a {type_name}"),
            Bad::Null => "NULL in a NOT NULL column".to_owned(),
        }
    }
}

/// `bytes` in quotes, for a message: at most 60 characters, controls and bad UTF-8 escaped.
pub fn shown(bytes: &[u8]) -> String {
    const CHARS_MAX: usize = 60;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * CHARS_MAX)]);
    let mut out = String::from("'");
    for (at, c) in text.chars().enumerate() {
        if at == CHARS_MAX {
            out.push('…');
            break;
        }
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out.push('\'');
    out
}

/// As [`shown`], but never without the byte at `at`, up to which `bytes` is UTF-8: what is far before it is left out.
pub fn shown_around(bytes: &[u8], at: usize) -> String {
    const BEFORE: usize = 20;
    if at <= 2 * BEFORE {
        return shown(bytes);
    }
    let is_inside = |byte: &&u8| (**byte & 0xc0) == 0x80;
    let start = at - BEFORE + bytes[at - BEFORE..at].iter().take_while(is_inside).count();
    shown(&bytes[start..]).replacen('\'', "'…", 1)
}

/// `t`, `true`, `y`, `yes`, `on`, `1` and their opposites, in any case.
pub fn parse_bool(text: &[u8]) -> Result<bool, Bad> {
    let text = text.trim_ascii();
    let is = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()));
    if is(&["true", "t", "1", "yes", "y", "on"]) {
        Ok(true)
    } else if is(&["false", "f", "0", "no", "n", "off"]) {
        Ok(false)
    } else {
        Err(Bad::Form)
    }
}

/// A whole number with an optional sign.
pub fn parse_i64(text: &[u8]) -> Result<i64, Bad> {
    let text = text.trim_ascii();
    let (negative, digits) = split_sign(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Bad::Form);
    }
    let mut value: i64 = 0;
    for digit in digits {
        let digit = i64::from(digit - b'0');
        value = value
            .checked_mul(10)
            .and_then(|tens| if negative { tens.checked_sub(digit) } else { tens.checked_add(digit) })
            .ok_or(Bad::Range)?;
    }
    Ok(value)
}

/// A number, `NaN`, `Infinity` or `inf`. A finite text that rounds to infinity is out of range.
pub fn parse_f64(text: &[u8]) -> Result<f64, Bad> {
    let text = std::str::from_utf8(text.trim_ascii()).map_err(|_| Bad::Form)?;
    let value: f64 = text.parse().map_err(|_| Bad::Form)?;
    if value.is_infinite() && text.bytes().any(|byte| byte.is_ascii_digit()) {
        return Err(Bad::Range);
    }
    // Of `-nan`, too, there is but one.
    Ok(if value.is_nan() { f64::NAN } else { value })
}

/// As [`parse_f64`], in single precision.
pub fn parse_f32(text: &[u8]) -> Result<f32, Bad> {
    let text = std::str::from_utf8(text.trim_ascii()).map_err(|_| Bad::Form)?;
    let value: f32 = text.parse().map_err(|_| Bad::Form)?;
    if value.is_infinite() && text.bytes().any(|byte| byte.is_ascii_digit()) {
        return Err(Bad::Range);
    }
    // Of `-nan`, too, there is but one.
    Ok(if value.is_nan() { f32::NAN } else { value })
}

/// A number as `value * 10^scale`, rounded half away from zero, of at most `precision` digits.
pub fn parse_decimal(text: &[u8], precision: u8, scale: u8) -> Result<i128, Bad> {
    let (negative, rest) = split_sign(text.trim_ascii());
    let (mantissa, exponent) = match rest.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (&rest[..at], parse_i64(&rest[at + 1..]).map_err(|_| Bad::Form)?),
        None => (rest, 0),
    };
    let point = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
    let fraction = mantissa.get(point + 1..).unwrap_or(&[]);
    let digits = mantissa[..point].iter().chain(fraction);
    if point + fraction.len() == 0 || !digits.clone().all(u8::is_ascii_digit) {
        return Err(Bad::Form);
    }
    // The digit at `index` stands for 10^(point + exponent - 1 - index); those of at least 10^-scale are kept.
    let kept = (point as i64).saturating_add(exponent).saturating_add(i64::from(scale));
    let mut value: i128 = 0;
    let mut seen: i64 = 0;
    for digit in digits {
        let digit = i128::from(digit - b'0');
        if seen < kept {
            value = value.checked_mul(10).and_then(|tens| tens.checked_add(digit)).ok_or(Bad::Range)?;
        } else {
            if seen == kept && digit >= 5 {
                value += 1;
            }
            break;
        }
        seen += 1;
    }
    while seen < kept && value != 0 {
        value = value.checked_mul(10).ok_or(Bad::Range)?;
        seen += 1;
    }
    if value >= 10_i128.pow(u32::from(precision)) {
        return Err(Bad::Range);
    }
    Ok(if negative { -value } else { value })
}

/// `2026-11-21`, as days since 1970. A time of day after it is dropped, as a cast of a timestamp to a date does.
pub fn parse_date(text: &[u8]) -> Result<i32, Bad> {
    let text = text.trim_ascii();
    let (days, rest) = date_prefix(text)?;
    if !rest.is_empty() {
        parse_timestamp(text)?;
    }
    Ok(days)
}

/// `2026-11-21[ T]10:11[:12[.345678]][zone]` or a date alone, as microseconds since 1970. A zone (`Z`, `UTC`, `+01`,
/// `+01:30`, `+0130`, `PST`, `Europe/Berlin`) converts to UTC.
pub fn parse_timestamp(text: &[u8]) -> Result<i64, Bad> {
    let (shown, rest) = date_and_time(text.trim_ascii())?;
    if !rest.trim_ascii().is_empty() {
        return parse_timestamptz(text, &Zone::utc());
    }
    Some(shown).filter(|micros| MICROS.contains(micros)).ok_or(Bad::Range)
}

/// The date and time at the start of `text` as microseconds since 1970, and what follows: nothing, or a zone.
pub(crate) fn date_and_time(text: &[u8]) -> Result<(i64, &[u8]), Bad> {
    let (days, rest) = date_prefix(text)?;
    let midnight = i64::from(days) * DAY_MICROS;
    let [b' ' | b'T' | b't', clock @ ..] = rest else { return Ok((midnight, rest)) };
    if rest[0] == b' ' && !clock.first().is_some_and(u8::is_ascii_digit) {
        return Ok((midnight, rest));
    }
    let (time, rest) = time_prefix(clock)?;
    Ok((midnight + time, rest))
}

/// `\xDEADBEEF`, with blanks between pairs of digits if one likes, or PostgreSQL's escape form: bytes as they are, `\\` and `\ooo` escaped.
pub fn parse_bytes(text: &[u8]) -> Result<Vec<u8>, Bad> {
    if let [b'\\', b'x', digits @ ..] = text {
        return parse_hexadecimal(digits);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        rest = match (first, after) {
            (b'\\', [b'\\', tail @ ..]) => {
                out.push(b'\\');
                tail
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..]) => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                tail
            }
            (b'\\', _) => return Err(Bad::Form),
            _ => {
                out.push(first);
                after
            }
        };
    }
    Ok(out)
}

/// The bytes that a text stands for, in either of PostgreSQL's forms; `None` if it is in neither.
pub fn bytes_of_text(text: &str) -> Option<Vec<u8>> {
    parse_bytes(text.as_bytes()).ok()
}

fn parse_hexadecimal(mut digits: &[u8]) -> Result<Vec<u8>, Bad> {
    let nibble = |byte: u8| char::from(byte).to_digit(16).ok_or(Bad::Form);
    let mut out = Vec::with_capacity(digits.len() / 2);
    loop {
        digits = match digits {
            [] => return Ok(out),
            [b' ' | b'\t' | b'\n' | b'\r', tail @ ..] => tail,
            [high, low, tail @ ..] => {
                out.push((nibble(*high)? << 4 | nibble(*low)?) as u8);
                tail
            }
            [_] => return Err(Bad::Form),
        };
    }
}

fn split_sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

/// A number of `least` to `most` digits at the start of `text`, and what follows it.
fn digits_prefix(text: &[u8], least: usize, most: usize) -> Result<(i64, &[u8]), Bad> {
    let count = text.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
    if count < least {
        return Err(Bad::Form);
    }
    let value = text[..count].iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
    Ok((value, &text[count..]))
}

/// The date at the start of `text`, and what follows it. Years have four digits, or more behind a sign.
pub(crate) fn date_prefix(text: &[u8]) -> Result<(i32, &[u8]), Bad> {
    let (negative, unsigned) = split_sign(text);
    let signed = unsigned.len() != text.len();
    let (year, rest) = digits_prefix(unsigned, 4, if signed { 6 } else { 4 })?;
    let [b'-', rest @ ..] = rest else { return Err(Bad::Form) };
    let (month, rest) = digits_prefix(rest, 2, 2)?;
    let [b'-', rest @ ..] = rest else { return Err(Bad::Form) };
    let (day, rest) = digits_prefix(rest, 2, 2)?;
    let year = if negative { -year } else { year };
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return Err(Bad::Range);
    }
    let days = i32::try_from(days_of(year, month as u32, day as u32)).ok().filter(|days| DAYS.contains(days));
    Ok((days.ok_or(Bad::Range)?, rest))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The time of day at the start of `text` in microseconds, and what follows it.
fn time_prefix(text: &[u8]) -> Result<(i64, &[u8]), Bad> {
    let (hour, rest) = digits_prefix(text, 1, 2)?;
    let [b':', rest @ ..] = rest else { return Err(Bad::Form) };
    let (minute, rest) = digits_prefix(rest, 2, 2)?;
    let (mut second, mut micros, mut rest) = (0, 0, rest);
    if let [b':', after @ ..] = rest {
        (second, rest) = digits_prefix(after, 2, 2)?;
        if let [b'.', after @ ..] = rest {
            (micros, rest) = fraction_prefix(after)?;
        }
    }
    let time = ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros;
    if hour > 24 || minute > 59 || second > 59 || time > 86_400_000_000 {
        return Err(Bad::Range);
    }
    Ok((time, rest))
}

/// Digits after the point as microseconds, the seventh digit rounded.
fn fraction_prefix(text: &[u8]) -> Result<(i64, &[u8]), Bad> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 {
        return Err(Bad::Form);
    }
    let digit = |at: usize| text[..count].get(at).map_or(0, |byte| i64::from(byte - b'0'));
    let micros = (0..6).fold(0, |value, at| value * 10 + digit(at)) + i64::from(digit(6) >= 5);
    Ok((micros, &text[count..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{Date32Type, Decimal128Type, TimestampMicrosecondType};
    use arrow::util::display::array_value_to_string;
    use proptest::prelude::*;

    #[test]
    fn parse_bool_takes_postgresql_words_and_nothing_else() {
        for (text, want) in [("true", true), (" T ", true), ("1", true), ("Yes", true), ("off", false), ("N", false)] {
            assert_eq!(parse_bool(text.as_bytes()), Ok(want), "{text}");
        }
        for text in ["", "2", "tru", "yess"] {
            assert_eq!(parse_bool(text.as_bytes()), Err(Bad::Form), "{text}");
        }
    }

    #[test]
    fn parse_i64_knows_form_from_range() {
        assert_eq!(parse_i64(b" -9223372036854775808 "), Ok(i64::MIN));
        assert_eq!(parse_i64(b"+9223372036854775807"), Ok(i64::MAX));
        assert_eq!(parse_i64(b"9223372036854775808"), Err(Bad::Range));
        for text in ["", "-", "1.0", "1e3", "0x10", "1 2", "--1"] {
            assert_eq!(parse_i64(text.as_bytes()), Err(Bad::Form), "{text}");
        }
    }

    #[test]
    fn floats_never_become_infinite_by_themselves() {
        assert_eq!(parse_f64(b"1e400"), Err(Bad::Range));
        assert_eq!(parse_f32(b"1e39"), Err(Bad::Range));
        assert_eq!(parse_f64(b"-Infinity"), Ok(f64::NEG_INFINITY));
        assert!(parse_f64(b"NaN").unwrap().is_nan());
        assert_eq!(parse_f64(b"\xff"), Err(Bad::Form));
        assert_eq!(parse_f64(b""), Err(Bad::Form));
    }

    #[test]
    fn decimals_round_half_away_from_zero_within_their_precision() {
        assert_eq!(parse_decimal(b"1.005", 10, 2), Ok(101));
        assert_eq!(parse_decimal(b"-1.005", 10, 2), Ok(-101));
        assert_eq!(parse_decimal(b".5", 10, 0), Ok(1));
        assert_eq!(parse_decimal(b"0.4", 10, 0), Ok(0));
        assert_eq!(parse_decimal(b"12e3", 10, 2), Ok(1_200_000));
        assert_eq!(parse_decimal(b"1234.5e-2", 10, 2), Ok(1235));
        assert_eq!(parse_decimal(b"999.995", 5, 2), Err(Bad::Range));
        assert_eq!(parse_decimal(b"1e999999999999", 38, 0), Err(Bad::Range));
        assert_eq!(parse_decimal(b"0e999999999999", 38, 0), Ok(0));
        assert_eq!(parse_decimal(b"1e-999999999999", 38, 0), Ok(0));
        assert_eq!(parse_decimal(b"5.", 3, 1), Ok(50));
        for text in ["", ".", "-", "1.2.3", "1e", "e5", "NaN", "1,5"] {
            assert_eq!(parse_decimal(text.as_bytes(), 10, 2), Err(Bad::Form), "{text}");
        }
    }

    #[test]
    fn dates_and_times_take_unambiguous_forms_only() {
        assert_eq!(parse_date(b"1970-01-01"), Ok(0));
        assert_eq!(parse_date(b"2000-02-29"), Ok(11_016));
        assert_eq!(parse_date(b"1969-12-31 23:59:59"), Ok(-1));
        assert_eq!(parse_date(b"1900-02-29"), Err(Bad::Range));
        assert_eq!(parse_date(b"2026-13-01"), Err(Bad::Range));
        for text in ["", "2026", "03/04/2026", "2026-1-1", "20260101", "2026-01-01x", "26-01-01"] {
            assert_eq!(parse_date(text.as_bytes()), Err(Bad::Form), "{text}");
        }
        let noon = 43_200_000_000;
        for text in
            ["1970-01-01 12:00", "1970-01-01T12:00:00Z", "1970-01-01 13:30:00.0000004+01:30", "1970-01-01 11:00-01"]
        {
            assert_eq!(parse_timestamp(text.as_bytes()), Ok(noon), "{text}");
        }
        assert_eq!(parse_timestamp(b"1970-01-01 00:00:00.1234567"), Ok(123_457));
        assert_eq!(parse_timestamp(b"1970-01-01 24:00:00"), Ok(86_400_000_000));
        assert_eq!(parse_timestamp(b"1970-01-01 24:00:01"), Err(Bad::Range));
        assert_eq!(parse_timestamp(b"1970-01-01 12:61"), Err(Bad::Range));
        for text in ["1970-01-01x12:00", "1970-01-01 12", "1970-01-01 12:00 CETT", "1970-01-01 12:00:00."] {
            assert_eq!(parse_timestamp(text.as_bytes()), Err(Bad::Form), "{text}");
        }
    }

    #[test]
    fn times_of_the_first_and_the_last_year_are_read_and_none_beside_them() {
        assert_eq!(parse_date(b"-262142-01-01"), Ok(DAYS.start));
        assert_eq!(parse_date(b"+262141-12-31"), Ok(DAYS.end - 1));
        assert_eq!(parse_timestamp(b"-262142-01-01 00:00:00"), Ok(MICROS.start));
        assert_eq!(parse_timestamp(b"+262141-12-31 23:59:59.999999"), Ok(MICROS.end - 1));
        for text in ["-262143-12-31", "+262142-01-01", "+999999-01-01", "-999999-01-01"] {
            assert_eq!(
                (parse_date(text.as_bytes()), parse_timestamp(text.as_bytes())),
                (Err(Bad::Range), Err(Bad::Range))
            );
        }
        for text in ["+262141-12-31 24:00:00", "+262141-12-31 23:30:00-01", "-262142-01-01 00:30:00+01"] {
            assert_eq!(parse_timestamp(text.as_bytes()), Err(Bad::Range), "{text}");
        }
    }

    #[test]
    fn bytes_have_a_hex_and_an_escape_form() {
        assert_eq!(parse_bytes(br"\xDEad"), Ok(vec![0xde, 0xad]));
        assert_eq!(parse_bytes(br"\x"), Ok(vec![]));
        assert_eq!(parse_bytes(b"\\x 41\n42  4a "), Ok(vec![0x41, 0x42, 0x4a]));
        assert_eq!(parse_bytes(br"a\\b\001"), Ok(vec![b'a', b'\\', b'b', 1]));
        for text in [r"\xabc", r"\xzz", r"\x4 1", r" \x41", r"\q", r"\9", "\\"] {
            assert_eq!(parse_bytes(text.as_bytes()), Err(Bad::Form), "{text}");
        }
    }

    #[test]
    fn shown_escapes_and_shortens() {
        assert_eq!(shown(b"a\tb\xff"), "'a\\tb\u{fffd}'");
        assert_eq!(shown("ä".repeat(99).as_bytes()).chars().count(), 63);
        let far = [&b"x".repeat(50)[..], "ä".repeat(20).as_bytes(), b"\xffend"].concat();
        assert_eq!(shown_around(&far, 90), format!("'…{}\u{fffd}end'", "ä".repeat(10)));
        let odd = [&b"x".repeat(50)[..], "ä".repeat(20).as_bytes(), b"x\xff"].concat();
        assert_eq!(shown_around(&odd, 91), format!("'…{}x\u{fffd}'", "ä".repeat(9)), "no character is cut");
        assert_eq!(shown_around(b"a\xffb", 1), "'a\u{fffd}b'");
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = (parse_bool(&bytes), parse_i64(&bytes), parse_f64(&bytes), parse_f32(&bytes), parse_bytes(&bytes));
            let _ = (parse_date(&bytes), parse_timestamp(&bytes), parse_decimal(&bytes, 38, 9), shown(&bytes));
        }

        #[test]
        fn what_arrow_writes_is_read_back(days in -3_000_000i32..3_000_000, micros in -200_000_000_000_000_000i64..200_000_000_000_000_000,
            decimal in -(10i128.pow(37))..10i128.pow(37), scale in 0u8..=20) {
            let date = arrow::array::PrimitiveArray::<Date32Type>::from_value(days, 1);
            prop_assert_eq!(parse_date(array_value_to_string(&date, 0).unwrap().as_bytes()), Ok(days));
            let time = arrow::array::PrimitiveArray::<TimestampMicrosecondType>::from_value(micros, 1);
            prop_assert_eq!(parse_timestamp(array_value_to_string(&time, 0).unwrap().as_bytes()), Ok(micros));
            let number = arrow::array::PrimitiveArray::<Decimal128Type>::from_value(decimal, 1)
                .with_precision_and_scale(38, scale as i8).unwrap();
            prop_assert_eq!(parse_decimal(array_value_to_string(&number, 0).unwrap().as_bytes(), 38, scale), Ok(decimal));
        }
    }
}
