//! What a heap is told of a batch that has become visible.

use alluvia_space::key_code::KeyCode;
use alluvia_types::Version;
use arrow::array::RecordBatch;

/// A batch's changes of one table.
#[derive(Clone, Debug)]
pub struct FedBatch {
    /// The batch's version.
    pub version: Version,
    /// The rows that came with it, with the hidden columns; ordinals ascend.
    pub rows: Option<RecordBatch>,
    /// What the rows take in memory.
    pub bytes: usize,
    /// Every key that it wrote, once.
    pub keys: Vec<FedKey>,
}

/// What has become of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FedKey {
    /// The key.
    pub code: KeyCode,
    /// The ordinal of its row among the batch's; `None` where it has no row any more.
    pub ordinal: Option<u64>,
}
