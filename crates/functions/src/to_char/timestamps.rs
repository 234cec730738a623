//! Moments, times of day and lengths of time, written as a template says.
//!
//! Invariants:
//! - A pattern is written as PostgreSQL 15 writes it: names of months and days filled with blanks to nine characters, numbers with zeros, unless
//!   `FM` stands before it; `th` and `TH` behind a number make it the first, the second.
//! - What a length of time has not, a name of a day, an era or a zone, is refused with PostgreSQL's words.
//! - A template with a `%` is a form of `strftime`, of a moment and of a time of day, as it has always been here.

use super::fields::{FieldSource, Fields};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::templates::literals::{Piece, after_text, key, ordinal};
use alluvia_values::time_zone::Clock;
use chrono::format::StrftimeItems;
use std::fmt::Write;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
/// Months in Roman numbers.
const ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];
/// Characters that a name is filled to.
const NAME_WIDTH: usize = 9;

/// How letters are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Upper,
    Capital,
    Lower,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Era {
        has_points: bool,
    },
    Half {
        has_points: bool,
    },
    Century,
    Day,
    ShortDay,
    DayOfYear,
    DayOfMonth,
    DayOfWeek,
    IsoDayOfYear,
    IsoDayOfWeek,
    /// Digits of a second, so many of them.
    Fraction(u32),
    /// `FX`, which writes nothing.
    Nothing,
    Hour,
    HourOfHalf,
    Week,
    IsoWeek,
    WeekOfMonth,
    Julian,
    Minute,
    MonthNumber,
    Month,
    ShortMonth,
    RomanMonth,
    Offset,
    OffsetHours,
    OffsetMinutes,
    Zone,
    Quarter,
    SecondOfDay,
    Second,
    /// A year with so many digits, 1 to 4.
    Year(u32),
    IsoYear(u32),
    /// `Y,YYY`.
    ThousandYear,
}

/// A pattern with what is around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pattern {
    what: What,
    case: Case,
    /// `FM`.
    is_unfilled: bool,
    /// `TM`: names of the client's language, which is English.
    is_translated: bool,
    /// `th` or `TH`.
    ordinal: Option<Case>,
}

/// Patterns that are written in capitals or in small letters. Of two that begin alike the longer one comes first.
const KEYS: [(&str, What); 51] = [
    ("A.D.", What::Era { has_points: true }),
    ("A.M.", What::Half { has_points: true }),
    ("AD", What::Era { has_points: false }),
    ("AM", What::Half { has_points: false }),
    ("B.C.", What::Era { has_points: true }),
    ("BC", What::Era { has_points: false }),
    ("CC", What::Century),
    ("DAY", What::Day),
    ("DDD", What::DayOfYear),
    ("DD", What::DayOfMonth),
    ("DY", What::ShortDay),
    ("D", What::DayOfWeek),
    ("FF1", What::Fraction(1)),
    ("FF2", What::Fraction(2)),
    ("FF3", What::Fraction(3)),
    ("FF4", What::Fraction(4)),
    ("FF5", What::Fraction(5)),
    ("FF6", What::Fraction(6)),
    ("FX", What::Nothing),
    ("HH24", What::Hour),
    ("HH12", What::HourOfHalf),
    ("HH", What::HourOfHalf),
    ("IDDD", What::IsoDayOfYear),
    ("ID", What::IsoDayOfWeek),
    ("IW", What::IsoWeek),
    ("IYYY", What::IsoYear(4)),
    ("IYY", What::IsoYear(3)),
    ("IY", What::IsoYear(2)),
    ("I", What::IsoYear(1)),
    ("J", What::Julian),
    ("MI", What::Minute),
    ("MM", What::MonthNumber),
    ("MONTH", What::Month),
    ("MON", What::ShortMonth),
    ("MS", What::Fraction(3)),
    ("OF", What::Offset),
    ("P.M.", What::Half { has_points: true }),
    ("PM", What::Half { has_points: false }),
    ("Q", What::Quarter),
    ("RM", What::RomanMonth),
    ("SSSSS", What::SecondOfDay),
    ("SSSS", What::SecondOfDay),
    ("SS", What::Second),
    ("TZH", What::OffsetHours),
    ("TZM", What::OffsetMinutes),
    ("TZ", What::Zone),
    ("US", What::Fraction(6)),
    ("WW", What::Week),
    ("W", What::WeekOfMonth),
    ("Y,YYY", What::ThousandYear),
    ("YYYY", What::Year(4)),
];
/// The years that are left, behind the longer ones.
const YEARS: [(&str, What); 3] = [("YYY", What::Year(3)), ("YY", What::Year(2)), ("Y", What::Year(1))];
/// Names that begin with a capital.
const CAPITALS: [(&str, What); 4] =
    [("Day", What::Day), ("Dy", What::ShortDay), ("Month", What::Month), ("Mon", What::ShortMonth)];

