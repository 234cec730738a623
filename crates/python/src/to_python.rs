//! Arrow's values as Python's: None, bool, int, float, str, bytes, Decimal, date, datetime (aware and in UTC if its type has a zone),
//! time, timedelta, UUID, list, dict; of JSON what it says, as `json.loads` reads it.
//!
//! Invariant: a value arrives as itself, or the column and why it cannot is told; only times finer than a microsecond are cut to it.

use crate::errors::OrRaise;
use alluvia_space::DataType as StoredType;
use alluvia_space::data_type::chars_of;
use alluvia_types::{Error, ErrorKind};
use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, Field, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    IntervalDayTimeType, IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType, TimeUnit,
    TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDate, PyDateTime, PyDelta, PyDict, PyList, PyString, PyTime, PyType, PyTzInfo};

const SECOND_MICROS: i64 = 1_000_000;
const DAY_MICROS: i64 = 86_400 * SECOND_MICROS;

static DECIMAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static UUID: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// All values of a column: as [`values`], but that JSON is what it says, and CHAR(n) has its blanks, as with psycopg.
pub(crate) fn of_field<'py>(py: Python<'py>, array: &ArrayRef, field: &Field) -> PyResult<Vec<Bound<'py, PyAny>>> {
    match StoredType::from_field(field) {
        Some(StoredType::Json | StoredType::Jsonb) => {
            let read = py.import("json")?.getattr("loads")?;
            let texts = values(py, array, field.name())?;
            texts.into_iter().map(|text| if text.is_none() { Ok(text) } else { read.call1((text,)) }).collect()
        }
        Some(StoredType::Char) => {
            let chars = chars_of(field).unwrap_or(0) as usize;
            let texts = values(py, array, field.name())?;
            // Python's own: widths of `format!` end at 65,535.
            let padded = |text: Bound<'py, PyAny>| match text.is_none() {
                true => Ok(text),
                false => text.call_method1("ljust", (chars,)),
            };
            texts.into_iter().map(padded).collect()
        }
        // Of as many digits as NUMERIC, and with its zeros.
        Some(StoredType::Decimal { .. }) if StoredType::from_arrow(array.data_type()) == Some(StoredType::Numeric) => {
            let class = DECIMAL.import(py, "decimal", "Decimal")?;
            each(py, array, |row| class.call1((array.as_primitive::<Decimal128Type>().value_as_string(row),)))
        }
        _ => values(py, array, field.name()),
    }
}

