//! What is taken out of JSON: `payload -> 'a'`, `payload ->> 'a'`, `payload #>> '{a,0,b}'`, `json_extract_path_text(payload, 'a', '0', 'b')`,
//! `json_array_length(tags)`.
//!
//! Invariants:
//! - What is taken out of JSON is as it is written there: numbers keep their digits, objects and arrays their spaces. Of JSON it is JSON, of
//!   JSONB it is JSONB, and of a TEXT with JSON in it, which is read each time, a TEXT.
//! - `->` gives JSON, `->>` and the functions whose names end in `_text` give what a string says, and NULL for `null`. A key that is not there, an
//!   index past the end, and whatever is no object or no array is NULL. Of keys that come twice the last one counts, as in PostgreSQL's jsonb.
//! - The path of `#>` and `#>>` is a list of texts, or the text of one. A path without steps leads to the whole, one with NULL in it nowhere. One
//!   that is written becomes its steps when it is planned; any other is read for each row.
//! - A text that is no JSON is an error (22P02) where something is taken out of it, and so is a path that is no list.

use super::text::only;
use crate::casts::kinds::{field_of, kind_of};
use crate::columnar::by_arrays;
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use alluvia_values::json::{Members, NotJson, Value, elements, resolve};
use alluvia_values::list_text::array_elements;
use alluvia_values::parse::shown;
use arrow::array::{Array, ArrayRef, AsArray, Int32Builder, StringViewBuilder};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion_common::{Result, exec_err};
use datafusion_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use std::borrow::Cow;
use std::sync::Arc;

/// What a function takes out of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Function {
    /// `->`
    Get,
    /// `->>`
    GetText,
    /// `#>`, by the steps of a path.
    Path,
    /// `#>>`, by the steps of a path.
    PathText,
    /// `#>`, by a path that is one value.
    At,
    /// `#>>`, by a path that is one value.
    AtText,
    /// How many elements an array has.
    ArrayLength,
}

impl Function {
    /// Whether it gives what a string says.
    fn gives_text(self) -> bool {
        matches!(self, Function::GetText | Function::PathText | Function::AtText)
    }
}

/// A function of JSON.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Json {
    function: Function,
    signature: Signature,
}