/// A template of moments, times of day and lengths of time.
#[derive(Debug)]
pub(super) struct TimestampTemplate {
    pieces: Vec<Piece<Pattern>>,
    /// What it is as a form of `strftime`, if it may be one.
    form: Option<String>,
}

impl TimestampTemplate {
    pub fn parse(template: &str) -> TimestampTemplate {
        let (mut pieces, mut rest) = (Vec::new(), template);
        while !rest.is_empty() {
            let (mut is_unfilled, mut is_translated) = (false, false);
            if let Some((prefix, behind)) = key(rest, &[("FM", 'F'), ("fm", 'F'), ("TM", 'T'), ("tm", 'T')]) {
                (is_unfilled, is_translated) = (prefix == 'F', prefix == 'T');
                rest = behind;
            }
            let Some((what, case, behind)) = pattern(rest) else {
                // A prefix that nothing follows is gone.
                if !rest.is_empty() {
                    rest = after_text(rest, &mut pieces);
                }
                continue;
            };
            let suffixes = [("TH", Some(Case::Upper)), ("th", Some(Case::Lower)), ("SP", None)];
            let (ordinal, behind) = key(behind, &suffixes).unwrap_or((None, behind));
            pieces.push(Piece::Key(Pattern { what, case, is_unfilled, is_translated, ordinal }));
            rest = behind;
        }
        TimestampTemplate { pieces, form: template.contains('%').then(|| template.to_owned()) }
    }

    /// A value as the template says, of clocks of a zone.
    pub fn written(&self, fields: &Fields, clock: &Clock) -> Result<String> {
        let mut made = String::new();
        if let Some(form) = self.form.as_ref().filter(|_| fields.of != FieldSource::Span) {
            return by_form(form, fields);
        }
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => made.push_str(text),
                Piece::Key(pattern) => {
                    let text = pattern.of(fields, clock)?;
                    made.push_str(&text);
                    if let Some(case) = pattern.ordinal.filter(|_| pattern.what.is_counted() && !text.is_empty()) {
                        made.push_str(ordinal(&text, case == Case::Upper));
                    }
                }
            }
        }
        Ok(made)
    }
}

/// What a template begins with, its case, and what follows it.
fn pattern(rest: &str) -> Option<(What, Case, &str)> {
    if let Some((what, behind)) = key(rest, &CAPITALS) {
        return Some((what, Case::Capital, behind));
    }
    if let Some((what, behind)) = key(rest, &KEYS).or_else(|| key(rest, &YEARS)) {
        return Some((what, Case::Upper, behind));
    }
    let small = |(name, what): &(&str, What)| {
        let begins = name.bytes().zip(rest.bytes()).filter(|(upper, byte)| upper.to_ascii_lowercase() == *byte).count();
        if begins < name.len() {
            return None;
        }
        rest.get(name.len()..).map(|behind| (*what, Case::Lower, behind))
    };
    KEYS.iter().chain(&YEARS).find_map(small)
}

