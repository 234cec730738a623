//! Functions of JSON and JSONB, and of texts that have JSON in them.

use super::entry::{Entry, Output};
use crate::casts::kinds::Kind::{Json as AsJson, Jsonb as AsJsonb};
use crate::json::access::{Function, Json};
use crate::json::build::{Building, Made, RowOf};
use crate::json::changed::{Changed, Work};
use crate::output_size::estimate::OutputSize;
use alluvia_values::calls::JSON_ROW;

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
    Entry::scalar("to_json", Output::Counted(OutputSize::AllArguments), || Building::new("to_json", Made::Value, AsJson).into())
        .postgresql(&["to_json"])
        .overloads(&["to_json(any) -> json"])
        .doc("The value as JSON.")
        .example(r#"to_json(ARRAY['a', NULL])"#, r#"["a",null]"#),
    Entry::scalar("to_jsonb", Output::Counted(OutputSize::AllArguments), || Building::new("to_jsonb", Made::Value, AsJsonb).into())
        .postgresql(&["to_jsonb"])
        .overloads(&["to_jsonb(any) -> jsonb"])
        .doc("The value as JSONB.")
        .example(r#"to_jsonb(ARRAY[1, 2])"#, r#"[1, 2]"#),
    Entry::scalar("array_to_json", Output::Counted(OutputSize::AllArguments), || Building::new("array_to_json", Made::Value, AsJson).into())
        .postgresql(&["array_to_json"])
        .overloads(&["array_to_json(anyarray) -> json"])
        .doc("The list as an array of JSON.")
        .example(r#"array_to_json(ARRAY[1, 2])"#, r#"[1,2]"#),
    Entry::scalar("row_to_json", Output::Counted(OutputSize::AllArguments), || Building::new("row_to_json", Made::Row, AsJson).into())
        .postgresql(&["row_to_json"])
        .overloads(&["row_to_json(any) -> json"])
        .doc("A row of a table, said by its name or alias, as an object of JSON.")
        .example(r#"SELECT row_to_json(t) FROM (SELECT 1 AS a, 'x' AS b) AS t"#, r#"{"a":1,"b":"x"}"#),
    Entry::scalar("json_build_object", Output::Counted(OutputSize::AllArguments), || Building::new("json_build_object", Made::Object, AsJson).into())
        .postgresql(&["json_build_object"])
        .overloads(&["json_build_object(VARIADIC any) -> json"])
        .doc("The object of keys and values by turns.")
        .example(r#"json_build_object('a', 1, 'b', NULL)"#, r#"{"a" : 1, "b" : null}"#),
    Entry::scalar("jsonb_build_object", Output::Counted(OutputSize::AllArguments), || Building::new("jsonb_build_object", Made::Object, AsJsonb).into())
        .postgresql(&["jsonb_build_object"])
        .overloads(&["jsonb_build_object(VARIADIC any) -> jsonb"])
        .doc("The object of keys and values by turns, as JSONB.")
        .example(r#"jsonb_build_object('b', 1, 'a', 2)"#, r#"{"a": 2, "b": 1}"#),
    Entry::scalar("json_build_array", Output::Counted(OutputSize::AllArguments), || Building::new("json_build_array", Made::Array, AsJson).into())
        .postgresql(&["json_build_array"])
        .overloads(&["json_build_array(VARIADIC any) -> json"])
        .doc("The array of the arguments.")
        .example(r#"json_build_array(1, 'x', NULL)"#, r#"[1, "x", null]"#),
    Entry::scalar("jsonb_build_array", Output::Counted(OutputSize::AllArguments), || Building::new("jsonb_build_array", Made::Array, AsJsonb).into())
        .postgresql(&["jsonb_build_array"])
        .overloads(&["jsonb_build_array(VARIADIC any) -> jsonb"])
        .doc("The array of the arguments, as JSONB.")
        .example(r#"jsonb_build_array(1, 'x', NULL)"#, r#"[1, "x", null]"#),
    Entry::scalar("json_typeof", Output::Small, || Changed::new("json_typeof", Work::TypeName).into())
        .postgresql(&["json_typeof"])
        .overloads(&["json_typeof(text) -> text"])
        .doc("What a value of JSON is: object, array, string, number, boolean or null.")
        .example(r#"json_typeof('[1]')"#, r#"array"#),
    Entry::scalar("json_strip_nulls", Output::NoMoreThanGiven, || Changed::new("json_strip_nulls", Work::Stripped).into())
        .postgresql(&["json_strip_nulls"])
        .overloads(&["json_strip_nulls(text) -> json"])
        .doc("The value without members of objects that are null.")
        .example(r#"json_strip_nulls('{"a": null, "b": 1}')"#, r#"{"b":1}"#),
    Entry::scalar("json_array_elements_list", Output::NoMoreThanGiven, || Changed::new("json_array_elements_list", Work::Elements).into())
        .overloads(&["json_array_elements_list(text) -> text[]"])
        .doc("The elements of an array as a list, which json_array_elements gives as rows.")
        .example(r#"json_array_elements_list('[1, "x"]')"#, r#"{1,"\"x\""}"#),
    Entry::scalar("json_array_elements_text_list", Output::NoMoreThanGiven, || Changed::new("json_array_elements_text_list", Work::ElementTexts).into())
        .overloads(&["json_array_elements_text_list(text) -> text[]"])
        .doc("The elements of an array as texts in a list, which json_array_elements_text gives as rows.")
        .example(r#"json_array_elements_text_list('[1, "x", null]')"#, r#"{1,x,NULL}"#),
    Entry::scalar("json_object_keys_list", Output::NoMoreThanGiven, || Changed::new("json_object_keys_list", Work::Keys).into())
        .overloads(&["json_object_keys_list(text) -> text[]"])
        .doc("The keys of an object as a list, which json_object_keys gives as rows.")
        .example(r#"json_object_keys_list('{"a": 1, "b": 2}')"#, r#"{a,b}"#),
    Entry::scalar("json_each_keys", Output::NoMoreThanGiven, || Changed::new("json_each_keys", Work::Keys).into())
        .overloads(&["json_each_keys(text) -> text[]"])
        .doc("The keys of an object as a list, which json_each gives as rows.")
        .example(r#"json_each_keys('{"a": 1, "b": "x"}')"#, r#"{a,b}"#),
    Entry::scalar("json_each_values", Output::NoMoreThanGiven, || Changed::new("json_each_values", Work::Values).into())
        .overloads(&["json_each_values(text) -> text[]"])
        .doc("The values of an object as a list, which json_each gives as rows.")
        .example(r#"json_each_values('{"a": 1, "b": "x"}')"#, r#"{1,"\"x\""}"#),
    Entry::scalar("json_each_text_keys", Output::NoMoreThanGiven, || Changed::new("json_each_text_keys", Work::Keys).into())
        .overloads(&["json_each_text_keys(text) -> text[]"])
        .doc("The keys of an object as a list, which json_each_text gives as rows.")
        .example(r#"json_each_text_keys('{"a": 1, "b": "x"}')"#, r#"{a,b}"#),
    Entry::scalar("json_each_text_values", Output::NoMoreThanGiven, || Changed::new("json_each_text_values", Work::ValueTexts).into())
        .overloads(&["json_each_text_values(text) -> text[]"])
        .doc("The values of an object as a list, which json_each_text gives as rows.")
        .example(r#"json_each_text_values('{"a": 1, "b": "x"}')"#, r#"{1,x}"#),
    Entry::scalar("jsonb_typeof", Output::Small, || Changed::new("jsonb_typeof", Work::TypeName).into())
        .postgresql(&["jsonb_typeof"])
        .overloads(&["jsonb_typeof(text) -> text"])
        .doc("What a value of JSON is: object, array, string, number, boolean or null.")
        .example(r#"jsonb_typeof('[1]')"#, r#"array"#),
    Entry::scalar("jsonb_strip_nulls", Output::NoMoreThanGiven, || Changed::new("jsonb_strip_nulls", Work::Stripped).into())
        .postgresql(&["jsonb_strip_nulls"])
        .overloads(&["jsonb_strip_nulls(text) -> jsonb"])
        .doc("The value without members of objects that are null.")
        .example(r#"jsonb_strip_nulls('{"a": null, "b": 1}')"#, r#"{"b": 1}"#),
    Entry::scalar("jsonb_array_elements_list", Output::NoMoreThanGiven, || Changed::new("jsonb_array_elements_list", Work::Elements).into())
        .overloads(&["jsonb_array_elements_list(text) -> text[]"])
        .doc("The elements of an array as a list, which jsonb_array_elements gives as rows.")
        .example(r#"jsonb_array_elements_list('[1, "x"]')"#, r#"{1,"\"x\""}"#),
    Entry::scalar("jsonb_array_elements_text_list", Output::NoMoreThanGiven, || Changed::new("jsonb_array_elements_text_list", Work::ElementTexts).into())
        .overloads(&["jsonb_array_elements_text_list(text) -> text[]"])
        .doc("The elements of an array as texts in a list, which jsonb_array_elements_text gives as rows.")
        .example(r#"jsonb_array_elements_text_list('[1, "x", null]')"#, r#"{1,x,NULL}"#),
    Entry::scalar("jsonb_object_keys_list", Output::NoMoreThanGiven, || Changed::new("jsonb_object_keys_list", Work::Keys).into())
        .overloads(&["jsonb_object_keys_list(text) -> text[]"])
        .doc("The keys of an object as a list, which jsonb_object_keys gives as rows.")
        .example(r#"jsonb_object_keys_list('{"a": 1, "b": 2}')"#, r#"{a,b}"#),
    Entry::scalar("jsonb_each_keys", Output::NoMoreThanGiven, || Changed::new("jsonb_each_keys", Work::Keys).into())
        .overloads(&["jsonb_each_keys(text) -> text[]"])
        .doc("The keys of an object as a list, which jsonb_each gives as rows.")
        .example(r#"jsonb_each_keys('{"a": 1, "b": "x"}')"#, r#"{a,b}"#),
    Entry::scalar("jsonb_each_values", Output::NoMoreThanGiven, || Changed::new("jsonb_each_values", Work::Values).into())
        .overloads(&["jsonb_each_values(text) -> text[]"])
        .doc("The values of an object as a list, which jsonb_each gives as rows.")
        .example(r#"jsonb_each_values('{"a": 1, "b": "x"}')"#, r#"{1,"\"x\""}"#),
    Entry::scalar("jsonb_each_text_keys", Output::NoMoreThanGiven, || Changed::new("jsonb_each_text_keys", Work::Keys).into())
        .overloads(&["jsonb_each_text_keys(text) -> text[]"])
        .doc("The keys of an object as a list, which jsonb_each_text gives as rows.")
        .example(r#"jsonb_each_text_keys('{"a": 1, "b": "x"}')"#, r#"{a,b}"#),
    Entry::scalar("jsonb_each_text_values", Output::NoMoreThanGiven, || Changed::new("jsonb_each_text_values", Work::ValueTexts).into())
        .overloads(&["jsonb_each_text_values(text) -> text[]"])
        .doc("The values of an object as a list, which jsonb_each_text gives as rows.")
        .example(r#"jsonb_each_text_values('{"a": 1, "b": "x"}')"#, r#"{1,x}"#),
    Entry::scalar("jsonb_pretty", Output::Counted(OutputSize::AllArguments), || Changed::new("jsonb_pretty", Work::Lines).into())
        .postgresql(&["jsonb_pretty"])
        .overloads(&["jsonb_pretty(text) -> text"])
        .doc("The value in lines, with four blanks for each level.")
        .example(r#"jsonb_pretty('[1]')"#, "[\n    1\n]"),
    Entry::scalar("jsonb_set", Output::Counted(OutputSize::AllArguments), || Changed::new("jsonb_set", Work::Set).into())
        .postgresql(&["jsonb_set"])
        .overloads(&["jsonb_set(text, text, text) -> jsonb", "jsonb_set(text, text, text, boolean) -> jsonb"])
        .doc("The value with another at the end of a path, which is added where it is missing unless the fourth argument is false.")
        .example(r#"jsonb_set('{"a": 1}', '{b}', '2')"#, r#"{"a": 1, "b": 2}"#),
    Entry::scalar("jsonb_contains", Output::Small, || Changed::new("jsonb_contains", Work::Contains).into())
        .overloads(&["jsonb_contains(text, text) -> boolean"])
        .doc("Whether the first value contains the second, as the operator of that sign has it.")
        .example(r#"jsonb_contains('{"a": 1, "b": 2}', '{"a": 1}')"#, r#"true"#),
    Entry::scalar("jsonb_names", Output::Small, || Changed::new("jsonb_names", Work::Names).into())
        .overloads(&["jsonb_names(text, text) -> boolean"])
        .doc("Whether a text is a key of an object, or an element of an array.")
        .example(r#"jsonb_names('{"a": 1}', 'a')"#, r#"true"#),
    Entry::scalar("jsonb_names_any", Output::Small, || Changed::new("jsonb_names_any", Work::NamesAny).into())
        .overloads(&["jsonb_names_any(text, text[]) -> boolean"])
        .doc("Whether any of some texts is a key or an element.")
        .example(r#"jsonb_names_any('{"a": 1}', ARRAY['b', 'a'])"#, r#"true"#),
    Entry::scalar("jsonb_names_all", Output::Small, || Changed::new("jsonb_names_all", Work::NamesAll).into())
        .overloads(&["jsonb_names_all(text, text[]) -> boolean"])
        .doc("Whether all of some texts are keys or elements.")
        .example(r#"jsonb_names_all('{"a": 1}', ARRAY['b', 'a'])"#, r#"false"#),
    Entry::scalar("jsonb_joined", Output::NoMoreThanGiven, || Changed::new("jsonb_joined", Work::Joined).into())
        .overloads(&["jsonb_joined(text, text) -> jsonb"])
        .doc("The members of two objects, or the elements of two arrays, in one.")
        .example(r#"jsonb_joined('{"a": 1}', '{"b": 2}')"#, r#"{"a": 1, "b": 2}"#),
    Entry::scalar("jsonb_without", Output::NoMoreThanGiven, || Changed::new("jsonb_without", Work::Without).into())
        .overloads(&["jsonb_without(text, text) -> jsonb", "jsonb_without(text, bigint) -> jsonb", "jsonb_without(text, text[]) -> jsonb"])
        .doc("The value without a key, or some, or the element at a place.")
        .example(r#"jsonb_without('{"a": 1, "b": 2}', 'a')"#, r#"{"b": 2}"#),
    Entry::scalar("jsonb_without_path", Output::NoMoreThanGiven, || Changed::new("jsonb_without_path", Work::WithoutPath).into())
        .overloads(&["jsonb_without_path(text, text[]) -> jsonb"])
        .doc("The value without what is at the end of a path.")
        .example(r#"jsonb_without_path('{"a": [1, 2]}', ARRAY['a', '0'])"#, r#"{"a": [2]}"#),
    Entry::scalar(JSON_ROW, Output::NoMoreThanGiven, || RowOf::default().into())
        .overloads(&["json_row(VARIADIC any) -> any"])
        .doc("The row of names and values by turns, as the name of a table among the arguments of functions of JSON becomes.")
        .example("to_json(json_row('a', 1, 'b', 'x'))", r#"{"a":1,"b":"x"}"#),
];
