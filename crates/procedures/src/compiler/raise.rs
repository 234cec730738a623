//! RAISE.

use super::{Compiler, refused, syntax};
use crate::conditions::{is_sqlstate, sqlstate_of};
use crate::host::Level;
use crate::program::{Expression, Op, Raise, RaiseOption};
use crate::tokens::Lexeme;
use alluvia_space::DataType;
use alluvia_types::{Error, ErrorKind, Result};
use std::ops::Range;

/// Levels by their words.
const LEVELS: [(&str, Level); 6] = [
    ("debug", Level::Debug),
    ("log", Level::Log),
    ("info", Level::Info),
    ("notice", Level::Notice),
    ("warning", Level::Warning),
    ("exception", Level::Exception),
];

impl Compiler<'_> {
    pub(super) fn raise(&mut self, line: u32) -> Result<()> {
        self.take();
        let mut raise = Raise {
            level: Level::Exception,
            pieces: None,
            arguments: Vec::new(),
            sqlstate: None,
            written_sqlstate: None,
            condition: None,
            options: Vec::new(),
            cast: self.cast_to(DataType::Text)?,
        };
        if let Some((_, level)) = LEVELS.into_iter().find(|(word, _)| self.is_ahead(0, word)) {
            self.take();
            raise.level = level;
        }
        match self.tokens.get(self.at).map(|token| token.lexeme.clone()) {
            Some(Lexeme::Sign(";")) => {
                return Err(
                    refused("RAISE without parameters").with_hint("there are no exception handlers to raise again in")
                );
            }
            Some(Lexeme::Text(format)) => {
                self.take();
                let tokens = self.until(&["using", ";"])?;
                raise.arguments = self.arguments(&tokens)?;
                raise.pieces = Some(pieces(&format, raise.arguments.len())?);
            }
            Some(Lexeme::Word(word)) if word == "using" => {}
            Some(Lexeme::Word(word)) if word == "sqlstate" => {
                self.take();
                match self.tokens.get(self.at).map(|token| token.lexeme.clone()) {
                    Some(Lexeme::Text(sqlstate)) if is_sqlstate(&sqlstate) => raise.written_sqlstate = Some(sqlstate),
                    Some(Lexeme::Text(_)) => return Err(syntax("invalid SQLSTATE code")),
                    _ => return Err(self.unexpected_here("an SQLSTATE as a text")),
                }
                self.take();
            }
            Some(Lexeme::Word(condition)) => {
                self.take();
                raise.sqlstate = Some(sqlstate_of(&condition).ok_or_else(|| unknown_condition(&condition))?);
                raise.condition = Some(condition);
            }
            _ => return Err(self.unexpected_here("a text, a condition or USING")),
        }
        if self.accept("using") {
            loop {
                let option = self.option()?;
                if raise.options.iter().any(|(known, _)| *known == option) {
                    return Err(syntax(format!("RAISE option already specified: {}", option.name())));
                }
                if !self.accept(":=") {
                    self.expect("=")?;
                }
                let value = self.until(&[",", ";"])?;
                raise.options.push((option, self.expression(&value)?));
                if !self.accept(",") {
                    break;
                }
            }
        }
        let has = |option| raise.options.iter().any(|(known, _)| *known == option);
        if has(RaiseOption::Message) && raise.pieces.is_some() {
            return Err(syntax("RAISE option already specified: MESSAGE"));
        }
        if has(RaiseOption::Errcode) && (raise.sqlstate.is_some() || raise.written_sqlstate.is_some()) {
            return Err(syntax("RAISE option already specified: ERRCODE"));
        }
        self.step_at(line, "RAISE", Op::Raise(Box::new(raise)))?;
        self.expect(";")
    }

    fn option(&mut self) -> Result<RaiseOption> {
        let name = self.name("an option of RAISE")?;
        match name.as_str() {
            "message" => Ok(RaiseOption::Message),
            "detail" => Ok(RaiseOption::Detail),
            "hint" => Ok(RaiseOption::Hint),
            "errcode" => Ok(RaiseOption::Errcode),
            "column" | "constraint" | "datatype" | "table" | "schema" => {
                Err(refused(&format!("{} in RAISE", name.to_uppercase())).with_hint("say it in DETAIL"))
            }
            _ => Err(syntax(format!("unrecognized RAISE statement option {name}"))),
        }
    }

    /// The arguments behind a format, each behind a comma.
    fn arguments(&mut self, tokens: &Range<usize>) -> Result<Vec<Expression>> {
        if tokens.is_empty() {
            return Ok(Vec::new());
        }
        if !self.tokens[tokens.start].is(",") {
            let token = self.tokens[tokens.start].clone();
            return Err(self.unexpected(&token, ", or USING or ;"));
        }
        let parts = self.between_commas(&(tokens.start + 1..tokens.end));
        parts.iter().map(|part| self.expression(part)).collect()
    }
}

impl RaiseOption {
    fn name(self) -> &'static str {
        match self {
            RaiseOption::Message => "MESSAGE",
            RaiseOption::Detail => "DETAIL",
            RaiseOption::Hint => "HINT",
            RaiseOption::Errcode => "ERRCODE",
        }
    }
}

/// The error of a condition that there is none of.
pub(crate) fn unknown_condition(name: &str) -> Error {
    Error::new(ErrorKind::UndefinedObject, format!("unrecognized exception condition \"{name}\""))
        .with_hint("write its SQLSTATE: USING ERRCODE = '22012'")
}

/// A format in pieces, with an argument between each two: `%` is one, `%%` the sign.
fn pieces(format: &str, arguments: usize) -> Result<Vec<String>> {
    let mut pieces = vec![String::new()];
    let mut rest = format.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, pieces.last_mut()) {
            ('%', Some(piece)) if rest.peek() == Some(&'%') => {
                rest.next();
                piece.push('%');
            }
            ('%', _) => pieces.push(String::new()),
            (c, Some(piece)) => piece.push(c),
            (_, None) => {}
        }
    }
    match pieces.len() - 1 {
        wanted if wanted > arguments => Err(syntax("too few parameters specified for RAISE")),
        wanted if wanted < arguments => Err(syntax("too many parameters specified for RAISE")),
        _ => Ok(pieces),
    }
}
