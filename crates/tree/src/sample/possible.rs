//! Groups that the rows of a node may be of, by the codes that summaries say are there.
//!
//! Invariant: a group with a row in the node is among them; others may be, too: of several levels every combination is,
//! and of a level whose codes a map makes few of, where a node does not tell its codes, every one of which some code
//! may lie between the node's bounds.

use super::SampleRequest;
use super::facts::Facts;
use crate::answer::{BoxQuery, CodeMap, GroupKeys};
use crate::nodes::{CodeSet, NodeTree};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Groups of all nodes together, beyond which they are not looked for.
pub(super) const CELLS_MAX: usize = 1 << 21;
/// Groups of one node beyond which a sample would hardly see them all.
const OF_NODE_MAX: usize = 1 << 12;

/// What the rows of the boxes can be of, whatever node they lie in.
pub(super) struct Possible<'a> {
    asked: &'a SampleRequest<'a>,
    /// For each group the sets that all hold the codes which rows of the boxes have at its level.
    sets: Vec<Vec<Cow<'a, CodeSet>>>,
    /// For each group with a map the digits of the codes that rows of the boxes can have, ascending; `None` where they
    /// are too many to be looked for in a node, and of a group without a map.
    mapped: Vec<Option<Vec<Digit>>>,
}

/// A digit, and of which codes it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Digit {
    digit: u64,
    /// The least and the greatest of them; the former is the greater one where there are none.
    codes: (u32, u32),
    of_null: bool,
}

impl Digit {
    /// Whether a node whose codes lie between bounds may have one of them, as far as the least and the greatest tell: a
    /// member that only the tail has is newer than those of all nodes.
    fn may_be_in(&self, (min, max, has_null): (u32, u32, bool)) -> bool {
        self.of_null && has_null || self.codes.0.max(min) <= self.codes.1.min(max)
    }
}

impl<'a> Possible<'a> {
    pub(super) fn new(asked: &'a SampleRequest<'a>, keys: &GroupKeys) -> Possible<'a> {
        let groups = 0..asked.shape().groups.len();
        let sets: Vec<_> = groups.clone().map(|at| sets(asked, at)).collect();
        let of_group = |at: usize| digits_of(keys.map(at)?, sets[at].iter().map(|set| &**set));
        let mapped = groups.map(of_group).collect();
        Possible { asked, sets, mapped }
    }

    /// Indices of the groups, ascending; none of a question without groups. `None` where they are not known or too
    /// many.
    pub(super) fn groups(&self, keys: &GroupKeys, nodes: &NodeTree, height: usize, node: usize) -> Option<Vec<u64>> {
        let mut indices = vec![0u64];
        if self.asked.shape().groups.is_empty() {
            return Some(Vec::new());
        }
        for (at, &level) in self.asked.shape().groups.iter().enumerate() {
            let digits = match nodes.codes_of(height, node, level) {
                Some(mut codes) => {
                    self.sets[at].iter().for_each(|set| codes.retain(|&code| set.contains(code)));
                    let digits = codes.into_iter().map(|code| keys.digit(at, code));
                    let mut digits: Vec<u64> = digits.collect::<Option<_>>()?;
                    // Codes of one group lie anywhere.
                    digits.sort_unstable();
                    digits.dedup();
                    digits
                }
                None => {
                    let bounds = nodes.bounds(height, node, level);
                    let digits = self.mapped[at].as_ref()?.iter().filter(|digit| digit.may_be_in(bounds));
                    digits.map(|digit| digit.digit).collect()
                }
            };
            let stride = keys.strides()[at];
            if indices.len() * digits.len() > OF_NODE_MAX {
                return None;
            }
            indices = indices.iter().flat_map(|index| digits.iter().map(move |digit| index + digit * stride)).collect();
        }
        indices.sort_unstable();
        Some(indices)
    }
}

/// The sets that all hold the codes which rows of the boxes have at a grouped level.
fn sets<'a>(asked: &'a SampleRequest<'_>, at: usize) -> Vec<Cow<'a, CodeSet>> {
    let level = asked.shape().groups[at];
    let of_box = |question: &'a BoxQuery| {
        let filter = question.filters.iter().find(|filter| filter.level == level)?;
        Some(Cow::Borrowed(&filter.codes))
    };
    // A row is of any of the boxes: where one of them does not say what codes it has, none does.
    let each: Option<Vec<_>> = asked.boxes.each().iter().map(of_box).collect();
    let any = each.into_iter().flatten().reduce(|any, codes| Cow::Owned(any.union(&codes)));
    any.into_iter().chain(asked.group_codes.get(at).and_then(Option::as_ref).map(Cow::Borrowed)).collect()
}

