//! `to_char` of numbers, moments, times of day and lengths of time, and `to_number`, by PostgreSQL's templates.
//!
//! Invariants:
//! - What they give is what PostgreSQL 15 gives in the locale C, with English names, or they fail as it does.
//! - A template is parsed once for each batch, and may be another one in every row.
//! - NULL, as the value or as the template, gives NULL. A template without a character gives NULL of a moment, and no character of a number.
//! - Floats that PostgreSQL has as NUMERIC (`alluvia_plan::before_types::rounding` knows them) are written as it writes numbers.
//!
//! DataFusion 55.2 has `to_char` of moments alone, by forms of `strftime`, and drops the template of a difference of moments.
//!
//! `alluvia_values::templates::picture` parses templates of numbers, `numbers` writes by them, `to_number` reads by them; `fields` is what templates of moments show,
//! `timestamps` parses and writes them.

pub mod fields;
pub mod numbers;
pub mod timestamps;
pub mod to_number;

pub use to_number::ToNumber;

use crate::codec::{StateReader, StateWriter, Stateful};
use crate::columnar::{as_columnar, is_constant};
use alluvia_values::errors::wrap;
use alluvia_values::templates::picture::Picture;
use alluvia_values::time_zone::{Clock, Zone};
use arrow::array::{Array, ArrayRef, AsArray, StringArray, StringBuilder, StringViewArray, new_null_array};
use arrow::compute::cast as cast_array;
use arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int32Type, Int64Type, IntervalUnit, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result as Planned, exec_err, plan_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use fields::Fields;
use numbers::Number;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, LazyLock};
use timestamps::TimestampTemplate;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ToChar {
    signature: Signature,
    aliases: Vec<String>,
    /// Whether PostgreSQL has as NUMERIC what is a float here.
    is_exact: bool,
}

impl Stateful for ToChar {
    const CODE: &'static str = "to_char";

    fn write(&self, state: &mut StateWriter) -> Planned<()> {
        state.byte(u8::from(self.is_exact));
        Ok(())
    }

    fn read(state: &mut StateReader<'_>) -> Planned<Self> {
        Ok(ToChar::new(state.flag()?))
    }
}

impl Default for ToChar {
    fn default() -> ToChar {
        ToChar::new(false)
    }
}

impl ToChar {
    fn new(is_exact: bool) -> ToChar {
        let signature = Signature::user_defined(Volatility::Immutable);
        ToChar { signature, aliases: vec!["date_format".to_owned()], is_exact }
    }

    /// The text of each row.
    fn texts(&self, values: &ArrayRef, templates: &Templates, zone: &Zone) -> Planned<StringArray> {
        if values.data_type().is_null() {
            return Ok(StringArray::new_null(values.len()));
        }
        if is_number(values.data_type()) {
            let parse = |template: &str| Picture::parse(template).map_err(wrap);
            return each(values, templates, parse, |picture, row| {
                Ok(Some(numbers::written(picture, &self.number(values, row)?)))
            });
        }
        let utc = Clock { offset: 0, abbreviation: "UTC".to_owned(), is_summer: false };
        // There is nothing to be parsed of a template that has no character.
        let parse = |template: &str| Ok((!template.is_empty()).then(|| TimestampTemplate::parse(template)));
        each(values, templates, parse, |template, row| {
            let Some(template) = template else { return Ok(None) };
            let (fields, clock) = match values.data_type() {
                DataType::Timestamp(_, Some(_)) if !zone.is_utc() => {
                    let moment = values.as_primitive::<TimestampMicrosecondType>().value(row);
                    let clock = zone.clock_at(moment);
                    (Fields::of_clock(moment, clock.offset), clock)
                }
                _ => (Fields::at(values, row)?, utc.clone()),
            };
            template.written(&fields, &clock).map(Some).map_err(wrap)
        })
    }

    fn number(&self, values: &ArrayRef, row: usize) -> Planned<Number> {
        Ok(match values.data_type() {
            DataType::Int32 => Number::Short(values.as_primitive::<Int32Type>().value(row)),
            DataType::Int64 => Number::Exact(values.as_primitive::<Int64Type>().value(row).to_string()),
            DataType::Decimal128(..) => Number::Exact(values.as_primitive::<Decimal128Type>().value_as_string(row)),
            DataType::Decimal256(..) => Number::Exact(values.as_primitive::<Decimal256Type>().value_as_string(row)),
            DataType::Float32 if self.is_exact => Number::exact_single(values.as_primitive::<Float32Type>().value(row)),
            DataType::Float32 => Number::Single(values.as_primitive::<Float32Type>().value(row)),
            DataType::Float64 if self.is_exact => Number::exact(values.as_primitive::<Float64Type>().value(row)),
            DataType::Float64 => Number::Double(values.as_primitive::<Float64Type>().value(row)),
            other => return exec_err!("to_char came with a number of type {other}"),
        })
    }
}

