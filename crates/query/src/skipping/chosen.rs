//! Which blocks of segments a scan reads.

use std::ops::Range;

/// Blocks of one segment that may match.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Chosen {
    /// One entry per block.
    pub(crate) blocks: Vec<bool>,
    pub(crate) count: usize,
}

impl Chosen {
    /// All of them.
    pub(crate) fn all(blocks: usize) -> Chosen {
        Chosen { blocks: vec![true; blocks], count: blocks }
    }

    pub(crate) fn new(blocks: Vec<bool>) -> Chosen {
        let count = blocks.iter().filter(|&&chosen| chosen).count();
        Chosen { blocks, count }
    }

    /// How many.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// How many are left out.
    pub(crate) fn skipped(&self) -> usize {
        self.blocks.len() - self.count
    }

    /// One entry per block.
    pub(crate) fn as_slice(&self) -> &[bool] {
        &self.blocks
    }

    /// Runs of neighbouring chosen blocks within `range`.
    pub(crate) fn runs(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for block in range.filter(|&block| self.blocks[block]) {
            match runs.last_mut() {
                Some(run) if run.end == block => run.end += 1,
                _ => runs.push(block..block + 1),
            }
        }
        runs
    }

    /// Leaves out the chosen blocks of which `keep` does not hold.
    pub(crate) fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        for (block, chosen) in self.blocks.iter_mut().enumerate() {
            *chosen &= keep(block);
        }
        self.count = self.blocks.iter().filter(|&&chosen| chosen).count();
    }

    /// Leaves out all but the first blocks that together have `rows` rows.
    pub(crate) fn keep_rows(&mut self, rows: &mut u64, rows_of: impl Fn(usize) -> u64) {
        for block in 0..self.blocks.len() {
            if self.blocks[block] && *rows == 0 {
                self.blocks[block] = false;
                self.count -= 1;
            } else if self.blocks[block] {
                *rows = rows.saturating_sub(rows_of(block));
            }
        }
    }
}
