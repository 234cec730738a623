//! Passes on the tokens of a statement, before a tree exists: what the parser does not take in PostgreSQL's words.
//!
//! [`lexer`] cuts a text into tokens; [`prepare_tokens`] has the passes in their order. [`catalog_names`], [`depth`],
//! [`hints`], [`url_secrets`] and [`unknown_clauses`] read tokens and change none.

pub(crate) mod catalog_names;
pub(crate) mod column_names;
pub(crate) mod copied_query;
pub mod depth;
pub(crate) mod hints;
pub(crate) mod lexer;
pub(crate) mod national;
pub(crate) mod nested_joins;
pub(crate) mod overriding;
pub(crate) mod phrases;
pub(crate) mod seeds;
pub(crate) mod signs;
pub mod unknown_clauses;
pub(crate) mod unreserved_words;
pub(crate) mod url_secrets;

use crate::statements::rules::Overriding;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::TokenWithSpan;

/// Where what stands behind CREATE TABLE begins, whatever says between the two how long the table lasts; `keyword` tells the
/// keywords of a statement by their places.
pub(crate) fn behind_create_table(keyword: impl Fn(usize) -> Option<Keyword>) -> Option<usize> {
    if keyword(0) != Some(Keyword::CREATE) {
        return None;
    }
    let mut at = 1;
    while let Some(Keyword::GLOBAL | Keyword::LOCAL | Keyword::TEMP | Keyword::TEMPORARY | Keyword::UNLOGGED) =
        keyword(at)
    {
        at += 1;
    }
    (keyword(at) == Some(Keyword::TABLE)).then_some(at + 1)
}

/// The tokens of a statement as the parser takes them, and what was taken out of them.
pub(crate) struct Prepared {
    pub tokens: Vec<TokenWithSpan>,
    /// The names of `CREATE TABLE t (a, b) AS query`.
    pub column_names: Vec<String>,
    /// Whether `CREATE TABLE ... AS ... WITH NO DATA` was said.
    pub is_without_rows: bool,
    /// What an INSERT says of values for numbered columns.
    pub overriding: Option<Overriding>,
}

/// The passes in their order: what stands for a whole clause is taken out before words are looked at by themselves.
pub(crate) fn prepare_tokens(tokens: &[TokenWithSpan]) -> Prepared {
    let (mut tokens, column_names) = column_names::without_column_names(tokens);
    national::as_texts(&mut tokens);
    unreserved_words::release(&mut tokens);
    seeds::sign(&mut tokens);
    let is_without_rows = phrases::shorten(&mut tokens);
    overriding::order_options(&mut tokens);
    let overriding = overriding::take(&mut tokens);
    Prepared { tokens, column_names, is_without_rows, overriding }
}
