//! PostgreSQL's functions and operators, as DataFusion calls them.
//!
//! Invariants:
//! - A function means what PostgreSQL means by it, or is refused by name.
//! - Nothing here plans: a function knows its arguments' types and values, and no plan, session or table.
//! - A function that can make much of little counts what it would make before it makes it ([`output_size`]).

pub mod aggregates;
pub mod arrays;
pub mod bytes;
pub mod casts;
pub mod codec;
pub mod columnar;
pub mod conditional;
pub mod datetime;
pub mod delegate;
pub(crate) mod in_slices;
pub mod internal;
pub mod json;
pub mod operators;
pub mod output_size;
pub mod regex;
pub mod rounding;
pub mod stopping;
pub mod table;
pub mod text;
pub mod to_char;
pub mod view_arrays;
pub mod windows;
