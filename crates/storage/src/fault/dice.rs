//! Chance that a seed decides: the same seed and place give the same numbers on every machine, for ever.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
#[derive(Clone, Debug)]
pub(super) struct Dice {
    state: u64,
}

impl Dice {
    /// The numbers of `seed` for one `place`: a file, a sector. Places do not influence each other.
    pub(super) fn new(seed: u64, place: u64) -> Dice {
        let mut dice = Dice { state: seed };
        let mixed = dice.next();
        Dice { state: mixed ^ place.wrapping_mul(0xD6E8_FEB8_6659_FD93) }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// A number below `bound`, which is not 0. Biased by less than 2^-32 for the small bounds of tests.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is a number below the bound");
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::Dice;

    #[test]
    fn a_seed_means_the_same_for_ever() {
        let mut dice = Dice::new(7, 3);
        let numbers: Vec<u64> = (0..8).map(|_| dice.below(100)).collect();
        assert_eq!(numbers, [15, 80, 61, 35, 39, 33, 82, 4]);
    }
}
