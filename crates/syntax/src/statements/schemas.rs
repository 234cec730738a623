//! CREATE, DROP and ALTER SCHEMA, and ALTER TABLE ... SET SCHEMA.
//!
//! Parsed here, on sqlparser's parser: its own trees leave CASCADE's meaning and the owners that PostgreSQL knows out, and it has
//! no SET SCHEMA of a table.
//!
//! Invariant: every clause is either taken over or refused by name.

use crate::names::{schema_name, user_table};
use crate::statements::alter::{AlterTable, TableChange};
use crate::statements::parse::syntax;
use crate::statements::roles::{RoleName, expect, list, one_of, role, word};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

/// What a statement does to schemas.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SchemaStatement {
    /// CREATE SCHEMA.
    Create {
        /// Its name; `None` where it is called like its owner.
        name: Option<String>,
        /// AUTHORIZATION: whose it is; `None` for whoever makes it.
        owner: Option<RoleName>,
        /// Whether a schema of this name is left as it is, and no error.
        if_not_exists: bool,
    },
    /// DROP SCHEMA.
    Drop {
        /// The schemas to drop.
        names: Vec<String>,
        /// Whether a schema that does not exist is no error.
        if_exists: bool,
        /// Whether what is in them goes with them.
        cascade: bool,
    },
    /// ALTER SCHEMA ... RENAME TO.
    Rename {
        /// The schema.
        name: String,
        /// Its new name.
        to: String,
    },
    /// ALTER SCHEMA ... OWNER TO.
    Owner {
        /// The schema.
        name: String,
        /// Whose it is from now on.
        owner: RoleName,
    },
}

impl SchemaStatement {
    /// What it is called.
    pub fn command(&self) -> &'static str {
        match self {
            SchemaStatement::Create { .. } => "CREATE SCHEMA",
            SchemaStatement::Drop { .. } => "DROP SCHEMA",
            SchemaStatement::Rename { .. } | SchemaStatement::Owner { .. } => "ALTER SCHEMA",
        }
    }
}

/// Whether a statement with these leading words (upper case) is one of schemas.
pub(crate) fn is_schema_statement(words: &[String]) -> bool {
    let [first, second, ..] = words else { return false };
    matches!(first.as_str(), "CREATE" | "ALTER" | "DROP") && second == "SCHEMA"
}

/// Parses a statement of [`is_schema_statement`], up to its end.
pub(crate) fn parse_schema_statement(parser: &mut Parser<'_>) -> Result<SchemaStatement> {
    let command = one_of(parser, &["CREATE", "ALTER", "DROP"]);
    expect(parser, "SCHEMA")?;
    match command {
        Some("CREATE") => create(parser),
        Some("DROP") => {
            let if_exists = word(parser, "IF");
            if if_exists {
                expect(parser, "EXISTS")?;
            }
            let names = list(parser, schema)?;
            let cascade = one_of(parser, &["CASCADE", "RESTRICT"]) == Some("CASCADE");
            Ok(SchemaStatement::Drop { names, if_exists, cascade })
        }
        _ => {
            let name = schema(parser)?;
            match one_of(parser, &["RENAME", "OWNER"]) {
                Some("RENAME") => {
                    expect(parser, "TO")?;
                    Ok(SchemaStatement::Rename { name, to: schema(parser)? })
                }
                Some(_) => {
                    expect(parser, "TO")?;
                    Ok(SchemaStatement::Owner { name, owner: role(parser)? })
                }
                None => Err(Error::new(
                    ErrorKind::Syntax,
                    format!("expected RENAME TO or OWNER TO, found {}", parser.peek_token_ref()),
                )),
            }
        }
    }
}

fn create(parser: &mut Parser<'_>) -> Result<SchemaStatement> {
    let if_not_exists = word(parser, "IF");
    if if_not_exists {
        expect(parser, "NOT")?;
        expect(parser, "EXISTS")?;
    }
    let (name, owner) = match word(parser, "AUTHORIZATION") {
        true => (None, Some(role(parser)?)),
        false => {
            let name = schema(parser)?;
            (Some(name), word(parser, "AUTHORIZATION").then(|| role(parser)).transpose()?)
        }
    };
    if let Some(element) = one_of(parser, &["CREATE", "GRANT"]) {
        return Err(not_supported(format!("{element} within CREATE SCHEMA"))
            .with_hint("write the statements behind it, one by one"));
    }
    Ok(SchemaStatement::Create { name, owner, if_not_exists })
}

fn schema(parser: &mut Parser<'_>) -> Result<String> {
    schema_name(&parser.parse_object_name(false).map_err(syntax)?)
}

