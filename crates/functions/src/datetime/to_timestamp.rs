//! `to_timestamp` and `to_date`: of numbers of seconds, and of texts with their forms.
//!
//! Invariants, as in PostgreSQL:
//! - A number of seconds is the microsecond that is nearest to it, so that what was a whole number of milliseconds is one.
//! - What a form does not ask for is the first there is: the first month, the first day, midnight. There must be a year.
//! - A text may end before its form does, and go on behind it.
//! - Names of days, and quarters, say nothing.
//!
//! DataFusion 55.2 cuts numbers to nanoseconds, and wants the whole date and the whole time of a form, or takes the date alone.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: to_timestamp, float, seconds, rounding,
//! chrono format, date only).
//! Held by `slt/timestamps.slt` (`to_timestamp(1709600000123 / 1000.0)`, `to_date('202403', 'YYYYMM')`).

use crate::columnar::by_arrays;
use crate::delegate::delegate_scalar;
use alluvia_space::codes::calendar;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::wrap;
use arrow::array::{Array, ArrayRef, AsArray, Date32Array, TimestampNanosecondArray};
use arrow::compute::cast as cast_array;
use arrow::datatypes::{DataType, Float64Type, TimeUnit};
use chrono::format::{Item, ParseErrorKind, Parsed, StrftimeItems, parse_and_remainder};
use chrono::{Datelike, NaiveDate, Weekday};
use datafusion_common::Result as Planned;
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use std::sync::Arc;

/// Seconds of 2000-01-01, from which PostgreSQL counts: floats near it have more digits behind the point.
const MIDDLE_SECONDS: i64 = 946_684_800;
const DAY_SECONDS: i64 = 86_400;
/// 1970-01-01, as `chrono` numbers days.
const EPOCH_DAY: i32 = 719_163;

/// DataFusion's `to_timestamp` or `to_date`, and ours.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ToTimestamp {
    inner: Arc<ScalarUDF>,
}

impl ToTimestamp {
    /// Ours in the place of this one.
    pub fn new(inner: Arc<ScalarUDF>) -> ToTimestamp {
        ToTimestamp { inner }
    }
}

impl ScalarUDFImpl for ToTimestamp {
    delegate_scalar!(name, aliases, signature, return_type, documentation);

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Planned<ColumnarValue> {
        let made = args.return_field.data_type().clone();
        let work: Option<Work> = match args.args.as_slice() {
            [seconds] if is_fractional(&seconds.data_type()) && made != DataType::Date32 => Some(of_seconds),
            [text, form] if text.data_type().is_string() && form.data_type().is_string() && !names_zone(form) => {
                Some(of_texts)
            }
            _ => None,
        };
        let Some(work) = work else { return self.inner.invoke_with_args(args) };
        by_arrays(&args.args, |arrays| work(&arrays, &made))
    }
}

/// Makes dates or moments of arguments.
type Work = fn(&[ArrayRef], &DataType) -> Planned<ArrayRef>;

fn is_fractional(data_type: &DataType) -> bool {
    data_type.is_floating() || data_type.is_decimal()
}

/// Whether a form has a zone by its name, which is DataFusion's to read.
fn names_zone(form: &ColumnarValue) -> bool {
    matches!(form, ColumnarValue::Scalar(form) if form.try_as_str().flatten().is_some_and(|form| form.contains("%Z")))
}

fn of_seconds(args: &[ArrayRef], made: &DataType) -> Planned<ArrayRef> {
    let mut all = Vec::new();
    for seconds in args {
        let seconds = cast_array(seconds, &DataType::Float64)?;
        for seconds in seconds.as_primitive::<Float64Type>() {
            all.push(seconds.map(nanos_of).transpose().map_err(wrap)?);
        }
    }
    moments(all, made)
}

/// Moments in nanoseconds.
fn moments(nanos: Vec<Option<i64>>, made: &DataType) -> Planned<ArrayRef> {
    let zone = match made {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => zone.clone(),
        _ => None,
    };
    let nanos: ArrayRef = Arc::new(TimestampNanosecondArray::from(nanos).with_timezone_opt(zone));
    Ok(if nanos.data_type() == made { nanos } else { cast_array(&nanos, made)? })
}

