//! From a definition to a program: everything in a body is compiled or refused by name and line.
//!
//! Invariants:
//! - Blocks and loops nest [`DEPTH_MAX`] deep at most, so that compiling fits on any stack.
//! - A variable is seen from behind its declaration to the end of its block; one of an inner block hides those of outer ones.
//! - Every jump is patched when what it leads out of ends.

mod declare;
mod loops;
mod raise;
mod reading;
mod sql;
mod statements;

pub(crate) use raise::unknown_condition;

use crate::definition::{Language, ProcedureDef};
use crate::own::Own;
use crate::program::{
    self, Compiled, CompiledParameter, Embedded, Expression, Op, Slot, SlotKind, Source, Step, Target,
};
use crate::tokens::{self, Token};
use alluvia_space::{ColumnType, DataType};
use alluvia_types::{Error, ErrorKind, Result};

/// How deep blocks, loops and branches nest.
const DEPTH_MAX: usize = 100;
/// The most steps of a program.
const STEPS_MAX: usize = 65_536;

/// The type of the column that a name with at least two parts means: `table.column` or `schema.table.column`.
pub type ColumnTypes<'a> = dyn Fn(&[String]) -> Option<ColumnType> + 'a;

/// Compiles a definition; `t.c%TYPE` is refused.
pub fn compile(def: &ProcedureDef) -> Result<Compiled> {
    compile_with(def, &|_| None)
}

/// Compiles a definition, with the types of columns.
pub fn compile_with(def: &ProcedureDef, columns: &ColumnTypes<'_>) -> Result<Compiled> {
    let mut compiler = Compiler {
        body: &def.body,
        tokens: tokens::of(&def.body)?,
        columns,
        at: 0,
        line: 1,
        depth: 0,
        slots: Vec::new(),
        constants: Vec::new(),
        parameters: Vec::new(),
        scopes: Vec::new(),
        frames: Vec::new(),
        loops: 0,
        steps: Vec::new(),
        statements: Vec::new(),
        casts: Vec::new(),
    };
    let parameters = compiler.heading(def)?;
    let compiled = match def.language {
        Language::Plpgsql => compiler.whole_body(),
        Language::Sql => compiler.script(def),
    };
    let line = compiler.line;
    compiled.map_err(|error| error.at(format!("line {line}")))?;
    let Compiler { slots, loops, steps, statements, .. } = compiler;
    Ok(Compiled { name: def.name.clone(), shown: program::shown(def), parameters, slots, loops, steps, statements })
}

/// The variables of a block, or of what declares one by itself.
struct Scope {
    label: Option<String>,
    variables: Vec<(String, usize)>,
}

/// A block or loop that is being compiled: what EXIT and CONTINUE lead out of.
struct Frame {
    label: Option<String>,
    is_loop: bool,
    /// The loop whose turns FOUND tells.
    counted: Option<usize>,
    /// Steps that jump to its end, and to its next turn.
    exits: Vec<usize>,
    continues: Vec<usize>,
}

struct Compiler<'a> {
    body: &'a str,
    tokens: Vec<Token>,
    columns: &'a ColumnTypes<'a>,
    at: usize,
    /// Where an error is.
    line: u32,
    depth: usize,
    slots: Vec<Slot>,
    /// Of each slot, whether it is declared CONSTANT.
    constants: Vec<bool>,
    /// The slots of `$1`, `$2`, ...
    parameters: Vec<usize>,
    scopes: Vec<Scope>,
    frames: Vec<Frame>,
    loops: usize,
    steps: Vec<Step>,
    statements: Vec<Embedded>,
    /// The statements that cast to types.
    casts: Vec<(DataType, usize)>,
}

