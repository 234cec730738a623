//! The walk of the tree: disjoint, covered and cut nodes; covered nodes are added by their summaries.

use super::question::{BoxQuery, TESTS_MAX};
use super::segments::{Answer, CutBlock};
use super::totals::Totals;
use crate::nodes::{FANOUT, NodeTree, Overlap};
use crate::segment::{BlockIndex, Segment};
use crate::visible::{SegmentRows, Versions};
use alluvia_types::{Result, planted};
use arrow::array::{Array, AsArray};
use arrow::datatypes::{Decimal256Type, Float64Type, UInt32Type, UInt64Type};
use std::sync::Arc;

/// Answers what summaries can, and lists the blocks that are cut.
pub(crate) fn walk(
    query: &BoxQuery,
    at: usize,
    rows: &SegmentRows,
    into: &mut Answer,
    cut: &mut Vec<CutBlock>,
) -> Result<()> {
    if rows.segment.blocks() == 0 {
        return Ok(());
    }
    let (covered, before) = (into.counters.covered, cut.len());
    let top = rows.segment.nodes()?.heights() - 1;
    walk_below(query, at, rows, (top, 0, all_tests(query)), into, cut)?;
    if into.counters.covered == covered && cut.len() == before {
        into.counters.segments_skipped += 1;
    } else {
        into.counters.segments += 1;
    }
    Ok(())
}

/// A bit for each filter and each range of times.
pub(super) fn all_tests(query: &BoxQuery) -> u64 {
    match query.tests() {
        0 => 0,
        tests => u64::MAX >> (TESTS_MAX - tests),
    }
}

/// The same of what lies below a node: its height, its number, and the tests that not all its rows are known to pass.
/// Blocks with dead rows are cut, whatever covers them, and nodes above them are looked into.
pub(crate) fn walk_below(
    query: &BoxQuery,
    at: usize,
    rows: &SegmentRows,
    start: (usize, usize, u64),
    into: &mut Answer,
    cut: &mut Vec<CutBlock>,
) -> Result<()> {
    let (segment, versions) = (&rows.segment, rows.bounds());
    let is_whole_segment = versions == Versions::ALL;
    let nodes = segment.nodes()?;
    let index = segment.index()?;
    let mut stack = vec![start];
    'nodes: while let Some((height, node, above)) = stack.pop() {
        // Tests that are not covered yet.
        let mut open = above;
        for (place, filter) in query.filters.iter().enumerate().filter(|(place, _)| above >> place & 1 == 1) {
            match nodes.overlap(height, node, filter.level, &filter.codes) {
                Overlap::Disjoint => {
                    into.counters.disjoint += 1;
                    into.counters.blocks_skipped += nodes.blocks_below(height, node).len() as u64;
                    continue 'nodes;
                }
                Overlap::Covered => open &= !(1 << place),
                Overlap::Cut => {}
            }
        }
        for (place, range) in (query.filters.len()..).zip(&query.times).filter(|(place, _)| above >> place & 1 == 1) {
            if range.covers(&nodes, &index, (height, node)) {
                open &= !(1 << place);
            }
        }
        let mut cut_at = Versions::ALL;
        if !is_whole_segment && height == 0 {
            match visible(segment, &index, node, versions) {
                Overlap::Disjoint => {
                    into.counters.disjoint += 1;
                    into.counters.blocks_skipped += 1;
                    continue;
                }
                Overlap::Covered => {}
                Overlap::Cut => cut_at = versions,
            }
        }
        let has_dead = rows.dead.as_ref().is_some_and(|dead| dead.any_below(height, node));
        if has_dead && height == 0 && rows.is_block_dead(node) {
            into.counters.disjoint += 1;
            into.counters.blocks_skipped += 1;
            continue;
        }
        let is_masked = !has_dead || planted("dead rows in a summary");
        let is_whole = open == 0 && is_masked && cut_at == Versions::ALL && (is_whole_segment || height == 0);
        if is_whole && add_covered(query, segment, &index, &nodes, (height, node), into) {
            continue;
        }
        if height == 0 {
            cut.push(CutBlock { segment: at, block: node, open, versions: cut_at });
        } else {
            let children = node * FANOUT..((node + 1) * FANOUT).min(nodes.nodes(height - 1));
            stack.extend(children.rev().map(|child| (height - 1, child, open)));
        }
    }
    Ok(())
}

/// Adds a node all of whose rows match by its summaries, if these tell of which group they are.
pub(super) fn add_covered(
    query: &BoxQuery,
    segment: &Segment,
    index: &BlockIndex,
    nodes: &NodeTree,
    (height, node): (usize, usize),
    into: &mut Answer,
) -> bool {
    let codes = query.groups.iter().map(|&level| nodes.bounds(height, node, level));
    let Some(group) = into.keys.only_index(codes) else { return false };
    let group = into.group(group);
    for block in nodes.blocks_below(height, node) {
        add_summary(query, segment, index, block, group, &mut into.totals);
    }
    into.counters.covered += 1;
    true
}

/// How a block's rows lie to these versions.
pub(super) fn visible(segment: &Segment, index: &BlockIndex, block: usize, wanted: Versions) -> Overlap {
    if let Some(version) = segment.meta().fixed_version {
        return if wanted.contains(version.0) { Overlap::Covered } else { Overlap::Disjoint };
    }
    let versions = &index.table.versions;
    let at = |array: &Arc<dyn Array>| {
        array.as_primitive_opt::<UInt64Type>().filter(|array| array.is_valid(block)).map(|array| array.value(block))
    };
    match (at(&versions.mins), at(&versions.maxs)) {
        (Some(min), Some(max)) if min > wanted.through || max <= wanted.above => Overlap::Disjoint,
        (Some(min), Some(max)) if min > wanted.above && max <= wanted.through => Overlap::Covered,
        _ => Overlap::Cut,
    }
}

/// Adds a whole block by its summary.
fn add_summary(
    query: &BoxQuery,
    segment: &Segment,
    index: &BlockIndex,
    block: usize,
    group: usize,
    totals: &mut Totals,
) {
    let rows = segment.block_rows(block);
    totals.add_rows(group, rows.end - rows.start);
    for (at, measure) in query.measures.iter().enumerate() {
        let Some((_, summary)) = index.table.measures.iter().find(|(id, _)| *id == measure.column) else { continue };
        let mut count = u64::from(summary.counts.as_primitive::<UInt32Type>().value(block));
        if planted("NULL counted") {
            count = rows.end - rows.start;
        }
        if let Some(floats) = &summary.floats {
            let float = |array: &Arc<dyn Array>| {
                let array = array.as_primitive::<Float64Type>();
                if array.is_valid(block) { array.value(block) } else { 0.0 }
            };
            if summary.is_special(block) {
                totals.spoil();
            }
            let sum = (float(&summary.sums), float(&floats.sum_rests));
            let bounds = (float(&floats.mins), float(&floats.maxs));
            totals.add_float_summary(at, group, count, sum, float(&summary.squares), bounds);
        } else {
            let wide = |array: &Arc<dyn Array>| {
                let array = array.as_primitive::<Decimal256Type>();
                array.is_valid(block).then(|| array.value(block).to_i128()).flatten()
            };
            let bounds = measure.wanted.min_max.then(|| index.table.exact_bounds(measure.column, block)).flatten();
            totals.add_exact_summary(at, group, count, wide(&summary.sums), wide(&summary.squares), bounds);
        }
    }
}
