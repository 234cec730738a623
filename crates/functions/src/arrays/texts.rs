//! Lists as texts, and texts as lists: `ARRAY[1, NULL]::text` is `{1,NULL}`, and `'{1,NULL}'::text::int[]` is that list again.
//!
//! Invariants, as in PostgreSQL:
//! - Elements are quoted by [`alluvia_values::list_text`]. Lists within lists have no quotes around them. Booleans are
//!   `t` and `f`.
//! - An element of a text is read as INSERT reads a text for a column of its type.
//! - Both are called what they stand for, a cast.
//!
//! What the protocols and COPY send of lists is theirs to say.

use super::concatenated::short;
use super::lists::{as_lists, element_of};
use crate::codec::{StateReader, StateWriter, Stateful};
use crate::columnar::by_arrays;
use crate::delegate::in_place_of_a_cast;
use alluvia_space::DataType as StoredType;
use alluvia_types::{Error, ErrorKind};
use alluvia_values::builders::{ColumnBuilder, TextAs};
use alluvia_values::convert::texts_in_zone;
use alluvia_values::errors::wrap;
use alluvia_values::list_text::{array_elements, quoted_element};
use alluvia_values::parse::shown;
use alluvia_values::time_zone::Zone;
use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewArray, StringViewBuilder};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, exec_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// Whether values of this type are lists.
pub fn is_list(of: &DataType) -> bool {
    element_of(of).is_some()
}

/// Values that are written among others.
enum Values {
    Lists(ListArray, Box<Values>),
    Texts(StringViewArray),
}

impl Values {
    fn of(values: &ArrayRef, reader: &Zone) -> Result<Values> {
        if is_list(values.data_type()) {
            let lists = as_lists(values)?;
            let elements = Values::of(lists.values(), reader)?;
            return Ok(Values::Lists(lists, Box::new(elements)));
        }
        Ok(Values::Texts(match values.data_type() {
            DataType::Boolean => values.as_boolean().iter().map(|truth| truth.map(short)).collect(),
            _ => {
                let texts = texts_in_zone(values, reader).map_err(wrap)?;
                cast(&texts, &DataType::Utf8View)?.as_string_view().clone()
            }
        }))
    }

    fn write(&self, row: usize, out: &mut String) {
        match self {
            Values::Lists(lists, _) if lists.is_null(row) => out.push_str("NULL"),
            Values::Lists(lists, elements) => {
                let offsets = lists.value_offsets();
                out.push('{');
                for at in offsets[row]..offsets[row + 1] {
                    if at > offsets[row] {
                        out.push(',');
                    }
                    elements.write(at as usize, out);
                }
                out.push('}');
            }
            Values::Texts(texts) if texts.is_null(row) => out.push_str("NULL"),
            Values::Texts(texts) => out.push_str(&quoted_element(texts.value(row))),
        }
    }
}

/// The texts of lists.
pub(crate) fn texts_of_lists(lists: &ArrayRef) -> Result<ArrayRef> {
    texts_of_lists_in_zone(lists, &Zone::utc())
}

/// The same for a reader in a time zone.
pub(crate) fn texts_of_lists_in_zone(lists: &ArrayRef, reader: &Zone) -> Result<ArrayRef> {
    let values = Values::of(lists, reader)?;
    let mut texts = StringViewBuilder::with_capacity(lists.len());
    let mut text = String::new();
    for row in 0..lists.len() {
        if lists.is_null(row) {
            texts.append_null();
            continue;
        }
        text.clear();
        values.write(row, &mut text);
        texts.append_value(&text);
    }
    Ok(Arc::new(texts.finish()))
}

/// Whether a cast from one type to the other reads texts as lists.
pub fn is_read_as_list(from: &DataType, to: &DataType) -> bool {
    from.is_string() && matches!(to, DataType::List(_))
}

/// Texts as lists of type `to`; what is none is an error, or NULL.
pub fn read(of: Expr, to: DataType, or_null: bool) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(ReadLists::new(to, or_null))), vec![of]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReadLists {
    to: DataType,
    or_null: bool,
    signature: Signature,
}

