//! VACUUM, ANALYZE, CLUSTER, REINDEX, CREATE INDEX: what tools send to keep tables in order, and what changes nothing here.
//!
//! Invariant: what they name is there, or they are refused; what they would promise is kept or not promised: an index on columns is a
//! definition, and one that is to be unique in another way is refused.

use crate::names::{name_of, parts_of, user_table};
use crate::statement::{Idle, IdleTable, Kind};
use crate::statements::parse::syntax;
use alluvia_catalog::RelationName;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::Expr;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

/// What is known of options in brackets.
const VACUUM_OPTIONS: [&str; 14] = [
    "FULL",
    "FREEZE",
    "VERBOSE",
    "ANALYZE",
    "DISABLE_PAGE_SKIPPING",
    "SKIP_LOCKED",
    "INDEX_CLEANUP",
    "PROCESS_MAIN",
    "PROCESS_TOAST",
    "TRUNCATE",
    "PARALLEL",
    "SKIP_DATABASE_STATS",
    "ONLY_DATABASE_STATS",
    "BUFFER_USAGE_LIMIT",
];
const ANALYZE_OPTIONS: [&str; 3] = ["VERBOSE", "SKIP_LOCKED", "BUFFER_USAGE_LIMIT"];
const CLUSTER_OPTIONS: [&str; 1] = ["VERBOSE"];
const REINDEX_OPTIONS: [&str; 3] = ["CONCURRENTLY", "TABLESPACE", "VERBOSE"];

/// Whether a statement of these first words is one of them.
pub(crate) fn is_maintenance(words: &[String]) -> bool {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    matches!(
        words.as_slice(),
        ["VACUUM" | "ANALYZE" | "ANALYSE" | "CLUSTER" | "REINDEX", ..]
            | ["CREATE", "INDEX", ..]
            | ["CREATE", "UNIQUE", "INDEX", ..]
            | ["DROP", "INDEX", ..]
    )
}

/// The statement that the parser stands before.
pub(crate) fn parse_maintenance(parser: &mut Parser<'_>) -> Result<Kind> {
    let first = parser.next_token().token.to_string().to_ascii_uppercase();
    let of = |command, tables, notice: &str, is_alone| {
        Kind::Idle(Box::new(Idle { command, tables, notice: notice.to_owned(), is_alone }))
    };
    Ok(match first.as_str() {
        "VACUUM" => {
            if !options(parser, "VACUUM", &VACUUM_OPTIONS)? {
                while ["FULL", "FREEZE", "VERBOSE", "ANALYZE", "ANALYSE"].into_iter().any(|option| word(parser, option))
                {
                }
            }
            let notice = "VACUUM changes nothing here: merging runs by itself, and CALL alluvia.merge() hurries it";
            of("VACUUM", tables(parser)?, notice, true)
        }
        "ANALYZE" | "ANALYSE" => {
            if !options(parser, "ANALYZE", &ANALYZE_OPTIONS)? {
                let _ = word(parser, "VERBOSE");
            }
            of("ANALYZE", tables(parser)?, "ANALYZE changes nothing here: statistics are kept by themselves", false)
        }
        "CLUSTER" => {
            if !options(parser, "CLUSTER", &CLUSTER_OPTIONS)? {
                let _ = word(parser, "VERBOSE");
            }
            let tables = match at_end(parser) {
                true => Vec::new(),
                false => vec![table(parser)?],
            };
            if word(parser, "USING") {
                parser.parse_identifier().map_err(syntax)?;
            }
            of("CLUSTER", tables, "CLUSTER changes nothing here: rows are kept in curve order by themselves", false)
        }
        "REINDEX" => {
            let _ = options(parser, "REINDEX", &REINDEX_OPTIONS)?;
            let kinds = ["INDEX", "TABLE", "SCHEMA", "DATABASE", "SYSTEM"];
            let Some(kind) = kinds.into_iter().find(|kind| word(parser, kind)) else {
                return Err(wrong(parser, "INDEX, TABLE, SCHEMA, DATABASE or SYSTEM"));
            };
            let _ = word(parser, "CONCURRENTLY");
            let tables = match kind {
                "TABLE" => vec![table(parser)?],
                _ if at_end(parser) => Vec::new(),
                _ => {
                    parser.parse_object_name(false).map_err(syntax)?;
                    Vec::new()
                }
            };
            of("REINDEX", tables, "REINDEX changes nothing here: indexes are kept by themselves", false)
        }
        "CREATE" => {
            let unique = word(parser, "UNIQUE");
            let _ = word(parser, "INDEX");
            create_index(parser, unique)?
        }
        _ => {
            let _ = word(parser, "INDEX");
            let is_alone = word(parser, "CONCURRENTLY");
            let if_exists = word(parser, "IF");
            if if_exists && !word(parser, "EXISTS") {
                return Err(wrong(parser, "EXISTS"));
            }
            let names = parser.parse_comma_separated(|parser| parser.parse_object_name(false)).map_err(syntax)?;
            let cascade = word(parser, "CASCADE");
            let _ = word(parser, "RESTRICT");
            let names = names.iter().map(user_table).collect::<Result<_>>()?;
            Kind::DropIndex(DropIndex { names, if_exists, cascade, is_alone })
        }
    })
}