/// Nanoseconds of the microsecond that is nearest to so many seconds.
fn nanos_of(seconds: f64) -> Result<i64> {
    let micros = ((seconds - MIDDLE_SECONDS as f64) * 1e6).round_ties_even();
    let whole = (micros.abs() < 1e18).then_some(micros as i64);
    let nanos = whole.and_then(|micros| (micros + MIDDLE_SECONDS * 1_000_000).checked_mul(1_000));
    nanos.ok_or_else(|| out_of_range(format_args!("the moment {seconds} seconds after 1970")))
}

fn out_of_range(what: std::fmt::Arguments<'_>) -> Error {
    Error::new(ErrorKind::OutOfRange, format!("{what} is out of range"))
        .with_hint("to_timestamp reaches from 1678 to 2262; of whole seconds to_timestamp_seconds reaches further")
}

fn of_texts(args: &[ArrayRef], made: &DataType) -> Planned<ArrayRef> {
    let [texts, forms] = args else { return moments(Vec::new(), made) };
    let (texts, forms) = (cast_array(texts, &DataType::Utf8View)?, cast_array(forms, &DataType::Utf8View)?);
    let (mut days, mut nanos) = (Vec::new(), Vec::new());
    let mut known: Option<(&str, Vec<Item<'_>>)> = None;
    for (text, form) in texts.as_string_view().iter().zip(forms.as_string_view().iter()) {
        let read = match (text, form) {
            (Some(text), Some(form)) => {
                if known.as_ref().is_none_or(|(last, _)| *last != form) {
                    known = Some((form, StrftimeItems::new(form).collect()));
                }
                let items: &[Item<'_>] = known.as_ref().map_or(&[], |(_, items)| items.as_slice());
                Some(read(text, items).map_err(|reason| wrap(unread(text, form, &reason)))?)
            }
            _ => None,
        };
        if *made == DataType::Date32 {
            days.push(read.map(|moment| i32::try_from(moment.day).map_err(|_| wrap(too_far(moment)))).transpose()?);
        } else {
            nanos.push(read.map(|moment| moment.nanos().ok_or_else(|| wrap(too_far(moment)))).transpose()?);
        }
    }
    if *made == DataType::Date32 { Ok(Arc::new(Date32Array::from(days))) } else { moments(nanos, made) }
}

fn too_far(moment: Read) -> Error {
    let (year, month, day) = calendar::civil(moment.day);
    out_of_range(format_args!("the date {year:04}-{month:02}-{day:02}"))
}

fn unread(text: &str, form: &str, reason: &str) -> Error {
    const SHOWN_MAX: usize = 80;
    let shown: String = text.chars().take(SHOWN_MAX).collect();
    Error::new(ErrorKind::InvalidValue, format!("the text '{shown}' is not read by the form '{form}': {reason}"))
}

/// What a text says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Read {
    /// Since 1970.
    day: i64,
    /// In the day, which an offset may lead out of.
    seconds: i64,
    nanos: i64,
}

impl Read {
    fn nanos(self) -> Option<i64> {
        let seconds = i128::from(self.day) * i128::from(DAY_SECONDS) + i128::from(self.seconds);
        i64::try_from(seconds * 1_000_000_000 + i128::from(self.nanos)).ok()
    }
}

/// Reads a text by a form, or tells why it does not.
fn read(text: &str, form: &[Item<'_>]) -> std::result::Result<Read, String> {
    let mut parsed = Parsed::new();
    match parse_and_remainder(&mut parsed, text.trim_start(), form.iter()) {
        Ok(_) => {}
        // What the form asks for behind the end of the text is not there.
        Err(error) if error.kind() == ParseErrorKind::TooShort => {}
        Err(error) => return Err(error.to_string()),
    }
    let nanos = i64::from(parsed.nanosecond().unwrap_or(0));
    if let Some(seconds) = parsed.timestamp() {
        return Ok(Read { day: seconds.div_euclid(DAY_SECONDS), seconds: seconds.rem_euclid(DAY_SECONDS), nanos });
    }
    let day = i64::from(date_of(&parsed)?.num_days_from_ce() - EPOCH_DAY);
    let field = |of: Option<u32>| i64::from(of.unwrap_or(0));
    let hour = 12 * field(parsed.hour_div_12()) + field(parsed.hour_mod_12());
    let seconds = hour * 3_600 + field(parsed.minute()) * 60 + field(parsed.second());
    let moment = seconds - i64::from(parsed.offset().unwrap_or(0));
    Ok(Read { day: day + moment.div_euclid(DAY_SECONDS), seconds: moment.rem_euclid(DAY_SECONDS), nanos })
}

fn date_of(parsed: &Parsed) -> std::result::Result<NaiveDate, String> {
    let no_such = || "there is no such date".to_owned();
    let year = year_of(parsed.year(), parsed.year_div_100(), parsed.year_mod_100());
    // A year below zero is so many before Christ: there is no year 0.
    let year = year.map(|year| if year < 0 { year + 1 } else { year });
    if let (Some(year), Some(day)) = (year, parsed.ordinal()) {
        return NaiveDate::from_yo_opt(year, day).ok_or_else(no_such);
    }
    if let Some(year) = year {
        let (month, day) = (parsed.month().unwrap_or(1), parsed.day().unwrap_or(1));
        return NaiveDate::from_ymd_opt(year, month, day).ok_or_else(no_such);
    }
    let year = year_of(parsed.isoyear(), parsed.isoyear_div_100(), parsed.isoyear_mod_100());
    let year = year.ok_or_else(|| "it has no year".to_owned())?;
    let (week, day) = (parsed.isoweek().unwrap_or(1), parsed.weekday().unwrap_or(Weekday::Mon));
    NaiveDate::from_isoywd_opt(year, week, day).ok_or_else(no_such)
}

/// Years of two digits are the ones that are nearest to 2020.
fn year_of(year: Option<i32>, hundreds: Option<i32>, of_hundred: Option<i32>) -> Option<i32> {
    match (year, hundreds, of_hundred) {
        (Some(year), _, _) => Some(year),
        (None, Some(hundreds), rest) => hundreds.checked_mul(100)?.checked_add(rest.unwrap_or(0)),
        (None, None, Some(rest)) => Some(if rest < 70 { 2000 + rest } else { 1900 + rest }),
        (None, None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str, form: &str) -> std::result::Result<String, String> {
        let items: Vec<Item<'_>> = StrftimeItems::new(form).collect();
        let moment = read(text, &items)?;
        let (year, month, day) = calendar::civil(moment.day);
        let (hour, rest) = (moment.seconds / 3_600, moment.seconds % 3_600);
        Ok(format!("{year:04}-{month:02}-{day:02} {hour:02}:{:02}:{:02}", rest / 60, rest % 60))
    }

    /// As PostgreSQL 15 has them.
    #[test]
    fn what_is_not_told_is_the_first() {
        for (text, form, moment) in [
            ("202403", "%Y%m", Ok("2024-03-01 00:00:00")),
            ("2024", "%Y", Ok("2024-01-01 00:00:00")),
            ("2024-10", "%G-%V", Ok("2024-03-04 00:00:00")),
            ("2024-065", "%Y-%j", Ok("2024-03-05 00:00:00")),
            ("20240305 and more", "%Y%m%d", Ok("2024-03-05 00:00:00")),
            ("2024", "%Y-%m-%d", Ok("2024-01-01 00:00:00")),
            ("05.03.24 17", "%d.%m.%y %H", Ok("2024-03-05 17:00:00")),
            ("2024-03-05 12:30", "%Y-%m-%d %I:%M", Ok("2024-03-05 00:30:00")),
            ("2024-03-05 12:30 PM", "%Y-%m-%d %I:%M %p", Ok("2024-03-05 12:30:00")),
            ("2024-03-05T00:30:00+01:00", "%Y-%m-%dT%H:%M:%S%:z", Ok("2024-03-04 23:30:00")),
            ("2024-02-30", "%Y-%m-%d", Err("there is no such date")),
            ("03", "%m", Err("it has no year")),
        ] {
            assert_eq!(told(text, form), moment.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
        assert!(told("soon", "%Y").is_err());
    }

    #[test]
    fn seconds_are_the_nearest_microsecond() {
        for (seconds, nanos) in [
            (1_709_600_000_123.0 / 1_000.0, 1_709_600_000_123_000_000),
            (0.0, 0),
            (-0.000_001, -1_000),
            (1e9 + 0.5, 1_000_000_000_500_000_000),
        ] {
            assert_eq!(nanos_of(seconds).ok(), Some(nanos), "{seconds}");
        }
        for seconds in [f64::NAN, f64::INFINITY, 1e12, -1e300] {
            assert_eq!(nanos_of(seconds).map_err(|error| error.kind()), Err(ErrorKind::OutOfRange));
        }
    }
}
