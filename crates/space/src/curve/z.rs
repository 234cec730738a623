//! Z order: the bits of all axes interleaved, the first axis highest within a level.

use super::boxes::Walk;

/// The key of a point given as one word of axis bits per level, finest first.
pub(super) fn encode(active: &[u64], words: &[u64]) -> u128 {
    let mut key = 0;
    for (&active, &word) in active.iter().zip(words).rev() {
        let mut left = active;
        while left != 0 {
            let axis = left.trailing_zeros();
            key = key << 1 | u128::from(word >> axis & 1);
            left &= left - 1;
        }
    }
    key
}

/// Takes the known bits of a key apart.
pub(super) fn walk(axes: u32, active: &[u64], walk: &mut Walk) {
    for &active in active.iter().rev() {
        for axis in (0..axes).filter(|axis| active >> axis & 1 == 1) {
            let Some(bit) = walk.next_bit() else { return };
            walk.halve(axis as usize, bit == 1);
        }
    }
}