/// A CREATE INDEX on columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateIndex {
    /// What it is to be called; `None` where none is written.
    pub name: Option<String>,
    /// The table.
    pub table: RelationName,
    /// Its columns, in the order of the index.
    pub columns: Vec<String>,
    /// UNIQUE.
    pub unique: bool,
    /// Whether an index of this name is left as it is, and no error.
    pub if_not_exists: bool,
    /// What is done of a table that keeps none.
    pub idle: Idle,
}

/// A DROP INDEX.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DropIndex {
    /// The indexes.
    pub names: Vec<RelationName>,
    /// Whether one that does not exist is no error.
    pub if_exists: bool,
    /// Whether what refers by them goes, too.
    pub cascade: bool,
    /// CONCURRENTLY: no transaction may hold it.
    pub is_alone: bool,
}

/// `[CONCURRENTLY] [[IF NOT EXISTS] name] ON [ONLY] table [USING method] (part, ...) ...`
fn create_index(parser: &mut Parser<'_>, unique: bool) -> Result<Kind> {
    let is_alone = word(parser, "CONCURRENTLY");
    let if_not_exists = word(parser, "IF");
    if if_not_exists && !(word(parser, "NOT") && word(parser, "EXISTS")) {
        return Err(wrong(parser, "NOT EXISTS"));
    }
    let name = match word(parser, "ON") {
        true => None,
        false => {
            let name = parser.parse_object_name(false).map_err(syntax)?;
            if !word(parser, "ON") {
                return Err(wrong(parser, "ON"));
            }
            Some(parts_of(&name)?.pop().unwrap_or_default())
        }
    };
    let _ = word(parser, "ONLY");
    let table = user_table(&parser.parse_object_name(false).map_err(syntax)?)?;
    // What it has that no index here has.
    let mut other: Option<String> = None;
    if word(parser, "USING") {
        let method = name_of(&parser.parse_identifier().map_err(syntax)?);
        other = (method != "btree").then(|| format!("USING {method}"));
    }
    parser.expect_token(&Token::LParen).map_err(syntax)?;
    let mut columns = Vec::new();
    loop {
        match parser.parse_expr().map_err(syntax)? {
            Expr::Identifier(ident) => columns.push(name_of(&ident)),
            expr => other = other.or_else(|| Some(format!("the expression {expr}"))),
        }
        let said = said_of_part(parser);
        other = other.or(said);
        match parser.next_token().token {
            Token::Comma => {}
            Token::RParen => break,
            token => return Err(Error::new(ErrorKind::Syntax, format!("Expected: , or ), found: {token}"))),
        }
    }
    let mut named = columns.clone();
    loop {
        if word(parser, "INCLUDE") {
            let included = parser.parse_parenthesized_column_list(sqlparser::parser::IsOptional::Mandatory, false);
            named.extend(included.map_err(syntax)?.iter().map(name_of));
        } else if word(parser, "WITH") {
            parser.expect_token(&Token::LParen).map_err(syntax)?;
            skip_to(parser, false);
            parser.expect_token(&Token::RParen).map_err(syntax)?;
        } else if word(parser, "TABLESPACE") {
            parser.parse_identifier().map_err(syntax)?;
        } else if word(parser, "NULLS") {
            if word(parser, "NOT") {
                other = other.or_else(|| Some("NULLS NOT DISTINCT".to_owned()));
            }
            if !word(parser, "DISTINCT") {
                return Err(wrong(parser, "DISTINCT"));
            }
        } else if word(parser, "WHERE") {
            parser.parse_expr().map_err(syntax)?;
            other = other.or_else(|| Some("WHERE".to_owned()));
        } else {
            break;
        }
    }
    let called = name.as_ref().map_or_else(|| "the index".to_owned(), |name| format!("index '{name}'"));
    let notice =
        format!("{called} is not made, since it would change nothing here: what lets a query skip rows are dimensions");
    let tables = vec![IdleTable { table: table.clone(), columns: named }];
    let idle = Idle { command: "CREATE INDEX", tables, notice, is_alone };
    match other {
        None => Ok(Kind::CreateIndex(Box::new(CreateIndex { name, table, columns, unique, if_not_exists, idle }))),
        Some(_) if !unique => Ok(Kind::Idle(Box::new(idle))),
        Some(other) => Ok(Kind::Refused(
            not_supported(format!("{other} in CREATE UNIQUE INDEX"))
                .with_hint("a unique index is on columns: CREATE UNIQUE INDEX name ON t (a, b)"),
        )),
    }
}

