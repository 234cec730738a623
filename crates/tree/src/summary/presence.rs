//! Presence: the codes of a level that a block holds.
//!
//! Always whether it holds NULL, and the smallest and largest other code. Where these are less than [`SPAN_MAX`] apart,
//! also a bitmap from the smallest on: blocks are neighbourhoods in the curve's order, so the bitmap is short where the
//! level is coarse, and where it is fine the range alone says most of what can be said.

use super::table::LevelBounds;
use crate::packed::CodeBounds;
use arrow::array::{Array, BinaryArray, BinaryBuilder, BooleanArray, UInt32Array};

/// Codes that a bitmap spans at most.
const SPAN_MAX: usize = 4096;

/// Gathers one level's codes, a whole block at a time.
#[derive(Default)]
pub(crate) struct PresenceBuilder {
    mins: Vec<u32>,
    maxs: Vec<u32>,
    nulls: Vec<bool>,
    bits: BinaryBuilder,
    marks: Vec<u8>,
}

impl PresenceBuilder {
    /// Takes in a block, which is not empty.
    pub(crate) fn block(&mut self, codes: &[u32]) -> CodeBounds {
        let bounds = CodeBounds::of(codes);
        let CodeBounds { min, max, has_null } = bounds;
        self.mins.push(min);
        self.maxs.push(max);
        self.nulls.push(has_null);
        let span = (max - min) as usize + 1;
        if span > SPAN_MAX {
            self.bits.append_null();
            return bounds;
        }
        // A byte per code first: setting bits in place would chain every row to the one before. NULL, where it is
        // beside other codes, marks a place of its own at the end.
        self.marks.clear();
        self.marks.resize(span.next_multiple_of(8) + 1, 0);
        let last = self.marks.len() - 1;
        for &code in codes {
            self.marks[(code.wrapping_sub(min) as usize).min(last)] = 1;
        }
        let mut bitmap = [0u8; SPAN_MAX / 8];
        let bitmap = &mut bitmap[..last / 8];
        for (byte, marks) in bitmap.iter_mut().zip(self.marks[..last].chunks_exact(8)) {
            *byte = marks.iter().rev().fold(0, |byte, mark| byte << 1 | mark);
        }
        self.bits.append_value(bitmap);
        bounds
    }

    pub(crate) fn finish(mut self) -> LevelSummary {
        let bounds = LevelBounds {
            mins: UInt32Array::from(self.mins),
            maxs: UInt32Array::from(self.maxs),
            nulls: BooleanArray::from(self.nulls),
        };
        LevelSummary { bounds, bits: self.bits.finish() }
    }
}

/// The codes that each block holds at one level.
#[derive(Clone, Debug)]
pub struct LevelSummary {
    pub(crate) bounds: LevelBounds,
    pub(crate) bits: BinaryArray,
}

impl LevelSummary {
    /// Smallest and largest code of a block beside NULL's; both 0 if it holds nothing else.
    pub fn bounds(&self, block: usize) -> (u32, u32) {
        let bounds = self.bounds.code_bounds(block);
        (bounds.min, bounds.max)
    }

    /// Whether a block holds NULL, which is code 0.
    pub fn holds_null(&self, block: usize) -> bool {
        let bounds = self.bounds.code_bounds(block);
        bounds.has_null || bounds.min == 0
    }

    /// Whether a block may hold a row of this code. `false` is certain; `true` is certain where [`Self::is_exact`].
    pub fn may_contain(&self, block: usize, code: u32) -> bool {
        let (min, max) = self.bounds(block);
        match code {
            0 => self.holds_null(block),
            _ => (min..=max).contains(&code) && self.bit(block, (code - min) as usize),
        }
    }

    /// Whether the block's codes are known one by one.
    pub fn is_exact(&self, block: usize) -> bool {
        self.bits.is_valid(block)
    }

    /// For each block, whether it may hold a row of any of these codes, which ascend.
    pub fn blocks_with_any(&self, codes: &[u32]) -> Vec<bool> {
        let (null, codes) = match codes.split_first() {
            Some((0, others)) => (true, others),
            _ => (false, codes),
        };
        (0..self.bounds.mins.len())
            .map(|block| {
                let (min, max) = self.bounds(block);
                let within = &codes[codes.partition_point(|&code| code < min)..];
                let within = &within[..within.partition_point(|&code| code <= max)];
                null && self.holds_null(block) || within.iter().any(|&code| self.bit(block, (code - min) as usize))
            })
            .collect()
    }

    fn bit(&self, block: usize, at: usize) -> bool {
        !self.is_exact(block) || self.bits.value(block)[at / 8] >> (at % 8) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn presence_is_exact_or_a_range(
            base in 1u32..70_000,
            spans in prop::collection::vec(prop::sample::select(vec![1u32, 9, 300, 4096, 4097, 100_000]), 1..5),
            nulls in prop::sample::select(vec![0u32, 5, 1]),
            draws in prop::collection::vec(any::<u32>(), 1..60),
        ) {
            let mut builder = PresenceBuilder::default();
            let code = |draw: u32, span: u32| if nulls > 0 && draw.is_multiple_of(nulls) { 0 } else { base + draw % span };
            let blocks: Vec<Vec<u32>> =
                spans.iter().map(|&span| draws.iter().map(|&draw| code(draw, span)).collect()).collect();
            for block in &blocks {
                builder.block(block);
            }
            let summary = builder.finish();
            for (at, block) in blocks.iter().enumerate() {
                let set: BTreeSet<u32> = block.iter().copied().collect();
                let (min, max) = summary.bounds(at);
                prop_assert_eq!(summary.is_exact(at), max - min < 4096);
                prop_assert_eq!(summary.may_contain(at, 0), set.contains(&0));
                for code in min.saturating_sub(3).max(1)..=(max + 3).min(min + 5000) {
                    let expected = if summary.is_exact(at) { set.contains(&code) } else { (min..=max).contains(&code) };
                    prop_assert_eq!(summary.may_contain(at, code), expected);
                }
            }
            let wanted: BTreeSet<u32> = draws.iter().take(3).map(|&draw| code(draw / 3, 700)).collect();
            let wanted: Vec<u32> = wanted.into_iter().collect();
            let any: Vec<bool> =
                (0..blocks.len()).map(|at| wanted.iter().any(|&code| summary.may_contain(at, code))).collect();
            prop_assert_eq!(summary.blocks_with_any(&wanted), any);
        }
    }
}
