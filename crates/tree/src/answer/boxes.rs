//! Several boxes that share no row, walked together: what estimates are made of.
//!
//! Invariants:
//! - A row is of one box at most. So a node all of whose rows are of one box has none of another, whatever its
//!   summaries leave possible there, and no row is both in what is covered and in what is cut.
//! - A filter whose bit is not open holds for every row below the node. Of a box that no row of the node is of, all
//!   bits are open. So whoever tests a box's open filters on rows of several nodes learns the truth about each row,
//!   wherever the box ends.
//! - A cut node comes once, however many boxes cut it.
//! - No row of a segment that is walked is dead: of what a sample is drawn of, rungs and facts tell of all rows.
//!
//! An exact answer adds up box by box ([`super::answer`]), for then a box tests no filter but its own open ones. A
//! sample may not: a node that two boxes cut is one stratum, whose rows were drawn once.

use super::question::BoxQuery;
use super::segments::{Answer, CutBlock};
use super::walk::{add_covered, all_tests, visible, walk_below};
use crate::nodes::{FANOUT, Overlap};
use crate::visible::{SegmentRows, Versions};
use alluvia_types::Result;

/// Boxes and filters that have a bit each.
const BOXES_MAX: usize = 16;
const FILTERS_MAX: usize = 64;

/// Boxes that share no row, of the same groups and measures, without ranges of times: codes alone tell their rows.
#[derive(Clone, Debug)]
pub struct Boxes {
    each: Vec<BoxQuery>,
    /// The filters of all boxes, one box after the other; groups and measures. A filter's bit is its place here.
    all: BoxQuery,
    /// By box, the bits of its filters.
    bits: Vec<u64>,
}

/// A node that is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CutNode {
    pub(crate) segment: usize,
    pub(crate) height: usize,
    pub(crate) node: usize,
    /// Boxes that may have rows there.
    pub(crate) boxes: u16,
    /// Filters that rows there may not pass.
    pub(crate) open: u64,
    /// Only rows of these versions count: all, but of blocks.
    versions: Versions,
}

impl CutNode {
    /// Whether rows of all versions count.
    pub(crate) fn is_of_all_versions(&self) -> bool {
        self.versions == Versions::ALL
    }

    /// A block of a segment alone, for tests.
    #[cfg(test)]
    pub(crate) fn of_block(node: usize) -> CutNode {
        CutNode { segment: 0, height: 0, node, boxes: 1, open: 1, versions: Versions::ALL }
    }
}

impl Boxes {
    /// These boxes, at least one; `None` if they are too many to be walked together.
    pub fn new(each: Vec<BoxQuery>) -> Option<Boxes> {
        let first = each.first()?;
        assert!(
            each.iter().all(|other| other.groups == first.groups && other.measures == first.measures),
            "boxes differ in nothing but their filters"
        );
        assert!(each.iter().all(|one| one.times.is_empty()), "boxes that are walked together are told by codes");
        let mut all = BoxQuery { filters: Vec::new(), ..first.clone() };
        let mut bits = Vec::with_capacity(each.len());
        if each.len() > BOXES_MAX || each.iter().map(|of| of.filters.len()).sum::<usize>() > FILTERS_MAX {
            return None;
        }
        for one in &each {
            // No filter has the 65th bit.
            let before = all.filters.len() as u32;
            bits.push(all_tests(one).checked_shl(before).unwrap_or(0));
            all.filters.extend_from_slice(&one.filters);
        }
        Some(Boxes { each, all, bits })
    }

    /// Each as it was asked.
    pub fn each(&self) -> &[BoxQuery] {
        &self.each
    }

    /// Groups and measures, and the filters of all boxes, whose places are their bits: no question that can be asked,
    /// where there are several boxes.
    pub(crate) fn all(&self) -> &BoxQuery {
        &self.all
    }

