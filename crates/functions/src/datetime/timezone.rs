//! `timezone(zone, moment)`, which `AT TIME ZONE` is: what a clock in a zone shows, and when it shows that.
//!
//! Invariants, as in PostgreSQL:
//! - Of a TIMESTAMP WITH TIME ZONE it is the TIMESTAMP that clocks of the zone show then; of a TIMESTAMP the moment at which they show it.
//! - A time that clocks leave out is read by the offset before; one that they show twice is the later moment.
//! - Offsets that are written have the signs of POSIX: `+02:00` is west of Greenwich. A zone that nobody knows is an error. What
//!   zones are, and what their clocks show, is [`alluvia_values::time_zone`]'s.
//!
//! DataFusion 55.2 plans `AT TIME ZONE` as a cast, which keeps the moment, or counts in nanoseconds.
//!
//! Mends apache/datafusion#10368, #12218 (in 55.2).
//! Held by `slt/meaning.slt` (`AT TIME ZONE 'Europe/Berlin'`).

use crate::columnar::{as_columnar, is_constant};
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use alluvia_values::time_zone::Zone;
use arrow::array::{Array, ArrayRef, AsArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result as Planned, exec_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct TimeZoned {
    signature: Signature,
}

impl Default for TimeZoned {
    fn default() -> TimeZoned {
        TimeZoned { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for TimeZoned {
    fn name(&self) -> &str {
        "timezone"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Planned<Vec<DataType>> {
        let [zone, time] = take_function_args(self.name(), arg_types)?;
        let refused = |what: String| {
            let error = Error::new(ErrorKind::NotSupported, format!("AT TIME ZONE {what} is not supported"));
            Err(wrap(error.with_hint("name the zone in a text, as in 'Europe/Berlin', behind a TIMESTAMP")))
        };
        if !zone.is_string() && !zone.is_null() {
            return refused(format!("with a zone of type {zone}"));
        }
        let time = match time {
            DataType::Timestamp(_, None) => moment(false),
            // PostgreSQL prefers the type with a zone.
            DataType::Timestamp(_, Some(_)) | DataType::Date32 | DataType::Null => moment(true),
            text if text.is_string() => moment(true),
            other => return refused(format!("behind a value of type {other}")),
        };
        Ok(vec![DataType::Utf8View, time])
    }

    fn return_type(&self, arg_types: &[DataType]) -> Planned<DataType> {
        let [_, time] = take_function_args(self.name(), arg_types)?;
        Ok(moment(matches!(time, DataType::Timestamp(_, None))))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Planned<ColumnarValue> {
        let is_scalar = is_constant(&args.args);
        let [zones, times] = take_function_args(self.name(), ColumnarValue::values_to_arrays(&args.args)?)?;
        let is_moment = match times.data_type() {
            DataType::Timestamp(TimeUnit::Microsecond, zone) => zone.is_some(),
            other => return exec_err!("{other} is no time"),
        };
        let (zones, times) = (zones.as_string_view(), times.as_primitive::<TimestampMicrosecondType>());
        let mut known: Option<(&str, Zone)> = None;
        let mut made = Vec::with_capacity(times.len());
        for (name, time) in zones.iter().zip(times) {
            let (Some(name), Some(time)) = (name, time) else {
                made.push(None);
                continue;
            };
            let zone = match known {
                Some((last, zone)) if last == name => zone,
                _ => Zone::of_statement(name).map_err(wrap)?,
            };
            let other = if is_moment { zone.shown_at(time) } else { zone.moment_of(time) };
            known = Some((name, zone));
            made.push(Some(other.ok_or_else(|| wrap(out_of_range()))?));
        }
        let made = TimestampMicrosecondArray::from(made);
        let made: ArrayRef = Arc::new(if is_moment { made } else { made.with_timezone("UTC") });
        as_columnar(made, is_scalar)
    }
}

/// SQL's TIMESTAMP, with a zone or without.
fn moment(has_zone: bool) -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, has_zone.then(|| "UTC".into()))
}

/// The error for a timestamp whose conversion to or from a time zone leaves the range of timestamps.
pub fn out_of_range() -> Error {
    Error::new(ErrorKind::OutOfRange, "the timestamp is out of range in this time zone")
}
