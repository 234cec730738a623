//! Casts from and to UUID, JSON, JSONB, NUMERIC and CHAR(n), and between TIME and INTERVAL.
//!
//! Invariants, as in PostgreSQL:
//! - A text that is none of the type is an error (22P02, 22003), or NULL where the cast is only tried; types that have no cast to one another
//!   are refused where they are planned (42846).
//! - A number becomes the NUMERIC that it is, of a float that of its shortest digits. One with more than sixteen digits behind its point, or
//!   more than twenty-two before it, is an error (22003) and never rounded.
//! - JSON stays as it is written, and JSONB is written anew; either becomes the text that it is shown as. A number, or a truth, that JSONB is
//!   becomes one of SQL.
//! - It is called what it stands for, a cast: a column keeps its name.

use super::kinds::{KINDS, Kind, NUMERIC, NUMERIC_SCALE, UUID, field_of, kind_of, metadata_of, plain_number};
use super::pg_typeof::type_of_field;
use super::uuids;
use crate::bytes::{is_text, text_literal};
use crate::casts::interval_input::SPAN;
use crate::codec::{StateReader, StateWriter, Stateful, number_of};
use crate::columnar::by_arrays;
use crate::delegate::name_of_arguments;
use crate::json::text::{checked, normalised};
use alluvia_types::{Error, ErrorKind};
use alluvia_values::convert::texts_of;
use alluvia_values::decimal::written_decimal;
use alluvia_values::errors::wrap;
use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, IntervalMonthDayNanoArray, StringViewArray, StringViewBuilder,
    Time64MicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Field, FieldRef, IntervalMonthDayNano, IntervalMonthDayNanoType, Time64MicrosecondType, TimeUnit,
};
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

const DAY_NANOS: i64 = 86_400_000_000_000;
const TIME: DataType = DataType::Time64(TimeUnit::Microsecond);

/// What a cast makes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum To {
    /// Values of a kind.
    Kind(Kind),
    /// Texts, of what Arrow's cast would write otherwise.
    Text,
    /// A number or a truth of what JSONB says.
    Scalar(DataType),
    /// The time of day of an interval.
    Time,
    /// The interval from midnight to a time of day.
    Span,
}

/// The cast of an expression of one field to another, where it is one of these; `None` of others.
pub fn planned(of: &Expr, from: &Field, to: &Field, is_tried: bool) -> Result<Option<Expr>> {
    let (source, target) = (kind_of(from), kind_of(to));
    let (of_type, to_type) = (from.data_type(), to.data_type());
    let is_plain_text = is_text(of_type) && matches!(source, Kind::Other | Kind::Char);
    let refused = || {
        let (from, to) = (type_of_field(from), type_of_field(to));
        Err(wrap(Error::new(ErrorKind::CannotCoerce, format!("cannot cast type {from} to {to}"))))
    };
    let wanted = match (source, target) {
        _ if of_type.is_null() => return Ok(null_of(target).map(|null| Expr::Literal(null, metadata_of(target)))),
        (_, Kind::Uuid | Kind::Json | Kind::Jsonb | Kind::Char) if source == target => return Ok(None),
        (_, Kind::Uuid | Kind::Json | Kind::Jsonb) if is_plain_text => To::Kind(target),
        (Kind::Json | Kind::Jsonb, Kind::Json | Kind::Jsonb) => To::Kind(target),
        (_, Kind::Uuid | Kind::Json | Kind::Jsonb) => return refused(),
        (_, Kind::Char) => To::Kind(Kind::Char),
        (Kind::Uuid, _) if is_text(to_type) => To::Text,
        (Kind::Numeric, _) if is_text(to_type) => To::Text,
        (Kind::Uuid, _) => return refused(),
        // It is the text already.
        (Kind::Json | Kind::Jsonb, _) if is_text(to_type) => return Ok(None),
        (Kind::Jsonb, _) if to_type.is_numeric() || *to_type == DataType::Boolean => To::Scalar(to_type.clone()),
        (Kind::Json | Kind::Jsonb, _) => return refused(),
        (Kind::Numeric, Kind::Numeric) => return Ok(None),
        (_, Kind::Numeric) if is_plain_text || of_type.is_numeric() => To::Kind(Kind::Numeric),
        (_, Kind::Numeric) => return refused(),
        _ => match (of_type, to_type) {
            (DataType::Interval(_) | DataType::Duration(_), DataType::Time64(_)) => To::Time,
            (DataType::Time64(_), DataType::Interval(_)) => To::Span,
            _ => return Ok(None),
        },
    };
    // What is written is known by its value, also to the index and to pruning.
    if let Some(Some(text)) = text_literal(of)
        && !is_tried
        && let To::Kind(kind) = wanted
    {
        return literal(text, kind).map(Some);
    }
    Ok(Some(call(of.clone(), wanted, is_tried)))
}