/// The digits of the codes that are in all sets, ascending; `None` if they are too many.
fn digits_of<'a>(map: &CodeMap, sets: impl Iterator<Item = &'a CodeSet>) -> Option<Vec<Digit>> {
    let all = CodeSet::of_range_and_null(1, u32::MAX, true);
    let codes = sets.fold(all, |codes, set| codes.intersect(set));
    let known = map.codes_known();
    // By digit, of which there may be as many as a level has members.
    let mut found: HashMap<u32, Digit> = HashMap::new();
    // Whether there are few yet: of a level with very many names it is known soon that there are not.
    let mut add = |digit: u32, (low, high): (u32, u32), of_null: bool| {
        let unknown = Digit { digit: digit.into(), codes: (u32::MAX, 0), of_null: false };
        let known = found.entry(digit).or_insert(unknown);
        known.codes = (known.codes.0.min(low), known.codes.1.max(high));
        known.of_null |= of_null;
        found.len() <= OF_NODE_MAX
    };
    if codes.holds_null() {
        add(map.digit(0), (u32::MAX, 0), true);
    }
    for &(low, high) in codes.runs() {
        // Codes that are newer than the map are of digit 0.
        let is_newer = high >= known;
        let are_few =
            (low..=high.min(known.saturating_sub(1))).all(|code| add(map.digit(code), (code, code), code == 0));
        if !are_few || is_newer && !add(0, (low.max(known), high), false) {
            return None;
        }
    }
    let mut digits: Vec<Digit> = found.into_values().collect();
    digits.sort_unstable_by_key(|found| found.digit);
    Some(digits)
}

/// How many groups may be in any of the nodes: 1 for a question without groups.
pub(super) fn count(facts: &[Facts]) -> usize {
    facts.iter().flat_map(|facts| &facts.groups).collect::<HashSet<_>>().len().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_all_codes_that_rows_can_have() {
        let map = CodeMap::new([(1, 3), (2, 1), (4, 3), (6, 2)].into_iter(), 8, 4).expect("each once");
        let numbers = |found: Vec<Digit>| found.into_iter().map(|found| found.digit).collect::<Vec<_>>();
        let digits = |sets: &[CodeSet]| numbers(digits_of(&map, sets.iter()).expect("few"));
        // Without a filter also those that the map leaves out.
        assert_eq!(digits(&[]), [0, 1, 2, 3]);
        assert_eq!(digits(&[CodeSet::of_codes(map.codes().collect())]), [1, 2, 3]);
        assert_eq!(digits(&[CodeSet::of_codes(vec![1, 2, 4]), CodeSet::of_range(4, 100)]), [3]);
        assert_eq!(digits(&[CodeSet::of_range(6, 6), CodeSet::of_range(1, 3)]), Vec::<u64>::new());
        // NULL, a code that the map does not know, and a newer one.
        for code in [0, 3, 9] {
            assert_eq!(digits(&[CodeSet::of_codes(vec![code, 6])]), [0, 2], "{code}");
        }
        let many = CodeMap::new((1..6_000).map(|code| (code, code)), 6_000, 5_999).expect("each once");
        assert_eq!(digits_of(&many, std::iter::empty()), None);
        assert_eq!(digits_of(&many, [CodeSet::of_range(7, 9)].iter()).map(numbers), Some(vec![7, 8, 9]));
        assert_eq!(
            digits_of(&many, [CodeSet::of_range(1, 4_096)].iter()).map(|digits| digits.len()),
            Some(OF_NODE_MAX)
        );
        assert_eq!(digits_of(&many, [CodeSet::of_range(1, 4_097)].iter()), None);
        // Many codes of few names.
        let names = CodeMap::of_codes((0..9_000).map(|code| if code == 0 { 0 } else { 1 + code % 3 }).collect());
        assert_eq!(digits_of(&names, std::iter::empty()).map(numbers), Some(vec![0, 1, 2, 3]));
    }

    #[test]
    fn a_node_has_no_digit_of_codes_beyond_its_own() {
        // The members 2 and 4 share a name, 5 is the newest.
        let map = CodeMap::of_codes([0, 1, 2, 3, 2, 5].into());
        let found = digits_of(&map, std::iter::empty()).expect("few");
        let of = |bounds: (u32, u32, bool)| -> Vec<u64> {
            found.iter().filter(|digit| digit.may_be_in(bounds)).map(|digit| digit.digit).collect()
        };
        assert_eq!(of((1, 4, false)), [1, 2, 3]);
        assert_eq!(of((3, 3, true)), [0, 2, 3]);
        assert_eq!(of((5, 9, false)), [0, 5], "newer ones than the map's are of digit 0");
        assert_eq!(of((0, 0, true)), [0], "NULL alone");
    }
}
