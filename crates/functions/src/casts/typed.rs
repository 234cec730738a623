//! Casts from and to UUID, JSON, JSONB, NUMERIC and CHAR(n), and between TIME and INTERVAL.
//!
//! Invariants, as in PostgreSQL:
//! - A text that is none of the type is an error (22P02, 22003), or NULL where the cast is only tried; types that have no cast to one another
//!   are refused where they are planned (42846).
//! - A number becomes the NUMERIC that it is, of a float that of the digits that its type has for certain: fifteen, of a REAL six. One with
//!   more than sixteen digits behind its point, or more than twenty-two before it, is an error (22003) and never rounded.
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
use alluvia_space::data_type::{EXTENSION_METADATA, chars_of};
use alluvia_types::{Error, ErrorKind};
use alluvia_values::convert::texts_of;
use alluvia_values::errors::wrap;
use alluvia_values::numeric::{numeric_of, parse_numeric};
use alluvia_values::parse::{Bad, shown};
use alluvia_values::time_of_day::parse_time;
use alluvia_values::uuid::parse_uuid;
use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, IntervalMonthDayNanoArray, StringViewArray, StringViewBuilder,
    Time64MicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Decimal128Type, DecimalType, Field, FieldRef, IntervalMonthDayNano, Time64MicrosecondType, TimeUnit,
};
use datafusion_common::utils::take_function_args;
use datafusion_common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};
use std::sync::Arc;

const DAY_NANOS: i64 = 86_400_000_000_000;
const TIME: DataType = DataType::Time64(TimeUnit::Microsecond);

/// What a cast makes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum To {
    /// Values of a kind.
    Kind(Kind),
    /// A CHAR of so many characters.
    Char(Option<u32>),
    /// Texts, of what Arrow's cast would write otherwise.
    Text,
    /// A number or a truth of what JSONB says.
    Scalar(DataType),
    /// The time of day of a text or an interval.
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
        (_, Kind::Uuid | Kind::Json | Kind::Jsonb) if source == target => return Ok(None),
        (_, Kind::Uuid | Kind::Json | Kind::Jsonb) if is_plain_text => To::Kind(target),
        (Kind::Json | Kind::Jsonb, Kind::Json | Kind::Jsonb) => To::Kind(target),
        (_, Kind::Uuid | Kind::Json | Kind::Jsonb) => return refused(),
        (_, Kind::Char) => To::Char(chars_of(to)),
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
            (of, DataType::Time64(_)) if is_text(of) => To::Time,
            (DataType::Time64(_), DataType::Interval(_)) => To::Span,
            _ => return Ok(None),
        },
    };
    // What is written is known by its value, also to the index and to pruning.
    if let Some(Some(text)) = text_literal(of)
        && !is_tried
    {
        match wanted {
            To::Kind(kind) => return literal(text, kind).map(Some),
            To::Time => {
                let micros = parse_time(text.as_bytes()).map_err(|bad| bad_value(text, bad, "TIME"))?;
                return Ok(Some(Expr::Literal(ScalarValue::Time64Microsecond(Some(micros)), None)));
            }
            _ => {}
        }
    }
    Ok(Some(call(of.clone(), wanted, is_tried)))
}

