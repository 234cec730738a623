//! Which type holds what was seen of a column.
//!
//! Invariants:
//! - A text is a number, a date or a moment to inference only if it stays what it is in the type: `007`, `+7` and a zone that is lost are not.
//! - By the same rules an EXACT load asks of later values whether they stay as they are written ([`stays_as_written`]).

use super::InferredColumn;
use alluvia_space::DataType;
use alluvia_values::parse::{parse_bool, parse_date, parse_f64, parse_i64, parse_timestamp};

/// Digits of the whole numbers that a DECIMAL holds.
const DIGITS_MAX: u8 = 38;
/// What holds whole numbers past BIGINT, whatever their length in the sample: later ones may be longer, as later BIGINTs may be.
const WHOLE: DataType = DataType::Decimal { precision: DIGITS_MAX, scale: 0 };

/// What all values of a column so far have in common.
#[derive(Clone, Debug)]
pub struct Seen {
    any: bool,
    boolean: bool,
    integer: bool,
    /// Whole numbers of at most [`DIGITS_MAX`] digits.
    whole: bool,
    double: bool,
    date: bool,
    timestamp: bool,
    timestamp_tz: bool,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen {
            any: false,
            boolean: true,
            integer: true,
            whole: true,
            double: true,
            date: true,
            timestamp: true,
            timestamp_tz: true,
        }
    }
}

impl Seen {
    pub fn text(&mut self, text: &[u8]) {
        let text = text.trim_ascii();
        self.any = true;
        self.boolean &= is_word(text) && parse_bool(text).is_ok();
        let number = is_number(text);
        self.integer &= number && parse_i64(text).is_ok();
        self.whole &= number && is_whole(text);
        self.double &= number && parse_f64(text).is_ok();
        self.time(text);
    }

    pub(super) fn time_or_text(&mut self, text: &[u8]) {
        self.any = true;
        (self.boolean, self.integer, self.whole, self.double) = (false, false, false, false);
        self.time(text);
    }

    fn time(&mut self, text: &[u8]) {
        if !(self.date || self.timestamp || self.timestamp_tz) {
            return;
        }
        let moment = parse_timestamp(text).is_ok();
        self.date &= is_day(text) && parse_date(text).is_ok();
        self.timestamp &= moment && !has_zone(text);
        self.timestamp_tz &= moment;
    }

    pub fn other(&mut self) {
        self.time_or_text(b"");
    }

    pub fn with(mut self, text: &[u8]) -> Seen {
        self.text(text);
        self
    }

    pub fn data_type(&self) -> DataType {
        let types = [
            (self.boolean, DataType::Boolean),
            (self.integer, DataType::Int64),
            (self.whole, WHOLE),
            (self.double, DataType::Double),
            (self.date, DataType::Date),
            (self.timestamp, DataType::Timestamp),
            (self.timestamp_tz, DataType::TimestampTz),
        ];
        types.iter().find(|(all, _)| self.any && *all).map_or(DataType::Text, |(_, data_type)| *data_type)
    }

    pub fn column(&self, name: String) -> InferredColumn {
        InferredColumn { name, data_type: self.data_type(), nullable: true }
    }
}

/// Whether a value that a column takes stays in it as it is written, or is written as inference reads the column's type.
pub(crate) fn stays_as_written(data_type: DataType, text: &[u8]) -> bool {
    if matches!(data_type, DataType::Text | DataType::Binary) {
        return true;
    }
    let text = text.trim_ascii();
    match data_type {
        DataType::Boolean => is_word(text),
        DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Real | DataType::Double => is_number(text),
        DataType::Decimal { scale, .. } => is_number(text) && has_fraction_of(text, scale),
        DataType::Date => is_day(text),
        DataType::Timestamp => !has_zone(text),
        DataType::Numeric => is_number(text),
        DataType::TimestampTz | DataType::Text | DataType::Binary => true,
        // Nothing else is inferred from text.
        DataType::Uuid | DataType::Json | DataType::Jsonb | DataType::Time | DataType::Interval | DataType::Char => {
            true
        }
    }
}

