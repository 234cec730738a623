//! DECLARE: variables, their types and first values.

use super::{Compiler, refused, syntax};
use crate::program::{Op, SlotKind, Target};
use crate::tokens::Lexeme;
use alluvia_space::ColumnType;
use alluvia_syntax::statements::written_types::column_type_of_text;
use alluvia_types::{Error, ErrorKind, Result};
use std::ops::Range;

impl Compiler<'_> {
    /// What stands between DECLARE and BEGIN.
    pub(super) fn declarations(&mut self) -> Result<()> {
        while !self.is_ahead(0, "begin") {
            if self.accept("declare") {
                continue;
            }
            self.declaration()?;
        }
        Ok(())
    }

    fn declaration(&mut self) -> Result<()> {
        let line = self.peek().map_or(self.line, |token| token.line);
        let name = self.name("a variable or BEGIN")?;
        if self.accept("alias") {
            return Err(refused("ALIAS").with_hint("use the parameter by its name"));
        }
        let is_cursor = |compiler: &Self, at| compiler.is_ahead(at, "cursor");
        if is_cursor(self, 0) || self.is_ahead(0, "scroll") || (self.is_ahead(0, "no") && self.is_ahead(1, "scroll")) {
            return Err(cursor());
        }
        let is_constant = self.accept("constant");
        let written = self.until(&[":=", "=", "default", "not", "collate", ";"])?;
        if written.is_empty() {
            return Err(self.unexpected_here("a type"));
        }
        self.line = line;
        let is_record = written.len() == 1 && self.tokens[written.start].is("record");
        let column_type = if is_record { None } else { Some(self.type_of(&written)?) };
        if self.accept("collate") {
            return Err(
                refused("COLLATE in a declaration").with_hint("texts are compared by their bytes: leave it out")
            );
        }
        let not_null = self.accept("not");
        if not_null {
            self.expect("null")?;
        }
        let value = match [":=", "=", "default"].into_iter().any(|sign| self.accept(sign)) {
            false => None,
            true => {
                let tokens = self.until(&[";"])?;
                Some(self.expression(&tokens)?)
            }
        };
        self.line = line;
        let slot = match column_type {
            None if value.is_some() || is_constant || not_null => {
                return Err(refused("a first value or a condition of a record"));
            }
            None => self.new_slot(&name, SlotKind::Record),
            Some(column_type) => self.new_scalar(&name, column_type, not_null)?,
        };
        match value {
            None if not_null => {
                let message = format!("variable \"{name}\" must have a default value, since it's declared NOT NULL");
                return Err(Error::new(ErrorKind::NullNotAllowed, message));
            }
            None => self.step_at(line, "DECLARE", Op::Clear(slot))?,
            Some(value) => self.step_at(line, "DECLARE", Op::Assign { target: Target::Slot(slot), value })?,
        }
        self.declare(&name, slot)?;
        self.constants[slot] = is_constant;
        self.expect(";")
    }

    /// The type that tokens are.
    fn type_of(&self, written: &Range<usize>) -> Result<ColumnType> {
        let tokens = &self.tokens[written.clone()];
        let [name @ .., sign, word] = tokens else { return self.plain_type(written) };
        if !sign.is("%") {
            return self.plain_type(written);
        }
        if word.is("rowtype") {
            return Err(refused("%ROWTYPE").with_hint("declare it as a RECORD"));
        }
        if !word.is("type") {
            return Err(syntax(format!("{} is no type", self.text(written))));
        }
        let mut parts = Vec::new();
        for (place, token) in name.iter().enumerate() {
            match &token.lexeme {
                Lexeme::Word(part) | Lexeme::Quoted(part) if place % 2 == 0 => parts.push(part.clone()),
                Lexeme::Sign(".") if place % 2 == 1 => {}
                _ => return Err(syntax(format!("{} is no type", self.text(written)))),
            }
        }
        let shown = parts.join(".");
        if let [name] = parts.as_slice() {
            return match self.variable(name).map(|slot| &self.slots[slot].kind) {
                Some(SlotKind::Scalar { column_type, .. }) => Ok(*column_type),
                Some(_) => Err(refused("%TYPE of a record")),
                None => Err(Error::new(ErrorKind::UndefinedObject, format!("there is no variable {shown}"))),
            };
        }
        (self.columns)(&parts).ok_or_else(|| {
            Error::new(ErrorKind::UndefinedColumn, format!("there is no column {shown}"))
                .with_hint("name it table.column, or write its type")
        })
    }

    fn plain_type(&self, written: &Range<usize>) -> Result<ColumnType> {
        let text = self.text(written);
        column_type_of_text(text).map_err(|error| match error.kind() {
            ErrorKind::NotSupported | ErrorKind::InvalidDefinition => error,
            _ => syntax(format!("{text} is no type of a variable")),
        })
    }
}

/// The error of a cursor, by any of its words.
pub(super) fn cursor() -> Error {
    refused("a cursor in a procedure").with_hint("write FOR r IN SELECT ... LOOP")
}
