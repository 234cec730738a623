//! Whether a statement names something of PostgreSQL's catalog.
//!
//! Invariant: such a statement has its own way with lists and `ARRAY(SELECT ...)` (`pg_catalog::rewrite`, which knows
//! what the catalog has none of), whether it has parameters or not. No pass of this crate writes these out in it.

use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Whether one of the words begins with `pg_`.
pub(crate) fn names_catalog(tokens: &[TokenWithSpan]) -> bool {
    let is_of_catalog = |word: &str| word.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("pg_"));
    tokens.iter().any(|token| matches!(&token.token, Token::Word(word) if is_of_catalog(&word.value)))
}