/// All values of an array; errors name `column`.
pub(crate) fn values<'py>(py: Python<'py>, array: &ArrayRef, column: &str) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let array = array.as_ref();
    let failed = |reason: String| Error::new(ErrorKind::InvalidValue, format!("column {column}: {reason}"));
    let as_type = |wanted: &DataType| cast(array, wanted).map_err(|error| failed(error.to_string())).or_raise(py);
    macro_rules! numbers {
        ($type:ty) => {
            each(py, array, |row| Ok(array.as_primitive::<$type>().value(row).into_pyobject(py)?.into_any()))
        };
    }
    macro_rules! decimals {
        ($type:ty) => {{
            let class = DECIMAL.import(py, "decimal", "Decimal")?;
            each(py, array, |row| class.call1((array.as_primitive::<$type>().value_as_string(row),)))
        }};
    }
    match array.data_type() {
        DataType::Null => each(py, array, |_| Ok(py.None().into_bound(py))),
        DataType::Boolean => {
            each(py, array, |row| Ok(PyBool::new(py, array.as_boolean().value(row)).to_owned().into_any()))
        }
        DataType::Int8 => numbers!(Int8Type),
        DataType::Int16 => numbers!(Int16Type),
        DataType::Int32 => numbers!(Int32Type),
        DataType::Int64 => numbers!(Int64Type),
        DataType::UInt8 => numbers!(UInt8Type),
        DataType::UInt16 => numbers!(UInt16Type),
        DataType::UInt32 => numbers!(UInt32Type),
        DataType::UInt64 => numbers!(UInt64Type),
        DataType::Float16 => each(py, array, |row| {
            Ok(array.as_primitive::<Float16Type>().value(row).to_f64().into_pyobject(py)?.into_any())
        }),
        DataType::Float32 => numbers!(Float32Type),
        DataType::Float64 => numbers!(Float64Type),
        DataType::Decimal32(..) => decimals!(Decimal32Type),
        DataType::Decimal64(..) => decimals!(Decimal64Type),
        DataType::Decimal128(..) if StoredType::from_arrow(array.data_type()) == Some(StoredType::Numeric) => {
            let class = DECIMAL.import(py, "decimal", "Decimal")?;
            each(py, array, |row| {
                let text = array.as_primitive::<Decimal128Type>().value_as_string(row);
                class.call1((text.trim_end_matches('0').trim_end_matches('.'),))
            })
        }
        DataType::Decimal128(..) => decimals!(Decimal128Type),
        DataType::Decimal256(..) => decimals!(Decimal256Type),
        DataType::Utf8 => each(py, array, |row| Ok(PyString::new(py, array.as_string::<i32>().value(row)).into_any())),
        DataType::LargeUtf8 => {
            each(py, array, |row| Ok(PyString::new(py, array.as_string::<i64>().value(row)).into_any()))
        }
        DataType::Utf8View => {
            each(py, array, |row| Ok(PyString::new(py, array.as_string_view().value(row)).into_any()))
        }
        DataType::Binary => each(py, array, |row| Ok(PyBytes::new(py, array.as_binary::<i32>().value(row)).into_any())),
        DataType::LargeBinary => {
            each(py, array, |row| Ok(PyBytes::new(py, array.as_binary::<i64>().value(row)).into_any()))
        }
        DataType::BinaryView => {
            each(py, array, |row| Ok(PyBytes::new(py, array.as_binary_view().value(row)).into_any()))
        }
        DataType::FixedSizeBinary(16) => {
            let class = UUID.import(py, "uuid", "UUID")?;
            each(py, array, |row| {
                let bytes = PyBytes::new(py, array.as_fixed_size_binary().value(row));
                class.call1((py.None(), bytes))
            })
        }
        DataType::FixedSizeBinary(_) => {
            each(py, array, |row| Ok(PyBytes::new(py, array.as_fixed_size_binary().value(row)).into_any()))
        }
        DataType::Date32 => primitive::<Date32Type>(py, array, |days| {
            let (year, month, day) = civil(i64::from(days));
            in_range(py, PyDate::new(py, year, month, day), || failed(out_of_range("date"))).map(Bound::into_any)
        }),
        DataType::Date64 => primitive::<Date64Type>(py, array, |millis| {
            let (year, month, day) = civil(millis.div_euclid(DAY_MICROS / 1_000));
            in_range(py, PyDate::new(py, year, month, day), || failed(out_of_range("date"))).map(Bound::into_any)
        }),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let utc = zone.as_ref().map(|_| PyTzInfo::utc(py)).transpose()?;
            let utc = utc.map(|utc| utc.to_owned());
            primitive::<TimestampMicrosecondType>(py, array, |micros| {
                let (year, month, day) = civil(micros.div_euclid(DAY_MICROS));
                let (hour, minute, second, micro) = clock(micros.rem_euclid(DAY_MICROS));
                let time = PyDateTime::new(py, year, month, day, hour, minute, second, micro, utc.as_ref());
                in_range(py, time, || failed(out_of_range("time"))).map(Bound::into_any)
            })
        }
        DataType::Timestamp(_, zone) => {
            values(py, &as_type(&DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))?, column)
        }
        DataType::Time64(TimeUnit::Microsecond) => primitive::<Time64MicrosecondType>(py, array, |micros| {
            if micros >= DAY_MICROS {
                let error = failed("the time 24:00:00 has no value in Python".to_owned());
                return Err(error.with_hint("cast it to TEXT, or read it by .arrow()")).or_raise(py);
            }
            let (hour, minute, second, micro) = clock(micros);
            Ok(PyTime::new(py, hour, minute, second, micro, None)?.into_any())
        }),
        DataType::Time32(_) | DataType::Time64(_) => {
            values(py, &as_type(&DataType::Time64(TimeUnit::Microsecond))?, column)
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            primitive::<DurationMicrosecondType>(py, array, |micros| delta(py, 0, micros))
        }
        DataType::Duration(_) => values(py, &as_type(&DataType::Duration(TimeUnit::Microsecond))?, column),
        DataType::Interval(IntervalUnit::DayTime) => primitive::<IntervalDayTimeType>(py, array, |interval| {
            delta(py, interval.days, i64::from(interval.milliseconds) * 1_000)
        }),
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            primitive::<IntervalMonthDayNanoType>(py, array, |interval| match interval.months {
                0 => delta(py, interval.days, interval.nanoseconds.div_euclid(1_000)),
                _ => Err(failed("an interval of months has no value in Python".to_owned())
                    .with_hint("cast it to TEXT, or read it by .arrow()"))
                .or_raise(py),
            })
        }
        DataType::Dictionary(_, inner) => values(py, &as_type(inner.as_ref())?, column),
        DataType::List(_) => each(py, array, |row| list(py, &array.as_list::<i32>().value(row), column)),
        DataType::LargeList(_) => each(py, array, |row| list(py, &array.as_list::<i64>().value(row), column)),
        DataType::ListView(_) => each(py, array, |row| list(py, &array.as_list_view::<i32>().value(row), column)),
        DataType::FixedSizeList(..) => each(py, array, |row| list(py, &array.as_fixed_size_list().value(row), column)),
        DataType::Struct(_) => structs(py, array.as_struct(), column),
        DataType::Map(..) => each(py, array, |row| {
            let entries = array.as_map().value(row);
            let dict = PyDict::new(py);
            let keys = values(py, entries.column(0), column)?;
            for (key, value) in keys.into_iter().zip(values(py, entries.column(1), column)?) {
                dict.set_item(key, value)?;
            }
            Ok(dict.into_any())
        }),
        other => {
            Err(failed(format!("{other} has no value in Python")).with_hint("cast it to TEXT, or read it by .arrow()"))
                .or_raise(py)
        }
    }
}

