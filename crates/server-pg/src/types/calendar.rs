//! Days, times and intervals as PostgreSQL writes them.

use alluvia_query::civil;
use bytes::{BufMut, BytesMut};
use std::fmt::Write;

/// Days from 1970-01-01 to PostgreSQL's first day, 2000-01-01.
pub(crate) const EPOCH_DAYS: i32 = 10_957;
/// The same in microseconds.
pub(crate) const EPOCH_MICROS: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

fn put(out: &mut BytesMut, text: std::fmt::Arguments<'_>) {
    struct Sink<'a>(&'a mut BytesMut);
    impl Write for Sink<'_> {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0.put_slice(text.as_bytes());
            Ok(())
        }
    }
    // A buffer takes every text.
    let _ = Sink(out).write_fmt(text);
}

/// `2026-11-21`, `0044-03-15 BC` (whose year is -43).
pub(crate) fn put_date(out: &mut BytesMut, days: i64) {
    let (year, month, day) = civil(days);
    put_day(out, year, month, day);
    if year <= 0 {
        out.put_slice(b" BC");
    }
}

fn put_day(out: &mut BytesMut, year: i64, month: u32, day: u32) {
    let year = if year <= 0 { 1 - year } else { year };
    put(out, format_args!("{year:04}-{month:02}-{day:02}"));
}

/// `2026-11-21 10:11:12.5`, with `+00` where it has a zone.
pub(crate) fn put_timestamp(out: &mut BytesMut, micros: i64, zone: bool) {
    let (days, of_day) = (micros.div_euclid(86_400_000_000), micros.rem_euclid(86_400_000_000));
    let (year, month, day) = civil(days);
    put_day(out, year, month, day);
    out.put_u8(b' ');
    put_time(out, of_day);
    if zone {
        out.put_slice(b"+00");
    }
    if year <= 0 {
        out.put_slice(b" BC");
    }
}

/// `10:11:12.5`; hours may pass 24 in intervals.
pub(crate) fn put_time(out: &mut BytesMut, micros: i64) {
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    put(out, format_args!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60));
    if fraction > 0 {
        let text = format!("{fraction:06}");
        out.put_u8(b'.');
        out.put_slice(text.trim_end_matches('0').as_bytes());
    }
}

/// `1 year 2 mons -3 days +04:05:06`, as `intervalstyle = postgres`.
pub(crate) fn put_interval(out: &mut BytesMut, months: i32, days: i32, micros: i64) {
    let (years, months) = (months / 12, months % 12);
    let mut is_first = true;
    let mut after_negative = false;
    for (value, one, many) in [(years, "year", "years"), (months, "mon", "mons"), (days, "day", "days")] {
        if value == 0 {
            continue;
        }
        let space = if is_first { "" } else { " " };
        let plus = if after_negative && value > 0 { "+" } else { "" };
        put(out, format_args!("{space}{plus}{value} {}", if value == 1 { one } else { many }));
        (is_first, after_negative) = (false, value < 0);
    }
    if micros != 0 || is_first {
        let sign = match (micros < 0, after_negative) {
            (true, _) => "-",
            (false, true) => "+",
            (false, false) => "",
        };
        put(out, format_args!("{}{sign}", if is_first { "" } else { " " }));
        let magnitude = micros.unsigned_abs();
        put_time(out, i64::try_from(magnitude).unwrap_or(i64::MAX));
    }
}

/// A float in the fewest digits that give it back, in the form that PostgreSQL chooses. `shortest` is in Rust's `{:e}` form;
/// `digits` is from where on exponents are written, 15 or 6.
pub(crate) fn put_float(out: &mut BytesMut, value: f64, shortest: &str, digits: i32) {
    if value.is_nan() {
        return out.put_slice(b"NaN");
    }
    if value.is_infinite() {
        return out.put_slice(if value > 0.0 { b"Infinity" } else { b"-Infinity" });
    }
    let (sign, rest) = shortest.strip_prefix('-').map_or(("", shortest), |rest| ("-", rest));
    let (mantissa, exponent) = rest.split_once('e').unwrap_or((rest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    out.put_slice(sign.as_bytes());
    if value == 0.0 {
        return out.put_u8(b'0');
    }
    if !(-4..digits).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return put(out, format_args!("{mantissa}e{sign}{:02}", exponent.abs()));
    }
    let all: String = mantissa.chars().filter(|c| *c != '.').collect();
    if exponent < 0 {
        let zeros = "0".repeat(-exponent as usize - 1);
        return put(out, format_args!("0.{zeros}{all}"));
    }
    let whole = exponent as usize + 1;
    if all.len() <= whole {
        put(out, format_args!("{all}{}", "0".repeat(whole - all.len())));
    } else {
        put(out, format_args!("{}.{}", &all[..whole], &all[whole..]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut BytesMut)) -> String {
        let mut out = BytesMut::new();
        write(&mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    /// What `psql` of PostgreSQL 15 prints for the same values.
    #[test]
    fn values_look_as_in_postgresql() {
        let float = |value: f64| text(|out| put_float(out, value, &format!("{value:e}"), 15));
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (123456.789, "123456.789"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
            (0.1 + 0.2, "0.30000000000000004"),
        ] {
            assert_eq!(float(value), expected);
        }
        let single = |value: f32| text(|out| put_float(out, f64::from(value), &format!("{value:e}"), 6));
        assert_eq!((single(0.1).as_str(), single(1e6).as_str(), single(123456.0).as_str()), ("0.1", "1e+06", "123456"));
        assert_eq!(text(|out| put_date(out, 0)), "1970-01-01");
        assert_eq!(text(|out| put_date(out, -735_160)), "0044-03-15 BC");
        assert_eq!(text(|out| put_timestamp(out, -1, true)), "1969-12-31 23:59:59.999999+00");
        assert_eq!(text(|out| put_timestamp(out, 951_782_400_500_000, false)), "2000-02-29 00:00:00.5");
        for (months, days, micros, expected) in [
            (0, 0, 0, "00:00:00"),
            (14, 3, 14_706_000_000, "1 year 2 mons 3 days 04:05:06"),
            (-14, 0, 0, "-1 years -2 mons"),
            (0, -1, 7_380_000_000, "-1 days +02:03:00"),
            (0, 0, -1_500_000, "-00:00:01.5"),
            (-1, 1, 0, "-1 mons +1 day"),
        ] {
            assert_eq!(text(|out| put_interval(out, months, days, micros)), expected);
        }
    }
}
