//! Calls with a regular expression that the parser or planning has no form for: `substring(x FROM 'pattern')`, `regexp_matches(x, 'pattern')`,
//! `FROM regexp_split_to_table(x, ',\s*') AS word`.
//!
//! Invariants:
//! - `substring` with a written text behind FROM, or for its second argument, takes it for a regular expression, as PostgreSQL does; with a number
//!   or a column it stays what it is.
//! - Functions that give rows are `unnest` of functions of ours that give lists (`alluvia_functions::regex`). In FROM the column is called what
//!   PostgreSQL calls it: as the alias, or else as the function. There they are written so before [`crate::trees::lateral_functions`] looks for `unnest` over
//!   columns of other tables, and for rows that are numbered.

use crate::trees::regex_literals::literal;
use crate::trees::rewriting::{RowsCall, call, call_of, rewrite, rows_call};
use crate::trees::visit::visit_mut;
use alluvia_types::Result;
use alluvia_values::calls::{ALL_MATCHES, PARTS, SUBSTRING};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{Expr, Ident, Query, TableAlias, TableAliasColumnDef, TableFactor, VisitorMut};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// Functions of rows, and what gives the same as a list.
const OF_ROWS: [(&str, &str); 2] = [("regexp_matches", ALL_MATCHES), ("regexp_split_to_table", PARTS)];

/// Whether a statement of these tokens may have one.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    let is_one = |word: &str| OF_ROWS.iter().any(|(name, _)| word.eq_ignore_ascii_case(name));
    tokens.iter().any(
        |token| matches!(&token.token, Token::Word(word) if word.keyword == Keyword::SUBSTRING || is_one(&word.value)),
    )
}

/// Brings all of a query's to calls that are planned, but for those in FROM.
pub fn write_out(query: &mut Query) -> Result<()> {
    rewrite(query, is_one, &mut expand)
}

/// Brings those in FROM to `UNNEST`.
pub fn unnest(query: &mut Query) {
    let _ = visit_mut(query, &mut InFrom);
}

fn is_one(expr: &Expr) -> bool {
    match expr {
        Expr::Substring { substring_from, substring_for, shorthand: false, .. } => {
            let is_text = |part: &Option<Box<Expr>>| part.as_ref().is_some_and(|part| literal(part).is_some());
            is_text(substring_for) || substring_for.is_none() && is_text(substring_from)
        }
        Expr::Function(function) => call_of(function).is_some_and(|(name, _)| list_of(&name).is_some()),
        _ => false,
    }
}

fn list_of(name: &str) -> Option<&'static str> {
    OF_ROWS.iter().find(|(of_rows, _)| *of_rows == name).map(|(_, list)| *list)
}

fn expand(expr: &mut Expr) -> Result<()> {
    if !is_one(expr) {
        return Ok(());
    }
    let replaced = match expr {
        Expr::Substring { expr: of, substring_from: Some(pattern), substring_for: None, .. } => {
            call(SUBSTRING, vec![of.as_ref().clone(), pattern.as_ref().clone()])
        }
        Expr::Substring { .. } => {
            return Err(not_supported("substring(x FROM pattern FOR escape)").with_hint(
                "write it with a regular expression: substring(x FROM 'a(.*)b') is what is in parentheses",
            ));
        }
        Expr::Function(function) => {
            let Some((name, arguments)) = call_of(function) else { return Ok(()) };
            let Some(list) = list_of(&name) else { return Ok(()) };
            call("unnest", vec![call(list, arguments.into_iter().cloned().collect())])
        }
        _ => return Ok(()),
    };
    *expr = replaced;
    Ok(())
}

struct InFrom;

impl VisitorMut for InFrom {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let Some(unnested) = unnested(factor) {
            *factor = unnested;
        }
        ControlFlow::Continue(())
    }
}

fn unnested(factor: &TableFactor) -> Option<TableFactor> {
    let RowsCall { name, arguments, alias, with_ordinality, .. } = rows_call(factor)?;
    let list = list_of(&name)?;
    let own = || TableAlias { explicit: true, name: Ident::new(name.as_str()), columns: Vec::new(), at: None };
    let mut alias = alias.clone().unwrap_or_else(own);
    if alias.columns.is_empty() {
        alias.columns = vec![TableAliasColumnDef { name: alias.name.clone(), data_type: None }];
    }
    Some(TableFactor::UNNEST {
        alias: Some(alias),
        array_exprs: vec![call(list, arguments)],
        with_offset: false,
        with_offset_alias: None,
        with_ordinality,
    })
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::parameters::query_of;
    use crate::script::parse;

    fn written(sql: &str) -> String {
        match parse(sql).unwrap().remove(0).kind {
            Kind::Refused(error) => error.message().to_owned(),
            mut kind => query_of(&mut kind).unwrap().to_string(),
        }
    }

    #[test]
    fn calls_are_brought_to_functions_that_are_there() {
        for (sql, expected) in [
            ("SELECT 1 WHERE substring(a FROM 'b.') = 'c'", "SELECT 1 WHERE regexp_substring(a, 'b.') = 'c'"),
            ("SELECT 1 WHERE substring(a, 'b.') = 'c'", "SELECT 1 WHERE regexp_substring(a, 'b.') = 'c'"),
            ("SELECT 1 WHERE substring(a FROM 2) = 'c'", "SELECT 1 WHERE SUBSTRING(a FROM 2) = 'c'"),
            ("SELECT 1 WHERE substring(a FROM b FOR 3) = 'c'", "SELECT 1 WHERE SUBSTRING(a FROM b FOR 3) = 'c'"),
            (
                "SELECT (regexp_matches(a, 'b', 'g'))[1] AS c",
                "SELECT (unnest(regexp_all_matches(a, 'b', 'g')))[1] AS c",
            ),
            (
                "SELECT regexp_split_to_table(a, ',') FROM t",
                "SELECT unnest(regexp_split_to_array(a, ',')) AS \"regexp_split_to_table(a, ',')\" FROM t",
            ),
            (
                "SELECT * FROM regexp_split_to_table('a,b', ',') AS w",
                "SELECT * FROM UNNEST(regexp_split_to_array('a,b', ',')) AS w (w)",
            ),
            (
                "SELECT * FROM regexp_split_to_table('a,b', ',')",
                "SELECT * FROM UNNEST(regexp_split_to_array('a,b', ',')) AS regexp_split_to_table (regexp_split_to_table)",
            ),
            (
                "SELECT 1 FROM t, LATERAL regexp_split_to_table(t.s, ',') AS w",
                "SELECT 1 FROM t, LATERAL (SELECT unnest(regexp_split_to_array(t.s, ',')) AS w) AS w",
            ),
            (
                "SELECT 1 FROM t, regexp_split_to_table(t.s, ',')",
                "SELECT 1 FROM t, LATERAL (SELECT unnest(regexp_split_to_array(t.s, ',')) AS regexp_split_to_table) AS regexp_split_to_table",
            ),
            ("SELECT substring(a FROM '#\"b#\"' FOR '#')", "substring(x FROM pattern FOR escape) is not supported"),
        ] {
            assert_eq!(written(sql), expected, "{sql}");
        }
    }
}
