//! Lists, structs and maps as JSON: what columns of other programs become that no column type of ours holds as it is.
//!
//! Invariants, as those of PostgreSQL's `to_json`:
//! - A struct is an object with all of its fields, a map one with its entries, a list an array; NULL within them is `null`.
//! - Numbers keep their digits, also those that JSON's readers round; `NaN` and `Infinity` are strings. Moments have a `T`. Everything else is a string of the text
//!   that a cast gives.

use crate::display;
use crate::errors::internal;
use crate::json_value::write_string;
use crate::text::TextColumn;
use alluvia_space::DataType as StoredType;
use alluvia_types::{Error, Result};
use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, GenericListArray, ListArray, OffsetSizeTrait, StringViewArray,
    StringViewBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type};
use std::ops::Range;

/// Each value of a column as JSON.
pub fn texts_of(array: &ArrayRef) -> Result<StringViewArray> {
    let field = Field::new("value", array.data_type().clone(), true);
    let writer = Writer::new(array, &field)?;
    let mut texts = StringViewBuilder::with_capacity(array.len());
    let mut text = String::new();
    for row in 0..array.len() {
        if array.is_null(row) {
            texts.append_null();
            continue;
        }
        text.clear();
        writer.write(row, &mut text)?;
        texts.append_value(&text);
    }
    Ok(texts.finish())
}

