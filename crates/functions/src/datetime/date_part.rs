//! `date_part` and `extract`, with what DataFusion's has not, or has not right.
//!
//! Invariants, as in PostgreSQL:
//! - Seconds and milliseconds have their fractions (DOUBLE); microseconds are whole (BIGINT). Nothing that is stored is lost in them.
//! - `epoch` is all of the seconds: of a difference over all of its days, of an interval by years of 365.25 days and months of thirty.
//! - DatePart of a difference of moments are those of its days and time ([`crate::operators::durations`]).
//! - The zone of every TIMESTAMPTZ is UTC here; of other sessions' zones parts are taken of what their clocks show
//!   (`alluvia_plan::after_types::session_zone`). A part that a value cannot have is refused by name.
//! - Years, months and the other parts that DataFusion has right are DataFusion's, and so is what it knows of them: conditions on years are ranges.
//!
//! DataFusion 55.2 gives whole seconds, and of a difference those of its last minute; it plans `extract` with its own function, wherever another
//! is registered under its name, so that [`PlannedDatePart`] must be asked first.
//!
//! Mends apache/datafusion#14817, #22504 (in 55.2).
//! Held by `slt/timestamps.slt` (`extract(second FROM ts), extract(milliseconds FROM ts)`,
//! `extract(second FROM max(ts) - min(ts))`).

use crate::columnar::by_arrays;
use crate::delegate::delegate_scalar;
use crate::operators::durations::{differences, length_of};
use alluvia_space::codes::calendar;
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::{not_supported, wrap};
use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int32Array, Int64Array, IntervalMonthDayNanoArray};
use arrow::compute::cast as cast_array;
use arrow::compute::kernels::cast_utils::IntervalUnit;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, IntervalMonthDayNano, TimeUnit};
use datafusion_common::{Result, exec_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::planner::{ExprPlanner, PlannerResult};
use datafusion_expr::preimage::PreimageResult;
use datafusion_expr::simplify::SimplifyContext;
use datafusion_expr::{ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use datafusion_functions::datetime::date_part;
use std::sync::Arc;

const DAY_SECONDS: i64 = 86_400;
const MINUTE_NANOS: i64 = 60_000_000_000;
/// The Julian day of 1970-01-01.
const JULIAN_DAY: i64 = 2_440_588;
/// What DataFusion knows beside units.
const OTHERS: [&str; 7] = ["isoyear", "qtr", "quarter", "doy", "dow", "isodow", "epoch"];

/// Plans `extract`.
#[derive(Debug)]
pub struct PlannedDatePart(Arc<ScalarUDF>);

impl Default for PlannedDatePart {
    fn default() -> PlannedDatePart {
        PlannedDatePart(Arc::new(ScalarUDF::from(DatePart::default())))
    }
}

impl ExprPlanner for PlannedDatePart {
    fn plan_extract(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&self.0), args))))
    }
}

/// A part that is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Hours and minutes of a time of day: of `24:00` DataFusion has none.
    Hours,
    Minutes,
    Seconds,
    Milliseconds,
    Microseconds,
    Epoch,
    Quarter,
    Decade,
    Century,
    Millennium,
    Julian,
    /// Seconds, minutes and hours by which the zone is ahead of UTC.
    Zone,
}

/// What a part is taken of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PartSource {
    Date,
    Time,
    Moment,
    Interval,
    Unknown,
}

impl PartSource {
    fn of_type(data_type: &DataType) -> Option<PartSource> {
        match data_type {
            DataType::Date32 => Some(PartSource::Date),
            DataType::Time32(_) | DataType::Time64(_) => Some(PartSource::Time),
            DataType::Timestamp(..) => Some(PartSource::Moment),
            DataType::Interval(_) | DataType::Duration(_) => Some(PartSource::Interval),
            DataType::Null => Some(PartSource::Unknown),
            _ => None,
        }
    }

    fn shown(data_type: &DataType) -> &'static str {
        match data_type {
            DataType::Date32 => "a DATE",
            DataType::Time32(_) | DataType::Time64(_) => "a TIME",
            DataType::Timestamp(_, Some(_)) => "a TIMESTAMPTZ",
            DataType::Timestamp(_, None) => "a TIMESTAMP",
            DataType::Interval(_) | DataType::Duration(_) => "an INTERVAL",
            _ => "a value of this type",
        }
    }
}