/// What stands behind a column of an index; `None` where it means nothing here. In which order rows stand in an index, no answer tells.
fn said_of_part(parser: &mut Parser<'_>) -> Option<String> {
    let mut said = None;
    while !matches!(parser.peek_token_ref().token, Token::Comma | Token::RParen | Token::EOF) {
        if word(parser, "NULLS") {
            let _ = word(parser, "FIRST") || word(parser, "LAST");
        } else if !(word(parser, "ASC") || word(parser, "DESC")) {
            said = said.or_else(|| Some(parser.peek_token_ref().token.to_string()));
            skip_to(parser, true);
        }
    }
    said
}

/// `t`, `t (a, b)`, and more of them behind commas.
fn tables(parser: &mut Parser<'_>) -> Result<Vec<IdleTable>> {
    if at_end(parser) {
        return Ok(Vec::new());
    }
    let mut tables = vec![table(parser)?];
    while parser.consume_token(&Token::Comma) {
        tables.push(table(parser)?);
    }
    Ok(tables)
}

fn table(parser: &mut Parser<'_>) -> Result<IdleTable> {
    let _ = word(parser, "ONLY");
    let table = user_table(&parser.parse_object_name(false).map_err(syntax)?)?;
    let columns = parser.parse_parenthesized_column_list(sqlparser::parser::IsOptional::Optional, false);
    Ok(IdleTable { table, columns: columns.map_err(syntax)?.iter().map(name_of).collect() })
}

/// Takes `(option [value], ...)`; gives whether there was one.
fn options(parser: &mut Parser<'_>, command: &str, known: &[&str]) -> Result<bool> {
    if !parser.consume_token(&Token::LParen) {
        return Ok(false);
    }
    loop {
        let name = name_of(&parser.parse_identifier().map_err(syntax)?);
        if !known.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
            return Err(Error::new(ErrorKind::Syntax, format!("unrecognized {command} option \"{name}\"")));
        }
        skip_to(parser, true);
        match parser.next_token().token {
            Token::Comma => {}
            Token::RParen => return Ok(true),
            other => return Err(Error::new(ErrorKind::Syntax, format!("Expected: , or ), found: {other}"))),
        }
    }
}