/// How far from the beginning SET SCHEMA is looked for: behind IF EXISTS, ONLY and a name of three parts.
const NAME_TOKENS_MAX: usize = 12;

/// Whether the statement is ALTER TABLE ... SET SCHEMA.
pub(crate) fn sets_schema(parser: &Parser<'_>) -> bool {
    let is = |at: usize, wanted: &str| match parser.peek_nth_token(at).token {
        Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted),
        _ => false,
    };
    is(0, "ALTER") && is(1, "TABLE") && (3..NAME_TOKENS_MAX).any(|at| is(at, "SET") && is(at + 1, "SCHEMA"))
}

/// Parses a statement of [`sets_schema`].
pub(crate) fn parse_set_schema(parser: &mut Parser<'_>) -> Result<AlterTable> {
    expect(parser, "ALTER")?;
    expect(parser, "TABLE")?;
    let if_exists = word(parser, "IF");
    if if_exists {
        expect(parser, "EXISTS")?;
    }
    // No table inherits.
    let _ = word(parser, "ONLY");
    let name = user_table(&parser.parse_object_name(false).map_err(syntax)?)?;
    expect(parser, "SET")?;
    expect(parser, "SCHEMA")?;
    Ok(AlterTable { name, if_exists, change: TableChange::SetSchema(schema(parser)?) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::script::parse;
    use crate::script::tests::one;
    use alluvia_catalog::RelationName;

    fn parsed(sql: &str) -> SchemaStatement {
        match one(sql).kind {
            Kind::Schema(statement) => *statement,
            other => panic!("{sql}: {other:?}"),
        }
    }

    #[test]
    fn schemas_are_made_changed_and_dropped_as_in_postgresql() {
        let create = |name: Option<&str>, owner: Option<RoleName>, if_not_exists| SchemaStatement::Create {
            name: name.map(str::to_owned),
            owner,
            if_not_exists,
        };
        let ann = || RoleName::Named("ann".to_owned());
        assert_eq!(parsed("create schema S"), create(Some("s"), None, false));
        assert_eq!(parsed("CREATE SCHEMA IF NOT EXISTS \"S\""), create(Some("S"), None, true));
        assert_eq!(parsed("CREATE SCHEMA alluvia.s AUTHORIZATION ann"), create(Some("s"), Some(ann()), false));
        assert_eq!(parsed("CREATE SCHEMA AUTHORIZATION CURRENT_USER"), create(None, Some(RoleName::Current), false));
        let drop = |names: &[&str], if_exists, cascade| SchemaStatement::Drop {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            if_exists,
            cascade,
        };
        assert_eq!(parsed("DROP SCHEMA a, b"), drop(&["a", "b"], false, false));
        assert_eq!(parsed("DROP SCHEMA IF EXISTS a CASCADE"), drop(&["a"], true, true));
        assert_eq!(parsed("DROP SCHEMA a RESTRICT"), drop(&["a"], false, false));
        let (name, to) = ("a".to_owned(), "b".to_owned());
        assert_eq!(parsed("ALTER SCHEMA a RENAME TO b"), SchemaStatement::Rename { name, to });
        assert_eq!(
            parsed("ALTER SCHEMA a OWNER TO ann"),
            SchemaStatement::Owner { name: "a".to_owned(), owner: ann() }
        );
    }

    #[test]
    fn tables_change_their_schema() {
        for (sql, name, if_exists) in [
            ("ALTER TABLE t SET SCHEMA s", RelationName::bare("t"), false),
            ("alter table if exists only \"a\".\"T\" set schema s", RelationName::in_schema("a", "T"), true),
        ] {
            let Kind::AlterTable(alter) = one(sql).kind else { panic!("{sql}") };
            let wanted = (name, if_exists, TableChange::SetSchema("s".to_owned()));
            assert_eq!((alter.name, alter.if_exists, alter.change), wanted);
        }
        assert!(matches!(one("ALTER TABLE t SET (freshness = '5s')").kind, Kind::AlterTable(_)));
    }

    #[test]
    fn what_is_more_is_refused_by_name() {
        for (sql, word) in [
            ("CREATE SCHEMA s CREATE TABLE t (a INT)", "CREATE within CREATE SCHEMA"),
            ("CREATE SCHEMA s GRANT SELECT ON t TO ann", "GRANT within CREATE SCHEMA"),
        ] {
            let refused = one(sql);
            assert!(matches!(&refused.kind, Kind::Refused(error) if error.message().contains(word)), "{sql}");
        }
        for sql in ["CREATE SCHEMA", "DROP SCHEMA", "ALTER SCHEMA s", "CREATE SCHEMA a.b.c", "DROP SCHEMA a b"] {
            assert!(parse(sql).is_err(), "{sql}");
        }
    }
}