/// The value of a kind that a literal is.
pub fn literal(text: &str, kind: Kind) -> Result<Expr> {
    let value = match kind {
        Kind::Uuid => {
            let bytes = parse_uuid(text.as_bytes()).map_err(|bad| bad_value(text, bad, "UUID"))?;
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

/// Rounds a float before `round(x::numeric, n)` and `trunc` make a NUMERIC of it, and says whether it did: what is cut off either way is no
/// error. So PostgreSQL's users round floats, of which it has no `round(x, n)`.
pub fn round_before_cast(function: &mut ScalarFunction, schema: &DFSchema) -> bool {
    let is_within = match function.args.get(1) {
        Some(Expr::Literal(ScalarValue::Int64(Some(places)), _)) => *places <= i64::from(NUMERIC_SCALE),
        places => places.is_none(),
    };
    let round = Arc::clone(&function.func);
    let Some(Expr::ScalarFunction(cast)) = function.args.first_mut() else { return false };
    let is_numeric = cast.func.inner().downcast_ref::<Typed>().is_some_and(|typed| typed.to == To::Kind(Kind::Numeric));
    match cast.args.as_mut_slice() {
        [of] if is_within && is_numeric && of.get_type(schema).is_ok_and(|of| of.is_floating()) => {
            let args = vec![std::mem::take(of), lit(i64::from(NUMERIC_SCALE))];
            *of = Expr::ScalarFunction(ScalarFunction::new_udf(round, args));
            true
        }
        _ => false,
    }
}

fn null_of(kind: Kind) -> Option<ScalarValue> {
    ScalarValue::try_from(&kind.sql_type()?.to_arrow()).ok()
}

fn call(of: Expr, to: To, is_tried: bool) -> Expr {
    let function = Arc::new(ScalarUDF::from(Typed::new(to, is_tried)));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![of]))
}

/// What is wrong with a text that is to be a value of a type.
pub(crate) fn bad_value(text: &str, bad: Bad, sql_type: &str) -> DataFusionError {
    let error = Error::new(bad.kind(), bad.describe(&shown(text.as_bytes()), sql_type));
    let is_no_number = bad == Bad::Digits && text.contains(['n', 'N']);
    wrap(if is_no_number { error.with_hint("a DOUBLE has NaN and the infinities: CAST(x AS DOUBLE)") } else { error })
}

/// The unscaled NUMERIC of a text.
pub fn numeric_of_text(text: &str) -> Result<i128> {
    parse_numeric(text.as_bytes()).map_err(|bad| bad_value(text, bad, "NUMERIC"))
}

fn is_exact(of: &DataType) -> bool {
    of.is_integer() || matches!(of, DataType::Decimal128(..))
}

/// Integers and decimals as NUMERIC, none of which is rounded.
fn numerics(values: &ArrayRef, is_tried: bool) -> Result<ArrayRef> {
    let (values, scale) = match values.data_type() {
        DataType::Decimal128(_, scale) => (Arc::clone(values), *scale),
        _ => (cast(values, &DataType::Decimal128(38, 0))?, 0),
    };
    let values = values.as_primitive::<Decimal128Type>();
    let one = |value: Option<i128>| match value.map(|value| numeric_of(value, scale)) {
        Some(Ok(value)) => Ok(Some(value)),
        Some(Err(bad)) if !is_tried => {
            let digits = Decimal128Type::format_decimal(value.unwrap_or_default(), 38, scale);
            Err(bad_value(&digits, bad, "NUMERIC"))
        }
        _ => Ok(None),
    };
    Ok(Arc::new(values.iter().map(one).collect::<Result<Decimal128Array>>()?.with_data_type(NUMERIC)))
}

/// Floats by as many digits as their type has for certain, as where they are assigned.
fn float_texts(floats: &ArrayRef) -> Result<StringViewArray> {
    let digits = if *floats.data_type() == DataType::Float64 { 14 } else { 5 };
    let doubles = cast(floats, &DataType::Float64)?;
    let doubles = doubles.as_primitive::<arrow::datatypes::Float64Type>().iter();
    Ok(doubles.map(|double| double.map(|double| format!("{double:.digits$e}"))).collect())
}

/// The unscaled NUMERIC of a float's text.
fn numeric_of_float(text: &str) -> Result<i128> {
    parse_numeric(text.as_bytes()).map_err(|bad| {
        let is_finer = bad == Bad::Digits && text.contains("e-");
        let error = Error::new(bad.kind(), bad.describe(&shown(text.as_bytes()), "NUMERIC"));
        if is_finer { wrap(error.with_hint("round it: round(x::numeric, 2)")) } else { bad_value(text, bad, "NUMERIC") }
    })
}

/// Whether an unscaled NUMERIC has no more digits than there are.
pub fn is_in_range(value: i128) -> bool {
    value.unsigned_abs() < 10_u128.pow(38)
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
            To::Char(chars) => {
                state.byte(5);
                state.optional(chars.map(i64::from));
            }
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
            5 => To::Char(state.optional()?.and_then(|chars| u32::try_from(chars).ok())),
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

    fn array(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let texts = |values: &ArrayRef| -> Result<StringViewArray> {
            let texts =
                if is_text(values.data_type()) { Arc::clone(values) } else { texts_of(values).map_err(wrap)? };
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
            To::Kind(Kind::Numeric) if is_exact(values.data_type()) => numerics(values, self.is_tried),
            To::Kind(Kind::Numeric) => {
                let is_float = values.data_type().is_floating();
                let texts = if is_float { float_texts(values)? } else { texts(values)? };
                let mut out: Vec<Option<i128>> = Vec::with_capacity(texts.len());
                let of_text = if is_float { numeric_of_float } else { numeric_of_text };
                self.each(&texts, of_text, |value| out.push(value))?;
                Ok(Arc::new(Decimal128Array::from(out).with_precision_and_scale(38, NUMERIC_SCALE)?))
            }
            To::Kind(Kind::Char) | To::Char(None) => {
                let texts = texts(values)?;
                let texts = texts.iter().map(|text| text.map(|text| text.trim_end_matches(' ')));
                Ok(Arc::new(texts.collect::<StringViewArray>()))
            }
            To::Char(Some(chars)) => {
                let texts = texts(values)?;
                let cut = |text: &str| {
                    let end = text.char_indices().nth(*chars as usize).map_or(text.len(), |(end, _)| end);
                    text[..end].trim_end_matches(' ').to_owned()
                };
                Ok(Arc::new(texts.iter().map(|text| text.map(cut)).collect::<StringViewArray>()))
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
            To::Time if is_text(values.data_type()) => {
                let texts = texts(values)?;
                let mut out: Vec<Option<i64>> = Vec::with_capacity(texts.len());
                let time = |text: &str| parse_time(text.as_bytes()).map_err(|bad| bad_value(text, bad, "TIME"));
                self.each(&texts, time, |time| out.push(time))?;
                Ok(Arc::new(Time64MicrosecondArray::from(out)))
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
    Err(wrap(Error::new(ErrorKind::InvalidArgument, message)))
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
            (To::Kind(_) | To::Char(_), false) => "bpchar_of_text",
            (To::Text, _) => "text_of_typed",
            (To::Scalar(_), false) => "scalar_of_jsonb",
            (To::Time, false) => "time_of_value",
            (To::Time, true) => "time_if_any",
            (To::Span, _) => "interval_of_time",
            (To::Kind(Kind::Uuid), true) => "uuid_if_any",
            (To::Kind(Kind::Json), true) => "json_if_any",
            (To::Kind(Kind::Jsonb), true) => "jsonb_if_any",
            (To::Kind(Kind::Numeric), true) => "numeric_if_any",
            (To::Kind(_) | To::Char(_), true) => "bpchar_if_any",
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
            To::Kind(_) | To::Char(_) | To::Text => DataType::Utf8View,
            To::Scalar(to) => to.clone(),
            To::Time => TIME,
            To::Span => SPAN,
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match self.to {
            To::Kind(kind) if kind != Kind::Other => Ok(field_of(kind, self.name())),
            To::Char(chars) => {
                let mut field = field_of(Kind::Char, self.name()).as_ref().clone();
                if let Some(chars) = chars {
                    field.metadata_mut().insert(EXTENSION_METADATA.to_owned(), chars.to_string());
                }
                Ok(Arc::new(field))
            }
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
        by_arrays(&args.args, |values| {
            let [values] = take_function_args(self.name(), values)?;
            self.array(&values)
        })
    }
}
