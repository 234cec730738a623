//! Where a row is.

use alluvia_types::{SegmentId, Version};

/// Where a row is now.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RowPlace {
    /// In a segment.
    Segment {
        /// The segment.
        segment: SegmentId,
        /// The row's number in it.
        row: u32,
    },
    /// In the tail, under its identity.
    Tail {
        /// The row's version.
        version: Version,
        /// Its ordinal within its batch and table: below `space::weight::STAGED_ORDINAL_MIN`, since staged rows come as
        /// segments.
        ordinal: u64,
    },
}
