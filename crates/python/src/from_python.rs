//! Python's values as the engine's: parameters of statements, and dicts as record batches.
//!
//! Invariants:
//! - A value arrives as itself, or is refused with its place: nothing is rounded, wrapped or guessed.
//! - A column of dicts has the one type that holds all its values. Where there is none, but texts are among them, all are texts, which
//!   the table's column reads as its own type.

use crate::errors::{OrRaise, misuse};
use alluvia_query::ScalarValue;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, ListArray, NullArray,
    RecordBatch, RecordBatchOptions, StringArray, TimestampMicrosecondArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{Field, Schema};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDate, PyDateAccess, PyDateTime, PyDelta, PyDeltaAccess, PyDict, PyFloat, PyInt,
    PyList, PyMemoryView, PyString, PyTime, PyTimeAccess, PyTuple, PyTzInfo,
};
use std::collections::HashMap;
use std::sync::Arc;

/// The most digits of a decimal.
const DIGITS_MAX: usize = 38;
/// Whole numbers that a float holds exactly.
const EXACT_MAX: i64 = 1 << 53;
const SECOND_MICROS: i64 = 1_000_000;

/// One value.
#[derive(Clone, PartialEq, Debug)]
enum Value {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    /// Digits and the number of those behind the point.
    Decimal(i128, i8),
    Text(String),
    Bytes(Vec<u8>),
    /// Days since 1970.
    Date(i32),
    /// Microseconds since 1970, without and with a zone.
    Time(i64),
    ZonedTime(i64),
    List(Vec<Value>),
}

/// What the type of a column is decided by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Null,
    Boolean,
    Integer,
    Float,
    Decimal,
    Text,
    Bytes,
    Date,
    Time,
    ZonedTime,
    List,
}

/// The value of parameter `number`, from 1.
pub(crate) fn parameter(object: &Bound<'_, PyAny>, number: usize) -> PyResult<ScalarValue> {
    let value = value_of(object, &|| format!("parameter ${number}"))?;
    scalar(value).map_err(|error| error.at(format!("parameter ${number}"))).or_raise(object.py())
}

