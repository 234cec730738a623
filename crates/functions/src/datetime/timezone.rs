//! `timezone(zone, moment)`, which `AT TIME ZONE` is: what a clock in a zone shows, and when it shows that.
//!
//! Invariants, as in PostgreSQL:
//! - Of a TIMESTAMP WITH TIME ZONE it is the TIMESTAMP that clocks of the zone show then; of a TIMESTAMP the moment at which they show it.
//! - A time that clocks leave out is read by the offset before; one that they show twice is the later moment.
//! - Offsets that are written have the signs of POSIX: `+02:00` is west of Greenwich. A zone that nobody knows is an error.
//!
//! DataFusion 55.2 plans `AT TIME ZONE` as a cast, which keeps the moment, or counts in nanoseconds.
//!
//! Mends apache/datafusion#10368, #12218 (in 55.2).
//! Held by `slt/meaning.slt` (`AT TIME ZONE 'Europe/Berlin'`).

use crate::columnar::{as_columnar, is_constant};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::wrap;
use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use chrono::{DateTime, Offset, TimeZone};
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result as Planned, exec_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;
/// What PostgreSQL takes for offsets and not for zones with summer times, though the database of zones has these names.
const ABBREVIATIONS: [(&str, i64); 4] = [("CET", 1), ("MET", 1), ("EET", 2), ("WET", 0)];

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct TimeZoned {
    signature: Signature,
}

