//! Names and texts, as SQL writes them.

use alluvia_syntax::names::RelationName;
use alluvia_types::{Error, ErrorKind, Result};

/// A text.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A name, exactly as it is.
pub fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A table's name, exactly as it is.
pub fn exactly(name: &RelationName) -> String {
    match name.schema() {
        None => identifier(&name.name),
        Some(schema) => format!("{}.{}", identifier(schema), identifier(&name.name)),
    }
}

/// The user table that a name of the command line means, as SQL takes it: `t`, `s.t`, in lower case but for what is in double quotes.
pub fn user_table(written: &str) -> Result<RelationName> {
    match parts_of(written)?.as_slice() {
        [table] => Ok(RelationName::bare(table.as_str())),
        [schema, table] if schema == "alluvia" => {
            Err(Error::new(ErrorKind::NotSupported, format!("{schema}.{table} is a system table: it can only be read")))
        }
        [schema, table] => Ok(RelationName::in_schema(schema.as_str(), table.as_str())),
        _ => Err(Error::new(ErrorKind::UndefinedObject, format!("{written} has too many parts"))
            .with_hint("name a table as t or public.t")),
    }
}

/// The parts of a dotted name.
fn parts_of(written: &str) -> Result<Vec<String>> {
    let wrong = || {
        Error::new(ErrorKind::Syntax, format!("{written} is no name of a table without double quotes"))
            .with_hint(in_quotes(written))
    };
    let (mut parts, mut rest) = (Vec::new(), written);
    loop {
        let (part, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_part(quoted).ok_or_else(wrong)?,
            None => {
                let (part, after) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
                if !is_plain(part) {
                    return Err(wrong());
                }
                (part.to_ascii_lowercase(), after)
            }
        };
        if part.is_empty() {
            return Err(wrong());
        }
        parts.push(part);
        match after.strip_prefix('.') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(parts),
            None => return Err(wrong()),
        }
    }
}

/// What is in quotes whose first is read, and what follows them; `None` if they do not end.
fn quoted_part(quoted: &str) -> Option<(String, &str)> {
    let (mut part, mut rest) = (String::new(), quoted);
    loop {
        let (before, after) = rest.split_once('"')?;
        part.push_str(before);
        match after.strip_prefix('"') {
            Some(more) => {
                part.push('"');
                rest = more;
            }
            None => return Some((part, after)),
        }
    }
}

/// Whether SQL takes it for a name without quotes.
fn is_plain(part: &str) -> bool {
    part.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && part.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '$')
}

/// How a name is written so that it is taken as it is; the shell takes the outer quotes away.
fn in_quotes(written: &str) -> String {
    format!("a name that is to be taken exactly is written '{}'", identifier(&written.replace('"', "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_the_table_that_it_means_in_sql() {
        for (written, meant) in [
            ("sales", "\"sales\""),
            ("Sales", "\"sales\""),
            ("Größe_2$", "\"größe_2$\""),
            ("public.Sales", "\"public\".\"sales\""),
            ("PUBLIC.\"Sales\"", "\"public\".\"Sales\""),
            ("\"Other\".sales", "\"Other\".\"sales\""),
            ("\"Sales\"", "\"Sales\""),
            ("\"two words.csv\"", "\"two words.csv\""),
            ("\"a \"\"quoted\"\" word\"", "\"a \"\"quoted\"\" word\""),
        ] {
            assert_eq!(exactly(&user_table(written).unwrap()), meant, "{written}");
        }
    }

    #[test]
    fn what_sql_refuses_is_refused_with_what_to_write() {
        for (written, words) in [
            ("alluvia.tables", "alluvia.tables is a system table: it can only be read"),
            ("Alluvia.Mine", "alluvia.mine is a system table"),
            ("a.b.c", "a.b.c has too many parts"),
            ("two words", "two words is no name of a table without double quotes"),
            ("my-table", "is no name of a table"),
            ("2026", "is no name of a table"),
            ("", "is no name of a table"),
            ("\"\"", "is no name of a table"),
            ("public.", "is no name of a table"),
            ("\"open", "is no name of a table"),
            ("\"a\"b", "is no name of a table"),
        ] {
            let error = user_table(written).unwrap_err();
            assert!(error.message().contains(words), "{written}: {error}");
        }
        assert!(user_table("my-table").unwrap_err().hint().unwrap().contains("'\"my-table\"'"));
    }
}
