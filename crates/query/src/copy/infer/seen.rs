//! Which type holds what was seen of a column.

use super::InferredColumn;
use crate::copy::values::{parse_bool, parse_date, parse_f64, parse_i64, parse_timestamp};
use alluvia_space::DataType;

/// What all values of a column so far have in common.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    any: bool,
    boolean: bool,
    integer: bool,
    double: bool,
    date: bool,
    timestamp: bool,
    timestamp_tz: bool,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen { any: false, boolean: true, integer: true, double: true, date: true, timestamp: true, timestamp_tz: true }
    }
}

impl Seen {
    pub(super) fn text(&mut self, text: &[u8]) {
        let text = text.trim_ascii();
        self.any = true;
        // `1` and `yes` are rather numbers and texts.
        self.boolean &= text.len() > 3 && parse_bool(text).is_ok();
        let digits = text.strip_prefix(b"-").unwrap_or(text);
        let code = digits.len() > 1 && digits[0] == b'0' && digits[1].is_ascii_digit();
        let number = !code && !text.starts_with(b"+");
        self.integer &= number && parse_i64(text).is_ok();
        self.double &= number && parse_f64(text).is_ok();
        self.time(text);
    }

    pub(super) fn time_or_text(&mut self, text: &[u8]) {
        self.any = true;
        (self.boolean, self.integer, self.double) = (false, false, false);
        self.time(text);
    }

    fn time(&mut self, text: &[u8]) {
        if !(self.date || self.timestamp || self.timestamp_tz) {
            return;
        }
        let zone =
            text.get(10..).is_some_and(|time| time.iter().any(|byte| matches!(byte, b'Z' | b'z' | b'+' | b'-' | b'U')));
        let moment = parse_timestamp(text).is_ok();
        self.date &= text.len() == 10 && parse_date(text).is_ok();
        self.timestamp &= moment && !zone;
        self.timestamp_tz &= moment;
    }

    pub(super) fn other(&mut self) {
        self.time_or_text(b"");
    }

    pub(super) fn with(mut self, text: &[u8]) -> Seen {
        self.text(text);
        self
    }

    pub(super) fn data_type(&self) -> DataType {
        let types = [
            (self.boolean, DataType::Boolean),
            (self.integer, DataType::Int64),
            (self.double, DataType::Double),
            (self.date, DataType::Date),
            (self.timestamp, DataType::Timestamp),
            (self.timestamp_tz, DataType::TimestampTz),
        ];
        types.iter().find(|(all, _)| self.any && *all).map_or(DataType::Text, |(_, data_type)| *data_type)
    }

    pub(super) fn column(&self, name: String) -> InferredColumn {
        InferredColumn { name, data_type: self.data_type(), nullable: true }
    }
}
