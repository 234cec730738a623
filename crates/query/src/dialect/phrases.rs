//! What PostgreSQL's grammar says in more words than the parser knows: `TRIM(TRAILING FROM x)`, `FETCH FIRST 5 ROWS ONLY`, and `WITH [NO] DATA`
//! behind CREATE TABLE ... AS.
//!
//! Invariant: only a whole phrase is changed. Half of one is left to the parser, which refuses it; so are `WITH TIES` and `PERCENT`, which
//! mean something else.

use datafusion::sql::sqlparser::ast::{Expr, LimitClause, Query, Value};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// Changes the phrases of a statement; gives whether it ends with `WITH NO DATA`.
pub(super) fn shorten(tokens: &mut [TokenWithSpan]) -> bool {
    let meaning: Vec<usize> =
        (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).collect();
    let mut phrases = Phrases { tokens, meaning };
    for at in 0..phrases.meaning.len() {
        match phrases.word(at) {
            Some(Keyword::TRIM) => phrases.trim(at),
            Some(Keyword::FETCH) => phrases.fetch(at),
            _ => {}
        }
    }
    phrases.data()
}

/// Leaves a query without rows.
pub(super) fn without_rows(query: &mut Query) {
    let none = Expr::Value(Value::Number("0".to_owned(), false).into());
    query.limit_clause = Some(LimitClause::LimitOffset { limit: Some(none), offset: None, limit_by: Vec::new() });
}

struct Phrases<'a> {
    tokens: &'a mut [TokenWithSpan],
    /// Where those are that are no white space.
    meaning: Vec<usize>,
}

impl Phrases<'_> {
    fn token(&self, at: usize) -> Option<&Token> {
        self.meaning.get(at).map(|place| &self.tokens[*place].token)
    }

    fn word(&self, at: usize) -> Option<Keyword> {
        match self.token(at) {
            Some(Token::Word(word)) if word.quote_style.is_none() => Some(word.keyword),
            _ => None,
        }
    }

    fn put(&mut self, at: usize, token: Token) {
        if let Some(place) = self.meaning.get(at) {
            self.tokens[*place].token = token;
        }
    }

    fn take_out(&mut self, at: usize) {
        self.put(at, Token::Whitespace(Whitespace::Space));
    }

    /// `TRIM([BOTH | LEADING | TRAILING] FROM x)`: the parser takes it without FROM.
    fn trim(&mut self, at: usize) {
        if self.token(at + 1) != Some(&Token::LParen) {
            return;
        }
        let has_end = matches!(self.word(at + 2), Some(Keyword::BOTH | Keyword::LEADING | Keyword::TRAILING));
        let from = if has_end { at + 3 } else { at + 2 };
        if self.word(from) == Some(Keyword::FROM) {
            self.take_out(from);
        }
    }

    /// `FETCH {FIRST | NEXT} [count] {ROW | ROWS} ONLY` is LIMIT, of one row without a count.
    fn fetch(&mut self, at: usize) {
        if !matches!(self.word(at + 1), Some(Keyword::FIRST | Keyword::NEXT)) {
            return;
        }
        let mut end = at + 2;
        while !matches!(self.word(end), Some(Keyword::ROW | Keyword::ROWS)) {
            let is_count = match self.token(end) {
                Some(Token::Word(word)) => word.keyword != Keyword::PERCENT && word.keyword != Keyword::FETCH,
                token => token.is_some(),
            };
            if !is_count {
                return;
            }
            end += 1;
        }
        if self.word(end + 1) != Some(Keyword::ONLY) {
            return;
        }
        self.put(at, Token::make_keyword("LIMIT"));
        self.take_out(at + 1);
        self.take_out(end + 1);
        match end == at + 2 {
            true => self.put(end, Token::Number("1".to_owned(), false)),
            false => self.take_out(end),
        }
    }

    /// Takes `WITH [NO] DATA` from the end of a CREATE TABLE; gives whether there are to be none.
    fn data(&mut self) -> bool {
        let last = self.meaning.len();
        let is_table = self.word(0) == Some(Keyword::CREATE) && self.word(1) == Some(Keyword::TABLE);
        if !is_table || last < 6 || self.word(last - 1) != Some(Keyword::DATA) {
            return false;
        }
        let has_none = self.word(last - 2) == Some(Keyword::NO);
        let with = if has_none { last - 3 } else { last - 2 };
        // An alias may be called data, but none behind WITH.
        if self.word(with) != Some(Keyword::WITH) {
            return false;
        }
        (with..last).for_each(|at| self.take_out(at));
        has_none
    }
}

#[cfg(test)]
mod tests {
    use crate::dialect::{Kind, parse};

    fn told(sql: &str) -> Option<String> {
        match parse(sql).map(|mut all| all.remove(0).kind) {
            Ok(Kind::Query(query)) => Some(query.to_string()),
            Ok(Kind::CreateTable(create)) => create.query.as_ref().map(|query| query.to_string()),
            _ => None,
        }
    }

    #[test]
    fn phrases_are_what_the_parser_knows() {
        for (sql, wanted) in [
            ("SELECT trim(trailing from a) AS x FROM t", "SELECT TRIM(TRAILING a) AS x FROM t"),
            ("SELECT trim(from a) AS x FROM t", "SELECT TRIM(a) AS x FROM t"),
            ("SELECT trim(both 'x' from a) AS x FROM t", "SELECT TRIM(BOTH 'x' FROM a) AS x FROM t"),
            ("SELECT a FROM t ORDER BY a FETCH FIRST 3 ROWS ONLY", "SELECT a FROM t ORDER BY a LIMIT 3"),
            ("SELECT a FROM t FETCH NEXT ROW ONLY", "SELECT a FROM t LIMIT 1"),
            ("SELECT a FROM t FETCH FIRST (1 + 2) ROWS ONLY", "SELECT a FROM t LIMIT (1 + 2)"),
            (
                "SELECT a FROM (SELECT a FROM t FETCH FIRST ROW ONLY) AS s",
                "SELECT a FROM (SELECT a FROM t LIMIT 1) AS s",
            ),
            ("CREATE TABLE u AS SELECT a FROM t WITH NO DATA", "SELECT a FROM t LIMIT 0"),
            ("CREATE TABLE u AS SELECT a FROM t LIMIT 5 WITH DATA", "SELECT a FROM t LIMIT 5"),
            ("CREATE TABLE u AS SELECT a FROM t AS data", "SELECT a FROM t AS data"),
        ] {
            assert_eq!(told(sql).as_deref(), Some(wanted), "{sql}");
        }
        assert_eq!(
            told("SELECT a FROM t OFFSET 1 ROW FETCH NEXT 2 ROWS ONLY"),
            told("SELECT a FROM t OFFSET 1 ROW LIMIT 2")
        );
        for refused in
            ["SELECT a FROM t FETCH FIRST 3 ROWS WITH TIES", "SELECT a FROM t FETCH FIRST 3 PERCENT ROWS ONLY"]
        {
            assert_eq!(told(refused), None, "{refused}");
        }
    }
}
