//! `date_trunc` of moments of any year, of intervals, and by the clocks of a zone.
//!
//! Invariants:
//! - Where DataFusion's own function answers, it does. DataFusion 55.2 goes through nanoseconds, and fails outside of the years 1677
//!   to 2262; there each moment is cut by the calendar. So it is to decades, centuries and millennia, which begin as in PostgreSQL.
//! - A unit may have any of the names that intervals have for it: `'months'`, `'ms'`.
//! - Of an interval, and of a difference of moments, what is less than the unit is left out; it is an interval.
//! - By a zone, a moment is cut as its clocks show it, and is a moment again. Units that are less than a day are cut without a change of the
//!   clocks: an hour that is shown twice is two hours.
//!
//! Mends apache/datafusion#25432 (in 55.2). Of columns and of units above the day no issue upstream is known (searched
//! 2026-11-27: date_trunc, out of range, nanoseconds, 2262).
//! Held by `slt/meaning.slt` (`date_trunc('year', t)` of `FROM far`).

use crate::columnar::as_columnar;
use crate::datetime::timezone::out_of_range;
use crate::operators::durations::differences;
use alluvia_space::CalendarUnit;
use alluvia_space::codes::calendar;
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::{not_supported, wrap};
use alluvia_values::time_zone::Zone;
use arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoArray, TimestampMicrosecondArray, TimestampNanosecondArray};
use arrow::compute::cast as cast_array;
use arrow::compute::kernels::cast_utils;
use arrow::datatypes::{
    DataType, Field, FieldRef, IntervalMonthDayNano, IntervalUnit, TimeUnit, TimestampMicrosecondType,
    TimestampNanosecondType,
};
use datafusion_common::types::{NativeType, logical_date, logical_string};
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion_expr::{
    Coercion, ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, TypeSignatureClass,
};
use datafusion_functions::datetime::date_trunc;
use std::sync::Arc;

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;
const SPAN: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// DataFusion's function, and what it does not reach.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Truncated {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl Default for Truncated {
    fn default() -> Truncated {
        let inner = date_trunc();
        let text = || Coercion::new_exact(TypeSignatureClass::Native(logical_string()));
        let span = |class| TypeSignature::Coercible(vec![text(), Coercion::new_exact(class)]);
        let moment = Coercion::new_implicit(
            TypeSignatureClass::Timestamp,
            vec![TypeSignatureClass::Native(logical_string()), TypeSignatureClass::Native(logical_date())],
            NativeType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        );
        let ours = [
            span(TypeSignatureClass::Interval),
            span(TypeSignatureClass::Duration),
            TypeSignature::Coercible(vec![text(), moment, text()]),
        ];
        let theirs = inner.signature();
        let mut forms = match &theirs.type_signature {
            TypeSignature::OneOf(forms) => forms.clone(),
            form => vec![form.clone()],
        };
        forms.extend(ours);
        let signature = Signature { type_signature: TypeSignature::OneOf(forms), ..theirs.clone() };
        Truncated { inner, signature }
    }
}

impl ScalarUDFImpl for Truncated {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        let field = |data_type| Ok(Arc::new(Field::new(self.name(), data_type, is_nullable)));
        let fields = args.arg_fields;
        match fields {
            [_, _, _] => field(moment()),
            [_, of] if is_duration(of.data_type()) => field(SPAN),
            _ => self.inner.return_field_from_args(args),
        }
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        match inputs {
            // Intervals are sorted otherwise than by their years, months, days and time.
            [_, of] if !is_duration(&of.range.data_type()) => self.inner.output_ordering(inputs),
            _ => Ok(SortProperties::Unordered),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        if let [unit, moments, zones] = args.args.as_slice() {
            return in_zones(unit, moments, zones, rows);
        }
        if let [ColumnarValue::Scalar(unit), of] = args.args.as_slice() {
            let named = unit.try_as_str().flatten().and_then(canonical);
            if is_duration(&of.data_type()) {
                return of_spans(unit, named, of);
            }
            if let Some(named) = named {
                args.args[0] = ColumnarValue::Scalar(ScalarValue::Utf8(Some(named.to_owned())));
            }
        }
        let given = args.args.clone();
        self.inner.invoke_with_args(args).or_else(|error| by_calendar(&given, rows)?.ok_or(error))
    }
}

