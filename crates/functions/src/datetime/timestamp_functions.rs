//! Functions of moments and intervals that DataFusion 55.2 has not: `age`, `justify_hours`, `justify_days`, `justify_interval`, `isfinite`,
//! `make_timestamp`, `make_interval`, `last_day`.
//!
//! Invariants, as in PostgreSQL:
//! - `age` counts whole months as the calendar has them, and what is left in days and time; the sign is that of all of it.
//! - A month has thirty days and a day 24 hours where an interval is justified, and its parts have one sign behind that.
//! - What does not fit is an error (22003), and so is a date that there is not.
//!
//! `age(x)` is `age(current_date, x)`, and `make_interval` has all of its arguments: `alluvia_syntax::trees::timestamps` writes both so.

use crate::columnar::by_arrays;
use crate::operators::durations::differences;
use alluvia_space::codes::calendar;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::wrap;
use alluvia_values::time_zone::{Zone, parse_timestamptz};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Float64Array, Int64Array, IntervalMonthDayNanoArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{
    DataType, Date32Type, Float64Type, Int64Type, IntervalMonthDayNano, IntervalUnit, TimeUnit,
    TimestampMicrosecondType,
};
use chrono::NaiveDate;
use datafusion_common::{Result as Planned, plan_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

const SPAN: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const MOMENT: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);
const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;
const DAY_NANOS: i64 = DAY * 1_000;
const MONTH_DAYS: i32 = 30;
/// 2000-01-01.
const DAY_2000: i64 = 946_684_800 * SECOND;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TimestampOperation {
    Age,
    JustifyHours,
    JustifyDays,
    JustifyInterval,
    IsFinite,
    MakeTimestamp,
    /// A moment of a time zone, which may be left out: then it is the session's (`alluvia_plan::after_types::session_zone`), or UTC.
    MakeTimestampTz,
    MakeInterval,
    LastDay,
}

/// A function of these.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct TimestampFunction {
    of: TimestampOperation,
    signature: Signature,
}