/// A part's name without the quotes that `extract('second' FROM t)` leaves it.
fn bare(name: &str) -> String {
    let quote = |of: char| of == '\'' || of == '"';
    let inner = name.strip_prefix(quote).and_then(|name| name.strip_suffix(quote));
    inner.unwrap_or(name).to_ascii_lowercase()
}

impl Part {
    /// The part of this name of such a value; `None` where DataFusion has it.
    fn named(name: &str, data_type: &DataType) -> Option<Part> {
        let name = bare(name);
        let is_interval = matches!(data_type, DataType::Interval(_) | DataType::Duration(_));
        match name.as_str() {
            // Where DataFusion would lose digits, or count otherwise.
            "epoch" if is_interval || matches!(data_type, DataType::Timestamp(TimeUnit::Nanosecond, _)) => {
                return Some(Part::Epoch);
            }
            "qtr" | "quarter" if is_interval => return Some(Part::Quarter),
            "millennium" | "millennia" | "millenniums" | "mil" | "mils" => return Some(Part::Millennium),
            "julian" | "j" | "jd" => return Some(Part::Julian),
            "timezone" | "timezone_hour" | "timezone_h" | "timezone_minute" | "timezone_m" => return Some(Part::Zone),
            _ => {}
        }
        match name.parse::<IntervalUnit>().ok()? {
            IntervalUnit::Hour if PartSource::of_type(data_type) == Some(PartSource::Time) => Some(Part::Hours),
            IntervalUnit::Minute if PartSource::of_type(data_type) == Some(PartSource::Time) => Some(Part::Minutes),
            IntervalUnit::Century => Some(Part::Century),
            IntervalUnit::Decade => Some(Part::Decade),
            IntervalUnit::Second => Some(Part::Seconds),
            IntervalUnit::Millisecond => Some(Part::Milliseconds),
            IntervalUnit::Microsecond => Some(Part::Microseconds),
            _ => None,
        }
    }

    fn data_type(self, of: &DataType) -> DataType {
        match self {
            Part::Seconds | Part::Milliseconds | Part::Epoch => DataType::Float64,
            Part::Microseconds => DataType::Int64,
            // A day alone is whole.
            Part::Julian if *of != DataType::Date32 => DataType::Float64,
            _ => DataType::Int32,
        }
    }

    /// Whether a value of this type has it.
    fn is_of(self, data_type: &DataType) -> bool {
        let Some(of) = PartSource::of_type(data_type) else { return false };
        match self {
            Part::Hours | Part::Minutes => of == PartSource::Time,
            Part::Seconds | Part::Milliseconds | Part::Microseconds | Part::Epoch | Part::Quarter => true,
            Part::Decade | Part::Century | Part::Millennium => of != PartSource::Time,
            Part::Julian => matches!(of, PartSource::Date | PartSource::Moment | PartSource::Unknown),
            Part::Zone => of == PartSource::Unknown || matches!(data_type, DataType::Timestamp(_, Some(_))),
        }
    }

