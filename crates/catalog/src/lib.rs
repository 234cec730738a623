//! What the tables are, at every version, who may do what with them, and what their members are called.
//!
//! Invariants:
//! - A [`Catalog`] is immutable; each batch with DDL makes the next one, by a pure function of the batch.
//! - Whatever ALTER TABLE changes, files written before are read rightly under the new definition ([`alter`]).
//! - A code that anything durable names is durable in its table's [`Dictionaries`] before, and means the same for ever.

pub mod alter;
pub mod rights;

mod catalog;
mod dictionary;

pub use catalog::{Catalog, Change, TableEntry};
pub use dictionary::{Dictionaries, DictionaryMark, LevelBounds};
