//! Codes mixed so that they are evenly spread, and back.
//!
//! Clients choose keys, and codes of short keys are the keys themselves. A Feistel network (Luby and Rackoff, 1988) of four rounds
//! under a seed of the index's own makes of a code another one of as many bits. It is a permutation: what differs stays different, so the
//! bits that say where an entry stands need not be kept in it (Knuth, The Art of Computer Programming 3, section 6.4, exercise 13:
//! quotients).

use alluvia_space::KeyCode;
use std::hash::{BuildHasher, RandomState};

const ROUNDS: usize = 4;
/// Odd, without a pattern: the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// A permutation of codes.
#[derive(Clone, Debug)]
pub(super) struct Scramble {
    /// Of each of the two halves: 16, 32 or 64.
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Scramble {
    /// Of codes that have at most so many bits.
    pub(super) fn new(code_bits: u32) -> Scramble {
        let half_bits = match code_bits {
            0..=32 => 16,
            33..=64 => 32,
            _ => 64,
        };
        let random = RandomState::new();
        Scramble { half_bits, keys: std::array::from_fn(|round| random.hash_one(round)) }
    }

    /// How many bits its numbers have.
    pub(super) fn bits(&self) -> u32 {
        2 * self.half_bits
    }

    /// A code that has at most [`Scramble::bits`] bits, mixed.
    pub(super) fn mix(&self, code: KeyCode) -> u128 {
        let (mut left, mut right) = self.halves(code);
        for key in self.keys {
            (left, right) = (right, left ^ self.round(right, key));
        }
        self.joined(left, right)
    }

    /// The code of which something was mixed.
    pub(super) fn unmix(&self, mixed: u128) -> KeyCode {
        let (mut left, mut right) = self.halves(mixed);
        for key in self.keys.into_iter().rev() {
            (left, right) = (right ^ self.round(left, key), left);
        }
        self.joined(left, right)
    }

    fn halves(&self, number: u128) -> (u64, u64) {
        debug_assert!(self.bits() == 128 || number >> self.bits() == 0, "a code has no more bits than its key");
        ((number >> self.half_bits) as u64, number as u64 & self.mask())
    }

    fn joined(&self, left: u64, right: u64) -> u128 {
        u128::from(left) << self.half_bits | u128::from(right)
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.half_bits)
    }

    /// The product's halves together: every bit of the result hangs on every bit of the half.
    fn round(&self, half: u64, key: u64) -> u64 {
        let product = u128::from(half ^ key) * u128::from(FACTOR);
        let folded = (product >> 64) as u64 ^ product as u64;
        (folded ^ folded >> 32) & self.mask()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_mixed_comes_back(code: u128, bits in 1u32..=128) {
            let code = code >> (128 - bits);
            let scramble = Scramble::new(bits);
            let mixed = scramble.mix(code);
            prop_assert_eq!(scramble.unmix(mixed), code);
            prop_assert!(scramble.bits() == 128 || mixed >> scramble.bits() == 0);
        }
    }

    /// Keys that follow one another, and those that differ in high bits alone, are spread as if they were drawn.
    #[test]
    fn neighbours_are_spread() {
        for bits in [32, 64, 128] {
            let scramble = Scramble::new(bits);
            for step in [0, bits - 14] {
                let mut counts = [0u32; 256];
                (0..1u128 << 14).for_each(|key| counts[(scramble.mix(key << step) & 255) as usize] += 1);
                // 64 are awaited, with a deviation of 8.
                assert!(counts.iter().all(|count| (16..=120).contains(count)), "{bits} bits: {counts:?}");
            }
        }
    }
}
