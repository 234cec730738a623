//! Reads and writes the values of settings: switches, times, shares and sizes.

use alluvia_types::{Error, ErrorKind, Freshness, Result};
use std::time::Duration;

/// `on`, `true`, `yes` or `1`, and `off`, `false`, `no` or `0`, in letters of any case; `None` for any other text.
pub fn parse_switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Some(true),
        "off" | "false" | "no" | "0" => Some(false),
        _ => None,
    }
}

/// `on` or `off`.
pub fn show_switch(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

/// `'5s'`, `'250ms'`, `'merged'`.
pub fn parse_freshness(text: &str) -> Result<Freshness> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("merged") {
        return Ok(Freshness::Merged);
    }
    if text == "0" {
        return Ok(Freshness::Within(Duration::ZERO));
    }
    parse_duration(text).map(Freshness::Within).ok_or_else(|| {
        Error::new(ErrorKind::InvalidSetting, format!("freshness cannot be {text:?}"))
            .with_hint("it takes a time with its unit, such as '0s', '250ms' or '5s', or 'merged'")
    })
}

/// `0.3`.
pub fn parse_fraction(text: &str) -> Result<f64> {
    let fraction = text.trim().parse().ok().filter(|fraction| *fraction > 0.0 && *fraction <= 1.0);
    fraction.ok_or_else(|| {
        Error::new(ErrorKind::InvalidSetting, format!("sample_fraction cannot be {text:?}"))
            .with_hint("it takes a number above 0, at most 1, such as 0.3; 1 reads everything")
    })
}

/// `merged`, or a time as [`show_duration`] writes one.
pub fn show_freshness(freshness: Freshness) -> String {
    match freshness {
        Freshness::Merged => "merged".to_owned(),
        Freshness::Within(age) => show_duration(age),
    }
}

/// A number and a unit: `us`, `ms`, `s`, `min`, `h`, `d`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(unit_at);
    let number: f64 = number.parse().ok()?;
    let unit_seconds = match unit.trim().to_ascii_lowercase().as_str() {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" | "sec" | "second" | "seconds" => 1.0,
        "m" | "min" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3_600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    };
    let duration = Duration::try_from_secs_f64(number * unit_seconds).ok()?;
    // Exact in the unit that it is stored in.
    Some(Duration::from_micros(u64::try_from((duration + Duration::from_nanos(500)).as_micros()).ok()?))
}

/// A whole number of minutes, seconds, milliseconds or microseconds, the largest unit that is exact: `5s`.
pub fn show_duration(duration: Duration) -> String {
    let micros = duration.as_micros();
    match micros {
        0 => "0s".to_owned(),
        _ if micros.is_multiple_of(60_000_000) => format!("{}min", micros / 60_000_000),
        _ if micros.is_multiple_of(1_000_000) => format!("{}s", micros / 1_000_000),
        _ if micros.is_multiple_of(1_000) => format!("{}ms", micros / 1_000),
        _ => format!("{micros}us"),
    }
}

/// A number and a unit: `kB`, `MB`, `GB`, `TB` of 1024, as PostgreSQL counts; none for bytes.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let number: f64 = number.parse().ok()?;
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    let bytes = number * (1_u64 << shift) as f64;
    (bytes.is_finite() && bytes < 2f64.powi(62)).then_some(bytes as u64)
}

/// In the largest unit that is exact.
pub fn show_bytes(bytes: u64) -> String {
    for (shift, unit) in [(40, "TB"), (30, "GB"), (20, "MB"), (10, "kB")] {
        if bytes > 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    format!("{bytes}B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_have_units() {
        assert_eq!(parse_freshness("1.5s").unwrap(), Freshness::Within(Duration::from_millis(1500)));
        assert_eq!(parse_freshness(" MERGED ").unwrap(), Freshness::Merged);
        assert_eq!(parse_duration("1e400s"), None);
        assert_eq!(parse_bytes("1.5GB"), Some(3 << 29));
        assert_eq!(parse_bytes("GB"), None);
        assert_eq!((show_bytes(3 << 29), show_bytes(1)), ("1536MB".to_owned(), "1B".to_owned()));
    }
}
