//! The catalog: definitions of tables at every version, rights, and dictionaries of level members.
//!
//! Invariants:
//! - A [`Catalog`] is immutable; each batch with DDL makes the next one, by a pure function of the batch.
//! - Whatever ALTER TABLE changes, files written before are read rightly under the new definition ([`alter`]).
//! - A code that anything durable names is durable in its table's [`Dictionaries`] before, and means the same for ever.

pub mod alter;
pub mod rights;

mod catalog;
mod dictionary;

pub use catalog::{Catalog, Change, CommentOn, TableEntry};
pub use dictionary::{CodeSet, Dictionaries, DictionaryMark, LevelBounds, Watched};
