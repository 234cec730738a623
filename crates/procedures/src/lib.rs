//! Procedures in a subset of PL/pgSQL, and in plain SQL: compiled when they are made, run by CALL and DO.
//!
//! # What there is
//!
//! - [`ProcedureDef`]: a definition as it is stored (serde), made of a parsed CREATE PROCEDURE by [`ProcedureDef::of`], or of a DO block by
//!   [`ProcedureDef::of_block`].
//! - [`compile`] checks all of a definition, and gives a [`Compiled`]: steps, and the SQL statements that they run ([`Embedded`], each parsed
//!   already, with `$n` in the place of variables). It knows no table. [`compile_with`] is told columns' types, for `t.c%TYPE`.
//! - [`Compiled::call`] runs it on a [`Host`], the port that whoever has sessions implements: it runs one embedded statement with values, tells
//!   the client notices, and says whether to stop. An `Embedded` is prepared once for a session and kept by its
//!   [`number`](Embedded::number), for which there is room from 0 on; most expressions are never asked for (below).
//!
//! # The language
//!
//! DECLARE (`name [CONSTANT] type [NOT NULL] [:= | DEFAULT expression]`, `variable%TYPE`, `t.c%TYPE`, RECORD), blocks, labels, assignments,
//! `SELECT ... INTO [STRICT]`, INSERT, UPDATE and DELETE with or without `RETURNING ... INTO [STRICT]`, PERFORM, CALL, IF, CASE, LOOP, WHILE,
//! FOR over integers and over the rows of a query, EXIT, CONTINUE, RETURN, RAISE, ASSERT, GET DIAGNOSTICS of ROW_COUNT, FOUND, NULL. All else is
//! refused by name and line when the procedure is made: EXECUTE, EXCEPTION, COMMIT and ROLLBACK, cursors, FOREACH (there is no type of
//! arrays), definitions of tables, nested functions.
//!
//! # Names
//!
//! An unqualified name in an expression that a variable has is the variable, also where a column has it, too. PostgreSQL looks at the tables
//! and refuses what may be both; here no table is known when a procedure is made. So call variables otherwise than columns, or write the column
//! with its table: `t.x`. Names that are in no expression are never variables: tables, functions, types, aliases behind AS, the columns of an INSERT's list
//! and of ON CONFLICT, the left sides of an UPDATE's SET. A name alone in ORDER BY or GROUP BY that a variable has is refused (42702), since
//! a variable orders nothing. `r.x` is the field of a record variable `r`, or the variable `x` of the block or procedure called `r`, if there
//! is one; else it is a column.
//!
//! # Invariants
//!
//! - What compiles is run as it is written or fails with PostgreSQL's SQLSTATE; nothing is left out.
//! - An expression that the interpreter evaluates itself (constants, variables, whole numbers, decimals, comparisons, logic, `||` of texts) is what the
//!   statement `SELECT expression` gives: whatever it is not sure of goes to the host. Overflow is an error.
//! - A variable has a value of its declared type or NULL, assigned as PostgreSQL assigns; a length is kept.
//! - Every call and every turn of a loop asks [`Host::check_stop`], and gives its thread to others now and then. [`Host::hold`] bounds what
//!   variables hold. Calls nest [`CALLS_MAX`] deep at most.
//! - No text, whatever is in it, makes the compiler panic, overflow its stack, or take more than time in proportion (by statements).
//! - An error of a run says as its context where it was: `PL/pgSQL procedure p line 3 at RAISE`. One of the compiler begins with its line.
//!
//! # Modules, each above those before it
//!
//! | Module | |
//! |---|---|
//! | `definition` | what is stored |
//! | `tokens` | a body as words, texts and signs |
//! | `program` | steps, slots, what they are made of |
//! | `own` | expressions that the interpreter evaluates itself |
//! | `assign` | values as their variables hold them |
//! | `conditions` | names of SQLSTATEs |
//! | `compiler` | from a body to a program |
//! | `host`, `run` | the port, and the interpreter |
//! | `arguments` | those of a CALL that need no statement |
//! | `kept` | compiled procedures that sessions share |

mod arguments;
mod assign;
mod compiler;
mod conditions;
mod definition;
mod host;
mod kept;
mod own;
mod program;
mod run;
mod tokens;

#[cfg(test)]
mod tests;

pub use arguments::{parameters_of, plain_arguments};
pub use compiler::{ColumnTypes, compile, compile_with};
pub use definition::{Language, Mode, Parameter, ProcedureDef};
pub use host::{Answer, CALLS_MAX, Host, Level, Notice, Pending};
pub use kept::{Kept, KeptRoutines};
pub use program::{Compiled, Embedded};
pub use run::Outputs;
