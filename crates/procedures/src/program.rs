//! A compiled procedure: steps with jumps, the slots of its variables, and the statements that it runs.
//!
//! Invariants:
//! - Jumps, slots, loops and statements that steps name are there: only the compiler makes them.
//! - A program holds nothing of a run, and nothing of a table: any number of sessions may run it at once.

use crate::definition::{Parameter, ProcedureDef};
use crate::host::Level;
use crate::own::Own;
use alluvia_space::ColumnType;
use alluvia_syntax::Statement;

/// A statement of a procedure, with parameters in the place of variables.
#[derive(Clone, Debug)]
pub struct Embedded {
    /// Its number in its procedure, from 0 on.
    pub number: usize,
    /// The statement, parsed, with parameters.
    pub statement: Statement,
}

impl Embedded {
    /// Its number in its procedure, from 0 on.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Its text, with `$n` in the place of variables.
    pub fn sql(&self) -> &str {
        self.statement.sql()
    }

    /// How many values it is run with.
    pub fn parameters(&self) -> usize {
        self.statement.parameters()
    }
}

/// A procedure that can be called.
#[derive(Debug)]
pub struct Compiled {
    pub(crate) name: String,
    /// As errors call it: `PL/pgSQL procedure p`.
    pub(crate) shown: String,
    pub(crate) parameters: Vec<CompiledParameter>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) loops: usize,
    pub(crate) steps: Vec<Step>,
    pub(crate) statements: Vec<Embedded>,
}

impl Compiled {
    /// The statements that it may run, each at its number.
    pub fn statements(&self) -> &[Embedded] {
        &self.statements
    }

    /// What it holds, in bytes, about.
    pub fn bytes(&self) -> usize {
        let statements: usize = self.statements.iter().map(|embedded| embedded.statement.bytes()).sum();
        statements + self.steps.len() * size_of::<Step>() + self.slots.len() * size_of::<Slot>()
    }
}

/// A parameter, and where its value is.
#[derive(Debug)]
pub(crate) struct CompiledParameter {
    pub parameter: Parameter,
    pub slot: usize,
    pub default: Option<Expression>,
}

/// The slot of FOUND.
pub(crate) const FOUND: usize = 0;

/// A place of a variable's value.
#[derive(Debug)]
pub(crate) struct Slot {
    pub name: String,
    pub kind: SlotKind,
}

#[derive(Debug)]
pub(crate) enum SlotKind {
    Scalar {
        column_type: ColumnType,
        not_null: bool,
        /// The statement that casts its parameter to the type, without a length.
        cast: usize,
    },
    Record,
    /// Of any type: what a CASE compares.
    Any,
}

/// Where a value comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    Slot(usize),
    Field(usize, String),
}

/// Where a value goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    Slot(usize),
    Field(usize, String),
}

/// A statement with the values that it is run with.
#[derive(Debug)]
pub(crate) struct Query {
    pub statement: usize,
    pub sources: Vec<Source>,
}

/// An expression: evaluated here if it can be, and else by its statement.
#[derive(Debug)]
pub(crate) struct Expression {
    pub own: Option<Own>,
    pub query: Query,
}

/// Where the columns of a row go.
#[derive(Debug)]
pub(crate) enum Into {
    Record(usize),
    Targets(Vec<Target>),
}

/// What is asked of the rows of a statement that has INTO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rows {
    /// The first, if there is one.
    First,
    /// One at most.
    AtMostOne,
    /// STRICT: one.
    One,
}

#[derive(Debug)]
pub(crate) struct Step {
    pub line: u32,
    /// As errors call the statement.
    pub name: &'static str,
    pub op: Op,
}

#[derive(Debug)]
pub(crate) enum Op {
    Assign {
        target: Target,
        value: Expression,
    },
    /// NULL, or a record without fields.
    Clear(usize),
    Run {
        query: Query,
        into: Option<(Into, Rows)>,
    },
    /// With a target for each argument that is a variable.
    Call {
        query: Query,
        arguments: Vec<Option<Target>>,
    },
    Jump(usize),
    /// If it is false or NULL.
    JumpUnless(Expression, usize),
    Count(Box<Count>),
    /// The next number into a slot, or a jump.
    CountNext {
        id: usize,
        slot: usize,
        end: usize,
    },
    Rows {
        id: usize,
        query: Query,
    },
    RowsNext {
        id: usize,
        into: Into,
        end: usize,
    },
    /// FOUND by whether the loop had a turn.
    LoopFound(usize),
    CaseMissing,
    Raise(Box<Raise>),
    Assert {
        condition: Expression,
        message: Option<Expression>,
    },
    RowCount(Vec<Target>),
    Return,
}

/// FOR over integers.
#[derive(Debug)]
pub(crate) struct Count {
    pub id: usize,
    pub from: Expression,
    pub to: Expression,
    pub by: Option<Expression>,
    pub reverse: bool,
    /// The statement that casts to INT.
    pub cast: usize,
}

/// RAISE.
#[derive(Debug)]
pub(crate) struct Raise {
    pub level: Level,
    /// Pieces of the format with an argument between each two.
    pub pieces: Option<Vec<String>>,
    pub arguments: Vec<Expression>,
    pub sqlstate: Option<&'static str>,
    /// SQLSTATE '...', checked.
    pub written_sqlstate: Option<String>,
    /// The condition that is named, which is the message of last resort.
    pub condition: Option<String>,
    pub options: Vec<(RaiseOption, Expression)>,
    /// The statement that casts to TEXT.
    pub cast: usize,
}

/// What USING says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RaiseOption {
    Message,
    Detail,
    Hint,
    Errcode,
}

/// How errors call a procedure.
pub(crate) fn shown(def: &ProcedureDef) -> String {
    format!("{} procedure {}", def.language.shown(), def.name)
}