/// What is taken out of an object or an array.
enum Key<'a> {
    Name(&'a str),
    Index(i64),
    /// A step of a path, which is either.
    Step(&'a str),
}

impl Json {
    pub(crate) fn new(function: Function) -> Json {
        Json { function, signature: Signature::user_defined(Volatility::Immutable) }
    }

    fn array(&self, args: &[ArrayRef]) -> Result<ArrayRef> {
        let texts = args[0].as_string_view();
        if self.function == Function::ArrayLength {
            let mut lengths = Int32Builder::with_capacity(texts.len());
            for text in texts {
                lengths.append_option(text.map(length_of).transpose()?);
            }
            return Ok(Arc::new(lengths.finish()));
        }
        let mut found = StringViewBuilder::with_capacity(texts.len());
        for (row, text) in texts.iter().enumerate() {
            let value = match text {
                Some(text) if matches!(self.function, Function::At | Function::AtText) => {
                    self.at_path(text, &args[1], row)?
                }
                Some(text) => self.one(text, &args[1..], row)?,
                None => None,
            };
            found.append_option(value);
        }
        Ok(Arc::new(found.finish()))
    }

    fn one<'a>(&self, text: &'a str, keys: &'a [ArrayRef], row: usize) -> Result<Option<Cow<'a, str>>> {
        let mut value = Value::Nested(text.as_bytes());
        for keys in keys {
            if keys.is_null(row) {
                return Ok(None);
            }
            let key = match (keys.data_type(), self.function) {
                (DataType::Int64, _) => Key::Index(keys.as_primitive::<Int64Type>().value(row)),
                (_, Function::Path | Function::PathText) => Key::Step(keys.as_string_view().value(row)),
                _ => Key::Name(keys.as_string_view().value(row)),
            };
            let Value::Nested(within) = value else { return Ok(None) };
            match taken(within, &key).map_err(|wrong| not_json(text, &wrong))? {
                Some(found) => value = found,
                None => return Ok(None),
            }
        }
        Ok(self.as_columnar(value))
    }

    /// What is at the end of a path that is a list of texts, or the text of one.
    fn at_path<'a>(&self, text: &'a str, paths: &ArrayRef, row: usize) -> Result<Option<Cow<'a, str>>> {
        if paths.is_null(row) {
            return Ok(None);
        }
        let steps: Vec<Option<String>> = match paths.data_type() {
            DataType::List(_) => {
                let path = paths.as_list::<i32>().value(row);
                path.as_string_view().iter().map(|step| step.map(str::to_owned)).collect()
            }
            _ => {
                let path = paths.as_string_view().value(row);
                array_elements(path).ok_or_else(|| no_path(path))?
            }
        };
        if steps.iter().any(Option::is_none) {
            return Ok(None);
        }
        if steps.is_empty() {
            return self.whole(text);
        }
        let mut value = Value::Nested(text.as_bytes());
        for step in steps.iter().flatten() {
            let Value::Nested(within) = value else { return Ok(None) };
            match taken(within, &Key::Step(step)).map_err(|wrong| not_json(text, &wrong))? {
                Some(found) => value = found,
                None => return Ok(None),
            }
        }
        Ok(self.as_columnar(value))
    }

    /// All of a text, where a path has no steps.
    fn whole<'a>(&self, text: &'a str) -> Result<Option<Cow<'a, str>>> {
        only(text.as_bytes()).map_err(|wrong| not_json(text, &wrong))?;
        let bytes = text.trim_ascii().as_bytes();
        Ok(self.as_columnar(match bytes {
            b"null" => Value::Null,
            [b'"', string @ .., b'"'] => Value::String(string),
            other => Value::Plain(other),
        }))
    }

    /// A value as the function gives it.
    fn as_columnar<'a>(&self, value: Value<'a>) -> Option<Cow<'a, str>> {
        let as_text = self.function.gives_text();
        match value {
            Value::Null => (!as_text).then_some(Cow::Borrowed("null")),
            Value::Plain(bytes) | Value::Nested(bytes) => Some(utf8(Cow::Borrowed(bytes))),
            Value::String(bytes) if as_text => Some(utf8(resolve(bytes))),
            Value::String(bytes) => Some(Cow::Owned(format!("\"{}\"", String::from_utf8_lossy(bytes)))),
        }
    }
}

