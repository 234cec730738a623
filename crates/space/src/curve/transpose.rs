//! From coordinates by axis to words by level: bit a of word i is bit i of coordinate a.
//!
//! Eight axes at a time are turned as 8x8 bit matrices (Warren, Hacker's Delight, section 7-3), one for each byte of a
//! coordinate.

/// Scratch space for one point's words.
pub(super) struct LevelWords {
    words: Vec<u64>,
    levels: usize,
}

impl LevelWords {
    pub(super) fn new(axes: usize, levels: usize) -> LevelWords {
        debug_assert!(axes <= 64);
        // Whole bytes are turned, so there is room for a whole last byte.
        LevelWords { words: vec![0; levels.next_multiple_of(8)], levels }
    }

    /// The words of point `at`, finest level first.
    #[inline]
    pub(super) fn of(&mut self, axes: &[&[u32]], at: usize) -> &[u64] {
        for (group, axes) in axes.chunks(8).enumerate() {
            for (byte, words) in self.words.chunks_exact_mut(8).enumerate() {
                let mut matrix = 0;
                for (axis, values) in axes.iter().enumerate() {
                    matrix |= u64::from((values[at] >> (8 * byte)) as u8) << (8 * axis);
                }
                let turned = turn(matrix);
                for (level, word) in words.iter_mut().enumerate() {
                    let bits = (turned >> (8 * level) & 0xff) << (8 * group);
                    *word = if group == 0 { bits } else { *word | bits };
                }
            }
        }
        &self.words[..self.levels]
    }
}

/// Transposes an 8x8 bit matrix, whose rows are bytes.
#[inline]
fn turn(mut matrix: u64) -> u64 {
    let mut swap = (matrix ^ matrix >> 7) & 0x00aa_00aa_00aa_00aa;
    matrix ^= swap ^ swap << 7;
    swap = (matrix ^ matrix >> 14) & 0x0000_cccc_0000_cccc;
    matrix ^= swap ^ swap << 14;
    swap = (matrix ^ matrix >> 28) & 0x0000_0000_f0f0_f0f0;
    matrix ^ swap ^ swap << 28
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_hold_the_same_bits(point in prop::collection::vec(any::<u32>(), 1..=64), levels in 1usize..=32) {
            let axes: Vec<&[u32]> = point.iter().map(std::slice::from_ref).collect();
            let mut words = LevelWords::new(axes.len(), levels);
            for (level, &word) in words.of(&axes, 0).iter().enumerate() {
                for (axis, coordinate) in point.iter().enumerate() {
                    prop_assert_eq!(word >> axis & 1, u64::from(coordinate >> level & 1));
                }
                prop_assert_eq!(word.unbounded_shr(point.len() as u32), 0);
            }
        }
    }
}
