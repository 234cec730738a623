//! CREATE, ALTER and DROP VIEW.
//!
//! Invariants:
//! - Of a view's query there is the text, as it is written; planning reads that text as if it were a statement ([`query_of`]).
//! - Every clause is either taken over or refused by name.

use crate::grammar::Grammar;
use crate::names::{name_of, new_table, user_table};
use crate::result_names::ResultNames;
use crate::script::Offsets;
use crate::statement::Kind;
use crate::statements::parse::syntax;
use crate::statements::roles::{RoleName, owner_of};
use crate::statements::written_types::data_type_of;
use crate::tokens::hints::Hints;
use crate::tokens::{Prepared, depth, prepare_tokens};
use crate::trees::relations::{Named, named};
use crate::trees::{prepare, rewrite};
use crate::{parameters, script};
use alluvia_catalog::{NamePlace, RelationName};
use alluvia_space::DataType;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{Ident, Query};
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::collections::BTreeMap;

/// A parsed CREATE VIEW.
#[derive(Clone, Debug)]
pub struct CreateView {
    /// The new view.
    pub name: RelationName,
    /// OR REPLACE: whether it takes the place of a view of this name.
    pub or_replace: bool,
    /// TEMPORARY: whether it is the session's own.
    pub is_temporary: bool,
    /// The names of the query's first columns.
    pub columns: Vec<String>,
    /// The query, as it is written.
    pub sql: String,
    /// The same as planning takes it.
    pub query: Box<Query>,
    /// What its columns are called that have no name in `columns`, where it is not what planning calls them.
    pub names: Option<ResultNames>,
    /// The relations that it names, with the places in `sql` where it does.
    pub reads: Vec<(RelationName, Vec<NamePlace>)>,
}

/// A parsed ALTER VIEW: one change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlterView {
    /// The view to change.
    pub name: RelationName,
    /// IF EXISTS: whether a view that does not exist is no error.
    pub if_exists: bool,
    /// The one change to make.
    pub change: ViewChange,
}

/// What ALTER VIEW changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ViewChange {
    /// RENAME TO.
    Rename(String),
    /// `RENAME [COLUMN] a TO b`.
    RenameColumn {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// SET SCHEMA.
    SetSchema(String),
    /// OWNER TO.
    Owner(RoleName),
}

/// Whether the first words of a statement, upper case, say that it is a CREATE VIEW.
pub(crate) fn is_create_view(words: &[String]) -> bool {
    let mut words = words.iter().map(String::as_str);
    words.next() == Some("CREATE")
        && words.find(|word| !["OR", "REPLACE", "TEMP", "TEMPORARY", "LOCAL", "GLOBAL"].contains(word)) == Some("VIEW")
}

/// A CREATE VIEW. `sql` is the whole text that the tokens are of.
pub(crate) fn create_view(tokens: &[TokenWithSpan], sql: &str, hints: &Hints) -> Result<Kind> {
    if *hints != Hints::default() {
        return Ok(Kind::Refused(
            not_supported("a hint in a view").with_hint("write it in the query that reads the view"),
        ));
    }
    match parse_create(tokens, sql) {
        Ok(create) => Ok(Kind::CreateView(Box::new(create))),
        Err(error) if error.kind() == ErrorKind::Syntax => Err(error),
        Err(error) => Ok(Kind::Refused(error)),
    }
}

fn parse_create(tokens: &[TokenWithSpan], sql: &str) -> Result<CreateView> {
    let tokens: Vec<TokenWithSpan> =
        tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).cloned().collect();
    let head_end = query_start(&tokens).ok_or_else(|| {
        Error::new(ErrorKind::Syntax, "CREATE VIEW needs a query").with_hint("write CREATE VIEW v AS SELECT ...")
    })?;
    let grammar = Grammar::for_tokens(tokens.len());
    let mut head = Parser::new(&grammar).with_tokens_with_locations(tokens[..head_end - 1].to_vec());
    let (name, or_replace, is_temporary, columns) = parse_head(&mut head)?;
    let query_tokens = &tokens[head_end..];
    refuse_check_option(query_tokens)?;
    let (Some(first), Some(last)) = (query_tokens.first(), query_tokens.last()) else {
        return Err(Error::new(ErrorKind::Syntax, "CREATE VIEW needs a query"));
    };
    let mut offsets = Offsets::new(sql);
    let (start, end) = (offsets.at(first.span.start), offsets.at(last.span.end));
    if parameters::count(query_tokens)? > 0 {
        return Err(Error::new(ErrorKind::UndefinedParameter, "there is no parameter $1")
            .with_hint("a view has no parameters: write values in its query, or leave the condition to who reads it"));
    }
    let raw = parse_query(query_tokens, &grammar)?;
    let reads = reads_of(named(&raw)?, sql, start)?;
    let names = ResultNames::of(&raw);
    let query = prepared(raw, query_tokens)?;
    Ok(CreateView { name, or_replace, is_temporary, columns, sql: sql[start..end].to_owned(), query, names, reads })
}

