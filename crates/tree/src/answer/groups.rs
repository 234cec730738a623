//! From codes at the grouped levels to a group's number.
//!
//! Invariant: a group's index is a mixed-radix number of its codes; it is the group's number where there are few indices,
//! else groups are numbered as they are met.

use std::collections::HashMap;

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
#[derive(Clone, Debug)]
pub struct GroupKeys {
    spans: Vec<GroupSpan>,
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
        let mut strides = Vec::with_capacity(spans.len());
        let mut size = 1u64;
        for span in spans.iter().rev() {
            strides.push(size);
            size = size.checked_mul(span.digits())?;
        }
        strides.reverse();
        let met = (size > DENSE_MAX).then(Met::default);
        Some(GroupKeys { spans, strides, met, size })
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

    /// A group's codes, one for each level.
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
        for ((code, span), stride) in codes.zip(&self.spans).zip(&self.strides) {
            index += span.digit(code)? * stride;
        }
        Some(index)
    }
}
