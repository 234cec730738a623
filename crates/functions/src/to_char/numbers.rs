//! Numbers, written as a template says.
//!
//! Invariants:
//! - A number that PostgreSQL has as NUMERIC is rounded away from zero where two are equally near, and a float as C's `printf` rounds it: by all
//!   of its binary digits. No more digits of a float are shown than it is sure of: 15, or 6 of a REAL.
//! - A number that has more digits before its point than the template is shown as `#` for each digit of the template.
//! - The writing goes by PostgreSQL's steps, one for each pattern, so that what it does where a template is odd is done here, too. Its texts end
//!   where it writes the end of the digits as a digit, and so do these.

use alluvia_values::templates::literals::{Piece, ordinal};
use alluvia_values::templates::picture::{Anchor, Key, Picture};
use std::borrow::Cow;

/// Digits that floats are sure of.
const DOUBLE_DIGITS: usize = 15;
const SINGLE_DIGITS: usize = 6;
/// No float has more digits behind its first; Rust formats up to 65,535.
const FLOAT_PLACES_MAX: usize = 1_100;
/// The widest Roman number, MMMDCCCLXXXVIII.
const ROMAN_WIDTH: usize = 15;
const ROMAN_MAX: i64 = 3_999;

/// A number, by what PostgreSQL has it as.
#[derive(Debug, Clone)]
pub enum Number {
    /// An INT, whose powers are those of a float.
    Short(i32),
    /// Any other integer, and what has a decimal point: `-12.50`.
    Exact(String),
    /// A DOUBLE, of which 15 significant digits are shown.
    Double(f64),
    /// A REAL, of which 6 significant digits are shown.
    Single(f32),
}

impl Number {
    /// A float that PostgreSQL has as NUMERIC.
    pub fn exact(value: f64) -> Number {
        // What a float is shown as has all digits, and no power of ten.
        if value.is_finite() { Number::Exact(value.to_string()) } else { Number::Double(value) }
    }

    pub(super) fn exact_single(value: f32) -> Number {
        if value.is_finite() { Number::Exact(value.to_string()) } else { Number::Single(value) }
    }
}

/// The number as the template says.
pub fn written(picture: &Picture, number: &Number) -> String {
    if picture.is_roman {
        return Writing::new(picture, picture.fraction, false, &roman(number), 0).all();
    }
    if picture.is_scientific {
        return scientific(picture, number);
    }
    let fraction = match number {
        Number::Short(_) | Number::Exact(_) => picture.fraction,
        Number::Double(value) => sure_places(picture, *value, DOUBLE_DIGITS),
        Number::Single(value) => sure_places(picture, f64::from(*value), SINGLE_DIGITS),
    };
    let (is_negative, digits) = match number {
        Number::Short(value) => nearest(&value.to_string(), picture.shift, fraction),
        Number::Exact(text) => nearest(text, picture.shift, fraction),
        Number::Double(value) => of_float(shifted(picture, *value), fraction),
        Number::Single(value) => of_float(shifted(picture, f64::from(*value)), fraction),
    };
    let whole = picture.whole + picture.shift;
    let before = digits.find('.').unwrap_or(digits.len());
    if before > whole {
        let hidden = format!("{}.{}", "#".repeat(whole), "#".repeat(fraction));
        return Writing::new(picture, fraction, is_negative, &hidden, 0).all();
    }
    Writing::new(picture, fraction, is_negative, &digits, whole - before).all()
}

/// Whether a number that is written out in digits is negative, and its digits: times ten so many times, with so many behind the point.
pub fn nearest(text: &str, shift: usize, fraction: usize) -> (bool, String) {
    let (is_negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (whole, behind) = digits.split_once('.').unwrap_or((digits, ""));
    let mut all: Vec<u8> = whole.bytes().chain(behind.bytes()).collect();
    // As many digits as there are before the point, and those behind it that stay.
    let point = whole.len() + shift;
    let kept = point + fraction;
    let is_up = all.get(kept).is_some_and(|digit| *digit >= b'5');
    all.resize(kept, b'0');
    if is_up {
        increment(&mut all);
    }
    let carried = all.len() - kept;
    let (whole, behind) = all.split_at(point + carried);
    let first = whole.iter().position(|digit| *digit != b'0').unwrap_or(whole.len().saturating_sub(1));
    let is_zero = all.iter().all(|digit| *digit == b'0');
    let text = |digits: &[u8]| digits.iter().map(|digit| char::from(*digit)).collect::<String>();
    let mut made = text(whole.get(first..).unwrap_or_default());
    if made.is_empty() {
        made.push('0');
    }
    if fraction > 0 {
        made.push('.');
        made.push_str(&text(behind));
    }
    (is_negative && !is_zero, made)
}

/// One more in the last place; there may be a digit more.
fn increment(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
    digits.insert(0, b'1');
}

/// The same of a float.
fn of_float(value: f64, places: usize) -> (bool, String) {
    let text = printed(value, places);
    match text.strip_prefix('-') {
        Some(digits) => (true, digits.to_owned()),
        None => (false, text),
    }
}

fn shifted(picture: &Picture, value: f64) -> f64 {
    if picture.has_shift { value * 10_f64.powf(picture.shift as f64) } else { value }
}

/// Digits behind the point of the template that a float has: no more than it is sure of.
fn sure_places(picture: &Picture, value: f64, sure: usize) -> usize {
    let before = printed(shifted(picture, value).abs(), 0).len();
    picture.fraction.min(sure.saturating_sub(before))
}

/// A float as `printf` prints it.
fn printed(value: f64, places: usize) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value < 0.0 { "-Infinity".to_owned() } else { "Infinity".to_owned() }
    } else {
        format!("{value:.places$}")
    }
}

