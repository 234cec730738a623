//! What a session's time zone means where values are read, written and moved: functions that name the zone as an argument.
//!
//! Invariants, as in PostgreSQL:
//! - The zone is a constant, so that an expression means the same in every session that has it: what is kept of plans needs no other key.
//! - An interval's months and days are added to what clocks of the zone show, its time to the moment: a day has 23 to 25 hours.
//! - A series of moments adds its step to each moment for the next one.
//!
//! `alluvia_plan::after_types::session_zone` puts them where casts and operators stand.

use crate::arrays::{is_list, texts_of_lists_in_zone};
use crate::columnar::{as_columnar, is_constant, rows_made};
use crate::datetime::timezone::out_of_range;
use alluvia_space::codes::calendar;
use alluvia_types::{Error, ErrorKind};
use alluvia_values::convert::texts_in_zone;
use alluvia_values::errors::wrap;
use alluvia_values::parse::shown;
use alluvia_values::text::{iso_moment, write_timestamptz};
use alluvia_values::time_zone::{Zone, parse_timestamptz};
use arrow::array::{
    Array, ArrayRef, AsArray, Int32Array, ListArray, ListBuilder, StringViewBuilder, StructArray,
    TimestampMicrosecondArray, TimestampMicrosecondBuilder,
};
use arrow::compute::cast as cast_array;
use arrow::datatypes::{
    DataType, Field, FieldRef, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion_common::{Result, ScalarValue, exec_err, plan_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit};
use std::sync::Arc;

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;
const DAY_NANOS: i64 = DAY * 1_000;
const SPAN: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
/// More moments than a series of one row may have.
const SERIES_MAX: usize = 50_000_000;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZoneOperation {
    /// The text of a value, in which moments are as clocks of the zone show them.
    Text,
    /// A value whose moments, also those in lists and rows, are the texts that JSON has of them.
    Json,
    /// A value whose moments, also those in lists and rows, are their texts.
    Texts,
    /// The moment that a text names; NULL where it names none, if it is told so.
    Moment,
    /// A moment and an interval.
    Plus,
    /// Seconds by which clocks of the zone are ahead of UTC at a moment.
    Offset,
    /// The moments from one to another by a step, and whether the last is one of them.
    Series,
}

/// A function of these.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct InZone {
    of: ZoneOperation,
    signature: Signature,
}

/// SQL's TIMESTAMPTZ.
pub fn moment_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

impl InZone {
    /// The function of this one.
    pub(crate) fn new(of: ZoneOperation) -> InZone {
        InZone { of, signature: Signature::user_defined(Volatility::Immutable) }
    }

    /// Where the zone stands among the arguments.
    fn zone_at(&self) -> usize {
        match self.of {
            ZoneOperation::Text | ZoneOperation::Json | ZoneOperation::Texts => 1,
            ZoneOperation::Moment | ZoneOperation::Offset => 1,
            ZoneOperation::Plus => 2,
            ZoneOperation::Series => 3,
        }
    }

    fn array(&self, args: &[ArrayRef], zone: &Zone, flag: bool) -> Result<ArrayRef> {
        match (self.of, args) {
            (ZoneOperation::Text, [values, ..]) => {
                let texts = match is_list(values.data_type()) {
                    true => texts_of_lists_in_zone(values, zone)?,
                    false => texts_in_zone(values, zone).map_err(wrap)?,
                };
                Ok(cast_array(&texts, &DataType::Utf8View)?)
            }
            (ZoneOperation::Json, [values, ..]) => with_texts(values, zone, iso_moment),
            (ZoneOperation::Texts, [values, ..]) => with_texts(values, zone, text_of),
            (ZoneOperation::Moment, [texts, ..]) => {
                let texts = cast_array(texts, &DataType::Utf8View)?;
                let mut made = TimestampMicrosecondBuilder::with_capacity(texts.len());
                for text in texts.as_string_view() {
                    match text.map(|text| moment_of_text(text, zone)) {
                        Some(Err(_)) if flag => made.append_null(),
                        moment => made.append_option(moment.transpose()?),
                    }
                }
                Ok(Arc::new(made.finish().with_timezone("UTC")))
            }
            (ZoneOperation::Plus, [moments, spans, ..]) => {
                let spans = cast_array(spans, &SPAN)?;
                let spans = spans.as_primitive::<IntervalMonthDayNanoType>();
                let mut made = TimestampMicrosecondBuilder::with_capacity(moments.len());
                for (moment, span) in moments.as_primitive::<TimestampMicrosecondType>().iter().zip(spans) {
                    let later = moment.zip(span).map(|(moment, span)| later(moment, span, zone));
                    made.append_option(later.map(|later| later.ok_or_else(|| wrap(out_of_range()))).transpose()?);
                }
                Ok(Arc::new(made.finish().with_timezone("UTC")))
            }
            (ZoneOperation::Offset, [moments, ..]) => {
                let moments = moments.as_primitive::<TimestampMicrosecondType>();
                let offset = |moment: i64| i32::try_from(zone.offset_at(moment)).unwrap_or(0);
                Ok(Arc::new(moments.iter().map(|moment| moment.map(offset)).collect::<Int32Array>()))
            }
            (ZoneOperation::Series, [from, to, steps, ..]) => Ok(Arc::new(series(from, to, steps, zone, flag)?)),
            _ => exec_err!("{} came without its arguments", self.name()),
        }
    }
}

