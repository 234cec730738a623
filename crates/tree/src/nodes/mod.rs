//! The wide tree above a segment's blocks, and the sets of codes that walks lay over its nodes.
//!
//! Invariants:
//! - A node at height 0 is a block; above, a node is [`FANOUT`] consecutive nodes of the height below, or what is left
//!   of them at the end. Blocks are neighbourhoods in the curve's order, so nodes are, too.
//! - What a node states holds for every row below it: bounds of codes, NULLs, and where they are known all codes
//!   present.
//!
//! This is the directory of VOLAP's Hilbert PDC tree (Dehne, Robillard, Rau-Chaplin, Burke, IEEE Cluster 2016), packed
//! instead of linked: segments are immutable, so nodes are arrays, and a node's children are found by arithmetic.

mod code_set;

pub use code_set::CodeSet;
pub(crate) use code_set::Overlap;

use crate::packed::CodeBounds;
use crate::summary::BlockSummaries;
use arrow::array::Array;
use code_set::words_of;

/// Children of a node.
pub(crate) const FANOUT: usize = 16;
/// Codes that a node's bitmap spans at most.
const SPAN_MAX: usize = 4096;
/// Words that such a span may touch.
const WORDS_MAX: usize = SPAN_MAX / 64 + 1;

/// What is known of a level's codes below one node.
#[derive(Clone, Copy, Debug)]
struct NodeCodes {
    /// The least and the greatest beside NULL; both 0 where there is nothing else.
    min: u32,
    max: u32,
    /// Where its words begin among those of its height and level.
    at: u32,
    /// How many codes there are beside NULL, where they are known.
    codes: u16,
    /// How many words it has; none where its codes span too much to be known.
    words: u8,
    has_null: bool,
}

/// Codes of one level below the nodes of one height.
#[derive(Debug, Default)]
struct LevelCodes {
    nodes: Vec<NodeCodes>,
    /// Of each node the bits of its codes, from the multiple of 64 before its least one on: a walk lays them over those
    /// of a set, which begin at such a code, too. Behind one another, since neighbours are asked one after the other.
    words: Vec<u64>,
}

/// The nodes of a segment, by height above the blocks and by level.
#[derive(Debug)]
pub(crate) struct NodeTree {
    heights: Vec<Vec<LevelCodes>>,
    blocks: usize,
}

impl NodeTree {
    /// The tree above a segment's blocks.
    pub(crate) fn new(summaries: &BlockSummaries) -> NodeTree {
        let blocks = summaries.blocks();
        let leaves = summaries.levels.iter().map(|level| {
            let mut codes = LevelCodes::default();
            for block in 0..blocks {
                let bits = level.bits.is_valid(block).then(|| level.bits.value(block));
                codes.push_leaf(level.bounds.code_bounds(block), bits);
            }
            codes
        });
        let mut heights = vec![leaves.collect::<Vec<_>>()];
        let mut nodes = blocks;
        while nodes > 1 {
            let below = heights.last().expect("there are leaves");
            let above = below.iter().map(LevelCodes::above).collect();
            heights.push(above);
            nodes = nodes.div_ceil(FANOUT);
        }
        heights.iter_mut().flatten().for_each(|level: &mut LevelCodes| level.words.shrink_to_fit());
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
    #[inline]
    pub(crate) fn overlap(&self, height: usize, node: usize, level: usize, set: &CodeSet) -> Overlap {
        let (codes, present) = self.heights[height][level].of(node);
        set.overlap(codes.min, codes.max, codes.has_null, present)
    }

    /// The least and the greatest code below a node at a level, and whether there is NULL beside them; both 0 for NULL
    /// alone.
    pub(crate) fn bounds(&self, height: usize, node: usize, level: usize) -> (u32, u32, bool) {
        let codes = self.heights[height][level].nodes[node];
        (codes.min, codes.max, codes.has_null)
    }

    /// Bounds of a level's codes in a block whose codes are as different as those of the whole segment.
    pub(crate) fn whole(&self, level: usize) -> CodeBounds {
        match self.heights.last().filter(|_| self.blocks > 0).map(|top| &top[level]) {
            Some(codes) => {
                let NodeCodes { min, max, has_null, .. } = codes.nodes[0];
                CodeBounds { min, max, has_null }
            }
            None => CodeBounds { min: 0, max: 0, has_null: false },
        }
    }

    /// The share of a node's codes beside NULL at a level that are in a set, as if rows were spread evenly over codes.
    pub(crate) fn share(&self, height: usize, node: usize, level: usize, set: &CodeSet) -> f64 {
        let (codes, present) = self.heights[height][level].of(node);
        set.share(codes.min, codes.max, present.map(|words| (words, u32::from(codes.codes))))
    }

    /// The codes that a node's rows have at a level, NULL included; `None` where they span too much to be known.
    pub(crate) fn codes_of(&self, height: usize, node: usize, level: usize) -> Option<Vec<u32>> {
        let (NodeCodes { min, max, has_null, .. }, words) = self.heights[height][level].of(node);
        let mut present = Vec::new();
        if has_null || min == 0 {
            present.push(0);
        }
        match words {
            _ if min == 0 => {}
            _ if min == max => present.push(min),
            Some(words) => {
                for (at, &word) in words.iter().enumerate() {
                    let first = first_of(min) + 64 * at as u32;
                    present.extend((0..64).filter(|bit| word >> bit & 1 == 1).map(|bit| first + bit));
                }
            }
            None => return None,
        }
        Some(present)
    }

    /// Bytes in memory, about.
    pub(crate) fn bytes(&self) -> u64 {
        let level = |codes: &LevelCodes| size_of_val(codes.nodes.as_slice()) + size_of_val(codes.words.as_slice());
        self.heights.iter().flatten().map(level).sum::<usize>() as u64
    }
}

/// The code that the first of a node's words begins with.
fn first_of(min: u32) -> u32 {
    min / 64 * 64
}

impl LevelCodes {
    /// What is known of a node, and its words, if its codes are known one by one.
    #[inline]
    fn of(&self, node: usize) -> (NodeCodes, Option<&[u64]>) {
        let codes = self.nodes[node];
        let at = codes.at as usize;
        (codes, (codes.words > 0).then(|| &self.words[at..at + usize::from(codes.words)]))
    }

