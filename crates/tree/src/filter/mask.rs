//! Masks: the selected rows of a block.
//!
//! Invariants:
//! - Row `i` is bit `i % 64` of word `i / 64`; a mask does not know how many rows its block has.
//! - Whoever narrows a mask to a block clears the bits past the block's last row, and nothing but [`Mask::insert`],
//!   [`Mask::insert_rows`], [`Mask::or_with`] and whoever writes the words ever sets one.

use std::fmt;
use std::ops::Range;

/// Rows a mask can hold: those of a full block.
pub(crate) const MASK_ROWS: usize = 8192;
/// Words of a mask.
pub(crate) const MASK_WORDS: usize = MASK_ROWS / 64;

/// A selection of a block's rows. Aligned so that no vector of words straddles two cache lines.
#[derive(Clone, PartialEq, Eq)]
#[repr(align(64))]
pub(crate) struct Mask {
    words: [u64; MASK_WORDS],
}

impl Mask {
    /// The first `rows` rows.
    pub(crate) fn all(rows: usize) -> Mask {
        let mut mask = Mask { words: [u64::MAX; MASK_WORDS] };
        mask.truncate(rows);
        mask
    }

    /// No row.
    pub(crate) fn none() -> Mask {
        Mask { words: [0; MASK_WORDS] }
    }

    /// The rows whose bits are set in these words.
    #[cfg(test)]
    pub(crate) fn from_words(words: [u64; MASK_WORDS]) -> Mask {
        Mask { words }
    }

    /// Row `i` is bit `i % 64` of word `i / 64`.
    #[inline]
    pub(crate) fn words(&self) -> &[u64; MASK_WORDS] {
        &self.words
    }

    /// The words, to be changed.
    #[inline]
    pub(crate) fn words_mut(&mut self) -> &mut [u64; MASK_WORDS] {
        &mut self.words
    }

    /// Selected rows. Always inlined: inside a kernel this counts with the kernel's instructions.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Selected rows among the first `rows`.
    #[inline(always)]
    pub(crate) fn count_below(&self, rows: usize) -> usize {
        assert!(rows <= MASK_ROWS, "a mask holds the rows of one block");
        let whole: u32 = self.words[..rows / 64].iter().map(|word| word.count_ones()).sum();
        let rest = match rows % 64 {
            0 => 0,
            rest => (self.words[rows / 64] & low_bits(rest)).count_ones(),
        };
        (whole + rest) as usize
    }

    /// Whether no row is selected.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // Without leaving early: a few vector instructions, and no branch to mispredict.
        self.words.iter().fold(0, |any, word| any | word) == 0
    }

    /// Whether a row is selected.
    #[inline]
    pub(crate) fn contains(&self, row: usize) -> bool {
        self.words[row / 64] >> (row % 64) & 1 == 1
    }

    /// Selects a row.
    #[inline]
    pub(crate) fn insert(&mut self, row: usize) {
        self.words[row / 64] |= 1 << (row % 64);
    }

    /// The selected rows, ascending.
    #[inline]
    pub(crate) fn rows(&self) -> Rows<'_> {
        Rows { words: &self.words, place: 0, word: self.words[0] }
    }

    /// Selects consecutive rows.
    #[inline]
    pub(crate) fn insert_rows(&mut self, rows: Range<usize>) {
        assert!(rows.end <= MASK_ROWS, "a mask holds the rows of one block");
        if rows.is_empty() {
            return;
        }
        let (first, last) = (rows.start / 64, (rows.end - 1) / 64);
        let (from, through) = (u64::MAX << (rows.start % 64), u64::MAX >> (63 - (rows.end - 1) % 64));
        if first == last {
            self.words[first] |= from & through;
        } else {
            self.words[first] |= from;
            self.words[first + 1..last].fill(u64::MAX);
            self.words[last] |= through;
        }
    }

    /// Drops a row.
    #[inline]
    pub(crate) fn remove(&mut self, row: usize) {
        self.words[row / 64] &= !(1 << (row % 64));
    }

    /// Those rows of `self` that are also selected by some words of `other`, the first of which stands for the first
    /// rows of `self`.
    #[inline]
    pub(crate) fn and_words(&self, other: &Mask, words: Range<usize>) -> Mask {
        let mut both = Mask::none();
        for ((word, own), other) in both.words.iter_mut().zip(&self.words).zip(&other.words[words]) {
            *word = own & other;
        }
        both
    }

    /// Selects the rows of `other`, too.
    #[inline]
    pub(crate) fn or_with(&mut self, other: &Mask) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    /// Drops the rows of `other`.
    #[inline]
    pub(crate) fn and_not_with(&mut self, other: &Mask) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= !other);
    }

    /// Drops all rows.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.words = [0; MASK_WORDS];
    }

    /// Drops the rows from `rows` on.
    pub(crate) fn truncate(&mut self, rows: usize) {
        assert!(rows <= MASK_ROWS, "a mask holds the rows of one block");
        if rows < MASK_ROWS {
            self.words[rows / 64] &= low_bits(rows % 64);
            self.words[rows / 64 + 1..].fill(0);
        }
    }

    /// Keeps the selected rows that pass; calls `keep` with no other row, in ascending order.
    #[inline(always)]
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(usize) -> bool) {
        for (place, word) in self.words.iter_mut().enumerate() {
            let mut left = *word;
            while left != 0 {
                let bit = left.trailing_zeros() as usize;
                left &= left - 1;
                // Not a branch: whether a row passes is what cannot be predicted.
                *word ^= u64::from(!keep(place * 64 + bit)) << bit;
            }
        }
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.rows()).finish()
    }
}

/// A word whose `bits` lowest bits are set; `bits` is below 64.
#[inline(always)]
pub(super) fn low_bits(bits: usize) -> u64 {
    (1 << bits) - 1
}

/// The selected rows of a mask, ascending.
pub(crate) struct Rows<'a> {
    words: &'a [u64; MASK_WORDS],
    place: usize,
    word: u64,
}

impl Iterator for Rows<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.word == 0 {
            self.place += 1;
            self.word = *self.words.get(self.place)?;
        }
        let bit = self.word.trailing_zeros() as usize;
        self.word &= self.word - 1;
        Some(self.place * 64 + bit)
    }
}
