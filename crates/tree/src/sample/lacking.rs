//! Groups without a value of a measure, found by the counts of values in summaries.
//!
//! Invariants:
//! - A node whose summary counts no value of a measure has none, of whatever group. In others each of their groups may
//!   have some.
//! - What is to be read is chosen by summaries alone, and is a small share of all that may be drawn.

use super::facts::Facts;
use std::collections::HashMap;

/// The share of all rows, one in so many, that is read at most so that groups are known to have no values.
const READ_SHARE: u64 = 8;

/// By measure, the groups of a run that have no value in it, ascending.
#[derive(Clone, Debug)]
pub(super) struct Lacking(Vec<Vec<u64>>);

impl Lacking {
    /// Of a run of one node.
    pub(super) fn new(facts: &Facts) -> Lacking {
        let of_measure = |values: &u64| if *values == 0 { facts.groups.clone() } else { Vec::new() };
        Lacking(facts.values.iter().map(of_measure).collect())
    }

    /// Takes in another node of the run, whose groups were these so far, ascending.
    pub(super) fn add(&mut self, known: &[u64], facts: &Facts) {
        for (lacking, values) in self.0.iter_mut().zip(&facts.values) {
            if *values > 0 {
                lacking.retain(|index| facts.groups.binary_search(index).is_err());
                continue;
            }
            let before = lacking.len();
            lacking.extend(facts.groups.iter().copied().filter(|index| known.binary_search(index).is_err()));
            if lacking.len() > before {
                lacking.sort_unstable();
            }
        }
    }

    /// Whether none of a group's rows has a value of a measure.
    pub(super) fn has(&self, measure: usize, group: u64) -> bool {
        self.0[measure].binary_search(&group).is_ok()
    }
}

/// Which nodes are better read than drawn: those that have values, where there may be rows of groups that have none in
/// most of their nodes. If they have none there, either, nothing but reading tells that.
pub(super) fn doubtful(facts: &[Facts]) -> Vec<bool> {
    let mut doubtful = vec![false; facts.len()];
    for measure in 0..facts.first().map_or(0, |facts| facts.values.len()) {
        if facts.iter().all(|facts| facts.values[measure] > 0) {
            continue;
        }
        // Of each group the rows of its nodes without a value, and of those with some.
        let mut rows: HashMap<u64, (u64, u64)> = HashMap::new();
        for facts in facts {
            for &group in &facts.groups {
                let (without, with) = rows.entry(group).or_default();
                *(if facts.values[measure] == 0 { without } else { with }) += facts.rows;
            }
        }
        rows.retain(|_, (without, with)| *with > 0 && *with <= *without);
        for (facts, doubtful) in facts.iter().zip(&mut doubtful) {
            *doubtful |= facts.values[measure] > 0 && facts.groups.iter().any(|group| rows.contains_key(group));
        }
    }
    let all: u64 = facts.iter().map(|facts| facts.rows).sum();
    let read: u64 = facts.iter().zip(&doubtful).filter(|(_, doubtful)| **doubtful).map(|(facts, _)| facts.rows).sum();
    if read > all / READ_SHARE {
        doubtful.fill(false);
    }
    doubtful
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::CutNode;
    use crate::estimate::Known;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn node(at: usize, values: u64, groups: &[u64]) -> Facts {
        Facts {
            cut: CutNode::of_block(at),
            blocks: at..at + 1,
            rows: 100,
            dead: 0,
            share: 0.5,
            known: vec![Known::NOTHING],
            values: vec![values],
            groups: groups.to_vec(),
        }
    }

    #[test]
    fn nodes_at_the_border_of_a_group_without_values_are_read() {
        let mut nodes: Vec<Facts> =
            (0..20).map(|at| node(at, if at < 10 { 100 } else { 0 }, &[at as u64 / 10])).collect();
        assert!(doubtful(&nodes).iter().all(|doubtful| !doubtful));
        nodes[9].groups = vec![0, 1];
        let found = doubtful(&nodes);
        assert_eq!((0..20).filter(|&at| found[at]).collect::<Vec<_>>(), [9]);
        // Where there are many of them, nothing is read for that.
        nodes[5..9].iter_mut().for_each(|node| node.groups = vec![0, 1]);
        assert!(doubtful(&nodes).iter().all(|doubtful| !doubtful));
        assert!(doubtful(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn a_group_lacks_values_where_each_of_its_nodes_does(
            nodes in prop::collection::vec((0u64..2, prop::collection::btree_set(0u64..6, 0..4)), 1..8),
        ) {
            let nodes: Vec<Facts> = nodes
                .into_iter()
                .enumerate()
                .map(|(at, (values, groups))| node(at, values, &groups.into_iter().collect::<Vec<_>>()))
                .collect();
            let mut known: BTreeSet<u64> = nodes[0].groups.iter().copied().collect();
            let mut lacking = Lacking::new(&nodes[0]);
            for node in &nodes[1..] {
                lacking.add(&known.iter().copied().collect::<Vec<_>>(), node);
                known.extend(&node.groups);
            }
            for group in 0..6 {
                let mut its = nodes.iter().filter(|node| node.groups.contains(&group)).peekable();
                let expected = its.peek().is_some() && its.all(|node| node.values[0] == 0);
                prop_assert_eq!(lacking.has(0, group), expected);
            }
        }
    }
}