/// A number with a power of ten: ` 1.20e+03`. There is nothing else in such a template that is written.
fn scientific(picture: &Picture, number: &Number) -> String {
    let places = picture.fraction;
    let by_float = |value: f64| {
        if !value.is_finite() {
            return format!(" {}.{}", "#".repeat(picture.whole), "#".repeat(places + 4));
        }
        let exact = places.min(FLOAT_PLACES_MAX);
        let text = format!("{value:.exact$e}");
        let (digits, power) = text.split_once('e').unwrap_or((text.as_str(), "0"));
        let filled = format!("{}{}", digits.trim_start_matches('-'), "0".repeat(places - exact));
        with_power(digits.starts_with('-'), &filled, power.parse().unwrap_or(0))
    };
    match number {
        Number::Short(value) => by_float(f64::from(*value)),
        Number::Double(value) => by_float(*value),
        Number::Single(value) => by_float(f64::from(*value)),
        Number::Exact(text) => {
            let (is_negative, digits) = text.strip_prefix('-').map_or((false, text.as_str()), |digits| (true, digits));
            let (whole, behind) = digits.split_once('.').unwrap_or((digits, ""));
            let all: Vec<u8> = whole.bytes().chain(behind.bytes()).collect();
            let zeros = all.iter().take_while(|digit| **digit == b'0').count();
            if zeros == all.len() {
                let (_, zero) = nearest("0", 0, places);
                return with_power(false, &zero, 0);
            }
            let power = whole.len() as i64 - zeros as i64 - 1;
            let mut shown = all[zeros..].to_vec();
            let is_up = shown.get(places + 1).is_some_and(|digit| *digit >= b'5');
            shown.resize(places + 1, b'0');
            if is_up {
                // PostgreSQL takes the power of what it was before: 9.99 becomes 10.0e+00.
                increment(&mut shown);
            }
            let mut text: String = shown.iter().map(|digit| char::from(*digit)).collect();
            if places > 0 {
                text.insert(text.len() - places, '.');
            }
            with_power(is_negative, &text, power)
        }
    }
}

fn with_power(is_negative: bool, digits: &str, power: i64) -> String {
    let sign = if is_negative { '-' } else { ' ' };
    let of_power = if power < 0 { '-' } else { '+' };
    format!("{sign}{digits}e{of_power}{:02}", power.unsigned_abs())
}

