//! Operators that end before a sign: `a>-1`, `a<>-b`, `-+a`.
//!
//! Invariant: as in PostgreSQL, an operator of several characters ends before the `+` and `-` that it would end with, unless one of
//! `~ ! @ # % ^ & | ` ?` is in it; each of those signs is then one of its own. The tokenizer makes one operator of all.

use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};

/// How many signs at the end of a token are not its own.
pub fn behind(token: &Token) -> usize {
    let Token::CustomBinaryOperator(operator) = token else { return 0 };
    // What looks like a comment is one in PostgreSQL: nobody is to take it for signs.
    if operator.contains("--") || operator.contains("/*") || operator.contains(is_special) {
        return 0;
    }
    let signs = operator.len() - operator.trim_end_matches(is_sign).len();
    signs.min(operator.len().saturating_sub(1))
}

/// Makes tokens of their own of the signs that are behind others.
pub fn split(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut all = Vec::with_capacity(tokens.len() + tokens.iter().map(|token| behind(&token.token)).sum::<usize>());
    for token in tokens {
        let signs = behind(&token.token);
        match token.token {
            Token::CustomBinaryOperator(operator) if signs > 0 => {
                let start = token.span.start;
                let own = operator.len() - signs;
                // Operators are of characters of one byte each, and of one line.
                let place = |at: usize| Location::new(start.line, start.column + at as u64);
                all.push(TokenWithSpan::new(known(&operator[..own]), Span::new(start, place(own))));
                let each = operator.bytes().enumerate().skip(own);
                all.extend(each.map(|(at, sign)| {
                    let token = if sign == b'-' { Token::Minus } else { Token::Plus };
                    TokenWithSpan::new(token, Span::new(place(at), place(at + 1)))
                }));
            }
            other => all.push(TokenWithSpan::new(other, token.span)),
        }
    }
    all
}

fn is_sign(of: char) -> bool {
    matches!(of, '+' | '-')
}

fn is_special(of: char) -> bool {
    matches!(of, '~' | '!' | '@' | '#' | '%' | '^' | '&' | '|' | '`' | '?')
}

/// The operator that is written so.
fn known(operator: &str) -> Token {
    match operator {
        "<" => Token::Lt,
        ">" => Token::Gt,
        "<=" => Token::LtEq,
        ">=" => Token::GtEq,
        "<>" => Token::Neq,
        "<=>" => Token::Spaceship,
        "<<" => Token::ShiftLeft,
        ">>" => Token::ShiftRight,
        "-" => Token::Minus,
        "->" => Token::Arrow,
        "->>" => Token::LongArrow,
        other => Token::CustomBinaryOperator(other.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::script::parse;
    use crate::tokens::lexer;

    #[test]
    fn operators_end_before_signs() {
        for (close, wide) in [
            ("a>-1", "a > - 1"),
            ("a>+1", "a > + 1"),
            ("a>=-1", "a >= - 1"),
            ("a<=-1", "a <= - 1"),
            ("a<>-b", "a <> - b"),
            ("-+a", "- + a"),
            ("a-+-b", "a - + - b"),
            ("a<<-1", "a << - 1"),
            ("a->-1", "a -> - 1"),
            ("a|-1", "a |- 1"),
            ("a>--1", "a >-- 1"),
        ] {
            let read = |text: &str| {
                let tokens = lexer::of(text).expect(text).into_iter().map(|token| token.token);
                tokens.filter(|token| !matches!(token, Token::Whitespace(_))).collect::<Vec<_>>()
            };
            assert_eq!(read(close), read(wide), "{close}");
        }
    }

    #[test]
    fn places_are_those_of_the_text() {
        let tokens = lexer::of("é>=-+1").unwrap();
        let places: Vec<_> = tokens.iter().map(|token| (token.span.start.column, token.span.end.column)).collect();
        assert_eq!(places, [(1, 2), (2, 4), (4, 5), (5, 6), (6, 7)]);
    }

    #[test]
    fn comparisons_with_signs_are_queries() {
        let written = |sql: &str| match parse(sql).unwrap().remove(0).kind {
            Kind::Query(query) => query.to_string(),
            _ => panic!("a query"),
        };
        assert_eq!(written("SELECT a FROM t WHERE a>-1 AND b<>-2"), "SELECT a FROM t WHERE a > -1 AND b <> -2");
    }
}
