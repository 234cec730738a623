//! Reads the text of an interval as PostgreSQL reads it.
//!
//! Invariants:
//! - Numbers with units (`1 day 2h`), clock times (`1 02:03:04`), years with months (`1-2`), and ISO 8601 (`P1DT2H`) are read; a number without a
//!   unit is seconds, or days before a clock time. `ago` at the end turns all of them around.
//! - A unit that is said twice is none, nor is a number too large.
//! - What is a part of a unit becomes the next smaller ones: of months days of thirty to the month, of days time.

use crate::parse::Bad;
use arrow::datatypes::IntervalMonthDayNano;

/// Months, days and microseconds, and which fields were said.
#[derive(Default)]
struct Fields {
    months: i64,
    days: i64,
    micros: i64,
    said: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
    Decade,
    Century,
    Millennium,
}

/// What a text consists of.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Word<'a> {
    /// A number, clock time, or years with months, and whether a minus is before it.
    Number(&'a str, bool),
    Name(&'a str),
}

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const MONTH_DAYS: f64 = 30.0;

/// Months, days and nanoseconds of an interval that is written as PostgreSQL reads it (`90`, `1 day 02:03:04`, `P1DT2H`); `None` if the text is
/// no interval.
pub fn interval_of(text: &str) -> Option<(i32, i32, i64)> {
    let iso = of_iso(text.trim());
    let text = iso.unwrap_or_else(|| text.to_owned()).to_ascii_lowercase();
    let mut words = words_of(&text)?;
    let is_ago = words.last() == Some(&Word::Name("ago"));
    if is_ago {
        words.pop();
    }
    let mut fields = Fields::default();
    let mut unit: Option<Unit> = None;
    // A unit is behind its number.
    for word in words.into_iter().rev() {
        match word {
            Word::Name(name) => unit = Some(unit_of(name)?),
            Word::Number(number, is_negative) if number.contains(':') => {
                fields.add_clock(number, is_negative)?;
                unit = Some(Unit::Day);
            }
            Word::Number(number, is_negative) if number.contains('-') => {
                fields.add_years(number, is_negative)?;
                unit = Some(Unit::Month);
            }
            Word::Number(number, is_negative) => {
                let (whole, part) = number.split_once('.').unwrap_or((number, ""));
                let sign: i64 = if is_negative { -1 } else { 1 };
                let (whole, part) = (whole_of(whole, part)? * sign, part_of(part)? * sign as f64);
                let unit = *unit.get_or_insert(Unit::Second);
                fields.say(unit.mask(part != 0.0))?;
                fields.add(unit, whole, part)?;
            }
        }
    }
    let sign: i64 = if is_ago { -1 } else { 1 };
    let months = i32::try_from(fields.months.checked_mul(sign)?).ok()?;
    let days = i32::try_from(fields.days.checked_mul(sign)?).ok()?;
    let nanos = fields.micros.checked_mul(1_000 * sign)?;
    (fields.said != 0).then_some((months, days, nanos))
}

/// The interval of a text.
pub fn parse_interval(text: &[u8]) -> Result<IntervalMonthDayNano, Bad> {
    let text = std::str::from_utf8(text).map_err(|_| Bad::Utf8)?;
    let (months, days, nanos) = interval_of(text).ok_or(Bad::DatetimeForm)?;
    Ok(IntervalMonthDayNano::new(months, days, nanos))
}

/// A whole number, of no digits 0 if there is a part behind it.
fn whole_of(digits: &str, part: &str) -> Option<i64> {
    match digits {
        "" if !part.is_empty() => Some(0),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse::<i64>().ok().filter(|whole| *whole < 1 << 60)
        }
        _ => None,
    }
}

/// What is behind a point.
fn part_of(digits: &str) -> Option<f64> {
    let is_part = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_part.then(|| format!("0.{digits}0").parse::<f64>().ok()).flatten()
}

