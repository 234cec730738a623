//! Statement hints: `SELECT /*+ freshness('5s') */ ...`.
//!
//! A hint holds for the whole statement, whichever of its SELECTs it follows. One that is unknown, misplaced or given twice
//! is refused: a hint that does nothing would be believed to do something.

use alluvia_types::{Error, ErrorKind, Result, near_names};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use crate::tokens::lexer;

/// What a statement's hints ask for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hints {
    /// As written: `5s`, `merged`.
    pub freshness: Option<String>,
    /// As written: `0.3`.
    pub sample_fraction: Option<String>,
}

/// The hints of one statement.
pub fn read(tokens: &[TokenWithSpan]) -> Result<Hints> {
    let mut hints = Hints::default();
    let mut after_select = false;
    for token in tokens {
        match &token.token {
            Token::Whitespace(Whitespace::MultiLineComment(comment)) if comment.starts_with('+') => {
                if !after_select {
                    return Err(misplaced(token));
                }
                read_one(&comment[1..], &mut hints)?;
            }
            Token::Whitespace(Whitespace::SingleLineComment { comment, .. })
                if comment.starts_with('+') && after_select =>
            {
                return Err(misplaced(token));
            }
            Token::Whitespace(_) => {}
            Token::Word(word) => after_select = word.keyword == Keyword::SELECT && word.quote_style.is_none(),
            _ => after_select = false,
        }
    }
    Ok(hints)
}

fn misplaced(token: &TokenWithSpan) -> Error {
    let start = token.span.start;
    Error::new(ErrorKind::Syntax, format!("a hint is out of place at line {}, column {}", start.line, start.column))
        .with_hint("a hint follows SELECT: SELECT /*+ freshness('5s') */ ...")
}

/// The hints that there are.
const NAMES: [&str; 2] = ["freshness", "sample_fraction"];

/// How hints begin that are another database's.
const OF_TIDB: &str = "tidb_";

fn read_one(text: &str, hints: &mut Hints) -> Result<()> {
    let wrong = || {
        Error::new(ErrorKind::Syntax, format!("the hint {:?} cannot be read", text.trim()))
            .with_hint("write SELECT /*+ freshness('5s') */ or SELECT /*+ sample_fraction(0.3) */")
    };
    let tokens = lexer::of(text).map_err(|_| wrong())?;
    let tokens = tokens.iter().map(|token| &token.token);
    let tokens: Vec<&Token> = tokens.filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    let mut rest = tokens.as_slice();
    // What go-tpc says to TiDB, whichever server it is at: as a comment is to PostgreSQL.
    if let [Token::Word(name), ..] = rest
        && name.value.to_ascii_lowercase().starts_with(OF_TIDB)
    {
        return Ok(());
    }
    if rest.is_empty() {
        return Err(wrong());
    }
    while let [Token::Word(name), Token::LParen, value, Token::RParen, tail @ ..] = rest {
        let known = name.value.to_ascii_lowercase();
        let place = match known.as_str() {
            "freshness" => &mut hints.freshness,
            "sample_fraction" => &mut hints.sample_fraction,
            _ => return Err(unknown(&name.value)),
        };
        let value = match value {
            Token::SingleQuotedString(value) => value.clone(),
            Token::Word(word) if known == "freshness" => word.value.clone(),
            Token::Number(value, _) if known == "sample_fraction" => value.clone(),
            _ => return Err(wrong()),
        };
        if place.replace(value).is_some() {
            return Err(Error::new(ErrorKind::Syntax, format!("the hint {known} is given twice")));
        }
        rest = tail;
    }
    match rest {
        [] => Ok(()),
        // Of another shape than `name(value)`: its name is what matters, when it has one.
        [Token::Word(name), ..] if !NAMES.iter().any(|known| name.value.eq_ignore_ascii_case(known)) => {
            Err(unknown(&name.value))
        }
        _ => Err(wrong()),
    }
}

fn unknown(name: &str) -> Error {
    let error = Error::new(ErrorKind::NotSupported, format!("the hint {name} is not known"));
    match near_names(&name.to_ascii_lowercase(), NAMES).first() {
        Some(near) => error.with_hint(format!("did you mean {near}?")),
        None => error.with_hint("hints are freshness('5s') and sample_fraction(0.3)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(sql: &str) -> Result<Hints> {
        read(&lexer::of(sql).unwrap())
    }

    #[test]
    fn hints_are_read_after_select_and_refused_otherwise() {
        let found = hints("SELECT /*+ Freshness('5s') */ 1").unwrap();
        assert_eq!(found.freshness.as_deref(), Some("5s"));
        assert_eq!(
            hints("WITH a AS (SELECT /*+ freshness(merged) */ 1) SELECT 2").unwrap().freshness.unwrap(),
            "merged"
        );
        let both = hints("SELECT /*+ sample_fraction(0.25) freshness('1s') */ 1").unwrap();
        assert_eq!((both.sample_fraction.as_deref(), both.freshness.as_deref()), (Some("0.25"), Some("1s")));
        assert_eq!(hints("SELECT /* + no hint */ 1 /* nor this */").unwrap(), Hints::default());
        assert_eq!(hints("SELECT /*+ TIDB_INLJ(t, u) */ 1").unwrap(), Hints::default());
        for refused in [
            "SELECT /*+ freshnes('5s') */ 1",
            "SELECT /*+ parallel(4, 2) */ 1",
            "SELECT /*+ freshness(5) */ 1",
            "SELECT /*+ sample_fraction(half) */ 1",
            "SELECT /*+ sample_fraction(0.5) sample_fraction(0.5) */ 1",
            "SELECT /*+ freshness('1s') freshness('2s') */ 1",
            "SELECT /*+ */ 1",
            "SELECT 1 /*+ freshness('5s') */",
            "INSERT /*+ append() */ INTO t VALUES (1)",
            "SELECT --+ freshness('5s')\n 1",
        ] {
            assert!(hints(refused).is_err(), "{refused}");
        }
        assert!(hints("SELECT /*+ freshnes('5s') */ 1").unwrap_err().to_string().contains("did you mean freshness"));
    }
}
