//! COMMENT ON: texts beside tables, columns, views, schemas and the database.
//!
//! Parsed here, since the parser's own takes no text in dollars.

use crate::names::{name_of, parts_of, user_table};
use crate::statement::{Comment, Commented};
use crate::statements::parse::syntax;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{ObjectName, Value};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

/// What stands behind COMMENT.
pub(crate) fn parse_comment(parser: &mut Parser<'_>) -> Result<Comment> {
    expect(parser, "ON")?;
    let kind = parser.next_token().token.to_string().to_ascii_uppercase();
    let name = |parser: &mut Parser<'_>| parser.parse_object_name(false).map_err(syntax);
    let on = match kind.as_str() {
        "TABLE" => Commented::Table(user_table(&name(parser)?)?),
        "VIEW" => Commented::View(user_table(&name(parser)?)?),
        "COLUMN" => {
            let mut name = name(parser)?;
            let column = name.0.pop().and_then(|part| part.as_ident().map(name_of)).unwrap_or_default();
            if name.0.is_empty() {
                return Err(Error::new(ErrorKind::Syntax, "column name must be qualified")
                    .with_hint("write COMMENT ON COLUMN t.a IS '...'"));
            }
            Commented::Column { table: user_table(&name)?, column }
        }
        "SCHEMA" => Commented::Schema(last(&name(parser)?)?),
        "DATABASE" => Commented::Database(last(&name(parser)?)?),
        other if other.bytes().all(|byte| byte.is_ascii_alphabetic()) => {
            return Err(not_supported(format!("COMMENT ON {other}"))
                .with_hint("comments are on TABLE, COLUMN, VIEW, SCHEMA and DATABASE"));
        }
        other => return Err(Error::new(ErrorKind::Syntax, format!("Expected: the kind of an object, found: {other}"))),
    };
    expect(parser, "IS")?;
    let value = parser.parse_value().map_err(syntax)?;
    let text = match value.value {
        Value::Null => None,
        Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text),
        Value::DollarQuotedString(text) => Some(text.value),
        other => return Err(Error::new(ErrorKind::Syntax, format!("Expected: a text or NULL, found: {other}"))),
    };
    // A comment without a letter is none.
    Ok(Comment { on, text: text.filter(|text| !text.is_empty()) })
}

fn last(name: &ObjectName) -> Result<String> {
    Ok(parts_of(name)?.pop().unwrap_or_default())
}

fn expect(parser: &mut Parser<'_>, wanted: &str) -> Result<()> {
    match parser.next_token().token {
        Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted) => Ok(()),
        other => Err(Error::new(ErrorKind::Syntax, format!("Expected: {wanted}, found: {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::script::parse;
    use crate::script::tests::one;
    use alluvia_catalog::RelationName;

    #[test]
    fn comments_are_texts_in_any_quotes_or_null() {
        let named = |schema: Option<&str>, name: &str| RelationName {
            schema: schema.map(str::to_owned),
            name: name.to_owned(),
        };
        let table = || Commented::Table(named(None, "t"));
        for (sql, on, text) in [
            ("COMMENT ON TABLE t IS 'it''s'", table(), Some("it's")),
            (
                "comment on table \"alluvia\".\"public\".\"t\" is $dbt$it's; $1$dbt$",
                Commented::Table(named(Some("public"), "t")),
                Some("it's; $1"),
            ),
            ("COMMENT ON TABLE t IS E'a\\nb'", table(), Some("a\nb")),
            ("COMMENT ON TABLE t IS NULL", table(), None),
            ("COMMENT ON TABLE t IS ''", table(), None),
            (
                "COMMENT ON COLUMN public.t.\"A b\" IS 'c'",
                Commented::Column { table: named(Some("public"), "t"), column: "A b".to_owned() },
                Some("c"),
            ),
            ("COMMENT ON VIEW v IS 'c'", Commented::View(named(None, "v")), Some("c")),
            ("COMMENT ON SCHEMA public IS 'c'", Commented::Schema("public".to_owned()), Some("c")),
            ("COMMENT ON DATABASE alluvia IS 'c'", Commented::Database("alluvia".to_owned()), Some("c")),
        ] {
            let Kind::Comment(comment) = one(sql).kind else { panic!("{sql}") };
            assert_eq!(comment, Comment { on, text: text.map(str::to_owned) }, "{sql}");
        }
        let refused = one("COMMENT ON INDEX ix IS 'c'");
        assert!(matches!(&refused.kind, Kind::Refused(error) if error.message().contains("COMMENT ON INDEX")));
        for sql in
            ["COMMENT ON TABLE t", "COMMENT ON COLUMN a IS 'c'", "COMMENT ON TABLE t IS 1", "COMMENT TABLE t IS 'c'"]
        {
            assert!(parse(sql).is_err(), "{sql}");
        }
    }
}
