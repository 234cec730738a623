//! SQL's keywords, and names as SQL writes them.
//!
//! Invariant: a name that [`quoted`] has written is read back as that name where definitions, queries and inserts name
//! a table or a column. In lists of names alone (declarations of dimensions, names of cuboids, access lists) a keyword
//! is a name like any other: [`quoted_for_letters`] is enough there.

/// Words that are not every name, in the order of their bytes: PostgreSQL 15's keywords of which it says so, and those
/// that Alluvia's parser takes for the beginning of something else where a name of a table or column may stand (CUBE,
/// DIRECTORY, LOCAL, ROLLUP, STRUCT, TOP, UNNEST).
#[rustfmt::skip]
pub const KEYWORDS: [&str; 158] = [
    "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric", "authorization", "between",
    "bigint", "binary", "bit", "boolean", "both", "case", "cast", "char", "character", "check", "coalesce",
    "collate", "collation", "column", "concurrently", "constraint", "create", "cross", "cube", "current_catalog",
    "current_date", "current_role", "current_schema", "current_time", "current_timestamp", "current_user", "dec",
    "decimal", "default", "deferrable", "desc", "directory", "distinct", "do", "else", "end", "except", "exists",
    "extract", "false", "fetch", "float", "for", "foreign", "freeze", "from", "full", "grant", "greatest", "group",
    "grouping", "having", "ilike", "in", "initially", "inner", "inout", "int", "integer", "intersect", "interval",
    "into", "is", "isnull", "join", "lateral", "leading", "least", "left", "like", "limit", "local", "localtime",
    "localtimestamp", "national", "natural", "nchar", "none", "normalize", "not", "notnull", "null", "nullif",
    "numeric", "offset", "on", "only", "or", "order", "out", "outer", "overlaps", "overlay", "placing", "position",
    "precision", "primary", "real", "references", "returning", "right", "rollup", "row", "select", "session_user",
    "setof", "similar", "smallint", "some", "struct", "substring", "symmetric", "table", "tablesample", "then",
    "time", "timestamp", "to", "top", "trailing", "treat", "trim", "true", "union", "unique", "unnest", "user",
    "using", "values", "varchar", "variadic", "verbose", "when", "where", "window", "with", "xmlattributes",
    "xmlconcat", "xmlelement", "xmlexists", "xmlforest", "xmlnamespaces", "xmlparse", "xmlpi", "xmlroot",
    "xmlserialize", "xmltable",
];

/// A name as it is written in SQL: in quotes if it would be read as another name, or as a keyword.
pub fn quoted(name: &str) -> String {
    if KEYWORDS.binary_search(&name).is_ok() { format!("\"{name}\"") } else { quoted_for_letters(name) }
}

/// A name in double quotes, unless it has only small ASCII letters, digits and `_`, and begins with no digit.
/// Keywords get no quotes.
pub fn quoted_for_letters(name: &str) -> String {
    let plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dimensions;
    use crate::schema::{Column, DataType};
    use alluvia_types::ColumnId;

    #[test]
    fn keywords_and_names_with_other_letters_are_quoted() {
        assert!(KEYWORDS.is_sorted());
        for (name, written) in [
            ("a_1", "a_1"),
            ("select", "\"select\""),
            ("user", "\"user\""),
            ("name", "name"),
            ("A\"b", "\"A\"\"b\""),
            ("", "\"\""),
        ] {
            assert_eq!(quoted(name), written);
        }
    }

    #[test]
    fn keywords_are_names_like_others_in_declarations_of_dimensions() {
        for word in KEYWORDS {
            let column = Column {
                id: ColumnId(0),
                name: word.to_owned(),
                storage_name: word.to_owned(),
                data_type: DataType::Text,
                nullable: true,
                chars_max: None,
            };
            let columns = [column];
            for written in [quoted(word), quoted_for_letters(word)] {
                let read = dimensions::parse(&written, &columns).unwrap_or_else(|error| panic!("{written}: {error}"));
                assert_eq!((read.len(), read[0].name.as_str()), (1, word), "{written}");
                assert_eq!(dimensions::show(&read, &columns), quoted_for_letters(word));
            }
        }
    }
}
