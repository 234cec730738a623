//! UNIQUE and foreign keys: what is to be looked at where rows change, who is kept from changing it meanwhile, and what is said where a
//! constraint does not hold.
//!
//! A value is locked, and then looked for in what is newest and in what its transaction has changed. Whoever writes the same value holds
//! the lock until what it has written is visible, so one of two sees the other:
//! - rows that come have their values in unique indexes locked for themselves alone;
//! - rows that refer to others share the lock of the value by which they do, and who takes a parent away has it alone.
//!
//! Invariants:
//! - Nothing here reads, locks or writes by itself: a session does ([`settle::Looks`]).
//! - NULLs are distinct: values with one in any column are never looked for.
//! - A statement ends, and a transaction commits, when nothing is left to be looked at.

pub mod concerns;
pub mod definition;
pub mod events;
pub mod messages;
pub mod settle;
pub mod values;
pub mod waiting;

pub use concerns::{Decided, Doing, concerns};
pub use events::{Event, Happened};
pub use settle::{Looks, settle};
pub use values::Values;
pub use waiting::Events;