/// The value of a kind that a literal is.
pub fn literal(text: &str, kind: Kind) -> Result<Expr> {
    let value = match kind {
        Kind::Uuid => {
            let bytes = uuids::uuid_of(text).ok_or_else(|| wrap(uuids::no_uuid(text)))?;
            ScalarValue::FixedSizeBinary(16, Some(bytes.to_vec()))
        }
        Kind::Json => ScalarValue::Utf8View(Some(checked(text).map(|()| text.to_owned())?)),
        Kind::Jsonb => ScalarValue::Utf8View(Some(normalised(text)?)),
        Kind::Numeric => ScalarValue::Decimal128(Some(numeric_of_text(text)?), 38, NUMERIC_SCALE),
        Kind::Char => ScalarValue::Utf8View(Some(text.trim_end_matches(' ').to_owned())),
        Kind::Other => ScalarValue::Utf8View(Some(text.to_owned())),
    };
    Ok(Expr::Literal(value, metadata_of(kind)))
}

/// A value of any number type, a text or JSON as one of a kind.
pub fn as_kind(of: Expr, kind: Kind) -> Expr {
    call(of, To::Kind(kind), false)
}

fn null_of(kind: Kind) -> Option<ScalarValue> {
    ScalarValue::try_from(&kind.sql_type()?.to_arrow()).ok()
}

fn call(of: Expr, to: To, is_tried: bool) -> Expr {
    let function = Arc::new(ScalarUDF::from(Typed::new(to, is_tried)));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![of]))
}

/// The unscaled NUMERIC of a text.
pub fn numeric_of_text(text: &str) -> Result<i128> {
    let trimmed = text.trim();
    let unsigned = trimmed.trim_start_matches(['+', '-']);
    if ["nan", "inf", "infinity"].iter().any(|word| unsigned.eq_ignore_ascii_case(word)) {
        let message = format!("NUMERIC has no value {trimmed}");
        let hint = "a DOUBLE has NaN and the infinities: CAST(x AS DOUBLE)";
        return Err(wrap(Error::new(ErrorKind::NotSupported, message).with_hint(hint)));
    }
    let plain = without_exponent(trimmed).ok_or_else(|| {
        wrap(Error::new(ErrorKind::InvalidText, format!("invalid input syntax for type numeric: \"{text}\"")))
    })?;
    let digits = plain_number(&plain);
    let too_wide = || {
        let message = format!("value {trimmed} is out of range for type numeric");
        let hint = "NUMERIC has 22 digits before its point and 16 behind it";
        wrap(Error::new(ErrorKind::OutOfRange, message).with_hint(hint))
    };
    let written = written_decimal(digits).ok_or_else(too_wide)?;
    let more = u32::from(NUMERIC_SCALE as u8).checked_sub(written.scale.into()).ok_or_else(too_wide)?;
    let value = written.digits.checked_mul(10_i128.pow(more)).filter(|value| is_in_range(*value));
    value.ok_or_else(too_wide)
}

/// Floats by as many digits as their type has for certain, and no more than sixteen of them behind the point.
fn float_texts(floats: &ArrayRef) -> Result<StringViewArray> {
    let digits = if *floats.data_type() == DataType::Float64 { 14 } else { 5 };
    let doubles = cast(floats, &DataType::Float64)?;
    let doubles = doubles.as_primitive::<arrow::datatypes::Float64Type>().iter();
    let text = |double: f64| {
        let shown = format!("{double:.digits$e}");
        let places = shown.find('e').and_then(|at| shown[at + 1..].parse::<i32>().ok()).unwrap_or(0);
        let is_finer = double.is_finite() && digits as i32 - places > i32::from(NUMERIC_SCALE);
        if is_finer { format!("{double:.16}") } else { shown }
    };
    Ok(doubles.map(|double| double.map(text)).collect())
}

/// Whether an unscaled NUMERIC has no more digits than there are.
pub fn is_in_range(value: i128) -> bool {
    value.unsigned_abs() < 10_u128.pow(38)
}

