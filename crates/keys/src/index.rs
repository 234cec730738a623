//! The index of a table's keys: where the newest row of each is.
//!
//! Invariants:
//! - A key has at most one place: that of its newest sequenced row that nobody has killed (K2). What is not here has no
//!   such row.
//! - The index knows nothing of versions that readers may ask for: who reads at a snapshot's version looks at the row.
//!
//! Shape: one hash table from codes to places. The code is kept whole (16 bytes), a place is packed into 12, and the table
//! has a byte for each slot and leaves at least an eighth of its slots empty. It doubles, so a key costs 33 bytes just
//! before that and 66 just after (`cargo run -p alluvia-keys --example key_index` prints it), and once in a while an
//! insertion moves all keys; [`KeyIndex::reserve`] before many of them does it once. Buckets of tags and places that keep
//! no codes, and prove a match against the code stored with the row, would come to a third of this.
//!
//! Codes of short keys are the keys themselves, and clients choose them: so the table hashes them with a seed of its own.

use crate::place::{Packed, RowPlace};
use alluvia_space::KeyCode;
use hashbrown::HashMap;

/// A code in words, since a number of 128 bits would be aligned to 16 bytes and cost four more.
type Code = [u32; 4];

fn code_of(code: KeyCode) -> Code {
    [code as u32, (code >> 32) as u32, (code >> 64) as u32, (code >> 96) as u32]
}

/// Where the newest row of each key of a table is.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct KeyIndex {
    places: HashMap<Code, Packed>,
}

impl KeyIndex {
    /// Where the row with this key is.
    pub fn get(&self, code: KeyCode) -> Option<RowPlace> {
        self.places.get(&code_of(code)).map(|packed| packed.place())
    }

    /// Says where the row with this key is; returns where the one before was.
    pub fn insert(&mut self, code: KeyCode, place: RowPlace) -> Option<RowPlace> {
        self.places.insert(code_of(code), Packed::new(place)).map(Packed::place)
    }

    /// Says that no row has this key; returns where it was.
    pub fn remove(&mut self, code: KeyCode) -> Option<RowPlace> {
        self.places.remove(&code_of(code)).map(Packed::place)
    }

    /// Makes room for so many more keys.
    pub fn reserve(&mut self, more: usize) {
        self.places.reserve(more);
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        size_of::<KeyIndex>() + self.places.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_types::{SegmentId, Version};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(KeyCode, RowPlace),
        Remove(KeyCode),
        Reserve(usize),
    }

    fn any_place() -> impl Strategy<Value = RowPlace> {
        prop_oneof![
            (0u64..4, any::<u32>()).prop_map(|(segment, row)| RowPlace::Segment { segment: SegmentId(segment), row }),
            (any::<u32>(), 0u64..10)
                .prop_map(|(version, ordinal)| RowPlace::Tail { version: Version(version.into()), ordinal }),
        ]
    }

    fn any_step() -> impl Strategy<Value = Step> {
        // Some codes differ in one word alone.
        let code = || (0u128..6, 0u32..4).prop_map(|(code, word)| code << (32 * word));
        prop_oneof![
            6 => (code(), any_place()).prop_map(|(code, place)| Step::Insert(code, place)),
            3 => code().prop_map(Step::Remove),
            1 => (0usize..100).prop_map(Step::Reserve),
        ]
    }

    proptest! {
        #[test]
        fn an_index_is_a_map(steps in prop::collection::vec(any_step(), 0..200)) {
            let (mut index, mut model) = (KeyIndex::default(), BTreeMap::new());
            for step in steps {
                match step {
                    Step::Insert(code, place) => prop_assert_eq!(index.insert(code, place), model.insert(code, place)),
                    Step::Remove(code) => prop_assert_eq!(index.remove(code), model.remove(&code)),
                    Step::Reserve(more) => index.reserve(more),
                }
                prop_assert_eq!((index.len(), index.is_empty()), (model.len(), model.is_empty()));
            }
            for code in (0..6).flat_map(|code: KeyCode| (0..4).map(move |word| code << (32 * word))) {
                prop_assert_eq!(index.get(code), model.get(&code).copied());
            }
        }
    }

    #[test]
    fn codes_that_differ_in_a_word_are_others() {
        let codes = [0, 1, 1 << 32, 1 << 64, 1 << 96, KeyCode::MAX];
        let mut words: Vec<Code> = codes.into_iter().map(code_of).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), codes.len());
    }

    #[test]
    fn a_key_costs_what_the_module_says() {
        let mut index = KeyIndex::default();
        let (mut least, mut most) = (f64::INFINITY, 0f64);
        for key in 1..=300_000u64 {
            index.insert(key.into(), RowPlace::Tail { version: Version(1), ordinal: key });
            if key > 100_000 {
                let bytes = index.bytes() as f64 / key as f64;
                (least, most) = (least.min(bytes), most.max(bytes));
            }
        }
        assert!(least < 34.0 && most < 67.0, "{least} to {most} bytes a key");
        assert_eq!(size_of::<(Code, Packed)>(), 28);
    }
}
