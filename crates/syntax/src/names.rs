//! Names in SQL: lower case unless quoted, and which schema they are in.

use alluvia_types::{Error, ErrorKind, Result};
use sqlparser::ast::{Ident, ObjectName, ObjectNamePart};

/// The schema of user tables.
pub const PUBLIC: &str = "public";
/// The schema of system tables and procedures.
pub const SYSTEM: &str = "alluvia";

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

/// The user table that a name means: `t`, `public.t` or `alluvia.public.t`.
pub fn user_table(name: &ObjectName) -> Result<String> {
    let parts = within_database(name)?;
    match parts.as_slice() {
        [table] => Ok(table.clone()),
        [schema, table] if schema == PUBLIC => Ok(table.clone()),
        [schema, table] if schema == SYSTEM => {
            Err(Error::new(ErrorKind::NotSupported, format!("{schema}.{table} is a system table: it can only be read")))
        }
        [schema, _] => Err(unknown_schema(schema)),
        _ => Err(Error::new(ErrorKind::UndefinedObject, format!("{name} has too many parts"))
            .with_hint("name a table as t or public.t")),
    }
}

/// A table that is to be made.
pub(crate) fn new_table(name: &ObjectName) -> Result<String> {
    unless_of_system(name, || {
        Error::new(ErrorKind::NotSupported, format!("schema {SYSTEM} has system tables, and takes no others"))
            .with_hint("make the table in public, which may be left out")
    })
}

/// A table whose definition is to be shown.
pub(crate) fn shown_table(name: &ObjectName) -> Result<String> {
    unless_of_system(name, || {
        Error::new(ErrorKind::NotSupported, format!("{name} is a system table: no statement makes it"))
            .with_hint(format!("DESCRIBE {name} shows its columns"))
    })
}

/// The user table that a name means, and an error of its own for one of the system's.
fn unless_of_system(name: &ObjectName, error: impl FnOnce() -> Error) -> Result<String> {
    match within_database(name)?.as_slice() {
        [schema, _] if schema == SYSTEM => Err(error()),
        _ => user_table(name),
    }
}

/// Whether what the parser's writer wrote may be the text of another tree, too: it leaves quotes that are doubled, or behind a backslash,
/// as they are, so that literals of one quote and of two are written alike.
pub fn is_ambiguous(written: &str) -> bool {
    ["''", "\\'", "\"\"", "\\\""].iter().any(|quotes| written.contains(quotes))
}

/// Whether a schema of this name is there, which its database may stand before.
pub(crate) fn is_schema(name: &ObjectName) -> Result<bool> {
    let is_one = |schema: &str| schema == PUBLIC || schema == SYSTEM;
    Ok(match parts_of(name)?.as_slice() {
        [schema] => is_one(schema),
        [database, schema] => database == DATABASE_NAME && is_one(schema),
        _ => false,
    })
}

/// The error for a schema that does not exist.
pub fn unknown_schema(schema: &str) -> Error {
    Error::new(ErrorKind::UndefinedObject, format!("there is no schema {schema}"))
        .with_hint("tables are in public (which may be left out), system tables in alluvia")
}

/// The one database, and its first role.
pub const DATABASE_NAME: &str = "alluvia";

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
