//! `LIKE ... ESCAPE`: patterns with an escape of their own; `SIMILAR TO`.
//!
//! Invariants, as in PostgreSQL:
//! - The character behind an escape stands for itself. Where another escape is declared a backslash is a character like any other, and
//!   with `ESCAPE ''` there is no escape.
//! - DataFusion 55.2 plans patterns with backslashes alone. So a pattern that is written gets them here, and everything else (the index,
//!   pruning, the predicate cache) knows what it means. A parameter is a written pattern once it has its value.
//! - A pattern that is computed from columns is refused.
//! - `SIMILAR TO` becomes a match of a regular expression ([`crate::trees::similar_to`]).
//!
//! Mends apache/datafusion#13291, #13312 (in 55.2).
//! Held by `slt/patterns.slt` (`s LIKE '10!%' ESCAPE '!'`, `s LIKE 'c\_' ESCAPE ''`).

use crate::names::parts_of;
use crate::parameters::is_parameter;
use crate::statement::text_of;
use crate::trees::rewriting::{contains, rewrite};
use crate::trees::{like_any, similar_to};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{BinaryOperator, DataType, Expr, Query, Value};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Whether a statement of these tokens may declare an escape, or has `SIMILAR TO`.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(
        |token| matches!(&token.token, Token::Word(word) if matches!(word.keyword, Keyword::ESCAPE | Keyword::SIMILAR)),
    )
}

/// Gives all patterns of a query backslashes for their escapes, or makes regular expressions of them.
pub fn write_out(query: &mut Query) -> Result<()> {
    rewrite(query, declares_escape, &mut expand)
}

/// Leaves out the escapes that wait for parameters: for whoever asks for types alone, which do not depend on them.
pub fn leave_out(query: &mut Query) -> Result<()> {
    rewrite(query, declares_escape, &mut |expr| {
        if let Expr::Like { escape_char, .. } | Expr::ILike { escape_char, .. } | Expr::SimilarTo { escape_char, .. } =
            expr
        {
            *escape_char = None;
        }
        Ok(())
    })
}

/// Whether [`expand`] may change it.
fn declares_escape(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Like { escape_char: Some(_), any: false, .. }
            | Expr::ILike { escape_char: Some(_), any: false, .. }
            | Expr::SimilarTo { .. }
    )
}

/// Gives a pattern, whose parts are as they will be planned, backslashes for its escapes, or makes a regular expression of it; one that
/// waits for parameters stays.
pub fn expand(expr: &mut Expr) -> Result<()> {
    if like_any::is_one(expr) {
        return like_any::expand(expr);
    }
    if matches!(expr, Expr::SimilarTo { .. }) {
        return expand_similar(expr);
    }
    let (Expr::Like { pattern, escape_char, any: false, .. } | Expr::ILike { pattern, escape_char, any: false, .. }) =
        expr
    else {
        return Ok(());
    };
    let Some(escape) = escape_char.as_ref() else { return Ok(()) };
    let escape = escape_of(&escape.value)?;
    match written(pattern) {
        Written::Text(text) => {
            let text = with_backslashes(&text, escape)?;
            **pattern = Expr::Value(Value::SingleQuotedString(text).into());
            *escape_char = None;
        }
        Written::Null => *escape_char = None,
        Written::Other if escape == Some('\\') => *escape_char = None,
        Written::Other if contains(&**pattern, is_parameter) => {}
        Written::Other => {
            return Err(not_supported("ESCAPE behind a pattern that is computed").with_hint(
                "write the pattern as a text or a parameter, or escape with backslashes and leave ESCAPE out",
            ));
        }
    }
    Ok(())
}

fn expand_similar(expr: &mut Expr) -> Result<()> {
    let Expr::SimilarTo { negated, expr: of, pattern, escape_char } = expr else { return Ok(()) };
    let escape = escape_char.as_ref().map_or(Ok(Some('\\')), |escape| escape_of(&escape.value))?;
    match written(pattern) {
        Written::Text(text) => {
            let regular = Value::SingleQuotedString(similar_to::regular(&text, escape)?);
            let op = if *negated { BinaryOperator::PGRegexNotMatch } else { BinaryOperator::PGRegexMatch };
            let left = std::mem::replace(of, Box::new(Expr::Value(Value::Null.into())));
            let matched = Expr::BinaryOp { left, op, right: Box::new(Expr::Value(regular.into())) };
            *expr = Expr::Nested(Box::new(matched));
        }
        // It is NULL of every text.
        Written::Null => *escape_char = None,
        Written::Other if contains(&**pattern, is_parameter) => {}
        Written::Other => {
            return Err(not_supported("SIMILAR TO a pattern that is computed")
                .with_hint("write the pattern as a text or a parameter, or use ~ with a regular expression"));
        }
    }
    Ok(())
}

/// The character that escapes; `None` for no escape.
fn escape_of(value: &Value) -> Result<Option<char>> {
    let text = text_of(&Expr::Value(value.clone().into()));
    let text =
        text.ok_or_else(|| not_supported(format!("ESCAPE {value}")).with_hint("write one character in quotes"))?;
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (escape, None) => Ok(escape),
        (_, Some(_)) => Err(Error::new(ErrorKind::InvalidValue, format!("ESCAPE {value} is not one character"))
            .with_hint("an escape is one character, or '' for none")),
    }
}

