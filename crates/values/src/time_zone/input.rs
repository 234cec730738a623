//! Texts of moments, with a zone behind the time, or without one.
//!
//! Invariants, as in PostgreSQL:
//! - A moment without a zone is what clocks of the session show. A TIMESTAMP and a DATE leave a zone out that is written.
//! - A zone is an offset (`+02`, `-0330`, `+05:30:20`), `Z`, an abbreviation or a name.
//! - The date and the time are those of [`crate::parse`].

use super::{SECOND, Zone, abbreviations};
use crate::parse::{Bad, MICROS, date_and_time, date_prefix};

/// A TIMESTAMPTZ: a moment, read in a session of this zone.
pub fn parse_timestamptz(text: &[u8], session: &Zone) -> Result<i64, Bad> {
    let (shown, rest) = date_and_time(text.trim_ascii())?;
    let moment = match written(rest)? {
        Written::Nothing => session.moment_of(shown),
        Written::Offset(seconds) => shown.checked_sub(seconds * SECOND),
        Written::Zone(zone) => zone.moment_of(shown),
    };
    moment.filter(|moment| MICROS.contains(moment)).ok_or(Bad::Range)
}

/// A TIMESTAMP: the time that is written, whatever zone stands behind it.
pub fn parse_timestamp_without_zone(text: &[u8]) -> Result<i64, Bad> {
    let (shown, rest) = date_and_time(text.trim_ascii())?;
    written(rest)?;
    Some(shown).filter(|shown| MICROS.contains(shown)).ok_or(Bad::Range)
}

/// A DATE: the day that is written, whatever time and zone stand behind it.
pub fn parse_date_in_zone(text: &[u8]) -> Result<i32, Bad> {
    parse_timestamp_without_zone(text)?;
    date_prefix(text.trim_ascii()).map(|(days, _)| days)
}

/// The zone behind a time.
enum Written {
    Nothing,
    /// Seconds east of Greenwich.
    Offset(i64),
    Zone(Zone),
}

fn written(text: &[u8]) -> Result<Written, Bad> {
    let text = text.trim_ascii();
    match text.first() {
        None => Ok(Written::Nothing),
        Some(b'+' | b'-') => offset(text).map(Written::Offset),
        Some(first) if first.is_ascii_alphabetic() => {
            if text.eq_ignore_ascii_case(b"z") || text.eq_ignore_ascii_case(b"utc") {
                return Ok(Written::Offset(0));
            }
            let name = std::str::from_utf8(text).map_err(|_| Bad::Utf8)?;
            let zone = abbreviations::zone_of(name).map_or_else(|| Zone::named(name), |zone| Ok(Some(zone)));
            zone.ok().flatten().map(Written::Zone).ok_or(Bad::Form)
        }
        Some(_) => Err(Bad::Form),
    }
}

/// Seconds of `+h`, `+hh`, `+hhmm`, `+hh:mm` or `+hh:mm:ss`.
fn offset(text: &[u8]) -> Result<i64, Bad> {
    let (sign, digits) = text.split_first().ok_or(Bad::Form)?;
    let digits = std::str::from_utf8(digits).map_err(|_| Bad::Form)?;
    let two = |text: &str| -> Result<i64, Bad> {
        let is_number = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { text.parse().map_err(|_| Bad::Form) } else { Err(Bad::Form) }
    };
    let mut parts = [0_i64; 3];
    match digits.contains(':') {
        true => {
            let mut given = digits.split(':');
            for part in &mut parts {
                let Some(text) = given.next() else { break };
                *part = two(text)?;
            }
            if given.next().is_some() {
                return Err(Bad::Form);
            }
        }
        false if digits.len() > 2 => {
            let (hours, minutes) = digits.split_at_checked(digits.len() - 2).ok_or(Bad::Form)?;
            (parts[0], parts[1]) = (two(hours)?, two(minutes)?);
        }
        false => parts[0] = two(digits)?,
    }
    let [hours, minutes, seconds] = parts;
    if hours > 15 || minutes > 59 || seconds > 59 {
        return Err(Bad::Range);
    }
    let size = hours * 3_600 + minutes * 60 + seconds;
    Ok(if *sign == b'-' { -size } else { size })
}
