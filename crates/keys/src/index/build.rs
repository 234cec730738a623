//! An index of keys that are all known.
//!
//! Entries are pushed on their pages as they come, and each page is sorted once: no entry is moved for another one.

use super::{KeyIndex, PAGE_KEYS, Page, RowPlace};
use alluvia_space::KeyCode;

/// Takes the keys of a table in any order.
#[derive(Debug)]
pub struct KeyIndexBuilder {
    index: KeyIndex,
}

impl KeyIndexBuilder {
    /// Of about so many keys, whose codes have at most so many bits.
    pub fn new(code_bits: u32, keys: usize) -> KeyIndexBuilder {
        let mut index = KeyIndex::new(code_bits);
        // There are no more keys than codes.
        let pages_max = 1 << (index.scramble.bits() - 8).min(usize::BITS - 2);
        index.pages = vec![Page::default(); (keys / PAGE_KEYS).clamp(1, pages_max)];
        KeyIndexBuilder { index }
    }

    /// Adds a key.
    pub fn add(&mut self, code: KeyCode, place: RowPlace) {
        let (page, shape, remainder) = self.index.entry(code);
        let packed = self.index.runs.take(place);
        self.index.pages[page].push(shape, remainder, packed);
        self.index.keys += 1;
    }

    /// The index.
    ///
    /// # Errors
    /// Two places that have the same key.
    pub fn finish(mut self) -> Result<KeyIndex, (RowPlace, RowPlace)> {
        for page in 0..self.index.pages.len() {
            let shape = self.index.shape(page);
            if let Err((one, other)) = self.index.pages[page].sort(shape) {
                return Err((self.index.runs.place(one), self.index.runs.place(other)));
            }
        }
        Ok(self.index)
    }
}
