//! `date_trunc` of a TIMESTAMP of any year.
//!
//! Invariant: where DataFusion's own function answers, it does. DataFusion 55.2 goes through nanoseconds, and fails outside of the years 1677
//! to 2262; there each moment is cut by the calendar.

use alluvia_space::CalendarUnit;
use alluvia_space::codes::calendar;
use arrow::array::{ArrayRef, AsArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, FieldRef, TimeUnit, TimestampMicrosecondType};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions::datetime::date_trunc;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use std::sync::Arc;

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

/// DataFusion's function, and what it does not reach.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Truncated {
    inner: Arc<ScalarUDF>,
}

impl Default for Truncated {
    fn default() -> Truncated {
        Truncated { inner: date_trunc() }
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
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (given, rows) = (args.args.clone(), args.number_rows);
        self.inner.invoke_with_args(args).or_else(|error| by_calendar(&given, rows)?.ok_or(error))
    }
}

/// `None` for what is no TIMESTAMP, or no unit.
fn by_calendar(args: &[ColumnarValue], rows: usize) -> Result<Option<ColumnarValue>> {
    let [ColumnarValue::Scalar(unit), moments] = args else { return Ok(None) };
    let zone = match moments.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, zone) => zone,
        _ => return Ok(None),
    };
    let Some(unit) = unit.try_as_str().flatten().map(str::to_ascii_lowercase) else { return Ok(None) };
    // Clocks of other zones than UTC are not those of the calendar.
    if !zone.as_deref().is_none_or(|zone| matches!(zone, "UTC" | "+00:00")) || cut(0, &unit).is_none() {
        return Ok(None);
    }
    let (is_scalar, moments) = (matches!(moments, ColumnarValue::Scalar(_)), moments.to_array(rows)?);
    let moments = moments.as_primitive::<TimestampMicrosecondType>();
    let cut: TimestampMicrosecondArray = moments.iter().map(|moment| cut(moment?, &unit)).collect();
    let cut: ArrayRef = Arc::new(cut.with_timezone_opt(zone));
    Ok(Some(if is_scalar {
        ColumnarValue::Scalar(ScalarValue::try_from_array(&cut, 0)?)
    } else {
        ColumnarValue::Array(cut)
    }))
}

/// The start of the unit that a moment lies in; `None` if there is no such unit.
fn cut(moment: i64, unit: &str) -> Option<i64> {
    let by = |micros: i64| moment.saturating_sub(moment.rem_euclid(micros));
    Some(match unit {
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
    use crate::copy::parse_timestamp;

    /// As PostgreSQL 15 has them.
    #[test]
    fn units_begin_where_the_calendar_says() {
        for (moment, unit, start) in [
            ("2999-11-21 10:11:12.345678", "year", "2999-01-01"),
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