/// Where the query of a CREATE VIEW begins: behind the first AS that stands in no brackets.
fn query_start(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate() {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Word(word) if word.quote_style.is_none() && word.keyword == Keyword::AS && depth == 0 => {
                return Some(at + 1).filter(|start| *start < tokens.len());
            }
            _ => {}
        }
    }
    None
}

type Head = (RelationName, bool, bool, Vec<String>);

fn parse_head(parser: &mut Parser<'_>) -> Result<Head> {
    parser.expect_keyword(Keyword::CREATE).map_err(syntax)?;
    let or_replace = parser.parse_keywords(&[Keyword::OR, Keyword::REPLACE]);
    // PostgreSQL knows no other temporary relations either.
    let _ = parser.parse_one_of_keywords(&[Keyword::LOCAL, Keyword::GLOBAL]);
    let is_temporary = parser.parse_one_of_keywords(&[Keyword::TEMP, Keyword::TEMPORARY]).is_some();
    parser.expect_keyword(Keyword::VIEW).map_err(syntax)?;
    if parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]) {
        return Err(
            Error::new(ErrorKind::Syntax, "CREATE VIEW has no IF NOT EXISTS").with_hint("write CREATE OR REPLACE VIEW")
        );
    }
    let name = new_table(&parser.parse_object_name(false).map_err(syntax)?)?;
    let mut columns = Vec::new();
    if parser.consume_token(&Token::LParen) {
        columns = parser.parse_comma_separated(Parser::parse_identifier).map_err(syntax)?.iter().map(name_of).collect();
        parser.expect_token(&Token::RParen).map_err(syntax)?;
    }
    if parser.parse_keyword(Keyword::WITH) {
        return Err(not_supported("WITH (...) of a view")
            .with_hint("leave it out: what a view reads is read by the rights of its owner"));
    }
    match parser.peek_token().token {
        Token::EOF => Ok((name, or_replace, is_temporary, columns)),
        _ => Err(syntax(parser.expected_ref::<()>("AS", parser.peek_token_ref()).expect_err("always an error"))),
    }
}

fn refuse_check_option(tokens: &[TokenWithSpan]) -> Result<()> {
    let keyword = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_ascii_uppercase()),
        _ => None,
    };
    let last: Vec<String> = tokens.iter().rev().map_while(keyword).take(4).collect();
    let last: Vec<&str> = last.iter().map(String::as_str).collect();
    match last.as_slice() {
        ["OPTION", "CHECK", "WITH", ..] | ["OPTION", "CHECK", "LOCAL" | "CASCADED", "WITH"] => {
            Err(not_supported("WITH CHECK OPTION").with_hint("nothing is written through views: leave it out"))
        }
        _ => Ok(()),
    }
}

fn parse_query(tokens: &[TokenWithSpan], grammar: &Grammar) -> Result<Box<Query>> {
    let Prepared { tokens, .. } = prepare_tokens(tokens);
    let mut parser = Parser::new(grammar).with_tokens_with_locations(tokens).with_recursion_limit(depth::DEPTH_MAX);
    let query = parser.parse_query().map_err(syntax)?;
    if grammar.is_used_up() {
        return Err(Error::new(ErrorKind::Syntax, "the statement can be read in too many ways")
            .with_hint("close every bracket, and put names that are keywords in double quotes"));
    }
    match parser.peek_token().token {
        Token::EOF => Ok(query),
        _ => Err(syntax(
            parser.expected_ref::<()>("end of statement or ;", parser.peek_token_ref()).expect_err("always an error"),
        )),
    }
}

fn prepared(query: Box<Query>, tokens: &[TokenWithSpan]) -> Result<Box<Query>> {
    let mut kind = Kind::Query(prepare(query)?);
    rewrite(tokens, &mut kind);
    match kind {
        Kind::Query(query) => Ok(query),
        Kind::Refused(error) => Err(error),
        _ => Err(Error::internal("a query became another statement")),
    }
}

