//! Times of day as PostgreSQL reads them; [`crate::display::write_time`] writes them.
//!
//! Invariants:
//! - `04:05:06.789`, `04:05`, `040506`, `0405`, each with AM or PM behind it, a date or a `T` before it, or a zone behind it, which is overlooked, as there; and
//!   `allballs`. `24:00:00` is the last, and the sixtieth second is the next minute's first.
//! - Seconds are rounded to microseconds, half away from zero.

use crate::parse::{Bad, parse_date};

/// The last time of a day, which is the first of the next.
pub const DAY_END: i64 = 86_400_000_000;

/// Microseconds since midnight.
pub fn parse_time(text: &[u8]) -> Result<i64, Bad> {
    let text = text.trim_ascii();
    if text.eq_ignore_ascii_case(b"allballs") {
        return Ok(0);
    }
    let text = without_date(text)?;
    let text = text.strip_prefix(b"T").or_else(|| text.strip_prefix(b"t")).unwrap_or(text);
    let end = text.iter().take_while(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.')).count();
    let (clock, behind) = text.split_at(end);
    let (hour, minute, micros) = if clock.contains(&b':') { with_colons(clock)? } else { digits_alone(clock)? };
    let (half, zone) = half_of_day(behind.trim_ascii());
    if !is_zone(zone) {
        return Err(Bad::DatetimeForm);
    }
    let hour = match half {
        Some(_) if hour > 12 => return Err(Bad::DatetimeRange),
        Some(Half::Before) if hour == 12 => 0,
        Some(Half::After) if hour != 12 => hour + 12,
        _ => hour,
    };
    if minute > 59 || micros > 60_000_000 {
        return Err(Bad::DatetimeRange);
    }
    let time = (hour * 60 + minute) * 60_000_000 + micros;
    if hour > 24 || time > DAY_END { Err(Bad::DatetimeRange) } else { Ok(time) }
}

/// Which half of a day is said.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    Before,
    After,
}

fn half_of_day(text: &[u8]) -> (Option<Half>, &[u8]) {
    for (word, half) in [(b"am", Half::Before), (b"pm", Half::After)] {
        if text.len() >= 2 && text[..2].eq_ignore_ascii_case(word) && !text.get(2).is_some_and(u8::is_ascii_alphabetic)
        {
            return (Some(half), text[2..].trim_ascii());
        }
    }
    (None, text)
}

/// What follows a date at the start.
fn without_date(text: &[u8]) -> Result<&[u8], Bad> {
    let Some(at) = text.iter().position(|byte| matches!(byte, b' ' | b'T' | b't')) else { return Ok(text) };
    let (date, rest) = text.split_at(at);
    let is_date = date.len() > 7 && date.iter().filter(|byte| **byte == b'-').count() == 2;
    if !is_date {
        return Ok(text);
    }
    parse_date(date).map_err(|bad| if bad == Bad::Form { Bad::DatetimeForm } else { Bad::DatetimeRange })?;
    Ok(rest[1..].trim_ascii())
}

/// Whether it is a zone, or nothing: an offset, an abbreviation.
fn is_zone(text: &[u8]) -> bool {
    match text {
        [] => true,
        [b'+' | b'-', digits @ ..] => {
            !digits.is_empty() && digits.iter().all(|byte| byte.is_ascii_digit() || *byte == b':')
        }
        _ => [&b"z"[..], b"utc", b"gmt", b"zulu"].iter().any(|zone| text.eq_ignore_ascii_case(zone)),
    }
}

fn number(digits: &[u8]) -> Result<i64, Bad> {
    let is_number = (1..=2).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let value = || digits.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
    if is_number { Ok(value()) } else { Err(Bad::DatetimeForm) }
}

/// Seconds with or without a fraction.
fn micros_of(text: &[u8]) -> Result<i64, Bad> {
    let point = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    let fraction = text.get(point + 1..).unwrap_or(&[]);
    if !fraction.iter().all(u8::is_ascii_digit) {
        return Err(Bad::DatetimeForm);
    }
    let digit = |at: usize| fraction.get(at).map_or(0, |byte| i64::from(byte - b'0'));
    let micros = (0..6).fold(0, |value, at| value * 10 + digit(at)) + i64::from(digit(6) >= 5);
    Ok(number(&text[..point])? * 1_000_000 + micros)
}

fn with_colons(clock: &[u8]) -> Result<(i64, i64, i64), Bad> {
    let parts: Vec<&[u8]> = clock.split(|byte| *byte == b':').collect();
    match parts.as_slice() {
        [hour, minute] => Ok((number(hour)?, number(minute)?, 0)),
        [hour, minute, seconds] => Ok((number(hour)?, number(minute)?, micros_of(seconds)?)),
        _ => Err(Bad::DatetimeForm),
    }
}

/// `hhmmss[.fraction]` or `hhmm`.
fn digits_alone(clock: &[u8]) -> Result<(i64, i64, i64), Bad> {
    let point = clock.iter().position(|byte| *byte == b'.').unwrap_or(clock.len());
    match point {
        4 if clock.len() == 4 => Ok((number(&clock[..2])?, number(&clock[2..])?, 0)),
        6 => Ok((number(&clock[..2])?, number(&clock[2..4])?, micros_of(&clock[4..])?)),
        _ => Err(Bad::DatetimeForm),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::display::write_time;
    use proptest::prelude::*;

    fn written(micros: i64) -> String {
        let mut out = String::new();
        write_time(&mut out, micros).unwrap();
        out
    }

    /// What PostgreSQL 15 reads.
    #[test]
    fn times_are_read_as_postgresql_reads_them() {
        for (text, wanted) in [
            ("04:05:06.789", "04:05:06.789"),
            ("04:05:06", "04:05:06"),
            ("04:05", "04:05:00"),
            ("4:05", "04:05:00"),
            ("040506", "04:05:06"),
            ("0405", "04:05:00"),
            ("040506.5", "04:05:06.5"),
            ("T040506", "04:05:06"),
            ("04:05 AM", "04:05:00"),
            ("04:05 PM", "16:05:00"),
            ("12:00 am", "00:00:00"),
            ("12:30pm", "12:30:00"),
            ("04:05:06-08:00", "04:05:06"),
            ("04:05:06Z", "04:05:06"),
            ("2003-04-12 04:05:06", "04:05:06"),
            ("allballs", "00:00:00"),
            ("24:00:00", "24:00:00"),
            ("23:59:60", "24:00:00"),
            ("04:05:60", "04:06:00"),
            (" 04:05:06.1234565 ", "04:05:06.123457"),
        ] {
            assert_eq!(parse_time(text.as_bytes()).map(written), Ok(wanted.to_owned()), "{text}");
        }
        for text in ["25:00:00", "24:00:01", "04:60", "04:05:61", "13:00 PM"] {
            assert_eq!(parse_time(text.as_bytes()), Err(Bad::DatetimeRange), "{text}");
        }
        for text in ["", "x", "4", "04:", "04:05:06x", "04:05:06:07", "123:00"] {
            assert_eq!(parse_time(text.as_bytes()), Err(Bad::DatetimeForm), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(micros in 0..=DAY_END, bytes in proptest::collection::vec(any::<u8>(), 0..30)) {
            prop_assert_eq!(parse_time(written(micros).as_bytes()), Ok(micros));
            let _ = parse_time(&bytes);
        }
    }
}