    /// The part of each value.
    fn array(self, of: &ArrayRef) -> Result<ArrayRef> {
        if PartSource::of_type(of.data_type()) == Some(PartSource::Interval) {
            return Ok(self.of_spans(&differences(of)?));
        }
        let Counted { values, per_second } = Counted::of(of)?;
        let nanos = 1_000_000_000 / per_second;
        let in_minute = |value: i64| value.rem_euclid(60 * per_second) * nanos;
        let day = |value: i64| value.div_euclid(DAY_SECONDS * per_second);
        let year = |value: i64| calendar::civil(day(value)).0;
        Ok(match self {
            Part::Hours => whole(&values, |value| value / (3_600 * per_second)),
            Part::Minutes => whole(&values, |value| value / (60 * per_second) % 60),
            Part::Seconds => values.unary_part(|value| seconds(in_minute(value).into())),
            Part::Milliseconds => values.unary_part(|value| in_minute(value) as f64 / 1e6),
            Part::Epoch => values.unary_part(|value| seconds(i128::from(value) * i128::from(nanos))),
            Part::Microseconds => {
                let micros = |value: i64| in_minute(value) / 1_000;
                Arc::new(values.iter().map(|value| value.map(micros)).collect::<Int64Array>())
            }
            Part::Julian if *of.data_type() == DataType::Date32 => whole(&values, |value| day(value) + JULIAN_DAY),
            Part::Julian => values.unary_part(|value| {
                let in_day = value.rem_euclid(DAY_SECONDS * per_second);
                (day(value) + JULIAN_DAY) as f64 + in_day as f64 / (DAY_SECONDS * per_second) as f64
            }),
            // There is no year zero: the century before the first is -1.
            Part::Decade => whole(&values, |value| year(value).div_euclid(10)),
            Part::Century => whole(&values, |value| counted_from_one(year(value), 100)),
            Part::Millennium => whole(&values, |value| counted_from_one(year(value), 1_000)),
            Part::Zone | Part::Quarter => whole(&values, |_| 0),
        })
    }

    fn of_spans(self, spans: &IntervalMonthDayNanoArray) -> ArrayRef {
        let floats = |part: fn(IntervalMonthDayNano) -> f64| -> ArrayRef {
            Arc::new(spans.iter().map(|span| span.map(part)).collect::<Float64Array>())
        };
        let years = |each: i32| -> ArrayRef {
            Arc::new(spans.iter().map(|span| span.map(|span| span.months / 12 / each)).collect::<Int32Array>())
        };
        match self {
            Part::Seconds => floats(|span| seconds((span.nanoseconds % MINUTE_NANOS).into())),
            Part::Milliseconds => floats(|span| (span.nanoseconds % MINUTE_NANOS) as f64 / 1e6),
            Part::Microseconds => {
                let micros = |span: IntervalMonthDayNano| span.nanoseconds % MINUTE_NANOS / 1_000;
                Arc::new(spans.iter().map(|span| span.map(micros)).collect::<Int64Array>())
            }
            Part::Epoch => floats(epoch),
            Part::Decade => years(10),
            Part::Century => years(100),
            Part::Millennium => years(1_000),
            Part::Quarter => {
                let quarter = |span: IntervalMonthDayNano| span.months % 12 / 3 + 1;
                Arc::new(spans.iter().map(|span| span.map(quarter)).collect::<Int32Array>())
            }
            // Refused where it is planned.
            Part::Hours | Part::Minutes | Part::Julian | Part::Zone => Arc::new(Int32Array::new_null(spans.len())),
        }
    }
}

/// A century, or a millennium, of which the first begins with the year 1, and the one before is -1.
fn counted_from_one(year: i64, years: i64) -> i64 {
    let from_zero = (year - 1).div_euclid(years);
    if from_zero < 0 { from_zero } else { from_zero + 1 }
}

/// Nanoseconds in seconds: the float that is nearest, wherever they are whole microseconds of 285 years.
fn seconds(nanos: i128) -> f64 {
    if nanos % 1_000 == 0 { (nanos / 1_000) as f64 / 1e6 } else { nanos as f64 / 1e9 }
}

/// Twelve months are a year of 365.25 days here, unlike where intervals are compared.
fn epoch(span: IntervalMonthDayNano) -> f64 {
    const YEAR_SECONDS: i128 = 31_557_600;
    let (years, months) = (span.months / 12, span.months % 12);
    let without_years = IntervalMonthDayNano::new(months, span.days, span.nanoseconds);
    seconds(i128::from(years) * YEAR_SECONDS * 1_000_000_000 + length_of(without_years))
}

fn whole(values: &Int64Array, part: impl Fn(i64) -> i64) -> ArrayRef {
    let small = |value: i64| i32::try_from(part(value)).ok();
    Arc::new(values.iter().map(|value| value.and_then(small)).collect::<Int32Array>())
}

/// Floats of numbers.
trait UnaryPart {
    fn unary_part(&self, part: impl Fn(i64) -> f64) -> ArrayRef;
}

impl UnaryPart for Int64Array {
    fn unary_part(&self, part: impl Fn(i64) -> f64) -> ArrayRef {
        Arc::new(self.iter().map(|value| value.map(&part)).collect::<Float64Array>())
    }
}

