//! Rows on their way into or out of a segment.

use alluvia_space::LevelCodes;
use arrow::record_batch::RecordBatch;

/// Rows in key order, with their keys and codes.
///
/// `rows` has the table's columns by storage name, then `_version` and `_ordinal`; a TEXT column may be `Utf8View`, `Utf8`
/// or a dictionary of `Utf8` with 32-bit keys. `keys` ascend. `codes` has one vector per level, in the definition's order
/// of dimensions and levels, each as long as `rows`.
#[derive(Clone, Debug)]
pub struct RowChunk {
    /// The values.
    pub rows: RecordBatch,
    /// Each row's curve key.
    pub keys: Vec<u128>,
    /// Each row's code at every level; 0 is NULL.
    pub codes: LevelCodes,
}

impl RowChunk {
    /// How many rows.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}