/// The moment that a text names in a session of a zone.
pub fn moment_of_text(text: &str, zone: &Zone) -> Result<i64> {
    parse_timestamptz(text.as_bytes(), zone).map_err(|bad| {
        let message = bad.describe(&shown(text.as_bytes()), "TIMESTAMP WITH TIME ZONE");
        wrap(Error::new(bad.kind(), message).with_hint("write it as '2026-01-31 10:11:12+01', or without the offset"))
    })
}

/// A moment later by an interval, as clocks of a zone count days and months.
pub fn later(moment: i64, span: IntervalMonthDayNano, zone: &Zone) -> Option<i64> {
    let IntervalMonthDayNano { months, days, nanoseconds } = span;
    let mut moment = moment;
    if months != 0 {
        let shown = zone.shown_at(moment)?;
        let (year, month, day) = calendar::civil(shown.div_euclid(DAY));
        let count = year.checked_mul(12)?.checked_add(i64::from(month) - 1)?.checked_add(months.into())?;
        let (year, month) = (count.div_euclid(12), u32::try_from(count.rem_euclid(12) + 1).ok()?);
        let first = calendar::days_of(year, month, 1);
        let next = if month == 12 { calendar::days_of(year + 1, 1, 1) } else { calendar::days_of(year, month + 1, 1) };
        let day = (first + i64::from(day) - 1).min(next - 1);
        moment = zone.moment_of(day.checked_mul(DAY)?.checked_add(shown.rem_euclid(DAY))?)?;
    }
    if days != 0 {
        let shown = zone.shown_at(moment)?;
        moment = zone.moment_of(shown.checked_add(i64::from(days).checked_mul(DAY)?)?)?;
    }
    moment.checked_add(nanoseconds / 1_000)
}

/// The type of a value whose moments are texts.
fn type_with_texts(of: &DataType) -> DataType {
    match of {
        DataType::Timestamp(_, Some(_)) => DataType::Utf8View,
        DataType::List(element) => DataType::List(field_with_texts(element)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field_with_texts).collect()),
        of => of.clone(),
    }
}

fn field_with_texts(of: &FieldRef) -> FieldRef {
    Arc::new(of.as_ref().clone().with_data_type(type_with_texts(of.data_type())))
}

/// Values whose moments are texts.
fn with_texts(values: &ArrayRef, zone: &Zone, text: fn(i64, &Zone) -> String) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Timestamp(_, Some(_)) => {
            let moments = cast_array(values, &moment_type())?;
            let mut texts = StringViewBuilder::with_capacity(moments.len());
            for moment in moments.as_primitive::<TimestampMicrosecondType>() {
                texts.append_option(moment.map(|moment| text(moment, zone)));
            }
            Arc::new(texts.finish())
        }
        DataType::List(element) => {
            let lists = values.as_list::<i32>();
            let elements = with_texts(lists.values(), zone, text)?;
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            Arc::new(ListArray::try_new(field_with_texts(element), offsets, elements, nulls)?)
        }
        DataType::Struct(fields) => {
            let rows = values.as_struct();
            let columns = rows
                .columns()
                .iter()
                .map(|column| with_texts(column, zone, text))
                .collect::<Result<Vec<ArrayRef>>>()?;
            let fields = fields.iter().map(field_with_texts).collect();
            Arc::new(StructArray::try_new_with_length(fields, columns, rows.nulls().cloned(), rows.len())?)
        }
        _ => Arc::clone(values),
    })
}

fn text_of(moment: i64, zone: &Zone) -> String {
    let mut shown = String::with_capacity(32);
    // A String takes every text.
    let _ = write_timestamptz(&mut shown, moment, zone);
    shown
}

/// Whether an interval goes forward; `None` of one that goes nowhere. Months have thirty days, as where intervals are compared.
fn is_forward(span: IntervalMonthDayNano) -> Option<bool> {
    let days = i128::from(span.months) * 30 + i128::from(span.days);
    let length = days * i128::from(DAY_NANOS) + i128::from(span.nanoseconds);
    (length != 0).then_some(length > 0)
}

