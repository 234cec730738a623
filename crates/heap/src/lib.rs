//! The heap: the rows of a table with a key in memory, one by one, with ordered indexes, for statements that are about few rows
//! (BatchDB, Makreshanski et al., SIGMOD 2017, section 4: "row storage, hash and ordered indexes").
//!
//! Segments, tail and key index decide what is there; a heap follows the log as cuboids do, and answers faster what they would answer:
//! without one every statement means the same. So it may come and go: it is made when a statement asks for rows of its table, and given
//! up where it takes more memory than it may, where rows came in a way that it does not follow, or where nobody asks for it and another
//! table's needs the room.
//!
//! - [`layout`](layout::Layout): a row as bytes, fields at constant offsets;
//! - [`ordered`](ordered::Ordered): an index by the order of some columns;
//! - [`rows`](rows::Rows): rows and their versions;
//! - [`Heap`]: these, and the *feed*, in which batches wait that are visible and not applied yet;
//! - [`Heaps`]: those of a database, and what memory they may take.
//!
//! Invariants:
//! - A batch is fed when it becomes visible, in the order of versions: nothing that could be taken back is in a heap.
//! - At every version from the heap's floor on that somebody has pinned, it has the rows that the table has.
//! - An index may name rows that do not have its key at the reader's version: whoever reads by it looks at the row.

mod feed;
mod heap;
mod heaps;
mod layout;
mod ordered;
mod rows;

pub use feed::{FedBatch, FedKey};
pub use heap::{Heap, HeapView, bytes_about, indexes_of};
pub use heaps::Heaps;
pub use layout::{Cell, Layout, RowRef};
pub use ordered::KeyRange;

#[cfg(test)]
mod tests;