/// Parts of a text that are cut at ASCII.
fn utf8(bytes: Cow<'_, [u8]>) -> Cow<'_, str> {
    match bytes {
        Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

fn taken<'a>(json: &'a [u8], key: &Key<'_>) -> std::result::Result<Option<Value<'a>>, NotJson> {
    match (json.trim_ascii_start().first(), key) {
        (Some(b'{'), Key::Name(name) | Key::Step(name)) => {
            let (mut members, mut found) = (Members::of_stored(json), None);
            while let Some((member, value)) = members.next_member()? {
                if resolve(member) == name.as_bytes() {
                    found = Some(value);
                }
            }
            Ok(found)
        }
        (Some(b'['), Key::Index(_) | Key::Step(_)) => {
            let elements = elements(json)?;
            let index = match key {
                Key::Index(index) => Some(*index),
                Key::Step(step) => step.parse().ok(),
                Key::Name(_) => None,
            };
            let at = index.and_then(|index| match usize::try_from(index) {
                Ok(at) => Some(at),
                Err(_) => elements.len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
            });
            Ok(at.and_then(|at| elements.get(at).copied()))
        }
        (Some(b'{'), Key::Index(_)) => {
            let mut members = Members::of_stored(json);
            while members.next_member()?.is_some() {}
            Ok(None)
        }
        (Some(b'['), Key::Name(_)) => elements(json).map(|_| None),
        // A number, a string or a word by itself has no parts; anything else is no JSON.
        _ => only(json).map(|()| None),
    }
}

fn length_of(text: &str) -> Result<i32> {
    let elements = elements(text.as_bytes()).map_err(|wrong| not_json(text, &wrong))?;
    i32::try_from(elements.len()).or_else(|_| exec_err!("an array of JSON has too many elements"))
}

pub(super) fn not_json(text: &str, NotJson { at, expected }: &NotJson) -> datafusion_common::DataFusionError {
    let message = format!("{} is not JSON: expected {expected} at character {at}", shown(text.as_bytes()));
    wrap(Error::new(ErrorKind::InvalidText, message))
}

fn no_path(path: &str) -> datafusion_common::DataFusionError {
    let message = format!("{} is no path: it is not the text of a list", shown(path.as_bytes()));
    wrap(Error::new(ErrorKind::InvalidText, message).with_hint("write it as '{a,0,b}', or as ARRAY['a', '0', 'b']"))
}

impl ScalarUDFImpl for Json {
    fn name(&self) -> &str {
        match self.function {
            Function::Get => "json_get",
            Function::GetText => "json_get_text",
            Function::Path => "json_extract_path",
            Function::PathText => "json_extract_path_text",
            Function::At => "json_at_path",
            Function::AtText => "json_at_path_text",
            Function::ArrayLength => "json_array_length",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_text = |of: &DataType| of.is_string() || of.is_null();
        let has_keys = match self.function {
            Function::ArrayLength => types.len() == 1,
            Function::Get | Function::GetText | Function::At | Function::AtText => types.len() == 2,
            Function::Path | Function::PathText => types.len() > 1,
        };
        let is_key = |of: &DataType| match self.function {
            Function::Get | Function::GetText => is_text(of) || of.is_integer(),
            Function::At | Function::AtText => {
                is_text(of) || matches!(of, DataType::List(item) if is_text(item.data_type()))
            }
            _ => is_text(of),
        };
        let Some((json, keys)) = types.split_first() else { return exec_err!("{} takes a text", self.name()) };
        if !is_text(json) || !has_keys || !keys.iter().all(is_key) {
            return exec_err!("{} takes a text of JSON, and keys of it", self.name());
        }
        let key = |of: &DataType| match of {
            DataType::List(_) => DataType::new_list(DataType::Utf8View, true),
            of if of.is_integer() => DataType::Int64,
            _ => DataType::Utf8View,
        };
        Ok(std::iter::once(DataType::Utf8View).chain(keys.iter().map(key)).collect())
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(if self.function == Function::ArrayLength { DataType::Int32 } else { DataType::Utf8View })
    }

    /// JSON of JSON, and JSONB of JSONB.
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let gives_json = !self.function.gives_text() && self.function != Function::ArrayLength;
        match args.arg_fields.first().map(|field| kind_of(field)) {
            Some(kind) if kind.is_json() && gives_json => Ok(field_of(kind, self.name())),
            _ => Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, true))),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        by_arrays(&args.args, |arrays| self.array(&arrays))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringViewArray};
    use proptest::prelude::*;
    use serde_json::json;

    fn texts(texts: &[&str]) -> ArrayRef {
        Arc::new(StringViewArray::from_iter_values(texts))
    }

    fn taken_by(function: Function, json: &str, keys: &[ArrayRef]) -> Result<Option<String>> {
        let args: Vec<ArrayRef> = std::iter::once(texts(&[json])).chain(keys.iter().cloned()).collect();
        let found = Json::new(function).array(&args)?;
        Ok(found.as_string_view().iter().next().flatten().map(str::to_owned))
    }

    #[test]
    fn parts_are_taken_as_they_are_written() {
        let json = r#" {"a": {"b": [10, 2.50, "x\n\u00e9", null]}, "n": null, "a2": "é\"", "a": {"b": [1.0, 2e5]}} "#;
        for (function, keys, wanted) in [
            (Function::Get, vec!["a"], Some(r#"{"b": [1.0, 2e5]}"#)),
            (Function::GetText, vec!["a2"], Some("é\"")),
            (Function::Get, vec!["a2"], Some(r#""é\"""#)),
            (Function::Get, vec!["n"], Some("null")),
            (Function::GetText, vec!["n"], None),
            (Function::GetText, vec!["x"], None),
            (Function::PathText, vec!["a", "b", "0"], Some("1.0")),
            (Function::PathText, vec!["a", "b", "-1"], Some("2e5")),
            (Function::PathText, vec!["a", "b", "2"], None),
            (Function::PathText, vec!["a", "b", "b"], None),
            (Function::Path, vec!["a2", "b"], None),
        ] {
            let keys: Vec<ArrayRef> = keys.iter().map(|key| texts(&[key])).collect();
            assert_eq!(taken_by(function, json, &keys).unwrap().as_deref(), wanted, "{function:?} {keys:?}");
        }
        let index = |at: i64| -> ArrayRef { Arc::new(Int64Array::from(vec![at])) };
        for (json, at, wanted) in [
            ("[1, \"b\"]", 1, Some("b")),
            ("[1, \"b\"]", -2, Some("1")),
            ("[1]", -2, None),
            ("[]", 0, None),
            ("{\"0\": 1}", 0, None),
            ("7", 0, None),
        ] {
            assert_eq!(taken_by(Function::GetText, json, &[index(at)]).unwrap().as_deref(), wanted, "{json} {at}");
        }
    }

    #[test]
    fn paths_that_are_one_value_are_read_when_they_run() {
        let json = r#" {"a": [{"b": "x\"y"}, null]} "#;
        for (function, json, path, wanted) in [
            (Function::AtText, json, "{a,0,b}", Some("x\"y")),
            (Function::At, json, "{a,0,b}", Some(r#""x\"y""#)),
            (Function::At, json, " { a , -1 } ", Some("null")),
            (Function::AtText, json, "{a,-1}", None),
            (Function::At, json, "{a,null}", None),
            (Function::At, json, "{a,0,b,c}", None),
            (Function::At, json, "{}", Some(json.trim())),
            (Function::AtText, r#" "x\"y" "#, "{}", Some("x\"y")),
            (Function::At, r#" "x\"y" "#, "{}", Some(r#""x\"y""#)),
            (Function::AtText, "null", "{}", None),
            (Function::At, " null", "{}", Some("null")),
            (Function::AtText, "7", "{}", Some("7")),
            (Function::AtText, "7", "{0}", None),
        ] {
            let found = taken_by(function, json, &[texts(&[path])]).unwrap();
            assert_eq!(found.as_deref(), wanted, "{function:?} {json} {path}");
        }
        for (json, path) in [("{} {}", "{}"), ("\"a\" \"b\"", "{}"), ("", "{}"), ("{", "{a}"), ("{}", "a")] {
            assert!(taken_by(Function::At, json, &[texts(&[path])]).is_err(), "{json} {path}");
        }
    }

    #[test]
    fn what_is_no_json_is_an_error_with_its_place() {
        for json in ["", "{", "{a: 1}", "[1,]", "x", "{} {}", "7 8", "1, 2"] {
            let error = taken_by(Function::Get, json, &[texts(&["a"])]).unwrap_err().to_string();
            assert!(error.contains("is not JSON: expected"), "{json}: {error}");
        }
        assert_eq!(length_of(" [1, [2, 3], {}] ").unwrap(), 3);
        // As deep as what is stored, and no deeper.
        for (depth, is_taken) in [(201, true), (999, true), (1_001, false)] {
            let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            let found = taken_by(Function::Get, &format!("{{\"a\": {nested}}}"), &[texts(&["a"])]);
            assert_eq!(found.ok().flatten(), is_taken.then_some(nested), "{depth}");
        }
        assert!(length_of("{}").is_err());
    }

    fn value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(|of| json!(of)),
            any::<i64>().prop_map(|of| json!(of)),
            any::<String>().prop_map(|of| json!(of))
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(|of| json!(of)),
                prop::collection::hash_map("[a-c]", inner, 0..4).prop_map(|of| json!(of)),
            ]
        })
    }

    proptest! {
        #[test]
        fn paths_lead_where_pointers_do(value in value(), path in prop::collection::vec("[a-c]|[0-3]", 1..4)) {
            let keys: Vec<ArrayRef> = path.iter().map(|step| texts(&[step])).collect();
            let found = taken_by(Function::Path, &value.to_string(), &keys).unwrap();
            let at = taken_by(Function::At, &value.to_string(), &[texts(&[&format!("{{{}}}", path.join(","))])]);
            prop_assert_eq!(&found, &at.unwrap());
            let found = found.map(|found| serde_json::from_str::<serde_json::Value>(&found).unwrap());
            prop_assert_eq!(found.as_ref(), value.pointer(&format!("/{}", path.join("/"))));
        }
    }
}
