//! SQL within a body: variables become parameters, INTO is taken out, and what may not stand in a procedure is refused.

use super::{Compiler, refused, syntax};
use crate::program::{Embedded, Into, Op, Query, Rows, Source, Target};
use crate::tokens::{self, Lexeme};
use alluvia_syntax::Kind;
use alluvia_syntax::expression_names::{ExpressionName, expression_names};
use alluvia_syntax::statement::Insert;
use alluvia_types::{Error, ErrorKind, Result};
use std::ops::Range;

/// What a statement gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sort {
    Query,
    Change { returns: bool },
    Call,
}

impl Compiler<'_> {
    /// Keeps a statement whose variables are parameters already.
    pub(super) fn embedded(&mut self, sql: &str) -> Result<usize> {
        let mut statements = alluvia_syntax::parse(sql)?;
        let (Some(statement), true) = (statements.pop(), statements.is_empty()) else {
            return Err(syntax("one statement was expected"));
        };
        if let Kind::Refused(error) = statement.kind {
            return Err(error);
        }
        let number = self.statements.len();
        self.statements.push(Embedded { number, statement });
        Ok(number)
    }

    /// Keeps a statement, with parameters in the place of its variables.
    pub(super) fn embed(&mut self, sql: &str) -> Result<Query> {
        let mut sources: Vec<Source> = Vec::new();
        let mut places: Vec<(Range<usize>, usize)> = Vec::new();
        for name in expression_names(sql)? {
            let Some((source, place)) = self.source_of(&name)? else { continue };
            places.push((place, number_of(&mut sources, source)));
        }
        if sql.contains('$') {
            for token in tokens::of(sql)? {
                let Lexeme::Parameter(number) = token.lexeme else { continue };
                let slot = number.checked_sub(1).and_then(|at| self.parameters.get(at)).copied().ok_or_else(|| {
                    Error::new(ErrorKind::UndefinedParameter, format!("there is no parameter ${number}"))
                })?;
                places.push((token.place, number_of(&mut sources, Source::Slot(slot))));
            }
        }
        places.sort_by_key(|(place, _)| place.start);
        let (mut written, mut from) = (String::with_capacity(sql.len()), 0);
        for (place, number) in places {
            written.push_str(&sql[from..place.start]);
            // Behind a word without a space it would be part of the word.
            let is_behind_word = written.ends_with(|c: char| c.is_alphanumeric() || c == '_');
            written.push_str(if is_behind_word { " $" } else { "$" });
            written.push_str(&number.to_string());
            from = place.end;
        }
        written.push_str(&sql[from..]);
        Ok(Query { statement: self.embedded(&written)?, sources })
    }

    /// The variable that a name in an expression means, with its place.
    fn source_of(&self, name: &ExpressionName) -> Result<Option<(Source, Range<usize>)>> {
        let parts: Vec<&str> = name.parts.iter().map(|(part, _)| part.as_str()).collect();
        let Some((source, named)) = self.resolve(&parts) else { return Ok(None) };
        let shown = parts.join(".");
        if named < parts.len() || name.is_root {
            return Err(refused(&format!("a field or an element of the variable {shown}")));
        }
        if let Source::Slot(slot) = source
            && self.is_record(slot)
        {
            return Err(refused(&format!("the record {shown} as a value"))
                .with_hint(format!("name one of its fields: {shown}.a")));
        }
        if name.is_key && parts.len() == 1 {
            let error = Error::new(ErrorKind::AmbiguousColumn, format!("column reference \"{shown}\" is ambiguous"));
            return Err(error
                .with_detail("It could refer to either a PL/pgSQL variable or a table column.")
                .with_hint(format!("write the column with its table, t.{shown}, or call the variable otherwise")));
        }
        match (name.parts.first(), name.parts.last()) {
            (Some((_, first)), Some((_, last))) => Ok(Some((source, first.start..last.end))),
            _ => Ok(None),
        }
    }

    /// What a kept statement gives, if a procedure may run it.
    pub(super) fn sort_of(&self, query: &Query) -> Result<Sort> {
        let returns = |returning: bool| Ok(Sort::Change { returns: returning });
        match &self.statements[query.statement].statement.kind {
            Kind::Query(_) | Kind::Locking(_) => Ok(Sort::Query),
            Kind::Insert(Insert { returning, .. }) => returns(returning.is_some()),
            Kind::Update(update) => returns(update.returning.is_some()),
            Kind::Delete(delete) => returns(delete.returning.is_some()),
            Kind::CallProcedure(_) => Ok(Sort::Call),
            _ => {
                let sql = self.statements[query.statement].sql();
                let first: String = sql.chars().take_while(|c| c.is_ascii_alphabetic()).collect();
                Err(refused(&format!("{} in a procedure", first.to_uppercase()))
                    .with_hint("procedures hold SELECT, INSERT, UPDATE, DELETE and CALL"))
            }
        }
    }

    /// A query, a change or a CALL, with its semicolon. In a script of SQL rows go nowhere, and the last semicolon may be missing.
    pub(super) fn sql_statement(&mut self, line: u32, is_script: bool) -> Result<()> {
        let tokens = match is_script {
            false => self.until(&[";"])?,
            true => {
                let start = self.at;
                while self.peek().is_some_and(|token| !token.is(";")) {
                    self.at += 1;
                }
                start..self.at
            }
        };
        let (into, text) = if is_script { (None, self.text(&tokens).to_owned()) } else { self.without_into(&tokens)? };
        self.line = line;
        let query = self.embed(&text)?;
        let sort = self.sort_of(&query)?;
        let destination = || {
            syntax("query has no destination for result data")
                .with_hint("to discard the results of a SELECT, use PERFORM instead")
        };
        let into = match (sort, into) {
            (Sort::Call, None) => {
                let arguments = self.call_targets(&tokens);
                self.step("CALL", Op::Call { query, arguments })?;
                return self.after_sql(is_script);
            }
            (Sort::Call | Sort::Change { returns: false }, Some(_)) => {
                return Err(syntax("INTO used with a command that cannot return data"));
            }
            (Sort::Query | Sort::Change { returns: true }, None) if !is_script => return Err(destination()),
            (_, None) => None,
            (_, Some((into, true))) => Some((into, Rows::One)),
            (Sort::Query, Some((into, false))) => Some((into, Rows::First)),
            (_, Some((into, false))) => Some((into, Rows::AtMostOne)),
        };
        self.step("SQL statement", Op::Run { query, into })?;
        self.after_sql(is_script)
    }

    fn after_sql(&mut self, is_script: bool) -> Result<()> {
        match is_script {
            true => Ok(()),
            false => self.expect(";"),
        }
    }

    /// The text of a statement without INTO, where its row goes, and whether STRICT is said.
    #[allow(clippy::type_complexity)] // used once
    fn without_into(&mut self, tokens: &Range<usize>) -> Result<(Option<(Into, bool)>, String)> {
        let end = self.at;
        let mut found: Option<(Into, bool, Range<usize>)> = None;
        let (mut at, mut brackets) = (tokens.start, 0usize);
        while at < tokens.end {
            let token = &self.tokens[at];
            let is_of_insert = at > tokens.start && ["insert", "merge"].iter().any(|word| self.tokens[at - 1].is(word));
            match &token.lexeme {
                Lexeme::Sign("(" | "[") => brackets += 1,
                Lexeme::Sign(")" | "]") => brackets = brackets.saturating_sub(1),
                Lexeme::Word(word) if word == "into" && brackets == 0 && !is_of_insert => {
                    self.line = token.line;
                    if found.is_some() {
                        return Err(syntax("INTO specified more than once"));
                    }
                    self.at = at + 1;
                    let strict = self.accept("strict");
                    let into = self.targets_of_into()?;
                    found = Some((into, strict, at..self.at));
                    at = self.at;
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        self.at = end;
        let Some((into, strict, taken)) = found else { return Ok((None, self.text(tokens).to_owned())) };
        let text = format!("{} {}", self.text(&(tokens.start..taken.start)), self.text(&(taken.end..tokens.end)));
        Ok((Some((into, strict)), text))
    }

    /// A record, or a list of variables.
    pub(super) fn targets_of_into(&mut self) -> Result<Into> {
        let mut targets = vec![self.target()?];
        while self.accept(",") {
            targets.push(self.target()?);
        }
        let is_record = |target: &Target| matches!(target, Target::Slot(slot) if self.is_record(*slot));
        match targets.as_slice() {
            [Target::Slot(slot)] if self.is_record(*slot) => Ok(Into::Record(*slot)),
            targets if targets.iter().any(is_record) => {
                Err(syntax("record variable cannot be part of multiple-item INTO list"))
            }
            _ => Ok(Into::Targets(targets)),
        }
    }

    /// For each argument of a CALL the variable that it is, if it is one that can be assigned.
    fn call_targets(&self, tokens: &Range<usize>) -> Vec<Option<Target>> {
        let Some(open) = tokens.clone().find(|at| self.tokens[*at].is("(")) else { return Vec::new() };
        let inside = open + 1..tokens.end.saturating_sub(1).max(open + 1);
        if inside.is_empty() {
            return Vec::new();
        }
        let named = |at: usize| match self.tokens.get(at).map(|token| &token.lexeme) {
            Some(Lexeme::Word(name) | Lexeme::Quoted(name)) => Some(name.as_str()),
            _ => None,
        };
        let target = |mut argument: Range<usize>| {
            let is_named = |sign: &str| self.tokens.get(argument.start + 1).is_some_and(|token| token.is(sign));
            if argument.len() > 2 && (is_named("=>") || is_named(":=")) {
                argument.start += 2;
            }
            let mut parts = Vec::new();
            for (place, at) in argument.enumerate() {
                match place % 2 {
                    0 => parts.push(named(at)?),
                    _ if self.tokens[at].is(".") => {}
                    _ => return None,
                }
            }
            self.target_of(&parts).ok()
        };
        self.between_commas(&inside).into_iter().map(target).collect()
    }
}

/// The number of the parameter that stands for a variable.
fn number_of(sources: &mut Vec<Source>, source: Source) -> usize {
    match sources.iter().position(|known| *known == source) {
        Some(known) => known + 1,
        None => {
            sources.push(source);
            sources.len()
        }
    }
}
