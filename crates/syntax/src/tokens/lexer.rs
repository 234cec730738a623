//! From text to tokens, and no more of them than a statement may have.
//!
//! Invariants:
//! - Never more than [`TOKENS_MAX`] tokens are held, however long and dense the text: the one that is too many stops the tokenizer.
//! - What is refused here is too large, whatever its words mean; a text that is no SQL at all before it is a syntax error.
//!
//! Parsing is not accounted to `memory_limit`. A token of a list takes about a hundred bytes, 200 of tree, and while it is parsed up to 750 in
//! all, so a text that is as long as a message may be could take tens of gigabytes. The tokenizer is given a whole text and has no way to be
//! told to stop; so it is unwound through, which calls no panic hook. It holds nothing that could be left half done.

use super::signs;
use crate::grammar::Grammar;
use alluvia_types::{Error, ErrorKind, Result};
use sqlparser::tokenizer::{Location, TokenWithSpan, Tokenizer};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Tokens of a text, white space and comments among them: at this number the worst text takes about 750 MB while it is parsed.
const TOKENS_MAX: usize = 1_000_000;
/// Bytes of text that a token takes, about: there is room for so many from the start.
const BYTES_PER_TOKEN: usize = 6;
/// Tokens for which there is room from the start, at most: of a long text it is not known whether it is one token or many.
const ROOM_TOKENS_MAX: usize = 1 << 16;

/// What the tokenizer is stopped with: where the first token stands that is too many.
struct Stopped(Location);

/// The tokens of a text, with their places.
pub fn of(text: &str) -> Result<Vec<TokenWithSpan>> {
    up_to(TOKENS_MAX, text)
}

fn up_to(most: usize, text: &str) -> Result<Vec<TokenWithSpan>> {
    let grammar = Grammar::for_tokens(0);
    let mut tokens = Vec::with_capacity((text.len() / BYTES_PER_TOKEN).min(ROOM_TOKENS_MAX));
    let (mut left, mut has_signs) = (most, false);
    let counted = |token: TokenWithSpan| {
        let signs = signs::behind(&token.token);
        if left <= signs {
            resume_unwind(Box::new(Stopped(token.span.start)));
        }
        left -= 1 + signs;
        has_signs |= signs > 0;
        token
    };
    let cut = catch_unwind(AssertUnwindSafe(|| {
        Tokenizer::new(&grammar, text).tokenize_with_location_into_buf_with_mapper(&mut tokens, counted)
    }));
    match cut {
        Ok(cut) => cut.map_err(|error| Error::new(ErrorKind::Syntax, error.to_string()))?,
        Err(panic) => match panic.downcast::<Stopped>() {
            Ok(stopped) => return Err(too_many(most, stopped.0)),
            Err(panic) => resume_unwind(panic),
        },
    }
    Ok(if has_signs { signs::split(tokens) } else { tokens })
}

fn too_many(most: usize, place: Location) -> Error {
    let (line, column) = (place.line, place.column);
    let message = format!(
        "the text has more than {most} tokens (words, literals, signs and spaces), which is passed at line {line}, column {column}"
    );
    Error::new(ErrorKind::TooLarge, message).with_hint(
        "load rows with COPY, or with an INSERT of literals alone, which may be as long as a message; join long lists as a table; send the statements of a long script one by one",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_that_is_too_many_is_refused_with_its_place() {
        let sql = "SELECT 1,\n  'a,b' -- c, d";
        // SELECT, space, 1, comma, newline, two spaces, string, space, comment.
        assert_eq!(up_to(10, sql).unwrap().len(), 10);
        let error = up_to(7, sql).unwrap_err();
        assert_eq!((error.kind(), error.kind().sqlstate()), (ErrorKind::TooLarge, "54000"));
        assert!(
            error.message().contains("more than 7 tokens") && error.message().contains("line 2, column 3"),
            "{error}"
        );
        assert!(error.hint().is_some_and(|hint| hint.contains("COPY")));
        assert!(up_to(0, "").unwrap().is_empty() && up_to(0, " ").is_err());
    }

    #[test]
    fn what_is_wrong_before_the_bound_is_a_syntax_error_and_what_is_behind_it_is_not_looked_at() {
        assert_eq!(up_to(10, "SELECT 'a").unwrap_err().kind(), ErrorKind::Syntax);
        assert_eq!(up_to(2, "SELECT 1 'a").unwrap_err().kind(), ErrorKind::TooLarge);
    }

    #[test]
    fn length_alone_is_not_bounded_and_density_is() {
        let long = format!("SELECT '{}' /* {} */", "1,".repeat(TOKENS_MAX), "1,".repeat(TOKENS_MAX));
        assert_eq!(of(&long).unwrap().len(), 5);
        assert_eq!(of(&format!("1{}1", "-+".repeat(TOKENS_MAX))).unwrap_err().kind(), ErrorKind::TooLarge);
        for dense in ["1,", "(", " ", "a ", "'';", "\"a\".", "/**/", "$1+", "--\n"] {
            assert_eq!(of(&dense.repeat(TOKENS_MAX + 1)).unwrap_err().kind(), ErrorKind::TooLarge, "{dense}");
        }
    }
}
