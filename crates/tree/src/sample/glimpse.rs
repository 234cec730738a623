//! The foreseen work of an answer, extrapolated from a few of its cut nodes.
//!
//! Invariants:
//! - At most one node in [`ONE_IN`] is looked at, or [`LOOKS_MIN`], and never more than [`LOOKS_MAX`]; an exact answer
//!   walks them all. So deciding costs a small share of what the exact answer does, which must be given where it
//!   decides for that.
//! - Nothing is added to the answer, and no stream is read.
//!
//! The nodes looked at lie evenly among all of them, so what is dear in one part of the table counts as it should. Of a
//! node of nodes one child is looked at, whether it is cut or not: they stand for all that lie there.

use super::cost::{Kind, Work};
use super::facts::{self, Facts, Found};
use super::{SampleRequest, possible};
use crate::answer::{Answer, BoxQuery, Boxes, CutBlock, CutNode, Wanted};
use crate::heavy::heavy_rows;
use crate::nodes::{CodeSet, FANOUT};
use crate::packed::{CodeBounds, Encoding};
use crate::segment::{BlockIndex, Segment, values_of};
use crate::visible::Laddered;
use alluvia_types::Result;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Of so many cut nodes one is looked at.
const ONE_IN: usize = 16;
/// So many are, if there are so many.
const LOOKS_MIN: usize = 2;
/// More tell little that is new.
const LOOKS_MAX: usize = 24;
/// Words of a mask are passed over if no row of them matches.
const WORD_ROWS: f64 = 64.0;

/// What a few of the cut nodes say of all.
pub(super) struct Glimpse {
    /// Of the nodes that were looked at.
    pub(super) facts: Vec<Facts>,
    /// How many times as many rows all nodes have.
    pub(super) weight: f64,
    /// Groups that may be in nodes, over all nodes.
    pub(super) cells: f64,
    pub(super) reading: Reading,
}

/// What reading costs, for one row of a cut node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reading {
    /// To read it exactly, with the walk to its block.
    pub(super) exact: Work,
    /// To draw it; of what is read at a rate the rate's share.
    pub(super) drawn: Work,
    /// Heavy rows, times what is looked at of each.
    pub(super) heavy: f64,
    /// Blocks that are cut.
    pub(super) blocks: f64,
    /// The share of rows that lie in cut blocks.
    pub(super) cut: f64,
    /// Nodes whose facts are gathered.
    pub(super) nodes: f64,
}

/// Which nodes, of so many rows each, are looked at, ascending: those in which places lie that are spread evenly over
/// all rows.
fn chosen(rows: &[u64]) -> Vec<usize> {
    let (nodes, all) = (rows.len(), rows.iter().sum::<u64>() as f64);
    let count = (nodes / ONE_IN).clamp(LOOKS_MIN, LOOKS_MAX).min(nodes);
    let (mut at, mut before) = (0, 0);
    let mut chosen = Vec::with_capacity(count);
    for look in 0..count {
        let place = (2 * look + 1) as f64 * all / (2 * count) as f64;
        while at + 1 < nodes && (before + rows[at]) as f64 <= place {
            before += rows[at];
            at += 1;
        }
        chosen.push(at);
    }
    chosen
}