impl Compiler<'_> {
    /// FOUND and the parameters.
    fn heading(&mut self, def: &ProcedureDef) -> Result<Vec<CompiledParameter>> {
        self.scopes.push(Scope { label: None, variables: Vec::new() });
        let found = self.new_scalar("found", DataType::Boolean.into(), false)?;
        self.declare("found", found)?;
        // In a scope of their own, so that a parameter may have any name.
        self.scopes.push(Scope { label: Some(def.name.clone()), variables: Vec::new() });
        let mut parameters = Vec::new();
        for parameter in &def.parameters {
            // As in PostgreSQL, a parameter has no length.
            let column_type = ColumnType { data_type: parameter.data_type, chars_max: None };
            let default = match &parameter.default {
                None => None,
                Some(default) => {
                    let scopes = std::mem::take(&mut self.scopes);
                    let compiled = self.expression_of(default);
                    self.scopes = scopes;
                    Some(compiled.map_err(|error| error.at(format!("the default of {}", parameter.name)))?)
                }
            };
            let slot = self.new_scalar(&parameter.name, column_type, false)?;
            self.declare(&parameter.name, slot)?;
            self.parameters.push(slot);
            parameters.push(CompiledParameter { parameter: parameter.clone(), slot, default });
        }
        Ok(parameters)
    }

    /// A body in PL/pgSQL.
    fn whole_body(&mut self) -> Result<()> {
        let label = self.label()?;
        self.block(label)?;
        let _ = self.accept(";");
        if let Some(token) = self.peek() {
            return Err(self.unexpected(&token, "the end of the body"));
        }
        self.step("RETURN", Op::Return)
    }

    /// A body in SQL.
    fn script(&mut self, def: &ProcedureDef) -> Result<()> {
        if def.parameters.iter().any(|parameter| parameter.mode.is_output()) {
            return Err(refused("an output parameter of a procedure in SQL").with_hint("write it in plpgsql"));
        }
        while self.peek().is_some() {
            if self.accept(";") {
                continue;
            }
            self.line = self.peek().map_or(self.line, |token| token.line);
            self.sql_statement(self.line, true)?;
        }
        self.step("RETURN", Op::Return)
    }

    /// Makes a slot.
    fn new_slot(&mut self, name: &str, kind: SlotKind) -> usize {
        self.slots.push(Slot { name: name.to_owned(), kind });
        self.constants.push(false);
        self.slots.len() - 1
    }

    fn new_scalar(&mut self, name: &str, column_type: ColumnType, not_null: bool) -> Result<usize> {
        let cast = self.cast_to(column_type.data_type)?;
        Ok(self.new_slot(name, SlotKind::Scalar { column_type, not_null, cast }))
    }

    /// The statement that casts to a type.
    fn cast_to(&mut self, data_type: DataType) -> Result<usize> {
        if let Some((_, known)) = self.casts.iter().find(|(known, _)| *known == data_type) {
            return Ok(*known);
        }
        let name = match data_type {
            // Of a length of one, if none is said.
            DataType::Char => DataType::Text.sql_name(),
            other => other.sql_name(),
        };
        let statement = self.embedded(&format!("SELECT CAST($1 AS {name})"))?;
        self.casts.push((data_type, statement));
        Ok(statement)
    }

    /// Makes a variable known.
    fn declare(&mut self, name: &str, slot: usize) -> Result<()> {
        let Some(scope) = self.scopes.last_mut() else { return Err(Error::internal("a variable has no scope")) };
        if scope.variables.iter().any(|(known, _)| known == name) {
            return Err(syntax(format!("duplicate declaration of \"{name}\"")));
        }
        scope.variables.push((name.to_owned(), slot));
        Ok(())
    }

    /// The variable of a name alone.
    fn variable(&self, name: &str) -> Option<usize> {
        let mut scopes = self.scopes.iter().rev();
        scopes.find_map(|scope| scope.variables.iter().find(|(known, _)| known == name).map(|(_, slot)| *slot))
    }

    /// The variable that a dotted name means, and how many of its parts name it.
    fn resolve(&self, parts: &[&str]) -> Option<(Source, usize)> {
        let [first, rest @ ..] = parts else { return None };
        let found = |slot: usize, behind: Option<&&str>, named: usize| match (&self.slots[slot].kind, behind) {
            (SlotKind::Record, Some(field)) => Some((Source::Field(slot, (*field).to_owned()), named + 1)),
            // A table may be called like a variable that has no fields.
            (_, Some(_)) if named == 1 => None,
            _ => Some((Source::Slot(slot), named)),
        };
        if let Some(resolved) = self.variable(first).and_then(|slot| found(slot, rest.first(), 1)) {
            return Some(resolved);
        }
        let [second, rest @ ..] = rest else { return None };
        let labelled = self.scopes.iter().rev().find(|scope| scope.label.as_deref() == Some(first))?;
        let slot = labelled.variables.iter().find(|(known, _)| known == second)?.1;
        found(slot, rest.first(), 2)
    }

    /// A variable that is to be assigned; a record without a field is given as its slot.
    fn target_of(&self, parts: &[&str]) -> Result<Target> {
        let shown = parts.join(".");
        match self.resolve(parts) {
            Some((source, named)) if named == parts.len() => {
                let slot = match &source {
                    Source::Slot(slot) | Source::Field(slot, _) => *slot,
                };
                if self.constants[slot] {
                    let message = format!("variable \"{shown}\" is declared CONSTANT");
                    return Err(Error::new(ErrorKind::InvalidValue, message).with_sqlstate("22005"));
                }
                Ok(match source {
                    Source::Slot(slot) => Target::Slot(slot),
                    Source::Field(slot, field) => Target::Field(slot, field),
                })
            }
            _ => Err(syntax(format!("\"{shown}\" is not a known variable"))),
        }
    }

    fn is_record(&self, slot: usize) -> bool {
        matches!(self.slots[slot].kind, SlotKind::Record)
    }

    /// Adds a step of the statement that is at `line`.
    fn step(&mut self, name: &'static str, op: Op) -> Result<()> {
        self.step_at(self.line, name, op)
    }

    fn step_at(&mut self, line: u32, name: &'static str, op: Op) -> Result<()> {
        if self.steps.len() >= STEPS_MAX {
            return Err(Error::new(ErrorKind::TooLarge, format!("the procedure has more than {STEPS_MAX} steps"))
                .with_hint("make several procedures of it"));
        }
        self.steps.push(Step { line, name, op });
        Ok(())
    }

    /// Lets a jump lead to where the next step will be.
    fn patch(&mut self, step: usize) {
        let here = self.steps.len();
        match self.steps.get_mut(step).map(|step| &mut step.op) {
            Some(
                Op::Jump(to) | Op::JumpUnless(_, to) | Op::CountNext { end: to, .. } | Op::RowsNext { end: to, .. },
            ) => *to = here,
            _ => debug_assert!(false, "only jumps are patched"),
        }
    }

    /// An expression that is written within the body or a default.
    fn expression_of(&mut self, text: &str) -> Result<Expression> {
        let query = self.embed(&format!("SELECT {text}"))?;
        let own = match &self.statements[query.statement].statement.kind {
            alluvia_syntax::Kind::Query(tree) => Own::of_query(tree),
            alluvia_syntax::Kind::Locking(_) => None,
            _ => return Err(syntax(format!("{text} is no expression"))),
        };
        Ok(Expression { own, query })
    }
}

fn syntax(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Syntax, message)
}

/// What PL/pgSQL has and this does not.
fn refused(what: &str) -> Error {
    Error::new(ErrorKind::NotSupported, format!("{what} is not supported"))
}
