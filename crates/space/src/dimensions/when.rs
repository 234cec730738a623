//! Moments of a declaration's `from ... to ...`.

use crate::codes::calendar;
use std::fmt::Write;

const SECOND: i64 = 1_000_000;

/// Reads `2020-01-01` or `2020-01-01 12:30[:15[.25]]` (also with `T`) as microseconds since 1970.
pub(super) fn parse(text: &str) -> Option<i64> {
    let text = text.trim_matches('\'');
    let (date, time) = match text.split_once([' ', 'T', 't']) {
        Some((date, time)) => (date, Some(time.trim_start())),
        None => (text, None),
    };
    let (negative, date) = date.strip_prefix('-').map_or((false, date), |date| (true, date));
    let mut parts = date.split('-');
    let year: i64 = number(parts.next()?, 4..=6)?;
    let month = number(parts.next()?, 1..=2)? as u32;
    let day = number(parts.next()?, 1..=2)? as u32;
    let days = calendar::days_of(if negative { -year } else { year }, month.clamp(1, 12), day);
    // A day that its month lacks comes out as another one.
    if parts.next().is_some() || (calendar::civil(days).1, calendar::civil(days).2) != (month, day) {
        return None;
    }
    let time = time.map_or(Some(0), parse_time)?;
    days.checked_mul(86_400 * SECOND)?.checked_add(time)
}

fn parse_time(text: &str) -> Option<i64> {
    let mut parts = text.split(':');
    let hour = number(parts.next()?, 1..=2)?;
    let minute = number(parts.next()?, 2..=2)?;
    let (second, micros) = match parts.next() {
        None => (0, 0),
        Some(seconds) => {
            let (whole, fraction) = seconds.split_once('.').map_or((seconds, "0"), |parts| parts);
            let digits = number(fraction, 1..=6)?;
            (number(whole, 2..=2)?, digits * 10i64.pow(6 - fraction.len() as u32))
        }
    };
    let fits = parts.next().is_none() && hour < 24 && minute < 60 && second < 60;
    fits.then_some(((hour * 60 + minute) * 60 + second) * SECOND + micros)
}

fn number(text: &str, digits: std::ops::RangeInclusive<usize>) -> Option<i64> {
    (digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Writes microseconds since 1970 as `parse` reads them, as short as possible.
pub(super) fn show(micros: i64) -> String {
    let days = micros.div_euclid(86_400 * SECOND);
    let time = micros.rem_euclid(86_400 * SECOND);
    let (year, month, day) = calendar::civil(days);
    let sign = if year < 0 { "-" } else { "" };
    let mut text = format!("{sign}{:04}-{month:02}-{day:02}", year.abs());
    let (seconds, fraction) = (time / SECOND, time % SECOND);
    // Writing to a String cannot fail.
    if time > 0 {
        let _ = write!(text, " {:02}:{:02}", seconds / 3600, seconds / 60 % 60);
    }
    if time % (60 * SECOND) > 0 {
        let _ = write!(text, ":{:02}", seconds % 60);
    }
    if fraction > 0 {
        let digits = format!("{fraction:06}");
        let _ = write!(text, ".{}", digits.trim_end_matches('0'));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in ["", "2020", "2020-13-01", "2020-02-30", "20-01-01", "2020-01-01 24:00", "2020-01-01 1:2", "x-1-1"]
        {
            assert_eq!(parse(text), None, "{text:?}");
        }
        assert_eq!(parse("1970-01-02"), Some(86_400 * SECOND));
        assert_eq!(parse("1970-1-1T01:00:00.5"), Some(3600 * SECOND + SECOND / 2));
    }

    proptest! {
        #[test]
        fn moments_survive(micros in -9_000_000_000_000_000_000i64..9_000_000_000_000_000_000) {
            prop_assert_eq!(parse(&show(micros)), Some(micros));
            let minutes = micros / 60_000_000 * 60_000_000;
            prop_assert_eq!(parse(&show(minutes)), Some(minutes));
        }
    }
}