impl TimestampFunction {
    /// The function of this one.
    pub(crate) fn new(of: TimestampOperation) -> TimestampFunction {
        TimestampFunction { of, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl TimestampOperation {
    /// What its arguments become; `None` if it does not take them.
    fn coerced(self, given: &[DataType]) -> Option<Vec<DataType>> {
        match (self, given) {
            (TimestampOperation::Age, [_, _]) => given.iter().map(timestamp_type_of).collect(),
            (
                TimestampOperation::JustifyHours
                | TimestampOperation::JustifyDays
                | TimestampOperation::JustifyInterval,
                [span],
            ) => match span {
                DataType::Interval(_) | DataType::Duration(_) => Some(vec![span.clone()]),
                text if text.is_string() || text.is_null() => Some(vec![SPAN]),
                _ => None,
            },
            (TimestampOperation::IsFinite, [of]) => {
                let is_time = matches!(
                    of,
                    DataType::Date32 | DataType::Timestamp(..) | DataType::Interval(_) | DataType::Duration(_)
                );
                (is_time || of.is_null()).then(|| vec![of.clone()])
            }
            (TimestampOperation::LastDay, [of]) => timestamp_type_of(of).map(|_| vec![DataType::Date32]),
            (TimestampOperation::MakeTimestamp, [whole @ .., seconds]) if whole.len() == 5 => {
                numbers_of(whole, seconds)
            }
            (TimestampOperation::MakeTimestampTz, [whole @ .., seconds]) if whole.len() == 5 => {
                numbers_of(whole, seconds)
            }
            (TimestampOperation::MakeTimestampTz, [whole @ .., seconds, zone])
                if whole.len() == 5 && (zone.is_string() || zone.is_null()) =>
            {
                let mut wanted = numbers_of(whole, seconds)?;
                wanted.push(DataType::Utf8View);
                Some(wanted)
            }
            (TimestampOperation::MakeInterval, [whole @ .., seconds]) if whole.len() == 6 => numbers_of(whole, seconds),
            _ => None,
        }
    }

    fn takes(self) -> &'static str {
        match self {
            TimestampOperation::Age => "age takes timestamps: age(ended_at, began_at)",
            TimestampOperation::JustifyHours
            | TimestampOperation::JustifyDays
            | TimestampOperation::JustifyInterval => "it takes an INTERVAL",
            TimestampOperation::IsFinite => "isfinite takes a DATE, a TIMESTAMP or an INTERVAL",
            TimestampOperation::MakeTimestamp => {
                "write make_timestamp(year, month, day, hour, minute, seconds), of whole numbers but the seconds"
            }
            TimestampOperation::MakeTimestampTz => {
                "write make_timestamptz(year, month, day, hour, minute, seconds [, time zone]), of whole numbers but the seconds"
            }
            TimestampOperation::MakeInterval => {
                "write make_interval(years => 1, months => 2, weeks => 3, days => 4, hours => 5, mins => 6, secs => 7.5), or some of these"
            }
            TimestampOperation::LastDay => "last_day takes a DATE or a TIMESTAMP",
        }
    }

    fn array(self, args: &[ArrayRef]) -> Planned<ArrayRef> {
        match (self, args) {
            (TimestampOperation::Age, [to, from]) => {
                let (to, from) =
                    (to.as_primitive::<TimestampMicrosecondType>(), from.as_primitive::<TimestampMicrosecondType>());
                let each = |(to, from): (Option<i64>, Option<i64>)| to.zip(from).map(|(to, from)| age(to, from));
                Ok(Arc::new(to.iter().zip(from).map(each).collect::<IntervalMonthDayNanoArray>()))
            }
            (TimestampOperation::JustifyHours, [spans]) => changed_intervals(spans, hours_justified),
            (TimestampOperation::JustifyDays, [spans]) => changed_intervals(spans, days_justified),
            (TimestampOperation::JustifyInterval, [spans]) => changed_intervals(spans, justified),
            (TimestampOperation::IsFinite, [of]) => {
                let is_there = |at: usize| (!of.is_null(at)).then_some(true);
                let all: BooleanArray = match of.data_type() {
                    DataType::Null => (0..of.len()).map(|_| None::<bool>).collect(),
                    _ => (0..of.len()).map(is_there).collect(),
                };
                Ok(Arc::new(all))
            }
            (TimestampOperation::LastDay, [days]) => {
                let days = days.as_primitive::<Date32Type>().iter();
                Ok(Arc::new(days.map(|day| day.map(last_day)).collect::<Date32Array>()))
            }
            (TimestampOperation::MakeTimestampTz, [numbers @ .., zones]) if numbers.len() == 6 => {
                let [whole @ .., seconds] = numbers else { return plan_err!("{}", self.takes()) };
                let shown = made_of(whole, seconds, timestamp)?;
                let zones = zones.as_string_view().iter();
                let each = |(shown, zone): (Option<i64>, Option<&str>)| {
                    shown.zip(zone).map(|(shown, zone)| moment_in_zone(shown, zone).map_err(wrap)).transpose()
                };
                let made: TimestampMicrosecondArray = shown.into_iter().zip(zones).map(each).collect::<Planned<_>>()?;
                Ok(Arc::new(made.with_timezone("UTC")))
            }
            (TimestampOperation::MakeTimestampTz, [whole @ .., seconds]) => {
                let made: TimestampMicrosecondArray = made_of(whole, seconds, timestamp)?.into();
                Ok(Arc::new(made.with_timezone("UTC")))
            }
            (TimestampOperation::MakeTimestamp, [whole @ .., seconds]) if whole.len() == 5 => {
                let made = made_of(whole, seconds, timestamp)?;
                Ok(Arc::new(made.into_iter().collect::<TimestampMicrosecondArray>()))
            }
            (TimestampOperation::MakeInterval, [whole @ .., seconds]) if whole.len() == 6 => {
                let made = made_of(whole, seconds, interval)?;
                Ok(Arc::new(made.into_iter().collect::<IntervalMonthDayNanoArray>()))
            }
            _ => plan_err!("{}", self.takes()),
        }
    }
}

fn timestamp_type_of(of: &DataType) -> Option<DataType> {
    let is_moment = matches!(of, DataType::Date32 | DataType::Timestamp(..)) || of.is_string() || of.is_null();
    is_moment.then_some(MOMENT)
}

/// The moment at which clocks of a zone show a time. As in PostgreSQL an offset that is written counts east here.
fn moment_in_zone(shown: i64, zone: &str) -> Result<i64> {
    let moment = match zone.as_bytes() {
        [b'+' | b'-', ..] => {
            let day = format!("2000-01-01 00:00{zone}");
            let offset = parse_timestamptz(day.as_bytes(), &Zone::utc()).ok().map(|moment| DAY_2000 - moment);
            let unknown = || Error::new(ErrorKind::InvalidSetting, format!("time zone \"{zone}\" not recognized"));
            shown.checked_sub(offset.ok_or_else(unknown)?)
        }
        _ => Zone::of_statement(zone)?.moment_of(shown),
    };
    moment.ok_or_else(|| out_of_range("the moment"))
}

/// Whole numbers, and a number of seconds.
fn numbers_of(whole: &[DataType], seconds: &DataType) -> Option<Vec<DataType>> {
    let is_whole = |of: &DataType| of.is_integer() || of.is_null();
    (whole.iter().all(is_whole) && (seconds.is_numeric() || seconds.is_null()))
        .then(|| vec![DataType::Int64; whole.len()].into_iter().chain([DataType::Float64]).collect())
}

/// What is made of the numbers of each row, if there are all of them.
fn made_of<const N: usize, T>(
    whole: &[ArrayRef],
    seconds: &ArrayRef,
    make: impl Fn([i64; N], f64) -> Result<T>,
) -> Planned<Vec<Option<T>>> {
    let whole: Vec<&Int64Array> = whole.iter().map(|array| array.as_primitive::<Int64Type>()).collect();
    let seconds: &Float64Array = seconds.as_primitive::<Float64Type>();
    let mut made = Vec::with_capacity(seconds.len());
    for row in 0..seconds.len() {
        let is_there = !seconds.is_null(row) && whole.iter().all(|array| !array.is_null(row));
        let mut numbers = [0; N];
        for (number, array) in numbers.iter_mut().zip(&whole) {
            *number = array.value(row);
        }
        made.push(if is_there { Some(make(numbers, seconds.value(row)).map_err(wrap)?) } else { None });
    }
    Ok(made)
}

fn out_of_range(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::OutOfRange, format!("{what} is out of range"))
}

fn timestamp([year, month, day, hour, minute]: [i64; 5], seconds: f64) -> Result<i64> {
    // There is no year zero, and the one before the first is -1.
    let of_calendar = if year < 0 { year.checked_add(1) } else { (year != 0).then_some(year) };
    let date = || {
        let year = i32::try_from(of_calendar?).ok()?;
        NaiveDate::from_ymd_opt(year, u32::try_from(month).ok()?, u32::try_from(day).ok()?)?;
        let day = u32::try_from(day).ok()?;
        Some(calendar::days_of(i64::from(year), u32::try_from(month).ok()?, day))
    };
    let Some(days) = date() else { return Err(out_of_range(format_args!("the date {year}-{month:02}-{day:02}"))) };
    let in_minute = (0.0..=60.0).contains(&seconds);
    let is_time = (0..24).contains(&hour) && (0..60).contains(&minute) && in_minute;
    if !(is_time || hour == 24 && minute == 0 && seconds == 0.0) {
        return Err(out_of_range(format_args!("the time {hour:02}:{minute:02}:{seconds}")));
    }
    let micros = (seconds * 1e6).round_ties_even() as i64;
    let in_day = (hour * 3_600 + minute * 60) * SECOND + micros;
    let made = days.checked_mul(DAY).and_then(|start| start.checked_add(in_day));
    made.ok_or_else(|| out_of_range(format_args!("the year {year}")))
}

fn interval([years, months, weeks, days, hours, minutes]: [i64; 6], seconds: f64) -> Result<IntervalMonthDayNano> {
    let found = || {
        let months = years.checked_mul(12)?.checked_add(months)?;
        let days = weeks.checked_mul(7)?.checked_add(days)?;
        let micros = (seconds * 1e6).round_ties_even();
        let micros = (micros.abs() < 9e15).then_some(micros as i64)?;
        let minutes = hours.checked_mul(60)?.checked_add(minutes)?;
        let micros = minutes.checked_mul(60 * SECOND)?.checked_add(micros)?;
        let (months, days) = (i32::try_from(months).ok()?, i32::try_from(days).ok()?);
        Some(IntervalMonthDayNano::new(months, days, micros.checked_mul(1_000)?))
    };
    found().ok_or_else(|| out_of_range("the interval"))
}

/// The last day of a day's month.
fn last_day(day: i32) -> i32 {
    let (year, month, _) = calendar::civil(day.into());
    let next = if month == 12 { calendar::days_of(year + 1, 1, 1) } else { calendar::days_of(year, month + 1, 1) };
    i32::try_from(next - 1).unwrap_or(day)
}

/// From one moment to another, by the calendar.
fn age(to: i64, from: i64) -> IntervalMonthDayNano {
    let is_negative = to < from;
    let (later, earlier) = if is_negative { (from, to) } else { (to, from) };
    let parts = |moment: i64| (calendar::civil(moment.div_euclid(DAY)), moment.rem_euclid(DAY));
    let (((later_year, later_month, later_day), later_time), ((year, month, day), time)) =
        (parts(later), parts(earlier));
    let mut months = (later_year - year) * 12 + i64::from(later_month) - i64::from(month);
    let mut days = i64::from(later_day) - i64::from(day);
    let mut micros = later_time - time;
    if micros < 0 {
        (micros, days) = (micros + DAY, days - 1);
    }
    if days < 0 {
        // As long as the month in which it begins.
        let first = calendar::days_of(year, month, 1);
        let length = i64::from(last_day(i32::try_from(first).unwrap_or(0))) - first + 1;
        (days, months) = (days + length, months - 1);
    }
    let sign = if is_negative { -1 } else { 1 };
    let small = |of: i64| i32::try_from(sign * of).unwrap_or(i32::MAX);
    IntervalMonthDayNano::new(small(months), small(days), sign * micros * 1_000)
}

fn changed_intervals(
    spans: &ArrayRef,
    change: fn(IntervalMonthDayNano) -> Option<IntervalMonthDayNano>,
) -> Planned<ArrayRef> {
    let mut made = Vec::with_capacity(spans.len());
    for span in &differences(spans)? {
        let changed = span.map(|span| change(span).ok_or_else(|| wrap(out_of_range("the interval"))));
        made.push(changed.transpose()?);
    }
    Ok(Arc::new(made.into_iter().collect::<IntervalMonthDayNanoArray>()))
}

/// Hours of which there are a day's become days.
fn hours_justified(span: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let IntervalMonthDayNano { months, days, nanoseconds } = span;
    let days = days.checked_add(i32::try_from(nanoseconds / DAY_NANOS).ok()?)?;
    let (days, nanoseconds) = of_one_sign(days, nanoseconds % DAY_NANOS);
    Some(IntervalMonthDayNano::new(months, days, nanoseconds))
}

/// Days of which there are a month's become months.
fn days_justified(span: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let IntervalMonthDayNano { months, days, nanoseconds } = span;
    let (mut months, mut days) = (months.checked_add(days / MONTH_DAYS)?, days % MONTH_DAYS);
    if months > 0 && days < 0 {
        (months, days) = (months - 1, days + MONTH_DAYS);
    } else if months < 0 && days > 0 {
        (months, days) = (months + 1, days - MONTH_DAYS);
    }
    Some(IntervalMonthDayNano::new(months, days, nanoseconds))
}

/// Both, and all of one sign.
fn justified(span: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let IntervalMonthDayNano { months, days, nanoseconds } = span;
    let all_days = i64::from(days) + nanoseconds / DAY_NANOS;
    let time = nanoseconds % DAY_NANOS;
    let each = i64::from(MONTH_DAYS);
    let months = i64::from(months) + all_days / each;
    let (mut months, mut days) = (i32::try_from(months).ok()?, i32::try_from(all_days % each).ok()?);
    if months > 0 && (days < 0 || days == 0 && time < 0) {
        (months, days) = (months - 1, days + MONTH_DAYS);
    } else if months < 0 && (days > 0 || days == 0 && time > 0) {
        (months, days) = (months + 1, days - MONTH_DAYS);
    }
    let (days, time) = of_one_sign(days, time);
    Some(IntervalMonthDayNano::new(months, days, time))
}

fn of_one_sign(days: i32, nanos: i64) -> (i32, i64) {
    if days > 0 && nanos < 0 {
        (days - 1, nanos + DAY_NANOS)
    } else if days < 0 && nanos > 0 {
        (days + 1, nanos - DAY_NANOS)
    } else {
        (days, nanos)
    }
}

impl ScalarUDFImpl for TimestampFunction {
    fn name(&self) -> &str {
        match self.of {
            TimestampOperation::Age => "age",
            TimestampOperation::JustifyHours => "justify_hours",
            TimestampOperation::JustifyDays => "justify_days",
            TimestampOperation::JustifyInterval => "justify_interval",
            TimestampOperation::IsFinite => "isfinite",
            TimestampOperation::MakeTimestamp => "make_timestamp",
            TimestampOperation::MakeTimestampTz => "make_timestamptz",
            TimestampOperation::MakeInterval => "make_interval",
            TimestampOperation::LastDay => "last_day",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Planned<Vec<DataType>> {
        match self.of.coerced(arg_types) {
            Some(types) => Ok(types),
            None => plan_err!("{}", self.of.takes()),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Planned<DataType> {
        Ok(match self.of {
            TimestampOperation::IsFinite => DataType::Boolean,
            TimestampOperation::MakeTimestamp => MOMENT,
            TimestampOperation::MakeTimestampTz => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            TimestampOperation::LastDay => DataType::Date32,
            _ => SPAN,
        })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Planned<ColumnarValue> {
        by_arrays(&args.args, |arrays| self.of.array(&arrays))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_values::parse::parse_timestamp;

    const HOUR: i64 = DAY_NANOS / 24;

    fn parts(span: IntervalMonthDayNano) -> (i32, i32, i64) {
        (span.months, span.days, span.nanoseconds)
    }

    /// As PostgreSQL 15 has them.
    #[test]
    fn ages_are_counted_by_the_calendar() {
        for (to, from, wanted) in [
            ("2024-03-31", "2024-02-29", (1, 2, 0)),
            ("2024-03-01", "2024-01-31", (1, 1, 0)),
            ("2024-01-31", "2024-03-01", (-1, -1, 0)),
            ("2024-03-01 06:00", "2023-12-31 12:00", (2, 0, 18 * HOUR)),
            ("2001-04-10", "1957-06-13", (43 * 12 + 9, 27, 0)),
            ("2024-01-01", "2024-01-01", (0, 0, 0)),
        ] {
            let moment = |text: &str| parse_timestamp(text.as_bytes()).unwrap();
            assert_eq!(parts(age(moment(to), moment(from))), wanted, "{to} {from}");
        }
    }

    /// As PostgreSQL 15 has them.
    #[test]
    fn intervals_are_justified() {
        let of = IntervalMonthDayNano::new;
        let hours = [of(0, 0, 30 * HOUR), of(0, 1, -HOUR), of(0, -1, 30 * HOUR)].map(hours_justified);
        assert_eq!(
            hours.map(|span| span.map(parts)),
            [(0, 1, 6 * HOUR), (0, 0, 23 * HOUR), (0, 0, 6 * HOUR)].map(Some)
        );
        let days = [of(0, 35, 0), of(1, -1, 0), of(-1, 31, HOUR)].map(days_justified);
        assert_eq!(days.map(|span| span.map(parts)), [(1, 5, 0), (0, 29, 0), (0, 1, HOUR)].map(Some));
        let both = [of(1, 0, -HOUR), of(0, 29, 25 * HOUR), of(-1, 0, HOUR)].map(justified);
        assert_eq!(
            both.map(|span| span.map(parts)),
            [(0, 29, 23 * HOUR), (1, 0, HOUR), (0, -29, -23 * HOUR)].map(Some)
        );
        assert_eq!(hours_justified(of(0, i32::MAX, 24 * HOUR)), None);
    }

    #[test]
    fn moments_and_intervals_are_made_of_numbers() {
        let micros = |text: &str| parse_timestamp(text.as_bytes()).unwrap();
        assert_eq!(timestamp([2024, 1, 2, 3, 4], 5.5).unwrap(), micros("2024-01-02 03:04:05.5"));
        assert_eq!(timestamp([-44, 3, 15, 24, 0], 0.0).unwrap(), micros("-0043-03-16"));
        for (whole, seconds) in [([2023, 2, 29, 0, 0], 0.0), ([0, 1, 1, 0, 0], 0.0), ([2024, 1, 1, 0, 0], f64::NAN)] {
            assert_eq!(timestamp(whole, seconds).map_err(|error| error.kind()), Err(ErrorKind::OutOfRange));
        }
        assert_eq!(interval([1, 2, 3, 4, 5, 6], 7.5).map(parts).ok(), Some((14, 25, 5 * HOUR + 367_500_000_000)));
        assert!(interval([i64::MAX, 0, 0, 0, 0, 0], 0.0).is_err() && interval([0; 6], f64::NAN).is_err());
    }

    #[test]
    fn months_end() {
        for (year, month, last) in [(2024, 2, 29), (1900, 2, 28), (2023, 12, 31)] {
            let day = |day| calendar::days_of(year, month, day) as i32;
            assert_eq!((last_day(day(1)), last_day(day(last))), (day(last), day(last)));
        }
    }
}
