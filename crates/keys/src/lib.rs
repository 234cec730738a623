//! What is remembered of the keys of a table with a primary key: where the row of each is, and which were written lately.
//!
//! Invariants:
//! - Nothing here has files, threads or locks: whoever owns a [`KeyIndex`] or a [`Recent`] locks it, and rebuilds it from
//!   segments and log when the database is opened.
//! - A key is its code (`space::key_code`). Codes are kept whole and compared whole, so an index finds a key or does not;
//!   it never finds another one.
//! - Both know *sequenced* writes, also those that are not durable yet, and both can take them back.

mod index;
mod place;
mod recent;

pub use index::{KeyIndex, KeyIndexBuilder};
pub use place::RowPlace;
pub use recent::Recent;
