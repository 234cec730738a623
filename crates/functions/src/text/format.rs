//! `format`, which DataFusion lacks: text with values in it.
//!
//! Invariant: what it gives is what PostgreSQL's gives, or it fails. A width has a bound, and values that might be written otherwise than
//! PostgreSQL writes them are refused by name.

use super::format_specifiers::{Conversion, Piece, Width, bounded, pieces};
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
    let value = |at: usize| {
        let value = at.checked_sub(1).and_then(|before| values.get(before)).copied();
        let message = || format!("format() names value {at}, and {} are given", values.len());
        value.ok_or_else(|| Error::new(ErrorKind::InvalidSetting, message()))
    };
    let mut made = String::with_capacity(pattern.len());
    let mut last = 0;
    for piece in pieces(pattern) {
        let specifier = match piece? {
            Piece::Text(text) => {
                made.push_str(text);
                continue;
            }
            Piece::Value(specifier) => specifier,
        };
        let (width, is_left) = match specifier.width {
            Width::Written(width) => (width, specifier.is_left),
            Width::Value(position) => {
                last = position.unwrap_or(last + 1);
                let (width, is_negative) = width_of(value(last)?)?;
                (width, specifier.is_left || is_negative)
            }
        };
        last = specifier.position.unwrap_or(last + 1);
        let shown = shown(value(last)?, specifier.conversion)?;
        let spaces = width.saturating_sub(shown.chars().count());
        let (before, behind) = if is_left { (0, spaces) } else { (spaces, 0) };
        made.extend(std::iter::repeat_n(' ', before));
        made.push_str(&shown);
        made.extend(std::iter::repeat_n(' ', behind));
    }
    Ok(made)
}

/// A width that is a value, and whether it is negative; NULL is 0.
fn width_of(value: Option<&str>) -> Result<(usize, bool)> {
    let given = value.unwrap_or("0");
    let signed: i64 = given
        .trim()
        .parse()
        .map_err(|_| Error::new(ErrorKind::InvalidText, format!("a width of format() is no number: \"{given}\"")))?;
    let width = bounded(usize::try_from(signed.unsigned_abs()).unwrap_or(usize::MAX))?;
    Ok((width, signed < 0))
}

/// A value as a specifier writes it.
fn shown(value: Option<&str>, conversion: Conversion) -> Result<Cow<'_, str>> {
    let null = || Error::new(ErrorKind::InvalidValue, "NULL is no name, and format() was to quote it as one");
    Ok(match conversion {
        Conversion::Plain => Cow::Borrowed(value.unwrap_or_default()),
        Conversion::Name => Cow::Owned(quoted(value.ok_or_else(null)?)),
        Conversion::Literal => value.map_or(Cow::Borrowed("NULL"), |value| Cow::Owned(literal(value))),
    })
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