fn scalar(value: Value) -> Result<ScalarValue> {
    if value == Value::Null {
        return Ok(ScalarValue::Null);
    }
    let array = if let Value::List(items) = value {
        let values = column(items)?;
        let field = Arc::new(Field::new("item", values.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        Arc::new(ListArray::new(field, offsets, values, None)) as ArrayRef
    } else {
        column(vec![value])?
    };
    ScalarValue::try_from_array(&array, 0).map_err(|error| Error::internal(format!("a value has no scalar: {error}")))
}

/// Dicts on their way to a batch.
#[derive(Default)]
pub(crate) struct Table {
    places: HashMap<String, usize>,
    names: Vec<String>,
    columns: Vec<Vec<Value>>,
    rows: usize,
}

impl Table {
    /// Rows so far.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Whether a row had this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// Whether a row has the names of those before it, and no other.
    pub(crate) fn has_names_of(&self, row: &Bound<'_, PyDict>) -> bool {
        let is_known = |name: Bound<'_, PyAny>| name.extract::<String>().is_ok_and(|name| self.has(&name));
        row.len() == self.names.len() && row.iter().all(|(name, _)| is_known(name))
    }

    /// Adds a row, after `before` rows of other tables.
    pub(crate) fn push(&mut self, row: &Bound<'_, PyDict>, before: usize) -> PyResult<()> {
        let number = before + self.rows + 1;
        for (name, object) in row.iter() {
            let name = name.extract::<String>().map_err(|_| {
                pyo3::exceptions::PyTypeError::new_err(format!(
                    "row {number}: names of columns are texts, and {name} is none"
                ))
            })?;
            let place = *self.places.entry(name.clone()).or_insert_with(|| {
                self.names.push(name.clone());
                self.columns.push(Vec::new());
                self.columns.len() - 1
            });
            let value = value_of(&object, &|| format!("row {number}, column {name}"))?;
            if matches!(value, Value::List(_)) {
                let wrong = misuse(format!("row {number}, column {name}: no column holds a list"))
                    .with_hint("store it as text, for instance by json.dumps");
                return Err(wrong).or_raise(row.py());
            }
            let column = &mut self.columns[place];
            column.resize(self.rows, Value::Null);
            column.push(value);
        }
        self.rows += 1;
        Ok(())
    }

    /// The batch of all rows; what a row lacks is NULL.
    pub(crate) fn finish(self, py: Python<'_>) -> PyResult<RecordBatch> {
        let Table { names, columns, rows, .. } = self;
        let build = || -> Result<RecordBatch> {
            let mut arrays = Vec::with_capacity(columns.len());
            for (name, mut values) in names.iter().zip(columns) {
                values.resize(rows, Value::Null);
                arrays.push(column(values).map_err(|error| error.at(format!("column {name}")))?);
            }
            let field = |(name, array): (&String, &ArrayRef)| Field::new(name, array.data_type().clone(), true);
            let schema = Schema::new(names.iter().zip(&arrays).map(field).collect::<Vec<Field>>());
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            RecordBatch::try_new_with_options(Arc::new(schema), arrays, &options)
                .map_err(|error| Error::internal(format!("rows make no batch: {error}")))
        };
        py.detach(build).or_raise(py)
    }
}

fn value_of(object: &Bound<'_, PyAny>, place: &dyn Fn() -> String) -> PyResult<Value> {
    let py = object.py();
    // The common ones first. A bool is an int to Python, and a datetime a date.
    if object.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Value::Text(text.to_str()?.to_owned()));
    }
    if let Ok(flag) = object.cast::<PyBool>() {
        return Ok(Value::Boolean(flag.is_true()));
    }
    if object.is_instance_of::<PyInt>() {
        return match object.extract::<i64>() {
            Ok(number) => Ok(Value::Integer(number)),
            Err(_) => decimal(&object.str()?.to_string()).map_err(|error| error.at(place())).or_raise(py),
        };
    }
    if let Ok(float) = object.cast::<PyFloat>() {
        return Ok(Value::Float(float.value()));
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Value::Bytes(bytes.as_bytes().to_vec()));
    }
    if object.is_instance_of::<PyByteArray>() || object.is_instance_of::<PyMemoryView>() {
        let bytes = py.get_type::<PyBytes>().call1((object,))?;
        return Ok(Value::Bytes(bytes.cast::<PyBytes>()?.as_bytes().to_vec()));
    }
    let class = object.get_type();
    let name = class.name()?;
    let name = name.to_str()?;
    // pandas' NaT is a datetime to isinstance.
    if matches!(name, "NaTType" | "NAType") {
        return Ok(Value::Null);
    }
    if let Ok(time) = object.cast::<PyDateTime>() {
        return time_of(time);
    }
    if let Ok(date) = object.cast::<PyDate>() {
        return Ok(Value::Date(days(date.get_year(), date.get_month(), date.get_day())));
    }
    if object.is_instance_of::<PyTime>() || name == "UUID" {
        return Ok(Value::Text(object.str()?.to_string()));
    }
    if let Ok(span) = object.cast::<PyDelta>() {
        let (days, seconds, micros) = (span.get_days(), span.get_seconds(), span.get_microseconds());
        return Ok(Value::Text(format!("{days} days {seconds} seconds {micros} microseconds")));
    }
    if object.is_instance_of::<PyDict>() {
        let text = py.import(intern!(py, "json"))?.call_method1(intern!(py, "dumps"), (object,))?;
        return Ok(Value::Text(text.extract()?));
    }
    if name == "Decimal" {
        let text = object.call_method1(intern!(py, "__format__"), ("f",))?;
        return decimal(text.cast::<PyString>()?.to_str()?).map_err(|error| error.at(place())).or_raise(py);
    }
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        let items = object.try_iter()?.map(|item| value_of(&item?, place)).collect::<PyResult<Vec<Value>>>()?;
        return Ok(Value::List(items));
    }
    if name == "datetime64" {
        // Finer times than microseconds would come as integers.
        let micros = object.call_method1(intern!(py, "astype"), ("datetime64[us]",))?;
        return value_of(&micros.call_method0(intern!(py, "item"))?, place);
    }
    if name != "timedelta64" && object.hasattr(intern!(py, "dtype"))? && object.hasattr(intern!(py, "item"))? {
        return value_of(&object.call_method0(intern!(py, "item"))?, place);
    }
    let wrong = Error::new(ErrorKind::NotSupported, format!("{}: a {name} has no SQL value", place())).with_hint(
        "values are None, bool, int, float, str, bytes, Decimal, date, datetime, time, timedelta, UUID, dict for JSON, and \
         lists for parameters",
    );
    Err(wrong).or_raise(py)
}

