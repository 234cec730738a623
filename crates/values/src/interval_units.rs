//! Texts of intervals in words that DataFusion's parser reads: clock times, ISO 8601, units by their names.

use crate::interval::interval_of;

/// A text of an interval in numbers and units; `None` if it has no part that planning does not read.
pub fn in_units(text: &str) -> Option<String> {
    if let Some(written) = of_iso(text.trim()) {
        return Some(written);
    }
    if lacks_unit(text) {
        let (months, days, nanos) = interval_of(text)?;
        return Some(format!("{months} months {days} days {} microseconds", nanos / 1_000));
    }
    let mut parts = Vec::new();
    let mut sign = "";
    let mut is_changed = false;
    let mut is_over = false;
    for word in text.split_whitespace() {
        if std::mem::replace(&mut is_over, word.eq_ignore_ascii_case("ago")) {
            return None;
        }
        if word == "+" || word == "-" {
            (sign, is_changed) = (if word == "-" { "-" } else { "" }, true);
        } else if word.contains(':') {
            parts.push(of_clock(word, std::mem::take(&mut sign))?);
            is_changed = true;
        } else if is_over {
            parts = parts.iter().map(|part| negated(part)).collect();
            is_changed = true;
        } else {
            parts.push(format!("{}{word}", std::mem::take(&mut sign)));
        }
    }
    (is_changed && sign.is_empty() && !parts.is_empty()).then(|| parts.join(" "))
}

/// Whether a number stands there without a unit, or years with months do.
fn lacks_unit(text: &str) -> bool {
    let is_bare = |word: &str| {
        let digits = word.trim_start_matches(['+', '-']);
        let is_number = |of: char| of.is_ascii_digit() || matches!(of, '.' | '-');
        digits.chars().all(is_number) && digits.contains(|of: char| of.is_ascii_digit())
    };
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let has_unit = words.peek().is_some_and(|next| next.starts_with(|of: char| of.is_ascii_alphabetic()));
        if is_bare(word) && (!has_unit || word.trim_start_matches(['+', '-']).contains('-')) {
            return true;
        }
    }
    false
}

/// `hh:mm[:ss[.fraction]]`, whose sign is that of all of it.
fn of_clock(word: &str, before: &str) -> Option<String> {
    let (own, digits) = match word.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", word.strip_prefix('+').unwrap_or(word)),
    };
    let sign = if before == own { "" } else { "-" };
    let fields: Vec<&str> = digits.split(':').collect();
    let is_whole = |field: &&str| !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit());
    let (&hours, &minutes) = (fields.first()?, fields.get(1)?);
    let seconds = fields.get(2).copied().unwrap_or("0");
    let is_number = seconds.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && seconds.parse::<f64>().is_ok();
    let is_clock = fields.len() <= 3 && [hours, minutes].iter().all(is_whole) && is_number;
    let is_within = minutes.parse::<u32>().is_ok_and(|of| of < 60) && seconds.parse::<f64>().is_ok_and(|of| of < 60.0);
    (is_clock && is_within).then(|| format!("{sign}{hours} hours {sign}{minutes} minutes {sign}{seconds} seconds"))
}

fn negated(part: &str) -> String {
    let is_number = |word: &str| word.trim_start_matches('.').starts_with(|first: char| first.is_ascii_digit());
    let negate = |word: &str| match (word.strip_prefix('-'), word.strip_prefix('+').unwrap_or(word)) {
        (Some(digits), _) => digits.to_owned(),
        (None, digits) if is_number(digits) => format!("-{digits}"),
        (None, word) => word.to_owned(),
    };
    part.split(' ').map(negate).collect::<Vec<String>>().join(" ")
}

/// `P1Y2M3W4DT5H6M7.5S`.
pub(crate) fn of_iso(text: &str) -> Option<String> {
    let mut rest = text.strip_prefix('P')?;
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
