//! Time zones: what clocks of a place show at a moment, and at which moment they show a time.
//!
//! Invariants, as in PostgreSQL:
//! - A zone is a name of the database of time zones, in any case; an offset; or POSIX' form (`EST5EDT,M3.2.0,M11.1.0`), whose signs
//!   count west of Greenwich. What [`Zone::name`] gives is read back as the same zone.
//! - A time that clocks leave out is read by the offset before; one that they show twice by the one after, which is the later moment.
//! - Moments are microseconds of UTC since 1970, and times that clocks show are microseconds counted alike.

mod abbreviations;
mod input;
mod names;
mod posix;
mod rules;

pub use abbreviations::all as all_abbreviations;
pub use input::{parse_date_in_zone, parse_timestamp_without_zone, parse_timestamptz};
pub use names::all as all_names;
pub use rules::declared_rules;

use alluvia_types::{Error, ErrorKind, Result};
use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::{OffsetComponents, OffsetName, Tz};
use posix::PosixZone;
use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;
/// Offsets are below a week, as in PostgreSQL.
const HOURS_MAX: f64 = 168.0;
/// What is before the name of a session's zone where an abbreviation is called alike. No name of a zone begins so.
const OF_SETTING: char = '=';

/// A time zone. A copy is cheap.
#[derive(Clone)]
pub struct Zone(Arc<NamedRules>);

struct NamedRules {
    name: String,
    rules: Rules,
}

enum Rules {
    /// Of the database of time zones.
    Database(Tz),
    /// Seconds east of Greenwich, always.
    Fixed(i64),
    Posix(PosixZone),
}

/// What clocks of a zone show at a moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clock {
    /// Seconds by which they are ahead of UTC.
    pub offset: i64,
    /// `CEST`, or an offset where nobody has a word for it.
    pub abbreviation: String,
    /// Whether it is summer time.
    pub is_summer: bool,
}

static UTC: LazyLock<Zone> = LazyLock::new(|| Zone::new("UTC".to_owned(), Rules::Database(Tz::UTC)));

impl Default for Zone {
    fn default() -> Zone {
        Zone::utc()
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Zone) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Zone {}

impl Hash for Zone {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl std::fmt::Debug for Zone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Zone({})", self.0.name)
    }
}

impl Zone {
    fn new(name: String, rules: Rules) -> Zone {
        Zone(Arc::new(NamedRules { name, rules }))
    }

    /// Coordinated universal time.
    pub fn utc() -> Zone {
        UTC.clone()
    }

    /// The zone that `SET timezone` names: also a number of hours east of Greenwich, and `INTERVAL '-08:00'`.
    pub fn of_setting(text: &str) -> Result<Zone> {
        let text = text.trim();
        if let Some(interval) = interval_text(text) {
            return of_interval(text, interval);
        }
        if let Some(hours) = hours_of(text) {
            return of_hours(text, hours);
        }
        // Other systems' drivers say it so, and it can mean nothing else.
        if matches!(text, "z" | "Z" | "+00:00" | "-00:00") {
            return Ok(Zone::utc());
        }
        Zone::named(text)?.ok_or_else(|| invalid(text).with_hint(HINT))
    }

    /// The name by which [`Zone::of_statement`] finds this zone: of a zone that an abbreviation is called like, as CET is, it is marked, since
    /// the abbreviation has no summer time.
    pub fn argument(&self) -> String {
        match abbreviations::zone_of(self.name()) {
            Some(_) => format!("{OF_SETTING}{}", self.name()),
            None => self.name().to_owned(),
        }
    }

    /// The zone that `AT TIME ZONE` names, and functions: also an abbreviation, as `PST`, and what [`Zone::argument`] gives.
    pub fn of_statement(text: &str) -> Result<Zone> {
        if let Some(name) = text.strip_prefix(OF_SETTING) {
            return Zone::of_setting(name);
        }
        if let Some(zone) = abbreviations::zone_of(text) {
            return Ok(zone);
        }
        Zone::named(text)?.ok_or_else(|| {
            Error::new(ErrorKind::InvalidSetting, format!("time zone \"{text}\" not recognized")).with_hint(HINT)
        })
    }