    /// Adds a node; the words returned, none unless its codes are known one by one, are to get their bits.
    fn push(&mut self, CodeBounds { min, max, has_null }: CodeBounds, is_known: bool) -> &mut [u64] {
        let at = self.words.len();
        let words = (max / 64 - min / 64 + 1) as usize;
        let is_known = is_known && min > 0 && words <= WORDS_MAX && u32::try_from(at).is_ok();
        let words = if is_known { words } else { 0 };
        self.words.resize(at + words, 0);
        self.nodes.push(NodeCodes { min, max, at: at as u32, codes: 0, words: words as u8, has_null });
        &mut self.words[at..]
    }

    /// Counts the codes of the node that was added last.
    fn count(&mut self) {
        let Some(last) = self.nodes.last_mut() else { return };
        last.codes = self.words[last.at as usize..].iter().map(|word| word.count_ones() as u16).sum();
    }

    /// Adds a block whose codes have these bits from the least one on, if they are known.
    fn push_leaf(&mut self, bounds: CodeBounds, bits: Option<&[u8]>) {
        let words = self.push(bounds, bits.is_some());
        let shift = bounds.min % 64;
        for (at, bits) in words_of(bits.unwrap_or_default()).enumerate().take(words.len()) {
            words[at] |= bits << shift;
            if let (Some(next), 1..) = (words.get_mut(at + 1), shift) {
                *next |= bits >> (64 - shift);
            }
        }
        self.count();
    }

    /// The nodes one height up.
    fn above(&self) -> LevelCodes {
        let mut above = LevelCodes::default();
        for children in self.nodes.chunks(FANOUT) {
            // Bounds of 0 mean NULL alone.
            let known = || children.iter().filter(|child| child.min > 0);
            let min = known().map(|child| child.min).min().unwrap_or(0);
            let max = known().map(|child| child.max).max().unwrap_or(0);
            let has_null = max > 0 && children.iter().any(|child| child.has_null || child.min == 0);
            let is_known = ((max - min) as usize) < SPAN_MAX && known().all(|child| child.words > 0);
            let words = above.push(CodeBounds { min, max, has_null }, is_known);
            if !words.is_empty() {
                for child in known() {
                    let own = &self.words[child.at as usize..][..usize::from(child.words)];
                    let to = &mut words[(child.min / 64 - min / 64) as usize..];
                    to.iter_mut().zip(own).for_each(|(to, own)| *to |= own);
                }
            }
            above.count();
        }
        above
    }
}