fn is_duration(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_) | DataType::Duration(_))
}

/// SQL's TIMESTAMPTZ.
fn moment() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// The name that DataFusion and [`cut`] have for a unit; `None` if it is none.
fn canonical(unit: &str) -> Option<&'static str> {
    use cast_utils::IntervalUnit::{
        Century, Day, Decade, Hour, Microsecond, Millisecond, Minute, Month, Nanosecond, Second, Week, Year,
    };
    let unit = unit.to_ascii_lowercase();
    Some(match unit.as_str() {
        "quarter" | "quarters" | "qtr" => "quarter",
        "millennium" | "millennia" | "millenniums" | "mil" | "mils" => "millennium",
        unit => match unit.parse::<cast_utils::IntervalUnit>().ok()? {
            Century => "century",
            Decade => "decade",
            Year => "year",
            Month => "month",
            Week => "week",
            Day => "day",
            Hour => "hour",
            Minute => "minute",
            Second => "second",
            Millisecond => "millisecond",
            Microsecond => "microsecond",
            Nanosecond => return None,
        },
    })
}

fn unknown(unit: &str) -> Error {
    Error::new(ErrorKind::InvalidSetting, format!("date_trunc knows no unit \"{unit}\"")).with_hint(
        "units are millennium, century, decade, year, quarter, month, week, day, hour, minute, second, millisecond, microsecond",
    )
}

