//! The index of a table's keys: where the newest row of each is.
//!
//! Invariants:
//! - A key has at most one place: that of its newest sequenced row that nobody has killed (K2). What is not here has no
//!   such row.
//! - The index knows nothing of versions that readers may ask for: who reads at a snapshot's version looks at the row.
//! - It finds a key or does not, and never finds another one: codes are kept whole.
//!
//! Shape: codes are mixed ([`scramble`]), and the low bits of what comes of that are the number of a page ([`page`]). An entry is what is
//! left of the bits, and a place of 48 ([`runs`]): 13 to 14 bytes a key of a BIGINT, 21 of one whose code has all bits. Pages are split one
//! after the other as keys come (linear hashing: Litwin, VLDB 1980), so no insertion moves more than some dozens of keys, and grow by
//! eighths. `cargo run -p alluvia-keys --example key_index` prints what a key costs.

mod build;
mod page;
mod runs;
mod scramble;
#[cfg(test)]
mod tests;

use crate::place::RowPlace;
use alluvia_space::KeyCode;
use alluvia_types::SegmentId;
use page::{Page, Shape};
use runs::Runs;
use scramble::Scramble;

pub use build::KeyIndexBuilder;

/// So many keys for each page there are, in the middle.
const PAGE_KEYS: usize = 64;

/// Where the newest row of each key of a table is.
#[derive(Clone, Debug)]
pub struct KeyIndex {
    scramble: Scramble,
    /// As many as a power of two, and those that were split since there were so many.
    pages: Vec<Page>,
    runs: Runs,
    keys: usize,
}

/// Of keys whose codes may have all bits.
impl Default for KeyIndex {
    fn default() -> KeyIndex {
        KeyIndex::new(KeyCode::BITS)
    }
}

impl KeyIndex {
    /// Of keys whose codes have at most so many bits.
    pub fn new(code_bits: u32) -> KeyIndex {
        let scramble = Scramble::new(code_bits);
        KeyIndex { scramble, pages: vec![Page::default()], runs: Runs::default(), keys: 0 }
    }

    /// Where the row with this key is.
    pub fn get(&self, code: KeyCode) -> Option<RowPlace> {
        let (page, shape, remainder) = self.entry(code);
        self.pages[page].get(shape, remainder).map(|packed| self.runs.place(packed))
    }

    /// Says where the row with this key is; returns where the one before was.
    pub fn insert(&mut self, code: KeyCode, place: RowPlace) -> Option<RowPlace> {
        let (page, shape, remainder) = self.entry(code);
        let packed = self.runs.take(place);
        let before = self.pages[page].insert(shape, remainder, packed).map(|packed| self.runs.release(packed));
        if before.is_none() {
            self.keys += 1;
            self.split_if_full();
        }
        before
    }

    /// Says that no row has this key; returns where it was.
    pub fn remove(&mut self, code: KeyCode) -> Option<RowPlace> {
        let (page, shape, remainder) = self.entry(code);
        let packed = self.pages[page].remove(shape, remainder)?;
        self.keys -= 1;
        Some(self.runs.release(packed))
    }

    /// Says that no row has the keys of a segment's rows: it is gone with them. It costs a look at every key.
    pub fn forget_segment(&mut self, segment: SegmentId) {
        let is_there = |place: RowPlace| matches!(place, RowPlace::Segment { segment: of, .. } if of == segment);
        let gone: Vec<KeyCode> = self.iter().filter(|(_, place)| is_there(*place)).map(|(code, _)| code).collect();
        for code in gone {
            self.remove(code);
        }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.keys
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys == 0
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        let entries: usize = self.pages.iter().map(Page::capacity).sum();
        size_of::<KeyIndex>() + self.pages.capacity() * size_of::<Page>() + entries + self.runs.bytes()
    }

    /// All keys and places, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (KeyCode, RowPlace)> + '_ {
        self.pages.iter().enumerate().flat_map(move |(number, page)| {
            let shape = self.shape(number);
            let page_bits = self.scramble.bits() - shape.bits;
            page.entries(shape).map(move |(remainder, packed)| {
                (self.scramble.unmix(remainder << page_bits | number as u128), self.runs.place(packed))
            })
        })
    }

    /// The page of a code, and what is left of it there.
    fn entry(&self, code: KeyCode) -> (usize, Shape, u128) {
        let mixed = self.scramble.mix(code);
        let level = self.level();
        let in_level = mixed as usize & ((1 << level) - 1);
        let is_split = in_level + (1 << level) < self.pages.len();
        let page_bits = level + u32::from(is_split);
        let page = mixed as usize & ((1 << page_bits) - 1);
        (page, Shape::new(self.scramble.bits() - page_bits), mixed >> page_bits)
    }

    /// How the entries of a page are read.
    fn shape(&self, page: usize) -> Shape {
        let level = self.level();
        let is_split = (page & ((1 << level) - 1)) + (1 << level) < self.pages.len();
        Shape::new(self.scramble.bits() - level - u32::from(is_split))
    }

    /// Bits of the pages' numbers, before the next one is split: there are from 2^level pages on, and fewer than twice as many.
    fn level(&self) -> u32 {
        self.pages.len().ilog2()
    }

    fn split_if_full(&mut self) {
        if self.keys > self.pages.len() * PAGE_KEYS {
            let next = self.pages.len() - (1 << self.level());
            let shape = self.shape(next);
            let page = self.pages[next].split(shape);
            if self.pages.len() == self.pages.capacity() {
                self.pages.reserve_exact(self.pages.len() / 8 + 1);
            }
            self.pages.push(page);
        }
    }
}

/// Two are equal that have the same keys at the same places.
impl PartialEq for KeyIndex {
    fn eq(&self, other: &KeyIndex) -> bool {
        self.keys == other.keys && self.iter().all(|(code, place)| other.get(code) == Some(place))
    }
}