/// Looks at some of the nodes that may be strata. `None` where there is nothing to be seen: then there is nothing to be
/// drawn, either, or there are more groups than is worth looking for.
pub(super) fn glimpse(
    asked: &SampleRequest<'_>,
    segments: &[Laddered],
    nodes: &[CutNode],
    rows_of_nodes: &[u64],
    into: &Answer,
) -> Result<Option<Glimpse>> {
    let mut seen = Vec::new();
    let mut reading = Reading::default();
    let (mut rows_seen, mut cells) = (0.0, 0);
    let groups = possible::Possible::new(asked, &into.keys);
    for (turn, at) in chosen(rows_of_nodes).into_iter().enumerate() {
        let rows = &segments[nodes[at].segment];
        let node = within(rows, nodes[at], turn)?;
        let summaries = facts::Summaries::new(asked.shape(), rows)?;
        match facts::facts_of(asked, &groups, &summaries, node, None, into) {
            Found::Facts(facts) => {
                cells += facts.groups.len();
                rows_seen += facts.rows as f64;
                look_at(asked, rows, &facts, &mut reading)?;
                seen.push(facts);
            }
            // It is read exactly whatever is decided.
            Found::Unknown => {}
            Found::TooManyGroups => return Ok(None),
        }
    }
    let rows_of_nodes = rows_of_nodes.iter().sum::<u64>() as f64;
    let weight = rows_of_nodes / rows_seen;
    let cells = cells as f64 * weight;
    if rows_seen == 0.0 || cells > possible::CELLS_MAX as f64 {
        return Ok(None);
    }
    let of_row = 1.0 / rows_seen;
    let reading = Reading {
        exact: reading.exact * of_row,
        drawn: reading.drawn * of_row,
        heavy: reading.heavy * of_row,
        blocks: reading.blocks * of_row,
        cut: reading.cut * of_row,
        nodes: nodes.len() as f64 / rows_of_nodes,
    };
    Ok(Some(Glimpse { facts: seen, weight, cells, reading }))
}

/// A node of blocks within a node, at another place of it each time; itself, if it is one.
fn within(rows: &Laddered, mut node: CutNode, turn: usize) -> Result<CutNode> {
    let nodes = rows.segment.nodes()?;
    while node.height > 1 {
        let children = node.node * FANOUT..((node.node + 1) * FANOUT).min(nodes.nodes(node.height - 1));
        // Steps of five come to every place of sixteen.
        node.height -= 1;
        node.node = children.start + (2 + 5 * turn) % children.len();
    }
    Ok(node)
}

/// Rows below a node.
pub(super) fn rows_of(segments: &[Laddered], node: CutNode) -> Result<u64> {
    let segment = &segments[node.segment].segment;
    let blocks = match node.height {
        0 => node.node..node.node + 1,
        height => segment.nodes()?.blocks_below(height, node.node),
    };
    Ok(segment.block_rows(blocks.end - 1).end - segment.block_rows(blocks.start).start)
}

/// Counts what reading one node takes.
fn look_at(asked: &SampleRequest<'_>, rows: &Laddered, facts: &Facts, into: &mut Reading) -> Result<()> {
    let (shape, cut, segment) = (asked.shape(), facts.cut, &rows.segment);
    if cut.height > 0 {
        into.exact.count(Kind::Node, facts.blocks.len() as f64 * f64::from(asked.boxes.tested(&cut)));
    }
    let index = segment.index()?;
    let rows_of = |block: usize| {
        let rows = segment.block_rows(block);
        (rows.end - rows.start) as f64
    };
    let mut thrown_away = nothing(shape)?;
    let mut of_boxes = Vec::new();
    for (of_box, _) in asked.boxes.among(cut.boxes) {
        let mut blocks = Vec::new();
        asked.boxes.blocks_of_box(of_box, rows, cut, &mut thrown_away, &mut blocks)?;
        of_boxes.push((&asked.boxes.each()[of_box], blocks));
    }
    // An exact answer reads a block for each box that cuts it, a sample once.
    let reads: f64 = of_boxes.iter().flat_map(|(_, blocks)| blocks).map(|block| rows_of(block.block)).sum();
    let cut_blocks: BTreeSet<usize> = of_boxes.iter().flat_map(|(_, blocks)| blocks).map(|cut| cut.block).collect();
    into.cut += cut_blocks.into_iter().map(rows_of).sum::<f64>();
    // Rows that match lie in blocks that are not disjoint.
    let share = if reads > 0.0 { (facts.share * facts.rows as f64 / reads).min(1.0) } else { 0.0 };
    for (question, blocks) in &of_boxes {
        into.blocks += blocks.len() as f64;
        for block in blocks {
            exact_block(question, segment, &index, block, rows_of(block.block), share, &mut into.exact);
        }
    }
    into.drawn.count(Kind::Singly, rows.looked_at(facts.blocks.clone()));
    drawn_rows(asked.boxes, segment, &index, facts, &mut into.drawn)?;
    into.heavy += heavy_of(asked.boxes, segment, &index, facts)?;
    Ok(())
}