/// `true` and `false`; `1` and `yes` are rather numbers and texts.
fn is_word(text: &[u8]) -> bool {
    text.len() > 3
}

/// Codes have leading zeros, and numbers no plus.
fn is_number(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let code = digits.len() > 1 && digits[0] == b'0' && digits[1].is_ascii_digit();
    !code && !text.starts_with(b"+")
}

/// Of a number: whether it is one that [`WHOLE`] holds.
fn is_whole(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    (1..=usize::from(DIGITS_MAX)).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit)
}

/// Of a number: whether nothing of it is rounded to so many digits behind the point, as it is written. Exponents are of doubles.
fn has_fraction_of(text: &[u8], scale: u8) -> bool {
    let fraction = match text.iter().position(|byte| *byte == b'.') {
        Some(point) => &text[point + 1..],
        None => &[],
    };
    let zeros = fraction.iter().rev().take_while(|byte| **byte == b'0').count();
    fraction.len() - zeros <= usize::from(scale) && !text.iter().any(|byte| matches!(byte, b'e' | b'E'))
}

/// A date alone, without a time of day.
fn is_day(text: &[u8]) -> bool {
    text.len() == 10
}

fn has_zone(text: &[u8]) -> bool {
    text.get(10..).is_some_and(|time| time.iter().any(|byte| matches!(byte, b'Z' | b'z' | b'+' | b'-' | b'U')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_values::builders::{ColumnBuilder, TextAs};
    use proptest::prelude::*;

    #[test]
    fn what_is_written_otherwise_would_be_changed() {
        let decimal = |scale| DataType::Decimal { precision: 38, scale };
        for (data_type, stay, change) in [
            (DataType::Int64, vec!["0", "-0", " 7 ", "-70"], vec!["00", "007", "-007", "+7", " 01 "]),
            (DataType::Double, vec!["0.5", "1e5", "NaN", "-inf"], vec!["00.5", "+1.5", "-01"]),
            (decimal(0), vec!["18446744073709551615", "1.0"], vec!["1.5", "01", "+1", "1e3"]),
            (decimal(2), vec!["1.25", "1.2500", "-3"], vec!["1.255", "01.25"]),
            (DataType::Boolean, vec!["true", "FALSE"], vec!["1", "t", "yes", "off"]),
            (DataType::Date, vec!["2026-01-03", " 2026-01-03 "], vec!["2026-01-03 23:59:59", "2026-01-03T00:00:00"]),
            (
                DataType::Timestamp,
                vec!["2026-01-03", "2026-01-03 10:00"],
                vec!["2026-01-03 10:00Z", "2026-01-03 10:00-01"],
            ),
            (DataType::TimestampTz, vec!["2026-01-03 10:00", "2026-01-03 10:00+01"], vec![]),
            (DataType::Text, vec!["", "007"], vec![]),
        ] {
            let taken = |text: &str| ColumnBuilder::new(data_type, TextAs::Plain, 1).append(text.as_bytes()).is_ok();
            for text in stay {
                assert!(taken(text) && stays_as_written(data_type, text.as_bytes()), "{data_type:?} {text}");
            }
            for text in change {
                assert!(taken(text) && !stays_as_written(data_type, text.as_bytes()), "{data_type:?} {text}");
            }
        }
    }

    proptest! {
        /// Whatever is looked at fits the type that is found for it, and is not changed by it.
        #[test]
        fn what_was_seen_stays(texts in proptest::collection::vec("[-+]?[0-9]{1,3}(\\.[0-9]{1,2})?|[0-9]{17,40}|true|no|2026-0[1-9]-03( 1[0-9]:00Z?)?", 1..6)) {
            let found = texts.iter().fold(Seen::default(), |seen, text| seen.with(text.as_bytes())).data_type();
            let mut builder = ColumnBuilder::new(found, TextAs::Plain, texts.len());
            for text in &texts {
                prop_assert_eq!(builder.append(text.as_bytes()), Ok(()), "{:?} {}", found, text);
                prop_assert!(stays_as_written(found, text.as_bytes()), "{:?} {}", found, text);
            }
        }
    }
}