/// A pattern with backslashes before what stands for itself.
fn with_backslashes(pattern: &str, escape: Option<char>) -> Result<String> {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        let is_escaped = Some(c) == escape;
        let c = if !is_escaped {
            c
        } else {
            chars.next().ok_or_else(|| {
                Error::new(ErrorKind::InvalidValue, "a pattern of LIKE ends with its escape")
                    .with_hint("write the escape twice where it stands for itself")
            })?
        };
        if c == '\\' || is_escaped && matches!(c, '%' | '_') {
            out.push('\\');
        }
        out.push(c);
    }
    Ok(out)
}

/// What is known of a pattern before it is planned.
enum Written {
    Text(String),
    Null,
    Other,
}

fn written(expr: &Expr) -> Written {
    match expr {
        Expr::Nested(inner) => written(inner),
        // What is cast to text, or to a name as catalogs have it, stays what it is; other casts, and those that cut, change it.
        Expr::Cast { expr: inner, data_type, array: false, format: None, .. } => {
            match (written(inner), is_text(data_type)) {
                (Written::Text(text), true) => Written::Text(text),
                (Written::Null, _) => Written::Null,
                _ => Written::Other,
            }
        }
        Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } => match (written(left), written(right)) {
            (Written::Text(left), Written::Text(right)) => Written::Text(left + &right),
            (Written::Null, Written::Text(_) | Written::Null) | (Written::Text(_), Written::Null) => Written::Null,
            _ => Written::Other,
        },
        Expr::Value(value) if matches!(value.value, Value::Null) => Written::Null,
        expr => text_of(expr).map_or(Written::Other, Written::Text),
    }
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Text
        | DataType::Varchar(None)
        | DataType::CharacterVarying(None)
        | DataType::CharVarying(None)
        | DataType::String(None) => true,
        DataType::Custom(name, modifiers) if modifiers.is_empty() => {
            let parts = parts_of(name).unwrap_or_default();
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            matches!(parts.as_slice(), ["text" | "varchar" | "name"] | ["pg_catalog", "text" | "varchar" | "name"])
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::parameters::query_of;
    use crate::script::parse;
    use arrow::array::{BooleanArray, Scalar, StringArray};
    use datafusion_common::ScalarValue;
    use proptest::prelude::*;

    fn shown(mut kind: Kind) -> String {
        match &mut kind {
            Kind::Refused(error) => format!("{}: {}", error.kind().sqlstate(), error.message()),
            kind => query_of(kind).unwrap().to_string(),
        }
    }

    fn expanded(condition: &str) -> String {
        shown(parse(&format!("SELECT 1 FROM t WHERE {condition}")).unwrap().remove(0).kind)
    }

    #[test]
    fn patterns_that_are_written_get_backslashes() {
        for (condition, expected) in [
            ("a LIKE '10!%' ESCAPE '!'", r"a LIKE '10\%'"),
            ("a NOT LIKE 'x!_%' ESCAPE '!'", r"a NOT LIKE 'x\_%'"),
            ("a ILIKE '!!a!b' ESCAPE '!'", "a ILIKE '!ab'"),
            (r"a LIKE 'a\%' ESCAPE '!'", r"a LIKE 'a\\%'"),
            (r"a LIKE 'a!\%' ESCAPE '!'", r"a LIKE 'a\\%'"),
            (r"a LIKE 'a\%' ESCAPE ''", r"a LIKE 'a\\%'"),
            (r"a LIKE 'a\%b' ESCAPE '\'", r"a LIKE 'a\%b'"),
            ("a LIKE '50%%' ESCAPE '%'", r"a LIKE '50\%'"),
            ("a LIKE 'é%ü%' ESCAPE 'ü'", r"a LIKE 'é%\%'"),
            ("a LIKE 'pg/_' || '%' ESCAPE '/'", r"a LIKE 'pg\_%'"),
            ("a LIKE ('/%' || 'b'::text) ESCAPE '/'", r"a LIKE '\%b'"),
            ("a LIKE 'pg!_%'::name ESCAPE '!'", r"a LIKE 'pg\_%'"),
            ("a LIKE 'b!%'::pg_catalog.text ESCAPE '!'", r"a LIKE 'b\%'"),
            ("a LIKE ('b' || '!%'::PG_CATALOG.\"varchar\") ESCAPE '!'", r"a LIKE 'b\%'"),
            ("a LIKE NULL ESCAPE '/'", "a LIKE NULL"),
            (r"a LIKE b ESCAPE '\'", "a LIKE b"),
            ("a LIKE '%' || $1 ESCAPE '/'", "a LIKE '%' || $1 ESCAPE '/'"),
        ] {
            assert_eq!(expanded(condition), format!("SELECT 1 FROM t WHERE {expected}"));
        }
        assert!(expanded("a LIKE b ESCAPE '/'").starts_with("0A000: ESCAPE behind a pattern that is computed"));
        for changed in ["'ab!%'::varchar(3)", "'b!%'::other.text", "'b!%'::bytea", "'b!%'::regclass"] {
            let refused = expanded(&format!("a LIKE {changed} ESCAPE '!'"));
            assert!(refused.starts_with("0A000: ESCAPE behind a pattern that is computed"), "{refused}");
        }
        assert!(expanded("a LIKE 'b' ESCAPE 'ab'").starts_with("22000: ESCAPE 'ab' is not one character"));
        assert!(expanded("a LIKE 'b!' ESCAPE '!'").starts_with("22000: a pattern of LIKE ends with its escape"));
    }

    #[test]
    fn similar_to_is_a_match_of_a_regular_expression() {
        for (condition, expected) in [
            ("a SIMILAR TO 'b%'", "(a ~ '^(?s:b.*)$')"),
            ("a NOT SIMILAR TO 'b' || '_'", "(a !~ '^(?s:b.)$')"),
            ("a SIMILAR TO 'b!%' ESCAPE '!'", "(a ~ '^(?s:b%)$')"),
            ("a SIMILAR TO NULL", "a SIMILAR TO NULL"),
        ] {
            assert_eq!(expanded(condition), format!("SELECT 1 FROM t WHERE {expected}"));
        }
        assert!(expanded("a SIMILAR TO b").starts_with("0A000: SIMILAR TO a pattern that is computed"));
        let statement = parse("SELECT 1 FROM t WHERE a SIMILAR TO $1").unwrap().remove(0);
        let bound = statement.bind(&[ScalarValue::from("x_")]).map(|bound| shown(bound.kind));
        assert_eq!(bound.unwrap(), "SELECT 1 FROM t WHERE (a ~ '^(?s:x.)$')");
    }

    #[test]
    fn parameters_are_patterns_once_they_have_values() {
        let bound = |sql: &str, value: ScalarValue| {
            let statement = parse(sql).unwrap().remove(0);
            statement.bind(&[value]).map(|bound| shown(bound.kind))
        };
        let sql = "SELECT 1 FROM t WHERE a LIKE '%' || $1 ESCAPE '/'";
        assert_eq!(bound(sql, ScalarValue::from("1/%_")).unwrap(), r"SELECT 1 FROM t WHERE a LIKE '%1\%_'");
        assert!(!bound(sql, ScalarValue::Utf8(None)).unwrap().contains("ESCAPE"));
        let computed = bound("SELECT 1 FROM t WHERE a LIKE lower($1) ESCAPE '/'", ScalarValue::from("b"));
        assert_eq!(computed.unwrap_err().kind(), ErrorKind::NotSupported);
    }

    #[test]
    fn columns_keep_their_names() {
        assert_eq!(
            expanded("a = (SELECT b LIKE '/%' ESCAPE '/')"),
            "SELECT 1 FROM t WHERE a = (SELECT b LIKE '\\%' AS \"b LIKE '/%' ESCAPE '/'\")"
        );
    }

    /// Whether a text matches, one character after the other; `None` where the pattern ends with its escape.
    fn matches_plainly(text: &[char], pattern: &[char], escape: Option<char>) -> Option<bool> {
        let Some((&first, rest)) = pattern.split_first() else { return Some(text.is_empty()) };
        if Some(first) == escape {
            let (&wanted, rest) = rest.split_first()?;
            let tail = matches_plainly(text.get(1..).unwrap_or(&[]), rest, escape)?;
            return Some(text.first() == Some(&wanted) && tail);
        }
        match first {
            '%' => {
                let mut any = false;
                for from in 0..=text.len() {
                    any |= matches_plainly(&text[from..], rest, escape)?;
                }
                Some(any)
            }
            wanted => {
                let tail = matches_plainly(text.get(1..).unwrap_or(&[]), rest, escape)?;
                Some(text.first().is_some_and(|first| wanted == '_' || wanted == *first) && tail)
            }
        }
    }

    proptest! {
        #[test]
        fn a_pattern_with_backslashes_matches_what_the_written_one_does(
            texts in proptest::collection::vec(r"[ab%_!\\é]{0,5}", 1..20),
            pattern in r"[ab%_!\\é]{0,5}",
            escape in prop_oneof![Just(None), proptest::sample::select(vec!['!', '\\', '%', '_', 'a', 'é']).prop_map(Some)],
        ) {
            let chars = |text: &str| text.chars().collect::<Vec<char>>();
            let expected: Option<Vec<bool>> =
                texts.iter().map(|text| matches_plainly(&chars(text), &chars(&pattern), escape)).collect();
            match (with_backslashes(&pattern, escape), expected) {
                (Ok(written), Some(expected)) => {
                    let column = StringArray::from_iter_values(&texts);
                    let pattern = Scalar::new(StringArray::from_iter_values([written]));
                    let found = arrow::compute::kernels::comparison::like(&column, &pattern).unwrap();
                    prop_assert_eq!(found, BooleanArray::from(expected));
                }
                (written, expected) => prop_assert!(written.is_err() && expected.is_none()),
            }
        }
    }
}
