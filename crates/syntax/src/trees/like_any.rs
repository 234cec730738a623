//! `x LIKE ANY (ARRAY['a%', 'b%'])`, `x NOT ILIKE ALL ('{a%,b%}')`.
//!
//! Invariants, as in PostgreSQL:
//! - They are one match for each pattern, joined by OR behind ANY and by AND behind ALL, NULLs included. Of no pattern ANY is false and ALL is true, and
//!   of NULL in the place of the list both are NULL.
//! - The list is written out, so that everything else (the index, pruning, the predicate cache) knows the matches; a parameter is a
//!   written list once it has its value. Others are refused by name.
//! - Matches are joined in a tree that is as shallow as can be: lists may be long.

use crate::parameters::{is_parameter, parameter, uncast};
use crate::trees::rewriting::{call_of, contains, rewrite};
use crate::trees::sort_keys::differs_each_time;
use crate::trees::{like_escape, list_literals};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{BinaryOperator, CastKind, DataType, Expr, Function, Query, Value};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// How long what is matched may be in all, written out for each pattern.
const WRITTEN_MAX: usize = 1 << 20;

/// Whether a statement of these tokens may have one.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    let has = |wanted: &[Keyword]| {
        tokens.iter().any(|token| matches!(&token.token, Token::Word(word) if wanted.contains(&word.keyword)))
    };
    has(&[Keyword::LIKE, Keyword::ILIKE]) && has(&[Keyword::ANY, Keyword::SOME, Keyword::ALL])
}

/// Writes all of a query's out.
pub fn write_out(query: &mut Query) -> Result<()> {
    rewrite(query, is_one, &mut expand)
}

/// Whether [`expand`] may change it.
pub fn is_one(expr: &Expr) -> bool {
    is_any(expr).is_some()
}

/// Whether it asks for any of its patterns, or for all; `None` if it has but one.
fn is_any(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::Like { any: true, .. } | Expr::ILike { any: true, .. } => Some(true),
        Expr::Like { pattern, .. } | Expr::ILike { pattern, .. } => match pattern.as_ref() {
            Expr::Function(function) => quantifier(function),
            _ => None,
        },
        _ => None,
    }
}

/// What the parser takes for a call of a function: `ALL (...)`, `SOME (...)`.
fn quantifier(function: &Function) -> Option<bool> {
    let [part] = function.name.0.as_slice() else { return None };
    let name = part.as_ident().filter(|name| name.quote_style.is_none())?;
    match name.value.to_ascii_lowercase().as_str() {
        "all" => Some(false),
        "some" => Some(true),
        _ => None,
    }
}

/// Writes one out whose parts are as they will be planned; one that waits for parameters stays.
pub fn expand(expr: &mut Expr) -> Result<()> {
    let Some(is_any) = is_any(expr) else { return Ok(()) };
    let heeds_case = matches!(expr, Expr::Like { .. });
    let (Expr::Like { negated, expr: of, pattern, escape_char, .. }
    | Expr::ILike { negated, expr: of, pattern, escape_char, .. }) = expr
    else {
        return Ok(());
    };
    let list = match listed(pattern)? {
        Listed::Null => {
            *expr = cast_to_boolean(Value::Null);
            return Ok(());
        }
        Listed::Other if contains(&**pattern, is_parameter) => return Ok(()),
        Listed::Other => {
            let (like, quantifier) = (if heeds_case { "LIKE" } else { "ILIKE" }, if is_any { "ANY" } else { "ALL" });
            return Err(not_supported(format!("{like} {quantifier} of a list that is computed"))
                .with_hint(format!("write the patterns out: x {like} {quantifier} (ARRAY['a%', 'b%'])")));
        }
        Listed::Patterns(list) => list,
    };
    if list.len() > 1 && of.to_string().len().saturating_mul(list.len()) > WRITTEN_MAX {
        return Err(Error::new(ErrorKind::TooLarge, "too many patterns behind ANY or ALL for so long an expression")
            .with_hint(
                "give the expression a column of its own in a subquery: SELECT ... FROM (SELECT ... AS x FROM t) AS s",
            ));
    }
    if list.len() > 1 && contains(&**of, differs_each_time) {
        return Err(not_supported("ANY or ALL of patterns behind a subquery, or behind what differs each time")
            .with_hint(
                "give it a name in a subquery: SELECT ... FROM (SELECT ... AS x FROM t) AS s WHERE x LIKE ANY (...)",
            ));
    }
    let mut matches = Vec::with_capacity(list.len());
    for pattern in list {
        let (negated, of, pattern, escape_char) = (*negated, of.clone(), Box::new(pattern), escape_char.clone());
        let mut one = match heeds_case {
            true => Expr::Like { negated, any: false, expr: of, pattern, escape_char },
            false => Expr::ILike { negated, any: false, expr: of, pattern, escape_char },
        };
        like_escape::expand(&mut one)?;
        matches.push(one);
    }
    let op = if is_any { BinaryOperator::Or } else { BinaryOperator::And };
    *expr = match joined(matches, &op) {
        Some(matches) => Expr::Nested(Box::new(matches)),
        None => Expr::Value(Value::Boolean(!is_any).into()),
    };
    Ok(())
}