/// Dates, times and moments as numbers.
struct Counted {
    values: Int64Array,
    per_second: i64,
}

impl Counted {
    fn of(array: &ArrayRef) -> Result<Counted> {
        let numbers = |array: &ArrayRef| -> Result<Int64Array> {
            Ok(cast_array(array, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
        };
        Ok(match array.data_type() {
            DataType::Timestamp(unit, _) => {
                let per_second = match unit {
                    TimeUnit::Second => 1,
                    TimeUnit::Millisecond => 1_000,
                    TimeUnit::Microsecond => 1_000_000,
                    TimeUnit::Nanosecond => 1_000_000_000,
                };
                Counted { values: numbers(array)?, per_second }
            }
            DataType::Time32(_) | DataType::Time64(_) => {
                let times = cast_array(array, &DataType::Time64(TimeUnit::Nanosecond))?;
                Counted { values: numbers(&times)?, per_second: 1_000_000_000 }
            }
            DataType::Date32 => {
                let days = numbers(&cast_array(array, &DataType::Int32)?)?;
                let values = days.iter().map(|day| day.map(|day| day * DAY_SECONDS)).collect();
                Counted { values, per_second: 1 }
            }
            DataType::Null => Counted { values: Int64Array::new_null(array.len()), per_second: 1 },
            other => return exec_err!("a value of type {other} has no such part"),
        })
    }
}

/// DataFusion's function, and ours.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct DatePart {
    inner: Arc<ScalarUDF>,
}

impl Default for DatePart {
    fn default() -> DatePart {
        DatePart { inner: date_part() }
    }
}

impl ScalarUDFImpl for DatePart {
    delegate_scalar!(name, aliases, signature, return_type, documentation);

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let name = args.scalar_arguments.first().copied().flatten().and_then(|name| name.try_as_str().flatten());
        let (Some(name), Some(of)) = (name.filter(|name| !name.is_empty()), args.arg_fields.get(1)) else {
            return self.inner.return_field_from_args(args);
        };
        let Some(part) = Part::named(name, of.data_type()) else {
            let bare = bare(name);
            if bare.parse::<IntervalUnit>().is_err() && !OTHERS.contains(&bare.as_str()) {
                return Err(wrap(unknown(&bare)));
            }
            return self.inner.return_field_from_args(args);
        };
        if !part.is_of(of.data_type()) {
            let refused =
                not_supported(format!("extract({} ...) of {}", bare(name), PartSource::shown(of.data_type())));
            return Err(wrap(refused.with_hint(hint_of(part))));
        }
        Ok(Arc::new(Field::new(self.name(), part.data_type(of.data_type()), of.is_nullable())))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(name), of] = args.args.as_slice() else { return self.inner.invoke_with_args(args) };
        let part = name.try_as_str().flatten().and_then(|name| Part::named(name, &of.data_type()));
        let of = std::slice::from_ref(of);
        if let Some(part) = part {
            return by_arrays(of, |of| part.array(&of[0]));
        }
        // The hours of a difference are not those of its days.
        if matches!(of[0].data_type(), DataType::Duration(_)) {
            args.args[1] = by_arrays(of, |of| Ok(Arc::new(differences(&of[0])?)))?;
        }
        self.inner.invoke_with_args(args)
    }

    fn preimage(&self, args: &[Expr], literal: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        self.inner.preimage(args, literal, info)
    }
}

fn unknown(name: &str) -> Error {
    Error::new(ErrorKind::InvalidSetting, format!("no value has a part \"{name}\"")).with_hint(
        "parts are year, quarter, month, week, day, hour, minute, second, milliseconds, microseconds, epoch, dow, doy, isodow, \
         isoyear, decade, century, millennium, julian, timezone",
    )
}

