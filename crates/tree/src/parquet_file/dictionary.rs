//! The dictionary of one column chunk of text or binary, and the maps from incoming dictionaries to it.
//!
//! Chunks of a merge or a load share few incoming dictionaries, so a distinct value is hashed once per dictionary it comes
//! in, not once per row: what is left per row is one table look-up.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;
use std::sync::Arc;

/// Incoming dictionaries remembered.
const SOURCES_MAX: usize = 4;
/// In a source's map: not looked up yet.
const UNKNOWN: u32 = u32::MAX;
/// In a source's map: the incoming value is NULL.
pub(crate) const NULL: u32 = u32::MAX - 1;

/// Values by index, in order of first appearance.
pub(crate) struct Dictionary {
    /// The dictionary page as Parquet wants it: length (u32) and bytes of each value.
    page: Vec<u8>,
    /// Where each value's bytes begin in `page`; its length lies before.
    starts: Vec<u32>,
    by_value: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

/// An incoming dictionary and the index of each of its values.
pub(crate) struct Source {
    values: ArrayRef,
    indices: Vec<u32>,
}

/// The incoming dictionaries seen last.
#[derive(Default)]
pub(crate) struct Sources {
    seen: Vec<Source>,
}

impl Dictionary {
    pub(crate) fn new() -> Dictionary {
        Dictionary {
            page: Vec::new(),
            starts: Vec::new(),
            by_value: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The dictionary page.
    pub(crate) fn page(&self) -> &[u8] {
        &self.page
    }

    /// A value.
    pub(crate) fn value(&self, index: u32) -> &[u8] {
        let start = self.starts[index as usize] as usize;
        let len: [u8; 4] = self.page[start - 4..start].try_into().expect("4 bytes");
        &self.page[start..start + u32::from_le_bytes(len) as usize]
    }

    /// The value's index; it gets the next one if it is new.
    pub(crate) fn index(&mut self, value: &[u8]) -> u32 {
        let hash = self.hasher.hash_one(value);
        if let Some(&index) = self.by_value.find(hash, |&index| self.value(index) == value) {
            return index;
        }
        let index = self.starts.len() as u32;
        self.page.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.starts.push(self.page.len() as u32);
        self.page.extend_from_slice(value);
        let Dictionary { page, starts, by_value, hasher } = self;
        by_value.insert_unique(hash, index, |&index| {
            let start = starts[index as usize] as usize;
            let len: [u8; 4] = page[start - 4..start].try_into().expect("4 bytes");
            hasher.hash_one(&page[start..start + u32::from_le_bytes(len) as usize])
        });
        index
    }

    /// Empties it for the next column chunk.
    pub(crate) fn clear(&mut self) {
        self.page.clear();
        self.starts.clear();
        self.by_value.clear();
    }
}

impl Sources {
    /// The map of an incoming dictionary.
    pub(crate) fn of(&mut self, values: &ArrayRef) -> &mut Source {
        let at = match self.seen.iter().position(|source| Arc::ptr_eq(&source.values, values)) {
            Some(at) => at,
            None => {
                if self.seen.len() == SOURCES_MAX {
                    self.seen.remove(0);
                }
                self.seen.push(Source { values: Arc::clone(values), indices: vec![UNKNOWN; values.len()] });
                self.seen.len() - 1
            }
        };
        &mut self.seen[at]
    }

    /// Forgets the indices, but not the incoming dictionaries, for the next column chunk.
    pub(crate) fn clear(&mut self) {
        self.seen.iter_mut().for_each(|source| source.indices.fill(UNKNOWN));
    }
}

impl Source {
    /// Appends the indices of these keys, all of them valid. An index is [`NULL`] where the value is.
    pub(crate) fn extend<K: Copy>(
        &mut self,
        keys: impl ExactSizeIterator<Item = K> + Clone,
        place: impl Fn(K) -> usize,
        dictionary: &mut Dictionary,
        out: &mut Vec<u32>,
    ) {
        let start = out.len();
        out.extend(keys.clone().map(|key| self.indices[place(key)]));
        // New values are rare, so the loop above does not look for them.
        if out[start..].iter().fold(0, |most, &index| most.max(index)) < UNKNOWN {
            return;
        }
        for (index, key) in out[start..].iter_mut().zip(keys) {
            if *index == UNKNOWN {
                *index = self.resolve(place(key), dictionary);
            }
        }
    }

    fn resolve(&mut self, place: usize, dictionary: &mut Dictionary) -> u32 {
        if self.indices[place] == UNKNOWN {
            let value = value_bytes(&self.values, place);
            self.indices[place] = value.map_or(NULL, |value| dictionary.index(value));
        }
        self.indices[place]
    }
}

/// A value of a text or binary array; `None` if it is NULL.
pub(crate) fn value_bytes(values: &dyn Array, place: usize) -> Option<&[u8]> {
    if values.is_null(place) {
        return None;
    }
    Some(match values.data_type() {
        DataType::Utf8 => values.as_string::<i32>().value(place).as_bytes(),
        DataType::Utf8View => values.as_string_view().value(place).as_bytes(),
        DataType::Binary => values.as_binary::<i32>().value(place),
        DataType::BinaryView => values.as_binary_view().value(place),
        other => unreachable!("{other} is neither text nor binary"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringArray;

    #[test]
    fn dictionary_gives_equal_values_one_index() {
        let mut dictionary = Dictionary::new();
        let values: Vec<String> = (0..1000).map(|at| format!("value {}", at % 300)).collect();
        let indices: Vec<u32> = values.iter().map(|value| dictionary.index(value.as_bytes())).collect();
        assert_eq!(dictionary.len(), 300);
        for (value, index) in values.iter().zip(indices) {
            assert_eq!(dictionary.value(index), value.as_bytes());
        }
    }

    #[test]
    fn sources_map_equal_values_of_different_dictionaries_to_one_index() {
        let mut dictionary = Dictionary::new();
        let mut sources = Sources::default();
        let one: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("b"), Some("a")]));
        let two: ArrayRef = Arc::new(StringArray::from(vec!["b", "a"]));
        let mut out = Vec::new();
        sources.of(&one).extend([0u32, 1, 2, 3].iter().copied(), |key| key as usize, &mut dictionary, &mut out);
        sources.of(&two).extend([0u32, 1].iter().copied(), |key| key as usize, &mut dictionary, &mut out);
        assert_eq!(out, [0, NULL, 1, 0, 1, 0]);
        sources.clear();
        dictionary.clear();
        out.clear();
        sources.of(&two).extend([0u32].iter().copied(), |key| key as usize, &mut dictionary, &mut out);
        assert_eq!((out, dictionary.value(0)), (vec![0], &b"b"[..]));
    }
}
