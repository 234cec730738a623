//! Sets of codes of one level.
//!
//! Invariant: runs ascend, do not touch, and hold no NULL (code 0), which is kept apart: it may be far from the others,
//! and predicates treat it apart.

/// Codes spanned at most by a set that also has a bitmap.
const BITMAP_SPAN_MAX: u64 = 1 << 24;

/// A set of codes of one level.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodeSet {
    /// First and last code of each run.
    runs: Vec<(u32, u32)>,
    /// How many codes the runs before have.
    before: Vec<u64>,
    has_null: bool,
    /// Bit `i` is code `first + i`; empty where the codes span too much.
    bitmap: Vec<u64>,
    /// How many codes the words of the bitmap before each have: nodes whose codes are not known one by one are asked
    /// how many they may have in common with the set, and blocks what share of them.
    ranks: Vec<u32>,
    first: u32,
}

/// How a block's codes lie to a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Overlap {
    /// None of them is in it.
    Disjoint,
    /// All of them are in it.
    Covered,
    /// Some may be, and some may not.
    Cut,
}

impl CodeSet {
    /// The set of these codes, in any order.
    pub fn of_codes(mut codes: Vec<u32>) -> CodeSet {
        codes.sort_unstable();
        codes.dedup();
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for code in codes.iter().copied().filter(|&code| code > 0) {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == code => *last = code,
                _ => runs.push((code, code)),
            }
        }
        CodeSet::of_runs(runs, codes.first() == Some(&0))
    }

    /// The codes from `low` to `high`, both included, without NULL.
    pub fn of_range(low: u32, high: u32) -> CodeSet {
        let low = low.max(1);
        CodeSet::of_runs(if low <= high { vec![(low, high)] } else { Vec::new() }, false)
    }

    /// As [`CodeSet::of_range`], with NULL if `has_null`.
    pub(crate) fn of_range_and_null(low: u32, high: u32, has_null: bool) -> CodeSet {
        CodeSet { has_null, ..CodeSet::of_range(low, high) }
    }

    /// The codes of these runs, first and last of each, in any order; none of them is NULL, which is in the set if
    /// `has_null`.
    pub fn of_ranges(mut ranges: Vec<(u32, u32)>, has_null: bool) -> CodeSet {
        ranges.sort_unstable();
        let mut runs: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (low, high) in ranges {
            match runs.last_mut() {
                Some((_, last)) if low <= last.saturating_add(1) => *last = high.max(*last),
                _ => runs.push((low, high)),
            }
        }
        CodeSet::of_runs(runs, has_null)
    }

    fn of_runs(runs: Vec<(u32, u32)>, has_null: bool) -> CodeSet {
        let before = runs
            .iter()
            .scan(0u64, |sum, &(low, high)| {
                let before = *sum;
                *sum += u64::from(high - low) + 1;
                Some(before)
            })
            .collect();
        let first = runs.first().map_or(0, |run| run.0) / 64 * 64;
        let span = runs.last().map_or(0, |run| u64::from(run.1) + 1 - u64::from(first));
        let mut bitmap = Vec::new();
        if span <= BITMAP_SPAN_MAX {
            bitmap = vec![0u64; span.div_ceil(64) as usize];
            for &(low, high) in &runs {
                set_bits(&mut bitmap, (low - first) as usize, (high - first) as usize);
            }
        }
        let ranks = bitmap
            .iter()
            .scan(0u32, |sum, word| {
                let before = *sum;
                *sum += word.count_ones();
                Some(before)
            })
            .collect();
        CodeSet { runs, before, has_null, bitmap, ranks, first }
    }

    /// How many codes, NULL included.
    pub fn len(&self) -> u64 {
        let last = self.runs.last().zip(self.before.last());
        last.map_or(0, |(run, before)| before + u64::from(run.1 - run.0) + 1) + u64::from(self.has_null)
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        size_of::<CodeSet>()
            + self.runs.capacity() * size_of::<(u32, u32)>()
            + (self.before.capacity() + self.bitmap.capacity()) * size_of::<u64>()
            + self.ranks.capacity() * size_of::<u32>()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && !self.has_null
    }

    /// Whether a code is in it.
    pub fn contains(&self, code: u32) -> bool {
        if code == 0 {
            return self.has_null;
        }
        if !self.bitmap.is_empty() {
            let bit = code.wrapping_sub(self.first) as usize;
            return code >= self.first && self.bitmap.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1);
        }
        let run = self.runs.partition_point(|run| run.1 < code);
        self.runs.get(run).is_some_and(|run| run.0 <= code)
    }

    /// Whether NULL is in it.
    pub fn holds_null(&self) -> bool {
        self.has_null
    }

    /// Runs of codes beside NULL: first and last of each, ascending.
    pub fn runs(&self) -> &[(u32, u32)] {
        &self.runs
    }

    /// The codes that are in both.
    pub fn intersect(&self, other: &CodeSet) -> CodeSet {
        let (mut a, mut b) = (self.runs.iter().peekable(), other.runs.iter().peekable());
        let mut runs = Vec::new();
        while let (Some(&&(a_low, a_high)), Some(&&(b_low, b_high))) = (a.peek(), b.peek()) {
            let (low, high) = (a_low.max(b_low), a_high.min(b_high));
            if low <= high {
                runs.push((low, high));
            }
            if a_high <= b_high {
                a.next();
            } else {
                b.next();
            }
        }
        CodeSet::of_runs(runs, self.has_null && other.has_null)
    }

    /// The codes that are in either.
    pub fn union(&self, other: &CodeSet) -> CodeSet {
        let ranges = self.runs.iter().chain(&other.runs).copied().collect();
        CodeSet::of_ranges(ranges, self.has_null || other.has_null)
    }

    /// The codes through `last`, NULL included, that are not in it.
    pub fn complement(&self, last: u32) -> CodeSet {
        let mut runs = Vec::with_capacity(self.runs.len() + 1);
        let mut next = Some(1);
        for &(low, high) in self.runs.iter().take_while(|run| run.0 <= last) {
            if let Some(from) = next.filter(|&from| from < low) {
                runs.push((from, low - 1));
            }
            next = high.checked_add(1);
        }
        if let Some(from) = next.filter(|&from| from <= last) {
            runs.push((from, last));
        }
        CodeSet::of_runs(runs, !self.has_null)
    }

    /// How many of its codes beside NULL lie in `min..=max`.
    pub(crate) fn count_in(&self, min: u32, max: u32) -> u64 {
        let through = match max.checked_add(1) {
            Some(next) => self.rank(next),
            None => self.rank(max) + u64::from(self.contains(max)),
        };
        through - self.rank(min)
    }

    /// How many of its codes beside NULL are below this one.
    fn rank(&self, code: u32) -> u64 {
        if !self.bitmap.is_empty() {
            let Some(bit) = code.checked_sub(self.first) else { return 0 };
            let (place, bit) = (bit as usize / 64, bit % 64);
            return match self.bitmap.get(place) {
                Some(word) => u64::from(self.ranks[place] + (word & ((1 << bit) - 1)).count_ones()),
                None => self.len() - u64::from(self.has_null),
            };
        }
        match self.runs.partition_point(|run| run.0 < code).checked_sub(1) {
            None => 0,
            Some(run) => {
                let (low, high) = self.runs[run];
                self.before[run] + u64::from(high.min(code - 1) - low) + 1
            }
        }
    }

    /// Whether it has a bitmap, so that [`CodeSet::words`] can be had.
    pub(crate) fn has_bitmap(&self) -> bool {
        !self.bitmap.is_empty() || self.runs.is_empty()
    }

    /// Bits of the codes from `from` on, `count` words of them, into `out`.
    pub(crate) fn words(&self, from: u32, count: usize, out: &mut Vec<u64>) {
        out.clear();
        let bit = i64::from(from) - i64::from(self.first);
        let (place, shift) = (bit.div_euclid(64), bit.rem_euclid(64) as u32);
        if place < 0 {
            // Words before the bitmap, the last of which may reach into it.
            let before = usize::try_from(-place).unwrap_or(count);
            out.resize(before.min(count), 0);
            if let (Some(last), true) = (out.last_mut(), before <= count && shift > 0) {
                *last = self.bitmap.first().map_or(0, |word| word << (64 - shift));
            }
        }
        let first = usize::try_from(place).unwrap_or(0).min(self.bitmap.len());
        let left = count - out.len();
        let own = &self.bitmap[first..(first + left + 1).min(self.bitmap.len())];
        match shift {
            0 => out.extend(own.iter().take(left)),
            _ => {
                out.extend(own.windows(2).map(|pair| pair[0] >> shift | pair[1] << (64 - shift)));
                out.extend(own.last().filter(|_| own.len() <= left).map(|word| word >> shift));
            }
        }
        out.resize(count, 0);
    }

    /// The bitmap's words beside so many words of other codes, the first of which has a bit for the code `min`; 0
    /// beyond its ends.
    #[inline]
    fn beside<'a>(&'a self, min: u32, words: &'a [u64]) -> impl Iterator<Item = (u64, u64)> + 'a {
        // Places before the bitmap wrap around, and lie beyond its end.
        let place = ((min / 64) as usize).wrapping_sub((self.first / 64) as usize);
        let own = move |at: usize| self.bitmap.get(place.wrapping_add(at)).copied().unwrap_or(0);
        words.iter().enumerate().map(move |(at, &there)| (there, own(at)))
    }

    /// The share of codes within `min..=max` that are in it; of those that are there, if their words are known, as of
    /// [`CodeSet::overlap`], and how many they are.
    pub(crate) fn share(&self, min: u32, max: u32, present: Option<(&[u64], u32)>) -> f64 {
        let Some((words, codes)) = present.filter(|_| self.has_bitmap()) else {
            return self.count_in(min, max) as f64 / (f64::from(max - min) + 1.0);
        };
        let inside: u32 = self.beside(min, words).map(|(there, wanted)| (there & wanted).count_ones()).sum();
        f64::from(inside) / f64::from(codes.max(1))
    }

    /// How codes that are all within `min..=max` lie to it. `present` are the bits of those that are there, if they are
    /// known: in words that begin at multiples of 64, the first of them with the bit of `min`.
    #[inline]
    pub(crate) fn overlap(&self, min: u32, max: u32, has_null: bool, present: Option<&[u64]>) -> Overlap {
        // A block of NULL alone has min and max 0.
        let null = match has_null || min == 0 {
            false => None,
            true => Some(self.has_null),
        };
        if min == 0 {
            return if self.has_null { Overlap::Covered } else { Overlap::Disjoint };
        }
        let others = match present {
            Some(words) if self.has_bitmap() => {
                let (mut any, mut missing) = (0, 0);
                for (there, wanted) in self.beside(min, words) {
                    any |= there & wanted;
                    missing |= there & !wanted;
                    // Most nodes of a scattered set are cut by their first codes.
                    if any != 0 && missing != 0 {
                        break;
                    }
                }
                match (any, missing) {
                    (0, _) => Overlap::Disjoint,
                    (_, 0) => Overlap::Covered,
                    _ => Overlap::Cut,
                }
            }
            _ => match self.count_in(min, max) {
                0 => Overlap::Disjoint,
                inside if inside == u64::from(max - min) + 1 => Overlap::Covered,
                _ => Overlap::Cut,
            },
        };
        match (others, null) {
            (others, None) => others,
            (Overlap::Covered, Some(true)) => Overlap::Covered,
            (Overlap::Disjoint, Some(false)) => Overlap::Disjoint,
            _ => Overlap::Cut,
        }
    }
}

