//! Words that are names unless a clause follows: `FROM pg_attribute at JOIN ...`, as pgAdmin writes it.
//!
//! The parser takes AT, BEFORE and CHANGES behind a table for an older version of it, `AT (TIMESTAMP => ...)`, which PostgreSQL does not have: there
//! they are words like any other, but for `AT TIME ZONE`. So they are here where neither a bracket nor TIME follows.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

const WORDS: [Keyword; 3] = [Keyword::AT, Keyword::BEFORE, Keyword::CHANGES];

/// Makes names of the words that begin no clause.
pub fn release(tokens: &mut [TokenWithSpan]) {
    let mut clause_follows = false;
    for token in tokens.iter_mut().rev() {
        match &mut token.token {
            Token::Whitespace(_) => {}
            Token::Word(word) => {
                if !clause_follows && word.quote_style.is_none() && WORDS.contains(&word.keyword) {
                    word.keyword = Keyword::NoKeyword;
                }
                clause_follows = word.keyword == Keyword::TIME && word.quote_style.is_none();
            }
            other => clause_follows = *other == Token::LParen,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::script::parse;

    #[test]
    fn at_is_a_name_of_a_table() {
        for sql in [
            "SELECT at.a FROM t at LEFT JOIN u before ON at.a = before.a WHERE at.b = false",
            "SELECT at AT TIME ZONE 'UTC' FROM t changes",
        ] {
            let kind = parse(sql).unwrap().remove(0).kind;
            assert!(matches!(kind, Kind::Query(_)), "{sql}");
        }
        assert!(!matches!(
            parse("SELECT a FROM t AT (TIMESTAMP => 'x')").map(|mut all| all.remove(0).kind),
            Ok(Kind::Query(_))
        ));
    }
}
