//! Randomness of the servers' fuzz tests: a small random generator, and what it does to bytes.
//!
//! They run a second by default, longer with ALLUVIA_TEST_SECONDS; the seed is printed and can be given as ALLUVIA_TEST_SEED.

use std::time::Duration;

/// What it draws depends on the seed alone.
pub struct Random(u64);

impl Random {
    /// With the seed of the environment, or one of its own; and for how long to draw.
    pub fn of_environment() -> (Random, Duration) {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let seed = number("ALLUVIA_TEST_SEED").unwrap_or_else(|| u64::from(std::process::id()) | 1);
        println!("ALLUVIA_TEST_SEED={seed}");
        (Random(seed), Duration::from_secs(number("ALLUVIA_TEST_SECONDS").unwrap_or(1)))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below the bound.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound as u64) as usize
    }

    /// One of them.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// Changes a byte, cuts the end off, leaves a part out, or says one twice.
    pub fn damage(&mut self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let at = self.below(bytes.len());
        let end = (at + 1 + self.below(64)).min(bytes.len());
        match self.below(5) {
            0 => bytes[at] = self.number() as u8,
            1 => bytes[at] ^= 1 << self.below(8),
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..end)),
            _ => {
                let part = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, part));
            }
        }
    }
}
