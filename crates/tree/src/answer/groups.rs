//! Group keys: from codes at the grouped levels to the number of a group.
//!
//! Invariants:
//! - A group's index is a mixed-radix number of its digits, one of each level; it is the group's number where there are
//!   few indices, else groups are numbered as they are met.
//! - A level's digit is its code's place in a span, or what a map has for the code. A map has a digit for every code,
//!   so that rows may be of any: those of codes that it leaves out are of digit 0, as NULL is.

use super::code_map::CodeMap;
use std::collections::HashMap;
use std::sync::Arc;

/// Indices up to which every group has its place from the start.
const DENSE_MAX: u64 = 1 << 18;

/// Codes that rows can have at a grouped level: NULL, and `first .. first + count`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GroupSpan {
    /// The level, counted over all dimensions.
    pub level: usize,
    /// The least code beside NULL.
    pub first: u32,
    /// How many codes from there on.
    pub count: u32,
}

impl GroupSpan {
    /// A code's digit: 0 for NULL. `None` if the span does not have the code.
    #[inline]
    pub fn digit(&self, code: u32) -> Option<u64> {
        match code {
            0 => Some(0),
            _ => code.checked_sub(self.first).filter(|&place| place < self.count).map(|place| u64::from(place) + 1),
        }
    }

    /// Digits: NULL's and one for each code.
    pub fn digits(&self) -> u64 {
        u64::from(self.count) + 1
    }
}

/// Numbers groups.
#[derive(Clone, Debug, Default)]
pub struct GroupKeys {
    spans: Vec<GroupSpan>,
    /// By level; `None` where codes are told apart as they are.
    maps: Vec<Option<Arc<CodeMap>>>,
    strides: Vec<u64>,
    /// Groups that were met, by index; `None` where every index is a group.
    met: Option<Met>,
    size: u64,
}

#[derive(Clone, Debug, Default)]
struct Met {
    numbers: HashMap<u64, u32>,
    indices: Vec<u64>,
}

impl GroupKeys {
    /// Of these levels; `None` if there are more combinations than can be counted.
    pub fn new(spans: Vec<GroupSpan>) -> Option<GroupKeys> {
        let maps = vec![None; spans.len()];
        GroupKeys::mapped(spans, maps)
    }

    /// As [`GroupKeys::new`], where codes of levels that have a map are told apart by what it makes of them: the span
    /// of such a level is not looked at, and its codes are the map's digits.
    pub fn mapped(mut spans: Vec<GroupSpan>, maps: Vec<Option<Arc<CodeMap>>>) -> Option<GroupKeys> {
        assert_eq!(spans.len(), maps.len(), "a map or none for each level");
        for (span, map) in spans.iter_mut().zip(&maps) {
            if let Some(map) = map {
                (span.first, span.count) = (1, map.digits());
            }
        }
        let mut strides = Vec::with_capacity(spans.len());
        let mut size = 1u64;
        for span in spans.iter().rev() {
            strides.push(size);
            size = size.checked_mul(span.digits())?;
        }
        strides.reverse();
        let met = (size > DENSE_MAX).then(Met::default);
        Some(GroupKeys { spans, maps, strides, met, size })
    }

    /// As [`GroupKeys::new`], with places for those groups alone that are met.
    pub(crate) fn met(spans: Vec<GroupSpan>) -> Option<GroupKeys> {
        let mut keys = GroupKeys::new(spans)?;
        keys.met.get_or_insert_default();
        Some(keys)
    }

    /// As [`GroupKeys::new`], with a place for every combination; `None` if there are more than `places_max`.
    pub fn dense(spans: Vec<GroupSpan>, places_max: u64) -> Option<GroupKeys> {
        let mut keys = GroupKeys::new(spans).filter(|keys| keys.size <= places_max)?;
        keys.met = None;
        Some(keys)
    }

    /// The levels.
    pub fn spans(&self) -> &[GroupSpan] {
        &self.spans
    }

    /// The digit of a code of the level in place `at`; `None` if its span does not have the code.
    #[inline]
    pub(crate) fn digit(&self, at: usize, code: u32) -> Option<u64> {
        match &self.maps[at] {
            None => self.spans[at].digit(code),
            Some(map) => Some(map.digit(code).into()),
        }
    }

    /// What makes digits of the codes of the level in place `at`, if it is not its span.
    pub(crate) fn map(&self, at: usize) -> Option<&CodeMap> {
        self.maps[at].as_deref()
    }

    /// The only index that rows can have whose codes at each level are at least, at most, and maybe NULL; `None` if
    /// they may have several, or a span does not have a code.
    pub(crate) fn only_index(&self, codes: impl Iterator<Item = (u32, u32, bool)>) -> Option<u64> {
        let mut index = 0;
        for (at, (min, max, has_null)) in codes.enumerate() {
            let digit = match &self.maps[at] {
                None => (min == max && !has_null).then(|| self.spans[at].digit(min))??,
                Some(map) => map.only_digit(min, max, has_null)?.into(),
            };
            index += digit * self.strides[at];
        }
        Some(index)
    }

    /// What a digit of each level counts.
    pub(crate) fn strides(&self) -> &[u64] {
        &self.strides
    }

    /// Groups that totals need a place for at first.
    pub(crate) fn places(&self) -> usize {
        match &self.met {
            None => self.size as usize,
            Some(met) => met.indices.len(),
        }
    }

    /// Whether groups are numbered as they are met: then totals grow.
    pub(crate) fn is_sparse(&self) -> bool {
        self.met.is_some()
    }

    /// The number of the group with this index; a new one if it is met for the first time.
    #[inline]
    pub(crate) fn number(&mut self, index: u64) -> usize {
        match &mut self.met {
            None => index as usize,
            Some(met) => {
                let Met { numbers, indices } = met;
                let number = *numbers.entry(index).or_insert_with(|| {
                    indices.push(index);
                    indices.len() as u32 - 1
                });
                number as usize
            }
        }
    }

    /// The index of a group.
    pub(crate) fn index(&self, group: usize) -> u64 {
        match &self.met {
            None => group as u64,
            Some(met) => met.indices[group],
        }
    }

    /// A group's codes, one for each level: of a level with a map its digit, 0 for codes that the map leaves out.
    pub fn codes(&self, group: usize) -> Vec<u32> {
        let mut codes = vec![0; self.spans.len()];
        self.codes_into(group, |at, code| codes[at] = code);
        codes
    }

    /// As [`GroupKeys::codes`]: calls `each` with the place of each level, and its code.
    pub(crate) fn codes_into(&self, group: usize, mut each: impl FnMut(usize, u32)) {
        let mut rest = self.index(group);
        for (at, (span, stride)) in self.spans.iter().zip(&self.strides).enumerate() {
            let digit = rest / stride;
            rest -= digit * stride;
            each(at, if digit == 0 { 0 } else { span.first + (digit - 1) as u32 });
        }
    }

    /// The index of these codes, one for each level; `None` if a span does not have its code.
    pub(crate) fn index_of(&self, codes: impl Iterator<Item = u32>) -> Option<u64> {
        let mut index = 0;
        for ((at, code), stride) in codes.enumerate().zip(&self.strides) {
            index += self.digit(at, code)? * stride;
        }
        Some(index)
    }
}