    /// The zone of this name, or of this POSIX form; `None` if there is none.
    fn named(text: &str) -> Result<Option<Zone>> {
        if let Some((name, zone)) = names::find(text) {
            return Ok(Some(Zone::new(name.to_owned(), Rules::Database(zone))));
        }
        let upper = text.to_ascii_uppercase();
        let Some(zone) = PosixZone::parse(upper.strip_prefix(':').unwrap_or(&upper)) else { return Ok(None) };
        if zone.standard() % 60 != 0 {
            let message = format!("time zone \"{text}\" appears to use leap seconds");
            return Err(Error::new(ErrorKind::InvalidSetting, message).with_hint("write an offset of whole minutes"));
        }
        let rules = match zone.fixed() {
            Some(offset) => Rules::Fixed(offset),
            None => Rules::Posix(zone),
        };
        Ok(Some(Zone::new(upper, rules)))
    }

    /// So many seconds east of Greenwich, named as PostgreSQL names offsets: `<+02>-02`.
    fn fixed(east: i64) -> Option<Zone> {
        let size = east.abs();
        let (hours, minutes, seconds) = (size / 3_600, size / 60 % 60, size % 60);
        let mut digits = format!("{hours:02}");
        if minutes > 0 || seconds > 0 {
            write!(digits, ":{minutes:02}").ok()?;
        }
        if seconds > 0 {
            write!(digits, ":{seconds:02}").ok()?;
        }
        let name = if east < 0 { format!("<-{digits}>+{digits}") } else { format!("<+{digits}>-{digits}") };
        Some(Zone::new(name, Rules::Fixed(east)))
    }

    /// As SHOW prints it.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether its clocks show UTC, now and ever.
    pub fn is_utc(&self) -> bool {
        match &self.0.rules {
            Rules::Fixed(offset) => *offset == 0,
            Rules::Database(zone) => names::is_utc(*zone),
            Rules::Posix(_) => false,
        }
    }

    /// Seconds by which its clocks are ahead of UTC at a moment.
    pub fn offset_at(&self, moment: i64) -> i64 {
        match &self.0.rules {
            Rules::Fixed(offset) => *offset,
            Rules::Database(zone) => {
                // Before and behind the years that are known nothing changes.
                let utc = DateTime::from_timestamp_micros(moment).unwrap_or(match moment < 0 {
                    true => DateTime::<chrono::Utc>::MIN_UTC,
                    false => DateTime::<chrono::Utc>::MAX_UTC,
                });
                zone.offset_from_utc_datetime(&utc.naive_utc()).fix().local_minus_utc().into()
            }
            Rules::Posix(zone) => zone.at(moment.div_euclid(SECOND)).0,
        }
    }

    /// What its clocks are at a moment.
    pub fn clock_at(&self, moment: i64) -> Clock {
        let offset = self.offset_at(moment);
        match &self.0.rules {
            Rules::Fixed(_) => Clock { offset, abbreviation: self.fixed_abbreviation(), is_summer: false },
            Rules::Database(zone) => {
                let utc = DateTime::from_timestamp_micros(moment).unwrap_or_default().naive_utc();
                let found = zone.offset_from_utc_datetime(&utc);
                let abbreviation = found.abbreviation().map_or_else(|| found.to_string(), str::to_owned);
                Clock { offset, abbreviation, is_summer: !found.dst_offset().is_zero() }
            }
            Rules::Posix(zone) => {
                let (offset, is_summer) = zone.at(moment.div_euclid(SECOND));
                Clock { offset, abbreviation: zone.abbreviation(is_summer).to_owned(), is_summer }
            }
        }
    }

    fn fixed_abbreviation(&self) -> String {
        PosixZone::parse(&self.0.name).map_or_else(|| self.0.name.clone(), |zone| zone.abbreviation(false).to_owned())
    }

    /// The time that its clocks show at a moment; `None` where that is out of range.
    pub fn shown_at(&self, moment: i64) -> Option<i64> {
        moment.checked_add(self.offset_at(moment).checked_mul(SECOND)?)
    }

    /// The moment at which its clocks show a time; `None` where that is out of range.
    pub fn moment_of(&self, shown: i64) -> Option<i64> {
        if let Rules::Fixed(offset) = &self.0.rules {
            return shown.checked_sub(offset.checked_mul(SECOND)?);
        }
        // No two changes of a zone's clocks are within two days of one another.
        let before = self.offset_at(shown.checked_sub(DAY)?);
        let after = self.offset_at(shown.checked_add(DAY)?);
        let (earlier, later) = (shown.checked_sub(before * SECOND)?, shown.checked_sub(after * SECOND)?);
        // Shown twice, it is the later moment, which is by the offset after; shown never, it is by the one before.
        Some(if self.offset_at(later) == after { later } else { earlier })
    }
}