/// Names by what they name, with their places in the text that begins at `start` of `sql`. What qualifies the columns of no relation that is
/// written so is nobody's.
fn reads_of(mut names: Vec<Named>, sql: &str, start: usize) -> Result<Vec<(RelationName, Vec<NamePlace>)>> {
    names.sort_by_key(|named| (named.span.start, named.span.end));
    let mut offsets = Offsets::new(sql);
    let mut places = Vec::with_capacity(names.len());
    for named in names {
        let (from, to) = (offsets.at(named.span.start), offsets.at(named.span.end));
        let place = |at: usize| {
            let at = at.checked_sub(start).and_then(|at| u32::try_from(at).ok());
            at.ok_or_else(|| Error::internal(format!("{} has no place in its view", named.name)))
        };
        let place = NamePlace { start: place(from)?, end: place(to)?, kind: named.kind, is_sampled: named.is_sampled };
        places.push((named.name, place));
    }
    places.dedup();
    let mut reads: BTreeMap<RelationName, Vec<NamePlace>> = BTreeMap::new();
    for (name, place) in places {
        reads.entry(name).or_default().push(place);
    }
    let is_read = |places: &[NamePlace]| places.iter().any(|place| place.kind != alluvia_catalog::NameKind::Qualifier);
    Ok(reads.into_iter().filter(|(_, places)| is_read(places)).collect())
}

/// The query of a view, as planning takes it, from its text.
pub fn query_of(sql: &str) -> Result<Box<Query>> {
    match script::parse(sql)?.pop().map(|statement| statement.kind) {
        Some(Kind::Query(query)) => Ok(query),
        Some(Kind::Refused(error)) => Err(error),
        _ => Err(Error::internal("the query of a view is no query")),
    }
}

/// The type that a view's column was said to have; text for one that no table can have.
pub fn type_of_column(sql_type: &str) -> DataType {
    let parsed =
        Parser::new(&Grammar::for_tokens(0)).try_with_sql(sql_type).and_then(|mut parser| parser.parse_data_type());
    parsed.ok().and_then(|written| data_type_of(&written).ok()).unwrap_or(DataType::Text)
}

/// Whether tokens begin an ALTER VIEW.
pub(crate) fn is_alter_view(parser: &Parser<'_>) -> bool {
    matches!(parser.peek_nth_token(1).token, Token::Word(word) if word.quote_style.is_none() && word.keyword == Keyword::VIEW)
}

