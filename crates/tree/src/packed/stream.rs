//! One stream of a side file in memory: the packed codes of a level, or values of a measure, of all blocks of a
//! segment.

/// One stream of the side file in memory: a level's codes or a measure's values, packed block by block.
#[derive(Debug, Default)]
pub(crate) struct PackedStream {
    bytes: Vec<u8>,
    /// Where each block begins, and where the last one ends.
    starts: Vec<usize>,
}

impl PackedStream {
    /// Blocks that lie in these bytes one after the other; `starts` says where each begins, and where the last one
    /// ends.
    pub(crate) fn new(bytes: Vec<u8>, starts: Vec<usize>) -> PackedStream {
        PackedStream { bytes, starts }
    }

    /// The packed codes or values of a block.
    pub(crate) fn block(&self, block: usize) -> &[u8] {
        &self.bytes[self.starts[block]..self.starts[block + 1]]
    }
}