fn words_of(text: &str) -> Option<Vec<Word<'_>>> {
    let bytes = text.as_bytes();
    let end = |from: usize, is_in: fn(u8) -> bool| from + bytes[from..].iter().take_while(|byte| is_in(**byte)).count();
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(&first) = bytes.get(at) {
        let from = at;
        if first.is_ascii_alphabetic() {
            at = end(from, |byte| byte.is_ascii_alphabetic());
            words.push(Word::Name(&text[from..at]));
        } else if first.is_ascii_digit() || matches!(first, b'+' | b'-' | b'.') {
            let is_signed = matches!(first, b'+' | b'-');
            let from = if is_signed { end(from + 1, |byte| byte.is_ascii_whitespace()) } else { from };
            at = end(from, |byte| byte.is_ascii_digit() || matches!(byte, b'.' | b':'));
            // Years with months; before anything else a minus is the next number's.
            let is_years = bytes.get(at) == Some(&b'-') && bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
            if is_years {
                at = end(at + 1, |byte| byte.is_ascii_digit() || matches!(byte, b'.' | b':' | b'-'));
            }
            if at == from {
                return None;
            }
            words.push(Word::Number(&text[from..at], first == b'-'));
        } else if first.is_ascii_whitespace() || first.is_ascii_punctuation() && !matches!(first, b'/' | b':') {
            at += 1;
        } else {
            return None;
        }
    }
    Some(words)
}

fn unit_of(name: &str) -> Option<Unit> {
    // As there, ten letters tell.
    Some(match name.get(..10).unwrap_or(name) {
        "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecon" => Unit::Microsecond,
        "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecon" => Unit::Millisecond,
        "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
        "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
        "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
        "d" | "day" | "days" => Unit::Day,
        "w" | "week" | "weeks" => Unit::Week,
        "mon" | "mons" | "month" | "months" => Unit::Month,
        "y" | "yr" | "yrs" | "year" | "years" => Unit::Year,
        "dec" | "decs" | "decade" | "decades" => Unit::Decade,
        "c" | "cent" | "century" | "centuries" => Unit::Century,
        "mil" | "mils" | "millennia" | "millennium" => Unit::Millennium,
        _ => return None,
    })
}

impl Unit {
    /// The fields that it is: of seconds with a part also those of its parts.
    fn mask(self, has_part: bool) -> u32 {
        let of = |unit: Unit| 1 << unit as u32;
        match self {
            Unit::Second if has_part => of(Unit::Second) | of(Unit::Millisecond) | of(Unit::Microsecond),
            unit => of(unit),
        }
    }
}

impl Fields {
    fn say(&mut self, mask: u32) -> Option<()> {
        let is_new = self.said & mask == 0;
        self.said |= mask;
        is_new.then_some(())
    }

    fn add(&mut self, unit: Unit, whole: i64, part: f64) -> Option<()> {
        let is_time = |unit: i64| Some((whole.checked_mul(unit)?, micros_of(part, unit)));
        let (months, days, (micros, more)) = match unit {
            Unit::Microsecond => (0, 0, (whole, part.round_ties_even() as i64)),
            Unit::Millisecond => (0, 0, is_time(1_000)?),
            Unit::Second => (0, 0, is_time(SECOND)?),
            Unit::Minute => (0, 0, is_time(MINUTE)?),
            Unit::Hour => (0, 0, is_time(HOUR)?),
            Unit::Day => (0, whole, (0, micros_of(part, DAY))),
            Unit::Week => {
                let (days, micros) = days_of(part, 7.0);
                (0, whole.checked_mul(7)?.checked_add(days)?, (0, micros))
            }
            Unit::Month => {
                let (days, micros) = days_of(part, MONTH_DAYS);
                (whole, days, (0, micros))
            }
            Unit::Year => (months_of(whole, part, 12)?, 0, (0, 0)),
            Unit::Decade => (months_of(whole, part, 120)?, 0, (0, 0)),
            Unit::Century => (months_of(whole, part, 1_200)?, 0, (0, 0)),
            Unit::Millennium => (months_of(whole, part, 12_000)?, 0, (0, 0)),
        };
        self.months = self.months.checked_add(months)?;
        self.days = self.days.checked_add(days)?;
        self.micros = self.micros.checked_add(micros)?.checked_add(more)?;
        Some(())
    }

