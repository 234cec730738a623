//! Operators that planning does not know: `x ^@ 'prefix'`, `list && list`, `(a, b) OVERLAPS (c, d)`, `x COLLATE "C"`.
//!
//! Invariants, as in PostgreSQL:
//! - `^@` is `starts_with`; `&&` is whether two lists have an element in common, and NULL is no element.
//! - OVERLAPS takes the ends of a span in any order, an interval for a length, and spans without what ends them; NULL may stand for an end.
//! - Text is compared by its bytes, which is what the collation `"C"` is, by any of its names. Others are refused by name.

use crate::grammar::Grammar;
use crate::names::parts_of;
use crate::tokens::depth::DEPTH_MAX;
use crate::trees::rewriting::{call, contains, rewrite};
use crate::trees::sort_keys::differs_each_time;
use crate::trees::visit::visit_mut;
use alluvia_types::{Error, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{BinaryOperator, DataType, Expr, ObjectName, Query, Value, VisitorMut};
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// Names of the order that text has.
const BY_BYTES: [&str; 5] = ["C", "POSIX", "ucs_basic", "C.utf8", "C.UTF-8"];

/// What OVERLAPS is of spans from `a` to `b` and from `c` to `d`: the one that starts first ends behind the other's start, or both start at once.
const OVERLAPS: &str = "\
    CASE WHEN least(a, b) > least(c, d) THEN \
        CASE WHEN c IS NOT NULL AND d IS NOT NULL AND least(a, b) < greatest(c, d) THEN true \
        WHEN a IS NULL OR b IS NULL OR c IS NULL OR d IS NULL THEN NULL ELSE false END \
    WHEN least(a, b) < least(c, d) THEN \
        CASE WHEN a IS NOT NULL AND b IS NOT NULL AND least(c, d) < greatest(a, b) THEN true \
        WHEN a IS NULL OR b IS NULL OR c IS NULL OR d IS NULL THEN NULL ELSE false END \
    WHEN least(a, b) = least(c, d) THEN \
        CASE WHEN a IS NULL OR b IS NULL OR c IS NULL OR d IS NULL THEN NULL ELSE true END \
    END";

/// Whether a statement of these tokens may have one.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| match &token.token {
        Token::CaretAt | Token::Overlap => true,
        Token::Word(word) => matches!(word.keyword, Keyword::OVERLAPS | Keyword::COLLATE),
        _ => false,
    })
}

/// Brings all of a query's to what is planned.
pub fn write_out(query: &mut Query) -> Result<()> {
    rewrite(query, is_one, &mut expand)
}

fn is_one(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryOp { op, .. } => {
            matches!(op, BinaryOperator::PGStartsWith | BinaryOperator::PGOverlap | BinaryOperator::Overlaps)
        }
        Expr::Collate { .. } => true,
        _ => false,
    }
}

fn expand(expr: &mut Expr) -> Result<()> {
    let replaced = match expr {
        Expr::BinaryOp { left, op: BinaryOperator::PGStartsWith, right } => {
            call("starts_with", vec![taken(left), taken(right)])
        }
        Expr::BinaryOp { left, op: BinaryOperator::PGOverlap, right } => {
            call("array_has_any", vec![taken(left), call("array_compact", vec![taken(right)])])
        }
        Expr::BinaryOp { left, op: BinaryOperator::Overlaps, right } => {
            let ((a, b), (c, d)) = (span(left)?, span(right)?);
            overlaps([a, b, c, d])?
        }
        Expr::Collate { expr: of, collation } => {
            check(collation)?;
            taken(of)
        }
        _ => return Ok(()),
    };
    *expr = replaced;
    Ok(())
}

fn taken(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::Value(Value::Null.into()))
}

fn check(collation: &ObjectName) -> Result<()> {
    let parts = parts_of(collation)?;
    let name = match parts.as_slice() {
        [name] => name,
        [schema, name] if schema == "pg_catalog" => name,
        _ => return Err(other_order(collation)),
    };
    if name == "default" || BY_BYTES.contains(&name.as_str()) { Ok(()) } else { Err(other_order(collation)) }
}

