//! What PostgreSQL's grammar says in more words than the parser knows: `TRIM(TRAILING FROM x)`, `FETCH FIRST 5 ROWS ONLY`, `WITH [NO] DATA`
//! behind CREATE TABLE ... AS; locks of rows that are taken for stronger ones; and what means nothing here: `FROM ONLY t`, where no table inherits, and `[NOT] DEFERRABLE` of a transaction,
//! where none waits.
//!
//! Invariant: only a whole phrase is changed. Half of one is left to the parser, which refuses it; so are `WITH TIES` and `PERCENT`, which
//! mean something else.

use crate::tokens::behind_create_table;
use sqlparser::ast::{Expr, LimitClause, Query, Value};
use sqlparser::keywords::{Keyword, RESERVED_FOR_TABLE_ALIAS};
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// Changes the phrases of a statement; gives whether it ends with `WITH NO DATA`.
pub fn shorten(tokens: &mut [TokenWithSpan]) -> bool {
    let meaning: Vec<usize> =
        (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).collect();
    let mut phrases = Phrases { tokens, meaning };
    let has_modes = phrases.has_modes();
    // For each open bracket, whether what a comma parts are tables.
    let mut of_tables = vec![false];
    for at in 0..phrases.meaning.len() {
        phrases.follow(at, &mut of_tables);
        match phrases.word(at) {
            Some(Keyword::TRIM) => phrases.trim(at),
            Some(Keyword::FETCH) => phrases.fetch(at),
            Some(Keyword::FOR) => phrases.lock(at),
            Some(Keyword::ONLY) => phrases.only(at, of_tables.last() == Some(&true)),
            Some(Keyword::DEFERRABLE) if has_modes => phrases.deferrable(at),
            _ => {}
        }
    }
    phrases.data()
}

/// Leaves a query without rows.
pub fn without_rows(query: &mut Query) {
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

    /// `FOR NO KEY UPDATE` and `FOR KEY SHARE` as the stronger `FOR UPDATE` and `FOR SHARE`: who holds a row may have changed its key.
    fn lock(&mut self, at: usize) {
        let left_out = match (self.word(at + 1), self.word(at + 2), self.word(at + 3)) {
            (Some(Keyword::NO), Some(Keyword::KEY), Some(Keyword::UPDATE)) => 2,
            (Some(Keyword::KEY), Some(Keyword::SHARE), _) => 1,
            _ => 0,
        };
        (at + 1..=at + left_out).for_each(|place| self.take_out(place));
    }

    /// Notes of what kind of list the token at `at` makes what follows.
    fn follow(&self, at: usize, of_tables: &mut Vec<bool>) {
        let Some(token) = self.token(at) else { return };
        let is_of_tables = match token {
            Token::LParen => return of_tables.push(false),
            Token::RParen if of_tables.len() > 1 => {
                of_tables.pop();
                return;
            }
            Token::Word(word) if word.quote_style.is_none() => match word.keyword {
                Keyword::FROM if self.word_before(at, 1) == Some(Keyword::DISTINCT) => return,
                Keyword::FROM => true,
                Keyword::SELECT
                | Keyword::WHERE
                | Keyword::GROUP
                | Keyword::HAVING
                | Keyword::WINDOW
                | Keyword::QUALIFY
                | Keyword::ORDER
                | Keyword::LIMIT
                | Keyword::OFFSET
                | Keyword::VALUES => false,
                _ => return,
            },
            _ => return,
        };
        if let Some(last) = of_tables.last_mut() {
            *last = is_of_tables;
        }
    }

    fn word_before(&self, at: usize, by: usize) -> Option<Keyword> {
        at.checked_sub(by).and_then(|place| self.word(place))
    }

    /// `FROM ONLY t`, `JOIN ONLY t`, `FROM ONLY (t)`. Without a name behind it `only` is one itself.
    fn only(&mut self, at: usize, is_among_tables: bool) {
        let stands_before_table = match self.word_before(at, 1) {
            Some(Keyword::JOIN) => true,
            Some(Keyword::FROM) => self.word_before(at, 2) != Some(Keyword::DISTINCT),
            _ => is_among_tables && at.checked_sub(1).and_then(|before| self.token(before)) == Some(&Token::Comma),
        };
        let is_name = |token: Option<&Token>| match token {
            Some(Token::Word(word)) => {
                let is_clause = word.keyword == Keyword::AS || RESERVED_FOR_TABLE_ALIAS.contains(&word.keyword);
                word.quote_style.is_some() || !is_clause
            }
            _ => false,
        };
        if !stands_before_table {
            return;
        }
        if is_name(self.token(at + 1)) {
            return self.take_out(at);
        }
        let mut end = at + 2;
        while matches!(self.token(end), Some(Token::Word(_) | Token::Period)) {
            end += 1;
        }
        let is_in_brackets = self.token(at + 1) == Some(&Token::LParen) && self.token(end) == Some(&Token::RParen);
        if is_in_brackets && is_name(self.token(at + 2)) {
            [at, at + 1, end].into_iter().for_each(|place| self.take_out(place));
        }
    }

    /// Whether the statement says what transactions are.
    fn has_modes(&self) -> bool {
        match self.word(0) {
            Some(Keyword::BEGIN | Keyword::START) => true,
            Some(Keyword::SET) => {
                self.word(1) == Some(Keyword::TRANSACTION) || self.word(2) == Some(Keyword::CHARACTERISTICS)
            }
            _ => false,
        }
    }

    /// `[NOT] DEFERRABLE`, and a comma that has nothing to part then.
    fn deferrable(&mut self, at: usize) {
        let is_negated = self.word_before(at, 1) == Some(Keyword::NOT);
        let first = if is_negated { at - 1 } else { at };
        let comma_before = first.checked_sub(1).filter(|before| self.token(*before) == Some(&Token::Comma));
        let mode_before = self.word_before(first, 2);
        let parts_modes = mode_before.is_some()
            && !matches!(mode_before, Some(Keyword::BEGIN | Keyword::TRANSACTION | Keyword::WORK));
        let comma_behind = self.token(at + 1) == Some(&Token::Comma) && self.word(at + 2).is_some();
        match comma_before {
            Some(before) if parts_modes => self.take_out(before),
            _ if comma_behind => self.take_out(at + 1),
            _ => {}
        }
        (first..=at).for_each(|place| self.take_out(place));
    }

    /// Takes `WITH [NO] DATA` from the end of a CREATE TABLE ... AS; gives whether there are to be none.
    fn data(&mut self) -> bool {
        let last = self.meaning.len();
        let is_table = behind_create_table(|at| self.word(at)).is_some();
        if !is_table || last < 6 || self.word(last - 1) != Some(Keyword::DATA) {
            return false;
        }
        let has_none = self.word(last - 2) == Some(Keyword::NO);
        let with = if has_none { last - 3 } else { last - 2 };
        // An alias may be called data, but none behind WITH.
        if self.word(with) != Some(Keyword::WITH) {
            return false;
        }
        // Without a query there are no rows to have or to leave out, and the parser refuses the words.
        if !self.has_query(with) {
            return false;
        }
        (with..last).for_each(|at| self.take_out(at));
        has_none
    }

    /// Whether AS stands before a token, in no brackets: in those it is a column's.
    fn has_query(&self, before: usize) -> bool {
        let mut open = 0_usize;
        (0..before).any(|at| {
            match self.token(at) {
                Some(Token::LParen) => open += 1,
                Some(Token::RParen) => open = open.saturating_sub(1),
                _ => {}
            }
            open == 0 && self.word(at) == Some(Keyword::AS)
        })
    }
}