/// The moments from one to another; the last is one of them if `inclusive`.
pub fn moments_between(
    from: i64,
    to: i64,
    step: IntervalMonthDayNano,
    zone: &Zone,
    inclusive: bool,
) -> Result<Vec<i64>> {
    let Some(is_forward) = is_forward(step) else {
        return Err(wrap(Error::new(ErrorKind::InvalidValue, "step size cannot equal zero")));
    };
    let mut moments = Vec::new();
    let mut next = Some(from);
    while let Some(moment) = next {
        let is_within = if is_forward { moment < to } else { moment > to };
        if !(is_within || inclusive && moment == to) {
            break;
        }
        if moments.len() == SERIES_MAX {
            let error =
                Error::new(ErrorKind::NotSupported, "a series of more than 50,000,000 moments is not supported");
            return Err(wrap(error.with_hint("take a longer step")));
        }
        moments.push(moment);
        next = later(moment, step, zone);
    }
    Ok(moments)
}

fn series(from: &ArrayRef, to: &ArrayRef, steps: &ArrayRef, zone: &Zone, inclusive: bool) -> Result<ListArray> {
    let steps = cast_array(steps, &SPAN)?;
    let (from, to) = (from.as_primitive::<TimestampMicrosecondType>(), to.as_primitive::<TimestampMicrosecondType>());
    let values = TimestampMicrosecondArray::from(Vec::<i64>::new()).with_timezone("UTC");
    let builder = TimestampMicrosecondBuilder::new().with_data_type(values.data_type().clone());
    let mut lists = ListBuilder::new(builder).with_field(Field::new_list_field(moment_type(), true));
    for ((from, to), step) in from.iter().zip(to).zip(steps.as_primitive::<IntervalMonthDayNanoType>()) {
        let (Some(from), Some(to), Some(step)) = (from, to, step) else {
            lists.append_null();
            continue;
        };
        lists.values().append_slice(&moments_between(from, to, step, zone, inclusive)?);
        lists.append(true);
    }
    Ok(lists.finish())
}