/// Moments, cut as clocks of zones show them.
fn in_zones(
    unit: &ColumnarValue,
    moments: &ColumnarValue,
    zones: &ColumnarValue,
    rows: usize,
) -> Result<ColumnarValue> {
    let ColumnarValue::Scalar(unit) = unit else { return exec_err!("the unit of date_trunc must be a constant") };
    let is_scalar = matches!((moments, zones), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
    let rows = if is_scalar { 1 } else { rows };
    let (moments, zones) = (moments.to_array(rows)?, zones.to_array(rows)?);
    let moments = cast_array(&moments, &moment())?;
    let zones = cast_array(&zones, &DataType::Utf8)?;
    let unit = match unit.try_as_str().flatten() {
        Some(name) => Some(canonical(name).ok_or_else(|| wrap(unknown(name)))?),
        None => None,
    };
    let mut known: Option<(&str, Zone)> = None;
    let mut made = Vec::with_capacity(rows);
    for (moment, name) in moments.as_primitive::<TimestampMicrosecondType>().iter().zip(zones.as_string::<i32>()) {
        let (Some(unit), Some(moment), Some(name)) = (unit, moment, name) else {
            made.push(None);
            continue;
        };
        let zone = match known {
            Some((last, zone)) if last == name => zone,
            _ => Zone::of_statement(name).map_err(wrap)?,
        };
        made.push(Some(cut_in(moment, unit, &zone).ok_or_else(|| wrap(out_of_range()))?));
        known = Some((name, zone));
    }
    let made: ArrayRef = Arc::new(TimestampMicrosecondArray::from(made).with_timezone("UTC"));
    as_columnar(made, is_scalar)
}

fn cut_in(moment: i64, unit: &str, zone: &Zone) -> Option<i64> {
    let offset = zone.offset_at(moment).checked_mul(SECOND)?;
    let shown = cut(moment.checked_add(offset)?, unit)?;
    match unit {
        "hour" | "minute" | "second" | "millisecond" | "microsecond" => shown.checked_sub(offset),
        _ => zone.moment_of(shown),
    }
}

fn of_spans(unit: &ScalarValue, named: Option<&'static str>, spans: &ColumnarValue) -> Result<ColumnarValue> {
    let (is_scalar, spans) = (matches!(spans, ColumnarValue::Scalar(_)), spans.to_array(1)?);
    let spans = differences(&spans)?;
    let cut: IntervalMonthDayNanoArray = match (unit.try_as_str().flatten(), named) {
        (None, _) => spans.iter().map(|_| None::<IntervalMonthDayNano>).collect(),
        (Some(_), Some("week")) => {
            let refused = not_supported("date_trunc('week', ...) of an INTERVAL");
            return Err(wrap(refused.with_hint("months have no whole number of weeks: cut to days")));
        }
        (Some(_), Some(unit)) => spans.iter().map(|span| span.map(|span| cut_span(span, unit))).collect(),
        (Some(name), None) => return Err(wrap(unknown(name))),
    };
    as_columnar(Arc::new(cut), is_scalar)
}

/// What an interval has of a unit and of greater ones.
fn cut_span(span: IntervalMonthDayNano, unit: &str) -> IntervalMonthDayNano {
    let IntervalMonthDayNano { months, days, nanoseconds } = span;
    let months_of = |each: i32| IntervalMonthDayNano::new(months / each * each, 0, 0);
    let time_of = |each: i64| IntervalMonthDayNano::new(months, days, nanoseconds / each * each);
    match unit {
        "millennium" => months_of(12_000),
        "century" => months_of(1_200),
        "decade" => months_of(120),
        "year" => months_of(12),
        "quarter" => months_of(3),
        "month" => months_of(1),
        "day" => IntervalMonthDayNano::new(months, days, 0),
        "hour" => time_of(3_600 * SECOND * 1_000),
        "minute" => time_of(60 * SECOND * 1_000),
        "second" => time_of(SECOND * 1_000),
        "millisecond" => time_of(SECOND),
        _ => time_of(1_000),
    }
}

/// `None` for what is no TIMESTAMP, or no unit.
fn by_calendar(args: &[ColumnarValue], rows: usize) -> Result<Option<ColumnarValue>> {
    let [ColumnarValue::Scalar(unit), moments] = args else { return Ok(None) };
    let (of, zone) = match moments.data_type() {
        DataType::Timestamp(of @ (TimeUnit::Microsecond | TimeUnit::Nanosecond), zone) => (of, zone),
        _ => return Ok(None),
    };
    let Some(unit) = unit.try_as_str().flatten().map(str::to_ascii_lowercase) else { return Ok(None) };
    // Clocks of other zones than UTC are not those of the calendar.
    if !zone.as_deref().is_none_or(|zone| matches!(zone, "UTC" | "+00:00")) {
        return Ok(None);
    }
    if cut(0, &unit).is_none() {
        return Err(wrap(unknown(&unit)));
    }
    let (is_scalar, moments) = (matches!(moments, ColumnarValue::Scalar(_)), moments.to_array(rows)?);
    let made: ArrayRef = if of == TimeUnit::Nanosecond {
        // A date, or a text.
        let moments = moments.as_primitive::<TimestampNanosecondType>();
        let start = |nanos: i64| cut(nanos.div_euclid(1_000), &unit)?.checked_mul(1_000);
        let all = moments.iter().map(|nanos| match nanos {
            Some(nanos) => start(nanos).map(Some).ok_or_else(|| wrap(before_nanoseconds())),
            None => Ok(None),
        });
        Arc::new(all.collect::<Result<TimestampNanosecondArray>>()?.with_timezone_opt(zone))
    } else {
        let moments = moments.as_primitive::<TimestampMicrosecondType>();
        let cut: TimestampMicrosecondArray = moments.iter().map(|moment| cut(moment?, &unit)).collect();
        Arc::new(cut.with_timezone_opt(zone))
    };
    as_columnar(made, is_scalar).map(Some)
}

fn before_nanoseconds() -> Error {
    Error::new(ErrorKind::OutOfRange, "the unit that a date lies in begins before the year 1678")
        .with_hint("cut a TIMESTAMP: date_trunc('century', CAST(x AS TIMESTAMP))")
}

/// The first year of so many, of which the first begin with the year 1.
fn first_year(moment: i64, years: i64) -> i64 {
    let year = calendar::civil(moment.div_euclid(DAY)).0;
    (year - 1).div_euclid(years) * years + 1
}

/// Where the unit begins that a time lies in, and the next one, for units of days and more.
pub fn starts_around(shown: i64, unit: &str) -> Option<(i64, i64)> {
    let unit = canonical(unit)?;
    let longest = match unit {
        "day" => 1,
        "week" => 7,
        "month" => 31,
        "quarter" => 92,
        "year" => 366,
        "decade" => 3_653,
        "century" => 36_525,
        "millennium" => 365_250,
        _ => return None,
    };
    let start = cut(shown, unit)?;
    Some((start, cut(start.checked_add(longest * DAY)?, unit)?))
}

/// The start of the unit that a moment lies in; `None` if there is no such unit.
fn cut(moment: i64, unit: &str) -> Option<i64> {
    let by = |micros: i64| moment.saturating_sub(moment.rem_euclid(micros));
    let year = |year: i64| calendar::days_of(year, 1, 1).saturating_mul(DAY);
    Some(match unit {
        "millennium" => year(first_year(moment, 1_000)),
        "century" => year(first_year(moment, 100)),
        // The first decade has nine years after the year 0, which is the one before the first.
        "decade" => year(calendar::civil(moment.div_euclid(DAY)).0.div_euclid(10) * 10),
        "year" => calendar::truncate_micros(moment, CalendarUnit::Year),
        "quarter" => calendar::truncate_micros(moment, CalendarUnit::Quarter),
        "month" => calendar::truncate_micros(moment, CalendarUnit::Month),
        "week" => {
            // The fifth day of 1970 was a Monday.
            let day = moment.div_euclid(DAY);
            (day - (day - 4).rem_euclid(7)).saturating_mul(DAY)
        }
        "day" => by(DAY),
        "hour" => by(3_600 * SECOND),
        "minute" => by(60 * SECOND),
        "second" => by(SECOND),
        "millisecond" => by(1_000),
        "microsecond" => moment,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_values::parse::parse_timestamp;

    /// As PostgreSQL 15 has them.
    #[test]
    fn units_begin_where_the_calendar_says() {
        for (moment, unit, start) in [
            ("2999-11-21 10:11:12.345678", "year", "2999-01-01"),
            ("2999-11-21 10:11:12.345678", "millennium", "2001-01-01"),
            ("2000-11-21 10:11:12.345678", "century", "1901-01-01"),
            ("2001-11-21 10:11:12.345678", "century", "2001-01-01"),
            ("2999-11-21 10:11:12.345678", "decade", "2990-01-01"),
            ("-0001-11-21 10:11:12.345678", "decade", "-0010-01-01"),
            ("0000-11-21 10:11:12.345678", "century", "-0099-01-01"),
            ("2999-11-21 10:11:12.345678", "quarter", "2999-10-01"),
            ("2999-11-21 10:11:12.345678", "month", "2999-11-01"),
            ("2999-11-21 10:11:12.345678", "week", "2999-11-18"),
            ("1500-03-01 10:11:12.345678", "week", "1500-02-26"),
            ("1500-03-01 10:11:12.345678", "day", "1500-03-01"),
            ("1500-03-01 10:11:12.345678", "hour", "1500-03-01 10:00"),
            ("1500-03-01 10:11:12.345678", "minute", "1500-03-01 10:11"),
            ("1500-03-01 10:11:12.345678", "second", "1500-03-01 10:11:12"),
            ("1500-03-01 10:11:12.345678", "millisecond", "1500-03-01 10:11:12.345"),
        ] {
            let [moment, start] = [moment, start].map(|text| parse_timestamp(text.as_bytes()).unwrap());
            assert_eq!(cut(moment, unit), Some(start), "{unit}");
        }
        assert_eq!(cut(0, "fortnight"), None);
    }
}
