//! Blocks and the statements in them, but loops and RAISE.

use super::declare::cursor;
use super::sql::Sort;
use super::{Compiler, DEPTH_MAX, Frame, Scope, refused, syntax};
use crate::program::{Expression, Op, SlotKind};
use crate::tokens::Lexeme;
use alluvia_types::{Error, ErrorKind, Result};

/// Statements that PL/pgSQL or SQL has and a procedure may not hold, with what to do instead.
const REFUSED: &[(&str, &str)] = &[
    ("execute", "write the statement itself, with variables in the place of values"),
    ("commit", "a procedure is one transaction, or a part of the caller's"),
    ("rollback", "RAISE EXCEPTION undoes what the statement has done"),
    ("savepoint", ""),
    ("release", ""),
    ("start", ""),
    ("abort", ""),
    ("foreach", "there is no type of arrays; loop over rows: FOR r IN SELECT ... LOOP"),
    ("merge", "use INSERT ... ON CONFLICT, or UPDATE and IF NOT FOUND"),
    ("truncate", "use DELETE FROM t"),
    ("create", ""),
    ("alter", ""),
    ("drop", ""),
    ("comment", ""),
    ("grant", ""),
    ("revoke", ""),
    ("copy", ""),
    ("set", "SET before CALL"),
    ("reset", ""),
    ("show", ""),
    ("explain", ""),
    ("analyze", ""),
    ("vacuum", ""),
    ("cluster", ""),
    ("reindex", ""),
    ("lock", ""),
    ("do", "write the block itself: BEGIN ... END;"),
    ("prepare", ""),
    ("deallocate", ""),
    ("discard", ""),
    ("listen", ""),
    ("notify", ""),
    ("import", ""),
    ("refresh", ""),
    ("function", ""),
    ("procedure", ""),
];

/// Words of cursors.
const CURSORS: [&str; 4] = ["open", "fetch", "move", "close"];

