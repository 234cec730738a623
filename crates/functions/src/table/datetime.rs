//! Functions of dates, moments, times of day and intervals.

use super::entry::{Entry, Output};
use crate::datetime::date_part::DatePart;
use crate::datetime::date_trunc::Truncated;
use crate::datetime::made::Made;
use crate::datetime::now::Now;
use crate::datetime::timestamp_functions::{TimestampFunction, TimestampOperation};
use crate::datetime::timezone::TimeZoned;

pub(super) const ENTRIES: &[Entry] = &[
    Entry::scalar("now", Output::Small, || Now::default().into())
        .postgresql(&["now", "current_timestamp"])
        .doc("The moment at which the statement began.")
        .example("now() <= now()", "true"),
    Entry::datafusion("current_date", Output::Small)
        .postgresql(&["current_date"])
        .doc("The date on which the statement began, in the session's time zone.")
        .example("current_date = now()::date", "true"),
    Entry::datafusion("current_time", Output::Small)
        .postgresql(&["current_time"])
        .doc("The time of day at which the statement began, in the session's time zone.")
        .example("current_time IS NOT NULL", "true"),
    Entry::scalar("date_part", Output::Small, || DatePart::default().into())
        .postgresql(&["date_part"])
        .doc("A part of a date, a moment, a time or an interval by its name, as EXTRACT gives it.")
        .example("date_part('year', DATE '2026-01-02')", "2026"),
    Entry::scalar("date_trunc", Output::Small, || Truncated::default().into())
        .postgresql(&["date_trunc"])
        .overloads(&[
            "date_trunc(text, timestamp) -> timestamp",
            "date_trunc(text, timestamptz) -> timestamptz",
            "date_trunc(text, interval) -> interval",
            "date_trunc(text, timestamptz, text) -> timestamptz",
        ])
        .doc(
            "The moment, or the interval, without what is less than a unit, by the clocks of a zone if one is \
             given.",
        )
        .example("date_trunc('month', TIMESTAMP '2026-03-04 05:06:07')", "2026-03-01 00:00:00"),
    Entry::datafusion("date_bin", Output::Small)
        .postgresql(&["date_bin"])
        .doc("The start of the span of a given length, counted from an origin, in which a moment lies.")
        .example(
            "date_bin(INTERVAL '15 minutes', TIMESTAMP '2026-01-02 03:04:05', TIMESTAMP '2026-01-01')",
            "2026-01-02 03:00:00",
        ),
    Entry::scalar("age", Output::Small, || TimestampFunction::new(TimestampOperation::Age).into())
        .postgresql(&["age"])
        .overloads(&["age(timestamp, timestamp) -> interval", "age(timestamptz, timestamptz) -> interval"])
        .doc("The time from the second moment to the first in whole months, days and what is left.")
        .example("age(TIMESTAMP '2024-03-31', TIMESTAMP '2024-02-29')", "1 mon 2 days"),
    Entry::scalar("last_day", Output::Small, || TimestampFunction::new(TimestampOperation::LastDay).into())
        .overloads(&["last_day(date) -> date", "last_day(timestamp) -> date"])
        .doc("The last day of the month of a date or a moment.")
        .example("last_day(DATE '2024-02-10')", "2024-02-29"),
    Entry::scalar("isfinite", Output::Small, || TimestampFunction::new(TimestampOperation::IsFinite).into())
        .postgresql(&["isfinite"])
        .overloads(&[
            "isfinite(date) -> boolean",
            "isfinite(timestamp) -> boolean",
            "isfinite(timestamptz) -> boolean",
            "isfinite(interval) -> boolean",
        ])
        .doc("Whether a date, a moment or an interval is finite, which all are.")
        .example("isfinite(DATE '2026-01-02')", "true"),
    Entry::scalar("justify_days", Output::Small, || TimestampFunction::new(TimestampOperation::JustifyDays).into())
        .postgresql(&["justify_days"])
        .overloads(&["justify_days(interval) -> interval"])
        .doc("The interval with each thirty of its days as a month.")
        .example("justify_days(INTERVAL '35 days')", "1 mon 5 days"),
    Entry::scalar("justify_hours", Output::Small, || TimestampFunction::new(TimestampOperation::JustifyHours).into())
        .postgresql(&["justify_hours"])
        .overloads(&["justify_hours(interval) -> interval"])
        .doc("The interval with each 24 of its hours as a day.")
        .example("justify_hours(INTERVAL '27 hours')", "1 day 03:00:00"),
    Entry::scalar("justify_interval", Output::Small, || {
        TimestampFunction::new(TimestampOperation::JustifyInterval).into()
    })
    .postgresql(&["justify_interval"])
    .overloads(&["justify_interval(interval) -> interval"])
    .doc("The interval with hours as days and days as months, all parts of which have one sign.")
    .example("justify_interval(INTERVAL '1 mon -1 hour')", "29 days 23:00:00"),
    Entry::scalar("make_date", Output::Small, || Made::date().into())
        .postgresql(&["make_date"])
        .overloads(&["make_date(bigint, bigint, bigint) -> date"])
        .doc("The date of a year, a month and a day; a year below zero is so many before Christ.")
        .example("make_date(2026, 1, 2)", "2026-01-02"),
    Entry::scalar("make_time", Output::Small, || Made::time().into())
        .postgresql(&["make_time"])
        .overloads(&["make_time(bigint, bigint, double precision) -> time"])
        .doc("The time of day of an hour, a minute and seconds.")
        .example("make_time(13, 23, 1)", "13:23:01"),
    Entry::scalar("make_timestamp", Output::Small, || TimestampFunction::new(TimestampOperation::MakeTimestamp).into())
        .postgresql(&["make_timestamp"])
        .overloads(&["make_timestamp(bigint, bigint, bigint, bigint, bigint, double precision) -> timestamp"])
        .doc("The moment of a year, a month, a day, an hour, a minute and seconds.")
        .example("make_timestamp(2026, 1, 2, 3, 4, 5.5)", "2026-01-02 03:04:05.5"),
    Entry::scalar("make_timestamptz", Output::Small, || {
        TimestampFunction::new(TimestampOperation::MakeTimestampTz).into()
    })
    .postgresql(&["make_timestamptz"])
    .overloads(&[
        "make_timestamptz(bigint, bigint, bigint, bigint, bigint, double precision) -> timestamptz",
        "make_timestamptz(bigint, bigint, bigint, bigint, bigint, double precision, text) -> timestamptz",
    ])
    .doc("The moment at which clocks of a zone, or of the session's, show a time.")
    .example("make_timestamptz(2026, 1, 2, 3, 4, 5.5, 'Europe/Berlin')", "2026-01-02 02:04:05.5+00"),
    Entry::scalar("make_interval", Output::Small, || TimestampFunction::new(TimestampOperation::MakeInterval).into())
        .postgresql(&["make_interval"])
        .overloads(&["make_interval(bigint, bigint, bigint, bigint, bigint, bigint, double precision) -> interval"])
        .doc(
            "The interval of years, months, weeks, days, hours, minutes and seconds, each of which may be \
             left out.",
        )
        .example("make_interval(days => 10, hours => 2)", "10 days 02:00:00"),
    Entry::scalar("timezone", Output::Small, || TimeZoned::default().into())
        .postgresql(&["timezone"])
        .overloads(&["timezone(text, timestamptz) -> timestamp", "timezone(text, timestamp) -> timestamptz"])
        .doc(
            "The time that clocks of a zone show at a moment, or the moment at which they show a time, as AT \
             TIME ZONE gives it.",
        )
        .example("timezone('Europe/Berlin', TIMESTAMPTZ '2026-01-02 03:04:05+00')", "2026-01-02 04:04:05"),
    Entry::datafusion("to_local_time", Output::Small)
        .doc("The moment with a zone as the time that clocks of that zone show.")
        .example("to_local_time(TIMESTAMPTZ '2026-01-02 03:04:05+00')", "2026-01-02 03:04:05"),
    Entry::datafusion("to_time", Output::Small)
        .overloads(&["to_time(text) -> time", "to_time(text, VARIADIC text) -> time", "to_time(timestamp) -> time"])
        .doc(
            "The time of day that a text shows, in one of the forms of strftime if such are given, or that a \
             moment has.",
        )
        .example("to_time('12-30-45', '%H-%M-%S')", "12:30:45"),
    Entry::datafusion("from_unixtime", Output::Small)
        .doc("The moment that is so many seconds from 1970-01-01.")
        .example("from_unixtime(86400)::timestamp", "1970-01-02 00:00:00"),
    Entry::datafusion("to_unixtime", Output::Small)
        .overloads(&[
            "to_unixtime(text) -> bigint",
            "to_unixtime(text, VARIADIC text) -> bigint",
            "to_unixtime(timestamp) -> bigint",
            "to_unixtime(date) -> bigint",
            "to_unixtime(double precision) -> bigint",
        ])
        .doc("The whole seconds from 1970-01-01 to a moment, or to the one that a text shows.")
        .example("to_unixtime(TIMESTAMP '1970-01-02 00:00:00')", "86400"),
];
