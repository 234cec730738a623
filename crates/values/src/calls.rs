//! Names of functions that `syntax` writes in the place of SQL that DataFusion has no form for, and that `functions` implements.

/// The function that compares a value with the elements of a list: its first argument is a word of [`quantified_by`].
pub const QUANTIFIED_CALL: &str = "any_or_all";

/// The operator that a word names, `< any`, and whether one comparison is enough.
pub fn quantified_by(word: &str) -> Option<(&str, bool)> {
    match word.split_once(' ')? {
        (sign, "any") => Some((sign, true)),
        (sign, "all") => Some((sign, false)),
        _ => None,
    }
}

/// `substring` with a pattern.
pub const SUBSTRING: &str = "regexp_substring";

/// All that `regexp_matches` gives, as a list of lists.
pub const ALL_MATCHES: &str = "regexp_all_matches";

/// The parts that `regexp_split_to_table` gives, as a list.
pub const PARTS: &str = "regexp_split_to_array";

/// The function that has the type of its second argument, if that is a number or a boolean, and the value of its first one.
pub const TEXT_BESIDE: &str = "text_beside";

/// Functions of rows of JSON, and the functions that give the same as lists: a list for each column.
pub const JSON_ROWS: [(&str, &[&str]); 10] = [
    ("json_array_elements", &["json_array_elements_list"]),
    ("json_array_elements_text", &["json_array_elements_text_list"]),
    ("json_each", &["json_each_keys", "json_each_values"]),
    ("json_each_text", &["json_each_text_keys", "json_each_text_values"]),
    ("json_object_keys", &["json_object_keys_list"]),
    ("jsonb_array_elements", &["jsonb_array_elements_list"]),
    ("jsonb_array_elements_text", &["jsonb_array_elements_text_list"]),
    ("jsonb_each", &["jsonb_each_keys", "jsonb_each_values"]),
    ("jsonb_each_text", &["jsonb_each_text_keys", "jsonb_each_text_values"]),
    ("jsonb_object_keys", &["jsonb_object_keys_list"]),
];

/// The row that the name of a table stands for among the arguments of functions of JSON: names and values by turns.
pub const JSON_ROW: &str = "json_row";

/// A text as a CHAR(n): without the blanks at its end.
pub const BPCHAR: &str = "bpchar";
