//! Which blocks of segments a scan reads.

use std::ops::{Add, Range, Sub};

/// Blocks of one segment that may match.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// One entry per block.
    blocks: Vec<bool>,
    count: usize,
}

impl Chosen {
    /// All of them.
    pub fn all(blocks: usize) -> Chosen {
        Chosen { blocks: vec![true; blocks], count: blocks }
    }

    /// Those that have `true`.
    pub fn new(blocks: Vec<bool>) -> Chosen {
        let count = blocks.iter().filter(|&&chosen| chosen).count();
        Chosen { blocks, count }
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many are left out.
    pub fn skipped(&self) -> usize {
        self.blocks.len() - self.count
    }

    /// One entry per block.
    pub fn as_slice(&self) -> &[bool] {
        &self.blocks
    }

    /// Runs of neighbouring chosen blocks within `range`.
    pub fn runs(&self, range: Range<usize>) -> Vec<Range<usize>> {
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
    pub fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        for (block, chosen) in self.blocks.iter_mut().enumerate() {
            *chosen &= keep(block);
        }
        self.count = self.blocks.iter().filter(|&&chosen| chosen).count();
    }

    /// Leaves out all but the first blocks that together have `rows` rows.
    pub fn keep_rows(&mut self, rows: &mut u64, rows_of: impl Fn(usize) -> u64) {
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

/// Cuts runs of blocks, or of rows, into pieces of so many; only the last has fewer.
pub fn slice_runs<T>(runs: &[Range<T>], size: T) -> Vec<Vec<Range<T>>>
where
    T: Copy + Default + Ord + Add<Output = T> + Sub<Output = T>,
{
    let mut pieces: Vec<Vec<Range<T>>> = Vec::new();
    let mut room = T::default();
    for run in runs {
        let mut start = run.start;
        while start < run.end {
            if room == T::default() {
                pieces.push(Vec::new());
                room = size;
            }
            let end = run.end.min(start + room);
            if let Some(piece) = pieces.last_mut() {
                piece.push(start..end);
            }
            room = room - (end - start);
            start = end;
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sliced_runs_are_the_runs_in_pieces(
            gaps in prop::collection::vec((1usize..20, 1usize..5), 0..20),
            size in 1usize..30,
        ) {
            let mut at = 0;
            let mut runs = Vec::new();
            for (len, gap) in gaps {
                runs.push(at..at + len);
                at += len + gap;
            }
            let pieces = slice_runs(&runs, size);
            let blocks = |runs: &[Range<usize>]| runs.iter().cloned().flatten().collect::<Vec<_>>();
            let all: Vec<usize> = pieces.iter().flat_map(|piece| blocks(piece)).collect();
            prop_assert_eq!(all, blocks(&runs));
            let sizes: Vec<usize> = pieces.iter().map(|piece| blocks(piece).len()).collect();
            prop_assert!(sizes.iter().rev().skip(1).all(|&blocks| blocks == size));
            prop_assert!(sizes.last().is_none_or(|&blocks| blocks >= 1 && blocks <= size));
        }
    }

    #[test]
    fn runs_are_the_chosen_blocks_of_a_range() {
        let chosen = Chosen::new(vec![true, true, false, true, true, true, false]);
        assert_eq!((chosen.count(), chosen.skipped()), (5, 2));
        assert_eq!(chosen.runs(0..7), [0..2, 3..6]);
        assert_eq!(chosen.runs(1..4), [1..2, 3..4]);
        assert!(chosen.runs(6..7).is_empty());
    }

    #[test]
    fn keep_rows_keeps_just_enough_blocks() {
        let mut chosen = Chosen::new(vec![true, false, true, true]);
        let mut rows = 15;
        chosen.keep_rows(&mut rows, |_| 10);
        assert_eq!(chosen.as_slice(), [true, false, true, false]);
        assert_eq!((chosen.count(), rows), (2, 0));
    }
}