/// Where times begin that are shown from a time on.
impl Zone {
    /// The moment from which on clocks show this time or a later one, before which they show an earlier one. `None` if there is no such
    /// moment, as of a midnight that clocks show twice because they go back at a minute past it.
    pub fn begins(&self, shown: i64) -> Option<i64> {
        let (before, after) = (self.offset_at(shown.checked_sub(DAY)?), self.offset_at(shown.checked_add(DAY)?));
        let (by_before, by_after) = (shown.checked_sub(before * SECOND)?, shown.checked_sub(after * SECOND)?);
        if before == after {
            // A change there and back within two days would be none that is known.
            return (self.offset_at(by_before) == before).then_some(by_before);
        }
        let (is_before, is_after) = (self.offset_at(by_before) == before, self.offset_at(by_after) == after);
        match (is_before, is_after) {
            // Shown twice: all that comes behind the change must be shown no earlier.
            (true, true) => {
                let change = self.change_between(by_before, by_after, before)?;
                (change.checked_add(after * SECOND)? >= shown).then_some(by_before)
            }
            (true, false) => Some(by_before),
            (false, true) => Some(by_after),
            // Never shown: it is passed when clocks go forward.
            (false, false) => self.change_between(by_after, by_before, before),
        }
    }

    /// The moment between two others, of which the first has an offset, from which on clocks have another one.
    fn change_between(&self, mut low: i64, mut high: i64, offset: i64) -> Option<i64> {
        if self.offset_at(low) != offset || self.offset_at(high) == offset {
            return None;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.offset_at(middle) == offset { low = middle } else { high = middle }
        }
        Some(high)
    }
}

const HINT: &str = "write a name of the database of time zones, as in 'Europe/Berlin', an offset, as in -3.5, or 'UTC'";

fn invalid(text: &str) -> Error {
    Error::new(ErrorKind::InvalidSetting, format!("invalid value for parameter \"TimeZone\": \"{text}\""))
}

/// Hours, if the text is a number.
fn hours_of(text: &str) -> Option<f64> {
    let is_number = text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '.'));
    text.parse::<f64>().ok().filter(|hours| is_number && hours.is_finite())
}

fn of_hours(text: &str, hours: f64) -> Result<Zone> {
    let out_of_range = || invalid(text).with_hint("an offset is less than 168 hours");
    if hours.abs() >= HOURS_MAX {
        return Err(out_of_range());
    }
    let east = (hours * 3_600.0) as i64;
    if east % 60 != 0 {
        return Err(invalid(text).with_hint("write an offset of whole minutes"));
    }
    Zone::fixed(east).ok_or_else(out_of_range)
}

/// What stands in the quotes of `INTERVAL '+02:00'`.
fn interval_text(text: &str) -> Option<&str> {
    let (word, rest) = (text.get(..8)?, text.get(8..)?);
    let quoted = rest.trim_start().strip_prefix('\'')?;
    word.eq_ignore_ascii_case("interval").then(|| quoted.split('\'').next())?
}

fn of_interval(text: &str, interval: &str) -> Result<Zone> {
    // A sign before a clock's time belongs to all of it; PostgreSQL's interval is that, too.
    let parts = crate::interval::interval_of(interval.trim());
    let Some((months, days, nanos)) = parts else {
        return Err(invalid(text).with_hint("write INTERVAL '+02:00' HOUR TO MINUTE"));
    };
    if months != 0 {
        return Err(invalid(text).with_hint("cannot specify months in time zone interval"));
    }
    if days != 0 {
        return Err(invalid(text).with_hint("cannot specify days in time zone interval"));
    }
    of_hours(text, nanos as f64 / 3.6e12)
}

/// Writes an offset in seconds as PostgreSQL does behind a time: `+02`, `-03:30`, `+00:53:28`.
pub fn write_offset(out: &mut impl Write, offset: i64) -> std::fmt::Result {
    let (sign, size) = if offset < 0 { ('-', -offset) } else { ('+', offset) };
    write!(out, "{sign}{:02}", size / 3_600)?;
    if size % 3_600 != 0 {
        write!(out, ":{:02}", size / 60 % 60)?;
    }
    if size % 60 != 0 {
        write!(out, ":{:02}", size % 60)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