impl What {
    /// Whether what it writes is a number that may be an ordinal.
    fn is_counted(self) -> bool {
        !matches!(
            self,
            What::Era { .. }
                | What::Half { .. }
                | What::Day
                | What::ShortDay
                | What::Month
                | What::ShortMonth
                | What::RomanMonth
                | What::Nothing
                | What::Offset
                | What::OffsetHours
                | What::OffsetMinutes
                | What::Zone
        )
    }

    /// Whether a length of time has none of it.
    fn is_of_moments(self) -> bool {
        matches!(
            self,
            What::Era { .. }
                | What::Day
                | What::ShortDay
                | What::Month
                | What::ShortMonth
                | What::DayOfWeek
                | What::IsoDayOfWeek
                | What::Offset
                | What::OffsetHours
                | What::OffsetMinutes
                | What::Zone
        )
    }
}

impl Pattern {
    fn of(&self, fields: &Fields, clock: &Clock) -> Result<String> {
        if fields.is_duration() && self.what.is_of_moments() {
            let error = Error::new(ErrorKind::InvalidValue, "invalid format specification for an interval value");
            return Err(error.with_hint("intervals are not tied to specific calendar dates"));
        }
        let number = |value: i64, width: usize| self.filled(value, width);
        let (sign, offset) = if clock.offset < 0 { ('-', -clock.offset) } else { ('+', clock.offset) };
        // Years before the first are counted down from it; those of a span are its own.
        let shown_year = |year: i64| if fields.is_duration() || year > 0 { year } else { 1 - year };
        Ok(match self.what {
            What::Era { has_points } => {
                let era = match (fields.year > 0, has_points) {
                    (true, true) => "A.D.",
                    (true, false) => "AD",
                    (false, true) => "B.C.",
                    (false, false) => "BC",
                };
                self.cased(era)
            }
            What::Half { has_points } => {
                let half = match (fields.hour % 24 >= 12, has_points) {
                    (true, true) => "P.M.",
                    (true, false) => "PM",
                    (false, true) => "A.M.",
                    (false, false) => "AM",
                };
                self.cased(half)
            }
            What::Century => {
                let century = match fields.year {
                    year if fields.is_duration() => year / 100,
                    year if year > 0 => (year - 1) / 100 + 1,
                    year => year / 100 - 1,
                };
                if century.abs() <= 99 { number(century, 2) } else { century.to_string() }
            }
            What::Day => self.name(day_name(fields), true),
            What::ShortDay => self.name(short(day_name(fields)), false),
            What::DayOfYear => number_of_days(fields.day_of_year, self.is_unfilled),
            What::IsoDayOfYear => number_of_days(fields.iso_year().1 + 1, self.is_unfilled),
            What::DayOfMonth => unsigned(fields.day, 2, self.is_unfilled),
            What::DayOfWeek => (fields.weekday + 1).to_string(),
            What::IsoDayOfWeek => (if fields.weekday == 0 { 7 } else { fields.weekday }).to_string(),
            What::Fraction(digits) => {
                let value = fields.micros / 10_i64.pow(6 - digits.min(6));
                unsigned(value, digits as usize, false)
            }
            What::Nothing => String::new(),
            What::Hour => self.by_hour(fields.hour, fields.hour),
            What::HourOfHalf => {
                let hour = fields.hour % 12;
                self.by_hour(if hour == 0 { 12 } else { hour }, fields.hour)
            }
            What::Minute => number(fields.minute, 2),
            What::Second => number(fields.second, 2),
            What::SecondOfDay => (fields.hour * 3_600 + fields.minute * 60 + fields.second).to_string(),
            What::Week => unsigned((fields.day_of_year - 1) / 7 + 1, 2, self.is_unfilled),
            What::IsoWeek => unsigned(fields.iso_year().1 / 7 + 1, 2, self.is_unfilled),
            What::WeekOfMonth => ((fields.day - 1) / 7 + 1).to_string(),
            What::Julian => fields.julian_day().to_string(),
            What::MonthNumber => number(fields.month, 2),
            What::Month => self.name(month_name(fields), true),
            What::ShortMonth => self.name(short(month_name(fields)), false),
            What::RomanMonth => self.roman_month(fields),
            What::Quarter if fields.month == 0 => String::new(),
            What::Quarter => ((fields.month - 1) / 3 + 1).to_string(),
            // A TIMESTAMP has no zone, and its offset is none either.
            What::Offset => {
                let hours = offset / 3_600;
                let minutes = if offset % 3_600 == 0 { String::new() } else { format!(":{:02}", offset / 60 % 60) };
                if self.is_unfilled { format!("{sign}{hours}{minutes}") } else { format!("{sign}{hours:02}{minutes}") }
            }
            What::OffsetHours => format!("{sign}{:02}", offset / 3_600),
            What::OffsetMinutes => format!("{:02}", offset / 60 % 60),
            What::Zone if fields.of == FieldSource::Unzoned => String::new(),
            What::Zone => self.cased(&clock.abbreviation),
            What::Year(digits) => self.year(shown_year(fields.year), digits),
            What::IsoYear(digits) => self.year(shown_year(fields.iso_year().0), digits),
            What::ThousandYear => {
                let year = shown_year(fields.year);
                format!("{},{}", year / 1_000, unsigned(year % 1_000, 3, false))
            }
        })
    }

