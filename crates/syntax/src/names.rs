//! Names in SQL: lower case unless quoted, and which schema they are in.

use crate::grammar::Grammar;
use crate::tokens::depth::DEPTH_MAX;
use crate::tokens::lexer;
pub use alluvia_catalog::{DATABASE_NAME, RelationName, TEMPORARY_SCHEMA};
use alluvia_catalog::{INFORMATION_SCHEMA, PG_CATALOG, SYSTEM_SCHEMA};
use alluvia_space::PUBLIC_SCHEMA;
use alluvia_types::{Error, ErrorKind, Result};
use sqlparser::ast::{Ident, ObjectName, ObjectNamePart};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

/// The schema that is there from the beginning.
pub const PUBLIC: &str = PUBLIC_SCHEMA;
/// The schema that names without one are planned in: whatever stands along the session's search path. It begins with
/// [`ENGINES_OWN`](alluvia_space::ENGINES_OWN): a statement that wrote it would read along the path what it has not named.
pub const ALONG_PATH: &str = "\u{1}search path";
/// The schema of system tables and procedures.
pub const SYSTEM: &str = SYSTEM_SCHEMA;

/// What an identifier names.
pub fn name_of(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_ascii_lowercase(),
    }
}

/// The parts of a dotted name.
pub fn parts_of(name: &ObjectName) -> Result<Vec<String>> {
    let part = |part: &ObjectNamePart| match part {
        ObjectNamePart::Identifier(ident) => Ok(name_of(ident)),
        ObjectNamePart::Function(function) => {
            Err(Error::new(ErrorKind::NotSupported, format!("a function as a name is not supported: {function}")))
        }
    };
    name.0.iter().map(part).collect()
}

/// The parts of a name within the database, which may stand before its schema: `alluvia.public.t`.
pub(crate) fn within_database(name: &ObjectName) -> Result<Vec<String>> {
    let mut parts = parts_of(name)?;
    if parts.len() == 3 {
        let database = parts.remove(0);
        if database != DATABASE_NAME {
            return Err(Error::new(ErrorKind::NotSupported, format!("{name} is in another database, {database}"))
                .with_hint(format!("this database is {DATABASE_NAME}: name a table as t or public.t")));
        }
    }
    Ok(parts)
}

/// The relation that a name means: `t`, `s.t` or `alluvia.s.t`.
pub fn relation_name(name: &ObjectName) -> Result<RelationName> {
    let mut parts = within_database(name)?.into_iter();
    match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, None) => Ok(RelationName::bare(name)),
        (Some(schema), Some(name), None) => Ok(RelationName::in_schema(schema, name)),
        _ => Err(Error::new(ErrorKind::Syntax, format!("improper qualified name (too many dotted names): {name}"))
            .with_hint("name a table as t or public.t")),
    }
}

/// The user table that a name means. What the system's own schemas have can only be read.
pub fn user_table(name: &ObjectName) -> Result<RelationName> {
    let named = relation_name(name)?;
    match named.schema() {
        Some(schema @ SYSTEM) => Err(Error::new(
            ErrorKind::NotSupported,
            format!("{schema}.{} is a system table: it can only be read", named.name),
        )),
        Some(PG_CATALOG | INFORMATION_SCHEMA) => Err(Error::new(
            ErrorKind::NotSupported,
            format!("permission denied: \"{}\" is a system catalog: it can only be read", named.name),
        )),
        _ => Ok(named),
    }
}

/// A table that is to be made.
pub(crate) fn new_table(name: &ObjectName) -> Result<RelationName> {
    unless_of_system(name, || {
        Error::new(ErrorKind::NotSupported, format!("schema {SYSTEM} has system tables, and takes no others"))
            .with_hint("make the table in public, which may be left out")
    })
}

/// A table whose definition is to be shown.
pub(crate) fn shown_table(name: &ObjectName) -> Result<RelationName> {
    unless_of_system(name, || {
        Error::new(ErrorKind::NotSupported, format!("{name} is a system table: no statement makes it"))
            .with_hint(format!("DESCRIBE {name} shows its columns"))
    })
}