impl Default for TimeZoned {
    fn default() -> TimeZoned {
        TimeZoned { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for TimeZoned {
    fn name(&self) -> &str {
        "timezone"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Planned<Vec<DataType>> {
        let [zone, time] = take_function_args(self.name(), arg_types)?;
        let refused = |what: String| {
            let error = Error::new(ErrorKind::NotSupported, format!("AT TIME ZONE {what} is not supported"));
            Err(wrap(error.with_hint("name the zone in a text, as in 'Europe/Berlin', behind a TIMESTAMP")))
        };
        if !zone.is_string() && !zone.is_null() {
            return refused(format!("with a zone of type {zone}"));
        }
        let time = match time {
            DataType::Timestamp(_, None) => moment(false),
            // PostgreSQL prefers the type with a zone.
            DataType::Timestamp(_, Some(_)) | DataType::Date32 | DataType::Null => moment(true),
            text if text.is_string() => moment(true),
            other => return refused(format!("behind a value of type {other}")),
        };
        Ok(vec![DataType::Utf8View, time])
    }

    fn return_type(&self, arg_types: &[DataType]) -> Planned<DataType> {
        let [_, time] = take_function_args(self.name(), arg_types)?;
        Ok(moment(matches!(time, DataType::Timestamp(_, None))))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Planned<ColumnarValue> {
        let is_scalar = is_constant(&args.args);
        let [zones, times] = take_function_args(self.name(), ColumnarValue::values_to_arrays(&args.args)?)?;
        let is_moment = match times.data_type() {
            DataType::Timestamp(TimeUnit::Microsecond, zone) => zone.is_some(),
            other => return exec_err!("{other} is no time"),
        };
        let (zones, times) = (zones.as_string_view(), times.as_primitive::<TimestampMicrosecondType>());
        let mut known: Option<(&str, Zone)> = None;
        let mut made = Vec::with_capacity(times.len());
        for (name, time) in zones.iter().zip(times) {
            let (Some(name), Some(time)) = (name, time) else {
                made.push(None);
                continue;
            };
            let zone = match known {
                Some((last, zone)) if last == name => zone,
                _ => Zone::of(name).map_err(wrap)?,
            };
            known = Some((name, zone));
            let other = if is_moment { zone.shown_at(time) } else { zone.moment_of(time) };
            made.push(Some(other.ok_or_else(|| wrap(out_of_range()))?));
        }
        let made = TimestampMicrosecondArray::from(made);
        let made: ArrayRef = Arc::new(if is_moment { made } else { made.with_timezone("UTC") });
        as_columnar(made, is_scalar)
    }
}

/// SQL's TIMESTAMP, with a zone or without.
fn moment(has_zone: bool) -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, has_zone.then(|| "UTC".into()))
}

/// The error for a timestamp whose conversion to or from a time zone leaves the range of timestamps.
pub fn out_of_range() -> Error {
    Error::new(ErrorKind::OutOfRange, "the timestamp is out of range in this time zone")
}

/// What clocks of a place show.
#[derive(Clone, Copy)]
pub(crate) enum Zone {
    /// So many microseconds more than UTC's.
    Fixed(i64),
    /// What the database of zones says.
    Named(Tz),
}

impl Zone {
    pub fn of(name: &str) -> Result<Zone> {
        let upper = name.to_ascii_uppercase();
        if let Some((_, hours)) = ABBREVIATIONS.iter().find(|(abbreviation, _)| *abbreviation == upper) {
            return Ok(Zone::Fixed(hours * 3_600 * SECOND));
        }
        if matches!(upper.as_str(), "UTC" | "Z") {
            return Ok(Zone::Fixed(0));
        }
        let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic());
        let spelled = [name.to_owned(), upper, capitalised(name)];
        let named = spelled.iter().filter(|_| is_name).find_map(|name| name.parse::<Tz>().ok());
        named.map(Zone::Named).or_else(|| posix_offset(name).map(Zone::Fixed)).ok_or_else(|| {
            Error::new(ErrorKind::InvalidSetting, format!("time zone \"{name}\" is not known"))
                .with_hint("write a name of the database of time zones, as in 'Europe/Berlin', or 'UTC'")
        })
    }

    /// How much more than UTC's its clocks show at a moment.
    pub(crate) fn offset_at(self, moment: i64) -> Option<i64> {
        match self {
            Zone::Fixed(offset) => Some(offset),
            Zone::Named(zone) => {
                let utc = DateTime::from_timestamp_micros(moment)?.naive_utc();
                let offset = zone.offset_from_utc_datetime(&utc).fix();
                Some(i64::from(offset.local_minus_utc()) * SECOND)
            }
        }
    }

    fn shown_at(self, moment: i64) -> Option<i64> {
        moment.checked_add(self.offset_at(moment)?)
    }

    pub fn moment_of(self, shown: i64) -> Option<i64> {
        // No two changes of a zone's clocks are within two days of one another.
        let before = self.offset_at(shown.checked_sub(DAY)?)?;
        let after = self.offset_at(shown.checked_add(DAY)?)?;
        let (earlier, later) = (shown.checked_sub(before)?, shown.checked_sub(after)?);
        // Shown twice, it is the later moment, which is by the offset after; shown never, it is by the one before.
        Some(if self.offset_at(later)? == after { later } else { earlier })
    }
}

/// `america/new_york` as the database has it.
fn capitalised(name: &str) -> String {
    let mut is_first = true;
    let change = |letter: char| {
        let changed = if is_first { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() };
        is_first = matches!(letter, '/' | '_' | '-');
        changed
    };
    name.chars().map(change).collect()
}

/// Microseconds of `+02:00`, `-5` or `XYZ+3`, by which clocks go behind UTC's if they are positive.
fn posix_offset(text: &str) -> Option<i64> {
    let rest = text.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
    let letters = text.len() - rest.len();
    let (sign, digits) = match rest.as_bytes().first()? {
        b'+' => (-1, &rest[1..]),
        b'-' => (1, &rest[1..]),
        // A number alone has no sign to be misread, and is refused.
        _ if letters >= 3 => (-1, rest),
        _ => return None,
    };
    if !(letters == 0 || letters >= 3) {
        return None;
    }
    let mut parts = digits.split(':');
    let mut part = |max: i64| match parts.next() {
        None => Some(0),
        Some(part) if (1..=2).contains(&part.len()) && part.bytes().all(|digit| digit.is_ascii_digit()) => {
            part.parse::<i64>().ok().filter(|&part| part <= max)
        }
        Some(_) => None,
    };
    let (hours, minutes, seconds) = (part(24)?, part(59)?, part(59)?);
    parts.next().is_none().then_some(sign * (hours * 3_600 + minutes * 60 + seconds) * SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-03-29 01:00 UTC, when clocks of Berlin go from 2 to 3.
    const SPRING: i64 = 1_774_746_000 * SECOND;
    /// 2026-10-25 01:00 UTC, when they go from 3 back to 2.
    const AUTUMN: i64 = 1_792_890_000 * SECOND;
    const HOUR: i64 = 3_600 * SECOND;

    #[test]
    fn clocks_that_go_forward_and_back_are_read_as_postgresql_reads_them() {
        let berlin = Zone::of("europe/berlin").unwrap();
        assert_eq!(berlin.shown_at(SPRING - 1), Some(SPRING + HOUR - 1));
        assert_eq!(berlin.shown_at(SPRING), Some(SPRING + 2 * HOUR));
        // 02:30 is never shown, and read as half an hour behind the change.
        assert_eq!(berlin.moment_of(SPRING + HOUR + HOUR / 2), Some(SPRING + HOUR / 2));
        assert_eq!(berlin.moment_of(SPRING + 2 * HOUR), Some(SPRING));
        // 02:30 is shown twice, and read as winter time.
        assert_eq!(berlin.moment_of(AUTUMN + HOUR + HOUR / 2), Some(AUTUMN + HOUR / 2));
        assert_eq!(berlin.moment_of(AUTUMN + HOUR - 1), Some(AUTUMN - HOUR - 1));
        for moment in (-48..48).map(|hours| AUTUMN + hours * HOUR) {
            let shown = berlin.shown_at(moment).unwrap();
            let read = berlin.moment_of(shown).unwrap();
            assert_eq!(berlin.shown_at(read), Some(shown));
        }
        assert_eq!(berlin.shown_at(i64::MAX), None);
    }

    #[test]
    fn zones_are_told_by_names_and_by_offsets_of_posix() {
        let offset = |name: &str| Zone::of(name).ok().and_then(|zone| zone.offset_at(SPRING));
        for (name, hours) in
            [("UTC", 0), ("utc", 0), ("CET", 1), ("Asia/Tokyo", 9), ("+02:00", -2), ("-5", 5), ("UTC+3", -3)]
        {
            assert_eq!(offset(name), Some(hours * HOUR), "{name}");
        }
        for unknown in ["", "Nowhere/Here", "2", "+", "+25", "+1:60", "+1:2:3:4", "é+1"] {
            assert!(offset(unknown).is_none(), "{unknown}");
        }
    }
}
