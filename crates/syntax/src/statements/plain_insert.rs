//! INSERT of literals, read from its text at once, without tokens and a tree.
//!
//! Invariants:
//! - What is read here means what the parser would have made of it; whatever else stands in the text (an expression, a comment, a hint, a
//!   parameter, a second statement, a mistake) leaves all of it to the parser, which says what is wrong.
//! - A literal is a place in the text; nothing is copied but a string with a quote in it, when it is looked at.
//!
//! For the parser a literal is a token, an expression and several allocations. Here it is a place, also in the INSERTs of thousands of rows
//! that other databases' dumps are made of.

use crate::names::{SYSTEM, name_of};
use crate::statement::{Insert, InsertSource, Kind};
use alluvia_catalog::{INFORMATION_SCHEMA, PG_CATALOG, RelationName};
use sqlparser::ast::Ident;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// A literal as it is written in VALUES.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Literal<'a> {
    /// NULL.
    Null,
    /// DEFAULT.
    Default,
    /// A string, to be read as the column's type.
    Text(Cow<'a, str>),
    /// A number as written, with its sign.
    Number(Cow<'a, str>),
    /// TRUE or FALSE.
    Boolean(bool),
    /// Bytes, in hexadecimal digits.
    Hex(&'a str),
}

/// Rows of as many literals each.
#[derive(Clone, Debug)]
pub struct LiteralRows {
    text: Arc<str>,
    literals: Vec<LiteralPlace>,
    width: usize,
}

/// Where a literal stands.
#[derive(Clone, Debug)]
enum LiteralPlace {
    Null,
    Default,
    Boolean(bool),
    Number(Range<usize>),
    /// Between its quotes.
    Text(Range<usize>),
    /// The same of a string in which quotes are doubled.
    Quoted(Range<usize>),
}

impl LiteralRows {
    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.literals.len() / self.width
    }

    /// Literals of each row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Bytes that the places take; the text is another's, too.
    pub fn bytes(&self) -> usize {
        size_of_val(self.literals.as_slice())
    }

    /// The literal at a place of a row.
    pub fn at(&self, row: usize, place: usize) -> Literal<'_> {
        match &self.literals[row * self.width + place] {
            LiteralPlace::Null => Literal::Null,
            LiteralPlace::Default => Literal::Default,
            LiteralPlace::Boolean(value) => Literal::Boolean(*value),
            LiteralPlace::Number(range) => Literal::Number(Cow::Borrowed(&self.text[range.clone()])),
            LiteralPlace::Text(range) => Literal::Text(Cow::Borrowed(&self.text[range.clone()])),
            LiteralPlace::Quoted(range) => Literal::Text(Cow::Owned(self.text[range.clone()].replace("''", "'"))),
        }
    }
}

