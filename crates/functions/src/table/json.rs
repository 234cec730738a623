//! Functions of JSON within texts.

use super::entry::{Entry, Output};
use crate::json::{Function, Json};

pub(super) const ENTRIES: &[Entry] = &[
    Entry::scalar("json_get", Output::NoMoreThanGiven, || Json::new(Function::Get).into())
        .overloads(&["json_get(text, text) -> text", "json_get(text, bigint) -> text"])
        .doc("The value of a key of an object, or the element of an array at a place counted from 0, as JSON.")
        .example(r#"json_get('{"a": [1, 2]}', 'a')"#, "[1, 2]"),
    Entry::scalar("json_get_text", Output::NoMoreThanGiven, || Json::new(Function::GetText).into())
        .overloads(&["json_get_text(text, text) -> text", "json_get_text(text, bigint) -> text"])
        .doc("The value of a key of an object, or the element of an array at a place counted from 0, as text.")
        .example(r#"json_get_text('{"a": "x"}', 'a')"#, "x"),
    Entry::scalar("json_extract_path", Output::NoMoreThanGiven, || Json::new(Function::Path).into())
        .postgresql(&["json_extract_path"])
        .overloads(&["json_extract_path(text, VARIADIC text) -> text"])
        .doc("The value at the end of a path, whose steps are the further arguments, as JSON.")
        .example(r#"json_extract_path('{"a": {"b": "x"}}', 'a', 'b')"#, r#""x""#),
    Entry::scalar("json_extract_path_text", Output::NoMoreThanGiven, || Json::new(Function::PathText).into())
        .postgresql(&["json_extract_path_text"])
        .overloads(&["json_extract_path_text(text, VARIADIC text) -> text"])
        .doc("The value at the end of a path, whose steps are the further arguments, as text.")
        .example(r#"json_extract_path_text('{"a": {"b": "x"}}', 'a', 'b')"#, "x"),
    Entry::scalar("json_at_path", Output::NoMoreThanGiven, || Json::new(Function::At).into())
        .overloads(&["json_at_path(text, text) -> text", "json_at_path(text, text[]) -> text"])
        .doc("The value at the end of a path, which is a list of texts or the text of one, as JSON.")
        .example(r#"json_at_path('{"a": [1, "x"]}', '{a,1}')"#, r#""x""#),
    Entry::scalar("json_at_path_text", Output::NoMoreThanGiven, || Json::new(Function::AtText).into())
        .overloads(&["json_at_path_text(text, text) -> text", "json_at_path_text(text, text[]) -> text"])
        .doc("The value at the end of a path, which is a list of texts or the text of one, as text.")
        .example(r#"json_at_path_text('{"a": [1, "x"]}', '{a,1}')"#, "x"),
    Entry::scalar("json_array_length", Output::NoMoreThanGiven, || Json::new(Function::ArrayLength).into())
        .postgresql(&["json_array_length"])
        .overloads(&["json_array_length(text) -> integer"])
        .doc("The number of elements of an array.")
        .example("json_array_length('[1, [2, 3]]')", "2"),
];
