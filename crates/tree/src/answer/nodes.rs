//! The wide tree above a segment's blocks.
//!
//! Invariants:
//! - A node at height 0 is a block; above, a node is [`FANOUT`] consecutive nodes of the height below, or what is left of
//!   them at the end. Blocks are neighbourhoods in the curve's order, so nodes are, too.
//! - What a node states holds for every row below it: bounds of codes, NULLs, and where they are known all codes present.
//!
//! This is the directory of VOLAP's Hilbert PDC tree (Dehne, Robillard, Rau-Chaplin, Burke, IEEE Cluster 2016), packed instead of linked:
//! segments are immutable, so nodes are arrays, and a node's children are found by arithmetic.

use super::code_set::{CodeSet, Overlap};
use crate::side::CodeBounds;
use crate::summary::BlockSummaries;
use arrow::array::Array;

/// Children of a node.
pub(crate) const FANOUT: usize = 16;
/// Codes that a node's bitmap spans at most.
const SPAN_MAX: usize = 4096;

/// Codes of one level below the nodes of one height.
#[derive(Debug)]
struct NodeCodes {
    mins: Vec<u32>,
    maxs: Vec<u32>,
    nulls: Vec<bool>,
    /// From `mins` on; `None` where they span too much.
    present: Vec<Option<Vec<u8>>>,
}

/// The nodes of a segment, by height above the blocks and by level.
#[derive(Debug)]
pub(crate) struct NodeTree {
    heights: Vec<Vec<NodeCodes>>,
    blocks: usize,
}

impl NodeTree {
    /// The tree above a segment's blocks.
    pub(crate) fn new(summaries: &BlockSummaries) -> NodeTree {
        let blocks = summaries.blocks();
        let leaves = summaries.levels.iter().map(|level| {
            let bounds = (0..blocks).map(|block| level.bounds.code_bounds(block));
            NodeCodes {
                mins: bounds.clone().map(|bounds| bounds.min).collect(),
                maxs: bounds.clone().map(|bounds| bounds.max).collect(),
                nulls: bounds.map(|bounds| bounds.has_null).collect(),
                present: (0..blocks)
                    .map(|block| level.bits.is_valid(block).then(|| level.bits.value(block).to_vec()))
                    .collect(),
            }
        });
        let mut heights = vec![leaves.collect::<Vec<_>>()];
        let mut nodes = blocks;
        while nodes > 1 {
            let below = heights.last().expect("there are leaves");
            let above = below.iter().map(NodeCodes::above).collect();
            heights.push(above);
            nodes = nodes.div_ceil(FANOUT);
        }
        NodeTree { heights, blocks }
    }

    /// How many heights there are; the highest has one node.
    pub(crate) fn heights(&self) -> usize {
        self.heights.len()
    }

    /// How many nodes there are at a height.
    pub(crate) fn nodes(&self, height: usize) -> usize {
        self.blocks.div_ceil(FANOUT.pow(height as u32))
    }

    /// The blocks below a node.
    pub(crate) fn blocks_below(&self, height: usize, node: usize) -> std::ops::Range<usize> {
        let size = FANOUT.pow(height as u32);
        node * size..((node + 1) * size).min(self.blocks)
    }

    /// How the rows below a node lie to a set of codes of a level.
    pub(crate) fn overlap(&self, height: usize, node: usize, level: usize, set: &CodeSet) -> Overlap {
        let codes = &self.heights[height][level];
        set.overlap(codes.mins[node], codes.maxs[node], codes.nulls[node], codes.present[node].as_deref())
    }

    /// The least and the greatest code below a node at a level, and whether there is NULL beside them; both 0 for NULL alone.
    pub(crate) fn bounds(&self, height: usize, node: usize, level: usize) -> (u32, u32, bool) {
        let codes = &self.heights[height][level];
        (codes.mins[node], codes.maxs[node], codes.nulls[node])
    }

    /// Bounds of a level's codes in a block whose codes are as different as those of the whole segment.
    pub(crate) fn whole(&self, level: usize) -> CodeBounds {
        match self.heights.last().filter(|_| self.blocks > 0).map(|top| &top[level]) {
            Some(codes) => CodeBounds { min: codes.mins[0], max: codes.maxs[0], has_null: codes.nulls[0] },
            None => CodeBounds { min: 0, max: 0, has_null: false },
        }
    }

    /// The share of a node's codes beside NULL at a level that are in a set, as if rows were spread evenly over codes.
    pub(crate) fn share(&self, height: usize, node: usize, level: usize, set: &CodeSet) -> f64 {
        let codes = &self.heights[height][level];
        set.share(codes.mins[node], codes.maxs[node], codes.present[node].as_deref())
    }

    /// The codes that a node's rows have at a level, NULL included; `None` where they span too much to be known.
    pub(crate) fn codes_of(&self, height: usize, node: usize, level: usize) -> Option<Vec<u32>> {
        let codes = &self.heights[height][level];
        let (min, max) = (codes.mins[node], codes.maxs[node]);
        let mut present = Vec::new();
        if codes.nulls[node] || min == 0 {
            present.push(0);
        }
        match &codes.present[node] {
            _ if min == 0 => {}
            _ if min == max => present.push(min),
            Some(bits) => {
                for (at, &byte) in bits.iter().enumerate() {
                    let set = (0..8u32).filter(|bit| byte >> bit & 1 == 1);
                    present.extend(set.map(|bit| min + 8 * at as u32 + bit));
                }
            }
            None => return None,
        }
        Some(present)
    }

    /// Bytes in memory, about.
    pub(crate) fn bytes(&self) -> u64 {
        let level = |codes: &NodeCodes| {
            let present: usize = codes.present.iter().flatten().map(Vec::len).sum();
            present + codes.mins.len() * (4 + 4 + 1 + 24)
        };
        self.heights.iter().flatten().map(level).sum::<usize>() as u64
    }
}

impl NodeCodes {
    /// The nodes one height up.
    fn above(&self) -> NodeCodes {
        let mut above = NodeCodes { mins: Vec::new(), maxs: Vec::new(), nulls: Vec::new(), present: Vec::new() };
        for first in (0..self.mins.len()).step_by(FANOUT) {
            let children = first..(first + FANOUT).min(self.mins.len());
            // Bounds of 0 mean NULL alone.
            let known = children.clone().filter(|&child| self.mins[child] > 0);
            let min = known.clone().map(|child| self.mins[child]).min().unwrap_or(0);
            let max = known.clone().map(|child| self.maxs[child]).max().unwrap_or(0);
            let has_null = children.clone().any(|child| self.nulls[child] || self.mins[child] == 0);
            above.mins.push(min);
            above.maxs.push(max);
            above.nulls.push(has_null && max > 0);
            above.present.push(self.union(known, min, max));
        }
        above
    }

    fn union(&self, children: impl Iterator<Item = usize>, min: u32, max: u32) -> Option<Vec<u8>> {
        let span = (max - min) as usize;
        if span >= SPAN_MAX {
            return None;
        }
        let mut bits = vec![0u8; span / 8 + 1];
        for child in children {
            let from = (self.mins[child] - min) as usize;
            let (place, shift) = (from / 8, from % 8);
            for (at, &byte) in self.present[child].as_ref()?.iter().enumerate() {
                bits[place + at] |= byte << shift;
                let over = u16::from(byte) << shift >> 8;
                if over > 0 {
                    bits[place + at + 1] |= over as u8;
                }
            }
        }
        Some(bits)
    }
}
