//! Sets of blocks of one segment.

use std::ops::Range;

/// Some blocks of a segment, as a bitmap or as runs, whichever is smaller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BlockSet {
    form: Form,
    count: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Form {
    Bits(Box<[u64]>),
    /// Ascending, neither empty nor touching.
    Runs(Box<[Range<u32>]>),
}

impl BlockSet {
    /// The blocks whose place is true.
    pub(crate) fn new(blocks: &[bool]) -> BlockSet {
        let mut runs: Vec<Range<u32>> = Vec::new();
        let mut count = 0;
        for at in blocks.iter().enumerate().filter_map(|(at, &is_in)| is_in.then_some(at as u32)) {
            count += 1;
            match runs.last_mut() {
                Some(run) if run.end == at => run.end += 1,
                _ => runs.push(at..at + 1),
            }
        }
        let words = blocks.len().div_ceil(64);
        let form = if runs.len() <= words {
            Form::Runs(runs.into())
        } else {
            let word = |bits: &[bool]| bits.iter().rev().fold(0, |word, &bit| word << 1 | u64::from(bit));
            Form::Bits(blocks.chunks(64).map(word).collect())
        };
        BlockSet { form, count }
    }

    /// How many blocks are in it.
    pub(crate) fn count(&self) -> usize {
        self.count as usize
    }

    /// Whether a block is in it.
    pub(crate) fn contains(&self, block: usize) -> bool {
        match &self.form {
            Form::Bits(words) => words.get(block / 64).is_some_and(|word| word >> (block % 64) & 1 == 1),
            Form::Runs(runs) => {
                let after = runs.partition_point(|run| run.start as usize <= block);
                after.checked_sub(1).is_some_and(|at| block < runs[at].end as usize)
            }
        }
    }

    /// Runs of blocks that are in it, ascending.
    pub(crate) fn runs(&self, blocks: usize) -> Vec<Range<u32>> {
        let mut runs: Vec<Range<u32>> = Vec::new();
        for block in (0..blocks as u32).filter(|&block| self.contains(block as usize)) {
            match runs.last_mut() {
                Some(run) if run.end == block => run.end += 1,
                _ => runs.push(block..block + 1),
            }
        }
        runs
    }

    /// Memory that it holds beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.form {
            Form::Bits(words) => size_of_val::<[u64]>(words),
            Form::Runs(runs) => size_of_val::<[Range<u32>]>(runs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_set_has_the_blocks_it_was_made_of(
            runs in prop::collection::vec((0usize..40, 0usize..90), 0..12),
        ) {
            let mut blocks = Vec::new();
            for (out, within) in runs {
                blocks.resize(blocks.len() + out, false);
                blocks.resize(blocks.len() + within, true);
            }
            let set = BlockSet::new(&blocks);
            prop_assert_eq!(set.count(), blocks.iter().filter(|&&is_in| is_in).count());
            prop_assert!((0..blocks.len()).all(|at| set.contains(at) == blocks[at]));
            let from_runs: Vec<usize> = set.runs(blocks.len()).into_iter().flatten().map(|at| at as usize).collect();
            let expected: Vec<usize> = (0..blocks.len()).filter(|&at| blocks[at]).collect();
            prop_assert_eq!(from_runs, expected);
            prop_assert!(!set.contains(blocks.len()));
        }
    }

    #[test]
    fn a_large_set_of_few_runs_is_small() {
        let one_run: Vec<bool> = (0..100_000).map(|block| block > 10).collect();
        assert_eq!(BlockSet::new(&one_run).heap_bytes(), 8);
        let scattered: Vec<bool> = (0..100_000).map(|block| block % 3 == 0).collect();
        assert_eq!(BlockSet::new(&scattered).heap_bytes(), 100_000usize.div_ceil(64) * 8);
    }
}