/// The user table that a name means, and an error of its own for one of the system's.
fn unless_of_system(name: &ObjectName, error: impl FnOnce() -> Error) -> Result<RelationName> {
    match relation_name(name)?.schema() {
        Some(SYSTEM) => Err(error()),
        _ => user_table(name),
    }
}

/// The name that a text is as SQL writes it, as texts are read that become `regclass`; `None` of a text that is none.
pub fn written_name(text: &str) -> Option<RelationName> {
    let tokens = lexer::of(text).ok()?;
    let grammar = Grammar::for_tokens(tokens.len());
    let mut parser = Parser::new(&grammar).with_recursion_limit(DEPTH_MAX).with_tokens_with_locations(tokens);
    let name = parser.parse_object_name(false).ok()?;
    if parser.peek_token_ref().token == Token::EOF { relation_name(&name).ok() } else { None }
}

/// A table as programs name it, in a text that is no SQL: exactly as it stands, unless it is written with its schema,
/// `s.t` or `"S"."t"`.
pub fn name_in_text(text: &str) -> RelationName {
    written_name(text).filter(|name| name.schema.is_some()).unwrap_or_else(|| RelationName::bare(text))
}

/// Whether what the parser's writer wrote may be the text of another tree, too: it leaves quotes that are doubled, or behind a backslash,
/// as they are, so that literals of one quote and of two are written alike.
pub fn is_ambiguous(written: &str) -> bool {
    ["''", "\\'", "\"\"", "\\\""].iter().any(|quotes| written.contains(quotes))
}

/// The schema that a name means, which its database may stand before.
pub(crate) fn schema_name(name: &ObjectName) -> Result<String> {
    let mut parts = parts_of(name)?;
    if parts.len() == 2 && parts[0] == DATABASE_NAME {
        parts.remove(0);
    }
    match <[String; 1]>::try_from(parts) {
        Ok([schema]) => Ok(schema),
        Err(_) => Err(Error::new(ErrorKind::Syntax, format!("improper schema name: {name}"))),
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;
    use alluvia_space::keywords::{KEYWORDS, quoted, quoted_for_letters};
    use sqlparser::keywords::ALL_KEYWORDS;

    /// The tree of a statement, without quotes and places; `None` if it is none.
    fn tree(sql: &str) -> Option<String> {
        let shown = format!("{:?}", parse(sql).ok()?.first()?.kind).replace("Some('\"')", "None");
        let mut parts = shown.split("Location(");
        let first = parts.next()?.to_owned();
        Some(parts.fold(first, |tree, part| tree + part.split_once(')').map_or("", |(_, rest)| rest)))
    }

    #[test]
    fn every_keyword_is_read_back_as_a_name() {
        const STATEMENTS: [&str; 8] = [
            "CREATE TABLE @ (a INT, @ INT)",
            "CREATE TABLE t (@ INT NOT NULL, a INT)",
            "SELECT @ FROM t",
            "SELECT a, t.@, sum(@) FROM t WHERE @ > 1 AND b = @ GROUP BY @ ORDER BY @",
            "SELECT @.a FROM @ WHERE a = 1",
            "SELECT a AS @ FROM @ AS x",
            "INSERT INTO @ (@, a) SELECT 1, 2",
            "DROP TABLE @",
        ];
        let parser_words = ALL_KEYWORDS.iter().map(|word| word.to_lowercase());
        for word in KEYWORDS.iter().map(|&word| word.to_owned()).chain(parser_words) {
            for statement in STATEMENTS {
                let (own, exact) =
                    (statement.replace('@', &quoted(&word)), statement.replace('@', &format!("\"{word}\"")));
                assert_eq!(tree(&own), tree(&exact), "{own}");
                assert!(tree(&exact).is_some(), "{exact}");
            }
            // In the names of a cuboid a keyword is a name like any other.
            let pin = |name: &str| tree(&format!("CALL alluvia.pin_cuboid('t', '{name}, a.{name}', 'sum({name})')"));
            let exact = pin(&format!("\"{word}\""));
            assert!(exact.is_some() && pin(&quoted_for_letters(&word)) == exact, "{word}");
        }
    }
}