/// A number with its digits where an exponent would put them; `None` of what is none.
fn without_exponent(text: &str) -> Option<String> {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (sign, unsigned) = match mantissa.strip_prefix('-') {
        Some(unsigned) => ("-", unsigned),
        None => ("", mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, part) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let is_number = !(whole.is_empty() && part.is_empty());
    if !is_number || !whole.bytes().chain(part.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if exponent == 0 {
        return Some(format!("{sign}{}{}{part}", if whole.is_empty() { "0" } else { whole }, if part.is_empty() { "" } else { "." }));
    }
    // Beyond this no digit is left where NUMERIC has any, and all of them would take room.
    let exponent = exponent.clamp(-200, 200);
    let digits = format!("{whole}{part}");
    let point = whole.len() as i32 + exponent;
    Some(if point <= 0 {
        format!("{sign}0.{}{digits}", "0".repeat(point.unsigned_abs() as usize))
    } else if point as usize >= digits.len() {
        format!("{sign}{digits}{}", "0".repeat(point as usize - digits.len()))
    } else {
        format!("{sign}{}.{}", &digits[..point as usize], &digits[point as usize..])
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Typed {
    to: To,
    is_tried: bool,
    signature: Signature,
}

impl Stateful for Typed {
    const CODE: &'static str = "typed";

    fn write(&self, state: &mut StateWriter) -> Result<()> {
        match &self.to {
            To::Kind(kind) => {
                state.byte(0);
                state.byte(number_of(kind, &KINDS));
            }
            To::Text => state.byte(1),
            To::Scalar(of) => {
                state.byte(2);
                state.data_type(of)?;
            }
            To::Time => state.byte(3),
            To::Span => state.byte(4),
        }
        state.byte(u8::from(self.is_tried));
        Ok(())
    }

    fn read(state: &mut StateReader<'_>) -> Result<Self> {
        let to = match state.byte()? {
            0 => To::Kind(state.variant(&KINDS)?),
            1 => To::Text,
            2 => To::Scalar(state.data_type()?),
            3 => To::Time,
            4 => To::Span,
            other => return datafusion_common::exec_err!("{other} is no cast"),
        };
        Ok(Typed::new(to, state.flag()?))
    }
}

impl Typed {
    fn new(to: To, is_tried: bool) -> Typed {
        Typed { to, is_tried, signature: Signature::any(1, Volatility::Immutable) }
    }

    /// What is made of each text, or NULL of an error where it is only tried.
    fn each<T>(
        &self,
        texts: &StringViewArray,
        mut make: impl FnMut(&str) -> Result<T>,
        mut push: impl FnMut(Option<T>),
    ) -> Result<()> {
        for text in texts {
            match text.map(&mut make) {
                Some(Ok(value)) => push(Some(value)),
                Some(Err(error)) if !self.is_tried => return Err(error),
                _ => push(None),
            }
        }
        Ok(())
    }

    fn array(&self, values: &ArrayRef, from: &Field) -> Result<ArrayRef> {
        let texts = |values: &ArrayRef| -> Result<StringViewArray> {
            let texts = match (kind_of(from), values.data_type()) {
                (Kind::Uuid, _) => return uuids::texts(values),
                (_, of) if is_text(of) => Arc::clone(values),
                _ => texts_of(values).map_err(wrap)?,
            };
            Ok(cast(&texts, &DataType::Utf8View)?.as_string_view().clone())
        };
        match &self.to {
            To::Kind(Kind::Uuid) => uuids::read(values, self.is_tried),
            To::Kind(Kind::Json) => {
                let texts = texts(values)?;
                let mut out = StringViewBuilder::with_capacity(texts.len());
                self.each(&texts, |text| checked(text).map(|()| text.to_owned()), |text| out.append_option(text))?;
                Ok(Arc::new(out.finish()))
            }
            To::Kind(Kind::Jsonb) => {
                let texts = texts(values)?;
                let mut out = StringViewBuilder::with_capacity(texts.len());
                self.each(&texts, normalised, |text| out.append_option(text))?;
                Ok(Arc::new(out.finish()))
            }
            To::Kind(Kind::Numeric) => {
                let texts = if values.data_type().is_floating() { float_texts(values)? } else { texts(values)? };
                let mut out: Vec<Option<i128>> = Vec::with_capacity(texts.len());
                self.each(&texts, numeric_of_text, |value| out.push(value))?;
                Ok(Arc::new(Decimal128Array::from(out).with_precision_and_scale(38, NUMERIC_SCALE)?))
            }
            To::Kind(Kind::Char) => {
                let texts = texts(values)?;
                Ok(Arc::new(texts.iter().map(|text| text.map(|text| text.trim_end_matches(' '))).collect::<StringViewArray>()))
            }
            To::Kind(Kind::Other) => Ok(Arc::clone(values)),
            To::Text => {
                let is_numeric = values.data_type().is_decimal();
                let texts = texts(values)?;
                let shown = |text| if is_numeric { plain_number(text) } else { text };
                Ok(Arc::new(texts.iter().map(|text| text.map(shown)).collect::<StringViewArray>()))
            }
            To::Scalar(to) => {
                let texts = texts(values)?;
                let mut out = StringViewBuilder::with_capacity(texts.len());
                self.each(&texts, |text| scalar_text(text, to), |text| out.append_option(text))?;
                scalars(&(Arc::new(out.finish()) as ArrayRef), to)
            }
            To::Time => {
                let spans = crate::operators::durations::differences(values)?;
                let time = |span: IntervalMonthDayNano| span.nanoseconds.rem_euclid(DAY_NANOS) / 1_000;
                Ok(Arc::new(spans.iter().map(|span| span.map(time)).collect::<Time64MicrosecondArray>()))
            }
            To::Span => {
                let times = cast(values, &TIME)?;
                let span = |micros: i64| IntervalMonthDayNano::new(0, 0, micros * 1_000);
                let times = times.as_primitive::<Time64MicrosecondType>().iter();
                Ok(Arc::new(times.map(|time| time.map(span)).collect::<IntervalMonthDayNanoArray>()))
            }
        }
    }
}

/// The text of the number or truth that a JSONB is, where that is wanted.
fn scalar_text(text: &str, to: &DataType) -> Result<String> {
    let is_truth = matches!(text, "true" | "false");
    let what = match text.bytes().next() {
        Some(b'n') => "null",
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        _ if is_truth && *to == DataType::Boolean || !is_truth && *to != DataType::Boolean => {
            return Ok(text.to_owned());
        }
        _ if is_truth => "boolean",
        _ => "numeric",
    };
    let to = super::pg_typeof::type_name(to);
    let message = format!("cannot cast jsonb {what} to type {to}");
    Err(wrap(Error::new(ErrorKind::InvalidValue, message)))
}

/// Texts of numbers and truth as values; an integer is the nearest.
fn scalars(texts: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if !to.is_integer() {
        return Ok(cast(texts, to)?);
    }
    let wide = cast(texts, &DataType::Decimal256(76, 16))?;
    Ok(cast(&cast(&wide, &DataType::Decimal256(60, 0))?, to)?)
}

impl ScalarUDFImpl for Typed {
    fn name(&self) -> &str {
        match (&self.to, self.is_tried) {
            (To::Kind(Kind::Uuid), false) => "uuid_of_text",
            (To::Kind(Kind::Json), false) => "json_of_text",
            (To::Kind(Kind::Jsonb), false) => "jsonb_of_text",
            (To::Kind(Kind::Numeric), false) => "numeric_of_value",
            (To::Kind(_), false) => "bpchar_of_text",
            (To::Text, _) => "text_of_typed",
            (To::Scalar(_), false) => "scalar_of_jsonb",
            (To::Time, _) => "time_of_interval",
            (To::Span, _) => "interval_of_time",
            (To::Kind(Kind::Uuid), true) => "uuid_if_any",
            (To::Kind(Kind::Json), true) => "json_if_any",
            (To::Kind(Kind::Jsonb), true) => "jsonb_if_any",
            (To::Kind(Kind::Numeric), true) => "numeric_if_any",
            (To::Kind(_), true) => "bpchar_if_any",
            (To::Scalar(_), true) => "scalar_of_jsonb_if_any",
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(name_of_arguments(args))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(match &self.to {
            To::Kind(Kind::Uuid) => UUID,
            To::Kind(Kind::Numeric) => NUMERIC,
            To::Kind(_) | To::Text => DataType::Utf8View,
            To::Scalar(to) => to.clone(),
            To::Time => TIME,
            To::Span => SPAN,
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match self.to {
            To::Kind(kind) if kind != Kind::Other => Ok(field_of(kind, self.name())),
            _ => {
                let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
                Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, true)))
            }
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let from = args.arg_fields.first().map(Arc::clone);
        by_arrays(&args.args, |values| {
            let [values] = take_function_args(self.name(), values)?;
            let from = from.unwrap_or_else(|| Arc::new(Field::new("", values.data_type().clone(), true)));
            self.array(&values, &from)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_numbers_or_too_wide() {
        const ONE: i128 = 10_i128.pow(16);
        for (text, value) in [
            ("1", ONE),
            (" -1.5 ", -3 * ONE / 2),
            (".5", ONE / 2),
            ("1e3", 1_000 * ONE),
            ("12.5e-1", 5 * ONE / 4),
            ("+0.0000000000000001", 1),
            ("1.00000000000000000000", ONE),
            ("9999999999999999999999", 9_999_999_999_999_999_999_999 * ONE),
        ] {
            assert_eq!(numeric_of_text(text).ok(), Some(value), "{text}");
        }
        for text in ["", "x", "1.5.5", "1e", "1e9999", "0.00000000000000001", "10000000000000000000000", "NaN"] {
            assert!(numeric_of_text(text).is_err(), "{text}");
        }
    }
}
