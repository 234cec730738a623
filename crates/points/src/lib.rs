//! Statements about rows that they name by their keys, compiled once for a prepared statement: UPDATE, DELETE, SELECT and SELECT ... FOR
//! UPDATE whose WHERE fixes the whole primary key, with parameters as slots. Running one plans nothing.
//!
//! [`PointStatement::recognise`] takes the tree with its parameters; [`PointStatement::codes`] has the keys that it names with some
//! values; [`PointStatement::updated`] makes the new rows.
//!
//! Invariants:
//! - It refuses rather than errs. What is not in the closed list of expressions ([`expr`]) is not recognised; a value that does not fit, or
//!   of which the general way might make something else, gives `None`, and the statement is planned.
//! - What it makes is what the general way makes of the same statement and values: a test compares the two on generated statements
//!   (`crates/node/tests/it/point_statements.rs`).
//! - A compiled statement is of one definition of its table, and holds nothing of a session.

mod expr;
mod statement;
mod value;

pub use statement::{PointKind, PointLock, PointStatement, point_table};