/// A Roman number, or as many `#` as the widest has.
fn roman(number: &Number) -> String {
    let value = match number {
        Number::Short(value) => i64::from(*value),
        Number::Exact(text) => {
            let (is_negative, digits) = nearest(text, 0, 0);
            digits.parse::<i64>().ok().filter(|_| !is_negative).unwrap_or(0)
        }
        // What is no number, or does not fit, becomes what is none of Rome's.
        Number::Double(value) => value.round_ties_even() as i64,
        Number::Single(value) => value.round_ties_even() as i64,
    };
    if !(1..=ROMAN_MAX).contains(&value) {
        return "#".repeat(ROMAN_WIDTH);
    }
    const SIGNS: [(i64, &str); 13] = [
        (1_000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let (mut made, mut rest) = (String::new(), value);
    for (worth, sign) in SIGNS {
        while rest >= worth {
            made.push_str(sign);
            rest -= worth;
        }
    }
    made
}

/// A number on its way through a template.
struct Writing<'a> {
    picture: &'a Picture,
    is_negative: bool,
    /// Its digits and its point.
    number: &'a [u8],
    text: &'a str,
    /// Places of the template before its first digit.
    blanks: usize,
    /// Its digits behind the point.
    fraction: usize,
    anchor: Option<Anchor>,
    has_bracket: bool,
    /// The last of its digits behind the point that is no zero, or the point; where zeros at the end are not shown.
    relevant: Option<usize>,
    /// Places of the template, with one for the sign.
    places: i64,
    is_sign_written: bool,
    /// The next digit.
    at: usize,
    /// The next place of the template.
    place: usize,
    is_within: bool,
    made: String,
}

impl<'a> Writing<'a> {
    fn new(picture: &'a Picture, fraction: usize, is_negative: bool, text: &'a str, blanks: usize) -> Writing<'a> {
        let writes_signs = picture.has_plus || picture.has_minus;
        let is_sign_written = if writes_signs {
            picture.has_minus
        } else {
            !is_negative && picture.is_unfilled && picture.anchor.is_none()
        };
        let whole = picture.whole + picture.shift;
        // A sign before no digit at all is one behind all of them.
        let anchor = match picture.anchor {
            Some(Anchor::Before) if !writes_signs && whole == picture.before_anchor => Some(Anchor::Behind),
            anchor => anchor,
        };
        let has_bracket = picture.has_bracket && (writes_signs || is_negative || !picture.is_unfilled);
        let mut places = (fraction + whole) as i64 - 1;
        if !is_sign_written && blanks == 0 {
            places += 1;
        }
        let relevant = (picture.is_unfilled && picture.has_point).then(|| relevant(picture, text, blanks)).flatten();
        Writing {
            picture,
            is_negative,
            number: text.as_bytes(),
            text,
            blanks,
            fraction,
            anchor,
            has_bracket,
            relevant,
            places,
            is_sign_written,
            at: 0,
            place: 0,
            is_within: false,
            made: String::new(),
        }
    }

    /// All pieces of the template.
    fn all(mut self) -> String {
        let picture = self.picture;
        for piece in &picture.pieces {
            match piece {
                Piece::Text(text) => self.made.push_str(text),
                Piece::Key(key @ (Key::Nine | Key::Zero | Key::Point)) => {
                    if !picture.is_roman && self.place(*key).is_none() {
                        return self.made;
                    }
                }
                Piece::Key(Key::Sign) if picture.is_roman => return self.made,
                Piece::Key(key) => {
                    let written = self.other(*key);
                    self.made.push_str(&written);
                }
            }
        }
        self.made
    }

    /// What is no digit and no point.
    fn other(&self, key: Key) -> Cow<'static, str> {
        let filled = |written: bool, sign: &'static str| match (written, self.picture.is_unfilled) {
            (true, _) => sign,
            (false, true) => "",
            (false, false) => " ",
        };
        Cow::Borrowed(match key {
            Key::Comma | Key::Group => filled(self.is_within, ","),
            // The locale C has no currency.
            Key::Currency => " ",
            Key::Minus => filled(self.is_negative, "-"),
            // Roman numbers have no sign.
            Key::Plus => filled(!self.is_negative && !self.picture.is_roman, "+"),
            Key::Sign => self.sign(),
            Key::Ordinal { is_upper } => {
                let has_none = self.picture.is_roman || self.is_negative || self.picture.has_point;
                if has_none || !self.text.ends_with(|last: char| last.is_ascii_digit()) {
                    ""
                } else {
                    ordinal(self.text, is_upper)
                }
            }
            Key::Roman { is_upper } => {
                let roman = if is_upper { self.text.to_owned() } else { self.text.to_ascii_lowercase() };
                let width = if self.picture.is_unfilled { 0 } else { ROMAN_WIDTH };
                return Cow::Owned(format!("{roman:>width$}"));
            }
            Key::Nine | Key::Zero | Key::Point => "",
        })
    }

    fn sign(&self) -> &'static str {
        if self.is_negative { "-" } else { "+" }
    }

    /// Whether a zero before the point is left out: nothing is asked to be zero, and there are digits behind the point.
    fn hides_zero(&self) -> bool {
        let is_zero = self.at == 0 && self.number.first() == Some(&b'0');
        is_zero && self.picture.first_zero.is_none() && self.fraction != 0
    }

    /// Whether nothing behind the point is shown.
    fn is_point_last(&self) -> bool {
        self.relevant.is_some_and(|relevant| self.number.get(relevant) == Some(&b'.'))
    }

    /// A digit or a point; `None` where the text ends.
    fn place(&mut self, key: Key) -> Option<()> {
        let picture = self.picture;
        self.is_within = false;
        let begins = self.place >= self.blanks || picture.first_zero == Some(self.place);
        if !self.is_sign_written && begins && (!self.hides_zero() || self.is_point_last()) {
            self.write_sign();
        }
        if self.place < self.blanks {
            if picture.first_zero.is_some_and(|zero| zero <= self.place) {
                self.made.push('0');
                self.is_within = true;
            } else if !picture.is_unfilled {
                self.made.push(' ');
            }
        } else {
            self.write_digit(key)?;
        }
        let mut end = self.places + i64::from(self.blanks > 0) + i64::from(picture.has_point);
        if self.relevant == Some(self.at) {
            end = self.place as i64;
        }
        if self.place as i64 + 1 == end {
            if self.is_sign_written && self.has_bracket {
                self.made.push(if self.is_negative { '>' } else { ' ' });
            } else if self.anchor == Some(Anchor::Behind) {
                self.made.push_str(self.sign());
            }
        }
        self.place += 1;
        Some(())
    }

    fn write_sign(&mut self) {
        if self.anchor.is_some() {
            if self.anchor == Some(Anchor::Before) {
                self.made.push_str(self.sign());
                self.is_sign_written = true;
            }
            return;
        }
        if self.has_bracket {
            self.made.push(if self.is_negative { '<' } else { ' ' });
        } else if self.is_negative {
            self.made.push('-');
        } else if !self.picture.is_unfilled {
            self.made.push(' ');
        }
        self.is_sign_written = true;
    }

    fn write_digit(&mut self, key: Key) -> Option<()> {
        match self.number.get(self.at) {
            Some(b'.') => self.made.push('.'),
            _ if self.relevant.is_some_and(|relevant| self.at > relevant) && key != Key::Zero => {}
            _ if self.hides_zero() => {
                if !self.picture.is_unfilled {
                    self.made.push(' ');
                } else if self.is_point_last() {
                    self.made.push('0');
                }
            }
            digit => {
                self.made.push(char::from(*digit?));
                self.is_within = true;
            }
        }
        self.at = (self.at + 1).min(self.number.len());
        Some(())
    }
}