fn hint_of(part: Part) -> &'static str {
    match part {
        Part::Zone => "only a TIMESTAMPTZ has a zone, which is the session's",
        Part::Julian => "days are counted of a DATE, a TIMESTAMP or a TIMESTAMPTZ",
        _ => "a TIME has hours, minutes and seconds",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        Date32Array, DurationMicrosecondArray, Time64MicrosecondArray, Time64NanosecondArray,
        TimestampMicrosecondArray, TimestampNanosecondArray,
    };
    use arrow::datatypes::Float64Type;

    fn floats(part: Part, of: ArrayRef) -> Vec<Option<f64>> {
        part.array(&of).unwrap().as_primitive::<Float64Type>().iter().collect()
    }

    fn whole_of(part: Part, of: ArrayRef) -> Vec<Option<i64>> {
        numbers(&part.array(&of).unwrap())
    }

    fn numbers(array: &ArrayRef) -> Vec<Option<i64>> {
        cast_array(array, &DataType::Int64).unwrap().as_primitive::<Int64Type>().iter().collect()
    }

    #[test]
    fn fractions_are_kept_also_before_1970() {
        let moments: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![Some(61_500_500), Some(-1), None]));
        assert_eq!(floats(Part::Seconds, moments.clone()), [Some(1.5005), Some(59.999999), None]);
        assert_eq!(floats(Part::Milliseconds, moments.clone()), [Some(1500.5), Some(59_999.999), None]);
        assert_eq!(whole_of(Part::Microseconds, moments), [Some(1_500_500), Some(59_999_999), None]);
        let times: ArrayRef = Arc::new(Time64NanosecondArray::from(vec![36_001_250_000_000]));
        assert_eq!(floats(Part::Seconds, times), [Some(1.25)]);
        let nanos: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1_709_600_000_123_000_000]));
        assert_eq!(floats(Part::Epoch, nanos), [Some(1_709_600_000.123)]);
    }

    #[test]
    fn the_last_time_of_a_day_has_its_parts() {
        let times: ArrayRef =
            Arc::new(Time64MicrosecondArray::from(vec![Some(86_400_000_000), Some(37_260_500_000), None]));
        for (part, wanted) in [
            ("hour", [Some(24), Some(10), None]),
            ("minute", [Some(0), Some(21), None]),
            ("microseconds", [Some(0), Some(500_000), None]),
        ] {
            let part = Part::named(part, times.data_type()).unwrap();
            assert_eq!(whole_of(part, Arc::clone(&times)), wanted, "{part:?}");
        }
        assert_eq!(Part::named("hour", &DataType::Timestamp(TimeUnit::Microsecond, None)), None);
    }

    #[test]
    fn differences_are_whole() {
        let spans: ArrayRef = Arc::new(DurationMicrosecondArray::from(vec![36_000_750_000, -90_061_500_000]));
        assert_eq!(floats(Part::Epoch, spans.clone()), [Some(36_000.75), Some(-90_061.5)]);
        assert_eq!(floats(Part::Seconds, spans), [Some(0.75), Some(-1.5)]);
        let year = IntervalMonthDayNano::new(14, -1, 1_500_000_000);
        assert_eq!(epoch(year), 31_557_600.0 + 59.0 * 86_400.0 + 1.5);
    }

    /// As PostgreSQL 15 has them.
    #[test]
    fn years_are_counted_in_tens_hundreds_and_thousands() {
        for (year, decade, century, millennium) in [
            (2024, 202, 21, 3),
            (2001, 200, 21, 3),
            (2000, 200, 20, 2),
            (1900, 190, 19, 2),
            (1, 0, 1, 1),
            (0, 0, -1, -1),
            (-1, -1, -1, -1),
            (-99, -10, -1, -1),
            (-100, -10, -2, -1),
        ] {
            let day: ArrayRef = Arc::new(Date32Array::from(vec![calendar::days_of(year, 3, 5) as i32]));
            let found = [Part::Decade, Part::Century, Part::Millennium].map(|part| whole_of(part, Arc::clone(&day))[0]);
            assert_eq!(found, [decade, century, millennium].map(Some), "{year}");
        }
        let day: ArrayRef = Arc::new(Date32Array::from(vec![19_787]));
        assert_eq!(whole_of(Part::Julian, day), [Some(2_460_375)]);
        let noon: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![19_787 * 86_400_000_000 + 43_200_000_000]));
        assert_eq!(floats(Part::Julian, noon), [Some(2_460_375.5)]);
    }
}