/// Bits that are kept as bytes, 64 at a time; what is missing of the last 64 is 0.
#[inline]
pub(super) fn words_of(bits: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let (whole, rest) = bits.as_chunks::<8>();
    let last = (!rest.is_empty()).then(|| {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        word
    });
    whole.iter().copied().chain(last).map(u64::from_le_bytes)
}

/// Sets the bits from `low` to `high`, both included.
fn set_bits(words: &mut [u64], low: usize, high: usize) {
    let (first, last) = (low / 64, high / 64);
    for (place, word) in words.iter_mut().enumerate().take(last + 1).skip(first) {
        let from = if place == first { low % 64 } else { 0 };
        let to = if place == last { high % 64 } else { 63 };
        *word |= (u64::MAX >> (63 - to)) & (u64::MAX << from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn ranges_may_come_in_any_order_and_overlap() {
        let set = CodeSet::of_ranges(vec![(9, 12), (2, 3), (4, 6), (11, 20), (u32::MAX, u32::MAX)], true);
        assert_eq!(set.runs(), [(2, 6), (9, 20), (u32::MAX, u32::MAX)]);
        assert!(set.holds_null() && CodeSet::of_ranges(Vec::new(), false).is_empty());
    }

    #[test]
    fn scattered_codes_take_room() {
        let near = CodeSet::of_codes((0..2_000).map(|code| 2 * code + 1).collect());
        let far = CodeSet::of_codes(vec![1, 1 << 23]);
        // Runs, codes before them, and bits.
        assert!(near.bytes() >= 2_000 * 16 + 4_000 / 8, "{}", near.bytes());
        assert!(far.bytes() >= 1 << 20, "{}", far.bytes());
        assert!(CodeSet::of_range(1, u32::MAX).bytes() < 1_000);
    }

    proptest! {
        #[test]
        fn sets_are_the_model(
            base in prop::sample::select(vec![0u32, 1, 63, 1 << 31, u32::MAX - 400]),
            a in prop::collection::btree_set(0u32..300, 0..80), b in prop::collection::btree_set(0u32..300, 0..80),
            present in prop::collection::btree_set(1u32..300, 1..40),
            null: bool,
        ) {
            let moved = |set: &BTreeSet<u32>| -> BTreeSet<u32> {
                set.iter().map(|&code| if code == 0 { 0 } else { base + code }).collect()
            };
            let (a, b, present) = (moved(&a), moved(&b), moved(&present));
            let set = CodeSet::of_codes(a.iter().rev().copied().collect());
            prop_assert_eq!(set.len(), a.len() as u64);
            for code in (base..=base.saturating_add(310)).chain([0]) {
                prop_assert_eq!(set.contains(code), a.contains(&code), "{}", code);
            }
            let mut words = Vec::new();
            for from in [base.saturating_sub(200), base, base.saturating_add(37), base.saturating_add(301)] {
                for count in [1usize, 3, 9] {
                    set.words(from, count, &mut words);
                    prop_assert_eq!(words.len(), count);
                    for (at, code) in (from.max(1)..=from.saturating_add(64 * count as u32 - 1)).map(|code| (code - from, code)) {
                        let bit = words[at as usize / 64] >> (at % 64) & 1 == 1;
                        prop_assert_eq!(bit, set.has_bitmap() && set.contains(code), "{} {}", from, code);
                    }
                }
            }
            let both = set.intersect(&CodeSet::of_codes(b.iter().copied().collect()));
            prop_assert_eq!(both, CodeSet::of_codes(a.intersection(&b).copied().collect()));
            let either = set.union(&CodeSet::of_codes(b.iter().copied().collect()));
            prop_assert_eq!(either, CodeSet::of_codes(a.union(&b).copied().collect()));
            let last = base.saturating_add(305);
            let rest = set.complement(last);
            prop_assert_eq!(rest.contains(0), !a.contains(&0));
            for code in base.max(1)..=last {
                prop_assert_eq!(rest.contains(code), !a.contains(&code), "{}", code);
            }
            prop_assert_eq!(rest.len(), u64::from(last) + 1 - a.range(..=last).count() as u64);
            prop_assert_eq!(rest.complement(last), set.intersect(&CodeSet::of_range(1, last)).union(&set.only_null()));

            let (min, max) = (*present.first().unwrap(), *present.last().unwrap());
            let mut bits = vec![0u64; (max / 64 - min / 64 + 1) as usize];
            present.iter().for_each(|code| bits[(code / 64 - min / 64) as usize] |= 1 << (code % 64));
            let mut all = present.clone();
            if null {
                all.insert(0);
            }
            let inside = all.iter().filter(|code| a.contains(code)).count();
            let expected = match inside {
                0 => Overlap::Disjoint,
                _ if inside == all.len() => Overlap::Covered,
                _ => Overlap::Cut,
            };
            prop_assert_eq!(set.overlap(min, max, null, Some(&bits)), expected);
            let by_range = set.overlap(min, max, null, None);
            let by_count = set.share(min, max, None);
            prop_assert!(by_range == expected || by_range == Overlap::Cut);
            let share = present.intersection(&a).count() as f64 / present.len() as f64;
            prop_assert_eq!(set.share(min, max, Some((&bits, present.len() as u32))), if set.has_bitmap() { share } else { by_count });
            prop_assert_eq!(set.count_in(min, max), a.range(min.max(1)..=max).count() as u64);
        }
    }

    impl CodeSet {
        fn only_null(&self) -> CodeSet {
            CodeSet::of_runs(Vec::new(), self.has_null)
        }
    }

    #[test]
    fn ranges_and_nulls() {
        let range = CodeSet::of_range(5, u32::MAX);
        assert!(range.contains(u32::MAX) && !range.contains(4) && !range.contains(0));
        assert_eq!(range.len(), u64::from(u32::MAX) - 4);
        let null = CodeSet::of_codes(vec![0]);
        assert_eq!(null.overlap(0, 0, false, None), Overlap::Covered);
        assert_eq!(null.overlap(3, 9, true, None), Overlap::Cut);
        assert_eq!(range.overlap(0, 0, false, None), Overlap::Disjoint);
        // The last code stands for all times after the last that has one of its own.
        assert_eq!(range.overlap(u32::MAX, u32::MAX, false, None), Overlap::Covered);
        assert_eq!(range.count_in(5, u32::MAX), u64::from(u32::MAX) - 4);
        assert_eq!(CodeSet::of_codes(vec![3, u32::MAX]).overlap(7, u32::MAX, false, None), Overlap::Cut);
        assert!(CodeSet::of_range(7, 3).is_empty());
    }
}
