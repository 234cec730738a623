//! Values as JSON: what `to_json`, `row_to_json`, `json_build_object`, `json_agg` and their kin write of each.
//!
//! Invariants, as in PostgreSQL:
//! - Numbers and truth are written bare, but for NaN and the infinities, which are strings; JSON of a column as it is; lists and rows as arrays
//!   and objects; dates and moments in the form of ISO 8601; everything else as a string of its text.
//! - NULL is `null`.

use crate::arrays::is_list;
use crate::casts::kinds::{Kind, kind_of, plain_number};
use alluvia_values::convert::texts_of;
use alluvia_values::errors::wrap;
use alluvia_values::json_value::write_string;
use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion_common::Result;

/// A column, ready to be written.
pub(crate) enum Written {
    Nulls,
    /// Numbers, truth and JSON.
    Bare(StringViewArray),
    Quoted(StringViewArray),
    List(ListArray, Box<Written>),
    Row(Option<NullBuffer>, Vec<(String, Written)>),
}

impl Written {
    /// Of a column and what is known of it.
    pub fn of(values: &ArrayRef, field: &Field) -> Result<Written> {
        let text = |values: &ArrayRef| -> Result<StringViewArray> {
            let texts = texts_of(values).map_err(wrap)?;
            Ok(cast(&texts, &DataType::Utf8View)?.as_string_view().clone())
        };
        Ok(match (kind_of(field), values.data_type()) {
            (_, DataType::Null) => Written::Nulls,
            (Kind::Json | Kind::Jsonb, _) => Written::Bare(cast(values, &DataType::Utf8View)?.as_string_view().clone()),
            (Kind::Numeric, _) => Written::Bare(text(values)?.iter().map(|digits| digits.map(plain_number)).collect()),
            (_, DataType::Dictionary(_, of)) => {
                let plain = field.clone().with_data_type(of.as_ref().clone());
                return Written::of(&cast(values, of)?, &plain);
            }
            (_, DataType::Boolean) => Written::Bare(
                values.as_boolean().iter().map(|is| is.map(|is| if is { "true" } else { "false" })).collect(),
            ),
            (_, DataType::Float16 | DataType::Float32 | DataType::Float64) => {
                let texts = text(values)?;
                // Words are no numbers.
                let is_number = |text: &str| !text.ends_with(|last: char| last.is_ascii_alphabetic());
                let shown = |text: &str| if is_number(text) { text.to_owned() } else { quoted(text) };
                Written::Bare(texts.iter().map(|text| text.map(shown)).collect())
            }
            (_, of) if of.is_integer() || of.is_decimal() => Written::Bare(text(values)?),
            (_, DataType::Timestamp(_, zone)) => {
                // `2026-01-02T03:04:05+00:00`.
                let has_zone = zone.is_some();
                let iso = |text: &str| {
                    let text = text.replacen(' ', "T", 1);
                    if has_zone && text.ends_with("+00") { text + ":00" } else { text }
                };
                Written::Quoted(text(values)?.iter().map(|text| text.map(iso)).collect())
            }
            (_, of) if is_list(of) => {
                let lists = crate::arrays::as_lists(values)?;
                let DataType::List(element) = lists.data_type().clone() else { return Ok(Written::Nulls) };
                let elements = Written::of(lists.values(), &element)?;
                Written::List(lists, Box::new(elements))
            }
            (_, DataType::Struct(fields)) => {
                let row: &StructArray = values.as_struct();
                let columns = fields.iter().zip(row.columns());
                let columns = columns.map(|(field, column)| Ok((field.name().clone(), Written::of(column, field)?)));
                Written::Row(row.nulls().cloned(), columns.collect::<Result<_>>()?)
            }
            _ => Written::Quoted(text(values)?),
        })
    }

    /// Appends the value of a row.
    pub fn write(&self, row: usize, out: &mut String) {
        match self {
            Written::Bare(texts) if texts.is_valid(row) => out.push_str(texts.value(row)),
            Written::Quoted(texts) if texts.is_valid(row) => write_string(texts.value(row), out),
            Written::List(lists, elements) if lists.is_valid(row) => {
                let offsets = lists.value_offsets();
                out.push('[');
                for at in offsets[row]..offsets[row + 1] {
                    if at > offsets[row] {
                        out.push(',');
                    }
                    elements.write(at as usize, out);
                }
                out.push(']');
            }
            Written::Row(nulls, columns) if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) => {
                out.push('{');
                for (at, (name, column)) in columns.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    write_string(name, out);
                    out.push(':');
                    column.write(row, out);
                }
                out.push('}');
            }
            _ => out.push_str("null"),
        }
    }

    /// The text of a key of an object; `None` of NULL.
    pub fn key(&self, row: usize) -> Option<&str> {
        match self {
            Written::Bare(texts) | Written::Quoted(texts) if texts.is_valid(row) => Some(texts.value(row)),
            _ => None,
        }
    }
}

/// A text as a string of JSON.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    write_string(text, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BooleanArray, Float64Array, Int64Array, TimestampMicrosecondArray};
    use std::sync::Arc;

    fn written(values: ArrayRef) -> Vec<String> {
        let field = Field::new("a", values.data_type().clone(), true);
        let column = Written::of(&values, &field).unwrap();
        (0..values.len())
            .map(|row| {
                let mut text = String::new();
                column.write(row, &mut text);
                text
            })
            .collect()
    }

    #[test]
    fn values_are_written_as_postgresql_writes_them() {
        assert_eq!(written(Arc::new(Int64Array::from(vec![Some(-1), None]))), ["-1", "null"]);
        assert_eq!(written(Arc::new(BooleanArray::from(vec![true, false]))), ["true", "false"]);
        let floats = Float64Array::from(vec![1.0, 1e20, f64::NAN, f64::NEG_INFINITY]);
        assert_eq!(written(Arc::new(floats)), ["1", "1e+20", "\"NaN\"", "\"-Infinity\""]);
        let moments = TimestampMicrosecondArray::from(vec![1_500_000]);
        assert_eq!(written(Arc::new(moments.clone())), ["\"1970-01-01T00:00:01.5\""]);
        assert_eq!(written(Arc::new(moments.with_timezone("UTC"))), ["\"1970-01-01T00:00:01.5+00:00\""]);
        let texts = StringViewArray::from(vec!["a\"b\\\n\u{1}ä"]);
        assert_eq!(written(Arc::new(texts)), [r#""a\"b\\\n\u0001ä""#]);
    }
}
