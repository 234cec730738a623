//! Clauses that the parser does not know, and that mean something: they are refused by name.
//!
//! Invariant: only statements that do not parse are looked at, so that none of these words is taken from a name.

use alluvia_types::Error;
use alluvia_values::errors::not_supported;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The refusal of the first clause of a statement that the parser did not understand, if it is one of these.
pub fn refusal(tokens: &[TokenWithSpan]) -> Option<Error> {
    let meaning = || tokens.iter().map(|token| &token.token).filter(|token| !matches!(token, Token::Whitespace(_)));
    let words: Vec<String> = meaning().map(word_of).collect();
    let signs: Vec<&Token> = meaning().collect();
    let begins = |at: usize, wanted: &[&str]| {
        wanted.iter().enumerate().all(|(by, word)| words.get(at + by).is_some_and(|found| found == word))
    };
    let is_table = begins(0, &["CREATE"]) && words.iter().take(4).any(|word| word == "TABLE");
    (0..words.len()).find_map(|at| match words[at].as_str() {
        "USING" if matches!(signs.get(at + 1), Some(Token::Lt | Token::Gt)) => Some(
            not_supported("USING in ORDER BY").with_hint("write ASC instead of USING <, and DESC instead of USING >"),
        ),
        "USING" if is_table && at > 2 && words.get(at + 1).is_some_and(|word| !word.is_empty()) => {
            Some(not_supported("USING in CREATE TABLE").with_hint("leave it out: tables have one form of storage"))
        }
        // At the beginning it is a query's name.
        "WITH" if at > 0 && (begins(at + 1, &["ROLLUP"]) || begins(at + 1, &["CUBE"])) => {
            let name = &words[at + 1];
            Some(not_supported(format!("WITH {name}")).with_hint(format!("write GROUP BY {name} (a, b)")))
        }
        _ => None,
    })
}

/// A word in capitals, of anything else nothing.
fn word_of(token: &Token) -> String {
    match token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::script::parse;

    #[test]
    fn clauses_are_refused_by_name() {
        for (sql, name) in [
            ("CREATE TABLE t (a INT) USING heap", "USING in CREATE TABLE"),
            ("SELECT a FROM t ORDER BY a USING <", "USING in ORDER BY"),
            ("SELECT a FROM t ORDER BY a USING >, b", "USING in ORDER BY"),
            ("SELECT a, count(*) FROM t GROUP BY a WITH ROLLUP", "WITH ROLLUP"),
            ("SELECT a, count(*) FROM t GROUP BY a WITH CUBE", "WITH CUBE"),
        ] {
            match parse(sql).map(|mut all| all.remove(0).kind) {
                Ok(Kind::Refused(error)) => {
                    assert!(error.message().starts_with(name) && error.hint().is_some(), "{sql}: {error}");
                }
                other => panic!("{sql}: {other:?}"),
            }
        }
        assert!(matches!(
            parse("SELECT overriding FROM t JOIN u USING (a)").map(|mut all| all.remove(0).kind),
            Ok(Kind::Query(_))
        ));
        assert!(parse("SELECT a FROM t USING USING").is_err());
    }
}
