//! Floats, times of day and intervals as PostgreSQL writes them.
//!
//! Invariant: a cast to text, a value that is put into a TEXT column and what PostgreSQL's clients are sent have one form, which is why
//! these are here and not where they are written. What is written is read back as the same value.

use alluvia_space::codes::calendar::MICROS_PER_DAY;
use std::fmt::{Result, Write};

/// `10:11:12.5`; hours may pass 24 in intervals.
pub fn write_time(out: &mut impl Write, micros: i64) -> Result {
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
    if fraction > 0 {
        let text = format!("{fraction:06}");
        write!(out, ".{}", text.trim_end_matches('0'))?;
    }
    Ok(())
}

/// `1 year 2 mons -3 days +04:05:06`, as `intervalstyle = postgres`.
pub fn write_interval(out: &mut impl Write, months: i32, days: i32, micros: i64) -> Result {
    let (years, months) = (months / 12, months % 12);
    let mut is_first = true;
    let mut after_negative = false;
    for (value, one, many) in [(years, "year", "years"), (months, "mon", "mons"), (days, "day", "days")] {
        if value == 0 {
            continue;
        }
        let space = if is_first { "" } else { " " };
        let plus = if after_negative && value > 0 { "+" } else { "" };
        write!(out, "{space}{plus}{value} {}", if value == 1 { one } else { many })?;
        (is_first, after_negative) = (false, value < 0);
    }
    if micros != 0 || is_first {
        let sign = match (micros < 0, after_negative) {
            (true, _) => "-",
            (false, true) => "+",
            (false, false) => "",
        };
        write!(out, "{}{sign}", if is_first { "" } else { " " })?;
        let magnitude = micros.unsigned_abs();
        write_time(out, i64::try_from(magnitude).unwrap_or(i64::MAX))?;
    }
    Ok(())
}

/// What lies between two moments, in microseconds: days, and the rest.
pub fn difference(micros: i64) -> (i32, i64) {
    // The greatest difference has some hundred million days.
    ((micros / MICROS_PER_DAY) as i32, micros % MICROS_PER_DAY)
}

/// The same, as an interval.
pub fn write_difference(out: &mut impl Write, micros: i64) -> Result {
    let (days, rest) = difference(micros);
    write_interval(out, 0, days, rest)
}

/// A double in the fewest digits that give it back.
pub fn write_double(out: &mut impl Write, value: f64) -> Result {
    write_float(out, value, &format!("{value:e}"), 15)
}

/// The same of a float of single precision.
pub fn write_real(out: &mut impl Write, value: f32) -> Result {
    write_float(out, f64::from(value), &format!("{value:e}"), 6)
}

/// `shortest` is in Rust's `{:e}` form; `digits` is from where on exponents are written.
fn write_float(out: &mut impl Write, value: f64, shortest: &str, digits: i32) -> Result {
    if value.is_nan() {
        return out.write_str("NaN");
    }
    if value.is_infinite() {
        return out.write_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
    }
    let (sign, rest) = shortest.strip_prefix('-').map_or(("", shortest), |rest| ("-", rest));
    let (mantissa, exponent) = rest.split_once('e').unwrap_or((rest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    out.write_str(sign)?;
    if value == 0.0 {
        return out.write_str("0");
    }
    if !(-4..digits).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return write!(out, "{mantissa}e{sign}{:02}", exponent.abs());
    }
    let all: String = mantissa.chars().filter(|c| *c != '.').collect();
    if exponent < 0 {
        let zeros = "0".repeat(-exponent as usize - 1);
        return write!(out, "0.{zeros}{all}");
    }
    let whole = exponent as usize + 1;
    if all.len() <= whole {
        write!(out, "{all}{}", "0".repeat(whole - all.len()))
    } else {
        write!(out, "{}.{}", &all[..whole], &all[whole..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut String) -> Result) -> String {
        let mut out = String::new();
        write(&mut out).unwrap();
        out
    }

    /// What `psql` of PostgreSQL 15 prints for the same values.
    #[test]
    fn values_look_as_in_postgresql() {
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
            assert_eq!(text(|out| write_double(out, value)), expected);
        }
        for (value, expected) in [(0.1, "0.1"), (1e6, "1e+06"), (123456.0, "123456")] {
            assert_eq!(text(|out| write_real(out, value)), expected);
        }
        for (months, days, micros, expected) in [
            (0, 0, 0, "00:00:00"),
            (14, 3, 14_706_000_000, "1 year 2 mons 3 days 04:05:06"),
            (-14, 0, 0, "-1 years -2 mons"),
            (0, -1, 7_380_000_000, "-1 days +02:03:00"),
            (0, 0, -1_500_000, "-00:00:01.5"),
            (-1, 1, 0, "-1 mons +1 day"),
        ] {
            assert_eq!(text(|out| write_interval(out, months, days, micros)), expected);
        }
    }
}