/// An ALTER VIEW.
pub(crate) fn parse_alter_view(parser: &mut Parser<'_>) -> Result<AlterView> {
    parser.expect_keyword(Keyword::ALTER).map_err(syntax)?;
    parser.expect_keyword(Keyword::VIEW).map_err(syntax)?;
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let name = user_table(&parser.parse_object_name(false).map_err(syntax)?)?;
    let ident = |parser: &mut Parser<'_>| -> Result<Ident> { parser.parse_identifier().map_err(syntax) };
    let change = if parser.parse_keywords(&[Keyword::RENAME, Keyword::TO]) {
        ViewChange::Rename(name_of(&ident(parser)?))
    } else if parser.parse_keyword(Keyword::RENAME) {
        let _ = parser.parse_keyword(Keyword::COLUMN);
        let from = name_of(&ident(parser)?);
        parser.expect_keyword(Keyword::TO).map_err(syntax)?;
        ViewChange::RenameColumn { from, to: name_of(&ident(parser)?) }
    } else if parser.parse_keywords(&[Keyword::OWNER, Keyword::TO]) {
        ViewChange::Owner(owner_of(&parser.parse_owner().map_err(syntax)?))
    } else if parser.parse_keywords(&[Keyword::SET, Keyword::SCHEMA]) {
        ViewChange::SetSchema(name_of(&ident(parser)?))
    } else {
        let refused = not_supported(format!("ALTER VIEW ... {}", parser.peek_token()));
        while parser.next_token().token != Token::EOF {}
        return Err(
            refused.with_hint("views can be renamed, given to another role, and replaced with CREATE OR REPLACE VIEW")
        );
    };
    Ok(AlterView { name, if_exists, change })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::parse;
    use crate::script::tests::one;

    fn created(sql: &str) -> CreateView {
        match one(sql).kind {
            Kind::CreateView(create) => *create,
            other => panic!("{sql}: {other:?}"),
        }
    }

    #[test]
    fn a_view_keeps_its_query_as_it_is_written_and_where_names_are() {
        for (sql, name, columns, text) in [
            ("CREATE VIEW v AS SELECT a FROM t", "v", vec![], "SELECT a FROM t"),
            (
                "create or replace view S.\"V\" (A, \"b C\") as (select 1, 2 from t) ; ",
                "s.\"V\"",
                vec!["a", "b C"],
                "(select 1, 2 from t)",
            ),
            (
                "CREATE VIEW v AS WITH x AS (SELECT 'é' AS a) SELECT a FROM x, t -- end",
                "v",
                vec![],
                "WITH x AS (SELECT 'é' AS a) SELECT a FROM x, t",
            ),
            ("CREATE VIEW v AS VALUES (1)", "v", vec![], "VALUES (1)"),
        ] {
            let create = created(sql);
            assert_eq!(
                (create.name.to_string().as_str(), create.columns),
                (name, columns.iter().map(|name| (*name).to_owned()).collect())
            );
            assert_eq!(create.sql, text);
            for (read, places) in &create.reads {
                assert_eq!(read.name, "t");
                assert_eq!(
                    places.iter().map(|place| &text[place.start as usize..place.end as usize]).collect::<Vec<_>>(),
                    ["t"]
                );
            }
        }
        let script =
            parse("SELECT 'é';\nCREATE VIEW v AS SELECT s.t.a, é.b\nFROM s.t, \"T x\" AS é; SELECT 1").unwrap();
        let Kind::CreateView(create) = &script[1].kind else { panic!("a view") };
        let found: Vec<(String, Vec<&str>)> = create
            .reads
            .iter()
            .map(|(name, places)| {
                let text = |place: &NamePlace| &create.sql[place.start as usize..place.end as usize];
                (name.to_string(), places.iter().map(text).collect())
            })
            .collect();
        assert_eq!(found, [("\"T x\"".to_owned(), vec!["\"T x\""]), ("s.t".to_owned(), vec!["s.t", "s.t"])]);
        assert!(!create.is_temporary && created("CREATE TEMP VIEW v AS SELECT 1").is_temporary);
        assert!(created("CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1").is_temporary);
    }

    #[test]
    fn what_a_view_cannot_have_is_refused_by_name() {
        for (sql, kind) in [
            ("CREATE VIEW v AS SELECT a FROM t WITH CHECK OPTION", ErrorKind::NotSupported),
            ("CREATE VIEW v AS SELECT a FROM t WITH CASCADED CHECK OPTION", ErrorKind::NotSupported),
            ("CREATE VIEW v WITH (security_barrier) AS SELECT 1", ErrorKind::NotSupported),
            ("CREATE VIEW v AS SELECT $1", ErrorKind::UndefinedParameter),
            ("CREATE VIEW v AS SELECT a INTO b FROM t", ErrorKind::NotSupported),
            ("CREATE VIEW v AS SELECT * FROM thin(t, max_rows => 1)", ErrorKind::NotSupported),
            ("CREATE VIEW v AS SELECT /*+ freshness('5s') */ 1", ErrorKind::NotSupported),
            ("CREATE RECURSIVE VIEW v (a) AS SELECT 1", ErrorKind::NotSupported),
            ("CREATE MATERIALIZED VIEW v AS SELECT 1", ErrorKind::NotSupported),
            ("ALTER VIEW v ALTER COLUMN a SET DEFAULT 1", ErrorKind::NotSupported),
        ] {
            let Kind::Refused(error) = one(sql).kind else { panic!("{sql}") };
            assert_eq!(error.kind(), kind, "{sql}: {error}");
        }
        for sql in [
            "CREATE VIEW v",
            "CREATE VIEW v AS",
            "CREATE VIEW v AS SELECT 1 2 3",
            "CREATE VIEW IF NOT EXISTS v AS SELECT 1",
            "CREATE VIEW v (a b) AS SELECT 1",
            "CREATE VIEW v AS DROP TABLE t",
        ] {
            assert_eq!(parse(sql).unwrap_err().kind(), ErrorKind::Syntax, "{sql}");
        }
    }

    #[test]
    fn views_are_altered_and_dropped() {
        let altered = |sql: &str| match one(sql).kind {
            Kind::AlterView(alter) => alter,
            other => panic!("{sql}: {other:?}"),
        };
        let alter = altered("ALTER VIEW IF EXISTS s.v RENAME COLUMN a TO \"B\"");
        let change = ViewChange::RenameColumn { from: "a".to_owned(), to: "B".to_owned() };
        assert_eq!(alter, AlterView { name: RelationName::in_schema("s", "v"), if_exists: true, change });
        assert_eq!(altered("ALTER VIEW v RENAME TO w").change, ViewChange::Rename("w".to_owned()));
        assert_eq!(
            altered("ALTER VIEW v RENAME a TO b").change,
            ViewChange::RenameColumn { from: "a".to_owned(), to: "b".to_owned() }
        );
        assert_eq!(altered("ALTER VIEW v SET SCHEMA s").change, ViewChange::SetSchema("s".to_owned()));
        assert!(matches!(altered("ALTER VIEW v OWNER TO r").change, ViewChange::Owner(_)));
        for (sql, if_exists, cascade) in [
            ("DROP VIEW a, s.b", false, false),
            ("DROP VIEW IF EXISTS a, s.b RESTRICT", true, false),
            ("DROP VIEW a, s.b CASCADE", false, true),
        ] {
            let Kind::DropView { names, if_exists: exists, cascade: cascades } = one(sql).kind else { panic!("{sql}") };
            assert_eq!((names.len(), exists, cascades), (2, if_exists, cascade));
        }
        assert_eq!(type_of_column("DECIMAL(10, 2)"), DataType::Decimal { precision: 10, scale: 2 });
        assert_eq!(type_of_column("a struct"), DataType::Text);
    }
}