fn time_of(time: &Bound<'_, PyDateTime>) -> PyResult<Value> {
    let py = time.py();
    let zone = time.getattr(intern!(py, "tzinfo"))?;
    if zone.is_none() {
        return Ok(Value::Time(micros(time)));
    }
    let utc = time.call_method1(intern!(py, "astimezone"), (PyTzInfo::utc(py)?,))?;
    Ok(Value::ZonedTime(micros(utc.cast::<PyDateTime>()?)))
}

fn micros(time: &Bound<'_, PyDateTime>) -> i64 {
    let days = i64::from(days(time.get_year(), time.get_month(), time.get_day()));
    let minutes = (days * 24 + i64::from(time.get_hour())) * 60 + i64::from(time.get_minute());
    (minutes * 60 + i64::from(time.get_second())) * SECOND_MICROS + i64::from(time.get_microsecond())
}

/// Days from 1970-01-01 to a day of the Gregorian calendar (Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn days(year: i32, month: u8, day: u8) -> i32 {
    let (month, day) = (i32::from(month), i32::from(day));
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Reads `-123.450`.
fn decimal(text: &str) -> Result<Value> {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let scale = text.split_once('.').map_or(0, |(_, behind)| behind.len());
    let plain: String = text.chars().filter(|c| *c != '.').collect();
    let number = plain.parse::<i128>().ok().filter(|number| number.unsigned_abs().to_string().len() <= DIGITS_MAX);
    match number {
        Some(number) if scale <= DIGITS_MAX => Ok(Value::Decimal(number, scale as i8)),
        _ if digits == 0 => Err(Error::new(ErrorKind::InvalidValue, format!("{text} is no decimal that SQL has"))),
        _ => Err(Error::new(ErrorKind::InvalidValue, format!("{text} has more digits than a decimal's {DIGITS_MAX}"))),
    }
}

fn kind(value: &Value) -> Kind {
    match value {
        Value::Null => Kind::Null,
        Value::Boolean(_) => Kind::Boolean,
        Value::Integer(_) => Kind::Integer,
        Value::Float(_) => Kind::Float,
        Value::Decimal(..) => Kind::Decimal,
        Value::Text(_) => Kind::Text,
        Value::Bytes(_) => Kind::Bytes,
        Value::Date(_) => Kind::Date,
        Value::Time(_) => Kind::Time,
        Value::ZonedTime(_) => Kind::ZonedTime,
        Value::List(_) => Kind::List,
    }
}

/// The kind that holds values of both; `None` where there is none.
fn common(a: Kind, b: Kind) -> Option<Kind> {
    use Kind::{Boolean, Bytes, Date, Decimal, Float, Integer, List, Null, Text, Time};
    Some(match (a, b) {
        (a, b) if a == b => a,
        (Null, other) | (other, Null) => other,
        (Integer, Decimal) | (Decimal, Integer) => Decimal,
        (Integer, Float) | (Float, Integer) => Float,
        // Neither holds the other exactly; their texts do.
        (Decimal, Float) | (Float, Decimal) => Text,
        (Date, Time) | (Time, Date) => Time,
        (Text, Boolean | Bytes | List) | (Boolean | Bytes | List, Text) => return None,
        (Text, _) | (_, Text) => Text,
        _ => return None,
    })
}

