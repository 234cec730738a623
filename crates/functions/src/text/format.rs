//! `format`, which DataFusion lacks: text with values in it.
//!
//! Invariant: what it gives is what PostgreSQL's gives, or it fails. A width has a bound, and values that might be written otherwise than
//! PostgreSQL writes them are refused by name.

use alluvia_space::keywords::quoted;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::convert::texts_of;
use alluvia_values::errors::wrap;
use arrow::array::{Array, ArrayRef, AsArray, StringArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion_common::{DataFusionError, Result as Planned, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use std::borrow::Cow;
use std::sync::Arc;

/// Characters that a value may be made to take at least.
pub const WIDTH_MAX: usize = 1 << 20;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Format {
    signature: Signature,
}

impl Default for Format {
    fn default() -> Format {
        Format { signature: Signature::variadic_any(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Format {
    fn name(&self) -> &str {
        "format"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Planned<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Planned<ColumnarValue> {
        // A number that is written with a point is NUMERIC there, and shows all its digits.
        let is_written = |of: &ColumnarValue| matches!(of, ColumnarValue::Scalar(ScalarValue::Float64(Some(_))));
        if args.args.iter().any(is_written) {
            return Err(not_shown("DOUBLE that is a constant"));
        }
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let texts = arrays.iter().map(texts).collect::<Planned<Vec<StringArray>>>()?;
        let Some((patterns, values)) = texts.split_first() else {
            return Err(DataFusionError::Internal("format() came without a text".to_owned()));
        };
        let of_row = |row: usize| {
            let values: Vec<Option<&str>> = values.iter().map(|values| at(values, row)).collect();
            at(patterns, row).map(|pattern| formatted(pattern, &values)).transpose()
        };
        let all = (0..patterns.len()).map(of_row).collect::<Result<StringViewArray>>().map_err(wrap)?;
        Ok(ColumnarValue::Array(Arc::new(all)))
    }
}

fn at(texts: &StringArray, row: usize) -> Option<&str> {
    texts.is_valid(row).then(|| texts.value(row))
}

/// Values as the texts that PostgreSQL writes.
fn texts(values: &ArrayRef) -> Planned<StringArray> {
    let is_text = |data_type: &DataType| {
        matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null)
    };
    match values.data_type() {
        DataType::Boolean => {
            let shown = values.as_boolean().iter().map(|value| value.map(|value| if value { "t" } else { "f" }));
            Ok(shown.collect())
        }
        DataType::Dictionary(_, inner) if is_text(inner) => Ok(cast(values, &DataType::Utf8)?.as_string().clone()),
        known if is_text(known) || known.is_integer() => Ok(cast(values, &DataType::Utf8)?.as_string().clone()),
        DataType::Float32
        | DataType::Float64
        | DataType::Decimal128(..)
        | DataType::Date32
        | DataType::Timestamp(..)
        | DataType::Interval(_)
        | DataType::Duration(_)
        | DataType::List(_) => Ok(cast(&texts_of(values).map_err(wrap)?, &DataType::Utf8)?.as_string().clone()),
        other => Err(not_shown(&other.to_string())),
    }
}

fn not_shown(of: &str) -> DataFusionError {
    let message = format!("format() of a value of type {of} is not supported");
    wrap(Error::new(ErrorKind::NotSupported, message).with_hint("cast it to TEXT"))
}

/// A text with values in the places that it names.
fn formatted(pattern: &str, values: &[Option<&str>]) -> Result<String> {
    let refused = |what: String| Error::new(ErrorKind::InvalidSetting, what);
    let mut made = String::with_capacity(pattern.len());
    let (mut rest, mut next) = (pattern, 0);
    while let Some((before, behind)) = rest.split_once('%') {
        made.push_str(before);
        if let Some(behind) = behind.strip_prefix('%') {
            made.push('%');
            rest = behind;
            continue;
        }
        let (place, behind) = FormatSpecifier::read(behind)?;
        let mut kinds = behind.chars();
        let kind = kinds.next().ok_or_else(|| {
            refused("the text of format() ends within a place for a value".to_owned()).with_hint("write %% for %")
        })?;
        let value = |at: usize| {
            let value = at.checked_sub(1).and_then(|before| values.get(before)).copied();
            value.ok_or_else(|| refused(format!("format() names value {at}, and {} are given", values.len())))
        };
        let (mut width, mut is_left) = (place.width, place.is_left);
        if let Some(of) = place.width_of {
            next = of.unwrap_or(next + 1);
            let given = value(next)?.unwrap_or("0");
            let signed: i64 = given.trim().parse().map_err(|_| {
                Error::new(ErrorKind::InvalidText, format!("a width of format() is no number: \"{given}\""))
            })?;
            is_left |= signed < 0;
            width = bounded(usize::try_from(signed.unsigned_abs()).unwrap_or(usize::MAX))?;
        }
        next = place.value.unwrap_or(next + 1);
        let shown = match kind {
            's' => Cow::Borrowed(value(next)?.unwrap_or_default()),
            'I' => {
                let null =
                    || Error::new(ErrorKind::InvalidValue, "NULL is no name, and format() was to quote it as one");
                Cow::Owned(quoted(value(next)?.ok_or_else(null)?))
            }
            'L' => value(next)?.map_or(Cow::Borrowed("NULL"), |value| Cow::Owned(literal(value))),
            other => {
                return Err(refused(format!("format() knows no %{other}")).with_hint("it knows %s, %I, %L and %%"));
            }
        };
        let spaces = if width == 0 { 0 } else { width.saturating_sub(shown.chars().count()) };
        let (before, behind) = if is_left { (0, spaces) } else { (spaces, 0) };
        made.extend(std::iter::repeat_n(' ', before));
        made.push_str(&shown);
        made.extend(std::iter::repeat_n(' ', behind));
        rest = kinds.as_str();
    }
    made.push_str(rest);
    Ok(made)
}

/// A place for a value, as it is written behind `%` and before its letter.
#[derive(Default)]
struct FormatSpecifier {
    /// The number of the value; `None` is the next one.
    value: Option<usize>,
    is_left: bool,
    width: usize,
    /// The number of the value that is the width, or the next one.
    width_of: Option<Option<usize>>,
}

impl FormatSpecifier {
    /// The place, and what is behind it.
    fn read(text: &str) -> Result<(FormatSpecifier, &str)> {
        let mut place = FormatSpecifier::default();
        let (number, mut rest) = leading_digits(text);
        match (number, rest.strip_prefix('$')) {
            (Some(digits), Some(behind)) => {
                place.value = Some(position(digits)?);
                rest = behind;
            }
            (Some(digits), None) => {
                place.width = bounded(digits.parse().unwrap_or(usize::MAX))?;
                return Ok((place, rest));
            }
            (None, _) => {}
        }
        while let Some(behind) = rest.strip_prefix('-') {
            place.is_left = true;
            rest = behind;
        }
        let Some(behind) = rest.strip_prefix('*') else {
            let (number, behind) = leading_digits(rest);
            if let Some(digits) = number {
                place.width = bounded(digits.parse().unwrap_or(usize::MAX))?;
            }
            return Ok((place, behind));
        };
        let (number, behind) = leading_digits(behind);
        match (number, behind.strip_prefix('$')) {
            (Some(digits), Some(behind)) => {
                place.width_of = Some(Some(position(digits)?));
                Ok((place, behind))
            }
            (None, _) => {
                place.width_of = Some(None);
                Ok((place, behind))
            }
            (Some(digits), None) => Err(Error::new(
                ErrorKind::InvalidSetting,
                format!("in format() a $ must end the number of the value that is the width: *{digits}$"),
            )),
        }
    }
}

fn leading_digits(text: &str) -> (Option<&str>, &str) {
    let rest = text.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let digits = &text[..text.len() - rest.len()];
    ((!digits.is_empty()).then_some(digits), rest)
}

fn position(digits: &str) -> Result<usize> {
    let refused = |what: String| Err(Error::new(ErrorKind::InvalidSetting, what));
    match digits.parse() {
        Ok(0) => refused("format() counts its values from 1, not from 0".to_owned()),
        Ok(place) => Ok(place),
        Err(_) => refused(format!("format() has no value {digits}")),
    }
}

fn bounded(width: usize) -> Result<usize> {
    if width <= WIDTH_MAX {
        return Ok(width);
    }
    let message = format!("a width in format() is more than {WIDTH_MAX} characters");
    Err(Error::new(ErrorKind::TooLarge, message).with_hint("use lpad or rpad around the value"))
}

/// As PostgreSQL's `quote_literal`: with backslashes it is a literal of escapes.
pub fn literal(text: &str) -> String {
    let inner = text.replace('\'', "''");
    if inner.contains('\\') { format!("E'{}'", inner.replace('\\', "\\\\")) } else { format!("'{inner}'") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(pattern: &str, values: &[Option<&str>]) -> std::result::Result<String, &'static str> {
        formatted(pattern, values).map_err(|error| error.kind().sqlstate())
    }

    #[test]
    fn values_stand_where_the_text_says() {
        let values = [Some("a"), Some("B c"), None, Some("it's \\")];
        for (pattern, wanted) in [
            ("", ""),
            ("100 %%", "100 %"),
            ("%s-%s", "a-B c"),
            ("%I.%I", "a.\"B c\""),
            ("%2$s %s %1$s %s", "B c  a B c"),
            ("[%3$s] %3$L", "[] NULL"),
            ("%L %4$L", "'a' E'it''s \\\\'"),
            ("é%1$sé", "éaé"),
            ("[%3s|%-3s|%03s]", "[  a|B c|   ]"),
            ("%2$5s|%1$-5s|", "  B c|a    |"),
            ("%5I|%3$-6L|", "    a|NULL  |"),
        ] {
            assert_eq!(made(pattern, &values).as_deref(), Ok(wanted), "{pattern}");
        }
    }

    #[test]
    fn widths_may_be_values() {
        let values = [Some("4"), Some("ab"), Some("-4"), None];
        for (pattern, wanted) in
            [("%*s|", "  ab|"), ("%-*s|", "ab  |"), ("%2$*3$s|", "ab  |"), ("%2$*4$s|", "ab|"), ("%*1$s|", "  ab|")]
        {
            assert_eq!(made(pattern, &values).as_deref(), Ok(wanted), "{pattern}");
        }
    }

    #[test]
    fn what_cannot_be_made_is_refused() {
        let values = [Some("a"), None];
        for (pattern, sqlstate) in [
            ("%", "22023"),
            ("%1$", "22023"),
            ("%0$s", "22023"),
            ("%3$s", "22023"),
            ("%s %s %s", "22023"),
            ("%x", "22023"),
            ("%99999999999999999999$s", "22023"),
            ("%2$I", "22000"),
            ("%*s", "22P02"),
            ("%*1s", "22023"),
            ("%*9$s", "22023"),
            ("%1048577s", "54000"),
            ("%99999999999999999999s", "54000"),
        ] {
            assert_eq!(made(pattern, &values), Err(sqlstate), "{pattern}");
        }
    }
}
