//! POSIX' form of a time zone: `EST5EDT,M3.2.0,M11.1.0`, `<+05>-5`, `UTC+3`.
//!
//! Invariants:
//! - Offsets that are written count west of Greenwich; those that are given count east.
//! - As in PostgreSQL a name may be missing (`+02:00`), and a summer time without rules has those of the United States since 2007.

use alluvia_space::codes::calendar::{civil, days_of};

/// The rules of a summer time for which none are written.
const DEFAULT_RULES: &str = ",M3.2.0,M11.1.0";
const DAY_SECONDS: i64 = 86_400;
/// Offsets are below a week.
const HOURS_MAX: i64 = 24 * 7 - 1;

/// A zone of this form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PosixZone {
    name: String,
    /// Seconds east of Greenwich.
    offset: i64,
    summer: Option<Summer>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Summer {
    name: String,
    offset: i64,
    begin: Change,
    end: Change,
}

/// When clocks change: a day of each year, and seconds from its midnight on, by the clocks before the change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Change {
    day: Day,
    seconds: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Day {
    /// `Jn`: the 1st to the 365th day; the 29th of February is none.
    WithoutLeap(i64),
    /// `n`: days since the 1st of January.
    SinceNewYear(i64),
    /// `Mm.w.d`: the day of the week in the w-th such week of the month; the fifth is the last.
    OfMonth { month: u32, week: i64, day: i64 },
}

impl PosixZone {
    pub(super) fn parse(text: &str) -> Option<PosixZone> {
        let (name, rest) = name_of(text)?;
        let (west, rest) = offset_of(rest)?;
        let offset = -west;
        if rest.is_empty() {
            return Some(PosixZone { name: name.to_owned(), offset, summer: None });
        }
        let (summer_name, rest) = name_of(rest).filter(|(name, _)| !name.is_empty())?;
        let (summer_offset, rest) = match rest.as_bytes().first() {
            None | Some(b',' | b';') => (offset + 3_600, rest),
            Some(_) => offset_of(rest).map(|(west, rest)| (-west, rest))?,
        };
        let rules = if rest.is_empty() { DEFAULT_RULES } else { rest };
        let (begin, rules) = change_of(rules.strip_prefix([',', ';'])?)?;
        let (end, rules) = change_of(rules.strip_prefix(',')?)?;
        let summer = Summer { name: summer_name.to_owned(), offset: summer_offset, begin, end };
        rules.is_empty().then(|| PosixZone { name: name.to_owned(), offset, summer: Some(summer) })
    }

    /// Seconds east of Greenwich outside of summer time.
    pub(super) fn standard(&self) -> i64 {
        self.offset
    }

    /// The offset, if there is but one.
    pub(super) fn fixed(&self) -> Option<i64> {
        self.summer.is_none().then_some(self.offset)
    }

    pub(super) fn abbreviation(&self, is_summer: bool) -> &str {
        match &self.summer {
            Some(summer) if is_summer => &summer.name,
            _ => &self.name,
        }
    }

    /// The offset at a moment in seconds, and whether it is that of summer time.
    pub(super) fn at(&self, moment: i64) -> (i64, bool) {
        let Some(summer) = &self.summer else { return (self.offset, false) };
        let (year, ..) = civil(moment.saturating_add(self.offset).div_euclid(DAY_SECONDS));
        let begin = summer.begin.seconds_in(year) - self.offset;
        let end = summer.end.seconds_in(year) - summer.offset;
        let is_summer = if begin < end { (begin..end).contains(&moment) } else { !(end..begin).contains(&moment) };
        (if is_summer { summer.offset } else { self.offset }, is_summer)
    }
}

impl Change {
    /// When it is in a year, in seconds since 1970 as clocks show them before it.
    fn seconds_in(self, year: i64) -> i64 {
        let new_year = days_of(year, 1, 1);
        let day = match self.day {
            Day::SinceNewYear(days) => new_year + days,
            Day::WithoutLeap(day) => {
                let is_leap = days_of(year + 1, 1, 1) - new_year == 366;
                new_year + day - 1 + i64::from(is_leap && day >= 60)
            }
            Day::OfMonth { month, week, day } => {
                let first = days_of(year, month, 1);
                let next = if month == 12 { days_of(year + 1, 1, 1) } else { days_of(year, month + 1, 1) };
                // 1970 began with a Thursday.
                let weekday = (first + 4).rem_euclid(7);
                let mut found = first + (day - weekday).rem_euclid(7) + 7 * (week - 1);
                while found >= next {
                    found -= 7;
                }
                found
            }
        };
        day * DAY_SECONDS + self.seconds
    }
}

/// A name, in angles or of letters alone, and what follows it. It may be empty.
fn name_of(text: &str) -> Option<(&str, &str)> {
    if let Some(rest) = text.strip_prefix('<') {
        return rest.split_once('>');
    }
    let is_end = |byte: u8| byte.is_ascii_digit() || matches!(byte, b',' | b';' | b'-' | b'+');
    let end = text.bytes().position(is_end).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let is_name = name.is_empty() || name.len() >= 3 && name.bytes().all(|byte| byte.is_ascii_alphabetic());
    is_name.then_some((name, rest))
}

/// Seconds of `[+-]h[hh][:mm[:ss]]`, and what follows.
fn offset_of(text: &str) -> Option<(i64, &str)> {
    let (sign, text) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let (hours, mut rest) = number(text, 0, HOURS_MAX)?;
    let mut seconds = hours * 3_600;
    for each in [60, 1] {
        let Some(after) = rest.strip_prefix(':') else { break };
        let (count, after) = number(after, 0, 59)?;
        (seconds, rest) = (seconds + count * each, after);
    }
    Some((sign * seconds, rest))
}

fn change_of(text: &str) -> Option<(Change, &str)> {
    let (day, rest) = match text.as_bytes().first()? {
        b'J' => {
            let (day, rest) = number(&text[1..], 1, 365)?;
            (Day::WithoutLeap(day), rest)
        }
        b'M' => {
            let (month, rest) = number(&text[1..], 1, 12)?;
            let (week, rest) = number(rest.strip_prefix('.')?, 1, 5)?;
            let (day, rest) = number(rest.strip_prefix('.')?, 0, 6)?;
            (Day::OfMonth { month: u32::try_from(month).ok()?, week, day }, rest)
        }
        _ => {
            let (day, rest) = number(text, 0, 365)?;
            (Day::SinceNewYear(day), rest)
        }
    };
    match rest.strip_prefix('/') {
        Some(time) => offset_of(time).map(|(seconds, rest)| (Change { day, seconds }, rest)),
        None => Some((Change { day, seconds: 2 * 3_600 }, rest)),
    }
}

fn number(text: &str, least: i64, most: i64) -> Option<(i64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let value = text[..digits].parse::<i64>().ok().filter(|value| (least..=most).contains(value))?;
    Some((value, &text[digits..]))
}
