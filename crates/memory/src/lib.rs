//! Memory of statements: bounded for each and for all together, and whose turn it is where there is not enough for all.
//!
//! Invariants:
//! - A statement's operators share its own bound fairly, so that each of them spills in its turn.
//! - The sum over all statements never passes the database's bound by `try_grow`; `grow`, which must not fail, is counted.
//! - A statement that found no memory because others had it waits its turn. Turns come in the order in which they were asked for, and one
//!   statement has the turn at a time; so of many that do not fit side by side each is answered that fits by itself.

mod admission;
mod pool;
mod waiter;

pub use admission::{Admission, Turn};
pub use pool::{QueryMemory, TotalMemory};
pub use waiter::Waiter;
