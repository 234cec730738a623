//! Facts that summaries state of cut nodes before anything is read, and the nodes that cannot be strata.
//!
//! Invariant: a node whose summaries tell too little for a stratum is looked into; what is still unknown of single
//! blocks is read exactly.

use super::SampleRequest;
use super::knowns::NodeKnowns;
use super::possible::Possible;
use crate::answer::{Answer, BoxQuery, Boxes, CutNode};
use crate::estimate::Known;
use crate::nodes::{CodeSet, NodeTree};
use crate::visible::Laddered;
use alluvia_types::Result;
use std::ops::Range;
use std::sync::Arc;

/// A cut node that may be part of a stratum.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) cut: CutNode,
    pub(super) blocks: Range<usize>,
    /// Dead ones among them.
    pub(super) rows: u64,
    pub(super) dead: u64,
    /// The share of rows expected to match, which dead ones do not.
    pub(super) share: f64,
    /// Of each measure of the question, over all rows.
    pub(super) known: Vec<Known>,
    /// How many values of each are not NULL, heavy ones among them.
    pub(super) values: Vec<u64>,
    /// Indices of the groups that rows may be of.
    pub(super) groups: Vec<u64>,
}

/// Nodes of each of whose blocks so many rows would be drawn are looked into: blocks that are covered or disjoint are
/// worth finding then.
const LOOK_INTO_DRAWN: f64 = 1024.0;

/// Of nodes with a smaller share of matching rows, in which more blocks are disjoint, a quarter of that is enough.
const LOOK_INTO_SHARE: f64 = 0.1;

impl Facts {
    /// Whether the blocks below it are worth telling apart where its rows are drawn at a rate.
    pub(super) fn is_looked_into(&self, rate: f64) -> bool {
        let least = if self.share < LOOK_INTO_SHARE { LOOK_INTO_DRAWN / 4.0 } else { LOOK_INTO_DRAWN };
        self.cut.height > 0 && self.rows as f64 * rate >= least * self.blocks.len() as f64
    }
}

/// What is known of the nodes that may be strata, and what must be read.
pub(super) struct Gathered {
    pub(super) facts: Vec<Facts>,
    pub(super) exact: Vec<CutNode>,
}

/// The least share expected: a cut node is expected to have matches.
const SHARE_MIN: f64 = 1e-6;

/// What summaries say of a segment, looked up once for many of its nodes.
pub(super) struct Summaries<'a> {
    rows: &'a Laddered,
    nodes: Arc<NodeTree>,
    knowns: Vec<Arc<NodeKnowns>>,
}

