//! CREATE, ALTER and DROP ROLE, and the words that all statements about roles are made of.

use super::grants::grant;
use super::{RoleName, RoleOptions, RoleStatement};
use crate::names::name_of;
use crate::statements::commands::SEARCH_PATH;
use crate::statements::parse::syntax;
use alluvia_catalog::SearchPath;
use alluvia_catalog::rights::Secret;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{Ident, Owner};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Words of statements about roles, behind CREATE, ALTER and DROP.
const ROLE: [&str; 3] = ["ROLE", "USER", "GROUP"];

/// Whether a statement with these leading words (upper case) is parsed here.
pub(crate) fn is_role_statement(words: &[String]) -> bool {
    match words.first().map(String::as_str) {
        Some("GRANT" | "REVOKE") => true,
        Some("CREATE" | "ALTER" | "DROP") => words.get(1).is_some_and(|second| ROLE.contains(&second.as_str())),
        _ => false,
    }
}

/// The tokens whose text must not be kept: what follows PASSWORD.
pub fn secrets(tokens: &[TokenWithSpan]) -> impl Iterator<Item = &TokenWithSpan> {
    let mut after = false;
    tokens.iter().filter(move |token| match &token.token {
        Token::Whitespace(_) | Token::Eq => false,
        Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("password") => {
            after = true;
            false
        }
        Token::Word(word) if word.value.eq_ignore_ascii_case("null") => {
            after = false;
            false
        }
        _ => std::mem::take(&mut after),
    })
}

pub fn wrong(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Syntax, message)
}

/// Takes the next token if it is this word, not quoted.
pub fn word(parser: &mut Parser<'_>, wanted: &str) -> bool {
    let is_it = match &parser.peek_token_ref().token {
        Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted),
        _ => false,
    };
    if is_it {
        parser.advance_token();
    }
    is_it
}

/// Takes the first of these words that comes next.
pub fn one_of(parser: &mut Parser<'_>, wanted: &[&'static str]) -> Option<&'static str> {
    wanted.iter().copied().find(|wanted| word(parser, wanted))
}

pub fn expect(parser: &mut Parser<'_>, wanted: &str) -> Result<()> {
    if word(parser, wanted) {
        return Ok(());
    }
    Err(wrong(format!("expected {wanted}, found {}", parser.peek_token_ref())))
}

pub fn list<T>(parser: &mut Parser<'_>, one: impl Fn(&mut Parser<'_>) -> Result<T>) -> Result<Vec<T>> {
    let mut all = vec![one(parser)?];
    while parser.consume_token(&Token::Comma) {
        all.push(one(parser)?);
    }
    Ok(all)
}

pub fn role_of(ident: &Ident) -> RoleName {
    let named = || RoleName::Named(name_of(ident));
    match (ident.quote_style, ident.value.to_ascii_lowercase().as_str()) {
        (Some(_), _) => named(),
        (None, "current_user" | "current_role") => RoleName::Current,
        (None, "session_user") => RoleName::Session,
        (None, "public") => RoleName::Everybody,
        _ => named(),
    }
}

/// The role that ALTER TABLE ... OWNER TO names.
pub(crate) fn owner_of(owner: &Owner) -> RoleName {
    match owner {
        Owner::Ident(ident) => role_of(ident),
        Owner::CurrentRole | Owner::CurrentUser => RoleName::Current,
        Owner::SessionUser => RoleName::Session,
    }
}

pub fn role(parser: &mut Parser<'_>) -> Result<RoleName> {
    let _ = word(parser, "GROUP");
    Ok(role_of(&parser.parse_identifier().map_err(syntax)?))
}

/// A name for a role, or of one that was made.
fn plain_role(parser: &mut Parser<'_>) -> Result<String> {
    match role_of(&parser.parse_identifier().map_err(syntax)?) {
        RoleName::Named(name) => Ok(name),
        _ => Err(wrong("a role cannot have that name").with_hint("public, current_user and session_user mean others")),
    }
}

/// Parses a statement of [`is_role_statement`], up to its end.
pub(crate) fn parse_role_statement(parser: &mut Parser<'_>) -> Result<RoleStatement> {
    match one_of(parser, &["CREATE", "ALTER", "DROP", "GRANT", "REVOKE"]) {
        Some("CREATE") => create(parser),
        Some("ALTER") => alter(parser),
        Some("DROP") => {
            let _ = one_of(parser, &ROLE);
            let if_exists = word(parser, "IF");
            if if_exists {
                expect(parser, "EXISTS")?;
            }
            Ok(RoleStatement::Drop { names: list(parser, plain_role)?, if_exists })
        }
        Some("GRANT") => grant(parser, true),
        _ => grant(parser, false),
    }
}