/// A column, ready to be written.
enum Writer<'a> {
    Null,
    /// Where each row's elements lie, and the elements.
    List(Vec<Range<usize>>, Inner<'a>),
    Struct(Vec<(&'a str, Inner<'a>)>),
    /// Where each row's entries lie, their keys and values.
    Map(Vec<Range<usize>>, Keys<'a>, Inner<'a>),
    Float(Float64Array),
    Real(&'a arrow::array::Float32Array),
    /// Numbers, booleans and JSON: as they are written.
    Bare(TextColumn<'a>),
    /// Moments: with a `T`.
    Moment(TextColumn<'a>, bool),
    Text(TextColumn<'a>),
}

/// What is within another value: which of it is NULL, and how it is written.
struct Inner<'a> {
    array: &'a ArrayRef,
    writer: Box<Writer<'a>>,
}

struct Keys<'a>(&'a ArrayRef, TextColumn<'a>);

impl<'a> Inner<'a> {
    fn new(array: &'a ArrayRef, field: &FieldRef) -> Result<Inner<'a>> {
        Ok(Inner { array, writer: Box::new(Writer::new(array, field)?) })
    }

    fn write(&self, row: usize, out: &mut String) -> Result<()> {
        if self.array.is_null(row) {
            out.push_str("null");
            return Ok(());
        }
        self.writer.write(row, out)
    }
}

impl<'a> Writer<'a> {
    fn new(array: &'a ArrayRef, field: &Field) -> Result<Writer<'a>> {
        Ok(match array.data_type() {
            DataType::Null => Writer::Null,
            DataType::List(of) => {
                let list: &'a ListArray = array.as_list();
                Writer::List(ranges(list), Inner::new(list.values(), of)?)
            }
            DataType::LargeList(of) => {
                let list = array.as_list::<i64>();
                Writer::List(ranges(list), Inner::new(list.values(), of)?)
            }
            DataType::FixedSizeList(of, size) => {
                let list = array.as_fixed_size_list();
                let size = *size as usize;
                let ranges = (0..list.len()).map(|row| row * size..(row + 1) * size).collect();
                Writer::List(ranges, Inner::new(list.values(), of)?)
            }
            DataType::Struct(fields) => {
                let columns = array.as_struct().columns().iter().zip(fields);
                let member = |(column, field): (&'a ArrayRef, &'a FieldRef)| {
                    Ok((field.name().as_str(), Inner::new(column, field)?))
                };
                Writer::Struct(columns.map(member).collect::<Result<_>>()?)
            }
            DataType::Map(entries, _) => {
                let map = array.as_map();
                let DataType::Struct(fields) = entries.data_type() else {
                    return Err(Error::internal("a map's entries are no struct"));
                };
                let ranges = map.offsets().windows(2).map(|ends| ends[0] as usize..ends[1] as usize).collect();
                let keys = Keys(map.keys(), TextColumn::of_field(map.keys(), &fields[0])?);
                Writer::Map(ranges, keys, Inner::new(map.values(), &fields[1])?)
            }
            DataType::Float16 => {
                Writer::Float(cast(array, &DataType::Float64).map_err(internal)?.as_primitive::<Float64Type>().clone())
            }
            DataType::Float64 => Writer::Float(array.as_primitive::<Float64Type>().clone()),
            DataType::Float32 => Writer::Real(array.as_primitive::<Float32Type>()),
            DataType::Timestamp(_, zone) => Writer::Moment(TextColumn::of_field(array, field)?, zone.is_some()),
            of if of.is_numeric() || *of == DataType::Boolean => Writer::Bare(TextColumn::of_field(array, field)?),
            _ if matches!(StoredType::from_field(field), Some(StoredType::Json | StoredType::Jsonb)) => {
                Writer::Bare(TextColumn::of_field(array, field)?)
            }
            _ => Writer::Text(TextColumn::of_field(array, field)?),
        })
    }

    fn write(&self, row: usize, out: &mut String) -> Result<()> {
        match self {
            Writer::Null => out.push_str("null"),
            Writer::List(ranges, elements) => {
                out.push('[');
                for (at, element) in ranges[row].clone().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    elements.write(element, out)?;
                }
                out.push(']');
            }
            Writer::Struct(members) => {
                out.push('{');
                for (at, (name, values)) in members.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    write_string(name, out);
                    out.push(':');
                    values.write(row, out)?;
                }
                out.push('}');
            }
            Writer::Map(ranges, Keys(keys, written), values) => {
                out.push('{');
                for (at, entry) in ranges[row].clone().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    let key = if keys.is_null(entry) { String::new() } else { text_at(written, entry)? };
                    write_string(&key, out);
                    out.push(':');
                    values.write(entry, out)?;
                }
                out.push('}');
            }
            Writer::Float(values) => {
                float(values.value(row).is_finite(), out, |out| display::write_double(out, values.value(row)))?
            }
            Writer::Real(values) => {
                float(values.value(row).is_finite(), out, |out| display::write_real(out, values.value(row)))?;
            }
            Writer::Bare(column) => out.push_str(&text_at(column, row)?),
            Writer::Moment(column, has_zone) => {
                let text = text_at(column, row)?.replacen(' ', "T", 1);
                write_string(&if *has_zone { text + ":00" } else { text }, out);
            }
            Writer::Text(column) => write_string(&text_at(column, row)?, out),
        }
        Ok(())
    }
}

fn ranges<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> Vec<Range<usize>> {
    list.offsets().windows(2).map(|ends| ends[0].as_usize()..ends[1].as_usize()).collect()
}

fn text_at(column: &TextColumn<'_>, row: usize) -> Result<String> {
    let mut text = Vec::new();
    column.write(row, &mut text)?;
    String::from_utf8(text).map_err(|_| Error::internal("a value was written as text that is not UTF-8"))
}

fn float(is_finite: bool, out: &mut String, write: impl FnOnce(&mut String) -> std::fmt::Result) -> Result<()> {
    let quote = if is_finite { "" } else { "\"" };
    out.push_str(quote);
    write(out).map_err(|_| Error::internal("a String takes every text"))?;
    out.push_str(quote);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BooleanArray, Int64Array, StringArray, StructArray, TimestampMicrosecondArray};
    use arrow::buffer::OffsetBuffer;
    use std::sync::Arc;

    fn texts(array: ArrayRef) -> Vec<Option<String>> {
        texts_of(&array).unwrap().iter().map(|text| text.map(str::to_owned)).collect()
    }

    #[test]
    fn nested_values_are_json() {
        let numbers = Int64Array::from(vec![Some(1), None, Some(i64::MAX)]);
        let field = Arc::new(Field::new_list_field(DataType::Int64, true));
        let lists: ArrayRef = Arc::new(ListArray::new(
            field,
            OffsetBuffer::from_lengths([2, 0, 1]),
            Arc::new(numbers),
            Some(vec![true, true, false].into()),
        ));
        assert_eq!(texts(Arc::clone(&lists)), [Some("[1,null]".to_owned()), Some("[]".to_owned()), None]);
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, 1.0, 0.1]));
        let moments: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![0, 1, 2]).with_timezone("UTC"));
        let names: ArrayRef = Arc::new(StringArray::from(vec![Some("a\"b"), None, Some("é")]));
        let flags: ArrayRef = Arc::new(BooleanArray::from(vec![true, false, true]));
        let columns = [("f", floats), ("m", moments), ("n", names), ("b", flags), ("l", lists)];
        let fields = columns.map(|(name, array)| (Arc::new(Field::new(name, array.data_type().clone(), true)), array));
        let rows: ArrayRef = Arc::new(StructArray::from(fields.to_vec()));
        assert_eq!(
            texts(rows)[0].as_deref(),
            Some(r#"{"f":"NaN","m":"1970-01-01T00:00:00+00:00","n":"a\"b","b":true,"l":[1,null]}"#)
        );
    }
}
