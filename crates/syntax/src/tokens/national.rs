//! Texts of the form `N'...'`.
//!
//! Invariant: they are texts like any other, as in PostgreSQL: all text is Unicode.

use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Makes plain texts of them.
pub fn as_texts(tokens: &mut [TokenWithSpan]) {
    for token in tokens {
        if let Token::NationalStringLiteral(text) = &mut token.token {
            token.token = Token::SingleQuotedString(std::mem::take(text));
        }
    }
}