impl ScalarUDFImpl for InZone {
    fn name(&self) -> &str {
        match self.of {
            ZoneOperation::Text => "text_in_zone",
            ZoneOperation::Json => "json_in_zone",
            ZoneOperation::Texts => "texts_in_zone",
            ZoneOperation::Moment => "timestamptz_in_zone",
            ZoneOperation::Plus => "plus_in_zone",
            ZoneOperation::Offset => "offset_in_zone",
            ZoneOperation::Series => "series_in_zone",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let wanted = match (self.of, given) {
            (ZoneOperation::Text | ZoneOperation::Json | ZoneOperation::Texts, [of, _]) => {
                vec![of.clone(), DataType::Utf8]
            }
            (ZoneOperation::Moment, [_, _]) => vec![DataType::Utf8View, DataType::Utf8],
            (ZoneOperation::Moment, [_, _, _]) => vec![DataType::Utf8View, DataType::Utf8, DataType::Boolean],
            (ZoneOperation::Plus, [_, _, _]) => vec![moment_type(), SPAN, DataType::Utf8],
            (ZoneOperation::Offset, [_, _]) => vec![moment_type(), DataType::Utf8],
            (ZoneOperation::Series, [_, _, _, _, _]) => {
                vec![moment_type(), moment_type(), SPAN, DataType::Utf8, DataType::Boolean]
            }
            _ => return plan_err!("{} takes a value and a time zone", self.name()),
        };
        Ok(wanted)
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(match self.of {
            ZoneOperation::Text => DataType::Utf8View,
            ZoneOperation::Json | ZoneOperation::Texts => given.first().map_or(DataType::Null, type_with_texts),
            ZoneOperation::Moment | ZoneOperation::Plus => moment_type(),
            ZoneOperation::Offset => DataType::Int32,
            ZoneOperation::Series => DataType::List(Arc::new(Field::new_list_field(moment_type(), true))),
        })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ScalarFunctionArgs { args, number_rows, .. } = args;
        let Some(ColumnarValue::Scalar(zone)) = args.get(self.zone_at()) else {
            return exec_err!("the time zone of {} must be a constant", self.name());
        };
        let zone = Zone::of_setting(zone.try_as_str().flatten().unwrap_or("UTC")).map_err(wrap)?;
        let flag = matches!(args.last(), Some(ColumnarValue::Scalar(ScalarValue::Boolean(Some(true)))));
        let values: Vec<ColumnarValue> =
            args.into_iter().filter(|arg| !matches!(arg, ColumnarValue::Scalar(ScalarValue::Boolean(_)))).collect();
        let is_constant = is_constant(&values);
        let rows = rows_made(&values, number_rows);
        let arrays = values.into_iter().map(|value| value.into_array(rows)).collect::<Result<Vec<ArrayRef>>>()?;
        as_columnar(self.array(&arrays, &zone, flag)?, is_constant)
    }
}

/// A call of one of them; the zone is named, and `flag` is there where it is asked for.
pub fn call(of: ZoneOperation, args: Vec<Expr>, zone: &Zone, flag: Option<bool>) -> Expr {
    let function = Arc::new(ScalarUDF::from(InZone::new(of)));
    let mut args = args;
    args.push(lit(zone.name()));
    args.extend(flag.map(lit));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, args))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(text: &str, zone: &Zone) -> i64 {
        moment_of_text(text, zone).unwrap()
    }

    /// As PostgreSQL 15 has them.
    #[test]
    fn days_are_those_of_the_clocks() {
        let berlin = Zone::of_setting("Europe/Berlin").unwrap();
        let plus = |text: &str, months, days, hours: i64| {
            let span = IntervalMonthDayNano::new(months, days, hours * 3_600_000_000_000);
            let mut text_of = String::new();
            let later = later(moment(text, &berlin), span, &berlin).unwrap();
            write_timestamptz(&mut text_of, later, &berlin).unwrap();
            text_of
        };
        assert_eq!(plus("2026-03-28 12:00", 0, 1, 0), "2026-03-29 12:00:00+02");
        assert_eq!(plus("2026-03-28 12:00", 0, 0, 24), "2026-03-29 13:00:00+02");
        assert_eq!(plus("2026-03-28 02:30", 0, 1, 0), "2026-03-29 03:30:00+02");
        assert_eq!(plus("2026-10-24 02:30", 0, 1, 0), "2026-10-25 02:30:00+01");
        assert_eq!(plus("2026-01-31 12:00", 1, 0, 0), "2026-02-28 12:00:00+01");
        assert_eq!(plus("2026-08-31 12:00", -6, 0, 0), "2026-02-28 12:00:00+01");
    }

    /// As PostgreSQL 15 has them.
    #[test]
    fn json_has_moments_of_the_zone_also_in_lists_and_rows() {
        let json = |text: &str, name: &str| {
            let zone = Zone::of_setting(name).unwrap();
            iso_moment(moment(text, &zone), &zone)
        };
        assert_eq!(json("2026-07-01 12:00:00.5", "Europe/Berlin"), "2026-07-01T12:00:00.5+02:00");
        assert_eq!(json("2026-01-01 05:30", "Asia/Kolkata"), "2026-01-01T05:30:00+05:30");
        assert_eq!(json("1850-01-01 00:00", "Europe/Berlin"), "1850-01-01T00:00:00+00:53:28");
        let berlin = Zone::of_setting("Europe/Berlin").unwrap();
        let moments: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![Some(0), None]).with_timezone("UTC"));
        let field = Arc::new(Field::new("at", moments.data_type().clone(), true));
        let rows: ArrayRef = Arc::new(StructArray::from(vec![(field, moments)]));
        let made = with_texts(&rows, &berlin, iso_moment).unwrap();
        assert_eq!(*made.data_type(), type_with_texts(rows.data_type()));
        let texts = made.as_struct().column(0).as_string_view();
        assert_eq!(texts.iter().collect::<Vec<_>>(), [Some("1970-01-01T01:00:00+01:00"), None]);
    }

    #[test]
    fn a_series_has_days_of_23_and_25_hours() {
        let berlin = Zone::of_setting("Europe/Berlin").unwrap();
        let (day, back) = (IntervalMonthDayNano::new(0, 1, 0), IntervalMonthDayNano::new(0, -1, 0));
        let hours = |from: &str, to: &str, step, inclusive| {
            let made = moments_between(moment(from, &berlin), moment(to, &berlin), step, &berlin, inclusive).unwrap();
            made.windows(2).map(|pair| (pair[1] - pair[0]) / (3_600 * SECOND)).collect::<Vec<i64>>()
        };
        assert_eq!(hours("2026-03-28", "2026-03-31", day, true), [24, 23, 24]);
        assert_eq!(hours("2026-10-24", "2026-10-27", day, true), [24, 25, 24]);
        assert_eq!(hours("2026-10-24", "2026-10-27", day, false), [24, 25]);
        assert_eq!(hours("2026-10-26", "2026-10-24", back, true), [-25, -24]);
        let nowhere = IntervalMonthDayNano::new(1, -30, 0);
        assert!(moments_between(0, 1, nowhere, &berlin, true).is_err());
    }
}
