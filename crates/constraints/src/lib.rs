//! UNIQUE and foreign keys: what is to be looked at where rows change, and what is said where a constraint does not hold.
//!
//! Invariants:
//! - Nothing here reads, locks or writes: definitions and rows go in; values to lock and to look for, and errors, come out.
//! - NULLs are distinct: values with one in any column are never looked for.

pub mod definition;
pub mod messages;
