//! Words, numbers and signs of a declaration.

use alluvia_types::{Error, ErrorKind, Result};
use std::fmt;

/// One piece of a declaration.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token {
    /// A name; lower case unless it was quoted.
    Name(String),
    /// A number.
    Number(f64),
    /// `..`
    Range,
    /// Any other sign.
    Symbol(char),
    /// The end of the text.
    End,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Name(name) => f.write_str(name),
            Token::Number(number) => number.fmt(f),
            Token::Range => f.write_str(".."),
            Token::Symbol(symbol) => symbol.fmt(f),
            Token::End => f.write_str("the end"),
        }
    }
}

/// Cuts a declaration into tokens.
#[derive(Clone)]
pub(super) struct Lexer<'a> {
    rest: &'a str,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Lexer<'a> {
        Lexer { rest: text }
    }

    /// What was not read yet.
    pub(super) fn rest(&self) -> &'a str {
        self.rest
    }

    /// The next token without taking it.
    pub(super) fn peek(&self) -> Result<Token> {
        self.clone().next()
    }

    /// The next token.
    pub(super) fn next(&mut self) -> Result<Token> {
        self.rest = self.rest.trim_start();
        let Some(first) = self.rest.chars().next() else { return Ok(Token::End) };
        if first == '"' {
            return self.quoted();
        }
        if first.is_alphabetic() || first == '_' {
            let name = self.take_while(|character| character.is_alphanumeric() || matches!(character, '_' | '$'));
            return Ok(Token::Name(name.to_ascii_lowercase()));
        }
        if self.rest.starts_with("..") {
            self.rest = &self.rest[2..];
            return Ok(Token::Range);
        }
        let unsigned = self.rest.strip_prefix(['-', '+']).unwrap_or(self.rest);
        let digits = unsigned.strip_prefix('.').unwrap_or(unsigned);
        if digits.starts_with(|character: char| character.is_ascii_digit()) {
            return self.number();
        }
        self.rest = &self.rest[first.len_utf8()..];
        Ok(Token::Symbol(first))
    }

    /// Everything before the first of `ends` outside of a word, or before the word `to`; trimmed.
    pub(super) fn moment(&mut self) -> &'a str {
        let mut length = 0;
        for part in self.rest.split_inclusive(|c: char| c.is_whitespace()) {
            let word = part.trim_end();
            let end = word.find([')', ',', ';']);
            if word.eq_ignore_ascii_case("to") {
                break;
            }
            length += end.unwrap_or(part.len());
            if end.is_some() {
                break;
            }
        }
        let (moment, rest) = self.rest.split_at(length);
        self.rest = rest;
        moment.trim()
    }

    /// The name of a time zone: in single quotes, or up to a blank, a colon or what ends a dimension.
    pub(super) fn zone(&mut self) -> Result<String> {
        self.rest = self.rest.trim_start();
        let Some(mut after) = self.rest.strip_prefix('\'') else {
            let name = self.take_while(|c| !c.is_whitespace() && !matches!(c, ':' | ',' | ';' | '(' | ')'));
            return Ok(name.to_owned());
        };
        let mut name = String::new();
        while let Some(end) = after.find('\'') {
            name.push_str(&after[..end]);
            after = &after[end + 1..];
            let Some(more) = after.strip_prefix('\'') else {
                self.rest = after;
                return Ok(name);
            };
            name.push('\'');
            after = more;
        }
        let shown: String = self.rest.chars().take(20).collect();
        Err(Error::new(ErrorKind::InvalidDefinition, format!("the time zone {shown} does not end"))
            .with_hint("write AT TIME ZONE Europe/Berlin"))
    }

    fn take_while(&mut self, accepted: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|character| !accepted(character)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn quoted(&mut self) -> Result<Token> {
        let mut name = String::new();
        let mut after = &self.rest[1..];
        while let Some(end) = after.find('"') {
            name.push_str(&after[..end]);
            after = &after[end + 1..];
            match after.strip_prefix('"') {
                Some(more) => {
                    name.push('"');
                    after = more;
                }
                None => {
                    self.rest = after;
                    return Ok(Token::Name(name));
                }
            }
        }
        let shown: String = self.rest.chars().take(20).collect();
        Err(Error::new(ErrorKind::InvalidDefinition, format!("the quoted name {shown} does not end"))
            .with_hint("a name with unusual characters is written \"in double quotes\""))
    }

    fn number(&mut self) -> Result<Token> {
        let bytes = self.rest.as_bytes();
        let digits = |mut at: usize| {
            while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            at
        };
        let mut end = digits(usize::from(matches!(bytes[0], b'-' | b'+')));
        // In `0..1000` the first point does not belong to the number.
        if bytes.get(end) == Some(&b'.') && bytes.get(end + 1) != Some(&b'.') {
            end = digits(end + 1);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let signed = end + 1 + usize::from(matches!(bytes.get(end + 1), Some(b'-' | b'+')));
            let exponent_end = digits(signed);
            if exponent_end > signed {
                end = exponent_end;
            }
        }
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Token::Number(number)),
            _ => Err(Error::new(ErrorKind::InvalidDefinition, format!("{text} is not a number that a range can have"))),
        }
    }
}
