//! Structs, maps, and metadata of columns.

use super::entry::{Entry, Output};

pub(super) const ENTRIES: &[Entry] = &[
    Entry::datafusion("struct", Output::NoMoreThanGiven)
        .postgresql(&["row"])
        .overloads(&["struct(VARIADIC any) -> record"])
        .doc("A struct of the arguments, whose fields are c0, c1 and so on.")
        .example("get_field(struct(1, 2), 'c1')", "2"),
    Entry::datafusion("named_struct", Output::NoMoreThanGiven)
        .overloads(&["named_struct(VARIADIC any) -> record"])
        .doc("A struct of names and values, which the arguments are in turn.")
        .example("get_field(named_struct('a', 1, 'b', 2), 'b')", "2"),
    Entry::datafusion("get_field", Output::NoMoreThanGiven)
        .overloads(&["get_field(any, VARIADIC any) -> any"])
        .doc("The field of a struct, or the value of a key of a map, by its name, and so on within that.")
        .example("get_field(named_struct('a', 1), 'a')", "1"),
    Entry::datafusion("map", Output::NoMoreThanGiven)
        .overloads(&["map(anyarray, anyarray) -> any"])
        .doc("A map of a list of keys and a list of values.")
        .example("get_field(map(ARRAY['a', 'b'], ARRAY[1, 2]), 'b')", "2"),
    Entry::datafusion("map_keys", Output::NoMoreThanGiven)
        .overloads(&["map_keys(any) -> anyarray"])
        .doc("The keys of a map, as a list.")
        .example("map_keys(map(ARRAY['a', 'b'], ARRAY[1, 2]))", "{a,b}"),
    Entry::datafusion("map_values", Output::NoMoreThanGiven)
        .overloads(&["map_values(any) -> anyarray"])
        .doc("The values of a map, as a list.")
        .example("map_values(map(ARRAY['a', 'b'], ARRAY[1, 2]))", "{1,2}"),
    Entry::datafusion("map_entries", Output::NoMoreThanGiven)
        .overloads(&["map_entries(any) -> anyarray"])
        .doc("The entries of a map, as a list of structs of a key and a value.")
        .example("cardinality(map_entries(map(ARRAY['a', 'b'], ARRAY[1, 2])))", "2"),
    Entry::datafusion("map_extract", Output::NoMoreThanGiven)
        .overloads(&["map_extract(any, any) -> anyarray"])
        .doc(
            "The value of a key of a map, as a list of one element, or an empty list where the map lacks the \
             key.",
        )
        .example("map_extract(map(ARRAY['a', 'b'], ARRAY[1, 2]), 'b')", "{2}"),
    Entry::datafusion("arrow_field", Output::NoMoreThanGiven)
        .overloads(&["arrow_field(any) -> record"])
        .doc("What Arrow knows of a value's column: name, data_type, nullable and metadata.")
        .example("get_field(arrow_field(1::bigint), 'data_type')", "Int64"),
    Entry::datafusion("arrow_metadata", Output::NoMoreThanGiven)
        .overloads(&["arrow_metadata(any) -> any", "arrow_metadata(any, text) -> text"])
        .doc("The metadata of a value's column, or the text under a key.")
        .example("SELECT arrow_metadata(with_metadata(x, 'unit', 'ms'), 'unit') FROM (VALUES (1)) AS t(x)", "ms"),
    Entry::datafusion("with_metadata", Output::NoMoreThanGiven)
        .overloads(&["with_metadata(any, VARIADIC text) -> any"])
        .doc("The value, whose column has metadata of keys and values, which the further arguments are in turn.")
        .example("with_metadata(1, 'unit', 'ms')", "1"),
];
