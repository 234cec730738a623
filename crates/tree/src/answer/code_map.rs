//! Code maps: from codes of a level to a few digits, by what the codes stand for elsewhere.
//!
//! Invariant: every code has a digit, 0 where it was given none, as codes have that are newer than the map.
//!
//! This is the array by which the invisible join (Abadi, Madden, Hachem: "Column-stores vs. row-stores", SIGMOD 2008,
//! section 5.4) finds a row's group: the join to a small table becomes a look-up by position. Members that share a name
//! are one group in the same way: the first of them stands for all.

use std::sync::Arc;

/// Codes up to which a node's are looked through for a digit that they share.
const LOOKED_AT_MAX: u32 = 1 << 12;

/// Digits of a level's codes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodeMap {
    /// By code.
    by_code: Arc<[u32]>,
    /// The greatest digit.
    digits: u32,
}

impl CodeMap {
    /// Of these pairs of a code and its digit, from 1 to `digits`, where codes are below `codes`. `None` if a code
    /// comes twice.
    pub fn new(pairs: impl Iterator<Item = (u32, u32)>, codes: u32, digits: u32) -> Option<CodeMap> {
        let mut by_code = vec![0; codes as usize];
        for (code, digit) in pairs {
            assert!((1..=digits).contains(&digit), "digit {digit} is one of 1 to {digits}");
            if std::mem::replace(&mut by_code[code as usize], digit) != 0 {
                return None;
            }
        }
        Some(CodeMap { by_code: by_code.into(), digits })
    }

    /// Where for each code there is one of its own level that stands for it, as NULL, code 0, does for itself alone:
    /// that is its digit.
    pub fn of_codes(by_code: Arc<[u32]>) -> CodeMap {
        let digits = by_code.len().saturating_sub(1) as u32;
        debug_assert!(by_code.iter().enumerate().all(|(code, &digit)| (code == 0) == (digit == 0) && digit <= digits));
        CodeMap { by_code, digits }
    }

    /// How many digits codes are given, without 0.
    pub fn digits(&self) -> u32 {
        self.digits
    }

    /// Codes that were given a digit, ascending.
    pub fn codes(&self) -> impl Iterator<Item = u32> {
        self.by_code.iter().enumerate().filter(|(_, digit)| **digit > 0).map(|(code, _)| code as u32)
    }

    /// Codes below this are looked up; all others are newer than the map.
    pub(crate) fn codes_known(&self) -> u32 {
        self.by_code.len() as u32
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> u64 {
        4 * self.by_code.len() as u64
    }

    /// A code's digit; `None` of one that is newer than the map.
    #[inline]
    pub fn get(&self, code: u32) -> Option<u32> {
        self.by_code.get(code as usize).copied()
    }

    /// A code's digit.
    #[inline]
    pub(crate) fn digit(&self, code: u32) -> u32 {
        self.get(code).unwrap_or(0)
    }

    /// The only digit of the codes from `min` to `max`, and of NULL with `has_null`; `None` if they may have several.
    pub(crate) fn only_digit(&self, min: u32, max: u32, has_null: bool) -> Option<u32> {
        let first = self.digit(min);
        if max - min > LOOKED_AT_MAX || has_null && self.digit(0) != first {
            return None;
        }
        (min..=max).all(|code| self.digit(code) == first).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_the_digit_that_it_was_given() {
        let map = CodeMap::new([(3, 2), (1, 1), (2, 2), (5, 1)].into_iter(), 7, 2).expect("each once");
        assert_eq!((0..9).map(|code| map.digit(code)).collect::<Vec<_>>(), [0, 1, 2, 2, 0, 1, 0, 0, 0]);
        assert_eq!((map.codes().collect::<Vec<_>>(), map.digits()), (vec![1, 2, 3, 5], 2));
        assert_eq!(CodeMap::new([(3, 2), (3, 2)].into_iter(), 7, 2), None);
    }

    #[test]
    fn codes_may_stand_for_one_another() {
        let map = CodeMap::of_codes([0, 1, 2, 1, 4, 2].into());
        assert_eq!((0..7).map(|code| map.digit(code)).collect::<Vec<_>>(), [0, 1, 2, 1, 4, 2, 0]);
        assert_eq!((map.get(5), map.get(0), map.get(6)), (Some(2), Some(0), None));
        // A digit for each code, whether it has any or not: spans and maps count groups alike.
        assert_eq!((map.digits(), map.codes_known()), (5, 6));
        assert_eq!((map.only_digit(1, 1, false), map.only_digit(1, 3, false)), (Some(1), None));
    }

    #[test]
    fn neighbours_may_share_a_digit() {
        let map = CodeMap::new([(1, 1), (2, 2), (3, 2)].into_iter(), 4, 2).expect("each once");
        assert_eq!(map.only_digit(2, 3, false), Some(2));
        assert_eq!(map.only_digit(1, 3, false), None);
        assert_eq!(map.only_digit(2, 3, true), None);
        assert_eq!(map.only_digit(3, 4, false), None);
        // NULL, and what came since, are left out alike.
        assert_eq!(map.only_digit(4, 9, true), Some(0));
        assert_eq!(map.only_digit(0, 0, false), Some(0));
    }
}