/// The array that holds all values.
fn column(values: Vec<Value>) -> Result<ArrayRef> {
    let mut found = Kind::Null;
    for value in &values {
        let next = kind(value);
        found = common(found, next).ok_or_else(|| {
            Error::new(
                ErrorKind::DatatypeMismatch,
                format!("{found:?} and {next:?} values do not go together").to_lowercase(),
            )
        })?;
    }
    let has_inexact =
        |value: &Value| matches!(value, Value::Integer(number) if !(-EXACT_MAX..=EXACT_MAX).contains(number));
    if found == Kind::Float && values.iter().any(has_inexact) {
        found = Kind::Text;
    }
    let rows = values.len();
    let wrong = || Error::internal(format!("a value is not {found:?}"));
    macro_rules! array {
        ($array:ty, $($pattern:pat => $value:expr),+) => {{
            let cell = |value: Value| match value {
                Value::Null => Ok(None),
                $($pattern => Ok(Some($value)),)+
                _ => Err(wrong()),
            };
            values.into_iter().map(cell).collect::<Result<$array>>()?
        }};
    }
    Ok(match found {
        Kind::Null => Arc::new(NullArray::new(rows)),
        Kind::Boolean => Arc::new(array!(BooleanArray, Value::Boolean(flag) => flag)),
        Kind::Integer => Arc::new(array!(Int64Array, Value::Integer(number) => number)),
        Kind::Float => {
            Arc::new(array!(Float64Array, Value::Float(number) => number, Value::Integer(number) => number as f64))
        }
        Kind::Decimal => return decimals(values),
        Kind::Bytes => {
            let bytes = array!(Vec<Option<Vec<u8>>>, Value::Bytes(bytes) => bytes);
            Arc::new(bytes.iter().map(Option::as_deref).collect::<BinaryArray>())
        }
        Kind::Date => Arc::new(array!(Date32Array, Value::Date(days) => days)),
        Kind::Time => Arc::new(array!(TimestampMicrosecondArray, Value::Time(micros) => micros,
            Value::Date(days) => i64::from(days) * 86_400 * SECOND_MICROS)),
        Kind::ZonedTime => {
            Arc::new(array!(TimestampMicrosecondArray, Value::ZonedTime(micros) => micros).with_timezone("UTC"))
        }
        Kind::Text => {
            let cell = |value: Value| if value == Value::Null { Ok(None) } else { text(&value).map(Some) };
            Arc::new(values.into_iter().map(cell).collect::<Result<StringArray>>()?)
        }
        Kind::List => return Err(misuse("lists stand alone")),
    })
}

fn decimals(values: Vec<Value>) -> Result<ArrayRef> {
    let scale =
        values.iter().map(|value| if let Value::Decimal(_, scale) = value { *scale } else { 0 }).max().unwrap_or(0);
    let too_wide = || {
        Error::new(
            ErrorKind::InvalidValue,
            format!("the values have more digits together than a decimal's {DIGITS_MAX}"),
        )
        .with_hint("give them the same number of digits behind the point, or give texts")
    };
    let widened = |value: &Value| {
        let (number, own) = match value {
            Value::Decimal(number, own) => (*number, *own),
            Value::Integer(number) => (i128::from(*number), 0),
            _ => return Ok(None),
        };
        let factor = 10_i128.checked_pow((scale - own) as u32).ok_or_else(too_wide)?;
        let number = number.checked_mul(factor).ok_or_else(too_wide)?;
        if number.unsigned_abs().to_string().len() > DIGITS_MAX { Err(too_wide()) } else { Ok(Some(number)) }
    };
    let numbers = values.iter().map(widened).collect::<Result<Vec<Option<i128>>>>()?;
    let widest = numbers.iter().flatten().map(|number| number.unsigned_abs().to_string().len()).max().unwrap_or(1);
    let precision = widest.max(scale as usize).max(1) as u8;
    let array = Decimal128Array::from(numbers).with_precision_and_scale(precision, scale);
    Ok(Arc::new(array.map_err(|error| Error::internal(format!("decimals make no column: {error}")))?))
}

/// A value as the text that columns of its type read.
fn text(value: &Value) -> Result<String> {
    Ok(match value {
        Value::Text(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Decimal(number, scale) => {
            let digits = format!("{:0width$}", number.unsigned_abs(), width = *scale as usize + 1);
            let (whole, behind) = digits.split_at(digits.len() - *scale as usize);
            let sign = if *number < 0 { "-" } else { "" };
            if behind.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{behind}") }
        }
        Value::Date(_) | Value::Time(_) | Value::ZonedTime(_) => {
            let array = column(vec![value.clone()])?;
            arrow::util::display::array_value_to_string(&array, 0)
                .map_err(|error| Error::internal(format!("a time has no text: {error}")))?
        }
        other => return Err(Error::internal(format!("{other:?} has no text"))),
    })
}