/// What is matched with a list that is a parameter, that parameter as one pattern, and its number.
pub fn of_parameter(expr: &mut Expr) -> Option<(Box<Expr>, Box<Expr>, usize)> {
    if !is_one(expr) {
        return None;
    }
    let (Expr::Like { expr: of, pattern, .. } | Expr::ILike { expr: of, pattern, .. }) = expr else { return None };
    let list = match pattern.as_ref() {
        Expr::Function(function) => call_of(function)?.1.first().copied()?,
        list => list,
    };
    let number = parameter(uncast(list))?;
    let of = std::mem::replace(of, Box::new(Expr::Value(Value::Null.into())));
    Some((of, Box::new(Expr::Value(Value::Placeholder(format!("${number}")).into())), number))
}

/// What stands behind ANY or ALL.
enum Listed {
    Patterns(Vec<Expr>),
    Null,
    Other,
}

/// Takes the patterns out of a list.
fn listed(list: &mut Expr) -> Result<Listed> {
    if let Expr::Nested(inner) = list {
        return listed(inner);
    }
    if let Expr::Tuple(patterns) = list {
        return Ok(Listed::Patterns(std::mem::take(patterns)));
    }
    if let Expr::Function(function) = list
        && quantifier(function).is_some()
    {
        let Some((_, arguments)) = call_of(function) else { return Ok(Listed::Other) };
        let mut arguments: Vec<Expr> = arguments.into_iter().cloned().collect();
        return match arguments.as_mut_slice() {
            [only] => listed(only),
            _ => Ok(Listed::Patterns(arguments)),
        };
    }
    if list_literals::is_null(list) {
        return Ok(Listed::Null);
    }
    Ok(list_literals::elements_of(list)?.map_or(Listed::Other, Listed::Patterns))
}

fn joined(mut matches: Vec<Expr>, op: &BinaryOperator) -> Option<Expr> {
    let half = matches.len() / 2;
    if half == 0 {
        return matches.pop();
    }
    let right = joined(matches.split_off(half), op)?;
    let left = joined(matches, op)?;
    Some(Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) })
}

fn cast_to_boolean(value: Value) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Value(value.into())),
        data_type: DataType::Boolean,
        array: false,
        format: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::parameters::query_of;
    use crate::script::parse;
    use datafusion_common::ScalarValue;

    fn shown(mut kind: Kind) -> String {
        match &mut kind {
            Kind::Refused(error) => error.message().to_owned(),
            kind => query_of(kind).unwrap().to_string(),
        }
    }

    fn expanded(condition: &str) -> String {
        shown(parse(&format!("SELECT 1 FROM t WHERE {condition}")).unwrap().remove(0).kind)
    }

    #[test]
    fn lists_of_patterns_are_matches_of_each() {
        for (condition, expected) in [
            ("a LIKE ANY (ARRAY['b%', 'c'])", "(a LIKE 'b%' OR a LIKE 'c')"),
            ("a NOT LIKE ALL ('{b%,c,NULL}')", "(a NOT LIKE 'b%' AND a NOT LIKE 'c' AND a NOT LIKE NULL)"),
            ("a ILIKE SOME (ARRAY['b']::text[])", "(a ILIKE 'b')"),
            ("a ILIKE ANY ('b', 'c', 'd')", "(a ILIKE 'b' OR a ILIKE 'c' OR a ILIKE 'd')"),
            ("a LIKE ANY (ARRAY['b!%']) ESCAPE '!'", r"(a LIKE 'b\%')"),
            ("a LIKE ALL ('{}') OR a LIKE ANY ('{}')", "true OR false"),
            ("a LIKE ANY (NULL)", "CAST(NULL AS BOOLEAN)"),
            ("a LIKE ALL (NULL::text[])", "CAST(NULL AS BOOLEAN)"),
            ("a LIKE 'any'", "a LIKE 'any'"),
        ] {
            assert_eq!(expanded(condition), format!("SELECT 1 FROM t WHERE {expected}"));
        }
        assert!(expanded("a LIKE ANY (b)").contains("LIKE ANY of a list that is computed"));
        assert!(expanded("a ILIKE ALL (b)").contains("ILIKE ALL of a list that is computed"));
    }

    #[test]
    fn long_lists_make_shallow_trees() {
        let matches = (0..1_000).map(|_| Expr::Value(Value::Null.into())).collect();
        fn depth(expr: &Expr) -> usize {
            match expr {
                Expr::BinaryOp { left, right, .. } => 1 + depth(left).max(depth(right)),
                _ => 0,
            }
        }
        assert_eq!(depth(&joined(matches, &BinaryOperator::Or).unwrap()), 10);
    }

    #[test]
    fn a_parameter_is_a_list_once_it_has_its_value() {
        let statement = parse("SELECT 1 FROM t WHERE a LIKE ANY ($1)").unwrap().remove(0);
        let bound = statement.bind(&[ScalarValue::from("{b%,c}")]).map(|bound| shown(bound.kind));
        assert_eq!(bound.unwrap(), "SELECT 1 FROM t WHERE (a LIKE 'b%' OR a LIKE 'c')");
    }
}