    /// `hh:mm[:ss[.fraction]]` or `mm:ss.fraction`, whose sign is that of all of it.
    fn add_clock(&mut self, clock: &str, is_negative: bool) -> Option<()> {
        self.say(Unit::Hour.mask(false) | Unit::Minute.mask(false) | Unit::Second.mask(true))?;
        let fields: Vec<&str> = clock.split(':').collect();
        let (hours, minutes, seconds) = match fields.as_slice() {
            [minutes, seconds] if seconds.contains('.') => ("0", *minutes, *seconds),
            [hours, minutes] => (*hours, *minutes, "0"),
            [hours, minutes, seconds] => (*hours, *minutes, *seconds),
            _ => return None,
        };
        let (seconds, part) = seconds.split_once('.').unwrap_or((seconds, ""));
        let (hours, minutes, seconds) = (whole_of(hours, "")?, whole_of(minutes, "")?, whole_of(seconds, part)?);
        if minutes >= 60 || seconds > 60 {
            return None;
        }
        let sign: i64 = if is_negative { -1 } else { 1 };
        self.add(Unit::Hour, hours * sign, 0.0)?;
        self.add(Unit::Minute, minutes * sign, 0.0)?;
        self.add(Unit::Second, seconds * sign, part_of(part)? * sign as f64)
    }

    /// `years-months`.
    fn add_years(&mut self, text: &str, is_negative: bool) -> Option<()> {
        self.say(Unit::Month.mask(false))?;
        let (years, months) = text.split_once('-')?;
        let (years, months) = (whole_of(years, "")?, whole_of(months, "")?);
        let sign: i64 = if is_negative { -1 } else { 1 };
        if months >= 12 {
            return None;
        }
        self.add(Unit::Month, years.checked_mul(12)?.checked_add(months)? * sign, 0.0)
    }
}

/// Microseconds of a part of a unit of so many: whole seconds, and the rest rounded.
fn micros_of(part: f64, unit: i64) -> i64 {
    let seconds = part * unit as f64 / SECOND as f64;
    let rest = (seconds.fract() * SECOND as f64).round_ties_even();
    seconds.trunc() as i64 * SECOND + rest as i64
}

/// Days of a part of a unit of so many, and the time that is left.
fn days_of(part: f64, unit: f64) -> (i64, i64) {
    let days = part * unit;
    (days.trunc() as i64, micros_of(days.fract(), DAY))
}

fn months_of(whole: i64, part: f64, unit: i64) -> Option<i64> {
    whole.checked_mul(unit)?.checked_add((part * unit as f64).round_ties_even() as i64)
}