/// Takes UNLOGGED out of CREATE UNLOGGED TABLE; gives whether it was there.
pub(crate) fn take_unlogged(tokens: &mut Vec<TokenWithSpan>) -> bool {
    let mut meaning = tokens.iter().enumerate().filter(|(_, token)| !matches!(token.token, Token::Whitespace(_)));
    let is_word = |token: Option<(usize, &TokenWithSpan)>, wanted: &str| match token {
        Some((at, TokenWithSpan { token: Token::Word(word), .. })) => {
            (word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted)).then_some(at)
        }
        _ => None,
    };
    let first = is_word(meaning.next(), "CREATE");
    let second = first.and_then(|_| is_word(meaning.next(), "UNLOGGED"));
    let found = second.filter(|_| is_word(meaning.next(), "TABLE").is_some());
    found.map(|at| tokens.remove(at)).is_some()
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::script::parse;

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
        for (sql, wanted) in [
            ("SELECT a FROM ONLY t", "SELECT a FROM t"),
            (
                "SELECT a FROM only public.t o, only (u), v JOIN only (w) x ON true",
                "SELECT a FROM public.t o, u, v JOIN w x ON true",
            ),
            (
                "SELECT a FROM (SELECT a, only b FROM u) s, ONLY \"t\"",
                "SELECT a FROM (SELECT a, only b FROM u) s, \"t\"",
            ),
        ] {
            assert_eq!(told(sql), told(wanted), "{sql}");
            assert!(told(sql).is_some(), "{sql}");
        }
        for of_name in [
            "SELECT only, a FROM only",
            "SELECT a, only b FROM only AS o",
            "SELECT a FROM only LEFT JOIN u ON a IS DISTINCT FROM only AND true",
            "SELECT a FROM t WHERE a IN (1, 2) ORDER BY a, only DESC",
        ] {
            let words = told(of_name).map(|text| text.matches("only").count());
            assert_eq!(words, Some(of_name.matches("only").count()), "{of_name}");
        }
        for refused in ["CREATE TABLE u (a INT) WITH NO DATA", "CREATE TABLE u (a INT, b TEXT) WITH DATA"] {
            assert!(parse(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn transactions_wait_for_nothing() {
        for sql in [
            "BEGIN DEFERRABLE",
            "BEGIN READ ONLY, DEFERRABLE",
            "BEGIN TRANSACTION NOT DEFERRABLE, READ ONLY",
            "START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY, NOT DEFERRABLE",
            "START TRANSACTION READ ONLY, DEFERRABLE, ISOLATION LEVEL REPEATABLE READ",
        ] {
            assert!(matches!(parse(sql).map(|mut all| all.remove(0).kind), Ok(Kind::Begin(_))), "{sql}");
        }
        for sql in
            ["SET TRANSACTION READ ONLY DEFERRABLE", "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY, DEFERRABLE"]
        {
            assert!(matches!(parse(sql).map(|mut all| all.remove(0).kind), Ok(Kind::Setting(_))), "{sql}");
        }
        for wrong in ["BEGIN , DEFERRABLE", "BEGIN READ ONLY, DEFERRABLE,", "BEGIN NOT"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
