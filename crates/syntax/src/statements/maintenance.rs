//! VACUUM, ANALYZE, CLUSTER, REINDEX, CREATE INDEX: what tools send to keep tables in order, and what changes nothing here.
//!
//! Invariant: what they name is there, or they are refused; what they would promise is not promised: an index that is to be unique is
//! refused.

use crate::names::{name_of, parts_of, user_table};
use crate::statement::{Idle, IdleTable, Kind};
use crate::statements::parse::syntax;
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
            | ["DROP", "INDEX", "CONCURRENTLY", "IF", "EXISTS", ..]
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
            of("REINDEX", tables, "REINDEX changes nothing here: there are no indexes to rebuild", false)
        }
        "CREATE" => {
            let _ = word(parser, "INDEX");
            create_index(parser)?
        }
        _ => {
            let _ =
                word(parser, "INDEX") && word(parser, "CONCURRENTLY") && word(parser, "IF") && word(parser, "EXISTS");
            let names = parser.parse_comma_separated(|parser| parser.parse_object_name(false)).map_err(syntax)?;
            let _ = word(parser, "CASCADE") || word(parser, "RESTRICT");
            Kind::DropNone { command: "DROP INDEX", names: names.iter().map(user_table).collect::<Result<_>>()? }
        }
    })
}

/// `[CONCURRENTLY] [[IF NOT EXISTS] name] ON [ONLY] table [USING method] (part, ...) ...`
fn create_index(parser: &mut Parser<'_>) -> Result<Kind> {
    let is_alone = word(parser, "CONCURRENTLY");
    if word(parser, "IF") && !(word(parser, "NOT") && word(parser, "EXISTS")) {
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
    if word(parser, "USING") {
        parser.parse_identifier().map_err(syntax)?;
    }
    parser.expect_token(&Token::LParen).map_err(syntax)?;
    let mut columns = Vec::new();
    loop {
        if let Expr::Identifier(ident) = parser.parse_expr().map_err(syntax)? {
            columns.push(name_of(&ident));
        }
        skip_to(parser, true);
        match parser.next_token().token {
            Token::Comma => {}
            Token::RParen => break,
            other => return Err(Error::new(ErrorKind::Syntax, format!("Expected: , or ), found: {other}"))),
        }
    }
    loop {
        if word(parser, "INCLUDE") {
            let included = parser.parse_parenthesized_column_list(sqlparser::parser::IsOptional::Mandatory, false);
            columns.extend(included.map_err(syntax)?.iter().map(name_of));
        } else if word(parser, "WITH") {
            parser.expect_token(&Token::LParen).map_err(syntax)?;
            skip_to(parser, false);
            parser.expect_token(&Token::RParen).map_err(syntax)?;
        } else if word(parser, "TABLESPACE") {
            parser.parse_identifier().map_err(syntax)?;
        } else if word(parser, "NULLS") {
            let _ = word(parser, "NOT");
            if !word(parser, "DISTINCT") {
                return Err(wrong(parser, "DISTINCT"));
            }
        } else if word(parser, "WHERE") {
            parser.parse_expr().map_err(syntax)?;
        } else {
            break;
        }
    }
    let named = name.map_or_else(|| "the index".to_owned(), |name| format!("index '{name}'"));
    let notice =
        format!("{named} is not made, since it would change nothing here: what lets a query skip rows are dimensions");
    let tables = vec![IdleTable { table, columns }];
    Ok(Kind::Idle(Box::new(Idle { command: "CREATE INDEX", tables, notice, is_alone })))
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

/// The refusal of an index that would promise something.
pub(crate) fn unique_index() -> Error {
    not_supported("CREATE UNIQUE INDEX")
        .with_hint("declare what is unique with its table: CREATE TABLE t (id BIGINT PRIMARY KEY, ...)")
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
            ("CREATE INDEX ON t (a)", "CREATE INDEX", Some("t"), &["a"]),
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
        for sql in ["CREATE UNIQUE INDEX ix ON t (a)", "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS ix ON t (a)"] {
            let Kind::Refused(error) = one(sql).kind else { panic!("{sql}") };
            assert!(error.hint().is_some_and(|hint| hint.contains("PRIMARY KEY")), "{error}");
        }
    }
}