/// The numbers and units of ISO 8601's form, `P1Y2M3W4DT5H6M7.5S`, or of its other one, `P0001-02-03T04:05:06`; `None` if the text has another form.
fn of_iso(text: &str) -> Option<String> {
    let mut rest = text.strip_prefix('P')?;
    if !rest.contains(|of: char| of.is_ascii_alphabetic() && of != 'T') {
        return of_iso_fields(rest);
    }
    let mut parts = Vec::new();
    let mut is_time = false;
    while !rest.is_empty() {
        if let Some(time) = rest.strip_prefix('T') {
            (rest, is_time) = (time, true);
            continue;
        }
        let end = rest.find(|of: char| of.is_ascii_alphabetic())?;
        let (number, unit) = (&rest[..end], &rest[end..=end]);
        number.parse::<f64>().ok()?;
        let unit = match (unit, is_time) {
            ("Y", false) => "years",
            ("M", false) => "months",
            ("W", false) => "weeks",
            ("D", false) => "days",
            ("H", true) => "hours",
            ("M", true) => "minutes",
            ("S", true) => "seconds",
            _ => return None,
        };
        parts.push(format!("{number} {unit}"));
        rest = &rest[end + 1..];
    }
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// `0001-02-03T04:05:06`, `00010203T040506`, and what of these has only the date or only the time.
fn of_iso_fields(text: &str) -> Option<String> {
    let (date, time) = text.split_once('T').unwrap_or((text, ""));
    let are_numbers = |parts: &[&str]| {
        let is_number =
            |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        parts.iter().all(is_number)
    };
    let of_date: Vec<&str> = match date.len() {
        8 if !date.contains('-') && date.is_ascii() => vec![&date[..4], &date[4..6], &date[6..]],
        _ if date.is_empty() => Vec::new(),
        _ => date.split('-').collect(),
    };
    let of_time: Vec<&str> = match time.len() {
        6.. if !time.contains(':') && time.is_ascii() => vec![&time[..2], &time[2..4], &time[4..]],
        _ if time.is_empty() => Vec::new(),
        _ => time.split(':').collect(),
    };
    if of_date.len() > 3 || of_time.len() > 3 || !are_numbers(&of_date) || !are_numbers(&of_time) {
        return None;
    }
    let units = of_date.iter().zip(["years", "months", "days"]);
    let parts = units.chain(of_time.iter().zip(["hours", "minutes", "seconds"]));
    let parts: Vec<String> = parts.map(|(number, unit)| format!("{number} {unit}")).collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every expected value is PostgreSQL 15's.
    #[test]
    fn texts_are_read_as_postgresql_reads_them() {
        let (second, minute, hour) = (1_000_000_000, 60_000_000_000, 3_600_000_000_000);
        for (text, months, days, nanos) in [
            ("90", 0, 0, 90 * second),
            ("1.5", 0, 0, 3 * second / 2),
            ("01:30:00", 0, 0, 90 * minute),
            ("1 day 02:03:04", 0, 1, 2 * hour + 3 * minute + 4 * second),
            ("1 02:03:04.5", 0, 1, 2 * hour + 3 * minute + 9 * second / 2),
            ("-01:30:00", 0, 0, -90 * minute),
            ("1:30.5", 0, 0, minute + 61 * second / 2),
            ("1-2 3 4:05:06", 14, 3, 4 * hour + 5 * minute + 6 * second),
            ("-1-2", -14, 0, 0),
            ("@ 1 day, 2h30m ago", 0, -1, -(2 * hour + 30 * minute)),
            ("1 mon -1 day", 1, -1, 0),
            ("- 2 days", 0, -2, 0),
            ("1.5 months", 1, 15, 0),
            ("0.1 month 1.25 days", 0, 4, 6 * hour),
            ("1.5 weeks", 0, 10, 12 * hour),
            ("1.5 years", 18, 0, 0),
            ("1 century 2 decades", 1_440, 0, 0),
            ("2 milliseconds 3 microseconds", 0, 0, 2_003_000),
            ("P1Y2M3DT4H5M6.5S", 14, 3, 4 * hour + 5 * minute + 13 * second / 2),
            ("1 DAY", 0, 1, 0),
            ("P0001-02-03T04:05:06", 14, 3, 4 * hour + 5 * minute + 6 * second),
            ("P00010203T040506", 14, 3, 4 * hour + 5 * minute + 6 * second),
            ("PT04:05:06.5", 0, 0, 4 * hour + 5 * minute + 13 * second / 2),
            ("P1Y-2M", 10, 0, 0),
        ] {
            assert_eq!(interval_of(text), Some((months, days, nanos)), "{text}");
        }
    }

    #[test]
    fn what_is_no_interval_is_none() {
        for text in [
            "",
            "day",
            "1 day 2 days",
            "1 2",
            "1 hour 02:00",
            "1:60",
            "1-12",
            "x",
            "1 foo",
            "1/2 day",
            "é",
            "+",
            "1..5",
        ] {
            assert_eq!(interval_of(text), None, "{text}");
        }
    }
}
