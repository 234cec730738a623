//! JSON and JSONB: what is taken out of it, looked for in it, changed in it and made of values.
//!
//! Invariants:
//! - JSON is kept as it is written, JSONB as PostgreSQL prints it (`alluvia_values::jsonb`), so that two are equal where their texts are.
//! - Functions that take JSON take a text, too, and read it.
//! - The kind of a value is in its field ([`crate::casts::kinds`]): what gives JSON says so.

pub(crate) mod access;
pub(crate) mod aggregates;
pub mod build;
pub(crate) mod changed;
mod operators;
pub(crate) mod text;
mod tree;
pub(crate) mod written;

pub use operators::{JsonOperators, JsonSubscripts};