fn create(parser: &mut Parser<'_>) -> Result<RoleStatement> {
    let is_user = one_of(parser, &ROLE) == Some("USER");
    if word(parser, "IF") {
        return Err(not_supported("CREATE ROLE IF NOT EXISTS")
            .with_hint("DROP ROLE IF EXISTS it first, or look it up in pg_roles"));
    }
    let name = plain_role(parser)?;
    let mut options = options(parser)?;
    options.login = options.login.or(is_user.then_some(true));
    Ok(RoleStatement::Create { name, options })
}

fn alter(parser: &mut Parser<'_>) -> Result<RoleStatement> {
    let _ = one_of(parser, &ROLE);
    if word(parser, "ALL") {
        return Err(not_supported("ALTER ROLE ALL"));
    }
    let name = role(parser)?;
    if word(parser, "IN") {
        return Err(not_supported("ALTER ROLE ... IN DATABASE").with_hint("there is one database: leave it out"));
    }
    if word(parser, "RENAME") {
        expect(parser, "TO")?;
        return Ok(RoleStatement::Rename { name, to: plain_role(parser)? });
    }
    if word(parser, "RESET") {
        if word(parser, "ALL") {
            return Ok(RoleStatement::ResetAll { name });
        }
        return Ok(RoleStatement::Set { name, setting: setting(parser)?, value: None });
    }
    if word(parser, "SET") {
        let setting = setting(parser)?;
        if !parser.consume_token(&Token::Eq) {
            expect(parser, "TO")?;
        }
        if word(parser, "DEFAULT") {
            return Ok(RoleStatement::Set { name, setting, value: None });
        }
        if setting == SEARCH_PATH {
            // Each value is a schema, whatever is in it.
            let schemas = list(parser, schema_on_path)?;
            return Ok(RoleStatement::Set { name, setting, value: Some(SearchPath::new(schemas).to_string()) });
        }
        let values = list(parser, value)?;
        return Ok(RoleStatement::Set { name, setting, value: Some(values.join(", ")) });
    }
    let options = options(parser)?;
    if options == RoleOptions::default() {
        return Err(
            wrong("ALTER ROLE says nothing to change").with_hint("write WITH LOGIN, SET name = value, RENAME TO ...")
        );
    }
    if !options.member_of.is_empty() {
        return Err(not_supported("IN ROLE in ALTER ROLE").with_hint("GRANT the one role TO the other"));
    }
    Ok(RoleStatement::Alter { name, options })
}

fn setting(parser: &mut Parser<'_>) -> Result<String> {
    Ok(parser.parse_identifier().map_err(syntax)?.value.to_ascii_lowercase())
}

/// A schema of a search path: a word, or a string.
fn schema_on_path(parser: &mut Parser<'_>) -> Result<String> {
    match &parser.peek_token_ref().token {
        Token::Word(word) if word.quote_style.is_none() => {
            let schema = word.value.to_ascii_lowercase();
            parser.advance_token();
            Ok(schema)
        }
        _ => value(parser),
    }
}

/// A string, a number or a word.
fn value(parser: &mut Parser<'_>) -> Result<String> {
    let minus = if parser.consume_token(&Token::Minus) { "-" } else { "" };
    match parser.next_token().token {
        Token::Number(text, _) => Ok(format!("{minus}{text}")),
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) if minus.is_empty() => Ok(text),
        Token::Word(word) if minus.is_empty() => Ok(word.value),
        other => Err(wrong(format!("a setting needs a string, a number or a word, not {other}"))),
    }
}

