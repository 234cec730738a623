//! GRANT and REVOKE, of privileges and of roles.

use super::parse::{expect, list, one_of, role, role_of, word, wrong};
use super::{Grant, GrantOn, RoleStatement};
use crate::names::{name_of, schema_name, user_table};
use crate::statements::parse::syntax;
use alluvia_catalog::rights::{Privilege, Privileges};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::Ident;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

/// What stands between GRANT and ON, TO or FROM: names of privileges, or of roles.
pub fn grant(parser: &mut Parser<'_>, is_grant: bool) -> Result<RoleStatement> {
    if !is_grant && let Some(option) = one_of(parser, &["GRANT", "ADMIN", "INHERIT", "SET"]) {
        return Err(not_supported(format!("REVOKE {option} OPTION FOR")));
    }
    let names = list(parser, |parser| {
        let ident = parser.parse_identifier().map_err(syntax)?;
        if ident.value.eq_ignore_ascii_case("all") && ident.quote_style.is_none() {
            let _ = word(parser, "PRIVILEGES");
        }
        if parser.peek_token_ref().token == Token::LParen {
            return Err(not_supported("a privilege on columns").with_hint("grant it on the whole table"));
        }
        Ok(ident)
    })?;
    let to = if is_grant { "TO" } else { "FROM" };
    if !word(parser, "ON") {
        expect(parser, to)?;
        let members = list(parser, role)?;
        ending(parser)?;
        let roles = names.iter().map(role_of).collect();
        return Ok(match is_grant {
            true => RoleStatement::Join { roles, members },
            false => RoleStatement::Leave { roles, members },
        });
    }
    let grant = on(parser, &names)?;
    expect(parser, to)?;
    let roles = list(parser, role)?;
    ending(parser)?;
    Ok(match is_grant {
        true => RoleStatement::Grant { grant, to: roles },
        false => RoleStatement::Revoke { grant, from: roles },
    })
}

fn ending(parser: &mut Parser<'_>) -> Result<()> {
    if word(parser, "WITH") {
        return Err(not_supported("WITH ... OPTION in a grant").with_hint("owners of tables and superusers grant"));
    }
    if word(parser, "GRANTED") {
        return Err(not_supported("GRANTED BY").with_hint("leave it out"));
    }
    // Nothing depends on a grant, so both mean the same.
    let _ = one_of(parser, &["CASCADE", "RESTRICT"]);
    Ok(())
}

/// What stands after ON, and what the privileges are there.
fn on(parser: &mut Parser<'_>, names: &[Ident]) -> Result<Grant> {
    let kind = one_of(
        parser,
        &[
            "TABLE",
            "ALL",
            "DATABASE",
            "SCHEMA",
            "SEQUENCE",
            "FUNCTION",
            "PROCEDURE",
            "ROUTINE",
            "LANGUAGE",
            "TYPE",
            "DOMAIN",
            "TABLESPACE",
            "FOREIGN",
            "LARGE",
            "PARAMETER",
        ],
    );
    let on = match kind {
        None | Some("TABLE") => {
            let table = |parser: &mut Parser<'_>| user_table(&parser.parse_object_name(false).map_err(syntax)?);
            GrantOn::Tables(list(parser, table)?)
        }
        Some("ALL") => {
            if one_of(parser, &["TABLES"]).is_none() {
                return Err(not_supported("a grant on ALL of anything but TABLES"));
            }
            expect(parser, "IN")?;
            expect(parser, "SCHEMA")?;
            GrantOn::AllTables(list(parser, schema)?)
        }
        Some("DATABASE") => {
            named(parser, crate::names::DATABASE_NAME, "database")?;
            GrantOn::Database
        }
        Some("SCHEMA") => GrantOn::Schemas(list(parser, schema)?),
        Some(other) => return Err(not_supported(format!("a grant on {other}"))),
    };
    let possible = match &on {
        GrantOn::Schemas(_) => Privileges::OF_SCHEMA,
        GrantOn::Database => Privileges::OF_DATABASE,
        _ => Privileges::OF_TABLE,
    };
    let mut privileges = Privileges::NONE;
    for name in names {
        match (name.value.to_ascii_uppercase().as_str(), Privilege::named(&name.value)) {
            ("ALL", _) => privileges = possible,
            (_, Some(privilege)) if possible.has(privilege) => privileges = privileges.with(privilege),
            ("REFERENCES" | "TRIGGER" | "MAINTAIN" | "TEMP" | "TEMPORARY" | "USAGE" | "EXECUTE", _) => {
                return Err(not_supported(format!("the privilege {}", name.value.to_uppercase())));
            }
            _ => {
                return Err(wrong(format!("{name} is no privilege on that"))
                    .with_hint(format!("privileges there are {}, ALL", possible.sql_names())));
            }
        }
    }
    Ok(Grant { privileges, on })
}

fn schema(parser: &mut Parser<'_>) -> Result<String> {
    schema_name(&parser.parse_object_name(false).map_err(syntax)?)
}

fn named(parser: &mut Parser<'_>, wanted: &str, what: &str) -> Result<()> {
    let name = name_of(&parser.parse_identifier().map_err(syntax)?);
    if name == wanted {
        return Ok(());
    }
    Err(Error::new(ErrorKind::UndefinedObject, format!("there is no {what} {name}"))
        .with_hint(format!("it is {wanted}")))
}
