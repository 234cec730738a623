//! The names that stand in expressions of a statement, with their places in its text: what a procedure's variables take the place of.
//!
//! Invariants:
//! - The tree is the parser's, before any pass has changed it: no name in an expression is missing, and what is no expression is not among
//!   them: tables, functions, types, aliases behind AS, the columns of an INSERT, the left sides of an UPDATE's SET.
//! - Places are byte offsets into the text as it was given, in its order, and no two of them meet.

use crate::grammar::Grammar;
use crate::names::name_of;
use crate::parameters::PARAMETERS_MAX;
use crate::script::{Offsets, with_stack_for};
use crate::statements::parse::syntax;
use crate::tokens::{depth, lexer, nested_joins, prepare_tokens};
use crate::trees::visit::visit;
use alluvia_types::{Error, ErrorKind, Result};
use sqlparser::ast::{Expr, GroupByExpr, Ident, OrderByKind, Query, Select, Visitor};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Location, Span, Token};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};

/// A name in an expression: `a` or `a.b.c`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExpressionName {
    /// Its parts, in small letters unless they are quoted, each with its place.
    pub parts: Vec<(String, Range<usize>)>,
    /// Whether something of it is taken, so that it is a value with fields or elements: `(a).b`, `a[1]`.
    pub is_root: bool,
    /// Whether it is all of what ORDER BY or GROUP BY goes by.
    pub is_key: bool,
}

/// The names in the expressions of one statement.
pub fn expression_names(sql: &str) -> Result<Vec<ExpressionName>> {
    let tokens = lexer::of(sql)?;
    if tokens.iter().any(|token| token.token == Token::SemiColon) {
        return Err(Error::new(ErrorKind::Syntax, "one statement was expected, and there are more"));
    }
    let mut found = Names::default();
    with_stack_for(depth::check(&tokens)?, tokens.len(), || {
        let prepared = prepare_tokens(&tokens).tokens;
        let grammar = Grammar::for_tokens(prepared.len()).nesting_joins(nested_joins::may_have(&prepared));
        let mut parser =
            Parser::new(&grammar).with_tokens_with_locations(prepared).with_recursion_limit(depth::DEPTH_MAX);
        let tree = parser.parse_statement().map_err(syntax)?;
        if grammar.is_used_up() {
            return Err(Error::new(ErrorKind::Syntax, "the statement can be read in too many ways"));
        }
        if parser.peek_token_ref().token != Token::EOF {
            let expected = parser.expected_ref::<()>("end of statement or ;", parser.peek_token_ref());
            return expected.map_err(syntax);
        }
        let _ = visit(&tree, &mut found);
        Ok(())
    })?;
    if found.names.len() > PARAMETERS_MAX {
        return Err(Error::new(ErrorKind::TooLarge, "the statement has too many names in its expressions"));
    }
    let mut offsets = Offsets::new(sql);
    let mut names = Vec::new();
    for (at, (parts, is_root)) in found.names {
        let is_key = found.keys.contains(&at);
        let parts = parts.into_iter().map(|(name, span)| (name, offsets.at(span.start)..offsets.at(span.end)));
        names.push(ExpressionName { parts: parts.collect(), is_root, is_key });
    }
    Ok(names)
}

/// Names by where they begin: a tree may have one twice.
#[derive(Default)]
struct Names {
    names: BTreeMap<Location, (Vec<(String, Span)>, bool)>,
    /// Where those begin that rows are ordered or grouped by.
    keys: BTreeSet<Location>,
}

impl Names {
    fn add(&mut self, parts: &[Ident], is_root: bool) {
        let Some(first) = parts.first() else { return };
        // What the parser made up has no place.
        if parts.iter().any(|part| part.span.start.line == 0) {
            return;
        }
        let parts = parts.iter().map(|part| (name_of(part), part.span)).collect();
        let known = self.names.entry(first.span.start).or_insert((parts, is_root));
        known.1 |= is_root;
    }

