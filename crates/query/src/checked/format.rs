//! `format`, which DataFusion lacks: text with values in it.
//!
//! Invariant: what it gives is what PostgreSQL's gives, or it fails. Widths are refused by name, and so are values that a cast to text might
//! write otherwise than PostgreSQL's does.

use crate::rights::quoted;
use crate::session::wrap;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{Array, ArrayRef, AsArray, StringArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result as Planned};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Format {
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
        other => {
            let message = format!("format() of a value of type {other} is not supported");
            Err(wrap(Error::new(ErrorKind::NotSupported, message).with_hint("cast it to TEXT")))
        }
    }
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
        let kind = behind.trim_start_matches(|digit: char| digit.is_ascii_digit());
        let digits = &behind[..behind.len() - kind.len()];
        let kind = match kind.strip_prefix('$') {
            Some(kind) if !digits.is_empty() => {
                next = match digits.parse() {
                    Ok(0) => return Err(refused("format() counts its values from 1, not from 0".to_owned())),
                    Ok(place) => place,
                    Err(_) => return Err(refused(format!("format() has no value {digits}"))),
                };
                kind
            }
            _ if digits.is_empty() && !kind.starts_with(['-', '*']) => {
                next += 1;
                kind
            }
            _ => {
                return Err(Error::new(ErrorKind::NotSupported, "a width in format() is not supported")
                    .with_hint("use lpad or rpad around the value"));
            }
        };
        let mut kinds = kind.chars();
        let kind = kinds.next().ok_or_else(|| {
            refused("the text of format() ends within a place for a value".to_owned()).with_hint("write %% for %")
        })?;
        if kind == '-' || kind == '*' || kind.is_ascii_digit() {
            return Err(Error::new(ErrorKind::NotSupported, "a width in format() is not supported")
                .with_hint("use lpad or rpad around the value"));
        }
        let value = || {
            values
                .get(next - 1)
                .copied()
                .ok_or_else(|| refused(format!("format() names value {next}, and {} are given", values.len())))
        };
        match kind {
            's' => made.push_str(value()?.unwrap_or_default()),
            'I' => {
                let null =
                    || Error::new(ErrorKind::InvalidValue, "NULL is no name, and format() was to quote it as one");
                made.push_str(&quoted(value()?.ok_or_else(null)?));
            }
            'L' => match value()? {
                Some(value) => made.push_str(&literal(value)),
                None => made.push_str("NULL"),
            },
            other => {
                return Err(refused(format!("format() knows no %{other}")).with_hint("it knows %s, %I, %L and %%"));
            }
        }
        rest = kinds.as_str();
    }
    made.push_str(rest);
    Ok(made)
}

/// As PostgreSQL's `quote_literal`: with backslashes it is a literal of escapes.
fn literal(text: &str) -> String {
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
        ] {
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
            ("%10s", "0A000"),
            ("%-10s", "0A000"),
            ("%*s", "0A000"),
            ("%1$10s", "0A000"),
        ] {
            assert_eq!(made(pattern, &values), Err(sqlstate), "{pattern}");
        }
    }
}