impl ReadLists {
    fn new(to: DataType, or_null: bool) -> ReadLists {
        ReadLists { to, or_null, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl Stateful for ReadLists {
    const CODE: &'static str = "lists_of_texts";

    fn write(&self, state: &mut StateWriter) -> Result<()> {
        state.data_type(&self.to)?;
        state.byte(u8::from(self.or_null));
        Ok(())
    }

    fn read(state: &mut StateReader<'_>) -> Result<Self> {
        Ok(ReadLists::new(state.data_type()?, state.flag()?))
    }
}

fn not_a_list(text: &str) -> Error {
    Error::new(ErrorKind::InvalidText, format!("{} is not a valid array", shown(text.as_bytes())))
        .with_hint("write it as '{1,2,NULL}', with double quotes around what has commas, braces or spaces")
}

/// The elements of one text; `None` if it is no list, or one of them is no value of the type.
fn elements(text: &str, of: StoredType) -> std::result::Result<(ArrayRef, usize), Error> {
    let elements = array_elements(text).ok_or_else(|| not_a_list(text))?;
    let mut builder = ColumnBuilder::new(of, TextAs::Plain, elements.len());
    for element in &elements {
        match element {
            None => builder.append_null(),
            Some(element) => builder
                .append(element.as_bytes())
                .map_err(|bad| Error::new(bad.kind(), bad.describe(&shown(element.as_bytes()), &of.sql_name())))?,
        }
    }
    Ok((builder.finish(), elements.len()))
}

impl ReadLists {
    fn array(&self, texts: &StringViewArray, element: &FieldRef) -> Result<ArrayRef> {
        let Some(of) = StoredType::from_field(element) else {
            let message = format!("a text as a list of {} is not supported", element.data_type());
            return Err(wrap(Error::new(ErrorKind::NotSupported, message)));
        };
        let (mut parts, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
        for text in texts {
            let read = match text.map(|text| elements(text, of)) {
                Some(Ok(read)) => Some(read),
                Some(Err(error)) if !self.or_null => return Err(wrap(error)),
                Some(Err(_)) | None => None,
            };
            valid.push(read.is_some());
            lengths.push(read.as_ref().map_or(0, |(_, length)| *length));
            parts.extend(read.map(|(values, _)| values));
        }
        let empty = ColumnBuilder::new(of, TextAs::Plain, 0).finish();
        let parts: Vec<&dyn Array> = std::iter::once(&empty).chain(&parts).map(|part| part.as_ref()).collect();
        let values = cast(&arrow::compute::concat(&parts)?, element.data_type())?;
        let nulls = Some(NullBuffer::from(valid));
        let lists = ListArray::try_new(Arc::clone(element), OffsetBuffer::from_lengths(lengths), values, nulls)?;
        Ok(Arc::new(lists))
    }
}

impl ScalarUDFImpl for ReadLists {
    fn name(&self) -> &str {
        if self.or_null { "list_of_text_or_null" } else { "list_of_text" }
    }

    in_place_of_a_cast!();

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        by_arrays(&args.args, |texts| {
            let [texts] = take_function_args(self.name(), texts)?;
            let Some(element) = element_of(&self.to) else { return exec_err!("{} is no list", self.to) };
            self.array(cast(&texts, &DataType::Utf8View)?.as_string_view(), element)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BooleanArray, Float64Array, ListBuilder};
    use arrow::datatypes::Field;
    use proptest::prelude::*;

    fn of_values(values: ArrayRef) -> String {
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        let lists = Arc::new(ListArray::try_new(field, offsets, values, None).unwrap()) as ArrayRef;
        texts_of_lists(&lists).unwrap().as_string_view().value(0).to_owned()
    }

    #[test]
    fn elements_are_quoted_as_postgresql_quotes_them() {
        let texts = ["a", "", "null", "a b", "a\"b", "a\\b", "{x}", "a,b", "é"];
        let texts: StringViewArray = texts.iter().map(|text| Some(*text)).chain([None]).collect();
        assert_eq!(of_values(Arc::new(texts)), r#"{a,"","null","a b","a\"b","a\\b","{x}","a,b",é,NULL}"#);
        assert_eq!(of_values(Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))), "{t,NULL,f}");
        assert_eq!(of_values(Arc::new(Float64Array::from(vec![1.0, 1e20, f64::INFINITY]))), "{1,1e+20,Infinity}");
        assert_eq!(of_values(Arc::new(Float64Array::from(Vec::<f64>::new()))), "{}");
    }

    #[test]
    fn lists_within_lists_have_no_quotes() {
        let mut lists = ListBuilder::new(ListBuilder::new(StringViewBuilder::new()));
        lists.values().values().append_value("a b");
        lists.values().append(true);
        lists.values().append(true);
        lists.append(true);
        let lists = Arc::new(lists.finish()) as ArrayRef;
        assert_eq!(texts_of_lists(&lists).unwrap().as_string_view().value(0), r#"{{"a b"},{}}"#);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(texts in prop::collection::vec(prop::option::of("[ a{}\",\\\\nNulL\t]{0,6}"), 0..6)) {
            let values: StringViewArray = texts.iter().map(|text| text.as_deref()).collect();
            let written = of_values(Arc::new(values));
            prop_assert_eq!(array_elements(&written), Some(texts), "{}", written);
        }
    }
}
