//! `pg_catalog` and `information_schema`: the database as PostgreSQL's tools look at it. Knows nothing of sessions: what a statement
//! carries from its session is a [`CatalogContext`], and who asks a [`Viewer`].
//!
//! Invariants:
//! - Only statements that name something of it get it: [`prepare`] leaves every other tree as it is, and adds no functions.
//! - Its tables are made when they are scanned, of the statement's snapshot. Columns are those of PostgreSQL 16 (`columns.txt`), so
//!   that a tool's query plans whatever it asks; what Alluvia does not have (triggers, policies, ...) is empty, and of indexes there
//!   are those of keys ([`keys`]).
//! - What a tool could take for a fact is one: sizes, definitions, settings. What there is no fact for is NULL.
//!
//! Tools write these queries in PostgreSQL's full language. [`rewrite`] brings them to what is planned here: names without their
//! schema, casts to `regclass`, operators written out, subqueries in expressions, parts that can only be empty.

mod comments;
mod constants;
mod constraints;
mod context;
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
mod reg;
mod relations;
mod rewrite;
mod rights;
mod routines;
mod system_tables;
mod tableoid;
mod tables;
mod time_zones;
mod types;
mod versions;
mod views;

pub use constants::{function_names, is_function};
pub use context::{CatalogContext, SettingRow, SettingsView, Viewer};
pub use functions::register;
pub use parameters::compared;
pub use relations::table_oid;
pub use rewrite::prepare;
pub use system_tables::SystemTables;
pub use tables::CatalogSchema;
