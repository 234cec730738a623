//! SQL's keywords, and names as SQL writes them.

/// PostgreSQL 15's keywords that are not every name: those of which it says so, in the order of their bytes.
#[rustfmt::skip]
pub const KEYWORDS: [&str; 151] = [
    "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric", "authorization", "between",
    "bigint", "binary", "bit", "boolean", "both", "case", "cast", "char", "character", "check", "coalesce",
    "collate", "collation", "column", "concurrently", "constraint", "create", "cross", "current_catalog",
    "current_date", "current_role", "current_schema", "current_time", "current_timestamp", "current_user",
    "dec", "decimal", "default", "deferrable", "desc", "distinct", "do", "else", "end", "except", "exists",
    "extract", "false", "fetch", "float", "for", "foreign", "freeze", "from", "full", "grant", "greatest",
    "group", "grouping", "having", "ilike", "in", "initially", "inner", "inout", "int", "integer", "intersect",
    "interval", "into", "is", "isnull", "join", "lateral", "leading", "least", "left", "like", "limit",
    "localtime", "localtimestamp", "national", "natural", "nchar", "none", "normalize", "not", "notnull",
    "null", "nullif", "numeric", "offset", "on", "only", "or", "order", "out", "outer", "overlaps", "overlay",
    "placing", "position", "precision", "primary", "real", "references", "returning", "right", "row", "select",
    "session_user", "setof", "similar", "smallint", "some", "substring", "symmetric", "table", "tablesample",
    "then", "time", "timestamp", "to", "trailing", "treat", "trim", "true", "union", "unique", "user", "using",
    "values", "varchar", "variadic", "verbose", "when", "where", "window", "with", "xmlattributes", "xmlconcat",
    "xmlelement", "xmlexists", "xmlforest", "xmlnamespaces", "xmlparse", "xmlpi", "xmlroot", "xmlserialize",
    "xmltable",
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
}