    fn add_key(&mut self, expr: &Expr) {
        if let Expr::Identifier(name) = expr {
            self.keys.insert(name.span.start);
        }
    }
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if let Some(OrderByKind::Expressions(keys)) = query.order_by.as_ref().map(|order_by| &order_by.kind) {
            keys.iter().for_each(|key| self.add_key(&key.expr));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        if let GroupByExpr::Expressions(keys, _) = &select.group_by {
            keys.iter().for_each(|key| self.add_key(key));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) => self.add(std::slice::from_ref(name), false),
            Expr::CompoundIdentifier(parts) => self.add(parts, false),
            Expr::CompoundFieldAccess { root, .. } => {
                let mut root = root.as_ref();
                while let Expr::Nested(inner) = root {
                    root = inner;
                }
                match root {
                    Expr::Identifier(name) => self.add(std::slice::from_ref(name), true),
                    Expr::CompoundIdentifier(parts) => self.add(parts, true),
                    _ => {}
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sql: &str) -> String {
        let names = expression_names(sql).unwrap();
        let shown = |name: &ExpressionName| {
            let parts = name.parts.iter().map(|(name, place)| {
                assert_eq!(sql[place.clone()].trim_matches('"').to_lowercase(), name.to_lowercase(), "{sql}");
                name.as_str()
            });
            parts.collect::<Vec<_>>().join(".")
        };
        names.iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn names_of_expressions_are_found_and_others_are_not() {
        for (sql, names) in [
            ("SELECT a, t.b AS a, f(c), count(*) FROM t, u AS v WHERE 'é' = \"D\"", "a t.b c D"),
            ("SELECT 'éé' || a\n  FROM a JOIN b ON a.x = B", "a a.x b"),
            ("INSERT INTO t (a, b) VALUES (a, DEFAULT, -c)", "a default c"),
            (
                "INSERT INTO t VALUES (a) ON CONFLICT (a) DO UPDATE SET b = excluded.b + c RETURNING d",
                "a excluded.b c d",
            ),
            ("UPDATE t SET a = a + b WHERE c = d RETURNING e AS a", "a b c d e"),
            ("UPDATE t AS x SET (a, b) = (c, d) FROM u WHERE x.k = u.k", "c d x.k u.k"),
            ("DELETE FROM t USING u WHERE t.a = u.a AND b", "t.a u.a b"),
            (
                "WITH w(a) AS (SELECT b FROM t) SELECT (SELECT max(c) FROM w WHERE d IN (e, f)) ORDER BY g LIMIT h",
                "b c d e f g h",
            ),
            ("SELECT CAST(a AS int), b::text, extract(year FROM c), CASE WHEN d THEN e ELSE f END", "a b c d e f"),
            ("SELECT a FROM t GROUP BY b HAVING c ORDER BY d FOR UPDATE", "a b c d"),
            ("SELECT f(a => b, c)", "b c"),
            ("CALL p(a, b + 1)", "a b"),
            (
                "SELECT sum(a) OVER (PARTITION BY b ORDER BY c), d BETWEEN e AND f, g LIKE h, i IS NULL",
                "a b c d e f g h i",
            ),
            ("SELECT 1 FROM t WHERE (a, b) IN ((c, d)) AND e = ANY(ARRAY[f]) AND EXISTS (SELECT g)", "a b c d e f g"),
            ("VALUES (a, b)", "a b"),
            ("SELECT 1", ""),
        ] {
            assert_eq!(found(sql), names, "{sql}");
        }
        let names = expression_names("SELECT sum(a) FROM t GROUP BY b, c + 1 ORDER BY d DESC, -e").unwrap();
        let keys = names.iter().filter(|name| name.is_key).map(|name| name.parts[0].0.as_str());
        assert_eq!(keys.collect::<Vec<_>>(), ["b", "d"]);
        assert!(expression_names("SELECT a[1]").unwrap()[0].is_root);
        for sql in ["SELECT 1; SELECT 2", "SELECT", "SELEKT a", "SELECT 1 1 1", "", "'"] {
            assert!(expression_names(sql).is_err(), "{sql}");
        }
    }
}
