//! Names of relations: as statements write them, and where those without a schema are looked up.
//!
//! Invariants:
//! - A [`RelationName`] says what was written, and nothing of what there is: only a [`Catalog`](crate::Catalog) and a
//!   [`SearchPath`] tell what it means.
//! - A schema on the path that does not exist, or that the role may not use, is passed over, as in PostgreSQL.

use alluvia_space::PUBLIC_SCHEMA;
use alluvia_space::keywords::quoted;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The one database, and its first role.
pub const DATABASE_NAME: &str = "alluvia";
/// The schema of system tables and procedures.
pub const SYSTEM_SCHEMA: &str = "alluvia";
/// The schema of PostgreSQL's catalog, which is looked through first unless the path names it.
pub const PG_CATALOG: &str = "pg_catalog";
/// The standard's catalog.
pub const INFORMATION_SCHEMA: &str = "information_schema";
/// The schema of a session's temporary relations, which is looked through before all others unless the path names it.
pub const TEMPORARY_SCHEMA: &str = "pg_temp";
/// What catalogs call it: PostgreSQL numbers them, and nobody sees another's.
pub const TEMPORARY_SCHEMA_SHOWN: &str = "pg_temp_1";
/// On a path: the schema that is called like the role whose rights hold.
const OWN_SCHEMA: &str = "$user";

/// A relation's name as a statement writes it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct RelationName {
    /// The schema that is written before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Its name.
    pub name: String,
}

impl RelationName {
    /// A name without a schema.
    pub fn bare(name: impl Into<String>) -> RelationName {
        RelationName { schema: None, name: name.into() }
    }

    /// A name in a schema.
    pub fn in_schema(schema: impl Into<String>, name: impl Into<String>) -> RelationName {
        RelationName { schema: Some(schema.into()), name: name.into() }
    }

    /// The schema that is written, as text.
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }
}

impl From<&str> for RelationName {
    fn from(name: &str) -> RelationName {
        RelationName::bare(name)
    }
}

impl fmt::Display for RelationName {
    /// As SQL reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.schema {
            write!(f, "{}.", quoted(schema))?;
        }
        f.write_str(&quoted(&self.name))
    }
}

/// Where names without a schema are looked up: `SET search_path`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SearchPath(Vec<String>);

impl Default for SearchPath {
    fn default() -> SearchPath {
        SearchPath(vec![PUBLIC_SCHEMA.to_owned()])
    }
}

impl SearchPath {
    /// These schemas, in this order.
    pub fn new(schemas: Vec<String>) -> SearchPath {
        SearchPath(schemas)
    }

    /// The schemas as they are stated, in their order.
    pub fn schemas(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether it is what a session begins with.
    pub fn is_default(&self) -> bool {
        matches!(self.0.as_slice(), [schema] if schema == PUBLIC_SCHEMA)
    }

    /// The path of a role: `$user` is the schema that is called like it, and what `may` refuses is left out.
    #[must_use]
    pub fn of_role(&self, role: &str, may: impl Fn(&str) -> bool) -> SearchPath {
        let mut schemas: Vec<String> = Vec::with_capacity(self.0.len());
        for schema in &self.0 {
            let schema = match schema.as_str() {
                // The system's schemas are nobody's, whatever a role is called.
                OWN_SCHEMA if [SYSTEM_SCHEMA, PG_CATALOG, INFORMATION_SCHEMA].contains(&role) => continue,
                OWN_SCHEMA => role,
                schema => schema,
            };
            if may(schema) && !schemas.iter().any(|known| known == schema) {
                schemas.push(schema.to_owned());
            }
        }
        SearchPath(schemas)
    }

    /// With the session's temporary relations before all others, unless it says where they stand.
    #[must_use]
    pub fn with_temporary(&self) -> SearchPath {
        let named = self.0.iter().any(|schema| schema == TEMPORARY_SCHEMA);
        let first = (!named).then(|| TEMPORARY_SCHEMA.to_owned());
        SearchPath(first.into_iter().chain(self.0.iter().cloned()).collect())
    }

    /// The list that `SET search_path` takes: names separated by commas, in double quotes where they need them.
    pub fn parse(text: &str) -> Option<SearchPath> {
        let mut schemas = Vec::new();
        let mut rest = text.trim_start();
        if rest.is_empty() {
            return Some(SearchPath(schemas));
        }
        loop {
            let (schema, behind) = match rest.strip_prefix('"') {
                Some(inside) => quoted_name(inside)?,
                None => {
                    let end = rest.find(',').unwrap_or(rest.len());
                    let name = rest[..end].trim_end();
                    if name.is_empty() || name.contains([' ', '\t', '\n', '"']) {
                        return None;
                    }
                    (name.to_lowercase(), &rest[end..])
                }
            };
            schemas.push(schema);
            rest = behind.trim_start();
            match rest.strip_prefix(',') {
                Some(behind) => rest = behind.trim_start(),
                None if rest.is_empty() => return Some(SearchPath(schemas)),
                None => return None,
            }
        }
    }
}

/// A name up to its closing quote, of which two are one, and what stands behind it.
fn quoted_name(inside: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = inside;
    loop {
        let end = rest.find('"')?;
        name.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(behind) => {
                name.push('"');
                rest = behind;
            }
            None => return Some((name, rest)),
        }
    }
}

impl fmt::Display for SearchPath {
    /// As SHOW prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> =
            self.0.iter().map(|schema| if schema.is_empty() { "\"\"".to_owned() } else { quoted(schema) }).collect();
        f.write_str(&names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_as_they_are_shown() {
        for (text, shown) in [
            ("public", "public"),
            ("\"$user\", public", "\"$user\", public"),
            ("A,\"A b\" , \"x\"\"y\"", "a, \"A b\", \"x\"\"y\""),
            ("", ""),
            ("\"\"", "\"\""),
        ] {
            let path = SearchPath::parse(text).unwrap();
            assert_eq!(path.to_string(), shown);
            assert_eq!(SearchPath::parse(shown), Some(path));
        }
        for wrong in ["a b", "a,", ",a", "\"a", "a,,b"] {
            assert_eq!(SearchPath::parse(wrong), None, "{wrong}");
        }
        assert!(SearchPath::parse("public").unwrap().is_default());
    }

    #[test]
    fn the_path_of_a_role_has_its_own_schema_and_none_that_it_may_not_use() {
        let path = SearchPath::parse("\"$user\", a, public, a").unwrap();
        let shown = |role: &str, may: &dyn Fn(&str) -> bool| path.of_role(role, may).to_string();
        assert_eq!(shown("ada", &|_| true), "ada, a, public");
        assert_eq!(shown("alluvia", &|_| true), "a, public");
        assert_eq!(shown("a", &|schema| schema != "public"), "a");
    }

    #[test]
    fn temporary_relations_come_first_unless_the_path_says_where() {
        let with = |path: &str| SearchPath::parse(path).unwrap().with_temporary().to_string();
        assert_eq!((with("a, public"), with("a, pg_temp")), ("pg_temp, a, public".to_owned(), "a, pg_temp".to_owned()));
    }

    #[test]
    fn names_are_shown_as_they_are_written() {
        assert_eq!(RelationName::bare("T x").to_string(), "\"T x\"");
        assert_eq!(RelationName::in_schema("s", "t").to_string(), "s.t");
    }
}