fn options(parser: &mut Parser<'_>) -> Result<RoleOptions> {
    let mut options = RoleOptions::default();
    let _ = word(parser, "WITH");
    loop {
        if matches!(parser.peek_token_ref().token, Token::EOF | Token::SemiColon) {
            return Ok(options);
        }
        let known = one_of(
            parser,
            &[
                "LOGIN",
                "NOLOGIN",
                "SUPERUSER",
                "NOSUPERUSER",
                "ENCRYPTED",
                "PASSWORD",
                "IN",
                "INHERIT",
                "NOCREATEDB",
                "NOCREATEROLE",
                "NOREPLICATION",
                "NOBYPASSRLS",
                "UNENCRYPTED",
                "CREATEDB",
                "CREATEROLE",
                "NOINHERIT",
                "REPLICATION",
                "BYPASSRLS",
                "CONNECTION",
                "VALID",
                "ADMIN",
                "ROLE",
                "USER",
                "SYSID",
            ],
        );
        match known {
            Some("LOGIN") => options.login = once(options.login, true, "LOGIN")?,
            Some("NOLOGIN") => options.login = once(options.login, false, "LOGIN")?,
            Some("SUPERUSER") => options.superuser = once(options.superuser, true, "SUPERUSER")?,
            Some("NOSUPERUSER") => options.superuser = once(options.superuser, false, "SUPERUSER")?,
            Some("ENCRYPTED") => {}
            Some("PASSWORD") => options.password = once(options.password, password(parser)?, "PASSWORD")?,
            Some("IN") => {
                if one_of(parser, &["ROLE", "GROUP"]).is_none() {
                    return Err(wrong("after IN comes ROLE and the roles that it is in"));
                }
                options.member_of.extend(list(parser, role)?);
            }
            // What every role is anyway.
            Some("INHERIT" | "NOCREATEDB" | "NOCREATEROLE" | "NOREPLICATION" | "NOBYPASSRLS") => {}
            Some(other) => return Err(not_supported(format!("{other} of a role"))),
            // It may be a part of a password that lost its quotes.
            None if options.password.is_some() => {
                return Err(wrong("what follows PASSWORD and its string is no option of a role"));
            }
            None => {
                return Err(wrong(format!("{} is no option of a role", parser.peek_token_ref()))
                    .with_hint("options are LOGIN, NOLOGIN, PASSWORD '...', SUPERUSER, NOSUPERUSER, IN ROLE ..."));
            }
        }
    }
}

fn once<T>(known: Option<T>, value: T, what: &str) -> Result<Option<T>> {
    match known {
        None => Ok(Some(value)),
        Some(_) => Err(wrong(format!("{what} of a role is stated twice"))),
    }
}

