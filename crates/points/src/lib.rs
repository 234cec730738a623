//! Statements about few rows, compiled once for a prepared statement, with parameters as slots. Running one plans nothing.
//!
//! Two kinds are known. UPDATE, DELETE, SELECT and SELECT ... FOR UPDATE whose WHERE fixes whole primary keys: these rows are found wherever
//! they are ([`PointStatement::codes`]). And the same, joins of up to four tables, aggregates and groups among them, whose WHERE fixes the
//! first columns of an index for each table ([`PointQuery`]): these are answered by heaps ([`alluvia_heap`]), where there are some.
//!
//! [`PointStatement::recognise`] takes the tree with its parameters; [`PointStatement::updated`] makes the new rows of an UPDATE.
//!
//! - [`expr`], [`condition`], [`value`]: the closed list of expressions, and what they come to;
//! - [`access`]: which index reaches a table's rows, and in which order tables are read;
//! - [`query`], [`run`], [`output`]: a query, its nested loops, and what it makes of the rows.
//!
//! Invariants:
//! - It refuses rather than errs. What is not in the closed list is not recognised; a value that does not fit, or of which the general way
//!   might make something else, gives `None`, and the statement is planned.
//! - What it makes is what the general way makes of the same statement and values: a test compares the two on generated statements
//!   (`crates/node/tests/it/point_statements.rs`).
//! - A compiled statement is of one definition of its tables, and holds nothing of a session.

mod access;
mod condition;
mod expr;
mod names;
mod output;
mod query;
mod run;
mod statement;
mod value;

pub use output::FoundRows;
pub use query::PointQuery;
pub use run::OwnRows;
pub use statement::{PointKind, PointLock, PointStatement, point_tables};

#[cfg(test)]
mod tests;
