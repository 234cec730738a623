//! How far segments are walked before anything is known of what reading them takes.
//!
//! Invariants:
//! - Every block that is cut lies below exactly one of the nodes that come out, and what is not below them was answered by summaries.
//! - Groups and visible versions are told apart by block: then nodes are blocks.
//! - Which nodes are looked into depends on the question and the segment alone, so an answer that is asked for again is the same.
//!
//! What a node costs, to be walked to, looked at and made a stratum of, does not fall with the rows that are drawn of it: of a segment of a
//! hundred million rows 763 nodes of 16 blocks cost as much as drawing a million rows. Where most of what lies below larger nodes is cut
//! anyhow, as by scattered sets of members, these say as much. So some of them are looked into, and all of them if that spares enough.

use super::Asked;
use crate::answer::{Answer, CutNode, FANOUT, SegmentRows};
use alluvia_types::Result;

/// Nodes of a segment that are looked at before any is looked into, at least: so many strata are worth having.
pub const NODES_MIN: usize = 32;

/// Of so many nodes one is looked into to see what that spares.
const PROBE_ONE_IN: usize = 8;
/// At least so many are.
const PROBES_MIN: usize = 2;
/// Of nodes of whose blocks at most this share lies below what is cut a height lower, all are looked into.
const WORTH_IT: f64 = 0.8;

/// Answers what summaries can; the nodes that are cut.
pub(super) fn walk_all(asked: &Asked<'_>, segments: &[SegmentRows], into: &mut Answer) -> Result<Vec<CutNode>> {
    let mut cut = Vec::new();
    for (at, rows) in segments.iter().enumerate() {
        let stop = stop_height(asked, rows)?;
        let mut nodes = Vec::new();
        asked.boxes.walk(at, rows, stop, into, &mut nodes)?;
        let mut coarse = Vec::new();
        for height in (2..=stop).rev() {
            nodes = descend(asked, rows, height, nodes, into, &mut coarse)?;
        }
        let first = cut.len();
        cut.append(&mut coarse);
        cut.append(&mut nodes);
        cut[first..].sort_unstable_by_key(first_block);
    }
    Ok(cut)
}

/// The height that a segment is walked to at first: blocks only where they must be told apart, and higher than nodes of blocks where there
/// are enough of those.
fn stop_height(asked: &Asked<'_>, rows: &SegmentRows) -> Result<usize> {
    let is_large = rows.segment.blocks() > FANOUT;
    let may_stop = asked.shape().groups.is_empty() && rows.is_whole() && !rows.segment.rungs().is_empty();
    if !is_large || !may_stop {
        return Ok(0);
    }
    let nodes = rows.segment.nodes()?;
    Ok((2..nodes.heights()).take_while(|&height| nodes.nodes(height) >= asked.nodes_min).last().unwrap_or(1))
}

fn first_block(node: &CutNode) -> usize {
    node.node * FANOUT.pow(node.height as u32)
}

/// Looks into some of the nodes of a height, and into all where that spares enough. What is cut a height lower is returned; nodes that were
/// not looked into are added to `coarse`.
fn descend(
    asked: &Asked<'_>,
    rows: &SegmentRows,
    height: usize,
    nodes: Vec<CutNode>,
    into: &mut Answer,
    coarse: &mut Vec<CutNode>,
) -> Result<Vec<CutNode>> {
    let tree = rows.segment.nodes()?;
    let blocks =
        |nodes: &[CutNode]| nodes.iter().map(|node| tree.blocks_below(node.height, node.node).len()).sum::<usize>();
    let every = nodes.len() / (nodes.len() / PROBE_ONE_IN).max(PROBES_MIN).min(nodes.len()).max(1);
    let (mut probed, mut others) = (Vec::new(), Vec::new());
    for (at, node) in nodes.into_iter().enumerate() {
        if at % every == every / 2 { &mut probed } else { &mut others }.push(node);
    }
    let mut below = Vec::new();
    for node in &probed {
        asked.boxes.walk_below(rows, *node, height - 1, into, &mut below)?;
    }
    if blocks(&below) as f64 > WORTH_IT * blocks(&probed) as f64 {
        coarse.append(&mut others);
    }
    for node in others {
        asked.boxes.walk_below(rows, node, height - 1, into, &mut below)?;
    }
    Ok(below)
}