/// The last digit behind the point that is shown: the last that is no zero, or that the template has a zero for.
fn relevant(picture: &Picture, text: &str, blanks: usize) -> Option<usize> {
    let point = text.find('.')?;
    let last = text.rfind(|digit| digit != '0').unwrap_or(point).max(point);
    if picture.last_zero <= blanks {
        return Some(last);
    }
    Some(last.max((text.len() - 1).min(picture.last_zero - blanks)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As PostgreSQL 15 has them; `crates/node/tests/slt/to_char.slt` has more.
    #[test]
    fn numbers_are_written_as_their_kind_is() {
        let exact = |text: &str| Number::Exact(text.to_owned());
        for (number, template, expected) in [
            (Number::Short(485), "999", " 485"),
            (exact("-485.5"), "9G999D99", "  -485.50"),
            (exact("0.125"), "9.99", "  .13"),
            (Number::Double(0.125), "9.99", "  .12"),
            (Number::exact(0.125), "9.99", "  .13"),
            (Number::Double(f64::NAN), "9999.99", "  NaN"),
            (Number::exact(f64::NEG_INFINITY), "9999.99", "-####.##"),
            (Number::Double(f64::NAN), "9.9EEEE", " #.#####"),
            (Number::Double(12_345_678_901_234_568.0), "99999999999999999999.99", "    12345678901234568"),
            (Number::Single(0.1), "9.9999999999", "  .10000"),
            (Number::Double(-0.001), "9.99", " -.00"),
            (exact("-0.001"), "9.99", "  .00"),
            (Number::Short(25), "9EEEE", " 2e+01"),
            (exact("25"), "9EEEE", " 3e+01"),
            (exact("-0.0009996"), "9.99EEEE", "-10.00e-04"),
            (exact("0"), "9.9EEEE", " 0.0e+00"),
            (exact("2.5"), "FMrn", "iii"),
            (Number::Double(2.5), "FMrn", "ii"),
            (Number::Double(1e10), "RN", "###############"),
        ] {
            let picture = Picture::parse(template).unwrap();
            assert_eq!(written(&picture, &number), expected, "{number:?} {template}");
        }
    }

    #[test]
    fn digits_are_shifted_and_rounded() {
        for (text, shift, fraction, expected) in [
            ("12.345", 0, 2, (false, "12.35")),
            ("-12.344", 0, 2, (true, "12.34")),
            ("9.99", 0, 1, (false, "10.0")),
            ("99.5", 0, 0, (false, "100")),
            ("0.004", 0, 2, (false, "0.00")),
            ("-0.004", 0, 2, (false, "0.00")),
            ("0.0456", 2, 0, (false, "5")),
            ("12", 2, 0, (false, "1200")),
            ("7", 0, 3, (false, "7.000")),
        ] {
            let (is_negative, digits) = nearest(text, shift, fraction);
            assert_eq!((is_negative, digits.as_str()), expected, "{text}");
        }
    }
}
