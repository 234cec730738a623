//! `pg_catalog` and `information_schema`: the database as PostgreSQL's tools look at it.
//!
//! Invariants:
//! - Only statements that name something of it get it: [`prepare`] leaves every other tree as it is, and adds no functions.
//! - Its tables are made when they are scanned, of the statement's snapshot. Columns are those of PostgreSQL 16 (`columns.txt`), so
//!   that a tool's query plans whatever it asks; what Alluvia does not have (triggers, policies, ...) is empty, and of indexes there are those of keys
//!   ([`keys`]).
//! - What a tool could take for a fact is one: sizes, definitions, settings. What there is no fact for is NULL.
//!
//! Tools write these queries in PostgreSQL's full language. [`rewrite`] brings them to what is planned here: names without their
//! schema, casts to `regclass`, operators written out, subqueries in expressions, parts that can only be empty.

mod constants;
mod defaults;
mod definitions;
mod distinct;
mod empty;
mod factors;
mod facts;
mod fold;
mod functions;
mod information;
mod keys;
mod parameters;
mod procedures;
mod relations;
mod rewrite;
mod rights;
mod tables;
mod types;
mod versions;
mod views;

pub(crate) use constants::{function_names, is_function};
pub(crate) use functions::register;
pub(crate) use parameters::compared;
pub(crate) use rewrite::prepare;
pub(crate) use tables::{CatalogSchema, INFORMATION_SCHEMA, PG_CATALOG};