/// An answer that is thrown away.
fn nothing(question: &BoxQuery) -> Result<Answer> {
    // Of a question with groups nodes are blocks, and nothing is added for those.
    let keys = crate::answer::GroupKeys::new(Vec::new());
    let keys = keys.ok_or_else(|| alluvia_types::Error::internal("one group is too many"))?;
    Ok(Answer::new(&BoxQuery { measures: question.measures.clone(), ..BoxQuery::default() }, keys))
}

/// Counts reading a cut block exactly.
fn exact_block(
    question: &BoxQuery,
    segment: &Segment,
    index: &BlockIndex,
    block: &CutBlock,
    rows: f64,
    share: f64,
    work: &mut Work,
) {
    work.count(Kind::Piece, 1.0);
    for (_, filter) in question.filters.iter().enumerate().filter(|(place, _)| block.open >> place & 1 == 1) {
        codes(&filter.codes, index.table.levels[filter.level].code_bounds(block.block), rows, work);
    }
    let is_of_one_group = question.groups.iter().all(|&level| {
        let bounds = index.table.levels[level].code_bounds(block.block);
        bounds.min == bounds.max && !bounds.has_null
    });
    if !is_of_one_group {
        let columns = 1 + question.groups.len() + question.measures.len();
        work.count(Kind::Scattered, rows * share * columns as f64);
        return;
    }
    for measure in &question.measures {
        let Some(place) = index.table.measures.iter().position(|(id, _)| *id == measure.column) else { continue };
        let (count, has_nulls) = values_of(index, place, segment, block.block);
        if count > 0 && (has_nulls || measure.wanted != Wanted::default()) {
            values(index.table.measures[place].1.encodings[block.block], measure.wanted, rows, share, work);
        }
    }
}

/// Counts drawing all rows of a node: a rate's share of that is what a rung costs.
fn drawn_rows(boxes: &Boxes, segment: &Segment, index: &BlockIndex, facts: &Facts, work: &mut Work) -> Result<()> {
    let (question, rows) = (boxes.all(), facts.rows as f64);
    let nodes = segment.nodes()?;
    for (_, bits) in boxes.among(facts.cut.boxes) {
        for filter in Boxes::open_of(bits, facts.cut.open).map(|place| &question.filters[place]) {
            // A rung's block has rows of many blocks, so its codes are as wide as the segment's, nearly.
            codes(&filter.codes, nodes.whole(filter.level), rows, work);
        }
    }
    if !question.groups.is_empty() {
        let columns = 1 + question.groups.len() + question.measures.len();
        work.count(Kind::Sown, rows * facts.share * columns as f64);
        return Ok(());
    }
    for measure in &question.measures {
        let Some(place) = index.table.measures.iter().position(|(id, _)| *id == measure.column) else { continue };
        let wanted = Wanted { sum: true, squares: true, min_max: false };
        values(index.table.measures[place].1.encodings[facts.blocks.start], wanted, rows, facts.share, work);
    }
    Ok(())
}

/// How much of heavy rows is looked at below a node.
fn heavy_of(boxes: &Boxes, segment: &Arc<Segment>, index: &BlockIndex, facts: &Facts) -> Result<f64> {
    let question = boxes.all();
    let rows = segment.block_rows(facts.blocks.start).start..segment.block_rows(facts.blocks.end - 1).end;
    let columns = (1 + boxes.tested(&facts.cut)) as usize + question.groups.len();
    let mut heavy = 0;
    for measure in &question.measures {
        let Some(place) = index.table.measures.iter().position(|(id, _)| *id == measure.column) else { continue };
        heavy += heavy_rows(segment, place)?.places(rows.clone()).len() * columns;
    }
    Ok(heavy as f64)
}

