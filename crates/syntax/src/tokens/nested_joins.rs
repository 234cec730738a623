//! Joins whose conditions stand behind other joins: `t JOIN u JOIN v ON ... ON ...`, where the first is of `t` with `u JOIN v`.
//!
//! Invariant: the parser is told to nest joins only where a statement has such ones, and none that is NATURAL, which it would nest, too.
//!
//! For the binder: `SELECT * FROM t JOIN u JOIN v ON u.k = v.k ON t.k = u.k`.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Joins that may wait for their conditions at a time: each is a level of the parser's stack.
const WAITING_MAX: usize = 32;

/// Whether a statement of these tokens has joins that wait for their conditions while others begin.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    // Of each open bracket.
    let mut waiting = vec![0usize];
    let (mut most, mut before) = (0, Keyword::NoKeyword);
    for token in tokens {
        let keyword = match &token.token {
            Token::Whitespace(_) => continue,
            Token::Word(word) if word.quote_style.is_none() => word.keyword,
            _ => Keyword::NoKeyword,
        };
        match (&token.token, keyword) {
            (Token::LParen, _) => waiting.push(0),
            (Token::RParen, _) if waiting.len() > 1 => {
                waiting.pop();
            }
            (Token::RParen, _) => {}
            (_, Keyword::NATURAL) => return false,
            (_, Keyword::JOIN) if before != Keyword::CROSS => {
                if let Some(own) = waiting.last_mut() {
                    *own += 1;
                    most = most.max(*own);
                }
            }
            (_, Keyword::ON | Keyword::USING) => {
                if let Some(own) = waiting.last_mut() {
                    *own = own.saturating_sub(1);
                }
            }
            (_, Keyword::SELECT | Keyword::WHERE | Keyword::GROUP | Keyword::ORDER | Keyword::UNION) => {
                if let Some(own) = waiting.last_mut() {
                    *own = 0;
                }
            }
            _ => {}
        }
        before = keyword;
    }
    (2..=WAITING_MAX).contains(&most)
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::script::parse;

    fn written(sql: &str) -> Option<String> {
        match parse(sql).ok()?.remove(0).kind {
            Kind::Query(query) => Some(query.to_string()),
            _ => None,
        }
    }

    #[test]
    fn conditions_behind_other_joins_are_of_the_first() {
        let wanted = "SELECT 1 FROM t JOIN (u LEFT JOIN v ON u.k = v.k) ON t.k = u.k JOIN w ON true";
        let sql = "SELECT 1 FROM t JOIN u LEFT JOIN v ON u.k = v.k ON t.k = u.k JOIN w ON true";
        assert_eq!(written(sql).as_deref(), Some(wanted));
        for same in [
            "SELECT 1 FROM t JOIN u ON t.k = u.k LEFT JOIN v USING(k)",
            "SELECT 1 FROM t CROSS JOIN u JOIN v ON true",
            "SELECT 1 FROM t NATURAL JOIN u LEFT JOIN v ON true",
        ] {
            assert_eq!(written(same).as_deref(), Some(same));
        }
        let many = format!("SELECT 1 FROM t {}", "JOIN u ".repeat(10_000));
        assert_eq!(written(&many), None);
    }
}