/// Skips what is within a bracket up to its end, or up to a comma.
fn skip_to(parser: &mut Parser<'_>, comma: bool) {
    let mut depth = 0_usize;
    loop {
        match parser.peek_token_ref().token {
            Token::EOF => return,
            Token::RParen if depth == 0 => return,
            Token::Comma if depth == 0 && comma => return,
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        parser.next_token();
    }
}

fn at_end(parser: &Parser<'_>) -> bool {
    parser.peek_token_ref().token == Token::EOF
}

/// Takes a word if it comes next.
fn word(parser: &mut Parser<'_>, wanted: &str) -> bool {
    let is_next = matches!(&parser.peek_token_ref().token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted));
    if is_next {
        parser.next_token();
    }
    is_next
}

fn wrong(parser: &Parser<'_>, wanted: &str) -> Error {
    Error::new(ErrorKind::Syntax, format!("Expected: {wanted}, found: {}", parser.peek_token_ref().token))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::parse;
    use crate::script::tests::one;

    #[test]
    fn what_tools_send_is_read() {
        for (sql, command, table, columns) in [
            ("VACUUM", "VACUUM", None, &[][..]),
            ("VACUUM t", "VACUUM", Some("t"), &[]),
            ("VACUUM FULL VERBOSE ANALYZE public.t (a, b)", "VACUUM", Some("t"), &["a", "b"]),
            ("VACUUM (VERBOSE, PARALLEL 2) t", "VACUUM", Some("t"), &[]),
            ("ANALYZE", "ANALYZE", None, &[]),
            ("ANALYZE VERBOSE t (a)", "ANALYZE", Some("t"), &["a"]),
            ("ANALYZE (SKIP_LOCKED true) t", "ANALYZE", Some("t"), &[]),
            ("CLUSTER t USING ix", "CLUSTER", Some("t"), &[]),
            ("REINDEX TABLE CONCURRENTLY t", "REINDEX", Some("t"), &[]),
            ("REINDEX (VERBOSE) INDEX ix", "REINDEX", None, &[]),
            (
                "CREATE INDEX CONCURRENTLY IF NOT EXISTS ix ON ONLY \"t\" USING btree (a DESC NULLS LAST, lower(b) text_ops) \
                 INCLUDE (c) WITH (fillfactor = 70) WHERE a > 1 AND b IS NOT NULL",
                "CREATE INDEX",
                Some("t"),
                &["a", "c"],
            ),
        ] {
            let Kind::Idle(idle) = one(sql).kind else { panic!("{sql}") };
            assert_eq!(idle.command, command, "{sql}");
            assert_eq!(idle.tables.first().map(|of| of.table.name.as_str()), table, "{sql}");
            assert_eq!(idle.tables.first().map_or(&[][..], |of| of.columns.as_slice()), columns, "{sql}");
        }
        for sql in
            ["VACUUM (NOTHING) t", "CREATE INDEX ix t (a)", "CREATE INDEX ix ON t (a", "REINDEX t", "ANALYZE t t"]
        {
            assert!(parse(sql).is_err(), "{sql}");
        }
        for sql in [
            "CREATE UNIQUE INDEX ix ON t (lower(a))",
            "CREATE UNIQUE INDEX ix ON t (a) WHERE b",
            "CREATE UNIQUE INDEX ix ON t USING gist (a)",
            "CREATE UNIQUE INDEX ix ON t (a) NULLS NOT DISTINCT",
        ] {
            let Kind::Refused(error) = one(sql).kind else { panic!("{sql}") };
            assert_eq!(error.kind(), ErrorKind::NotSupported, "{sql}");
        }
        for (sql, unique, columns) in [
            ("CREATE INDEX ON t (a)", false, &["a"][..]),
            ("CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS ix ON t (a DESC NULLS LAST, \"B\")", true, &["a", "B"]),
        ] {
            let Kind::CreateIndex(index) = one(sql).kind else { panic!("{sql}") };
            assert_eq!(
                (index.unique, index.columns.iter().map(String::as_str).collect::<Vec<_>>().as_slice()),
                (unique, columns)
            );
        }
        let Kind::DropIndex(dropped) = one("DROP INDEX CONCURRENTLY IF EXISTS ix, s.iy CASCADE").kind else { panic!() };
        assert!(dropped.if_exists && dropped.cascade && dropped.is_alone && dropped.names.len() == 2);
    }
}
