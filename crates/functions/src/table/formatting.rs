//! Values written and read by templates, and moments read from texts and numbers.

use super::entry::{Entry, Output};
use crate::datetime::to_timestamp::ToTimestamp;
use crate::output_size::estimate::OutputSize;
use crate::to_char::{ToChar, ToNumber};

pub(super) const ENTRIES: &[Entry] = &[
    Entry::scalar("to_char", Output::Counted(OutputSize::TimeFormatted), || ToChar::default().into())
        .postgresql(&["to_char"])
        .overloads(&[
            "to_char(bigint, text) -> text",
            "to_char(double precision, text) -> text",
            "to_char(numeric, text) -> text",
            "to_char(timestamp, text) -> text",
            "to_char(timestamptz, text) -> text",
            "to_char(date, text) -> text",
            "to_char(time, text) -> text",
            "to_char(interval, text) -> text",
        ])
        .doc("The text of a number, a moment, a time or an interval by a template.")
        .example("to_char(1234.5, 'FM9,999.00')", "1,234.50"),
    Entry::scalar("to_number", Output::Small, || ToNumber::default().into())
        .postgresql(&["to_number"])
        .overloads(&["to_number(text, text) -> numeric"])
        .doc("The number that a text shows by a template.")
        .example("to_number('1,234.50', '9,999.99')", "1234.50"),
    Entry::wrapping("to_date", Output::Small, |inner| ToTimestamp::new(inner).into())
        .postgresql(&["to_date"])
        .overloads(&[
            "to_date(text) -> date",
            "to_date(text, VARIADIC text) -> date",
            "to_date(timestamp) -> date",
            "to_date(bigint) -> date",
        ])
        .doc(
            "The date that a text shows, by a template or as YYYY-MM-DD, the date of a moment, or the one so \
             many days from 1970-01-01.",
        )
        .example("to_date('02.01.2026', 'DD.MM.YYYY')", "2026-01-02"),
    Entry::wrapping("to_timestamp", Output::Small, |inner| ToTimestamp::new(inner).into())
        .postgresql(&["to_timestamp"])
        .overloads(&[
            "to_timestamp(text) -> timestamptz",
            "to_timestamp(text, VARIADIC text) -> timestamptz",
            "to_timestamp(bigint) -> timestamptz",
            "to_timestamp(double precision) -> timestamptz",
            "to_timestamp(timestamp) -> timestamptz",
        ])
        .doc(
            "The moment that a text shows, by a template or in the form of ISO 8601, or that is so many \
             seconds from 1970-01-01.",
        )
        .example("to_timestamp('2026-01-02 03:04', 'YYYY-MM-DD HH24:MI')::timestamp", "2026-01-02 03:04:00"),
    Entry::datafusion("to_timestamp_seconds", Output::Small)
        .overloads(&[
            "to_timestamp_seconds(text) -> timestamptz",
            "to_timestamp_seconds(text, VARIADIC text) -> timestamptz",
            "to_timestamp_seconds(bigint) -> timestamptz",
            "to_timestamp_seconds(timestamp) -> timestamptz",
        ])
        .doc("The moment, in whole seconds, that a text shows or that is so many seconds from 1970-01-01.")
        .example("to_timestamp_seconds(86400)::timestamp", "1970-01-02 00:00:00"),
    Entry::datafusion("to_timestamp_millis", Output::Small)
        .overloads(&[
            "to_timestamp_millis(text) -> timestamptz",
            "to_timestamp_millis(text, VARIADIC text) -> timestamptz",
            "to_timestamp_millis(bigint) -> timestamptz",
            "to_timestamp_millis(timestamp) -> timestamptz",
        ])
        .doc(
            "The moment, in whole milliseconds, that a text shows or that is so many milliseconds from \
             1970-01-01.",
        )
        .example("to_timestamp_millis(1500)::timestamp", "1970-01-01 00:00:01.5"),
    Entry::datafusion("to_timestamp_micros", Output::Small)
        .overloads(&[
            "to_timestamp_micros(text) -> timestamptz",
            "to_timestamp_micros(text, VARIADIC text) -> timestamptz",
            "to_timestamp_micros(bigint) -> timestamptz",
            "to_timestamp_micros(timestamp) -> timestamptz",
        ])
        .doc(
            "The moment, in whole microseconds, that a text shows or that is so many microseconds from \
             1970-01-01.",
        )
        .example("to_timestamp_micros(1500000)::timestamp", "1970-01-01 00:00:01.5"),
    Entry::datafusion("to_timestamp_nanos", Output::Small)
        .overloads(&[
            "to_timestamp_nanos(text) -> timestamptz",
            "to_timestamp_nanos(text, VARIADIC text) -> timestamptz",
            "to_timestamp_nanos(bigint) -> timestamptz",
            "to_timestamp_nanos(timestamp) -> timestamptz",
        ])
        .doc("The moment that a text shows or that is so many nanoseconds from 1970-01-01.")
        .example("to_timestamp_nanos(1500000000)::timestamp", "1970-01-01 00:00:01.5"),
];
