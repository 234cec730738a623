//! Signed seeds: `TABLESAMPLE SYSTEM (10) REPEATABLE (-3)`.
//!
//! The parser takes a number behind REPEATABLE, and a sign is a token of its own. So the sign becomes a part of the number.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// Joins the signs of seeds to their numbers.
pub fn sign(tokens: &mut [TokenWithSpan]) {
    let mut last: [Option<usize>; 3] = [None; 3];
    for at in 0..tokens.len() {
        if matches!(tokens[at].token, Token::Whitespace(_)) {
            continue;
        }
        if let [Some(word), Some(bracket), Some(sign)] = last
            && matches!(&tokens[word].token, Token::Word(word) if word.keyword == Keyword::REPEATABLE && word.quote_style.is_none())
            && tokens[bracket].token == Token::LParen
            && matches!(tokens[sign].token, Token::Minus | Token::Plus)
            && let Token::Number(digits, is_long) = &tokens[at].token
        {
            let minus = if tokens[sign].token == Token::Minus { "-" } else { "" };
            tokens[at].token = Token::Number(format!("{minus}{digits}"), *is_long);
            tokens[sign].token = Token::Whitespace(Whitespace::Space);
        }
        last = [last[1], last[2], Some(at)];
    }
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::script::parse;

    #[test]
    fn seeds_have_signs() {
        let written = |sql: &str| match parse(sql).map(|mut all| all.remove(0).kind) {
            Ok(Kind::Query(query)) => query.to_string(),
            _ => "refused".to_owned(),
        };
        for seed in ["-3", "- 3", "+3", "3"] {
            let sql = format!("SELECT a - 3 FROM t TABLESAMPLE SYSTEM (10) REPEATABLE ({seed})");
            assert_ne!(written(&sql), "refused", "{seed}");
        }
        assert_eq!(written("SELECT a FROM t TABLESAMPLE SYSTEM (10) REPEATABLE (--3)"), "refused");
    }
}