    /// The boxes among some, each with its bits.
    pub(crate) fn among(&self, boxes: u16) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.bits.iter().copied().enumerate().filter(move |(at, _)| boxes >> at & 1 == 1)
    }

    /// The places of a box's filters that are open.
    pub(crate) fn open_of(bits: u64, open: u64) -> impl Iterator<Item = usize> {
        let mut left = bits & open;
        std::iter::from_fn(move || {
            let place = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(place)
        })
    }

    /// Filters that are tested of a cut node.
    pub(crate) fn tested(&self, cut: &CutNode) -> u32 {
        self.among(cut.boxes).map(|(_, bits)| (bits & cut.open).count_ones()).sum()
    }

    /// Answers what summaries can, and goes no lower than to a height: what is cut there is not looked into. Only
    /// segments all of whose rows are visible may be walked to nodes.
    pub(crate) fn walk(
        &self,
        at: usize,
        rows: &SegmentRows,
        stop: usize,
        into: &mut Answer,
        cut: &mut Vec<CutNode>,
    ) -> Result<()> {
        if rows.segment.blocks() == 0 {
            return Ok(());
        }
        let (covered, before) = (into.counters.covered, cut.len());
        let height = rows.segment.nodes()?.heights() - 1;
        let (boxes, open) = ((0..self.each.len()).fold(0, |boxes, at| boxes | 1 << at), all_tests(&self.all));
        let top = CutNode { segment: at, height, node: 0, boxes, open, versions: Versions::ALL };
        self.descend(rows, top, stop, into, cut)?;
        if into.counters.covered == covered && cut.len() == before {
            into.counters.segments_skipped += 1;
        } else {
            into.counters.segments += 1;
        }
        Ok(())
    }

    /// Looks into a node that a walk stopped at: lists what is cut below it, at a height.
    pub(crate) fn walk_below(
        &self,
        rows: &SegmentRows,
        from: CutNode,
        stop: usize,
        into: &mut Answer,
        cut: &mut Vec<CutNode>,
    ) -> Result<()> {
        if from.height <= stop {
            cut.push(from);
            return Ok(());
        }
        self.descend(rows, from, stop, into, cut)
    }

    /// What one box cuts below a node, to be read; what it covers is added.
    pub(crate) fn blocks_of_box(
        &self,
        of_box: usize,
        rows: &SegmentRows,
        from: CutNode,
        into: &mut Answer,
        cut: &mut Vec<CutBlock>,
    ) -> Result<()> {
        let bits = self.bits[of_box];
        let open = (from.open & bits) >> bits.trailing_zeros().min(u64::BITS - 1);
        if from.height == 0 {
            let CutNode { segment, node, versions, .. } = from;
            cut.push(CutBlock { segment, block: node, open, versions });
            return Ok(());
        }
        walk_below(&self.each[of_box], from.segment, rows, (from.height, from.node, open), into, cut)
    }

    fn descend(
        &self,
        rows: &SegmentRows,
        start: CutNode,
        stop: usize,
        into: &mut Answer,
        cut: &mut Vec<CutNode>,
    ) -> Result<()> {
        let (segment, versions) = (&rows.segment, rows.bounds());
        let is_whole_segment = versions == Versions::ALL;
        assert!(stop == 0 || is_whole_segment, "versions are told apart by block");
        let nodes = segment.nodes()?;
        let index = segment.index()?;
        let mut stack = vec![(start.height, start.node, start.boxes, start.open)];
        while let Some((height, node, above, open)) = stack.pop() {
            let overlap = |place: usize| {
                let filter = &self.all.filters[place];
                nodes.overlap(height, node, filter.level, &filter.codes)
            };
            let (boxes, open) = self.overlap(above, open, overlap);
            let mut is_disjoint = boxes == 0;
            let mut cut_at = Versions::ALL;
            if !is_disjoint && !is_whole_segment && height == 0 {
                match visible(segment, &index, node, versions) {
                    Overlap::Disjoint => is_disjoint = true,
                    Overlap::Covered => {}
                    Overlap::Cut => cut_at = versions,
                }
            }
            if is_disjoint {
                into.counters.disjoint += 1;
                into.counters.blocks_skipped += nodes.blocks_below(height, node).len() as u64;
                continue;
            }
            let has_dead = rows.dead.as_ref().is_some_and(|dead| dead.any_below(height, node));
            if has_dead && height == 0 && rows.is_block_dead(node) {
                into.counters.disjoint += 1;
                into.counters.blocks_skipped += 1;
                continue;
            }
            let is_of_one_box = self.among(boxes).any(|(_, bits)| bits & open == 0);
            let is_whole = is_of_one_box && !has_dead && cut_at == Versions::ALL && (is_whole_segment || height == 0);
            if is_whole && add_covered(&self.all, segment, &index, &nodes, (height, node), into) {
                continue;
            }
            if height <= stop {
                cut.push(CutNode { segment: start.segment, height, node, boxes, open, versions: cut_at });
            } else {
                let children = node * FANOUT..((node + 1) * FANOUT).min(nodes.nodes(height - 1));
                stack.extend(children.rev().map(|child| (height - 1, child, boxes, open)));
            }
        }
        Ok(())
    }

    /// Of the boxes that may have rows in the node above those that may have some in this one, and the filters that are
    /// open here.
    fn overlap(&self, above: u16, mut open: u64, overlap: impl Fn(usize) -> Overlap) -> (u16, u64) {
        let mut boxes = above;
        for (at, bits) in self.among(above) {
            let mut own = open & bits;
            for place in Boxes::open_of(bits, open) {
                match overlap(place) {
                    Overlap::Disjoint => {
                        boxes &= !(1 << at);
                        own = bits;
                        break;
                    }
                    Overlap::Covered => own &= !(1 << place),
                    Overlap::Cut => {}
                }
            }
            open = open & !bits | own;
            if boxes >> at & 1 == 1 && own == 0 {
                // All rows are of this box.
                let others = self.among(!(1 << at)).fold(0, |others, (_, bits)| others | bits);
                return (1 << at, others);
            }
        }
        (boxes, open)
    }
}

impl From<BoxQuery> for Boxes {
    fn from(question: BoxQuery) -> Boxes {
        assert!(question.filters.len() <= FILTERS_MAX, "a bit for each filter");
        assert!(question.times.is_empty(), "boxes that are walked together are told by codes");
        let bits = vec![all_tests(&question)];
        Boxes { all: question.clone(), each: vec![question], bits }
    }
}