/// Counts holding so many rows' codes against a set, as [`crate::answer::filter_codes`] does it.
fn codes(set: &CodeSet, bounds: CodeBounds, rows: f64, work: &mut Work) {
    let width = bounds.width();
    let is_looked_up = width < 4 || f64::from((bounds.max - bounds.base()) / 64) < rows;
    match width {
        0 => {}
        _ if set.runs().len() == 1 => work.count(Kind::Code, rows * width as f64),
        _ if set.has_bitmap() && is_looked_up => work.count(Kind::LookedUp, rows),
        _ => work.count(Kind::Singly, rows),
    }
}

/// Counts summing the values of those among so many rows that match.
fn values(encoding: Encoding, wanted: Wanted, rows: f64, share: f64, work: &mut Work) {
    let touched = rows * (WORD_ROWS * share).min(1.0);
    match encoding {
        Encoding::Integers { width: 0, .. } => return,
        Encoding::Integers { .. } => work.count(Kind::Integer, touched),
        Encoding::Floats => work.count(Kind::Float, touched),
        Encoding::Wide => work.count(Kind::Scattered, rows * share),
    }
    if wanted.squares || wanted.min_max {
        work.count(Kind::Square, touched);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_nodes_are_looked_at_evenly() {
        for nodes in (0..1_000).chain([100_000]) {
            let at = chosen(&vec![16; nodes]);
            assert!(at.len() <= LOOKS_MIN.max(nodes / ONE_IN).min(LOOKS_MAX), "{} of {nodes}", at.len());
            assert!(at.len() >= LOOKS_MIN.min(nodes));
            assert!(at.is_sorted_by(|a, b| a < b) && at.iter().all(|&at| at < nodes), "{at:?} of {nodes}");
            if let Some((first, last)) = at.first().zip(at.last()) {
                // As much is left before the first as behind the last.
                assert!(first.abs_diff(nodes - 1 - last) <= 1, "{at:?} of {nodes}");
            }
        }
    }

    #[test]
    fn large_nodes_are_looked_at_more_often() {
        let rows: Vec<u64> = (0..160).map(|node| if node < 150 { 16 } else { 256 }).collect();
        let at = chosen(&rows);
        // They have half of the rows.
        assert_eq!(at.len(), 10);
        assert_eq!(at.iter().filter(|&&node| node >= 150).count(), 5, "{at:?}");
    }

    #[test]
    fn what_need_not_be_read_costs_nothing() {
        let (range, list) = (CodeSet::of_range(3, 9), CodeSet::of_codes(vec![1, 5, 9]));
        let counted = |set: &CodeSet, at: usize| {
            let mut work = Work::default();
            // No byte of a code, one, two, four, and four whose bits are more than the rows.
            let max = [1, 200, 50_000, 70_000, 1 << 22][at];
            codes(set, CodeBounds { min: 1, max, has_null: false }, 1_100.0, &mut work);
            [Kind::Code, Kind::LookedUp, Kind::Singly].map(|kind| work.of(kind))
        };
        assert_eq!([0, 1, 2, 3].map(|at| counted(&range, at)[0]), [0.0, 1_100.0, 2_200.0, 4_400.0]);
        assert_eq!([0, 1, 2, 3].map(|at| counted(&list, at)[1]), [0.0, 1_100.0, 1_100.0, 1_100.0]);
        assert_eq!(counted(&list, 4), [0.0, 0.0, 1_100.0]);
        let summed = |encoding, share| {
            let mut work = Work::default();
            let wanted = Wanted { sum: true, ..Wanted::default() };
            values(encoding, wanted, 6_400.0, share, &mut work);
            [Kind::Integer, Kind::Float, Kind::Scattered, Kind::Square].map(|kind| work.of(kind))
        };
        let integers = |width| Encoding::Integers { base: 0, width, scale: 0 };
        assert_eq!(summed(integers(0), 1.0), [0.0; 4]);
        assert_eq!(summed(integers(2), 0.5), [6_400.0, 0.0, 0.0, 0.0]);
        assert_eq!(summed(Encoding::Floats, 0.001), [0.0, 6_400.0 * 0.064, 0.0, 0.0]);
        assert_eq!(summed(Encoding::Wide, 0.25), [0.0, 0.0, 1_600.0, 0.0]);
    }
}