/// One value a row: None where it is NULL, else what `value` gives.
fn each<'py>(
    py: Python<'py>,
    array: &dyn Array,
    value: impl Fn(usize) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let cell = |row| if array.is_null(row) { Ok(py.None().into_bound(py)) } else { value(row) };
    (0..array.len()).map(cell).collect()
}

fn primitive<'py, T: ArrowPrimitiveType>(
    py: Python<'py>,
    array: &dyn Array,
    value: impl Fn(T::Native) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let typed: &PrimitiveArray<T> = array.as_primitive::<T>();
    each(py, array, |row| value(typed.value(row)))
}

fn list<'py>(py: Python<'py>, items: &ArrayRef, column: &str) -> PyResult<Bound<'py, PyAny>> {
    Ok(PyList::new(py, values(py, items, column)?)?.into_any())
}

fn structs<'py>(py: Python<'py>, array: &StructArray, column: &str) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let columns = array.columns().iter().map(|inner| values(py, inner, column)).collect::<PyResult<Vec<_>>>()?;
    each(py, array, |row| {
        let dict = PyDict::new(py);
        for (name, values) in array.column_names().iter().zip(&columns) {
            dict.set_item(name, &values[row])?;
        }
        Ok(dict.into_any())
    })
}

fn delta(py: Python<'_>, days: i32, micros: i64) -> PyResult<Bound<'_, PyAny>> {
    let days = i64::from(days) + micros.div_euclid(DAY_MICROS);
    let (seconds, micros) = (micros.rem_euclid(DAY_MICROS) / SECOND_MICROS, micros.rem_euclid(SECOND_MICROS));
    Ok(PyDelta::new(py, days as i32, seconds as i32, micros as i32, true)?.into_any())
}

fn out_of_range(what: &str) -> String {
    format!("a {what} is before year 1 or after year 9999, which Python does not have")
}

/// Python's own refusal says neither the column nor what to do.
fn in_range<'py, T>(
    py: Python<'py>,
    made: PyResult<Bound<'py, T>>,
    error: impl Fn() -> Error,
) -> PyResult<Bound<'py, T>> {
    made.map_err(|_| crate::errors::to_py(py, &error().with_hint("cast it to TEXT, or read it by .arrow()")))
}

/// Year, month and day of a day since 1970 (Hinnant, "chrono-Compatible Low-Level Date Algorithms"). Years that no date has are 0.
fn civil(days: i64) -> (i32, u8, u8) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (i32::try_from(year).unwrap_or(0), month as u8, day as u8)
}

/// Hour, minute, second and microsecond of the day.
fn clock(micros: i64) -> (u8, u8, u8, u32) {
    let seconds = micros / SECOND_MICROS;
    ((seconds / 3_600) as u8, (seconds / 60 % 60) as u8, (seconds % 60) as u8, (micros % SECOND_MICROS) as u32)
}