impl ScalarUDFImpl for ToChar {
    fn name(&self) -> &str {
        "to_char"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Planned<Vec<DataType>> {
        // The session's time zone is a third one (`alluvia_plan::after_types::session_zone`).
        if let [value, template, _] = arg_types
            && let (Some(value @ DataType::Timestamp(..)), true) = (wanted(value), is_text(template))
        {
            return Ok(vec![value, DataType::Utf8View, DataType::Utf8]);
        }
        let [value, template] = take_function_args(self.name(), arg_types)?;
        match (wanted(value), is_text(template)) {
            (Some(value), true) => Ok(vec![value, DataType::Utf8View]),
            _ => plan_err!("to_char takes a number, a moment, a date, a time or an interval, and a text"),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Planned<DataType> {
        Ok(DataType::Utf8)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Planned<ColumnarValue> {
        let is_scalar = is_constant(&args.args);
        let rows = if is_scalar { 1 } else { args.number_rows };
        let mut given = args.args;
        let zone = match given.get(2) {
            Some(ColumnarValue::Scalar(zone)) => {
                Zone::of_setting(zone.try_as_str().flatten().unwrap_or("UTC")).map_err(wrap)?
            }
            Some(ColumnarValue::Array(_)) => return exec_err!("the time zone of to_char must be a constant"),
            None => Zone::utc(),
        };
        given.truncate(2);
        let [values, templates] = take_function_args(self.name(), given)?;
        let templates = Templates::of(&templates)?;
        let made: ArrayRef = match templates {
            Templates::Same(None) => new_null_array(&DataType::Utf8, rows),
            templates => Arc::new(self.texts(&values.into_array(rows)?, &templates, &zone)?),
        };
        as_columnar(made, is_scalar)
    }
}

/// `to_char` of floats that PostgreSQL has as NUMERIC.
pub fn of_exact(args: Vec<Expr>) -> Expr {
    static EXACT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(ToChar::new(true))));
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&EXACT), args))
}

/// The type that a value is written from; `None` of what has no templates.
fn wanted(value: &DataType) -> Option<DataType> {
    use DataType::*;
    Some(match value {
        Null => Null,
        Date32 | Date64 => Date32,
        Timestamp(_, zone) => Timestamp(TimeUnit::Microsecond, zone.as_ref().map(|_| "UTC".into())),
        Time32(_) | Time64(_) => Time64(TimeUnit::Microsecond),
        Duration(_) => Duration(TimeUnit::Microsecond),
        Interval(_) => Interval(IntervalUnit::MonthDayNano),
        Int8 | Int16 | Int32 | UInt8 | UInt16 => Int32,
        Int64 | UInt32 => Int64,
        UInt64 => Decimal128(20, 0),
        Float16 | Float32 => Float32,
        Float64 => Float64,
        Decimal32(precision, scale) | Decimal64(precision, scale) | Decimal128(precision, scale) => {
            Decimal128(*precision, *scale)
        }
        Decimal256(precision, scale) => Decimal256(*precision, *scale),
        // A text that is written out is a moment, as it has always been here; PostgreSQL would ask for a type.
        text if text.is_string() => Timestamp(TimeUnit::Microsecond, None),
        _ => return None,
    })
}

fn is_number(of: &DataType) -> bool {
    use DataType::{Decimal128, Decimal256, Float32, Float64, Int32, Int64};
    matches!(of, Int32 | Int64 | Decimal128(..) | Decimal256(..) | Float32 | Float64)
}

fn is_text(of: &DataType) -> bool {
    match of {
        DataType::Dictionary(_, inner) => inner.is_string(),
        other => other.is_string() || other.is_null(),
    }
}

/// The templates of all rows.
enum Templates {
    Same(Option<String>),
    Each(StringViewArray),
}

impl Templates {
    fn of(given: &ColumnarValue) -> Planned<Templates> {
        match given {
            ColumnarValue::Scalar(template) => Ok(Templates::Same(template.try_as_str().flatten().map(str::to_owned))),
            ColumnarValue::Array(templates) => {
                let templates = cast_array(templates, &DataType::Utf8View)?;
                Ok(Templates::Each(templates.as_string_view().clone()))
            }
        }
    }

    fn at(&self, row: usize) -> Option<&str> {
        match self {
            Templates::Same(template) => template.as_deref(),
            Templates::Each(templates) => templates.is_valid(row).then(|| templates.value(row)),
        }
    }
}

/// What is made of each value by its template, each of which is parsed once.
fn each<T>(
    values: &ArrayRef,
    templates: &Templates,
    parse: impl Fn(&str) -> Planned<T>,
    show: impl Fn(&T, usize) -> Planned<Option<String>>,
) -> Planned<StringArray> {
    let mut parsed: HashMap<&str, T> = HashMap::new();
    let mut made = StringBuilder::new();
    for row in 0..values.len() {
        let (true, Some(text)) = (values.is_valid(row), templates.at(row)) else {
            made.append_null();
            continue;
        };
        let template = match parsed.entry(text) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(parse(text)?),
        };
        made.append_option(show(template, row)?);
    }
    Ok(made.finish())
}
