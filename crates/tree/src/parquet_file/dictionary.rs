//! The dictionary of one column chunk of text or binary, and the maps from incoming dictionaries to it.
//!
//! Chunks of a merge or a load share few incoming dictionaries, so a distinct value is hashed once per dictionary it comes
//! in, not once per row: what is left per row is one table look-up. Where all values come from one dictionary, of which it is known
//! which of its places have the same value, none is hashed: values are appended. What has been appended is hashed when a value comes
//! from elsewhere.

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
    /// Values before this one are in `by_value`.
    hashed: usize,
    hasher: DefaultHashBuilder,
    /// Where all values so far come from, if that is one source of known values.
    only: Option<ArrayRef>,
}

/// An incoming dictionary and the index of each of its values.
pub(crate) struct Source {
    values: ArrayRef,
    indices: Vec<u32>,
    equal: Equal,
}

/// Which places of an incoming dictionary have the same value.
#[derive(Clone)]
pub(crate) enum Equal {
    Unknown,
    None,
    /// For each place the first one of the same value.
    First(Arc<[u32]>),
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
            hashed: 0,
            hasher: DefaultHashBuilder::default(),
            only: None,
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
        self.only = None;
        while self.hashed < self.starts.len() {
            self.hash(self.hashed as u32);
        }
        let hash = self.hasher.hash_one(value);
        if let Some(&index) = self.by_value.find(hash, |&index| self.value(index) == value) {
            return index;
        }
        let index = self.append(value);
        self.hash(index);
        index
    }

    /// The index of a value that is new if all values come from `source`; it is looked for if not.
    fn index_of_new(&mut self, source: &ArrayRef, value: &[u8]) -> u32 {
        if self.starts.is_empty() {
            self.only = Some(Arc::clone(source));
        }
        match &self.only {
            Some(only) if Arc::ptr_eq(only, source) => self.append(value),
            _ => self.index(value),
        }
    }

    fn append(&mut self, value: &[u8]) -> u32 {
        let index = self.starts.len() as u32;
        self.page.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.starts.push(self.page.len() as u32);
        self.page.extend_from_slice(value);
        index
    }

    /// Takes the first value that is not into `by_value`, which has none like it.
    fn hash(&mut self, index: u32) {
        let hash = self.hasher.hash_one(self.value(index));
        let Dictionary { page, starts, by_value, hasher, .. } = self;
        by_value.insert_unique(hash, index, |&index| {
            let start = starts[index as usize] as usize;
            let len: [u8; 4] = page[start - 4..start].try_into().expect("4 bytes");
            hasher.hash_one(&page[start..start + u32::from_le_bytes(len) as usize])
        });
        self.hashed = index as usize + 1;
    }

    /// Empties it for the next column chunk.
    pub(crate) fn clear(&mut self) {
        self.page.clear();
        self.starts.clear();
        self.by_value.clear();
        self.hashed = 0;
        self.only = None;
    }
}

impl Sources {
    /// The map of an incoming dictionary, whose places are equal as `equal` says.
    pub(crate) fn of(&mut self, values: &ArrayRef, equal: impl FnOnce() -> Equal) -> &mut Source {
        let at = match self.seen.iter().position(|source| Arc::ptr_eq(&source.values, values)) {
            Some(at) => at,
            None => {
                if self.seen.len() == SOURCES_MAX {
                    self.seen.remove(0);
                }
                let indices = vec![UNKNOWN; values.len()];
                self.seen.push(Source { values: Arc::clone(values), indices, equal: equal() });
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
        if self.indices[place] != UNKNOWN {
            return self.indices[place];
        }
        let first = match &self.equal {
            Equal::First(first) => first[place] as usize,
            Equal::Unknown | Equal::None => place,
        };
        if first != place {
            self.indices[place] = self.resolve(first, dictionary);
            return self.indices[place];
        }
        self.indices[place] = match (value_bytes(&self.values, place), &self.equal) {
            (None, _) => NULL,
            (Some(value), Equal::Unknown) => dictionary.index(value),
            (Some(value), _) => dictionary.index_of_new(&self.values, value),
        };
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
        sources.of(&one, || Equal::Unknown).extend(
            [0u32, 1, 2, 3].iter().copied(),
            |key| key as usize,
            &mut dictionary,
            &mut out,
        );
        sources.of(&two, || Equal::None).extend(
            [0u32, 1].iter().copied(),
            |key| key as usize,
            &mut dictionary,
            &mut out,
        );
        assert_eq!(out, [0, NULL, 1, 0, 1, 0]);
        sources.clear();
        dictionary.clear();
        out.clear();
        sources.of(&two, || Equal::None).extend([0u32].iter().copied(), |key| key as usize, &mut dictionary, &mut out);
        assert_eq!((out, dictionary.value(0)), (vec![0], &b"b"[..]));
    }

    /// Whatever is known of sources, and however they take turns: one index for one value, in order of first appearance.
    #[test]
    fn what_is_known_of_sources_changes_no_index() {
        let values = ["", "a", "b", "a", "c", "b", "d"];
        let known: ArrayRef = Arc::new(StringArray::from(values.to_vec()));
        let other: ArrayRef = Arc::new(StringArray::from(vec!["c", "x", "a"]));
        let distinct: ArrayRef = Arc::new(StringArray::from(vec!["x", "d", "e"]));
        let firsts: Arc<[u32]> = vec![0, 1, 2, 1, 4, 2, 6].into();
        let mut state = 7u32;
        let mut random = move |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        for _ in 0..300 {
            let (mut dictionary, mut model) = (Dictionary::new(), Dictionary::new());
            let mut sources = Sources::default();
            let (mut out, mut expected) = (Vec::new(), Vec::new());
            let turns = 1 + random(4);
            for _ in 0..turns {
                let (source, equal) = match random(4) {
                    0 => (&other, Equal::Unknown),
                    1 => (&distinct, Equal::None),
                    _ => (&known, Equal::First(Arc::clone(&firsts))),
                };
                let keys: Vec<u32> = (0..random(9)).map(|_| random(source.len() as u32)).collect();
                let source_map = sources.of(source, || equal);
                source_map.extend(keys.iter().copied(), |key| key as usize, &mut dictionary, &mut out);
                expected
                    .extend(keys.iter().map(|&key| model.index(value_bytes(source, key as usize).expect("a value"))));
                if random(5) == 0 {
                    out.push(dictionary.index(b"y"));
                    expected.push(model.index(b"y"));
                }
            }
            assert_eq!((out, dictionary.page()), (expected, model.page()));
        }
    }
}