impl<'a> Summaries<'a> {
    pub(super) fn new(question: &BoxQuery, rows: &'a Laddered) -> Result<Summaries<'a>> {
        let knowns = question
            .measures
            .iter()
            .map(|of| NodeKnowns::of_column(&rows.segment, of.column))
            .collect::<Result<_>>()?;
        Ok(Summaries { rows, nodes: rows.segment.nodes()?, knowns })
    }
}

/// What is known of nodes. `None`, with the answer as it was, if more groups are possible, over all nodes, than is
/// worth looking for.
pub(super) fn gather(
    asked: &SampleRequest<'_>,
    segments: &[Laddered],
    cut: &[CutNode],
    mut cells_left: usize,
    into: &mut Answer,
) -> Result<Option<Gathered>> {
    let mut gathered = Gathered { facts: Vec::with_capacity(cut.len()), exact: Vec::new() };
    let possible = Possible::new(asked, &into.keys);
    // Only then is nothing added to the answer before it is known whether there are too many groups.
    assert!(asked.shape().groups.is_empty() || cut.iter().all(|cut| cut.height == 0), "groups are known by block");
    for of_segment in cut.chunk_by(|a, b| a.segment == b.segment) {
        let rows = &segments[of_segment[0].segment];
        if rows.rungs().is_empty() {
            gathered.exact.extend_from_slice(of_segment);
            continue;
        }
        let summaries = Summaries::new(asked.shape(), rows)?;
        let mut unknown = Vec::new();
        for &cut in of_segment {
            match facts_of(asked, &possible, &summaries, cut, None, into) {
                Found::Facts(facts) => match cells_left.checked_sub(facts.groups.len()) {
                    Some(left) => {
                        cells_left = left;
                        gathered.facts.push(facts);
                    }
                    None => return Ok(None),
                },
                Found::Unknown if cut.height == 0 => gathered.exact.push(cut),
                Found::Unknown => unknown.push(cut),
                Found::TooManyGroups => return Ok(None),
            }
        }
        // One height after the other: what is unknown of a node may lie in one of its blocks.
        while let Some(node) = unknown.pop() {
            let mut below = Vec::new();
            asked.boxes.walk_below(rows, node, node.height - 1, into, &mut below)?;
            for cut in below {
                match facts_of(asked, &possible, &summaries, cut, None, into) {
                    Found::Facts(facts) => gathered.facts.push(facts),
                    Found::Unknown if cut.height > 0 => unknown.push(cut),
                    Found::Unknown | Found::TooManyGroups => gathered.exact.push(cut),
                }
            }
        }
    }
    gathered.facts.sort_by_key(|facts| (facts.cut.segment, facts.blocks.start));
    Ok(Some(gathered))
}

/// Looks into those nodes of which so many rows are drawn at a rate that this costs less than what it spares.
pub(super) fn refine(
    asked: &SampleRequest<'_>,
    segments: &[Laddered],
    facts: Vec<Facts>,
    rate: f64,
    into: &mut Answer,
) -> Result<Gathered> {
    let mut gathered = Gathered { facts: Vec::with_capacity(facts.len()), exact: Vec::new() };
    let possible = Possible::new(asked, &into.keys);
    let mut summaries: Option<(usize, Summaries<'_>)> = None;
    for facts in facts {
        if !facts.is_looked_into(rate) {
            gathered.facts.push(facts);
            continue;
        }
        let at = facts.cut.segment;
        let (_, summaries) = match summaries.take_if(|(of, _)| *of == at) {
            Some(same) => summaries.insert(same),
            None => summaries.insert((at, Summaries::new(asked.shape(), &segments[at])?)),
        };
        look_into(asked, &possible, summaries, (facts.cut, facts.share), into, &mut gathered)?;
    }
    Ok(gathered)
}

/// Gathers the blocks below a node, of whose rows a share is expected to match, instead of the node, of a question
/// without groups.
fn look_into(
    asked: &SampleRequest<'_>,
    possible: &Possible<'_>,
    summaries: &Summaries<'_>,
    (node, share): (CutNode, f64),
    into: &mut Answer,
    gathered: &mut Gathered,
) -> Result<()> {
    let mut blocks = Vec::new();
    asked.boxes.walk_below(summaries.rows, node, 0, into, &mut blocks)?;
    for cut in blocks {
        match facts_of(asked, possible, summaries, cut, Some(share), into) {
            Found::Facts(facts) => gathered.facts.push(facts),
            Found::Unknown | Found::TooManyGroups => gathered.exact.push(cut),
        }
    }
    Ok(())
}

/// What is known of one node.
pub(super) enum Found {
    Facts(Facts),
    Unknown,
    TooManyGroups,
}

/// Of one node; `share` is the share of its rows that are expected to match, where that was computed already.
pub(super) fn facts_of(
    asked: &SampleRequest<'_>,
    possible: &Possible<'_>,
    Summaries { rows, nodes, knowns }: &Summaries<'_>,
    cut: CutNode,
    share: Option<f64>,
    into: &Answer,
) -> Found {
    let CutNode { height, node, .. } = cut;
    if !cut.is_of_all_versions() {
        return Found::Unknown;
    }
    let known: Option<Vec<Known>> = knowns.iter().map(|knowns| knowns.of(height, node)).collect();
    let Some(known) = known else { return Found::Unknown };
    let values = knowns.iter().map(|knowns| knowns.values(height, node)).collect();
    let Some(groups) = possible.groups(&into.keys, nodes, height, node) else {
        return Found::TooManyGroups;
    };
    let blocks = nodes.blocks_below(height, node);
    let count = rows.segment.block_rows(blocks.end - 1).end - rows.segment.block_rows(blocks.start).start;
    let dead = rows.count_dead(blocks.clone());
    let share = share.unwrap_or_else(|| {
        let of_boxes = share_of(asked.boxes, &cut, |level, codes| nodes.share(height, node, level, codes));
        (of_boxes * (1.0 - dead as f64 / count as f64)).max(SHARE_MIN)
    });
    Found::Facts(Facts { cut, blocks, rows: count, dead, share, known, values, groups })
}

/// The share of a node's rows that are of any of the boxes, which share none: of each what its open filters pass, as if
/// they had nothing to do with one another.
fn share_of(boxes: &Boxes, cut: &CutNode, of: impl Fn(usize, &CodeSet) -> f64) -> f64 {
    let of_box = |(_, bits): (usize, u64)| {
        let filters = Boxes::open_of(bits, cut.open).map(|place| &boxes.all().filters[place]);
        filters.map(|filter| of(filter.level, &filter.codes)).product::<f64>()
    };
    boxes.among(cut.boxes).map(of_box).sum::<f64>().min(1.0)
}
