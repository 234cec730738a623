//! The text of the query whose rows a COPY ... TO writes, for whoever has it run elsewhere.
//!
//! Invariant: it is cut out of what was written: no tree is printed, and hints, which follow a SELECT, are within. What stands before the
//! COPY stays before the query, so that lines keep their numbers.

use crate::script::Offsets;
use crate::tokens::lexer;
use alluvia_types::{Error, Result};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

/// The query of a text that is one COPY ... TO: the one in brackets, or one of the table and its columns.
pub fn copied_text(text: &str) -> Result<String> {
    let lost = || Error::internal("a COPY ... TO has no query");
    let tokens = lexer::of(text)?;
    let mut offsets = Offsets::new(text);
    let mut tokens = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::SemiColon));
    let before = &text[..offsets.at(tokens.next().ok_or_else(lost)?.span.start)];
    let first = tokens.next().ok_or_else(lost)?;
    if first.token == Token::LParen {
        let start = offsets.at(first.span.end);
        let mut open = 1;
        let close = tokens.find(|token| {
            match token.token {
                Token::LParen => open += 1,
                Token::RParen => open -= 1,
                _ => {}
            }
            open == 0
        });
        return Ok(format!("{before}{}", &text[start..offsets.at(close.ok_or_else(lost)?.span.start)]));
    }
    let start = offsets.at(first.span.start);
    let mut name = start..offsets.at(first.span.end);
    let mut columns = "*";
    while let Some(token) = tokens.next() {
        match &token.token {
            Token::Word(word) if word.quote_style.is_none() && word.keyword == Keyword::TO => {
                return Ok(format!("{before}SELECT {columns} FROM {}", &text[name]));
            }
            Token::LParen => {
                let start = offsets.at(token.span.end);
                let close = tokens.find(|token| token.token == Token::RParen).ok_or_else(lost)?;
                columns = &text[start..offsets.at(close.span.start)];
            }
            _ => name.end = offsets.at(token.span.end),
        }
    }
    Err(lost())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_cut_out_as_they_were_written() {
        for (copy, query) in [
            ("COPY t TO STDOUT", "SELECT * FROM t"),
            ("COPY public.\"to\" TO STDOUT;", "SELECT * FROM public.\"to\""),
            ("copy t ( a, \"B c\" ) to 'f.csv'", "SELECT  a, \"B c\"  FROM t"),
            ("COPY (SELECT 'é)', (1)) TO STDOUT", "SELECT 'é)', (1)"),
            ("-- one\n; COPY (VALUES (- -1)) TO 'f' (FORMAT csv)", "-- one\n; VALUES (- -1)"),
            ("COPY(SELECT 1 -- )\n) TO STDOUT", "SELECT 1 -- )\n"),
        ] {
            assert_eq!(copied_text(copy).unwrap(), query);
        }
        assert!(copied_text("").is_err() && copied_text("COPY").is_err() && copied_text("COPY (SELECT").is_err());
    }
}
