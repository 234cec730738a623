//! The first walk of an estimate: how far segments are walked before anything is known of the cost of reading them.
//!
//! Invariants:
//! - Every block that is cut lies below exactly one of the nodes that come out, and what is not below them was answered
//!   by summaries.
//! - Groups and visible versions are told apart by block: then nodes are blocks.
//! - Which nodes are looked into depends on the question and the segments alone, so an answer that is asked for again
//!   is the same.
//!
//! What a node costs, to be walked to, looked at and made a stratum of, does not fall with the rows that are drawn of
//! it: over a hundred million rows 763 nodes of 16 blocks cost as much as drawing a million rows. Where most of what
//! lies below larger nodes is cut anyhow, as by scattered sets of members, these say as much. So some of them are
//! looked into, and all of them if that spares enough.

use super::SampleRequest;
use crate::answer::{Answer, CutNode};
use crate::nodes::FANOUT;
use crate::visible::{Laddered, Versions};
use alluvia_types::Result;

/// Nodes that all segments have together at the height that is walked to before any is looked into, at least: so many
/// strata are worth having. What the question excludes of them counts, too, so there may be fewer that are cut.
pub const STRATA_MIN: usize = 64;

/// Of so many nodes one is looked into to see what that spares.
const PROBE_ONE_IN: usize = 12;
/// At least so many are.
const PROBES_MIN: usize = 2;
/// Of nodes of whose blocks at most this share lies below what is cut a height lower, all are looked into.
const WORTH_IT: f64 = 0.8;

/// Answers what summaries can; the nodes that are cut, by segment and block.
pub(super) fn walk_all(asked: &SampleRequest<'_>, segments: &[Laddered], into: &mut Answer) -> Result<Vec<CutNode>> {
    let highest = height_with_enough(asked, segments)?;
    let mut cut = Vec::new();
    for (at, rows) in segments.iter().enumerate() {
        asked.boxes.walk(at, rows, stop_height(asked, rows, highest)?, into, &mut cut)?;
    }
    for height in (2..=highest).rev() {
        cut = descend(asked, segments, height, cut, into)?;
    }
    let place = |node: &CutNode| (node.segment, node.node * FANOUT.pow(node.height as u32));
    cut.sort_unstable_by_key(place);
    Ok(cut)
}

/// Whether nodes above blocks may stand for what is below them.
fn may_stop(asked: &SampleRequest<'_>, rows: &Laddered) -> bool {
    asked.shape().groups.is_empty() && rows.bounds() == Versions::ALL && !rows.rungs().is_empty()
}

/// The greatest height at which segments have enough nodes; 0 if there is none above blocks.
fn height_with_enough(asked: &SampleRequest<'_>, segments: &[Laddered]) -> Result<usize> {
    let large = segments.iter().filter(|rows| rows.segment.blocks() > 0 && may_stop(asked, rows));
    let trees = large.map(|rows| rows.segment.nodes()).collect::<Result<Vec<_>>>()?;
    let heights = trees.iter().map(|tree| tree.heights()).max().unwrap_or(0);
    let nodes_at = |height: usize| trees.iter().map(|tree| tree.nodes(height.min(tree.heights() - 1))).sum::<usize>();
    Ok((1..heights).rev().find(|&height| nodes_at(height) >= asked.strata_min).unwrap_or(0))
}

/// The height that a segment is walked to at first: blocks only where they must be told apart, or where all segments
/// have few.
fn stop_height(asked: &SampleRequest<'_>, rows: &Laddered, highest: usize) -> Result<usize> {
    let blocks = rows.segment.blocks();
    if blocks == 0 || !may_stop(asked, rows) {
        return Ok(0);
    }
    let top = rows.segment.nodes()?.heights() - 1;
    Ok(highest.max(usize::from(blocks > FANOUT)).min(top))
}

/// Looks into some of the nodes of a height, and into all where that spares enough; nodes of other heights stay.
fn descend(
    asked: &SampleRequest<'_>,
    segments: &[Laddered],
    height: usize,
    nodes: Vec<CutNode>,
    into: &mut Answer,
) -> Result<Vec<CutNode>> {
    let (nodes, mut found): (Vec<CutNode>, Vec<CutNode>) = nodes.into_iter().partition(|node| node.height == height);
    let every = nodes.len() / (nodes.len() / PROBE_ONE_IN).max(PROBES_MIN).clamp(1, nodes.len().max(1));
    let (mut probed, mut others) = (Vec::new(), Vec::new());
    for (at, node) in nodes.into_iter().enumerate() {
        if at % every == every / 2 { &mut probed } else { &mut others }.push(node);
    }
    let mut below = Vec::new();
    for &node in &probed {
        asked.boxes.walk_below(&segments[node.segment], node, height - 1, into, &mut below)?;
    }
    if blocks_below(segments, &below)? as f64 <= WORTH_IT * blocks_below(segments, &probed)? as f64 {
        for node in others.drain(..) {
            asked.boxes.walk_below(&segments[node.segment], node, height - 1, into, &mut below)?;
        }
    }
    found.append(&mut below);
    found.append(&mut others);
    Ok(found)
}

fn blocks_below(segments: &[Laddered], nodes: &[CutNode]) -> Result<usize> {
    let mut blocks = 0;
    for node in nodes {
        blocks += segments[node.segment].segment.nodes()?.blocks_below(node.height, node.node).len();
    }
    Ok(blocks)
}