    fn cased(&self, text: &str) -> String {
        match self.case {
            Case::Upper => text.to_ascii_uppercase(),
            Case::Capital => text.to_owned(),
            Case::Lower => text.to_ascii_lowercase(),
        }
    }

    fn name(&self, name: &str, is_filled: bool) -> String {
        let width = if is_filled && !self.is_unfilled && !self.is_translated { NAME_WIDTH } else { 0 };
        format!("{:<width$}", self.cased(name))
    }

    /// A number with so many digits, and a sign more if it is negative.
    fn filled(&self, value: i64, width: usize) -> String {
        self.by_sign(value, width, value)
    }

    /// An hour, whose width is that of what it was taken from.
    fn by_hour(&self, value: i64, hour: i64) -> String {
        self.by_sign(value, 2, hour)
    }

    fn by_sign(&self, value: i64, width: usize, of: i64) -> String {
        unsigned(value, if of >= 0 { width } else { width + 1 }, self.is_unfilled)
    }

    fn year(&self, year: i64, digits: u32) -> String {
        match digits {
            1 => (year % 10).to_string(),
            2 | 3 => self.by_sign(year % 10_i64.pow(digits), digits as usize, year),
            _ => self.filled(year, 4),
        }
    }

    fn roman_month(&self, fields: &Fields) -> String {
        let last = ROMAN.len() as i64 - 1;
        let at = match (fields.month, fields.year) {
            (0, 0) => return String::new(),
            (0, year) if year > 0 => last,
            (0, _) => 0,
            (month, _) if month < 0 => last + 1 + month,
            (month, _) => month - 1,
        };
        let month = usize::try_from(at).ok().and_then(|at| ROMAN.get(at)).copied().unwrap_or_default();
        let width = if self.is_unfilled { 0 } else { 4 };
        format!("{:<width$}", self.cased(month))
    }
}

/// A number filled with zeros, its sign among so many characters.
fn unsigned(value: i64, width: usize, is_unfilled: bool) -> String {
    let width = if is_unfilled { 0 } else { width };
    format!("{value:0width$}")
}

fn number_of_days(days: i64, is_unfilled: bool) -> String {
    unsigned(days, 3, is_unfilled)
}

fn day_name(fields: &Fields) -> &'static str {
    usize::try_from(fields.weekday).ok().and_then(|day| DAYS.get(day)).copied().unwrap_or_default()
}

