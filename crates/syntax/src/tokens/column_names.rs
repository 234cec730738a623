//! The names of columns in `CREATE TABLE t (a, b) AS query`, which the parser does not know: every other list of columns has types.
//!
//! Invariant: only the parenthesis directly behind the table's name is such a list; what stands further on belongs to options or to the query.

use crate::tokens::behind_create_table;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Takes the list out of `CREATE TABLE t (a, b) [WITH ...] AS ...`.
pub(crate) fn without_column_names(tokens: &[TokenWithSpan]) -> (Vec<TokenWithSpan>, Vec<String>) {
    let meaning: Vec<(usize, &Token)> = tokens
        .iter()
        .enumerate()
        .map(|(at, token)| (at, &token.token))
        .filter(|(_, token)| !matches!(token, Token::Whitespace(_)))
        .collect();
    let word = |at: usize| match meaning.get(at) {
        Some((_, Token::Word(word))) => Some(word),
        _ => None,
    };
    let all = || (tokens.to_vec(), Vec::new());
    let starts =
        |at: usize, keyword| word(at).is_some_and(|word| word.keyword == keyword && word.quote_style.is_none());
    let keyword = |at: usize| word(at).filter(|word| word.quote_style.is_none()).map(|word| word.keyword);
    let Some(first) = behind_create_table(keyword) else { return all() };
    let Some(open) = behind_name(&meaning, first) else { return all() };
    let mut names = Vec::new();
    let mut at = open + 1;
    let close = loop {
        let Some(name) = word(at) else { return all() };
        names.push(match name.quote_style {
            Some(_) => name.value.clone(),
            None => name.value.to_ascii_lowercase(),
        });
        match meaning.get(at + 1) {
            Some((_, Token::Comma)) => at += 2,
            Some((_, Token::RParen)) => break at + 1,
            _ => return all(),
        }
    };
    if ![Keyword::AS, Keyword::WITH, Keyword::ON].into_iter().any(|keyword| starts(close + 1, keyword)) {
        return all();
    }
    let mut rest = tokens[..meaning[open].0].to_vec();
    rest.extend_from_slice(&tokens[meaning[close].0 + 1..]);
    (rest, names)
}

/// Where the parenthesis directly behind the name of a CREATE TABLE is: one further on is an option's, or part of its query.
fn behind_name(meaning: &[(usize, &Token)], first: usize) -> Option<usize> {
    let keyword = |at: usize| match meaning.get(at) {
        Some((_, Token::Word(word))) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    };
    let if_not_exists = [Some(Keyword::IF), Some(Keyword::NOT), Some(Keyword::EXISTS)];
    let mut at = if [first, first + 1, first + 2].map(keyword) == if_not_exists { first + 3 } else { first };
    while let Some((_, Token::Word(_))) = meaning.get(at) {
        match meaning.get(at + 1) {
            Some((_, Token::Period)) => at += 2,
            Some((_, Token::LParen)) => return Some(at + 1),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::tokenizer::Tokenizer;

    #[test]
    fn only_the_list_behind_the_name_is_one() {
        for (sql, names, rest) in [
            ("CREATE TABLE t (a, \"B\") AS SELECT 1", vec!["a", "B"], "CREATE TABLE t  AS SELECT 1"),
            (
                "CREATE TABLE IF NOT EXISTS s.t(A) WITH (x = 'y') AS SELECT 1",
                vec!["a"],
                "CREATE TABLE IF NOT EXISTS s.t WITH (x = 'y') AS SELECT 1",
            ),
            (
                "CREATE LOCAL TEMP TABLE t (a, b) ON COMMIT DROP AS SELECT 1",
                vec!["a", "b"],
                "CREATE LOCAL TEMP TABLE t  ON COMMIT DROP AS SELECT 1",
            ),
            ("CREATE TABLE t AS SELECT sum(a) AS b FROM u", vec![], "CREATE TABLE t AS SELECT sum(a) AS b FROM u"),
            ("CREATE TABLE t WITH (x) AS SELECT 1", vec![], "CREATE TABLE t WITH (x) AS SELECT 1"),
            ("CREATE TABLE t (a INT)", vec![], "CREATE TABLE t (a INT)"),
            ("CREATE TABLE t (a)", vec![], "CREATE TABLE t (a)"),
        ] {
            let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().unwrap();
            let (left, found) = without_column_names(&tokens);
            let left: String = left.iter().map(|token| token.token.to_string()).collect();
            assert_eq!((found, left.as_str()), (names.into_iter().map(str::to_owned).collect(), rest), "{sql}");
        }
    }
}
