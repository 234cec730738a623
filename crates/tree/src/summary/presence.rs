//! Which codes of a level a block holds.
//!
//! Always the smallest and largest code. Where they are less than [`SPAN_MAX`] apart, also a bitmap from the smallest on:
//! blocks are neighbourhoods in the curve's order, so the bitmap is short where the level is coarse, and where it is fine
//! the range alone says most of what can be said.

use arrow::array::{Array, ArrayRef, BinaryArray, BinaryBuilder, UInt32Array};
use std::sync::Arc;

/// Codes that a bitmap spans at most.
const SPAN_MAX: usize = 4096;

/// Gathers one level's codes, a whole block at a time.
#[derive(Default)]
pub(crate) struct PresenceBuilder {
    mins: Vec<u32>,
    maxs: Vec<u32>,
    bits: BinaryBuilder,
    marks: Vec<u8>,
}

impl PresenceBuilder {
    /// Takes in a block and returns its smallest and largest code. A block is never empty.
    pub(crate) fn block(&mut self, codes: &[u32]) -> (u32, u32) {
        let (min, max) = codes.iter().fold((u32::MAX, 0), |(min, max), &code| (min.min(code), max.max(code)));
        self.mins.push(min);
        self.maxs.push(max);
        let span = (max - min) as usize + 1;
        if span > SPAN_MAX {
            self.bits.append_null();
            return (min, max);
        }
        // A byte per code first: setting bits in place would chain every row to the one before.
        self.marks.clear();
        self.marks.resize(span.next_multiple_of(8), 0);
        for &code in codes {
            self.marks[(code - min) as usize] = 1;
        }
        let mut bitmap = [0u8; SPAN_MAX / 8];
        let bitmap = &mut bitmap[..self.marks.len() / 8];
        for (byte, marks) in bitmap.iter_mut().zip(self.marks.chunks_exact(8)) {
            *byte = marks.iter().rev().fold(0, |byte, mark| byte << 1 | mark);
        }
        self.bits.append_value(bitmap);
        (min, max)
    }

    /// Smallest codes, largest codes, bitmaps; one entry per block.
    pub(crate) fn finish(&mut self) -> (ArrayRef, ArrayRef, ArrayRef) {
        let (mins, maxs) = (std::mem::take(&mut self.mins), std::mem::take(&mut self.maxs));
        (Arc::new(UInt32Array::from(mins)), Arc::new(UInt32Array::from(maxs)), Arc::new(self.bits.finish()))
    }
}

/// The codes that each block holds at one level.
#[derive(Clone, Debug)]
pub struct LevelSummary {
    pub(crate) mins: UInt32Array,
    pub(crate) maxs: UInt32Array,
    pub(crate) bits: BinaryArray,
}

impl LevelSummary {
    /// Smallest and largest code of a block.
    pub fn bounds(&self, block: usize) -> (u32, u32) {
        (self.mins.value(block), self.maxs.value(block))
    }

    /// Whether a block may hold a row of this code. `false` is certain; `true` is certain only where [`Self::is_exact`].
    pub fn may_contain(&self, block: usize, code: u32) -> bool {
        let (min, max) = self.bounds(block);
        (min..=max).contains(&code) && self.bit(block, (code - min) as usize)
    }

    /// Whether the block's codes are known one by one.
    pub fn is_exact(&self, block: usize) -> bool {
        self.bits.is_valid(block)
    }

    /// For each block, whether it may hold a row of any of these codes, which ascend.
    pub fn blocks_with_any(&self, codes: &[u32]) -> Vec<bool> {
        (0..self.mins.len())
            .map(|block| {
                let (min, max) = self.bounds(block);
                let within = &codes[codes.partition_point(|&code| code < min)..];
                let within = &within[..within.partition_point(|&code| code <= max)];
                within.iter().any(|&code| self.bit(block, (code - min) as usize))
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
    use arrow::array::AsArray;
    use arrow::datatypes::UInt32Type;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn presence_is_exact_or_a_range(
            base: u16,
            spans in prop::collection::vec(prop::sample::select(vec![1u32, 9, 300, 4096, 4097, 100_000]), 1..5),
            draws in prop::collection::vec(any::<u32>(), 1..60),
        ) {
            let mut builder = PresenceBuilder::default();
            let blocks: Vec<Vec<u32>> = spans
                .iter()
                .map(|span| draws.iter().map(|draw| u32::from(base) + draw % span).collect())
                .collect();
            for block in &blocks {
                let bounds = builder.block(block);
                prop_assert_eq!(bounds, (*block.iter().min().unwrap(), *block.iter().max().unwrap()));
            }
            let (mins, maxs, bits) = builder.finish();
            let summary = LevelSummary {
                mins: mins.as_primitive::<UInt32Type>().clone(),
                maxs: maxs.as_primitive::<UInt32Type>().clone(),
                bits: bits.as_binary::<i32>().clone(),
            };
            for (at, block) in blocks.iter().enumerate() {
                let set: BTreeSet<u32> = block.iter().copied().collect();
                let (min, max) = summary.bounds(at);
                prop_assert_eq!(summary.is_exact(at), max - min < 4096);
                for code in min.saturating_sub(3)..=(max + 3).min(min + 5000) {
                    let expected = if summary.is_exact(at) { set.contains(&code) } else { (min..=max).contains(&code) };
                    prop_assert_eq!(summary.may_contain(at, code), expected);
                }
            }
            let wanted: BTreeSet<u32> = draws.iter().take(3).map(|draw| u32::from(base) + draw % 700).collect();
            let wanted: Vec<u32> = wanted.into_iter().collect();
            let any: Vec<bool> =
                (0..blocks.len()).map(|at| wanted.iter().any(|&code| summary.may_contain(at, code))).collect();
            prop_assert_eq!(summary.blocks_with_any(&wanted), any);
        }
    }
}
