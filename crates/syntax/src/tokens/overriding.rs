//! `OVERRIDING {SYSTEM | USER} VALUE` of INSERT, and the options of an identity column in any order, neither of which the
//! parser knows.

use crate::statements::rules::Overriding;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// Takes OVERRIDING out of an INSERT, and gives what it says.
pub(crate) fn take(tokens: &mut [TokenWithSpan]) -> Option<Overriding> {
    let meaning = meaning(tokens);
    let is = |at: usize, word: &str| meaning.get(at).is_some_and(|place| is_word(&tokens[*place].token, word));
    if !meaning.iter().any(|place| is_word(&tokens[*place].token, "insert")) {
        return None;
    }
    let at = (0..meaning.len()).find(|&at| {
        is(at, "overriding")
            && (is(at + 1, "system") || is(at + 1, "user"))
            && is(at + 2, "value")
            && begins_rows(meaning.get(at + 3).map(|place| &tokens[*place].token))
    })?;
    let overriding = if is(at + 1, "system") { Overriding::System } else { Overriding::User };
    for place in &meaning[at..at + 3] {
        tokens[*place].token = Token::Whitespace(Whitespace::Space);
    }
    Some(overriding)
}

/// Puts the options of identity columns into the order in which the parser takes them.
pub(crate) fn order_options(tokens: &mut [TokenWithSpan]) {
    let meaning = meaning(tokens);
    let mut at = 0;
    while at < meaning.len() {
        let token = |at: usize| meaning.get(at).map(|place| &tokens[*place].token);
        let is = |at: usize, word: &str| token(at).is_some_and(|token| is_word(token, word));
        // A table may be called so, and have columns of such names.
        let begins = at > 0 && is(at - 1, "as") && is(at, "identity") && token(at + 1) == Some(&Token::LParen);
        let first = at + 2;
        at += 1;
        if !begins {
            continue;
        }
        let Some(length) = (first..meaning.len()).position(|at| token(at) == Some(&Token::RParen)) else { return };
        let mut options: Vec<(usize, Vec<Token>)> = Vec::new();
        for place in &meaning[first..first + length] {
            let token = tokens[*place].token.clone();
            match (rank(&token), options.last_mut()) {
                // What NO is said of comes behind it.
                (Some(rank), Some((last, option))) if *last == usize::MAX => {
                    *last = rank;
                    option.push(token);
                }
                (Some(rank), _) => options.push((rank, vec![token])),
                (None, Some((_, option))) => option.push(token),
                (None, None) => return,
            }
        }
        options.sort_by_key(|(rank, _)| *rank);
        let ordered = options.into_iter().flat_map(|(_, option)| option);
        for (place, token) in meaning[first..first + length].iter().zip(ordered) {
            tokens[*place].token = token;
        }
    }
}

/// The place of an option that begins with this word; one that begins with NO is told by the next.
fn rank(token: &Token) -> Option<usize> {
    let Token::Word(word) = token else { return None };
    match word.keyword {
        Keyword::INCREMENT => Some(0),
        Keyword::MINVALUE => Some(1),
        Keyword::MAXVALUE => Some(2),
        Keyword::START => Some(3),
        Keyword::CACHE => Some(4),
        Keyword::CYCLE => Some(5),
        Keyword::NO => Some(usize::MAX),
        _ => None,
    }
}

fn meaning(tokens: &[TokenWithSpan]) -> Vec<usize> {
    (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).collect()
}

fn is_word(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

fn begins_rows(token: Option<&Token>) -> bool {
    match token {
        Some(Token::LParen) => true,
        Some(Token::Word(word)) => {
            matches!(
                word.keyword,
                Keyword::VALUES | Keyword::SELECT | Keyword::WITH | Keyword::TABLE | Keyword::DEFAULT
            )
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::script::tests::one;

    #[test]
    fn a_table_may_be_called_identity() {
        let insert = match one("INSERT INTO identity (start, increment) SELECT 1, 2").kind {
            Kind::Insert(insert) => insert,
            other => panic!("{other:?}"),
        };
        let columns: Vec<String> = insert.columns.iter().flatten().map(ToString::to_string).collect();
        assert_eq!(
            (insert.table.name.as_str(), columns),
            ("identity", vec!["start".to_owned(), "increment".to_owned()])
        );
    }
}