/// The statement of a text that is one INSERT of literals, and the statement's text; `None` of any other.
pub fn read(sql: &str) -> Option<(Arc<str>, Kind)> {
    let trimmed = sql.trim_matches(is_space);
    let trimmed = trimmed.strip_suffix(';').map_or(trimmed, |text| text.trim_end_matches(is_space));
    let mut scan = Scan { text: trimmed, at: 0 };
    if !(scan.word("insert") && scan.space() && scan.word("into") && scan.space()) {
        return None;
    }
    let first = scan.ident()?;
    // A word with a meaning of its own there, or one behind which the parser looks for secrets.
    if ["table", "function", "local", "directory", "copy", "grant", "revoke"].contains(&name_of(&first).as_str()) {
        return None;
    }
    let table = match scan.byte(b'.') {
        false => RelationName::bare(name_of(&first)),
        // The rest is refused by the parser's way.
        true if [SYSTEM, PG_CATALOG, INFORMATION_SCHEMA].contains(&name_of(&first).as_str()) => return None,
        true => RelationName::in_schema(name_of(&first), name_of(&scan.ident()?)),
    };
    let is_apart = scan.space();
    let columns = if scan.byte(b'(') { Some(scan.columns()?) } else { None };
    if !(is_apart || columns.is_some()) {
        return None;
    }
    scan.space();
    if !scan.word("values") {
        return None;
    }
    let (literals, width) = scan.rows()?;
    let text: Arc<str> = Arc::from(trimmed);
    let rows = LiteralRows { text: Arc::clone(&text), literals, width };
    let source = InsertSource::Literals(rows);
    Some((text, Kind::Insert(Insert { table, columns, source, overriding: None, conflict: None, returning: None })))
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn byte(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    /// Passes over white space; whether there was any.
    fn space(&mut self) -> bool {
        let start = self.at;
        while self.peek().is_some_and(|byte| is_space(char::from(byte))) {
            self.at += 1;
        }
        self.at > start
    }

    /// The end of the word here.
    fn word_end(&self) -> usize {
        let rest = &self.text.as_bytes()[self.at..];
        self.at + rest.iter().position(|&byte| !is_of_word(byte)).unwrap_or(rest.len())
    }

    /// Passes over a word of these small letters, if it is here.
    fn word(&mut self, letters: &str) -> bool {
        let end = self.word_end();
        let is_here = self.text.as_bytes()[self.at..end].eq_ignore_ascii_case(letters.as_bytes());
        if is_here {
            self.at = end;
        }
        is_here
    }

    /// A name: letters, digits and underscores, or anything in double quotes but a quote.
    fn ident(&mut self) -> Option<Ident> {
        if self.byte(b'"') {
            let end = self.at + self.text.as_bytes()[self.at..].iter().position(|&byte| byte == b'"')?;
            let name = &self.text[self.at..end];
            self.at = end + 1;
            return (!name.is_empty() && self.peek() != Some(b'"')).then(|| Ident::with_quote('"', name));
        }
        let end = self.word_end();
        let name = &self.text[self.at..end];
        self.at = end;
        name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit()).then(|| Ident::new(name))
    }

    /// The list of columns behind its bracket.
    fn columns(&mut self) -> Option<Vec<Ident>> {
        let mut columns = Vec::new();
        loop {
            self.space();
            let column = self.ident()?;
            // There a query may begin.
            if column.quote_style.is_none() && ["select", "with"].contains(&name_of(&column).as_str()) {
                return None;
            }
            columns.push(column);
            self.space();
            match self.peek()? {
                b',' => self.at += 1,
                b')' => {
                    self.at += 1;
                    return Some(columns);
                }
                _ => return None,
            }
        }
    }

    /// Everything behind VALUES, and how many literals a row has.
    fn rows(&mut self) -> Option<(Vec<LiteralPlace>, usize)> {
        let (mut literals, mut width) = (Vec::new(), 0);
        loop {
            self.space();
            if !self.byte(b'(') {
                return None;
            }
            let before = literals.len();
            loop {
                self.space();
                literals.push(self.literal()?);
                self.space();
                match self.peek()? {
                    b',' => self.at += 1,
                    b')' => break,
                    _ => return None,
                }
            }
            self.at += 1;
            // Which row is wrong is the parser's to say, who has all rows.
            if width > 0 && literals.len() - before != width {
                return None;
            }
            width = literals.len() - before;
            self.space();
            match self.peek() {
                None => return Some((literals, width)),
                Some(b',') => self.at += 1,
                Some(_) => return None,
            }
        }
    }

    fn literal(&mut self) -> Option<LiteralPlace> {
        match self.peek()? {
            b'\'' => self.string(),
            b'0'..=b'9' => self.number(self.at),
            b'+' => {
                self.at += 1;
                self.number(self.at)
            }
            b'-' => {
                self.at += 1;
                self.number(self.at - 1)
            }
            _ if self.word("null") => Some(LiteralPlace::Null),
            _ if self.word("default") => Some(LiteralPlace::Default),
            _ if self.word("true") => Some(LiteralPlace::Boolean(true)),
            _ if self.word("false") => Some(LiteralPlace::Boolean(false)),
            _ => None,
        }
    }

    /// The string here. A backslash is left to the parser.
    fn string(&mut self) -> Option<LiteralPlace> {
        let start = self.at + 1;
        let mut is_quoted = false;
        self.at = start;
        loop {
            match self.peek()? {
                b'\\' => return None,
                b'\'' if self.text.as_bytes().get(self.at + 1) == Some(&b'\'') => {
                    is_quoted = true;
                    self.at += 2;
                }
                b'\'' => break,
                _ => self.at += 1,
            }
        }
        let range = start..self.at;
        self.at += 1;
        Some(if is_quoted { LiteralPlace::Quoted(range) } else { LiteralPlace::Text(range) })
    }

    /// The number whose digits are here, and which is written from a place on.
    fn number(&mut self, start: usize) -> Option<LiteralPlace> {
        self.digits()?;
        if self.byte(b'.') {
            self.digits()?;
        }
        if self.byte(b'e') || self.byte(b'E') {
            let _ = self.byte(b'+') || self.byte(b'-');
            self.digits()?;
        }
        Some(LiteralPlace::Number(start..self.at))
    }

    /// Passes over digits, of which there must be some.
    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(sql: &str) -> Option<(Arc<str>, Insert, LiteralRows)> {
        let (text, kind) = read(sql)?;
        let Kind::Insert(insert) = kind else { panic!("an INSERT") };
        let InsertSource::Literals(rows) = &insert.source else { panic!("literals") };
        let rows = rows.clone();
        Some((text, insert, rows))
    }

    #[test]
    fn literals_are_read_as_they_are_written() {
        let sql =
            " insert INTO Public.\"T x\"( a, \"B\" )Values\n(1,'it''s'),( -2.5e-3 , '') ,(+7,NULL),(true,default) ; ";
        let (text, insert, rows) = rows(sql).expect("an INSERT of literals");
        assert_eq!(&*text, sql.trim().trim_end_matches([' ', ';']));
        assert_eq!(insert.table.name, "T x");
        let columns: Vec<String> = insert.columns.iter().flatten().map(name_of).collect();
        assert_eq!(columns, ["a", "B"]);
        assert_eq!((rows.rows(), rows.width()), (4, 2));
        let (text, number) = (|text| Literal::Text(Cow::Borrowed(text)), |text| Literal::Number(Cow::Borrowed(text)));
        let found: Vec<_> = (0..4).flat_map(|row| (0..2).map(move |place| (row, place))).collect();
        let found: Vec<Literal<'_>> = found.iter().map(|&(row, place)| rows.at(row, place)).collect();
        let (yes, null) = (Literal::Boolean(true), Literal::Null);
        let wanted =
            [number("1"), text("it's"), number("-2.5e-3"), text(""), number("7"), null.clone(), yes, Literal::Default];
        assert_eq!(found, wanted);
    }

    #[test]
    fn all_else_is_left_to_the_parser() {
        for sql in [
            "",
            "SELECT 1",
            "INSERT INTO t VALUES",
            "INSERT INTO t VALUES ()",
            "INSERT INTO t VALUES (1",
            "INSERT INTO t VALUES (1);;",
            "INSERT INTO t VALUES (1) RETURNING a",
            "INSERT INTO t VALUES (1) -- one",
            "INSERT INTO t VALUES (1), (1, 2)",
            "INSERT INTO t VALUES (1); SELECT 1",
            "INSERT INTO t VALUES (1 + 1)",
            "INSERT INTO t VALUES ($1)",
            "INSERT INTO t VALUES (E'a')",
            "INSERT INTO t VALUES ('a\\b')",
            "INSERT INTO t VALUES ('a' 'b')",
            "INSERT INTO t VALUES ('a",
            "INSERT INTO t VALUES (.5)",
            "INSERT INTO t VALUES (1.)",
            "INSERT INTO t VALUES (1_000)",
            "INSERT INTO t VALUES (0x10)",
            "INSERT INTO t VALUES (- 1)",
            "INSERT INTO t VALUES (--1)",
            "INSERT INTO t VALUES (nullx)",
            "INSERT INTO t VALUES (now())",
            "INSERT INTO t VALUES (/*+ x */ 1)",
            "INSERT INTO t AS u VALUES (1)",
            "INSERT INTO TABLE t VALUES (1)",
            "INSERT INTO alluvia.t VALUES (1)",
            "INSERT INTO a.b.c VALUES (1)",
            "INSERT INTO \"a\"\"b\" VALUES (1)",
            "INSERT INTO 1t VALUES (1)",
            "INSERT INTO tä VALUES (1)",
            "INSERT INTO t (a.b) VALUES (1)",
            "INSERT INTO t (SELECT) VALUES (1)",
            "INSERT INTO t () VALUES (1)",
            "INSERT INTO tVALUES (1)",
            "INSERT INTO t\u{a0}VALUES (1)",
            "INSERTINTO t VALUES (1)",
            "REPLACE INTO t VALUES (1)",
        ] {
            assert!(rows(sql).is_none(), "{sql}");
        }
    }
}
