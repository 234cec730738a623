//! Reading tokens: words and signs one by one, and expressions up to the word that ends them.

use super::{Compiler, refused, syntax};
use crate::program::{Expression, Target};
use crate::tokens::{Lexeme, Token};
use alluvia_types::{Error, Result};
use std::ops::Range;

impl Compiler<'_> {
    pub(super) fn peek(&self) -> Option<Token> {
        self.tokens.get(self.at).cloned()
    }

    /// Whether the token so many ahead is this word or sign.
    pub(super) fn is_ahead(&self, ahead: usize, wanted: &str) -> bool {
        self.tokens.get(self.at + ahead).is_some_and(|token| token.is(wanted))
    }

    /// Takes the next token if it is this word or sign.
    pub(super) fn accept(&mut self, wanted: &str) -> bool {
        let is_it = self.is_ahead(0, wanted);
        if is_it {
            self.take();
        }
        is_it
    }

    /// Takes the next token.
    pub(super) fn take(&mut self) {
        self.line = self.tokens.get(self.at).map_or(self.line, |token| token.line);
        self.at += 1;
    }

    pub(super) fn expect(&mut self, wanted: &str) -> Result<()> {
        if self.accept(wanted) {
            return Ok(());
        }
        Err(self.unexpected_here(&wanted.to_uppercase()))
    }

    /// The error of the next token, where something else was to come.
    pub(super) fn unexpected_here(&mut self, expected: &str) -> Error {
        match self.peek() {
            Some(token) => self.unexpected(&token, expected),
            None => {
                self.line = self.tokens.last().map_or(self.line, |token| token.line);
                syntax(format!("expected {expected}, found the end of the body"))
            }
        }
    }

    pub(super) fn unexpected(&mut self, token: &Token, expected: &str) -> Error {
        self.line = token.line;
        let mut found: String = self.body[token.place.clone()].chars().take(40).collect();
        if found.len() < token.place.len() {
            found.push_str("...");
        }
        syntax(format!("syntax error at or near \"{found}\": expected {expected}"))
    }

    /// A name.
    pub(super) fn name(&mut self, expected: &str) -> Result<String> {
        match self.tokens.get(self.at).map(|token| token.lexeme.clone()) {
            Some(Lexeme::Word(name) | Lexeme::Quoted(name)) => {
                self.take();
                Ok(name)
            }
            _ => Err(self.unexpected_here(expected)),
        }
    }

    /// `<<label>>`, if one comes next.
    pub(super) fn label(&mut self) -> Result<Option<String>> {
        if !self.accept("<<") {
            return Ok(None);
        }
        let label = self.name("a label")?;
        self.expect(">>")?;
        Ok(Some(label))
    }

    /// The label that END may repeat.
    pub(super) fn end_label(&mut self, label: Option<&str>) -> Result<()> {
        let Some(Lexeme::Word(_) | Lexeme::Quoted(_)) = self.tokens.get(self.at).map(|token| &token.lexeme) else {
            return Ok(());
        };
        let repeated = self.name("a label")?;
        match label {
            Some(label) if label == repeated => Ok(()),
            Some(label) => Err(syntax(format!("end label \"{repeated}\" differs from block's label \"{label}\""))),
            None => Err(syntax(format!("end label \"{repeated}\" specified for unlabeled block"))),
        }
    }

    /// A dotted name.
    pub(super) fn dotted(&mut self, expected: &str) -> Result<Vec<String>> {
        let mut parts = vec![self.name(expected)?];
        while self.accept(".") {
            parts.push(self.name("a name")?);
        }
        Ok(parts)
    }

    /// A variable that is to be assigned.
    pub(super) fn target(&mut self) -> Result<Target> {
        let parts = self.dotted("a variable")?;
        if self.is_ahead(0, "[") {
            return Err(refused("assignment to an element of an array"));
        }
        self.target_of(&parts.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The tokens up to one of these words or signs outside of brackets and CASE, which is not taken.
    pub(super) fn until(&mut self, stops: &[&str]) -> Result<Range<usize>> {
        let start = self.at;
        let (mut brackets, mut cases) = (0usize, 0usize);
        while let Some(token) = self.tokens.get(self.at) {
            if brackets == 0 && cases == 0 && stops.iter().any(|stop| token.is(stop)) {
                return Ok(start..self.at);
            }
            match &token.lexeme {
                Lexeme::Sign(";") => break,
                Lexeme::Sign("(" | "[") => brackets += 1,
                Lexeme::Sign(")" | "]") => brackets = brackets.saturating_sub(1),
                Lexeme::Word(word) if word == "case" => cases += 1,
                Lexeme::Word(word) if word == "end" => cases = cases.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
        }
        let expected = stops.iter().map(|stop| stop.to_uppercase()).collect::<Vec<_>>().join(" or ");
        // A semicolon ends it wherever it stands: within brackets it is SQL's to say that they are not closed.
        match stops.contains(&";") && self.is_ahead(0, ";") {
            true => Ok(start..self.at),
            false => Err(self.unexpected_here(&expected)),
        }
    }

    /// The text of tokens.
    pub(super) fn text(&self, tokens: &Range<usize>) -> &str {
        match (self.tokens.get(tokens.start), self.tokens.get(tokens.end.wrapping_sub(1))) {
            (Some(first), Some(last)) if !tokens.is_empty() => &self.body[first.place.start..last.place.end],
            _ => "",
        }
    }

    /// The expression that tokens are.
    pub(super) fn expression(&mut self, tokens: &Range<usize>) -> Result<Expression> {
        if tokens.is_empty() {
            return Err(self.unexpected_here("an expression"));
        }
        self.line = self.tokens.get(tokens.start).map_or(self.line, |token| token.line);
        let text = self.text(tokens).to_owned();
        self.expression_of(&text)
    }

    /// The expression up to a word or sign, which is taken.
    pub(super) fn expression_to(&mut self, stop: &str) -> Result<Expression> {
        let tokens = self.until(&[stop])?;
        let expression = self.expression(&tokens)?;
        self.expect(stop)?;
        Ok(expression)
    }

    /// Parts of tokens between commas outside of brackets.
    pub(super) fn between_commas(&self, tokens: &Range<usize>) -> Vec<Range<usize>> {
        let (mut parts, mut start, mut brackets) = (Vec::new(), tokens.start, 0usize);
        for at in tokens.clone() {
            match self.tokens.get(at).map(|token| &token.lexeme) {
                Some(Lexeme::Sign("(" | "[")) => brackets += 1,
                Some(Lexeme::Sign(")" | "]")) => brackets = brackets.saturating_sub(1),
                Some(Lexeme::Sign(",")) if brackets == 0 => {
                    parts.push(start..at);
                    start = at + 1;
                }
                _ => {}
            }
        }
        parts.push(start..tokens.end);
        parts
    }
}
