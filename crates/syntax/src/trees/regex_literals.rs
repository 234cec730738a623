//! Regular expressions, as PostgreSQL writes them.
//!
//! Invariants:
//! - `\m` and `\M` (`[[:<:]]` and `[[:>:]]`) are the start and the end of a word, `\y` either of them, `\Y` neither, and `\Z` the end of the text; within
//!   brackets `[` and `&&` are what they are. Rust's expressions write these otherwise, and what both write alike stays as it is written.
//! - An expression that is translated stays when it is translated again.
//! - Of operators and of DataFusion's functions only written patterns and parameters are translated, so that everything else (the index, pruning, the
//!   predicate cache) knows what they mean; functions of ours (`alluvia_functions::regex`) translate all.

use crate::statement::text_of;
use crate::trees::rewriting::rewrite;
use alluvia_types::Result;
use alluvia_values::regex::translated;
use sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Query, Value,
};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Functions of DataFusion's that take a pattern for their second argument.
const FUNCTIONS: [&str; 3] = ["regexp_like", "regexp_count", "regexp_instr"];

/// Whether a statement of these tokens may have a pattern.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| match &token.token {
        Token::Tilde | Token::TildeAsterisk | Token::ExclamationMarkTilde | Token::ExclamationMarkTildeAsterisk => true,
        Token::Word(word) => FUNCTIONS.iter().any(|name| word.value.eq_ignore_ascii_case(name)),
        _ => false,
    })
}

/// Writes a query's patterns as they will be read.
pub fn write_out(query: &mut Query) -> Result<()> {
    let finds = |expr: &Expr| pattern_of(expr).and_then(literal).is_some_and(|text| translated(&text).is_some());
    rewrite(query, finds, &mut |expr| {
        expand(expr);
        Ok(())
    })
}

/// Writes the pattern of one operator or call as it will be read.
pub fn expand(expr: &mut Expr) {
    if let Some(text) = pattern_of(expr).and_then(literal).and_then(|text| translated(&text))
        && let Some(pattern) = pattern_mut(expr)
    {
        *pattern = Expr::Value(Value::SingleQuotedString(text).into());
    }
}

/// The pattern of an operator or a call.
fn pattern_of(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::BinaryOp { op, right, .. } if matches_pattern(op) => Some(right),
        Expr::Function(function) => {
            let [part] = function.name.0.as_slice() else { return None };
            let name = &part.as_ident()?.value;
            let FunctionArguments::List(list) = &function.args else { return None };
            let is_one = FUNCTIONS.iter().any(|known| name.eq_ignore_ascii_case(known));
            match list.args.get(1) {
                Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(pattern))) if is_one => Some(pattern),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The same of one that has a pattern.
fn pattern_mut(expr: &mut Expr) -> Option<&mut Expr> {
    match expr {
        Expr::BinaryOp { right, .. } => Some(right),
        Expr::Function(function) => {
            let FunctionArguments::List(list) = &mut function.args else { return None };
            match list.args.get_mut(1) {
                Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(pattern))) => Some(pattern),
                _ => None,
            }
        }
        _ => None,
    }
}

fn matches_pattern(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::PGRegexMatch
            | BinaryOperator::PGRegexIMatch
            | BinaryOperator::PGRegexNotMatch
            | BinaryOperator::PGRegexNotIMatch
    )
}

/// The text of a literal, which may be cast to what it is.
pub fn literal(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Nested(inner) => literal(inner),
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr: inner,
            data_type: DataType::Text | DataType::Varchar(None),
            array: false,
            format: None,
        } => literal(inner),
        expr => text_of(expr),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::parameters::query_of;
    use crate::script::parse;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_otherwise_is_translated_once() {
        for (pattern, expected) in [
            (r"\mcat\M", r"\b{start}cat\b{end}"),
            (r"[[:<:]]cat[[:>:]]", r"\b{start}cat\b{end}"),
            (r"\Aa\y|\Yb\Z", r"\Aa\b|\Bb\z"),
            (r"\\m", r"\\m"),
            (r"\d+[\w.]*\.", r"\d+[\w.]*\."),
            ("[[]", r"[\[]"),
            ("[]a]", r"[\]a]"),
            ("[^]a]x", r"[^\]a]x"),
            ("[[:alpha:]_]", "[[:alpha:]_]"),
            ("[a&&b]", r"[a\&&b]"),
            ("é[é", "é[é"),
            ("a\\", "a\\"),
        ] {
            let made = translated(pattern).unwrap_or_else(|| pattern.to_owned());
            assert_eq!(made, expected, "{pattern}");
            assert_eq!(translated(&made), None, "{pattern}");
        }
    }

    #[test]
    fn written_patterns_are_translated_and_columns_keep_their_names() {
        let written = |sql: &str| match parse(sql).unwrap().remove(0).kind {
            Kind::Refused(error) => error.message().to_owned(),
            mut kind => query_of(&mut kind).unwrap().to_string(),
        };
        for (condition, expected) in [
            (r"a ~ '\mb'", r"a ~ '\b{start}b'"),
            (r"a !~* E'\\mb'", r"a !~* '\b{start}b'"),
            (r"regexp_count(a, '\yb\y'::text, 2, 'i') = b", r"regexp_count(a, '\bb\b'::TEXT, 2, 'i') = b"),
            (r"regexp_replace(a, '\y', 'c') = b", r"regexp_replace(a, '\y', 'c') = b"),
            (r"a ~ b", "a ~ b"),
            (r"a = '\m'", r"a = '\m'"),
        ] {
            let expected = expected.replace("::TEXT", "");
            assert_eq!(
                written(&format!("SELECT 1 FROM t WHERE {condition}")),
                format!("SELECT 1 FROM t WHERE {expected}")
            );
        }
        assert_eq!(written(r"SELECT a ~ '\mb' FROM t"), r#"SELECT a ~ '\b{start}b' AS "a ~ '\mb'" FROM t"#);
    }

    proptest! {
        #[test]
        fn any_text_is_translated_once(pattern in r"[]\[\\^:<>&~ma-]{0,12}") {
            let made = translated(&pattern).unwrap_or(pattern);
            prop_assert_eq!(translated(&made), None, "{}", made);
        }
    }
}