impl Compiler<'_> {
    /// A block, from DECLARE or BEGIN to behind END and its label.
    pub(super) fn block(&mut self, label: Option<String>) -> Result<()> {
        self.scopes.push(Scope { label: label.clone(), variables: Vec::new() });
        if self.accept("declare") {
            self.declarations()?;
        }
        self.expect("begin")?;
        let frame =
            Frame { label: label.clone(), is_loop: false, counted: None, exits: Vec::new(), continues: Vec::new() };
        self.frames.push(frame);
        self.statements(&["end"])?;
        self.expect("end")?;
        self.end_label(label.as_deref())?;
        self.scopes.pop();
        if let Some(frame) = self.frames.pop() {
            frame.exits.into_iter().for_each(|exit| self.patch(exit));
        }
        Ok(())
    }

    /// Statements up to one of these words, which is not taken.
    pub(super) fn statements(&mut self, ends: &[&str]) -> Result<()> {
        loop {
            if self.is_ahead(0, "exception") {
                self.take();
                return Err(
                    refused("an EXCEPTION section").with_hint("an error ends the procedure, and undoes its statement")
                );
            }
            if ends.iter().any(|end| self.is_ahead(0, end)) {
                return Ok(());
            }
            if self.peek().is_none() {
                let expected = ends.iter().map(|end| end.to_uppercase()).collect::<Vec<_>>().join(" or ");
                return Err(self.unexpected_here(&expected));
            }
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                self.take();
                let message = format!("blocks and loops are nested more than {DEPTH_MAX} deep");
                return Err(Error::new(ErrorKind::TooDeep, message).with_hint("make a procedure of the inner ones"));
            }
            self.statement()?;
            self.depth -= 1;
        }
    }

    fn statement(&mut self) -> Result<()> {
        let line = self.peek().map_or(self.line, |token| token.line);
        self.line = line;
        let label = self.label()?;
        let Some(token) = self.peek() else { return Err(self.unexpected_here("a statement")) };
        if label.is_some() && !["declare", "begin", "loop", "while", "for", "foreach"].iter().any(|word| token.is(word))
        {
            return Err(self.unexpected(&token, "a block or a loop behind its label"));
        }
        if self.is_assignment() {
            return self.assignment(line);
        }
        let Lexeme::Word(word) = &token.lexeme else { return Err(self.unexpected(&token, "a statement")) };
        match word.as_str() {
            "declare" | "begin" => {
                self.block(label)?;
                self.expect(";")
            }
            "if" => self.branches(line),
            "case" => self.case(line),
            "loop" => self.plain_loop(label, line),
            "while" => self.while_loop(label, line),
            "for" => self.for_loop(label, line),
            "exit" | "continue" => self.leave(line),
            "return" => self.return_statement(line),
            "raise" => self.raise(line),
            "assert" => self.assert(line),
            "get" => self.diagnostics(line),
            "perform" => self.perform(line),
            "null" => {
                self.take();
                self.expect(";")
            }
            "select" | "with" | "values" | "insert" | "update" | "delete" | "call" => self.sql_statement(line, false),
            word if CURSORS.contains(&word) => Err(cursor()),
            word => match REFUSED.iter().find(|(known, _)| *known == word) {
                Some((_, hint)) => {
                    let error = refused(&format!("{} in a procedure", word.to_uppercase()));
                    Err(if hint.is_empty() { error } else { error.with_hint(*hint) })
                }
                None => Err(self.unexpected(&token, "a statement")),
            },
        }
    }

    /// Whether a variable or its field is followed by the sign of an assignment.
    fn is_assignment(&self) -> bool {
        let is_name = |ahead: usize| {
            let token = self.tokens.get(self.at + ahead);
            token.is_some_and(|token| matches!(token.lexeme, Lexeme::Word(_) | Lexeme::Quoted(_)))
        };
        let mut ahead = 1;
        while self.is_ahead(ahead, ".") && is_name(ahead + 1) {
            ahead += 2;
        }
        is_name(0) && [":=", "=", "["].iter().any(|sign| self.is_ahead(ahead, sign))
    }

    fn assignment(&mut self, line: u32) -> Result<()> {
        let target = self.target()?;
        if let crate::program::Target::Slot(slot) = &target
            && self.is_record(*slot)
        {
            return Err(
                refused("assignment to a whole record").with_hint("write SELECT ... INTO it, or assign its fields")
            );
        }
        if !self.accept(":=") {
            self.expect("=")?;
        }
        let value = self.expression_to(";")?;
        self.step_at(line, "assignment", Op::Assign { target, value })
    }

    /// IF ... ELSIF ... ELSE ... END IF.
    fn branches(&mut self, line: u32) -> Result<()> {
        self.take();
        let mut ends = Vec::new();
        let mut line = line;
        loop {
            let condition = self.expression_to("then")?;
            let skip = self.jump_unless(line, "IF", condition)?;
            self.statements(&["elsif", "elseif", "else", "end"])?;
            let is_last = self.is_ahead(0, "end");
            if !is_last {
                ends.push(self.jump(line, "IF")?);
            }
            self.patch(skip);
            line = self.peek().map_or(line, |token| token.line);
            if self.accept("elsif") || self.accept("elseif") {
                continue;
            }
            if self.accept("else") {
                self.statements(&["end"])?;
            }
            break;
        }
        ends.into_iter().for_each(|end| self.patch(end));
        for word in ["end", "if", ";"] {
            self.expect(word)?;
        }
        Ok(())
    }

    /// CASE, with or without a value that is compared.
    fn case(&mut self, line: u32) -> Result<()> {
        self.take();
        let compared = match self.is_ahead(0, "when") {
            true => None,
            false => {
                let tokens = self.until(&["when"])?;
                let value = self.expression(&tokens)?;
                let name = format!("case value {}", self.slots.len());
                let slot = self.new_slot(&name, SlotKind::Any);
                self.step_at(line, "CASE", Op::Assign { target: crate::program::Target::Slot(slot), value })?;
                Some((name, slot))
            }
        };
        let (mut ends, mut has_else) = (Vec::new(), false);
        while self.is_ahead(0, "when") {
            let line = self.peek().map_or(line, |token| token.line);
            self.take();
            let condition = match &compared {
                None => self.expression_to("then")?,
                Some((name, slot)) => {
                    let tokens = self.until(&["then"])?;
                    let text = format!("\"{name}\" IN ({})", self.text(&tokens));
                    self.scopes.push(Scope { label: None, variables: vec![(name.clone(), *slot)] });
                    self.line = line;
                    let condition = self.expression_of(&text);
                    self.scopes.pop();
                    self.expect("then")?;
                    condition?
                }
            };
            let skip = self.jump_unless(line, "CASE", condition)?;
            self.statements(&["when", "else", "end"])?;
            ends.push(self.jump(line, "CASE")?);
            self.patch(skip);
        }
        if ends.is_empty() {
            return Err(self.unexpected_here("WHEN"));
        }
        if self.accept("else") {
            has_else = true;
            self.statements(&["end"])?;
        }
        if !has_else {
            self.step_at(line, "CASE", Op::CaseMissing)?;
        }
        ends.into_iter().for_each(|end| self.patch(end));
        for word in ["end", "case", ";"] {
            self.expect(word)?;
        }
        Ok(())
    }

    /// A jump whose end is patched later.
    pub(super) fn jump(&mut self, line: u32, name: &'static str) -> Result<usize> {
        self.step_at(line, name, Op::Jump(usize::MAX))?;
        Ok(self.steps.len() - 1)
    }

    pub(super) fn jump_unless(&mut self, line: u32, name: &'static str, condition: Expression) -> Result<usize> {
        self.step_at(line, name, Op::JumpUnless(condition, usize::MAX))?;
        Ok(self.steps.len() - 1)
    }

    fn return_statement(&mut self, line: u32) -> Result<()> {
        self.take();
        if self.is_ahead(0, "query") || self.is_ahead(0, "next") {
            return Err(refused("RETURN of rows in a procedure").with_hint("INSERT them into a table"));
        }
        if !self.accept(";") {
            let message = "RETURN cannot have a parameter in a procedure";
            return Err(
                Error::new(ErrorKind::DatatypeMismatch, message).with_hint("give values out by INOUT parameters")
            );
        }
        self.step_at(line, "RETURN", Op::Return)
    }

    fn perform(&mut self, line: u32) -> Result<()> {
        self.take();
        let tokens = self.until(&[";"])?;
        if tokens.is_empty() {
            return Err(self.unexpected_here("an expression"));
        }
        self.line = line;
        let text = format!("SELECT {}", self.text(&tokens));
        let query = self.embed(&text)?;
        if self.sort_of(&query)? != Sort::Query {
            return Err(syntax("PERFORM is of a query").with_hint("write it as PERFORM f(a) FROM t"));
        }
        self.step_at(line, "PERFORM", Op::Run { query, into: None })?;
        self.expect(";")
    }

    fn assert(&mut self, line: u32) -> Result<()> {
        self.take();
        let tokens = self.until(&[";"])?;
        let parts = self.between_commas(&tokens);
        let (condition, message) = match parts.as_slice() {
            [condition] => (self.expression(condition)?, None),
            [condition, message] => (self.expression(condition)?, Some(self.expression(message)?)),
            _ => return Err(syntax("ASSERT has a condition, and perhaps a message")),
        };
        self.step_at(line, "ASSERT", Op::Assert { condition, message })?;
        self.expect(";")
    }

    /// GET DIAGNOSTICS n = ROW_COUNT.
    fn diagnostics(&mut self, line: u32) -> Result<()> {
        self.take();
        if self.accept("stacked") {
            return Err(refused("GET STACKED DIAGNOSTICS"));
        }
        let _ = self.accept("current");
        self.expect("diagnostics")?;
        let mut targets = Vec::new();
        loop {
            let target = self.target()?;
            if let crate::program::Target::Slot(slot) = &target
                && self.is_record(*slot)
            {
                return Err(syntax("a record takes no count of rows"));
            }
            targets.push(target);
            if !self.accept(":=") {
                self.expect("=")?;
            }
            let item = self.name("ROW_COUNT")?;
            if item != "row_count" {
                return Err(
                    refused(&format!("{} in GET DIAGNOSTICS", item.to_uppercase())).with_hint("it knows ROW_COUNT")
                );
            }
            if !self.accept(",") {
                break;
            }
        }
        self.step_at(line, "GET DIAGNOSTICS", Op::RowCount(targets))?;
        self.expect(";")
    }
}
