//! Which groups the rows of a node may be of, by the codes that summaries say are there.
//!
//! Invariant: a group with a row in the node is among them; others may be, too: of several levels every combination is.

use super::Asked;
use super::facts::Facts;
use crate::answer::{GroupKeys, NodeTree};
use std::collections::HashSet;

/// Groups of all nodes together, beyond which they are not looked for.
pub(super) const CELLS_MAX: usize = 1 << 21;
/// Groups of one node beyond which a sample would hardly see them all.
const OF_NODE_MAX: usize = 1 << 12;

/// Indices of the groups, ascending; none of a question without groups. `None` where they are not known or too many.
pub(super) fn groups(
    asked: &Asked<'_>,
    keys: &GroupKeys,
    nodes: &NodeTree,
    height: usize,
    node: usize,
) -> Option<Vec<u64>> {
    let mut indices = vec![0u64];
    if asked.question.groups.is_empty() {
        return Some(Vec::new());
    }
    for (at, &level) in asked.question.groups.iter().enumerate() {
        let mut codes = nodes.codes_of(height, node, level)?;
        let filters = asked.question.filters.iter().filter(|filter| filter.level == level).map(|filter| &filter.codes);
        for set in filters.chain(asked.group_codes.get(at).and_then(Option::as_ref)) {
            codes.retain(|&code| set.contains(code));
        }
        let (span, stride) = (keys.spans()[at], keys.strides()[at]);
        let digits: Vec<u64> = codes.into_iter().map(|code| span.digit(code)).collect::<Option<_>>()?;
        if indices.len() * digits.len() > OF_NODE_MAX {
            return None;
        }
        indices = indices.iter().flat_map(|index| digits.iter().map(move |digit| index + digit * stride)).collect();
    }
    indices.sort_unstable();
    Some(indices)
}

/// How many groups may be in any of the nodes: 1 for a question without groups.
pub(super) fn count(facts: &[Facts]) -> usize {
    facts.iter().flat_map(|facts| &facts.groups).collect::<HashSet<_>>().len().max(1)
}