fn other_order(collation: &ObjectName) -> Error {
    not_supported(format!("COLLATE {collation}"))
        .with_hint("text is compared by its bytes, as with COLLATE \"C\"; lower(x) puts capitals beside small letters")
}

/// The ends of a span.
fn span(expr: &mut Expr) -> Result<(Expr, Expr)> {
    let ends = match expr {
        Expr::Tuple(ends) => std::mem::take(ends),
        _ => Vec::new(),
    };
    let Ok([from, to]) = <[Expr; 2]>::try_from(ends) else {
        return Err(not_supported("OVERLAPS of anything but (from, to)").with_hint("write (a, b) OVERLAPS (c, d)"));
    };
    let is_written_out = |expr: &Expr| matches!(expr, Expr::Case { .. }) || differs_each_time(expr);
    if contains(&from, is_written_out) || contains(&to, is_written_out) {
        return Err(not_supported("OVERLAPS of subqueries, of CASE, or of what differs each time")
            .with_hint("give them names in a subquery: SELECT ... FROM (SELECT ... AS a, ... AS b FROM t) AS s"));
    }
    if !is_interval(&to) {
        return Ok((from, to));
    }
    let (left, right) = (Box::new(Expr::Nested(Box::new(from.clone()))), Box::new(Expr::Nested(Box::new(to))));
    Ok((from, Expr::Nested(Box::new(Expr::BinaryOp { left, op: BinaryOperator::Plus, right }))))
}

/// Whether it is written as a length.
fn is_interval(expr: &Expr) -> bool {
    match expr {
        Expr::Interval(_) => true,
        Expr::Nested(inner) => is_interval(inner),
        Expr::Cast { data_type, .. } => matches!(data_type, DataType::Interval { .. }),
        Expr::TypedString(text) => matches!(text.data_type, DataType::Interval { .. }),
        Expr::BinaryOp { left, right, .. } => is_interval(left) && is_interval(right),
        _ => false,
    }
}

fn overlaps(ends: [Expr; 4]) -> Result<Expr> {
    struct Put([Expr; 4]);

    impl VisitorMut for Put {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Identifier(name) = expr
                && let Some(at) = ["a", "b", "c", "d"].iter().position(|end| *end == name.value)
            {
                *expr = Expr::Nested(Box::new(self.0[at].clone()));
            }
            ControlFlow::Continue(())
        }
    }

    let grammar = Grammar::for_tokens(0);
    let parsed = Parser::new(&grammar)
        .with_recursion_limit(DEPTH_MAX)
        .try_with_sql(OVERLAPS)
        .and_then(|mut parser| parser.parse_expr());
    let mut expr =
        parsed.map_err(|error| Error::internal(format!("an expression that is always the same: {error}")))?;
    let _ = visit_mut(&mut expr, &mut Put(ends));
    Ok(Expr::Nested(Box::new(expr)))
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::parameters::query_of;
    use crate::script::parse;

    fn written(condition: &str) -> String {
        match parse(&format!("SELECT 1 FROM t WHERE {condition}")).unwrap().remove(0).kind {
            Kind::Refused(error) => error.message().to_owned(),
            mut kind => query_of(&mut kind).unwrap().to_string().replace("SELECT 1 FROM t WHERE ", ""),
        }
    }

    #[test]
    fn operators_are_calls() {
        for (condition, expected) in [
            ("a ^@ 'b'", "starts_with(a, 'b')"),
            ("a && b", "array_has_any(a, array_compact(b))"),
            ("a COLLATE \"C\" < b", "a < b"),
            ("a::text COLLATE pg_catalog.\"default\" < b", "a::TEXT < b"),
            ("a COLLATE \"de_DE\" < b", "COLLATE \"de_DE\" is not supported"),
            (
                "(a, (SELECT 1)) OVERLAPS (c, d)",
                "OVERLAPS of subqueries, of CASE, or of what differs each time is not supported",
            ),
            ("(a, b) OVERLAPS c", "OVERLAPS of anything but (from, to) is not supported"),
        ] {
            assert_eq!(written(condition), expected);
        }
        let spans = written("(x, y) OVERLAPS (z, INTERVAL '1 day')");
        assert!(spans.starts_with("(CASE WHEN least((x), (y)) > least((z), ((") && !spans.contains("(a"), "{spans}");
    }
}
