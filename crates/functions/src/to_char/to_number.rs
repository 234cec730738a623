//! `to_number(text, template)`: the number that a text is by a template.
//!
//! Invariants:
//! - It reads what PostgreSQL 15 reads: pattern by pattern, each of which takes a character of the text or leaves it.
//! - It has as many digits behind the point as the template, where that is written (`alluvia_syntax::trees::templates` puts their count behind it), and 10
//!   otherwise. What does not fit a DECIMAL of 38 digits is an error.

use super::numbers::nearest;
use super::{Templates, is_text};
use crate::columnar::{as_columnar, is_constant};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::wrap;
use alluvia_values::templates::literals::Piece;
use alluvia_values::templates::picture::{Anchor, Key, Picture};
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use arrow::compute::cast as cast_array;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef};
use datafusion_common::{Result as Planned, ScalarValue, exec_err, internal_err, plan_err};
use datafusion_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// Digits behind the point where nobody knows the template.
const SCALE: i8 = 10;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ToNumber {
    signature: Signature,
}

impl Default for ToNumber {
    fn default() -> ToNumber {
        ToNumber { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for ToNumber {
    fn name(&self) -> &str {
        "to_number"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Planned<Vec<DataType>> {
        let text = DataType::Utf8View;
        match arg_types {
            [of, template] if is_text(of) && is_text(template) => Ok(vec![text.clone(), text]),
            [of, template, scale] if is_text(of) && is_text(template) && scale.is_integer() => {
                Ok(vec![text.clone(), text, DataType::Int64])
            }
            _ => plan_err!("to_number takes a text and a template, which is a text, too"),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Planned<DataType> {
        internal_err!("the type of to_number is told by its arguments")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Planned<FieldRef> {
        let scale = match args.scalar_arguments.get(2).copied().flatten() {
            Some(ScalarValue::Int64(Some(scale))) => i8::try_from(*scale).unwrap_or(SCALE),
            _ => SCALE,
        };
        let of = DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale.clamp(0, DECIMAL128_MAX_PRECISION as i8));
        Ok(Arc::new(Field::new(self.name(), of, true)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Planned<ColumnarValue> {
        let is_scalar = is_constant(&args.args);
        let rows = if is_scalar { 1 } else { args.number_rows };
        let DataType::Decimal128(precision, scale) = *args.return_field.data_type() else {
            return exec_err!("to_number gives decimals");
        };
        let [texts, templates, ..] = args.args.as_slice() else {
            return exec_err!("to_number came without its arguments");
        };
        let texts = cast_array(&texts.to_array(rows)?, &DataType::Utf8View)?;
        let (texts, templates) = (texts.as_string_view(), Templates::of(templates)?);
        let mut known: Option<(&str, Picture)> = None;
        let mut made = Vec::with_capacity(rows);
        for row in 0..texts.len() {
            let template = templates.at(row).filter(|template| texts.is_valid(row) && !template.is_empty());
            let Some(template) = template else {
                made.push(None);
                continue;
            };
            if known.as_ref().is_none_or(|(last, _)| *last != template) {
                known = Some((template, readable(template).map_err(wrap)?));
            }
            let Some((_, picture)) = &known else { continue };
            made.push(Some(number(picture, texts.value(row), scale).map_err(wrap)?));
        }
        let made: ArrayRef = Arc::new(Decimal128Array::from(made).with_precision_and_scale(precision, scale)?);
        as_columnar(made, is_scalar)
    }
}

/// A template that numbers are read by.
fn readable(template: &str) -> Result<Picture> {
    let picture = Picture::parse(template)?;
    let refused =
        |pattern: &str| Err(Error::new(ErrorKind::NotSupported, format!("\"{pattern}\" not supported for input")));
    if picture.is_scientific {
        return refused("EEEE");
    }
    if picture.is_roman {
        return refused("RN");
    }
    Ok(picture)
}

/// The number that a text is, in units of the last digit.
fn number(picture: &Picture, text: &str, scale: i8) -> Result<i128> {
    let (sign, digits) = Reading::new(picture, text).all();
    if digits.is_empty() {
        let message = format!("invalid input syntax for type numeric: \"{sign}\"");
        return Err(Error::new(ErrorKind::InvalidText, message));
    }
    // Digits behind V are behind a point that is not written.
    let digits = if picture.has_shift {
        let filled = "0".repeat((picture.shift + 1).saturating_sub(digits.len())) + &digits;
        let (whole, behind) = filled.split_at(filled.len() - picture.shift);
        format!("{whole}.{behind}")
    } else {
        digits
    };
    let (_, rounded) = nearest(&digits, 0, usize::from(scale.unsigned_abs()));
    let units: String = rounded.chars().filter(char::is_ascii_digit).collect();
    let fits = units.trim_start_matches('0').len() <= usize::from(DECIMAL128_MAX_PRECISION);
    let units = units.parse::<i128>().ok().filter(|_| fits).ok_or_else(|| {
        Error::new(
            ErrorKind::OutOfRange,
            format!("the number {digits} does not fit DECIMAL({DECIMAL128_MAX_PRECISION}, {scale})"),
        )
    })?;
    Ok(if sign == '-' { -units } else { units })
}

/// A text on its way through a template.
struct Reading<'a> {
    picture: &'a Picture,
    text: Vec<char>,
    /// The next character.
    at: usize,
    /// A blank until one is read.
    sign: char,
    digits: String,
    /// Digits before the point, and behind it.
    whole: usize,
    fraction: usize,
    has_point: bool,
}

impl<'a> Reading<'a> {
    fn new(picture: &'a Picture, text: &str) -> Reading<'a> {
        let (text, digits) = (text.chars().collect(), String::new());
        Reading { picture, text, at: 0, sign: ' ', digits, whole: 0, fraction: 0, has_point: false }
    }

    /// The sign and the digits, with the point if there are any behind it.
    fn all(mut self) -> (char, String) {
        let picture = self.picture;
        for piece in &picture.pieces {
            let Some(next) = self.next() else { break };
            match piece {
                // Each character of the template passes one of the text, whatever it is.
                Piece::Text(text) => self.at += text.chars().count(),
                Piece::Key(key @ (Key::Nine | Key::Zero | Key::Point)) => {
                    self.place(*key);
                    self.at += 1;
                }
                Piece::Key(Key::Comma | Key::Group) => {
                    if !picture.is_unfilled && next == ',' {
                        self.at += 1;
                    }
                }
                Piece::Key(Key::Currency) => self.pass(1),
                Piece::Key(Key::Ordinal { .. }) => {
                    if !picture.has_point {
                        self.pass(2);
                    }
                }
                Piece::Key(key @ (Key::Minus | Key::Plus | Key::Sign)) => {
                    let is_sign = match next {
                        '-' => *key != Key::Plus,
                        '+' => *key != Key::Minus,
                        _ => false,
                    };
                    if is_sign {
                        self.sign = next;
                        self.at += 1;
                    } else {
                        self.pass(1);
                    }
                }
                Piece::Key(Key::Roman { .. }) => {}
            }
        }
        if self.digits.ends_with('.') {
            self.digits.pop();
        }
        if self.digits.starts_with('.') {
            self.digits.insert(0, '0');
        }
        (self.sign, self.digits)
    }

    fn next(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    /// Passes so many characters at most that are of no number.
    fn pass(&mut self, count: usize) {
        for _ in 0..count {
            match self.next() {
                Some(next) if !next.is_ascii_digit() && !".,+-".contains(next) => self.at += 1,
                _ => return,
            }
        }
    }

    /// A digit or a point, and signs around it; the character that is read last is passed by whoever calls.
    fn place(&mut self, key: Key) {
        let picture = self.picture;
        if self.next() == Some(' ') {
            self.at += 1;
        }
        let Some(first) = self.next() else { return };
        if self.sign == ' ' && key != Key::Point && self.whole + self.fraction == 0 {
            let is_signed = match picture.anchor {
                Some(Anchor::Before) => matches!(first, '-' | '+'),
                _ => matches!(first, '-' | '+') || picture.has_bracket && first == '<',
            };
            if is_signed {
                self.sign = if first == '+' { '+' } else { '-' };
                self.at += 1;
            }
        }
        let Some(next) = self.next() else { return };
        let mut is_read = false;
        if next.is_ascii_digit() {
            if self.has_point && self.fraction == picture.fraction {
                return;
            }
            self.digits.push(next);
            if self.has_point {
                self.fraction += 1;
            } else {
                self.whole += 1;
            }
            is_read = true;
        } else if picture.has_point && !self.has_point && next == '.' {
            self.digits.push('.');
            self.has_point = true;
            is_read = true;
        }
        if self.sign != ' ' || self.whole + self.fraction == 0 {
            return;
        }
        if picture.anchor.is_some() {
            // A sign that is beside the last digit.
            let behind = self.text.get(self.at + 1).copied().filter(|behind| is_read && matches!(behind, '-' | '+'));
            if let Some(behind) = behind {
                self.sign = behind;
                self.at += 1;
            }
        } else if !is_read && (picture.has_plus || picture.has_minus) && matches!(next, '-' | '+') {
            self.sign = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As PostgreSQL 15 has them.
    #[test]
    fn texts_are_read_by_their_templates() {
        for (text, template, expected) in [
            ("12,454.8-", "99G999D9S", -124_548_000),
            ("-34,338,492", "99G999G999", -343_384_920_000),
            ("<564646.654564>", "999999.9999PR", -5_646_466_545),
            ("5.01-", "FM9.999999S", -50_100),
            ("5 4 4 4 4 8 . 7 8", "9 9 9 9 9 9 . 9 9", 5_444_487_800),
            (".01", "FM9.99", 100),
            ("34,50", "999,99", 34_500_000),
            ("123,000", "999G", 1_230_000),
            ("$1234.56", "L9999D99", 12_345_600),
            ("1234.56", "L99,999.99", 12_345_600),
            ("42nd", "99th", 420_000),
            ("$ 12", "\"$\"99", 120_000),
            (" 12 ", "99", 120_000),
            ("12.5", "99.999", 125_000),
            ("1234", "99V99", 123_400),
            ("+5", "9", 50_000),
            ("5-", "9MI", -50_000),
            ("-5", "MI9", -50_000),
            ("5+", "9SG", 50_000),
            ("12abc", "99999", 120_000),
            ("123", "99", 120_000),
            ("12.345", "99.9", 123_000),
            ("1.2.3", "9.99", 12_000),
        ] {
            let picture = readable(template).unwrap();
            assert_eq!(number(&picture, text, 4).unwrap(), expected, "{text} {template}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for (text, template, kind) in [
            ("abc", "99", ErrorKind::InvalidText),
            ("", "99", ErrorKind::InvalidText),
            ("1e5", "9EEEE", ErrorKind::NotSupported),
            ("IV", "RN", ErrorKind::NotSupported),
            ("12", "9PR9", ErrorKind::Syntax),
        ] {
            let error = readable(template).and_then(|picture| number(&picture, text, 4)).err();
            assert_eq!(error.map(|error| error.kind()), Some(kind), "{text} {template}");
        }
    }
}