fn password(parser: &mut Parser<'_>) -> Result<Option<Secret>> {
    let no_string = || wrong("PASSWORD takes a string, or NULL").with_hint("write PASSWORD '...'");
    match parser.next_token().token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => Ok(Some(Secret::new(text))),
        Token::DollarQuotedString(text) => Ok(Some(Secret::new(text.value))),
        Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("null") => Ok(None),
        _ => Err(no_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::script::parse;
    use crate::statements::roles::{Grant, GrantOn};
    use alluvia_catalog::RelationName;

    pub(crate) fn parsed(sql: &str) -> RoleStatement {
        let mut statements = parse(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        match statements.remove(0).kind {
            Kind::Role(statement) => *statement,
            other => panic!("{sql}: {other:?}"),
        }
    }

    fn named(name: &str) -> RoleName {
        RoleName::Named(name.to_owned())
    }

    #[test]
    fn roles_are_made_and_changed_as_in_postgresql() {
        let RoleStatement::Create { name, options } =
            parsed("CREATE USER \"Ann\" WITH PASSWORD 'it''s' NOSUPERUSER IN ROLE a, b")
        else {
            panic!("a role");
        };
        assert_eq!((name.as_str(), options.login, options.superuser), ("Ann", Some(true), Some(false)));
        assert_eq!(options.password.flatten().unwrap().reveal(), "it's");
        assert_eq!(options.member_of, [named("a"), named("b")]);
        let RoleStatement::Create { options, .. } = parsed("create role r") else { panic!("a role") };
        assert_eq!(options, RoleOptions::default());
        let set = |setting: &str, value: Option<&str>| RoleStatement::Set {
            name: named("g"),
            setting: setting.to_owned(),
            value: value.map(str::to_owned),
        };
        assert_eq!(parsed("ALTER ROLE g SET max_error = 0.01"), set("max_error", Some("0.01")));
        assert_eq!(parsed("ALTER USER g SET freshness TO '5s'"), set("freshness", Some("5s")));
        assert_eq!(
            parsed("ALTER ROLE g SET search_path = \"$user\", public"),
            set("search_path", Some("\"$user\", public"))
        );
        assert_eq!(parsed("ALTER ROLE g RESET max_error"), set("max_error", None));
        assert_eq!(parsed("ALTER ROLE current_user RESET ALL"), RoleStatement::ResetAll { name: RoleName::Current });
        assert_eq!(
            parsed("DROP ROLE IF EXISTS a, b"),
            RoleStatement::Drop { names: vec!["a".into(), "b".into()], if_exists: true }
        );
    }

    #[test]
    fn grants_are_of_privileges_or_of_roles() {
        let grant = |letters: &str, on: GrantOn| Grant { privileges: letters.to_owned().try_into().unwrap(), on };
        let tables = || GrantOn::Tables(vec!["a".into(), RelationName::in_schema("public", "b")]);
        let bare = || GrantOn::Tables(vec!["a".into(), "b".into()]);
        let to = vec![named("x"), RoleName::Everybody];
        assert_eq!(
            parsed("GRANT SELECT, INSERT ON a, public.b TO x, PUBLIC"),
            RoleStatement::Grant { grant: grant("ar", tables()), to: to.clone() }
        );
        assert_eq!(
            parsed("REVOKE ALL PRIVILEGES ON TABLE a, b FROM x, PUBLIC CASCADE"),
            RoleStatement::Revoke { grant: grant("arwdD", bare()), from: to.clone() }
        );
        assert_eq!(
            parsed("GRANT ALL ON ALL TABLES IN SCHEMA public TO x, PUBLIC"),
            RoleStatement::Grant {
                grant: grant("arwdD", GrantOn::AllTables(vec!["public".to_owned()])),
                to: to.clone()
            }
        );
        assert_eq!(
            parsed("GRANT CREATE, CONNECT ON DATABASE alluvia TO x, PUBLIC"),
            RoleStatement::Grant { grant: grant("Cc", GrantOn::Database), to }
        );
        assert_eq!(
            parsed("GRANT a, b TO c"),
            RoleStatement::Join { roles: vec![named("a"), named("b")], members: vec![named("c")] }
        );
        assert_eq!(
            parsed("REVOKE a FROM SESSION_USER"),
            RoleStatement::Leave { roles: vec![named("a")], members: vec![RoleName::Session] }
        );
    }

    #[test]
    fn what_is_not_built_is_refused_by_name_and_what_is_wrong_is_a_syntax_error() {
        for (sql, named) in [
            ("GRANT SELECT ON t TO x WITH GRANT OPTION", "OPTION"),
            ("REVOKE GRANT OPTION FOR SELECT ON t FROM x", "GRANT OPTION FOR"),
            ("GRANT SELECT (a) ON t TO x", "columns"),
            ("GRANT TRIGGER ON t TO x", "TRIGGER"),
            ("GRANT USAGE ON SEQUENCE s TO x", "SEQUENCE"),
            ("CREATE ROLE x CREATEDB", "CREATEDB"),
            ("CREATE ROLE x VALID UNTIL '2030-01-01'", "VALID"),
            ("ALTER ROLE x IN DATABASE alluvia SET a = 1", "IN DATABASE"),
        ] {
            match parse(sql).unwrap().remove(0).kind {
                Kind::Refused(error) => assert!(error.message().contains(named), "{sql}: {error}"),
                other => panic!("{sql}: {other:?}"),
            }
        }
        for sql in [
            "GRANT CONNECT ON t TO x",
            "GRANT SELECT ON DATABASE alluvia TO x",
            "GRANT SELECT ON t FROM x",
            "GRANT SELECT ON t TO",
            "CREATE ROLE public",
            "CREATE ROLE x LOGIN NOLOGIN",
            "ALTER ROLE x",
            "CREATE ROLE x SPEED 9",
        ] {
            assert_eq!(parse(sql).unwrap_err().kind(), ErrorKind::Syntax, "{sql}");
        }
    }

    #[test]
    fn a_password_is_in_no_text_and_in_no_message() {
        for (sql, kept) in [
            ("CREATE ROLE r PASSWORD 'hunter2' LOGIN", "CREATE ROLE r PASSWORD '...' LOGIN"),
            (" alter user r with encrypted password E'hunter2' ;", "alter user r with encrypted password '...'"),
            ("CREATE USER r PASSWORD /* new */ $$hunter2$$", "CREATE USER r PASSWORD /* new */ '...'"),
            ("CREATE USER r PASSWORD NULL", "CREATE USER r PASSWORD NULL"),
            ("SELECT password, 'x' FROM t", "SELECT password, 'x' FROM t"),
        ] {
            let statement = parse(sql).unwrap().remove(0);
            assert_eq!(statement.sql(), kept);
            assert!(!format!("{statement:?}").contains("hunter2"), "{statement:?}");
        }
        for sql in [
            "CREATE ROLE r PASSWORD hunter2",
            "CREATE ROLE r PASSWORD 'x' hunter2",
            "CREATE ROLE r PASSWORD 'x' 'hunter2'",
            "ALTER ROLE r PASSWORD = 'hunter2'",
            "ALTER ROLE r PASSWORD 'hunter2",
        ] {
            let error =
                parse(sql).map(|statements| format!("{statements:?}")).unwrap_or_else(|error| error.to_string());
            assert!(!error.contains("hunter2"), "{sql}: {error}");
        }
    }
}