fn month_name(fields: &Fields) -> &'static str {
    usize::try_from(fields.month - 1).ok().and_then(|month| MONTHS.get(month)).copied().unwrap_or_default()
}

fn short(name: &str) -> &str {
    name.get(..3).unwrap_or(name)
}

/// A value as a form of `strftime` says.
fn by_form(form: &str, fields: &Fields) -> Result<String> {
    let refused = || {
        let error =
            Error::new(ErrorKind::InvalidSetting, format!("the template {form} has what no form of strftime is"));
        error.with_hint("write '%Y-%m-%d %H:%M:%S', or a template without a percent sign: 'YYYY-MM-DD HH24:MI:SS'")
    };
    let items = StrftimeItems::new(form);
    let mut made = String::new();
    let done = match (fields.moment(), fields.time()) {
        (Some(moment), _) if fields.of == FieldSource::Unzoned => {
            write!(made, "{}", moment.naive_utc().format_with_items(items))
        }
        (Some(moment), _) => write!(made, "{}", moment.format_with_items(items)),
        (None, Some(time)) => write!(made, "{}", time.format_with_items(items)),
        (None, None) => Err(std::fmt::Error),
    };
    done.map(|()| made).map_err(|_| refused())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a template is made of: patterns with their cases, and what stands for itself.
    fn parsed(template: &str) -> Vec<(Option<(What, Case)>, String)> {
        let pieces = TimestampTemplate::parse(template).pieces.into_iter();
        let shown = pieces.map(|piece| match piece {
            Piece::Text(text) => (None, text),
            Piece::Key(pattern) => {
                let prefix = if pattern.is_unfilled { "FM" } else { "" };
                let suffix = pattern.ordinal.map_or("", |case| if case == Case::Upper { "TH" } else { "th" });
                (Some((pattern.what, pattern.case)), format!("{prefix}{suffix}"))
            }
        });
        shown.collect()
    }

    #[test]
    fn the_longest_pattern_counts_in_its_case() {
        let key = |what: What, case: Case, around: &str| (Some((what, case)), around.to_owned());
        let text = |text: &str| -> (Option<(What, Case)>, String) { (None, text.to_owned()) };
        for (template, expected) in [
            ("", vec![]),
            ("YYYY-MM", vec![key(What::Year(4), Case::Upper, ""), text("-"), key(What::MonthNumber, Case::Upper, "")]),
            ("FMDDth", vec![key(What::DayOfMonth, Case::Upper, "FMth")]),
            ("DDDTH", vec![key(What::DayOfYear, Case::Upper, "TH")]),
            ("Day", vec![key(What::Day, Case::Capital, "")]),
            ("DaY", vec![key(What::DayOfWeek, Case::Upper, ""), text("a"), key(What::Year(1), Case::Upper, "")]),
            ("hh24", vec![key(What::Hour, Case::Lower, "")]),
            ("Hh24", vec![text("Hh24")]),
            ("mon", vec![key(What::ShortMonth, Case::Lower, "")]),
            ("y,yyy", vec![key(What::ThousandYear, Case::Lower, "")]),
            ("Y,YY", vec![key(What::Year(1), Case::Upper, ""), text(","), key(What::Year(2), Case::Upper, "")]),
            ("a.m.", vec![key(What::Half { has_points: true }, Case::Lower, "")]),
            ("SSSSSS", vec![key(What::SecondOfDay, Case::Upper, ""), text("S")]),
            ("\"DD\"DD", vec![text("DD"), key(What::DayOfMonth, Case::Upper, "")]),
            // A prefix that no pattern follows is gone, and a suffix behind none stands for itself.
            ("FM-", vec![text("-")]),
            ("DDSPx", vec![key(What::DayOfMonth, Case::Upper, ""), text("x")]),
            ("th", vec![text("th")]),
        ] {
            assert_eq!(parsed(template), expected, "{template}");
        }
    }
}
