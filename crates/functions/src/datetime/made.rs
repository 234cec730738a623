//! `make_date` and `make_time` as PostgreSQL has them.
//!
//! Invariants:
//! - A year below zero is so many years before Christ, and there is no year 0: `make_date(-44, 3, 15)` is in 44 BC, which is the year -43 of
//!   calendars that count through.
//! - Seconds have fractions, to the microsecond; hour 24 has no minutes.
//!
//! DataFusion 55.2 counts years through, and takes whole seconds.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: make_date, negative year, make_time, seconds).
//! Held by `slt/time.slt` (`make_time(1, 2, 3.5)`, `make_date(-44, 3, 15)`).

use crate::columnar::by_arrays;
use alluvia_space::codes::calendar::days_of;
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use arrow::array::{ArrayRef, AsArray, Date32Array, Time64MicrosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit};
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, plan_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// One of the two.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Made {
    is_date: bool,
    signature: Signature,
}

impl Made {
    /// `make_date`
    pub(crate) fn date() -> Made {
        Made { is_date: true, signature: Signature::user_defined(Volatility::Immutable) }
    }

    /// `make_time`
    pub(crate) fn time() -> Made {
        Made { is_date: false, ..Made::date() }
    }
}

/// The days since 1970 of a date; `None` if there is none.
fn date_of(year: i64, month: i64, day: i64) -> Option<i32> {
    let counted = match year {
        0 => return None,
        ..0 => year + 1,
        1.. => year,
    };
    if !(-4_713..=5_874_897).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    let is_leap = counted.rem_euclid(4) == 0 && (counted.rem_euclid(100) != 0 || counted.rem_euclid(400) == 0);
    let last = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if !(1..=last).contains(&day) {
        return None;
    }
    i32::try_from(days_of(counted, month as u32, day as u32)).ok()
}

/// Microseconds since midnight; `None` if there is no such time.
fn time_of(hour: i64, minute: i64, second: f64) -> Option<i64> {
    let micros = (second * 1e6).round_ties_even();
    let is_within = (0..=24).contains(&hour) && (0..=59).contains(&minute) && (0.0..=60e6).contains(&micros);
    if !is_within || hour == 24 && (minute > 0 || micros > 0.0) {
        return None;
    }
    Some((hour * 60 + minute) * 60_000_000 + micros as i64)
}

fn no_date(year: i64, month: i64, day: i64) -> datafusion_common::DataFusionError {
    let message = format!("date field value out of range: {year}-{month:02}-{day:02}");
    wrap(Error::new(ErrorKind::DatetimeRange, message))
}

fn no_time(hour: i64, minute: i64, second: f64) -> datafusion_common::DataFusionError {
    let message = format!("time field value out of range: {hour}:{minute:02}:{second:02}");
    wrap(Error::new(ErrorKind::DatetimeRange, message))
}

impl ScalarUDFImpl for Made {
    fn name(&self) -> &str {
        if self.is_date { "make_date" } else { "make_time" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_whole = |of: &DataType| of.is_integer() || of.is_null() || of.is_string();
        let is_number = |of: &DataType| is_whole(of) || of.is_numeric();
        match types {
            [a, b, c] if self.is_date && is_whole(a) && is_whole(b) && is_whole(c) => Ok(vec![DataType::Int64; 3]),
            [a, b, c] if !self.is_date && is_whole(a) && is_whole(b) && is_number(c) => {
                Ok(vec![DataType::Int64, DataType::Int64, DataType::Float64])
            }
            _ => plan_err!("{} takes three numbers", self.name()),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(if self.is_date { DataType::Date32 } else { DataType::Time64(TimeUnit::Microsecond) })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        by_arrays(&args.args, |arrays| {
            let [first, second, third] = take_function_args(self.name(), arrays)?;
            let whole = |array: &ArrayRef| -> Result<Vec<Option<i64>>> {
                Ok(cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().iter().collect())
            };
            let (first, second) = (whole(&first)?, whole(&second)?);
            let pairs = first.into_iter().zip(second);
            if self.is_date {
                let date = |((year, month), day): ((Option<i64>, Option<i64>), Option<i64>)| match (year, month, day) {
                    (Some(year), Some(month), Some(day)) => {
                        date_of(year, month, day).map(Some).ok_or_else(|| no_date(year, month, day))
                    }
                    _ => Ok(None),
                };
                let dates = pairs.zip(whole(&third)?).map(date).collect::<Result<Date32Array>>()?;
                return Ok(Arc::new(dates));
            }
            let third = cast(&third, &DataType::Float64)?;
            let seconds = third.as_primitive::<Float64Type>().iter();
            let time =
                |((hour, minute), second): ((Option<i64>, Option<i64>), Option<f64>)| match (hour, minute, second) {
                    (Some(hour), Some(minute), Some(second)) => {
                        time_of(hour, minute, second).map(Some).ok_or_else(|| no_time(hour, minute, second))
                    }
                    _ => Ok(None),
                };
            Ok(Arc::new(pairs.zip(seconds).map(time).collect::<Result<Time64MicrosecondArray>>()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_before_christ_have_no_year_0() {
        assert_eq!(date_of(1970, 1, 1), Some(0));
        assert_eq!(date_of(-1, 12, 31).zip(date_of(1, 1, 1)).map(|(before, after)| after - before), Some(1));
        assert!(date_of(-1, 2, 29).is_some(), "1 BC is the year 0, which has a day more");
        for (year, month, day) in [(0, 1, 1), (2023, 2, 29), (2023, 13, 1), (2023, 1, 0), (-5_000, 1, 1)] {
            assert_eq!(date_of(year, month, day), None, "{year}-{month}-{day}");
        }
        assert_eq!(time_of(1, 2, 3.5), Some(3_723_500_000));
        assert_eq!((time_of(24, 0, 0.0), time_of(24, 0, 0.1), time_of(1, 60, 0.0)), (Some(86_400_000_000), None, None));
    }
}
