//! LOOP, WHILE, FOR, and what leads out of them.

use super::declare::cursor;
use super::sql::Sort;
use super::{Compiler, Frame, Scope, refused, syntax};
use crate::program::{Count, Op};
use crate::tokens::Lexeme;
use alluvia_space::DataType;
use alluvia_types::Result;
use std::ops::Range;

impl Compiler<'_> {
    /// LOOP ... END LOOP.
    pub(super) fn plain_loop(&mut self, label: Option<String>, line: u32) -> Result<()> {
        let start = self.steps.len();
        self.loop_body(label, None, line, start)?;
        Ok(())
    }

    /// WHILE condition LOOP.
    pub(super) fn while_loop(&mut self, label: Option<String>, line: u32) -> Result<()> {
        self.take();
        let start = self.steps.len();
        let tokens = self.until(&["loop"])?;
        let condition = self.expression(&tokens)?;
        let end = self.jump_unless(line, "WHILE", condition)?;
        let exits = self.loop_body(label, None, line, start)?;
        self.patch(end);
        debug_assert!(exits.is_none(), "only counted loops have exits left");
        Ok(())
    }

    /// From LOOP to behind END LOOP and its semicolon: the statements, and the jump to `start`. Exits lead behind it; those of a loop
    /// that FOUND tells of are given back.
    fn loop_body(
        &mut self,
        label: Option<String>,
        counted: Option<usize>,
        line: u32,
        start: usize,
    ) -> Result<Option<Vec<usize>>> {
        self.expect("loop")?;
        let frame = Frame { label: label.clone(), is_loop: true, counted, exits: Vec::new(), continues: Vec::new() };
        self.frames.push(frame);
        self.statements(&["end"])?;
        for word in ["end", "loop"] {
            self.expect(word)?;
        }
        self.end_label(label.as_deref())?;
        self.expect(";")?;
        let Some(frame) = self.frames.pop() else { return Ok(None) };
        frame.continues.into_iter().for_each(|jump| self.patch(jump));
        self.step_at(line, "LOOP", Op::Jump(start))?;
        if counted.is_some() {
            return Ok(Some(frame.exits));
        }
        frame.exits.into_iter().for_each(|exit| self.patch(exit));
        Ok(None)
    }

    /// FOR over integers, or over the rows of a query.
    pub(super) fn for_loop(&mut self, label: Option<String>, line: u32) -> Result<()> {
        self.take();
        let start = self.at;
        let mut targets = vec![self.dotted("a variable")?];
        while self.accept(",") {
            targets.push(self.dotted("a variable")?);
        }
        self.expect("in")?;
        let reverse = self.accept("reverse");
        if self.is_ahead(0, "execute") {
            self.take();
            return Err(refused("EXECUTE in a procedure").with_hint("write the query itself"));
        }
        let behind_in = self.at;
        let tokens = self.until(&["loop"])?;
        let id = self.loops;
        self.loops += 1;
        match (self.dots_in(&tokens), targets.as_slice()) {
            (Some(dots), [name]) => {
                let [name] = name.as_slice() else { return Err(syntax("a loop's counter has no dots in its name")) };
                self.count_loop(label, name, reverse, (tokens, dots), id, line)
            }
            (Some(_), _) => Err(syntax("integer FOR loop must have only one target variable")),
            (None, _) if reverse => Err(syntax("cannot specify REVERSE in query FOR loop")),
            (None, _) => {
                if tokens.len() == 1
                    || self.tokens.get(tokens.start + 1).is_some_and(|token| token.is("("))
                        && self.is_name(tokens.start)
                {
                    return Err(cursor());
                }
                self.at = start;
                let into = self.targets_of_into()?;
                self.at = behind_in + tokens.len();
                self.line = line;
                let text = self.text(&tokens).to_owned();
                let query = self.embed(&text)?;
                match self.sort_of(&query)? {
                    Sort::Query | Sort::Change { returns: true } => {}
                    _ => return Err(syntax("FOR takes the rows of a query, and this gives none")),
                }
                self.step_at(line, "FOR over rows", Op::Rows { id, query })?;
                let next = self.steps.len();
                self.step_at(line, "FOR over rows", Op::RowsNext { id, into, end: usize::MAX })?;
                self.end_counted(label, id, line, next)
            }
        }
    }

    /// Whether a token is a word that begins no query.
    fn is_name(&self, at: usize) -> bool {
        match self.tokens.get(at).map(|token| &token.lexeme) {
            Some(Lexeme::Word(word)) => !["select", "with", "values"].contains(&word.as_str()),
            Some(Lexeme::Quoted(_)) => true,
            _ => false,
        }
    }

    /// Where `..` stands, outside of brackets.
    fn dots_in(&self, tokens: &Range<usize>) -> Option<usize> {
        let mut brackets = 0usize;
        tokens.clone().find(|at| {
            let token = &self.tokens[*at];
            if token.is("(") || token.is("[") {
                brackets += 1;
            } else if token.is(")") || token.is("]") {
                brackets = brackets.saturating_sub(1);
            }
            brackets == 0 && token.is("..")
        })
    }

    fn count_loop(
        &mut self,
        label: Option<String>,
        name: &str,
        reverse: bool,
        (tokens, dots): (Range<usize>, usize),
        id: usize,
        line: u32,
    ) -> Result<()> {
        let behind = dots + 1..tokens.end;
        let by = behind.clone().find(|at| self.tokens[*at].is("by"));
        let from = self.expression(&(tokens.start..dots))?;
        let to = self.expression(&(behind.start..by.unwrap_or(behind.end)))?;
        let by = by.map(|by| self.expression(&(by + 1..behind.end))).transpose()?;
        let cast = self.cast_to(DataType::Int32)?;
        let count = Count { id, from, to, by, reverse, cast };
        self.step_at(line, "FOR with integer loop variable", Op::Count(Box::new(count)))?;
        let slot = self.new_scalar(name, DataType::Int32.into(), false)?;
        // The loop's label is the counter's, too.
        self.scopes.push(Scope { label: label.clone(), variables: vec![(name.to_owned(), slot)] });
        let next = self.steps.len();
        self.step_at(line, "FOR with integer loop variable", Op::CountNext { id, slot, end: usize::MAX })?;
        self.end_counted(label, id, line, next)?;
        self.scopes.pop();
        Ok(())
    }

    /// The body of a loop that FOUND tells of, behind the step `next` that begins its turns.
    fn end_counted(&mut self, label: Option<String>, id: usize, line: u32, next: usize) -> Result<()> {
        let exits = self.loop_body(label, Some(id), line, next)?;
        self.patch(next);
        exits.into_iter().flatten().for_each(|exit| self.patch(exit));
        self.step_at(line, "FOR", Op::LoopFound(id))
    }

    /// EXIT or CONTINUE.
    pub(super) fn leave(&mut self, line: u32) -> Result<()> {
        let is_exit = self.is_ahead(0, "exit");
        let name = if is_exit { "EXIT" } else { "CONTINUE" };
        self.take();
        let label = match self.is_ahead(0, ";") || self.is_ahead(0, "when") {
            true => None,
            false => Some(self.name("a label, WHEN or ;")?),
        };
        let found = self.frames.iter().rposition(|frame| match &label {
            Some(label) => frame.label.as_ref() == Some(label),
            None => frame.is_loop,
        });
        let Some(to) = found else {
            return Err(match label {
                Some(label) => syntax(format!(
                    "there is no label \"{label}\" attached to any block or loop enclosing this statement"
                )),
                None if is_exit => syntax("EXIT cannot be used outside a loop, unless it has a label"),
                None => syntax("CONTINUE cannot be used outside a loop"),
            });
        };
        if !is_exit && !self.frames[to].is_loop {
            let label = label.unwrap_or_default();
            return Err(syntax(format!("block label \"{label}\" cannot be used in CONTINUE")));
        }
        let skip = match self.accept("when") {
            false => None,
            true => {
                let tokens = self.until(&[";"])?;
                let condition = self.expression(&tokens)?;
                Some(self.jump_unless(line, name, condition)?)
            }
        };
        // FOUND is told by the outermost of the loops that are left at once, unless the one that ends tells it itself.
        let left = self.frames[to + 1..].iter().find_map(|frame| frame.counted);
        let tells_itself = is_exit && self.frames[to].counted.is_some();
        if let Some(left) = left.filter(|_| !tells_itself) {
            self.step_at(line, name, Op::LoopFound(left))?;
        }
        let jump = self.jump(line, name)?;
        let frame = &mut self.frames[to];
        if is_exit {
            frame.exits.push(jump)
        } else {
            frame.continues.push(jump)
        }
        if let Some(skip) = skip {
            self.patch(skip);
        }
        self.expect(";")
    }
}
