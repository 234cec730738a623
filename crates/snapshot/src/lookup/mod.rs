//! Rows of a snapshot by their keys: which rows have them, and what is in these.
//!
//! Invariants:
//! - A key has at most one row in a snapshot, and what is found is that one, whatever was written since.
//! - What the [`TableRead`](crate::TableRead) leaves out is not found, for whatever reason: a row that the transaction of
//!   the reader has killed is dead in it, as one that everybody sees dead. What somebody has put into its tail is found.
//! - The key index knows the newest row of a key that has a version, and `Recent` which keys were written after one. So
//!   the index answers for the keys that were not written after the snapshot's version ([`indexed`]); for the others, and
//!   for rows that a sort or a merge has moved since the snapshot, the snapshot itself is read ([`scan`]).

mod index;
mod indexed;
mod range;
mod scan;
mod values;

pub use index::identities_of;
pub use values::row_columns;

/// Where a row is in a [`TableRead`](crate::TableRead).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SnapshotRow {
    /// In a segment.
    Segment {
        /// The segment's place in [`TableRead::segments`](crate::TableRead::segments).
        segment: usize,
        /// The row's number in it.
        row: u32,
    },
    /// In the tail.
    Tail {
        /// The run's place in [`TableRead::tail`](crate::TableRead::tail).
        run: usize,
        /// The row's place in it.
        row: u32,
    },
}
